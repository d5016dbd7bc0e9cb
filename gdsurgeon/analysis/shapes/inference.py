"""The shapes of all tensors of a graph, inferred without TensorFlow; nothing is stated that could be wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from gdsurgeon.analysis.shapes import array_rules, math_rules
from gdsurgeon.analysis.shapes.arithmetic import MOST_ELEMENTS, RULES, UNKNOWN, Call, Misfit, Value, count
from gdsurgeon.analysis.shapes.values import KEEPS_DTYPE, VALUE_RULES, fitting
from gdsurgeon.analysis.traversal.order import topological_order
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.analysis.traversal.walks import forward_walk
from gdsurgeon.arguments import public
from gdsurgeon.errors import InputError
from gdsurgeon.graph.attrs import Shape, shape_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import STATED_SHAPES

_REGISTERED = (array_rules, math_rules)  # importing them fills RULES
_LARGEST = (1 << 63) - 1
_UNSAID = (InputError, ArithmeticError, LookupError, TypeError, ValueError)
"""Exceptions that rules raise if too little is known about inputs, or if the attrs of a corrupt node have any kind.
"""


class Conflict(NamedTuple):
    """A node whose inputs contradict each other or its attrs: TensorFlow would not load it, or not run it."""

    node: Node
    text: str


Settle = Callable[[Call, Sequence[Shape], "str | None"], "tuple[Sequence[Shape], str | None]"]
"""Called for each node with a rule, with the shapes that the rule returns and the conflict of its inputs or None; its
result is used instead.
"""


class Shapes:
    """What is known of the tensors of a graph as it was when this was inferred.

    Attributes:
        conflicts: the nodes that cannot be as they are, in topological order.
    """

    def __init__(self, topology: Topology, order: Sequence[int]) -> None:
        self._topology = topology
        self._order = order
        self._shapes: dict[int, Sequence[Shape]] = {}
        self._values: dict[int, Sequence[Value]] = {}
        self.conflicts: list[Conflict] = []

    def shape(self, output: Output) -> Shape:
        """The shape of a tensor: -1 for an unknown dim, None for an unknown rank."""
        return self._shape_of(self._topology.id_of(output.node), output.index) if output.node.exists else None

    def value(self, output: Output) -> Value:
        """The elements of a small int32 or int64 tensor, row by row, None for an unknown one; None: nothing known."""
        return self._value_of(self._topology.id_of(output.node), output.index) if output.node.exists else None

    def _shape_of(self, number: int, index: int) -> Shape:
        found = self._shapes.get(number, ())
        return found[index] if index < len(found) else None

    def _value_of(self, number: int, index: int) -> Value:
        found = self._values.get(number, ())
        return found[index] if index < len(found) else None


@public
def infer_shapes(
    graph: Graph,
    given: Mapping[Output, Shape] | None = None,
    *,
    use_stated: bool = True,
    settle: Settle | None = None,
    base: Shapes | None = None,
    wanted: Iterable[Output] | None = None,
) -> Shapes:
    """Infers the shapes of all tensors, and the values of those that shapes are computed from.

    One walk in topological order, linear in nodes and edges; weights are not read. An op without a rule gives
    unknown shapes, and so does what comes round a v1 while loop.

    Args:
        graph: left as it is.
        given: shapes that tensors should have, to try different inputs.
        use_stated: take ``_output_shapes`` attrs for ops without a rule; never for what depends on a tensor that is
            given, where they are stale.
        settle: may correct what is inferred of a node before it is used.
        base: the result for the same, unchanged graph with other given shapes for the same tensors: it is reused for
            everything that does not depend on a given tensor, without its conflicts.
        wanted: the tensors that are asked for: the walk leaves out what they do not depend on.
    """
    return Inference(graph, dict(given or {}), use_stated, settle, base).run(wanted)


def shape_of_tensor(graph: Graph, tensor: Output) -> Shape:
    """What is inferred of the shape of TENSOR, and of what it depends on alone; kept until GRAPH changes."""
    known = graph.derived(_asked_for)
    if tensor.name not in known:
        known[tensor.name] = infer_shapes(graph, wanted=[tensor]).shape(tensor)
    return known[tensor.name]


def _asked_for(_graph: Graph) -> dict[str, Shape]:
    """The shapes that have been asked for, one by one."""
    return {}


Known = tuple[Sequence[Shape], Sequence[Value]]
"""The shapes of what a node gives, and the values."""


class Inference:
    """A walk that infers shapes, node by node; see `infer_shapes`."""

    def __init__(
        self, graph: Graph, given: dict[Output, Shape], use_stated: bool, settle: Settle | None, base: Shapes | None
    ) -> None:
        self.top = topology_of(graph) if base is None else base._topology
        self.found = Shapes(self.top, topological_order(self.top) if base is None else base._order)
        self.settle = settle
        self.base = base
        self.given: dict[int, dict[int, Shape]] = {}
        for output, shape in given.items():
            self.given.setdefault(self.top.id_of(output.node), {})[output.index] = shape
        self.concerned = forward_walk(self.top, self.given) if self.given else bytearray(self.top.size)
        self.use_stated = use_stated
        self._known_dtypes: dict[int, int] = {}  # by the codes of tensors

    def run(self, wanted: Iterable[Output] | None) -> Shapes:
        needed = None
        if wanted is not None:
            needed = self.top.upstream([self.top.id_of(output.node) for output in wanted])
        for number in self.found._order:
            if needed is not None and not needed[number]:
                continue
            if self.base is not None and not self.concerned[number]:
                self._take_over(number, self.base)
                continue
            self.infer(number)
            if number in self.given:
                self._set_given(number)
        return self.found

    def keep_up(self, topology: Topology, order: Sequence[int]) -> None:
        """Goes on with the graph as it is now."""
        self.top = self.found._topology = topology
        self.found._order = order

    def known_of(self, number: int) -> Known:
        """Returns the inferred shapes and values of a node's outputs."""
        return self.found._shapes.get(number, ()), self.found._values.get(number, ())

    def take_back(self, number: int) -> Known:
        """What was inferred of a node, which is known no longer."""
        known = self.known_of(number)
        self.found._shapes.pop(number, None)
        self.found._values.pop(number, None)
        self._known_dtypes.pop(number << Table.PORT_BITS, None)
        return known

    def put_back(self, number: int, known: Known) -> None:
        """Has be known of a node again what was."""
        shapes, values = known
        if shapes:
            self.found._shapes[number] = shapes
        if values:
            self.found._values[number] = values

    def _take_over(self, number: int, base: Shapes) -> None:
        if number in base._shapes:
            self.found._shapes[number] = base._shapes[number]
        if number in base._values:
            self.found._values[number] = base._values[number]

    def infer(self, number: int) -> None:
        """Infers what a node gives, of what it reads."""
        op = self.top.op(number)
        rule = RULES.get(op)
        if rule is None:
            if self.use_stated and not self.concerned[number]:
                self._set(number, self._stated(self.top.node(number)))
            return
        call = self._call(number, op)
        text: str | None = None
        shapes: Sequence[Shape] = ()
        try:
            shapes = rule(call)
        except Misfit as misfit:
            shapes, text = misfit.shapes, str(misfit)
        except _UNSAID:
            pass
        if self.settle is not None:
            shapes, text = self.settle(call, shapes, text)
        if text is not None:
            self.found.conflicts.append(Conflict(call.node, text))
        self._set(number, shapes)
        self._infer_values(number, call)

    def _call(self, number: int, op: str) -> Call:
        bits, control = Table.PORT_BITS, Table.CONTROL_PORT
        shapes: list[Shape] = []
        values: list[Value] = []
        for code in self.top.inputs(number):
            port = code & control
            if code < 0:
                shapes.append(None)  # names no node
                values.append(None)
            elif port != control:
                shapes.append(self.found._shape_of(code >> bits, port))
                values.append(self.found._value_of(code >> bits, port))
        return Call(op, partial(self.top.node, number), shapes, values)

    def _infer_values(self, number: int, call: Call) -> None:
        shapes = self.found._shapes.get(number, ())
        rule = VALUE_RULES.get(call.op)
        sizes = [count(shape) for shape in shapes]
        if rule is None or all(size is None or size > MOST_ELEMENTS for size in sizes):
            return
        call.results = shapes
        values: Sequence[Value] = ()
        with suppress(*_UNSAID):
            values = rule(call)
        with suppress(*_UNSAID):
            self.found._values[number] = [
                fitting(values[i] if i < len(values) else None, shape, dtype)
                for i, (shape, dtype) in enumerate(zip(shapes, self._dtypes(number, call, len(shapes)), strict=True))
            ]

    def _dtypes(self, number: int, call: Call, outputs: int) -> list[int]:
        """The dtypes of the outputs; where they are those of what was looked at before, no attr has to be read."""
        if outputs > 1:
            return [call.dtype(i) for i in range(outputs)]
        first = next(iter(self.top.inputs(number)), -1) if call.op in KEEPS_DTYPE else -1
        found = self._known_dtypes.get(first)
        if found is None:
            found = call.dtype()
        self._known_dtypes[number << Table.PORT_BITS] = found
        return [found]

    def _set(self, number: int, shapes: Iterable[Shape]) -> None:
        clean = tuple(map(_clean, shapes))
        if any(shape is not None for shape in clean):
            self.found._shapes[number] = clean

    def _set_given(self, number: int) -> None:
        given = self.given[number]
        shapes = list(self.found._shapes.get(number, ()))
        shapes += [None] * (max(given) + 1 - len(shapes))
        for index, shape in given.items():
            shapes[index] = shape
        self._set(number, shapes)
        self.found._values.pop(number, None)

    @staticmethod
    def _stated(node: Node) -> list[Shape]:
        try:
            value = node.attr(STATED_SHAPES)
        except InputError:
            return []
        return [shape_of(proto) for proto in value.list.shape] if value is not None else []


def _clean(shape: Shape) -> Shape:
    """SHAPE without dims that no tensor can have."""
    if shape is None or all(0 <= dim <= _LARGEST for dim in shape):
        return shape
    return tuple(dim if 0 <= dim <= _LARGEST else UNKNOWN for dim in shape)
