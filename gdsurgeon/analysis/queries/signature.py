"""The inputs and outputs of a graph."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.analysis.shapes.arithmetic import stated_shape, typed
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import public
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.records import forms_of
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import RESOURCE, VARIANT, base_dtype
from gdsurgeon.ops.kinds import ENTER, MERGE, PLACEHOLDERS, SWITCH, VARIABLES

if TYPE_CHECKING:
    from gdsurgeon.analysis.traversal.control_flow import ControlFlow

MOST_READ = 1000
"""The maximum number of possible outputs that are read one by one; of more, only different ones are read."""
_NOT_SERVED = PLACEHOLDERS | {"Const", "Print"}


class TensorInfo(NamedTuple):
    """A tensor of the signature. `dtype` 0 and `shape` None are unknown."""

    name: str
    dtype: int
    shape: Shape
    op: str

    @property
    def spelt(self) -> str:
        """``float32 [?,3]``."""
        return typed(self.dtype, self.shape)


class Signature(NamedTuple):
    """The inputs and outputs of a graph."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    def __repr__(self) -> str:
        return f"<Signature {_shown(self.inputs)} -> {_shown(self.outputs)}>"


def _shown(tensors: Sequence[TensorInfo]) -> str:
    shown = ", ".join(f"{tensor.name} {tensor.spelt}" for tensor in tensors[:MOST_SHOWN])
    return f"({shown}{f', ... {len(tensors):,} in all' if len(tensors) > MOST_SHOWN else ''})"


MOST_SHOWN = 5
"""The maximum number of inputs, and of outputs, that the `repr` of a signature shows."""


def input_nodes(graph: Graph) -> list[Node]:
    """Returns the placeholders, in file order. With signatures, returns the placeholders and variables they list."""
    topology = topology_of(graph)
    taken = _named(graph, "inputs")
    if taken is None:
        return [topology.node(number) for number in topology.with_ops(PLACEHOLDERS)]
    return [node for number in topology.with_ops(PLACEHOLDERS | VARIABLES) if (node := topology.node(number)) in taken]


def _named(graph: Graph, side: str) -> dict[Node, None] | None:
    """Returns the nodes of the tensors that the signatures of a model list as `side`: ``inputs`` or ``outputs``.

    Returns None if `graph` is not part of a model with signatures.
    """
    serving = serving_of(graph)
    if serving is None or not serving.called:
        return None
    tensors = [text for served in serving.called.values() for text in getattr(served, side).values()]
    found = (graph.find(parse_tensor(text).node) for text in tensors)
    return dict.fromkeys(node for node in found if node is not None)


def output_nodes(graph: Graph) -> list[Node]:
    """Returns the output nodes: nodes with outputs but without consumers.

    Unused constants and placeholders are not outputs, unless the graph has only constants and inputs; nor are nodes
    without outputs (NoOp, Assert). If there are other outputs, nodes that cannot be fetched are not outputs either
    (resources and variants, nodes in a while loop or in a branch that may not be taken), nor the join of a conditional
    that serves only control dependencies. The outputs of a function's body are its results; those of a model with
    signatures are the outputs of the signatures.
    """
    if graph.is_body:
        return [node for node in graph.ends if node.inputs]
    served = _named(graph, "outputs")
    if served is not None:
        return list(served)
    return [*map(topology_of(graph).node, graph.derived(_output_nodes)[0])]


def _output_nodes(graph: Graph) -> tuple[array[int], array[int]]:
    """Returns the output nodes of a graph without signatures, and for each a node that has equal outputs."""
    topology = topology_of(graph)
    unread = topology.unread()
    numbers = array("I", (n for n in unread if topology.op(n) not in _NOT_SERVED))
    alike = _alike(topology, numbers)
    dtypes = {n: topology.node(n).output_dtypes for n in set(alike)}
    served = {n for n, found in dtypes.items() if found != []}
    if not served and len(topology.with_ops(PLACEHOLDERS | {"Const"})) == sum(1 for _ in topology.numbers()):
        return (constants := array("I", (n for n in unread if topology.op(n) == "Const"))), constants
    flow, fetched = _flow(graph), {n for n in served if _can_be_fetched(None, n, dtypes[n])}
    pairs = zip(numbers, alike, strict=True)
    flags = [other in fetched and (flow is None or _can_be_fetched(flow, n, None)) for n, other in pairs]
    if not any(flags):
        flags = [other in served for other in alike]
    return array("I", compress(numbers, flags)), array("I", compress(alike, flags))


