"""Which nodes draw: those that are random or call what is, save what a decided predicate keeps from running."""

from __future__ import annotations

from collections.abc import Mapping

from gdsurgeon.analysis.queries.function_usage import functions_of, may_call
from gdsurgeon.analysis.queries.side_effects import ops_in_functions
from gdsurgeon.analysis.traversal.decided import decided, untaken
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.errors import EditError
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.kinds import CALLED, IFS, WHILES, is_random

MOST_CALLS = 100
"""Calls inside one another that are looked into; what lies deeper is believed to draw."""
_Arguments = tuple[bool | None, ...]
"""Of the arguments of a function, those that are decided."""


def drawing_nodes(graph: Graph) -> list[int]:
    """The numbers of the nodes of GRAPH that draw, themselves or in a function, whatever the graph is fed."""
    return _Search().drawing(graph, {}, 0)


class _Search:
    def __init__(self) -> None:
        self._known: dict[tuple[str, _Arguments], bool] = {}

    def drawing(self, graph: Graph, known: Mapping[int, bool], depth: int) -> list[int]:
        """Returns the random nodes of `graph`; `known` holds the conditions whose value its caller determines."""
        topology = topology_of(graph)
        ops = {op: is_random(op) for op in topology.ops() if is_random(op) or may_call(graph, op)}
        found = topology.with_ops(ops)
        dead = untaken(topology, known) if found else ()
        found = [number for number in found if not dead[number]]
        return [n for n in found if ops[topology.op(n)] or self._draws_inside(topology, n, known, depth)]

    def _draws_inside(self, topology: Topology, number: int, known: Mapping[int, bool], depth: int) -> bool:
        node = topology.node(number)
        if not any(map(is_random, ops_in_functions(node))):
            return False
        attrs, first = CALLED.get(node.op, ((), 0))
        arguments = [decided(topology, producer, known) for producer in topology.data_producers(number)]
        names = functions_of(node)
        if node.op in IFS and arguments and arguments[0] is not None:
            taken = node.attr(attrs[not arguments[0]])
            names = [taken.func.name] if taken is not None else names
        # The values that a loop forwards differ in each iteration.
        passed = () if node.op in WHILES else tuple(arguments[first:])
        return any(self._function_draws(topology.graph, name, passed, depth) for name in names)

    def _function_draws(self, graph: Graph, name: str, passed: _Arguments, depth: int) -> bool:
        if (name, passed) not in self._known:
            self._known[name, passed] = False  # where it calls itself that says nothing new
            self._known[name, passed] = depth >= MOST_CALLS or self._body_draws(graph, name, passed, depth + 1)
        return self._known[name, passed]

    def _body_draws(self, graph: Graph, name: str, passed: _Arguments, depth: int) -> bool:
        try:
            body = Body(graph, name)
        except EditError:
            return True  # each call says what it is
        topology = topology_of(body.graph)
        pairs = zip(body.arguments, passed, strict=False)
        known = {topology.id_of(argument): value for argument, value in pairs if value is not None}
        return bool(self.drawing(body.graph, known, depth))
