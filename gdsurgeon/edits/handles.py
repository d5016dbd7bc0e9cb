"""Replaces the handles of variables by values, in a graph and in the functions that the graph calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gdsurgeon.analysis.queries.function_usage import functions_of
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.attrs import shape_value, type_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.attr_names import STATED_SHAPES
from gdsurgeon.ops.dtypes import BOOL, INT32, RESOURCE
from gdsurgeon.ops.kinds import CALLS, CASES, IFS, WHILES
from gdsurgeon.wire.protos import AttrValue


class Held(NamedTuple):
    """The value that stands in the place of a variable's handle.

    Attributes:
        variable: the name of its node.
        dtype, shape: of its value.
    """

    variable: str
    dtype: int
    shape: tuple[int, ...]


_WITHOUT_REF = {
    "RefEnter": "Enter",
    "RefExit": "Exit",
    "RefIdentity": "Identity",
    "RefMerge": "Merge",
    "RefNextIteration": "NextIteration",
    "RefSelect": "Select",
    "RefSwitch": "Switch",
}
"""What a reference is passed on by, and what passes a value on."""

_PASS_ON = frozenset(("Enter", "Exit", "Identity", "Merge", "NextIteration", "Switch"))
_CHOICES = IFS | CASES
_LIST = dict.fromkeys(CALLS | _CHOICES, "Tin") | dict.fromkeys(WHILES, "T")
"""The attr that lists the dtypes of what is passed on to functions."""
_NOTES = ("_read_only_resource_inputs", "_handle_dtypes", "_handle_shapes")


class _Place:
    """A graph, or the body of a function, in which handles are."""

    def __init__(self, graph: Graph, body: Body | None, kept: frozenset[Node] | None) -> None:
        self.graph = graph
        self.body = body
        self.kept = kept
        self.held: dict[Output, Held] = {}
        self.read: dict[Node, dict[int, Held]] = {}
        self.callers: dict[tuple[_Place, Node], None] = {}
        self.returned: dict[int, None] = {}

    @property
    def function(self) -> str | None:
        """The name of the function; None for the graph itself."""
        return None if self.body is None else self.body.name

    @property
    def called(self) -> str:
        """What it is called in messages."""
        return "" if self.function is None else f" in the function {quoted(self.function)}"


class Handles:
    """The handles of variables that become values.

    Args:
        graph: where the variables are.
        kept: those of its nodes that matter; others are about to go.
    """

    def __init__(self, graph: Graph, kept: Iterable[Node]) -> None:
        self._top = _Place(graph, None, frozenset(kept))
        self._bodies: dict[str, _Place] = {}
        self._pending: list[tuple[_Place, Output]] = []

    def hold(self, tensor: Output, held: Held) -> None:
        """Says that TENSOR of the graph is a value from now on."""
        self._hold(self._top, tensor, held)

    def check(self) -> None:
        """Follows what is held.

        Raises:
            EditError: something writes to a variable, takes its handle and is not known here, or calls a function once
                with a value and once with another handle.
        """
        while self._pending:
            place, tensor = self._pending.pop()
            for node, slot in place.graph.uses(tensor):
                if place.kept is None or node in place.kept:
                    self._follow(place, node, slot, place.held[tensor])
        for place in (self._top, *self._bodies.values()):
            for node in place.graph.nodes():
                if place.kept is None or node in place.kept:
                    self._check_call(place, node)

    def apply(self) -> tuple[list[str], list[str]]:
        """Has everything take values; returns the names of the nodes, and of the functions, that are others now."""
        for place in (*self._bodies.values(), self._top):
            for node, slots in place.read.items():
                self._convert(place, node, slots)
        for place in self._bodies.values():
            assert place.body is not None
            for argument in place.body.arguments:
                if (held := place.held.get(argument.output)) is not None:
                    place.body.retype(argument, held.dtype, held.shape)
            place.body.commit()
        return [node.name for node in self._top.read if node.name in self._top.graph], list(self._bodies)

    # -- following ---------------------------------------------------------------------------------------------

    def _hold(self, place: _Place, tensor: Output, held: Held) -> None:
        if tensor not in place.held:
            place.held[tensor] = held
            self._pending.append((place, tensor))

    def _follow(self, place: _Place, node: Node, slot: int, held: Held) -> None:
        """NODE reads in SLOT what is held."""
        if slot in place.read.get(node, {}):
            return
        passes = self._passes_on(place, node, slot, held)
        if passes is None:
            return  # it takes a value as it took a reference
        place.read.setdefault(node, {})[slot] = held
        for index in passes:
            self._hold(place, Output(node, index), held)

    def _passes_on(self, place: _Place, node: Node, slot: int, held: Held) -> Iterable[int] | None:
        """The outputs of NODE that become values with what it reads in SLOT; None where nothing has to be done."""
        op = node.op
        if place.body is not None and node in place.body.results:
            self._return(place, place.body.results.index(node), held)
            return ()
        if op in _CONVERSIONS:
            return ()
        if op in _WITHOUT_REF:
            return (0, 1) if op == "RefSwitch" else (0,)
        if op in _PASS_ON and _is_resource(node):
            return (0, 1) if op == "Switch" else (0,)
        if op in _LIST or op in place.graph.functions:
            return self._into_functions(place, node, slot, held)
        if _takes_value(node, slot):
            return None
        what = "writes to" if _writes(op) else "needs the handle of"
        raise EditError(
            f"{quoted(node.name)} ({printable(op)}){place.called} {what} the variable "
            f"{quoted(held.variable)}, which "
            f"{'would become a constant' if _writes(op) else 'would become a constant without a handle'}",
            code="is-written" if _writes(op) else "needs-handle",
            facts={"node": node.name, "op": op, "function": place.function, "variable": held.variable},
        )

    def _into_functions(self, place: _Place, node: Node, slot: int, held: Held) -> list[int]:
        """Follows what is handed to functions; returns the outputs of the call by which it comes back."""
        at = _argument(node, slot)
        if at < 0:
            message = f"{quoted(node.name)}{place.called} uses the handle of a variable as its condition"
            raise EditError(message, code="needs-handle", facts={"node": node.name, "function": place.function})
        out = [at] if node.op in WHILES else []
        for name in _functions(node):
            inner = self._body(name)
            assert inner.body is not None
            inner.callers[place, node] = None
            self._hold(inner, inner.body.arguments[at].output, held)
            out += inner.returned
        return list(dict.fromkeys(out))

    def _return(self, inner: _Place, index: int, held: Held) -> None:
        """A function returns what is held: what its calls give is held, too."""
        inner.returned[index] = None
        for place, node in inner.callers:
            self._hold(place, Output(node, index), held)

    def _body(self, name: str) -> _Place:
        if name not in self._bodies:
            body = Body(self._top.graph, name)
            self._bodies[name] = _Place(body.graph, body, None)
        return self._bodies[name]

    def _check_call(self, place: _Place, node: Node) -> None:
        """Raises EditError where NODE hands a function something else where that takes a value now."""
        for name in _functions(node):
            inner = self._bodies.get(name)
            if inner is None or inner.body is None:
                continue
            for at, argument in enumerate(inner.body.arguments):
                slot = at + (1 if node.op in _CHOICES else 0)
                taken = inner.held.get(argument.output)
                if taken is not None and slot not in place.read.get(node, {}):
                    raise EditError(
                        f"{quoted(node.name)}{place.called} calls {quoted(name)} with a handle that is not "
                        f"the handle of {quoted(taken.variable)}; one argument cannot be both a value and a handle",
                        code="needs-handle",
                        facts={"node": node.name, "function": name, "variable": taken.variable},
                    )

    # -- converting --------------------------------------------------------------------------------------------

    def _convert(self, place: _Place, node: Node, slots: Mapping[int, Held]) -> None:
        graph, op = place.graph, node.op
        held = next(iter(slots.values()))
        if place.body is not None and node in place.body.results:
            place.body.retype(node, held.dtype)
        elif op in _CONVERSIONS:
            _CONVERSIONS[op](graph, node, held)
        elif op in _WITHOUT_REF:
            graph.set_op(node, _WITHOUT_REF[op])
        elif op in _PASS_ON:
            _set(graph, node, "T", type_value(held.dtype))
            graph.set_attr(node, STATED_SHAPES, None)
        elif op in _LIST:
            self._convert_call(place, node, slots)
        for key in _NOTES:
            if node.has_attr(key):
                graph.set_attr(node, key, None)

    def _convert_call(self, place: _Place, node: Node, slots: Mapping[int, Held]) -> None:
        graph = place.graph
        dtypes = node.attr(_LIST[node.op])
        assert dtypes is not None
        for slot, held in slots.items():
            dtypes.list.type[_argument(node, slot)] = held.dtype
        _set(graph, node, _LIST[node.op], dtypes)
        if node.op not in WHILES:
            if any(Output(node, index) in place.held for index in range(node.output_count or 0)):
                graph.set_attr(node, STATED_SHAPES, None)
            return
        for key in ("output_shapes", STATED_SHAPES):
            shapes = node.attr(key)
            if shapes is not None and shapes.list.shape:
                for slot, held in slots.items():
                    shapes.list.shape[slot].CopyFrom(shape_value(held.shape).shape)
                _set(graph, node, key, shapes)


def _is_resource(node: Node) -> bool:
    return node.plain_attr("T") == RESOURCE


def _takes_value(node: Node, slot: int) -> bool:
    """Whether an op that reads a reference would take a value there, too."""
    definition = node.op_def
    if definition is None or node.inputs[slot].dtype == RESOURCE:
        return False
    return not any(argument.is_ref for argument in definition.inputs[: slot + 1])


def _writes(op: str) -> bool:
    return op.startswith(
        ("Assign", "Scatter", "ResourceScatter", "ResourceApply", "ResourceSparse", "Apply", "SparseApply")
    )


def _argument(node: Node, slot: int) -> int:
    """Which argument of the functions that NODE calls is what it reads in SLOT; -1: none."""
    return slot - 1 if node.op in _CHOICES else slot


def _functions(node: Node) -> list[str]:
    """The functions that NODE hands its inputs to."""
    if node.op in node.graph.functions:
        return [node.op]
    return functions_of(node) if node.op in _LIST else []


def _set(graph: Graph, node: Node, key: str, value: AttrValue) -> None:
    graph.set_attr(node, key, value)


# -- ops that take a handle, and what takes a value in their place -------------------------------------------------


def _read(graph: Graph, node: Node, held: Held) -> None:
    graph.set_op(node, "Identity")
    graph.set_attr(node, "dtype", None)
    _set(graph, node, "T", type_value(held.dtype))
    for reader in graph.users(node):
        graph.touch(reader)  # in bodies it names the output, which is called otherwise


def _gather(graph: Graph, node: Node, held: Held) -> None:
    graph.set_op(node, "GatherV2")
    name = graph.unique_names()(f"{node.name}/axis")
    attrs = {"dtype": type_value(INT32), "value": tensor_value(INT32, (), [0])}
    encoded = {key: value.SerializeToString() for key, value in attrs.items()}
    axis = graph.add(name, "Const", attrs=encoded, device=node.device, after=node)
    graph.set_inputs(node, (*node.inputs[:2], axis.output))
    for key in ("dtype", "validate_indices"):
        graph.set_attr(node, key, None)
    _set(graph, node, "Tparams", type_value(held.dtype))
    _set(graph, node, "Taxis", type_value(INT32))


def _gather_nd(graph: Graph, node: Node, held: Held) -> None:
    graph.set_op(node, "GatherNd")
    graph.set_attr(node, "dtype", None)
    _set(graph, node, "Tparams", type_value(held.dtype))


def _shape(graph: Graph, node: Node, held: Held) -> None:
    graph.set_op(node, "Shape")
    _set(graph, node, "T", type_value(held.dtype))


def _is_initialized(graph: Graph, node: Node, held: Held) -> None:
    del held
    graph.set_inputs(node, ())
    graph.set_op(node, "Const")
    _set(graph, node, "dtype", type_value(BOOL))
    _set(graph, node, "value", tensor_value(BOOL, (), [True]))
    for reader in graph.users(node):
        graph.touch(reader)


def _nothing(graph: Graph, node: Node, held: Held) -> None:
    del held
    graph.set_inputs(node, ())
    graph.set_op(node, "NoOp")


_CONVERSIONS: Mapping[str, Callable[[Graph, Node, Held], None]] = {
    "DisableCopyOnRead": _nothing,
    "ReadVariableOp": _read,
    "ResourceGather": _gather,
    "ResourceGatherNd": _gather_nd,
    "VarIsInitializedOp": _is_initialized,
    "VariableShape": _shape,
}
