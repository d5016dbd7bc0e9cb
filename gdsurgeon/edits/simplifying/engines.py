"""What another engine wants of constants that TensorFlow does not: each element spelt out, each read once."""

from __future__ import annotations

from gdsurgeon.analysis.queries.constants import values_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.errors import EditError, UsageError, quoted
from gdsurgeon.graph.constants import constant_header, raw_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import DTYPES, element_size
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.runtime.base import MAX_GRAPH_BYTES
from gdsurgeon.text import nearest, suggestion
from gdsurgeon.wire.write import read_chunks

ENGINES = ("opencv",)
"""Those of which it is known what they want.

OpenCV's importer (modules/dnn/src/tensorflow, 4.14) reads of a constant the elements that are stored, which are not all
where the last one fills the rest; takes away the constants that a pattern of its own holds, whoever else reads them;
and knows what computes a shape by its pattern, of which a part that is constant leaves too little.
"""


def left_out(engine: str, *, has_shapes: bool) -> tuple[str, ...]:
    """The passes that are not done for ENGINE; HAS_SHAPES: whether inputs have one shape, and all shapes are constant.

    Raises:
        UsageError: it is none of `ENGINES`, nor ''.
    """
    if not engine:
        return ()
    if engine not in ENGINES:
        near = nearest(engine, ENGINES)
        message = f"{quoted(engine)} is not a known engine.{suggestion(near)}"
        raise UsageError(message, code="no-such-engine", facts={"value": engine, "near": near})
    return ("equal-nodes",) if has_shapes else ("equal-nodes", "shapes")


def spelt_out(graph: Graph) -> Intent:
    """Has each constant of GRAPH hold all its elements one by one, and be read by one input of one node."""
    topology = topology_of(graph)
    unique = graph.unique_names()
    intent = Intent()
    for number in list(topology.with_ops(("Const",))):
        node = topology.node(number)
        whole = _whole(node)
        if whole is not None:
            graph.set_attr(node, "value", whole)
            intent.changed.append(node.name)
        readers = dict.fromkeys(topology.node(user) for user in sorted(topology.users(number)))
        slots = [(user, slot) for user in readers for slot, read in enumerate(user.inputs) if read.node is node]
        for user, slot in slots[1:]:
            copy = graph.add_copy(unique(node.name), node, after=node)
            graph.set_attr(copy, COLOCATION_ATTR, None)  # what another engine does not ask for
            graph.set_controls(copy, node.controls)
            graph.set_slots({user: {slot: copy.output}})
            intent.added.append(copy.name)
            intent.rewired.append(Rewired(user.name, slot, node.name, copy.name))
    return intent


def check_room(graph: Graph) -> None:
    """Asks what constants that are read come to when they are spelt out. Raises EditError: no GraphDef holds that."""
    topology, total = topology_of(graph), 0
    for number in topology.with_ops(("Const",)):
        header = constant_header(topology.node(number))
        if header is not None and header.dims is not None and min(header.dims, default=0) >= 0:
            codes = (code for user in set(topology.users(number)) for code in topology.inputs(user))
            reads = sum(code >> Table.PORT_BITS == number for code in codes)
            total += header.elements * (element_size(header.dtype) or 0) * reads
    if total > MAX_GRAPH_BYTES:
        size = f"{total / 2**30:.2f} GiB, more than the 2 GiB of a GraphDef"
        message = f"separate copies of the constants for each consumer need {size}"
        raise EditError(message, code="too-large", facts={"bytes": total, "most": MAX_GRAPH_BYTES})


def _whole(node: Node) -> bytes | None:
    """The serialised AttrValue of a constant with all elements; None where it has these, or is none of numbers."""
    header = constant_header(node)
    dtype = DTYPES.get(header.dtype) if header is not None else None
    if header is None or dtype is None or not dtype.size or header.dims is None or min(header.dims, default=0) < 0:
        return None
    if header.content_bytes or header.values >= header.elements:
        return None
    return raw_value(header.dtype, header.dims, read_chunks(values_of(node).chunks())).SerializeToString()
