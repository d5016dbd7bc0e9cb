"""The shapes of tensors, inferred without TensorFlow. A shape is stated only if it is correct for every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import chain, repeat
from typing import NamedTuple

from gdsurgeon.analysis.queries.usage import calling_nodes
from gdsurgeon.analysis.shapes import array_rules, math_rules
from gdsurgeon.analysis.shapes.arithmetic import (
    MOST_REMEMBERED,
    RULES,
    UNKNOWN,
    VALUE_RULES,
    Call,
    Misfit,
    Value,
    agreed,
    small_count,
)
from gdsurgeon.analysis.shapes.values import KEEPS_DTYPE, LIMITS, fitting
from gdsurgeon.analysis.traversal.order import Worklist, any_order, places_in
from gdsurgeon.analysis.traversal.topology import Topology, forward_walk, topology_of
from gdsurgeon.arguments import public
from gdsurgeon.errors import EditError, InputError
from gdsurgeon.graph.attrs import Shape, shape_of
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import CALLED, LOWERED, MERGE, STATED_SHAPES, WHILES

_REGISTERED = (array_rules, math_rules)  # importing them fills RULES
_LARGEST = (1 << 63) - 1
_NOT_STATED = (InputError, ArithmeticError, LookupError, TypeError, ValueError)
"""Exceptions that rules raise if too little is known about inputs, or if the attrs of a corrupt node have any kind."""


class Conflict(NamedTuple):
    """A node whose inputs contradict each other or its attrs: TensorFlow would not load it, or not run it."""

    node: Node
    text: str


Settle = Callable[[Call, Sequence[Shape], "str | None"], "tuple[Sequence[Shape], str | None]"]
"""Called for each node with a rule, with the shapes that the rule returns and the conflict of its inputs or None; its
result is used instead.
"""


_Known = tuple[Sequence[Shape], Sequence[Value], "int | None"]
"""The shapes and values of inputs or outputs, and the dtype of the first one if it is known."""
_NOTHING: _Known = (), (), None


class Shapes:
    """The known shapes and values of the tensors of a graph, inferred when they are requested.

    An op without a rule returns unknown shapes. A value that returns in a v1 while loop is unknown at the start of the
    loop. Nodes on an illegal cycle, and nodes after it, are unknown.

    Args:
        topology: of the graph.
        order: the nodes in topological order.
        places: for each node its place in that order, or -1.
        given, use_stated, settle: see `infer_shapes`.

    Attributes:
        conflicts: the contradictory nodes among those that were inferred.
    """

    def __init__(
        self,
        topology: Topology,
        order: Sequence[int],
        places: Sequence[int],
        given: Mapping[Output, Shape] | None = None,
        *,
        use_stated: bool = False,
        settle: Settle | None = None,
    ) -> None:
        self.topology, self.order, self.places = topology, order, places
        self.conflicts: list[Conflict] = []
        self._use_stated, self._settle = use_stated, settle
        self._is_known = bytearray(topology.size)
        self._outputs: dict[int, _Known] = {}  # by node
        self._results: dict[tuple[str, _Known], _Known] = {}  # by op and inputs, if no attr was read
        self._given: dict[int, dict[int, Shape]] = {}
        for output, shape in (given or {}).items():
            self._given.setdefault(topology.id_of(output.node), {})[output.index] = shape
        self._depends = forward_walk(topology, self._given) if self._given else bytearray(topology.size)

    def shape(self, output: Output) -> Shape:
        """Returns the shape of a tensor: -1 for an unknown dim, None for an unknown rank."""
        found = self._outputs.get(self._ask(output), _NOTHING)[0]
        return found[output.index] if output.index < len(found) else None

    def value(self, output: Output) -> Value:
        """Returns the elements of a small int32 or int64 tensor, row by row, None for unknown ones; or None."""
        found = self._outputs.get(self._ask(output), _NOTHING)[1]
        return found[output.index] if output.index < len(found) else None

    def _ask(self, output: Output) -> int:
        number = self.topology.id_of(output.node) if output.node.exists else -1
        if number >= 0:
            self._infer_upstream(number)
        return number

    def _infer_upstream(self, number: int) -> None:
        """Infers a node and, before it, its producers."""
        pending, topology, known, places = [number], self.topology, self._is_known, self.places
        bits, control = Table.PORT_BITS, Table.CONTROL_PORT
        while pending:
            number = pending.pop()
            if number < 0:  # its producers have been inferred
                self.infer(~number)
            elif not known[number] and places[number] >= 0:
                pending.append(~number)
                op = topology.op(number)
                for code in topology.inputs(number) if op in RULES else ():
                    is_open = code >= 0 and code & control != control and not known[code >> bits]
                    if is_open and not (op in MERGE and topology.is_loop_back(code >> bits, number)):
                        pending.append(code >> bits)

    def update(
        self, topology: Topology, order: Sequence[int], places: Sequence[int], edited: Iterable[int]
    ) -> list[int]:
        """Updates the shapes after an edit; returns the nodes with changed shapes.

        Args:
            topology: of the graph as it is now, with the same numbers for the same nodes.
            order: its nodes in topological order.
            places: for each node its place in that order; -1: it has none.
            edited: the nodes with changed inputs or a changed op, and perhaps other nodes.
        """
        self.topology, self.order, self.places = topology, order, places
        worklist = Worklist(order, places)
        worklist.add(number for number in edited if self._is_known[number])
        found: list[int] = []
        for number in worklist:
            before = self._outputs.pop(number, _NOTHING)
            self._is_known[number] = 0
            self._infer_upstream(number)
            if self._outputs.get(number, _NOTHING)[:2] != before[:2]:
                found.append(number)
                worklist.add(user for user in topology.users(number) if self._is_known[user])
        return found

    def infer(self, number: int) -> None:
        """Infers the outputs of a node from its inputs."""
        self._is_known[number] = 1
        op = self.topology.op(number)
        if op in RULES:
            self._apply_rules(number, op)
        elif self._use_stated and not self._depends[number]:
            with suppress(InputError):
                value = self.topology.node(number).attr(STATED_SHAPES)
                protos = value.list.shape if value is not None else ()
                self._outputs[number] = _clean(map(shape_of, protos)), (), None
        if number in self._given:
            given, (known, _, dtype) = self._given[number], self._outputs.get(number, _NOTHING)
            shapes = [*known, *[None] * (max(given) + 1 - len(known))]
            for index, shape in given.items():
                shapes[index] = shape
            self._outputs[number] = _clean(shapes) or known, (), dtype

    def _apply_rules(self, number: int, op: str) -> None:
        given = self._inputs(number, op)
        found = self._results.get((op, given))
        if found is None:
            call = Call(op, partial(self.topology.node, number), [*given[0]], [*given[1]])
            found = self._result(call, given[2])
            if self._settle is None and call.found is None:
                self._results[op, given] = found
        if found[0]:  # a node without known shapes has no known values either
            self._outputs[number] = found

    def _inputs(self, number: int, op: str) -> _Known:
        """Returns the shapes and values of the data inputs of a node, and the dtype of its first input if known."""
        bits, control = Table.PORT_BITS, Table.CONTROL_PORT
        inputs = self.topology.inputs(number)
        if op in MERGE:  # the input that closes a loop is unknown
            inputs = [-1 if self.topology.is_loop_back(code >> bits, number) else code for code in inputs]
        shapes: list[Shape] = []
        values: list[Value] = []
        for code in inputs:
            port = code & control
            if code < 0 or port != control:
                known, elements, _ = self._outputs.get(code >> bits, _NOTHING)
                shapes.append(known[port] if port < len(known) else None)
                values.append(elements[port] if port < len(elements) else None)
        is_first = inputs and not inputs[0] & control
        return tuple(shapes), tuple(values), self._outputs.get(inputs[0] >> bits, _NOTHING)[2] if is_first else None

    def _result(self, call: Call, dtype: int | None) -> _Known:
        """Returns the shapes and values of the outputs of a node, and the dtype of output 0 if values need it.

        `dtype` is that of the first input.
        """
        text: str | None = None
        shapes: Sequence[Shape] = ()
        try:
            shapes = RULES[call.op](call)
        except Misfit as misfit:
            shapes, text = misfit.shapes, str(misfit)
        except _NOT_STATED:
            pass
        if self._settle is not None:
            shapes, text = self._settle(call, shapes, text)
        if text is not None:
            self.conflicts.append(Conflict(call.node, text))
        shapes, rule = _clean(shapes), VALUE_RULES.get(call.op)
        if rule is None or {None}.issuperset(map(small_count, shapes)):
            return shapes, (), None
        call.results = shapes
        known = dtype if call.op in KEEPS_DTYPE and len(shapes) == 1 else None
        with suppress(*_NOT_STATED):
            dtypes = list(map(call.dtype, range(len(shapes)))) if known is None else [known]  # dtype() reads attrs
            values: Sequence[Value] = ()
            if not LIMITS.keys().isdisjoint(dtypes):
                with suppress(*_NOT_STATED):
                    values = rule(call)
                values = tuple(map(fitting, chain(values, repeat(None)), shapes, dtypes))
            return shapes, values, dtypes[0]
        return shapes, (), None


def _clean(shapes: Iterable[Shape]) -> Sequence[Shape]:
    """Returns `shapes`, with impossible dims as unknown; () if all of them are unknown."""
    clean = tuple(map(_possible, shapes))
    return clean if clean.count(None) < len(clean) else ()


@lru_cache(MOST_REMEMBERED)
def _possible(shape: Shape) -> Shape:
    """Returns `shape`, with impossible dims as unknown."""
    if shape is None or all(0 <= dim <= _LARGEST for dim in shape):
        return shape
    return tuple(dim if 0 <= dim <= _LARGEST else UNKNOWN for dim in shape)


@public
def infer_shapes(
    graph: Graph,
    given: Mapping[Output, Shape] | None = None,
    *,
    use_stated: bool = True,
    settle: Settle | None = None,
    wanted: Iterable[Output] | None = None,
) -> Shapes:
    """Infers the shapes of tensors, and the values from which shapes are computed.

    Linear in nodes and edges; weights are not read.

    Args:
        graph: is not changed.
        given: shapes that tensors should have, to try different inputs.
        use_stated: use ``_output_shapes`` attrs for ops without a rule; never for nodes that depend on a given tensor,
            where the attrs are stale.
        settle: may correct the shapes of a node before they are used.
        wanted: the requested tensors; only these and their inputs are inferred. By default all are.
    """
    topology = topology_of(graph)
    order = any_order(topology)
    out = Shapes(topology, order, places_in(order, topology.size), given, use_stated=use_stated, settle=settle)
    for number in order if wanted is None else ():
        out.infer(number)
    for output in wanted or ():
        out._ask(output)
    return out


def shape_of_tensor(graph: Graph, tensor: Output) -> Shape:
    """Returns the inferred shape of a tensor. Results are kept until the graph changes."""
    return graph.derived(_inferred_on_demand).shape(tensor)


def _inferred_on_demand(graph: Graph) -> Shapes:
    topology = topology_of(graph)
    order = any_order(topology)
    return Shapes(topology, order, places_in(order, topology.size), use_stated=True)


# -- functions ---------------------------------------------------------------------------------------------


_HAND_OVER = LOWERED & CALLED.keys()
"""Ops that pass their inputs unchanged as arguments; BatchFunction changes them."""


def called_shapes(graph: Graph, *, use_stated: bool = True) -> dict[str, list[Shape]]:
    """Returns the argument shapes of each function called by the graph, directly or indirectly, by function name.

    The values that a loop passes from one iteration to the next count as a call. If too little is known about the calls
    of a function, it has no shapes. While calls are found, the shapes of a function only become less exact, so the
    search ends.

    Args:
        graph: with its library.
        use_stated: use shapes stated in attrs, and those that a function states for its arguments if its calls do not,
            and read functions with unknown parts; otherwise the result holds for every run.
    """
    calls = _Calls(graph, use_stated)
    calls.look(graph, {}, ())
    while calls.pending:
        calls.enter(calls.pending.pop())
    return calls.found


def given_shapes(body: Body, called: Mapping[str, Sequence[Shape]]) -> dict[Output, Shape]:
    """Returns the known shapes of the arguments of a function, from the result of `called_shapes`."""
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
        self._turns: dict[str, dict[str, None]] = {}  # by loop body, the functions that get its results

    def take(self, name: str, shapes: Sequence[Shape]) -> None:
        """Adds a call of the function `name` with argument `shapes`; empty if they are unknown."""
        known = self.found.get(name)
        now = list(shapes) if known is None else []
        if known is not None and len(known) == len(shapes):
            now = [agreed(pair) for pair in zip(known, shapes, strict=True)]
        if now != known and name in self._graph.functions:
            self.found[name] = now
            self.pending.append(name)

    def enter(self, name: str) -> None:
        """Adds the calls in the function `name`, with the known shapes of its arguments."""
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
        """Adds the calls in a graph; returns the shapes of the tensors `asked`."""
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
        """Adds `called` as the functions that are called with the results of the body of a loop."""
        value = loop.attr("body")
        if value is None:
            return
        takers = self._turns.setdefault(value.func.name, {})
        if not takers.keys() >= {*called}:
            takers |= dict.fromkeys(called)
            self.pending += [value.func.name] if value.func.name in self.found else []


def _called(node: Node) -> tuple[list[str], int]:
    """Returns the functions that get the inputs of a node unchanged, and the index of the first argument input."""
    if node.op in node.graph.functions:
        return [node.op], 0
    keys, first = CALLED[node.op] if node.op in _HAND_OVER else ((), 0)
    found: list[str] = []
    for key in keys:
        value = node.attr(key)
        if value is not None:
            found += [func.name for func in (value.list.func if value.HasField("list") else [value.func])]
    return found, first