def _alike(topology: Topology, numbers: array[int]) -> array[int]:
    """Returns for each of `numbers` one of them with the same op and attrs: of many equal nodes, few are read."""
    if len(numbers) <= MOST_READ:
        return numbers
    flags, out = topology.flags(numbers), array("I", range(topology.size))
    for node in topology.graph.touched():
        flags[topology.id_of(node)] = 0
    first: dict[object, int] = {}
    for row, form in compress(enumerate(forms_of(topology.graph.source)), flags):
        out[row] = first.setdefault(form if isinstance(form, bytes) else row, row)
    return array("I", map(out.__getitem__, numbers))


def can_be_fetched(graph: Graph, node: Node) -> bool:
    """Returns whether a session can fetch the outputs of `node`: values that each run computes once."""
    return _can_be_fetched(_flow(graph), topology_of(graph).id_of(node), node.output_dtypes)


def _flow(graph: Graph) -> ControlFlow | None:
    """Returns the control flow of a graph; None if every node runs once."""
    if topology_of(graph).ops().isdisjoint(SWITCH | ENTER):
        return None
    from gdsurgeon.analysis.traversal.control_flow import control_flow_of  # few graphs need it

    return control_flow_of(graph)


def _can_be_fetched(flow: ControlFlow | None, number: int, dtypes: list[int] | None) -> bool:
    if dtypes and all(base_dtype(dtype) in (RESOURCE, VARIANT) for dtype in dtypes):
        return False
    if flow is None:
        return True
    op = flow.topology.op(number)
    is_waited_for = op in MERGE and flow.topology.users(number)
    return flow.runs_once(number) and op not in SWITCH and not is_waited_for


@public
def signature(graph: Graph) -> Signature:
    """Returns the inputs and outputs of `graph` with their dtypes and stated shapes."""
    return graph.derived(_signature)


def _signature(graph: Graph) -> Signature:
    touched = graph.touched()
    is_changed = graph.removed() or graph.functions.is_changed or any(node.is_rebuilt for node in touched)
    if touched and not is_changed and not graph.is_body and graph.pristine().store is graph.store:
        # Only names changed: the topology of the changed graph, a large part of the memory, is not needed.
        names = {node.base_name for node in touched}

        def now(tensor: TensorInfo) -> TensorInfo:
            is_touched = tensor.name.partition(":")[0] in names
            return tensor._replace(name=graph.spell_base_input(tensor.name)) if is_touched else tensor

        return Signature(*(tuple(map(now, side)) for side in signature(graph.pristine())))
    inputs = tuple(tensor_info(node.output) for node in input_nodes(graph))
    if graph.is_body or _named(graph, "outputs") is not None:
        return Signature(inputs, tuple(info for node in output_nodes(graph) for info in _tensors(node)))
    topology, (numbers, alike) = topology_of(graph), graph.derived(_output_nodes)
    known = {number: [info[1:] for info in _tensors(topology.node(number))] for number in set(alike)}
    found = ((topology.name(number), known[other]) for number, other in zip(numbers, alike, strict=True))
    outputs = ((format_input(name, i), *facts) for name, each in found for i, facts in enumerate(each))
    return Signature(inputs, tuple(map(TensorInfo._make, outputs)))


def _tensors(node: Node) -> list[TensorInfo]:
    """Returns the facts about all outputs of a node."""
    dtypes, op = node.output_dtypes or [0], node.op
    outputs = (Output(node, index) for index in range(len(dtypes)))
    return [TensorInfo(o.name, dtype, stated_shape(o), op) for o, dtype in zip(outputs, dtypes, strict=True)]


def tensor_info(output: Output) -> TensorInfo:
    """Returns the name, dtype, stated shape and op of a tensor."""
    return TensorInfo(output.name, output.dtype, stated_shape(output), output.node.op)


MOST_NODES = 50_000
"""The maximum number of nodes of a graph whose shapes are inferred only for display.

In larger graphs, inference takes longer than everything else.
"""


def inferred_signature(graph: Graph, stated: Signature) -> Signature:
    """Returns `stated`, the signature of `graph`, with inferred shapes for unknown ones.

    In a graph of more than `MOST_NODES` they stay unknown.
    """
    if all(info.shape is not None for info in (*stated.inputs, *stated.outputs)) or graph.node_count > MOST_NODES:
        return stated
    from gdsurgeon.analysis.shapes.inference import shape_of_tensor

    inputs = [node.output for node in input_nodes(graph)]
    outputs = [output for node in output_nodes(graph) for output in node.outputs]

    def known(info: TensorInfo, output: Output) -> TensorInfo:
        return info if info.shape is not None else info._replace(shape=shape_of_tensor(graph, output))

    return Signature(tuple(map(known, stated.inputs, inputs)), tuple(map(known, stated.outputs, outputs)))
