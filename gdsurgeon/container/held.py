"""Which objects of a SavedModel the nodes of its graph stand for: variables, tables, assets and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gdsurgeon.container.meta_graph import MetaGraph
from gdsurgeon.container.objects import ObjectGraph, SignatureFunction
from gdsurgeon.errors import EditError, InputError, quoted
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.serving import Served
from gdsurgeon.ops.kinds import CALLS, COLOCATION_ATTR


def held_nodes(meta: MetaGraph) -> Mapping[str, int]:
    """The objects that nodes of META's file stand for, by the nodes' names."""
    if meta.held is None:
        meta.held = _held_nodes(meta)
    return meta.held


def _held_nodes(meta: MetaGraph) -> dict[str, int]:
    graph, objects = meta.graph.pristine(), ObjectGraph(meta.around.object_graph_def)
    out = objects.held(nodes_of(graph, CALLS.__contains__))
    for key, function in objects.signatures.items():
        if key in meta.signatures and function.name in graph.functions:
            try:
                out |= held_by(graph, meta.signatures[key], function)
            except (Unlike, EditError, InputError):
                pass  # the graph calls the function, so that what it is given there is known; or it cannot be read
    return out


def nodes_of(graph: Graph, is_wanted: Callable[[str], bool]) -> Iterator[Node]:
    """The nodes of a file whose ops are wanted; the others are not read."""
    table = graph.store.table
    wanted = {number for number, op in enumerate(table.op_names) if is_wanted(op)}
    return (graph[table.names[row]] for row, number in enumerate(table.ops) if number in wanted)


class Unlike(Exception):
    """The nodes of a signature are not those of its function; the text says where."""


def held_by(graph: Graph, served: Served, function: SignatureFunction) -> dict[str, int]:
    """Compares the nodes of `graph` that compute `served` with those of `function`, which computes the same.

    Returns:
        The nodes whose values the function captures, and the objects that it gets them from.

    Raises:
        Unlike: they are not the same, node by node.
    """
    body = Body(graph, function.name)
    inputs = [graph.tensor(text) for _, text in sorted(served.inputs.items())]
    outputs = [graph.tensor(text) for _, text in sorted(served.outputs.items())]
    places = {node: place for place, node in enumerate(body.arguments)}
    if len(outputs) != len(body.results) or len(places) != len(inputs) + len(function.bound):
        raise Unlike(f"{quoted(function.name)} has a different number of arguments or results")
    held: dict[str, int] = {}
    pending = list(zip(outputs, (result.inputs[0] for result in body.results), strict=True))
    seen = set(pending)
    while pending:
        mine, theirs = pending.pop()
        place = places.get(theirs.node)
        if place is not None and place >= len(inputs):
            bound = function.bound[place - len(inputs)]
            if held.setdefault(mine.node.name, bound) != bound:
                raise Unlike(f"{quoted(mine.node.name)} refers to two different objects")
        elif place is not None or mine in inputs:
            if place is None or mine != inputs[place]:
                raise Unlike(f"{quoted(mine.name)} is not argument {place} of the function")
        else:
            _check_alike(mine, theirs, body.graph)
            more = [pair for pair in zip(mine.node.inputs, theirs.node.inputs, strict=True) if pair not in seen]
            seen.update(more)
            pending += more
    return held


def _check_alike(mine: Output, theirs: Output, body: Graph) -> None:
    """Raises Unlike where MINE, a tensor of the graph, is not what THEIRS, of BODY, is."""
    a, b = mine.node, theirs.node
    same = mine.index == theirs.index and (a.op, a.device, len(a.inputs)) == (b.op, b.device, len(b.inputs))
    if not same or _attrs(a) != _attrs(b):
        raise Unlike(f"{quoted(mine.name)} differs from {quoted(theirs.name)}")
    waits = {control.name for control in a.controls if control.name in body}
    if waits != {control.name for control in b.controls}:
        raise Unlike(f"{quoted(a.name)} and {quoted(b.name)} have different control inputs")


def _attrs(node: Node) -> dict[str, object]:
    return {key: value for key, value in node.attrs() if key != COLOCATION_ATTR}
