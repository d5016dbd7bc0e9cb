"""Coverage: what the feeds of a run reached in a graph.

Counted are both sides of comparisons, clips and choices, rows of constant tables, and channels of rectifiers. After
neuron coverage (Pei et al., DeepXplore, 2017).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import Json
from gdsurgeon.graph.constants import constant, constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import IDENTITY, IFS, TABLE_INITIALIZERS
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.subject import Feeds
from gdsurgeon.proof.trial import ORIGINAL, nodes_of
from gdsurgeon.runtime.tensor import Tensor

MOST_PLACES = 256
"""The limit on places of each kind: their tensors are held in memory."""
MOST_KEYS = 1 << 20
"""The limit on elements of the keys of one look-up."""
_RESULT = "coverage"
_SIGN = ("Relu", "Elu", "Selu", "LeakyRelu", "Abs", "Sign", "Softplus")
_TRUTH = ("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr", "LogicalNot")
_CHOICE = ("Select", "SelectV2", "Where", *IFS, "Switch", "RefSwitch")
_RECTIFIERS = ("Relu", "Relu6")
_GATHERS = ("Gather", "GatherV2")
_FINDS = ("LookupTableFind", "LookupTableFindV2")


class Place(NamedTuple):
    """A node with two behaviours: one if an element of `tensor` is below `limit`, one if it is above."""

    node: str
    tensor: str
    limit: float


class Lookup(NamedTuple):
    """A look-up in a constant: an embedding, or a table.

    Attributes:
        node: the node that looks up.
        tensor: the requested row numbers or keys.
        rows: the number of rows.
        keys: the tensor of a table's keys; '' for row numbers.
    """

    node: str
    tensor: str
    rows: int
    keys: str


class Channels(NamedTuple):
    """A rectifier: the node, its input tensor, and the axis of the channels."""

    node: str
    tensor: str
    axis: int


class Coverage(NamedTuple):
    """What one feed reached.

    Attributes:
        sides: for each place whether an element was below its limit, and whether one was above.
        rows: for each look-up the number of different rows that were requested.
        alive: for each rectifier one byte per channel, 1 if an element was above zero.
    """

    sides: dict[Place, tuple[bool, bool]]
    rows: dict[Lookup, int]
    alive: dict[str, bytes]

    @property
    def unreached(self) -> list[str]:
        """One phrase for each place of which a side was not reached: its node and that side."""
        words = {(True, False): "above", (False, True): "below", (False, False): "below or above"}
        return [f"{place.node} {words[sides]} {place.limit:g}" for place, sides in self.sides.items() if sides in words]

    @property
    def channels(self) -> tuple[int, int]:
        """The number of channels above zero, and of all channels."""
        return sum(map(sum, self.alive.values())), sum(map(len, self.alive.values()))

    def as_json(self) -> dict[str, Json]:
        """The coverage for reports."""
        missing = self.unreached
        alive, channels = self.channels
        return {
            "places": len(self.sides),
            "both_sides": len(self.sides) - len(missing),
            "unreached": list(missing),
            "rows": {lookup.node: {"there": lookup.rows, "asked": count} for lookup, count in self.rows.items()},
            "channels": {"there": channels, "alive": alive},
            "dead_channels": {node: found.count(0) for node, found in self.alive.items() if 0 in found},
        }


def coverage_of(executor: Executor, graph: Graph, fed: Feeds) -> Coverage:
    """Runs the original on the feeds `fed` and returns what they reached of `graph`.

    Nodes inside functions and loops are not counted.

    Raises:
        Refused: TensorFlow refuses the run.
    """
    found = Coverage({}, {}, {})
    sides, lookups = list(islice(_sides(graph), MOST_PLACES)), list(islice(_lookups(graph), MOST_PLACES))
    channels = list(islice(_channels(graph), MOST_PLACES))
    wanted = [*(place.tensor for place in sides), *(item.tensor for item in lookups), *(c.tensor for c in channels)]
    wanted += [lookup.keys for lookup in lookups if lookup.keys]
    plan = plan_with(executor.settings, graph, nodes_of(wanted)) if wanted else None
    fetched = {parse_tensor(tensor).node for tensor in plan.fetches} if plan is not None else set()
    tensors = [tensor for tensor in dict.fromkeys(wanted) if parse_tensor(tensor).node in fetched]
    if not tensors:
        return found
    at = {tensor: index for index, tensor in enumerate(tensors)}
    executor.wait(executor.run(ORIGINAL, _RESULT, fed, tensors))
    statistics = executor.statistics(_RESULT)
    for place in sides:
        if place.tensor in at:
            low, high = statistics[at[place.tensor]].minimum, statistics[at[place.tensor]].maximum
            found.sides[place] = low is not None and low < place.limit, high is not None and high > place.limit
    for lookup in lookups:
        if lookup.tensor in at and (not lookup.keys or lookup.keys in at):
            asked: set[object] = set()
            if statistics[at[lookup.tensor]].count <= MOST_KEYS and lookup.rows <= MOST_KEYS:
                known = _elements(executor.tensor(_RESULT, at[lookup.keys])) if lookup.keys else range(lookup.rows)
                asked = set(known).intersection(_elements(executor.tensor(_RESULT, at[lookup.tensor])))
            found.rows[lookup] = len(asked)
    rectifiers = [item for item in channels if item.tensor in at]
    above = executor.positive_channels(_RESULT, [(at[item.tensor], item.axis) for item in rectifiers])
    found.alive.update(zip((item.node for item in rectifiers), above, strict=True))
    executor.drop(_RESULT)
    return found


def _elements(tensor: Tensor) -> list[object]:
    return list(tensor.data) if isinstance(tensor.data, list) else list(tensor.numpy().reshape(-1).tolist())


def _with_ops(graph: Graph, ops: tuple[str, ...]) -> Iterator[Node]:
    top = topology_of(graph)
    return map(top.node, top.with_ops(ops))


def _sides(graph: Graph) -> Iterator[Place]:
    for node in _with_ops(graph, (*_SIGN, "Relu6", *_TRUTH, *_CHOICE)):
        if node.op == "Relu6":
            yield from (Place(node.name, node.inputs[0].name, limit) for limit in (0.0, 6.0))
        elif node.op in _SIGN:
            yield Place(node.name, node.inputs[0].name, 0.0)
        elif node.op in _TRUTH:
            yield Place(node.name, node.name, 0.5)
        else:
            slot = 1 if node.op in ("Switch", "RefSwitch") else 0
            yield Place(node.name, node.inputs[slot].name, 0.5)


def _lookups(graph: Graph) -> Iterator[Lookup]:
    for node in _with_ops(graph, _GATHERS):
        rows = constant_header(_origin(node.inputs[0].node))
        axis = constant(_origin(node.inputs[2].node)) if node.op == "GatherV2" else None
        is_by_rows = node.op == "Gather" or (axis is not None and axis.values == [0])
        if rows is not None and rows.dims and rows.dims[0] > 1 and is_by_rows:
            yield Lookup(node.name, node.inputs[1].name, rows.dims[0], "")
    keys = {
        node.inputs[0].node: node.inputs[1]
        for node in _with_ops(graph, tuple(TABLE_INITIALIZERS))
        if len(node.inputs) > 2
    }
    for node in _with_ops(graph, _FINDS) if keys else ():
        known = keys.get(node.inputs[0].node)
        found = constant_header(_origin(known.node)) if known is not None else None
        if known is not None and found is not None and found.elements > 0:
            yield Lookup(node.name, node.inputs[1].name, found.elements, known.name)


def _channels(graph: Graph) -> Iterator[Channels]:
    for node in _with_ops(graph, _RECTIFIERS):
        form = node.inputs[0].node.plain_attr("data_format")
        yield Channels(node.name, node.inputs[0].name, 1 if form == b"NCHW" else -1)


def _origin(node: Node) -> Node:
    """The node whose value `node` forwards, or `node` itself."""
    while node.op in IDENTITY:
        node = node.inputs[0].node
    return node
