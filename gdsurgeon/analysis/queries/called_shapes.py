"""The shapes of function arguments, if all calls agree on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gdsurgeon.analysis.queries.usage import calling_nodes
from gdsurgeon.analysis.shapes.arithmetic import agreed
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import CALLED, LOWERED, WHILES

_HAND_OVER = LOWERED & CALLED.keys()
"""Ops that pass their inputs unchanged as arguments; BatchFunction changes them."""


def called_shapes(graph: Graph, *, use_stated: bool = True, others: Collection[str] = ()) -> dict[str, list[Shape]]:
    """The shapes of the arguments of each function that is called, from the graph inwards, by its name.

    The values that a loop passes from one iteration to the next count as a call. If too little is known about the
    calls of a function, it has no shapes. While calls are found, the shapes of a function only become less exact, so
    the search ends.

    Args:
        graph: with its library.
        use_stated: use shapes stated in attrs, and those that a function states for its arguments if its calls do not,
            and read functions as far as possible; otherwise the result holds for every run.
        others: functions that may have further callers, with their arguments.
    """
    calls = _Calls(graph, use_stated)
    for name in others:
        calls.take(name, ())
    calls.look(graph, {}, ())
    while calls.pending:
        calls.enter(calls.pending.pop())
    return calls.found


def given_shapes(body: Body, called: Mapping[str, Sequence[Shape]]) -> dict[Output, Shape]:
    """What is known of the shapes of the arguments of BODY, where it is CALLED."""
    shapes = called.get(body.name, [])
    pairs = zip(body.arguments, shapes, strict=False)
    return {argument.output: shape for argument, shape in pairs if shape is not None}


class _Calls:
    """The calls that have been found.

    Attributes:
        found: the shapes of function arguments on which all calls so far agree.
        pending: the functions to examine, some of them again.
    """

    def __init__(self, graph: Graph, use_stated: bool) -> None:
        self._graph, self._use_stated = graph, use_stated
        self.found: dict[str, list[Shape]] = {}
        self.pending: list[str] = []
        self._turns: dict[str, dict[str, None]] = {}  # what takes the results of a function, which a loop turns round

    def take(self, name: str, shapes: Sequence[Shape]) -> None:
        """Notes a call of the function NAME with SHAPES; none: nothing is known of them."""
        known = self.found.get(name)
        now = list(shapes) if known is None else []
        if known is not None and len(known) == len(shapes):
            now = [agreed(pair) for pair in zip(known, shapes, strict=True)]
        if now != known and name in self._graph.functions:
            self.found[name] = now
            self.pending.append(name)

    def enter(self, name: str) -> None:
        """Looks at what a function calls, called as it is known to be."""
        try:
            body = self._body(name)
        except EditError:
            library = self._graph.functions
            for other in (*library.reachable(library.calls(name)), *self._turns.get(name, ())):
                self.take(other, ())
            return
        given = given_shapes(body, self.found) if self._use_stated else {}
        results = self.look(body.graph, given, [result.output for result in body.results])
        for other in self._turns.get(name, ()):
            self.take(other, results)

    def _body(self, name: str) -> Body:
        if self._use_stated:
            return Body(self._graph, name, {}, lenient=True)
        return Body(self._graph, name, shapes=self.found[name])

    def look(self, caller: Graph, given: dict[Output, Shape], asked: Sequence[Output]) -> list[Shape]:
        """Notes what a graph calls; returns the shapes of the tensors ASKED."""
        calls = list(calling_nodes(caller))
        if not calls and not asked:
            return []
        wanted = [*asked, *(read for node, _ in calls for read in node.inputs)]
        shapes = infer_shapes(caller, given, use_stated=self._use_stated, wanted=wanted)
        for node, names in calls:
            called, first = _called(node)
            handed = [shapes.shape(read) for read in node.inputs[first:]]
            for name in names:
                self.take(name, handed if name in called else ())
            if node.op in WHILES:
                self._turn(node, called)
        return [shapes.shape(output) for output in asked]

    def _turn(self, loop: Node, called: Iterable[str]) -> None:
        """Notes that functions are called with what the body of a loop returns."""
        value = loop.attr("body")
        if value is None:
            return
        takers = self._turns.setdefault(value.func.name, {})
        if not takers.keys() >= {*called}:
            takers |= dict.fromkeys(called)
            self.pending += [value.func.name] if value.func.name in self.found else []


def _called(node: Node) -> tuple[list[str], int]:
    """The functions that take the inputs of a node as they are, and the first input that is an argument."""
    if node.op in node.graph.functions:
        return [node.op], 0
    keys, first = CALLED[node.op] if node.op in _HAND_OVER else ((), 0)
    found: list[str] = []
    for key in keys:
        value = node.attr(key)
        if value is not None:
            found += [func.name for func in (value.list.func if value.HasField("list") else [value.func])]
    return found, first
