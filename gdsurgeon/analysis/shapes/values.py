"""The known values of small integer tensors, from which shapes are computed inside a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce

from gdsurgeon.analysis.shapes.arithmetic import MOST_ELEMENTS, VALUE_RULES, Call, Value, axis_of, count, small_count
from gdsurgeon.analysis.shapes.array_rules import range_of, slice_spec
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.ops.dtypes import INT32, INT64
from gdsurgeon.ops.kinds import PASSES_ON, RESHAPES

LIMITS: dict[int, int] = {INT32: 1 << 31, INT64: 1 << 63}
"""The dtypes of tensors with known values, with the number above their highest."""


def fitting(value: Value, shape: Shape, dtype: int) -> Value:
    """Returns `value` for a tensor of `shape` and `dtype`; elements out of range are unknown.

    The result is None if the dtype is not int32 or int64, or if the number of elements does not fit.
    """
    limit = LIMITS.get(dtype)
    if limit is None:
        return None
    if value is None:
        return _filled(shape, None)  # only the number of elements is known
    if len(value) > MOST_ELEMENTS or count(shape) not in (None, len(value)):
        return None
    return tuple(item if item is None or -limit <= item < limit else None for item in value)


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


KEEPS_DTYPE = PASSES_ON | RESHAPES | _BINARY.keys() | {"Neg"}
"""Ops whose only output has the dtype of the first input."""


@VALUE_RULES.of(" ".join(_BINARY))
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


_REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "Prod": operator.mul,
    "Sum": operator.add,
    "Max": max,
    "Min": min,
}


@VALUE_RULES.of(" ".join(_REDUCTIONS))
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


@VALUE_RULES.of("Pack")
def _pack(call: Call) -> Sequence[Value]:
    parts = [call.value(i) for i in range(len(call.shapes))]
    shapes = call.shapes
    if call.number("axis") and any(shape != () for shape in shapes):
        return []
    if any(part is None and shape != () for part, shape in zip(parts, shapes, strict=True)):
        return []
    return [sum(((None,) if part is None else part for part in parts), ())]


@VALUE_RULES.of("ConcatV2 Concat")
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


@VALUE_RULES.of("Split SplitV")
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


@VALUE_RULES.of("StridedSlice")
def _strided_slice(call: Call) -> Sequence[Value]:
    value = call.vector(0)
    for item in slice_spec(call):
        if isinstance(item, slice):
            return [] if "?" in (item.start, item.stop, item.step) else [value[item]]
        if item != "new":
            return [] if item is None else [(value[axis_of(int(item), len(value))],)]
    return [value]


@VALUE_RULES.of("Slice")
def _slice(call: Call) -> Sequence[Value]:
    value, begin, size = call.vector(0), call.scalar(1), call.scalar(2)
    if begin is None or size is None or begin < 0:
        return []
    return [value[begin:] if size < 0 else value[begin : begin + size]]


@VALUE_RULES.of("Gather GatherV2")
def _gather(call: Call) -> Sequence[Value]:
    value = call.vector(0)
    if call.attr("batch_dims"):
        return []
    return [tuple(None if i is None or not 0 <= i < len(value) else value[i] for i in call.elements(1))]


def _filled(shape: Shape, item: int | None) -> Value:
    elements = small_count(shape)
    return None if elements is None else (item,) * elements


VALUE_RULES.add(
    {
        "Const": lambda call: [call.constant[2]],
        # A Cast wraps values that are out of range of its dtype: `fitting` makes them unknown.
        " ".join(PASSES_ON | RESHAPES | {"Cast"}): lambda call: [call.value(0)] * len(call.results),
        "Shape ShapeN": lambda call: [
            None if shape is None else tuple(dim if dim >= 0 else None for dim in shape) for shape in call.shapes
        ],
        "Size": lambda call: [(count(call.shape(0)),)],
        "Rank": lambda call: [(len(call.known(0)),)],
        "Neg": lambda call: [tuple(None if x is None else -x for x in call.elements(0))],
        "Unpack": lambda call: [(item,) for item in call.vector(0)],
        "Range": lambda call: [
            None if (found := range_of(call)) is None or len(found) > MOST_ELEMENTS else tuple(found)
        ],
        "Fill": lambda call: [_filled(call.results[0], call.scalar(1))],
        "ZerosLike": lambda call: [_filled(call.shape(0), 0)],
        "OnesLike": lambda call: [_filled(call.shape(0), 1)],
    }
)
