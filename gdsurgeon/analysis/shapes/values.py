"""The known values of small integer tensors, from which shapes are computed inside a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce

from gdsurgeon.analysis.shapes.arithmetic import MOST_ELEMENTS, Call, Value, axis_of, count
from gdsurgeon.analysis.shapes.array_rules import slice_spec
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.ops.dtypes import INT32, INT64
from gdsurgeon.ops.kinds import PASSES_ON, RESHAPES

ValueRule = Callable[[Call], Sequence[Value]]
"""Returns the values of a node's outputs; missing ones at the end are unknown.

It is called after the shapes of the outputs are inferred. Values of dtypes other than int32 and int64 are dropped.
"""

VALUE_RULES: dict[str, ValueRule] = {}
"""The rule of each op."""

_LIMITS: dict[int, int] = {INT32: 1 << 31, INT64: 1 << 63}


def _rule(ops: str) -> Callable[[ValueRule], ValueRule]:
    def register(function: ValueRule) -> ValueRule:
        for op in ops.split():
            VALUE_RULES[op] = function
        return function

    return register


def fitting(value: Value, shape: Shape, dtype: int) -> Value:
    """Returns `value` for a tensor of `shape` and `dtype`; elements out of range are unknown.

    The result is None if the dtype is not int32 or int64, or if the number of elements does not fit.
    """
    limit = _LIMITS.get(dtype)
    if limit is None:
        return None
    if value is None:
        elements = count(shape)
        # Unknown elements: only their number is known.
        return (None,) * elements if elements is not None and elements <= MOST_ELEMENTS else None
    if len(value) > MOST_ELEMENTS or count(shape) not in (None, len(value)):
        return None
    return tuple(item if item is None or -limit <= item < limit else None for item in value)


@_rule("Const")
def _const(call: Call) -> Sequence[Value]:
    return [call.constant[2]]


@_rule(" ".join(PASSES_ON | RESHAPES | {"Cast"}))
def _same(call: Call) -> Sequence[Value]:
    # A Cast wraps values that are out of range of its dtype: `fitting` makes them unknown.
    return [call.value(0)] * len(call.results)


@_rule("Shape ShapeN")
def _shape(call: Call) -> Sequence[Value]:
    return [None if shape is None else tuple(dim if dim >= 0 else None for dim in shape) for shape in call.shapes]


@_rule("Size")
def _size(call: Call) -> Sequence[Value]:
    return [(count(call.shape(0)),)]


@_rule("Rank")
def _rank(call: Call) -> Sequence[Value]:
    return [(len(call.known(0)),)]


# Arithmetic, element by element.


def _quotient(a: int, b: int) -> int | None:
    """Returns the quotient, rounded towards zero as in C; None for division by zero."""
    return None if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: dict[str, Callable[[int, int], int | None]] = {
    "Add": operator.add,
    "AddV2": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Maximum": max,
    "Minimum": min,
    "FloorDiv": lambda a, b: a // b if b else None,
    "FloorMod": lambda a, b: a % b if b else None,
    "Div": _quotient,
    "TruncateDiv": _quotient,
}


KEEPS_DTYPE = PASSES_ON | RESHAPES | _BINARY.keys()
"""Ops whose only output has the dtype of the first input."""


@_rule(" ".join(_BINARY))
def _binary(call: Call) -> Sequence[Value]:
    a, b = call.elements(0), call.elements(1)
    if any(shape is None or len(shape) > 1 for shape in call.shapes):
        return []
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        return []
    function = _BINARY[call.op]
    size = len(b) if len(a) == 1 else len(a)
    a, b = a * size if len(a) == 1 else a, b * size if len(b) == 1 else b
    pairs = zip(a, b, strict=True)
    return [tuple(None if x is None or y is None else function(x, y) for x, y in pairs)]


@_rule("Neg")
def _negative(call: Call) -> Sequence[Value]:
    return [tuple(None if x is None else -x for x in call.elements(0))]


_REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "Prod": operator.mul,
    "Sum": operator.add,
    "Max": max,
    "Min": min,
}


@_rule(" ".join(_REDUCTIONS))
def _reduce(call: Call) -> Sequence[Value]:
    value = call.vector(0)
    if call.elements(1) not in ((0,), (-1,)):
        return []
    known = [item for item in value if item is not None]
    if len(known) < len(value):
        return [(0,)] if call.op == "Prod" and 0 in known else []
    if not known:
        return [(1,)] if call.op == "Prod" else [(0,)] if call.op == "Sum" else []
    return [(reduce(_REDUCTIONS[call.op], known),)]


# Ops that join and split.


@_rule("Pack")
def _pack(call: Call) -> Sequence[Value]:
    parts = [call.value(i) for i in range(len(call.shapes))]
    shapes = call.shapes
    if call.number("axis") and any(shape != () for shape in shapes):
        return []
    if any(part is None and shape != () for part, shape in zip(parts, shapes, strict=True)):
        return []
    return [sum(((None,) if part is None else part for part in parts), ())]


@_rule("ConcatV2 Concat")
def _concat(call: Call) -> Sequence[Value]:
    first = call.op == "Concat"
    values, shapes = (call.values[1:], call.shapes[1:]) if first else (call.values[:-1], call.shapes[:-1])
    if any(shape is None or len(shape) != 1 for shape in shapes):
        return []
    out: list[int | None] = []
    for value in values:
        if value is None or len(out) > MOST_ELEMENTS:
            return []
        out.extend(value)
    return [tuple(out)]


@_rule("Unpack")
def _unpack(call: Call) -> Sequence[Value]:
    return [(item,) for item in call.vector(0)]


@_rule("Split SplitV")
def _split(call: Call) -> Sequence[Value]:
    value = call.vector(1 if call.op == "Split" else 0)
    out: list[Value] = []
    at = 0
    for part in call.results:
        if part is None or part[0] < 0:
            return out
        out.append(value[at : at + part[0]])
        at += part[0]
    return out


@_rule("StridedSlice")
def _strided_slice(call: Call) -> Sequence[Value]:
    value = call.vector(0)
    for item in slice_spec(call):
        if isinstance(item, slice):
            return [] if "?" in (item.start, item.stop, item.step) else [value[item]]
        if item != "new":
            return [] if item is None else [(value[axis_of(int(item), len(value))],)]
    return [value]


@_rule("Slice")
def _slice(call: Call) -> Sequence[Value]:
    value, begin, size = call.vector(0), call.scalar(1), call.scalar(2)
    if begin is None or size is None or begin < 0:
        return []
    return [value[begin:] if size < 0 else value[begin : begin + size]]


@_rule("Gather GatherV2")
def _gather(call: Call) -> Sequence[Value]:
    value = call.vector(0)
    if call.attr("batch_dims"):
        return []
    return [tuple(None if i is None or not 0 <= i < len(value) else value[i] for i in call.elements(1))]


@_rule("Range")
def _range(call: Call) -> Sequence[Value]:
    start, limit, delta = (call.scalar(i) for i in range(3))
    if start is None or limit is None or not delta or len(found := range(start, limit, delta)) > MOST_ELEMENTS:
        return []
    return [tuple(found)]


@_rule("Fill")
def _fill(call: Call) -> Sequence[Value]:
    elements = count(call.results[0] if call.results else None)
    return [] if elements is None or elements > MOST_ELEMENTS else [(call.scalar(1),) * elements]


@_rule("ZerosLike OnesLike")
def _like(call: Call) -> Sequence[Value]:
    elements = count(call.shape(0))
    item = 0 if call.op == "ZerosLike" else 1
    return [] if elements is None or elements > MOST_ELEMENTS else [(item,) * elements]
