"""The consumers of a tensor, also in called functions."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from typing import Any, NamedTuple

from gdsurgeon.analysis.shapes.stated import stated_shape
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import Shape, functions_in, shape_of
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import INT32, INT64, base_dtype
from gdsurgeon.ops.kinds import CALLED, PASSES_ON, SWITCH, is_variable
from gdsurgeon.wire.protos import AttrValue

MOST_NODES = 5000
"""The number of nodes to search: the purpose of an input shows near it."""
MOST_CALLS = 20
"""The number of nested calls that are followed."""

_PASSES_ON = PASSES_ON | {"ReadVariableOp"}
# Ops whose outputs are all parts of the input, not only the first output.
_MANY = SWITCH | {"Split", "SplitV", "Unpack"}


class Call(NamedTuple):
    """A function in a particular call.

    Attributes:
        place: the node that calls it.
        body: the function.
        first: the data input of the node that is the first argument; -1 if the arguments are unknown.
        returns: whether the outputs of the function are the outputs of the node.
        depth: the number of enclosing calls.
    """

    place: Place
    body: Body
    first: int
    returns: bool
    depth: int


class Place:
    """A node of a graph, or of a function in a particular call.

    Attributes:
        node: the node.
        call: the call; None in a graph.
        op: its op.
        name: its name, in the graph or in the function.
        key: is equal for the same node in the same call.
    """

    def __init__(self, node: Node, call: Call | None = None) -> None:
        self.node = node
        self.call = call
        self.op = node.op
        self.name = node.name
        self.key: Hashable = (node, id(call))

    def attr(self, key: str) -> AttrValue | None:
        """Returns the AttrValue message of an attribute, or None."""
        return self.node.attr(key)

    def source(self, slot: int) -> Outlet | None:
        """Returns the tensor that a data input reads; for an argument the tensor of the call. None if it is unknown."""
        if not 0 <= slot < len(self.node.inputs):
            return None
        read, call = self.node.inputs[slot], self.call
        if not read.node.exists:
            return None
        if call is not None and read.node in call.body.arguments:
            return call.place.source(call.first + call.body.arguments.index(read.node)) if call.first >= 0 else None
        return Outlet(Place(read.node, call), read.index)

    def readers(self, index: int | None) -> Iterator[tuple[Place, int]]:
        """Yields the consumers of an output (None: any), and their data inputs."""
        call = self.call
        for user in graph_of(self.node).users(self.node):
            for slot, read in enumerate(user.inputs):
                if read.node is not self.node or index not in (None, read.index):
                    continue
                if call is None or user not in call.body.results:
                    yield Place(user, call), slot
                elif call.returns:
                    yield from call.place.readers(call.body.results.index(user))

    def number(self, key: str) -> int:
        """Returns the value of an attribute if it is a positive integer; otherwise 0."""
        found = self.node.setting(key)
        return max(found, 0) if isinstance(found, int) else 0

    def listed(self, key: str) -> list[Any]:
        """Returns the value of an attribute if it is a list; otherwise []."""
        found = self.node.setting(key)
        return list(found) if isinstance(found, list) else []

    def text(self, key: str) -> str:
        """Returns the value of an attribute if it is a text; otherwise ''."""
        found = self.node.setting(key)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found if isinstance(found, str) else ""

    def output_dtypes(self) -> list[int] | None:
        """Returns the DataTypes of the outputs, or None for an unknown op."""
        found = self.node.output_dtypes
        return None if found is None else list(map(base_dtype, found))

    def origin(self, slot: int) -> Outlet | None:
        """Returns the tensor that a data input reads through Identity, Enter and the like."""
        outlet = self.source(slot)
        for _ in range(32):
            if outlet is None or outlet.place.op not in _PASSES_ON:
                break
            outlet = outlet.place.source(0)
        return outlet

    def constant(self, slot: int) -> Constant | None:
        """Returns the value of a data input that is a small constant, or None."""
        outlet = self.origin(slot)
        return constant(outlet.place.node) if outlet is not None else None

    def ints(self, slot: int) -> tuple[int, ...]:
        """Returns the elements of a data input that is a small integer constant; otherwise ()."""
        found = self.constant(slot)
        if found is None or found.dtype not in (INT32, INT64):
            return ()
        return tuple(item for item in found.values if isinstance(item, int))

    def dims(self, slot: int) -> Shape:
        """Returns the shape of a data input, -1 for an unknown dimension, if it is constant, a variable, or
        inferred."""
        outlet = self.origin(slot)
        if outlet is None:
            return None
        node = outlet.place.node
        if node.op == "Const":
            return stated_shape(node.output)
        if is_variable(node.op):
            stated = node.attr("shape")
            return shape_of(stated.shape) if stated is not None else None
        from gdsurgeon.analysis.shapes.inference import infer_shapes

        output = Output(node, outlet.port)
        return infer_shapes(graph_of(node), wanted=[output]).shape(output)


class Outlet(NamedTuple):
    """An output of a place."""

    place: Place
    port: int


class Step(NamedTuple):
    """A consumer in a search.

    Attributes:
        place: the node.
        slot: the data input through which the search reached it; -1 for a node of a function with an unknown call.
        depth: the number of steps from the start.
        before: the previous step, or None at the start.
    """

    place: Place
    slot: int
    depth: int
    before: Step | None

    @property
    def op(self) -> str:
        """The op."""
        return self.place.op

    @property
    def name(self) -> str:
        """The name, in the graph or in the function."""
        return self.place.name

    def path(self) -> list[Step]:
        """Returns the previous steps, nearest first."""
        out: list[Step] = []
        step = self.before
        while step is not None:
            out.append(step)
            step = step.before
        return out


def outlet_of(node: Node) -> Outlet:
    """Returns output 0 of a node."""
    return Outlet(Place(node), 0)


def downstream(start: Outlet, goes_on: Callable[[Place], bool] = lambda _: True) -> Iterator[Step]:
    """Yields all nodes that depend on `start`, nearest first, also in functions; not beyond nodes that `goes_on`
    rejects."""
    return _Walk(start, goes_on=goes_on).run()


def following(start: Outlet, passing: Mapping[str, Container[int]]) -> Iterator[Step]:
    """Yields the consumers of `start`, and of the outputs of the ops `passing` with these data inputs; nearest
    first."""
    return _Walk(start, passing=passing).run()


def through_identities(node: Node) -> Node:
    """Returns the node before Identity, Enter and the like: a frozen weight is read through these."""
    for _ in range(16):
        if node.exists and node.op in _PASSES_ON and node.inputs:
            node = node.inputs[0].node
        else:
            break
    return node


# -- the walk --------------------------------------------------------------------------------------------


class _Walk:
    """A search that continues at all nodes that `goes_on` accepts, or only through `passing`."""

    def __init__(
        self,
        start: Outlet,
        *,
        goes_on: Callable[[Place], bool] | None = None,
        passing: Mapping[str, Container[int]] | None = None,
    ) -> None:
        self.graph = graph_of(start.place.node)
        self.goes_on = goes_on
        self.passing = passing
        self.calls: dict[tuple[Hashable, str], Call] = {}
        self.opened: set[str] = set()  # functions whose nodes were all examined
        self.queue: list[tuple[Callable[[], Iterator[tuple[Place, int]]], int, Step | None]] = [
            (_readers(start.place, start.port), 0, None)
        ]

    def run(self) -> Iterator[Step]:
        seen: set[tuple[Hashable, int]] = set()
        walked: set[tuple[Hashable, int | None]] = set()
        for readers, depth, before in self.queue:  # grows while it is walked
            for place, slot in readers():
                if (place.key, slot) in seen or len(seen) > MOST_NODES:
                    continue
                seen.add((place.key, slot))
                step = Step(place, slot, depth + 1, before)
                yield step
                self._enter(step)
                for index in self._outputs(place, slot):
                    if (place.key, index) not in walked:
                        walked.add((place.key, index))
                        self.queue.append((_readers(place, index), depth + 1, step))

    def _outputs(self, place: Place, slot: int) -> tuple[int | None, ...]:
        """Returns the outputs from which the search continues after the data input `slot`; None: all outputs."""
        if self.passing is None:
            return (None,) if self.goes_on is None or self.goes_on(place) else ()
        if place.op not in self.passing or slot not in self.passing[place.op]:
            return ()
        return (None,) if place.op in _MANY else (slot if place.op == "IdentityN" else 0,)

    def _enter(self, step: Step) -> None:
        """Continues in the functions that a step calls, at the argument that it passes."""
        place, op = step.place, step.op
        library = graph_of(place.node).functions
        depth = place.call.depth + 1 if place.call is not None else 1
        if depth > MOST_CALLS:
            return
        keys, first = CALLED.get(op, ((), 0))
        called: list[tuple[str, Mapping[str, AttrValue], bool]] = [
            (func.name, func.attr, key != "cond")
            for key in keys
            if (value := place.attr(key)) is not None
            for func in functions_in(value)
        ]
        if op in library:
            called = [(op, dict(place.node.attrs()), True)]
        for name, values, returns in called:
            call = self.calls.get((place.key, name))
            if call is None and step.slot >= first and (body := self._body(name, values)) is not None:
                call = self.calls[place.key, name] = Call(place, body, first, returns, depth)
            if call is not None and 0 <= step.slot - first < len(call.body.arguments):
                self.queue.append((_readers(Place(call.body.arguments[step.slot - first], call), 0), step.depth, step))
        if self.passing is None and (not called or step.slot < 0):
            self._open(step, depth)

    def _open(self, step: Step, depth: int) -> None:
        """Continues in the functions that a step names, if their calls are unknown."""
        definition = step.place.node.op_def
        if definition is not None and not definition.takes_functions:
            return
        for _, value in step.place.node.attrs():
            for func in functions_in(value):
                if func.name not in self.opened and (body := self._body(func.name, func.attr)) is not None:
                    self.opened.add(func.name)
                    self.queue.append((_all(Call(step.place, body, -1, False, depth)), step.depth, step))

    def _body(self, name: str, values: Mapping[str, AttrValue]) -> Body | None:
        """Returns a function with these attributes; None if it is missing or unreadable."""
        known = self.graph.derived(_bodies)
        key = name, tuple(sorted((key, value.SerializeToString()) for key, value in values.items()))
        if key not in known:
            try:
                known[key] = Body(self.graph, name, values, lenient=True)
            except EditError:
                known[key] = None
        return known[key]


def _bodies(graph: Graph) -> dict[Hashable, Body | None]:
    """The functions of a graph that searches have read."""
    del graph
    return {}


def _readers(place: Place, index: int | None) -> Callable[[], Iterator[tuple[Place, int]]]:
    return lambda: place.readers(index)


def _all(call: Call) -> Callable[[], Iterator[tuple[Place, int]]]:
    graph = call.body.graph
    return lambda: ((Place(node, call), -1) for node in graph.nodes() if node not in graph.ends)
