"""Replaces the handles of variables by values, in a graph and in the functions that the graph calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.usage import functions_of
from gdsurgeon.edits.replacing import use_value
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.attrs import shape_value, type_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import INT32, RESOURCE
from gdsurgeon.ops.kinds import CALLS, CASES, IFS, REFERENCE_OPS, STATED_SHAPES, VALUE_OPS, WHILES


class FrozenValue(NamedTuple):
    """The value that replaces the handle of a variable.

    Attributes:
        variable: the name of the variable's node.
        dtype, shape: of the value.
    """

    variable: str
    dtype: int
    shape: tuple[int, ...]


_VALUE_OPS = {**VALUE_OPS, "DisableCopyOnRead": "NoOp", "ResourceGather": "GatherV2"}
_FORWARDING = frozenset(REFERENCE_OPS.values())
_CHOICES = IFS | CASES
_LIST = dict.fromkeys(CALLS | _CHOICES, "Tin") | dict.fromkeys(WHILES, "T")
"""The attr that lists the dtypes of the arguments of functions."""
_NOTES = ("_read_only_resource_inputs", "_handle_dtypes", "_handle_shapes")
_WRITING = ("Assign", "Scatter", "ResourceScatter", "ResourceApply", "ResourceSparse", "Apply", "SparseApply")
"""How the names of the ops begin that change a variable."""


class _Place:
    """A graph, or the body of a function, that uses handles."""

    def __init__(self, graph: Graph, body: Body | None, kept: frozenset[Node] | None) -> None:
        self.graph = graph
        self.body = body
        self.kept = kept
        self.values: dict[Output, FrozenValue] = {}
        self.read: dict[Node, dict[int, FrozenValue]] = {}
        self.callers: dict[tuple[_Place, Node], None] = {}
        self.returned: dict[int, None] = {}

    @property
    def function(self) -> str | None:
        """The name of the function; None for the graph itself."""
        return None if self.body is None else self.body.name

    @property
    def called(self) -> str:
        """Where the place is, for messages."""
        return "" if self.function is None else f" in the function {quoted(self.function)}"

    def nodes(self) -> Iterable[Node]:
        """The nodes that matter."""
        return (node for node in self.graph.nodes() if self.kept is None or node in self.kept)


class HandleConversion:
    """Converts the consumers of handles, which become values.

    Args:
        graph: the graph of the variables.
        kept: its nodes that matter. The caller removes the other nodes later.
    """

    def __init__(self, graph: Graph, kept: Iterable[Node]) -> None:
        self._top = _Place(graph, None, frozenset(kept))
        self._bodies: dict[str, _Place] = {}
        self._pending: list[tuple[_Place, Output]] = []

    def convert_handle(self, tensor: Output, value: FrozenValue) -> None:
        """Marks a tensor of the graph as a value."""
        self._mark(self._top, tensor, value)

    def check(self) -> None:
        """Follows the marked tensors to their consumers.

        Raises:
            EditError: a node writes to a variable; a node of an unknown op uses a handle; or the calls of a function
                pass a value and a handle for one argument.
        """
        while self._pending:
            place, tensor = self._pending.pop()
            for node, slot in place.graph.uses(tensor):
                if place.kept is None or node in place.kept:
                    self._follow(place, node, slot, place.values[tensor])
        for place in (self._top, *self._bodies.values()):
            for node in place.nodes():
                self._check_call(place, node)

    def apply(self) -> tuple[list[str], list[str]]:
        """Converts all consumers. Returns the names of the changed nodes, and of the changed functions."""
        for place in (*self._bodies.values(), self._top):
            for node, slots in place.read.items():
                self._convert(place, node, slots)
        for place in self._bodies.values():
            assert place.body is not None
            for argument in place.body.arguments:
                if (value := place.values.get(argument.output)) is not None:
                    place.body.retype(argument, value.dtype, value.shape)
            place.body.commit()
        return [node.name for node in self._top.read if node.name in self._top.graph], list(self._bodies)

    # -- following ---------------------------------------------------------------------------------------------

    def _mark(self, place: _Place, tensor: Output, value: FrozenValue) -> None:
        if tensor not in place.values:
            place.values[tensor] = value
            self._pending.append((place, tensor))

    def _follow(self, place: _Place, node: Node, slot: int, value: FrozenValue) -> None:
        """Notes that a node reads a value in `slot`, and marks the outputs that forward this value."""
        if slot in place.read.get(node, {}):
            return
        forwarded = self._forwarded(place, node, slot, value)
        if forwarded is None:
            return  # the op accepts a value as well as a reference
        place.read.setdefault(node, {})[slot] = value
        for index in forwarded:
            self._mark(place, Output(node, index), value)

    def _forwarded(self, place: _Place, node: Node, slot: int, value: FrozenValue) -> Iterable[int] | None:
        """Returns the outputs of a node that become values if `slot` does; None if the node need not change."""
        op = node.op
        if place.body is not None and node in place.body.results:
            index = place.body.results.index(node)
            place.returned[index] = None
            for caller, call in place.callers:
                self._mark(caller, Output(call, index), value)
            return ()
        if op in _VALUE_OPS:
            return ()
        if op in REFERENCE_OPS or (op in _FORWARDING and node.plain_attr("T") == RESOURCE):
            return (0, 1) if op.endswith("Switch") else (0,)
        if op in _LIST or op in place.graph.functions:
            return self._into_functions(place, node, slot, value)
        definition = node.op_def
        if (
            definition is not None
            and node.inputs[slot].dtype != RESOURCE
            and not any(argument.is_ref for argument in definition.inputs[: slot + 1])
        ):
            return None
        writes = op.startswith(_WRITING)
        what, without = ("writes to", "") if writes else ("needs the handle of", " without a handle")
        raise EditError(
            f"{quoted(node.name)} ({printable(op)}){place.called} {what} the variable {quoted(value.variable)}, "
            f"which would become a constant{without}",
            code="is-written" if writes else "needs-handle",
            node=node.name,
            op=op,
            function=place.function,
            variable=value.variable,
        )

    def _into_functions(self, place: _Place, node: Node, slot: int, value: FrozenValue) -> list[int]:
        """Follows an argument of functions. Returns the outputs of the call that forward it."""
        at = _argument(node, slot)
        if at < 0:
            message = f"{quoted(node.name)}{place.called} uses the handle of a variable as its condition"
            raise EditError(message, code="needs-handle", node=node.name, function=place.function)
        out = [at] if node.op in WHILES else []
        for name in _functions(node):
            if name not in self._bodies:
                body = Body(self._top.graph, name)
                self._bodies[name] = _Place(body.graph, body, None)
            inner = self._bodies[name]
            assert inner.body is not None
            inner.callers[place, node] = None
            self._mark(inner, inner.body.arguments[at].output, value)
            out += inner.returned
        return list(dict.fromkeys(out))

    def _check_call(self, place: _Place, node: Node) -> None:
        """Raises EditError if a call passes a handle for an argument that has become a value."""
        for name in _functions(node):
            inner = self._bodies.get(name)
            if inner is None or inner.body is None:
                continue
            for at, argument in enumerate(inner.body.arguments):
                slot = at + (1 if node.op in _CHOICES else 0)
                expected = inner.values.get(argument.output)
                if expected is not None and slot not in place.read.get(node, {}):
                    raise EditError(
                        f"{quoted(node.name)}{place.called} calls {quoted(name)} with a handle that is not "
                        f"the handle of {quoted(expected.variable)}; one argument cannot be both a value and a handle",
                        code="needs-handle",
                        node=node.name,
                        function=name,
                        variable=expected.variable,
                    )

    # -- converting --------------------------------------------------------------------------------------------

    def _convert(self, place: _Place, node: Node, slots: Mapping[int, FrozenValue]) -> None:
        graph, op = place.graph, node.op
        value = next(iter(slots.values()))
        if place.body is not None and node in place.body.results:
            place.body.retype(node, value.dtype)
        elif op in _VALUE_OPS:
            inputs = () if op == "DisableCopyOnRead" else _with_axis(graph, node) if op == "ResourceGather" else None
            use_value(graph, node, _VALUE_OPS[op], value.dtype, inputs)
        elif op in REFERENCE_OPS:
            graph.set_op(node, REFERENCE_OPS[op])
        elif op in _FORWARDING:
            graph.replace_op(node, op, attrs={"T": type_value(value.dtype), STATED_SHAPES: None})
        elif op in _LIST:
            self._convert_call(place, node, slots)
        for key in _NOTES:
            if node.has_attr(key):
                graph.set_attr(node, key, None)

    def _convert_call(self, place: _Place, node: Node, slots: Mapping[int, FrozenValue]) -> None:
        graph = place.graph
        dtypes = node.attr(_LIST[node.op])
        assert dtypes is not None
        for slot, value in slots.items():
            dtypes.list.type[_argument(node, slot)] = value.dtype
        graph.set_attr(node, _LIST[node.op], dtypes)
        if node.op not in WHILES:
            if any(Output(node, index) in place.values for index in range(node.output_count or 0)):
                graph.set_attr(node, STATED_SHAPES, None)
            return
        for key in ("output_shapes", STATED_SHAPES):
            shapes = node.attr(key)
            if shapes is not None and shapes.list.shape:
                for slot, value in slots.items():
                    shapes.list.shape[slot].CopyFrom(shape_value(value.shape).shape)
                graph.set_attr(node, key, shapes)


def _with_axis(graph: Graph, node: Node) -> Sequence[Output]:
    """Returns the inputs of a GatherV2, which has the axis 0 as a third input."""
    graph.set_attr(node, "Taxis", type_value(INT32))
    attrs = {"dtype": type_value(INT32), "value": tensor_value(INT32, (), [0])}
    name = graph.unique_names()(f"{node.name}/axis")
    axis = graph.add(name, "Const", attrs=attrs, device=node.device, after=node)
    return (*node.inputs[:2], axis.output)


def _argument(node: Node, slot: int) -> int:
    """Returns the index of the function argument that an input becomes; -1 for the condition of an If or Case."""
    return slot - 1 if node.op in _CHOICES else slot


def _functions(node: Node) -> list[str]:
    """Returns the functions that a node calls with its inputs as arguments."""
    if node.op in node.graph.functions:
        return [node.op]
    return functions_of(node) if node.op in _LIST else []
