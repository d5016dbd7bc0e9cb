"""The places where a graph does one thing or another, by what it computes there: what feeds are to reach."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from gdsurgeon.analysis.traversal.control_flow import control_flow_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.graph.constants import constant, constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import EXIT, IDENTITY, IFS, LOOP_COND, TABLE_INITIALIZERS
from gdsurgeon.proof.models.coverage import Channels, Lookup, Loop, Place, Places
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.trial import nodes_of

MOST_PLACES = 256
"""Places of a kind that are looked at: what is computed there is held in memory."""
_SIGN = ("Relu", "Elu", "Selu", "LeakyRelu", "Abs", "Sign", "Softplus")
_TRUTH = ("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr", "LogicalNot")
_CHOICE = ("Select", "SelectV2", "Where", *IFS, "Switch", "RefSwitch")
_RECTIFIERS = ("Relu", "Relu6")
_GATHERS = ("Gather", "GatherV2")
_FINDS = ("LookupTableFind", "LookupTableFindV2")


def places_of(graph: Graph, settings: Settings) -> Places:
    """The places of GRAPH that can be looked at in a run: not those in functions, and of those in loops the loops."""
    found = Places(
        list(islice(_sides(graph), MOST_PLACES)),
        list(islice(_loops(graph), MOST_PLACES)),
        list(islice(_lookups(graph), MOST_PLACES)),
        list(islice(_channels(graph), MOST_PLACES)),
    )
    nodes = nodes_of(found.tensors)
    fetched = {parse_tensor(tensor).node for tensor in plan_with(settings, graph, nodes).fetches} if nodes else set()

    def is_fetched(*tensors: str) -> bool:
        return all(parse_tensor(tensor).node in fetched for tensor in tensors)

    return Places(
        [place for place in found.sides if is_fetched(place.tensor)],
        [loop for loop in found.loops if is_fetched(loop.tensor)],
        [lookup for lookup in found.lookups if is_fetched(*filter(None, (lookup.tensor, lookup.keys)))],
        [channels for channels in found.channels if is_fetched(channels.tensor)],
    )


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


def _loops(graph: Graph) -> Iterator[Loop]:
    top = topology_of(graph)
    conditions = top.with_ops((LOOP_COND,))
    if not conditions:
        return
    flow, consumers = control_flow_of(graph), top.consumers()
    for number in conditions:
        ends = (end for switch in consumers[number] for end in consumers[switch] if top.op(end) in EXIT)
        end = next((end for end in ends if flow.runs_once(end)), None)
        if end is not None:
            yield Loop(top.name(number), top.name(end))


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
        read = node.inputs[0]
        form = read.node.plain_attr("data_format")
        yield Channels(node.name, read.name, 1 if form == b"NCHW" else -1)


def _origin(node: Node) -> Node:
    """What NODE passes on, or itself."""
    while node.op in IDENTITY:
        node = node.inputs[0].node
    return node
