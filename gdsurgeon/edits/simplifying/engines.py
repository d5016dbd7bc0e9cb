"""Graphs for other engines, and which ops simplify can remove."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.analysis.queries.compatibility import LackingOp
from gdsurgeon.analysis.queries.constants import values_of
from gdsurgeon.analysis.traversal.order import topological_order
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.edits.simplifying.functions import DECIDABLE
from gdsurgeon.edits.simplifying.graph_view import CHECKS
from gdsurgeon.errors import EditError, UsageError, quoted
from gdsurgeon.graph.constants import constant_header, raw_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import DTYPES, element_size
from gdsurgeon.ops.kinds import CALLS, COLOCATION_ATTR, MERGE, READS_SHAPE, SWITCH
from gdsurgeon.runtime.base import MAX_GRAPH_BYTES
from gdsurgeon.text import nearest, suggestion
from gdsurgeon.wire.write import read_chunks

ENGINES = ("opencv",)
"""The engines whose requirements are known.

OpenCV's importer (modules/dnn/src/tensorflow, 4.14) reads only the stored elements of a constant, even if the last one
fills the rest. It removes the constants of a matched pattern, even if other nodes read them. It recognizes the
computation of a shape by its pattern, which partly folded constants destroy.
"""


def left_out(engine: str, *, has_shapes: bool) -> tuple[str, ...]:
    """Returns the passes that are not run for an engine; `has_shapes`: whether all input shapes are fixed.

    Raises:
        UsageError: `engine` is neither one of `ENGINES` nor ''.
    """
    if not engine:
        return ()
    if engine not in ENGINES:
        near = nearest(engine, ENGINES)
        message = f"{quoted(engine)} is not a known engine.{suggestion(near)}"
        raise UsageError(message, code="no-such-engine", value=engine, near=near)
    return ("equal-nodes",) if has_shapes else ("equal-nodes", "shapes")


def spelt_out(graph: Graph) -> Intent:
    """Makes each constant store all its elements, and gives each consumer its own copy."""
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
            graph.set_attr(copy, COLOCATION_ATTR, None)  # other engines ignore it
            graph.set_controls(copy, node.controls)
            graph.set_slots({user: {slot: copy.output}})
            intent.added.append(copy.name)
            intent.rewired.append(Rewired(user.name, slot, node.name, copy.name))
    return intent


def check_room(graph: Graph) -> None:
    """Raises EditError if the separate constants are larger than a GraphDef can hold."""
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
        raise EditError(message, code="too-large", bytes=total, most=MAX_GRAPH_BYTES)


def _whole(node: Node) -> bytes | None:
    """Returns the serialized AttrValue of a constant with all its elements; None if it has them, or has no numbers."""
    header = constant_header(node)
    dtype = DTYPES.get(header.dtype) if header is not None else None
    if header is None or dtype is None or not dtype.size or header.dims is None or min(header.dims, default=0) < 0:
        return None
    if header.content_bytes or header.values >= header.elements:
        return None
    return raw_value(header.dtype, header.dims, read_chunks(values_of(node).chunks())).SerializeToString()


HANDING_ON = CHECKS | frozenset("Identity IdentityN PreventGradient Snapshot StopGradient".split())
"""Ops that are removed if other nodes read them."""
_MAY_GO = HANDING_ON | CALLS | MERGE | SWITCH | DECIDABLE.keys() | {"RandomUniform"}
"""Ops that may be removed: calls are inlined, conditionals decided, dropout removed."""


def is_read(graph: Graph, lacking: LackingOp) -> bool:
    """Returns whether a node with this op has consumers, or is in a function; an output must stay."""
    return any(place.function or any(graph.users(graph[place.node])) for place in lacking.first)


def may_all_go(graph: Graph, lacking: Iterable[LackingOp]) -> bool:
    """Returns whether simplify may remove all nodes with these ops."""
    staying = [each for each in lacking if each.op not in _MAY_GO or not is_read(graph, each)]
    if any(place.function for each in staying for place in each.first):
        return False
    topology = topology_of(graph)
    computed = bytearray(topology.size)
    for number in topological_order(topology) if staying else ():
        op = topology.op(number)
        if op == "Const" or op in READS_SHAPE:
            continue
        definition = graph.op_def(op)
        reads = topology.data_producers(number)
        computed[number] = not reads or definition is None or definition.is_stateful or any(computed[p] for p in reads)
    return not any(computed[number] for number in topology.with_ops(each.op for each in staying))
