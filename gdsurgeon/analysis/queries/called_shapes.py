"""The shapes of what functions are called with, as far as these are called once."""

from __future__ import annotations

from collections import Counter

from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import CALLS


def called_shapes(graph: Graph) -> dict[str, list[Shape]]:
    """The shapes of the arguments of each function that one call calls, from the graph inwards, by its name."""
    library = graph.functions
    called = [node.attr["f"].func.name for function in library for node in function.node_def if node.op in CALLS]
    called += [_called(node) for node in graph.nodes() if node.op in CALLS]
    counts = Counter(called)
    out: dict[str, list[Shape]] = {}
    pending: list[tuple[Graph, dict[Output, Shape]]] = [(graph, {})]
    while pending:
        caller, given = pending.pop()
        calls = [node for node in caller.nodes() if node.op in CALLS and counts[_called(node)] == 1]
        shapes = infer_shapes(caller, given, wanted=[read for node in calls for read in node.inputs]) if calls else None
        for node in calls:
            name = _called(node)
            if name in out or name not in library or shapes is None:
                continue
            out[name] = [shapes.shape(read) for read in node.inputs]
            try:
                body = Body(graph, name, {}, lenient=True)
            except EditError:
                continue
            pending.append((body.graph, given_shapes(body, out)))
    return out


def given_shapes(body: Body, called: dict[str, list[Shape]]) -> dict[Output, Shape]:
    """What is known of the shapes of the arguments of BODY, where it is CALLED."""
    shapes = called.get(body.name, [])
    pairs = zip(body.arguments, shapes, strict=False)
    return {argument.output: shape for argument, shape in pairs if shape is not None}


def _called(node: Node) -> str:
    value = node.attr("f")
    return "" if value is None else value.func.name
