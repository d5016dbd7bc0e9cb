"""The rules of simplify: each match is replaced by one of its own tensors, which has the same bits.

In these rules a number matches a scalar constant with this value, whatever its dtype; of a float, the sign of zero
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from math import copysign
from typing import NamedTuple

from gdsurgeon.graph.constants import Constant
from gdsurgeon.ops.dtypes import BOOL, DTYPES, DType
from gdsurgeon.patterns.catalog import rules_in_text
from gdsurgeon.patterns.terms import Op, Value, Variable

RULES = {
    "checks": "CheckNumerics|CheckNumericsV2($x) -> $x",
    "stop-gradients": "StopGradient|PreventGradient($x) -> $x",
    "identities": "Identity|Snapshot($x) -> $x",
    "neutral": """
        Mul(1, $x) -> $x
        Add|AddV2(-0.0, $x) -> $x  # 0.0 + 0.0 would change the sign of -0.0
        Sub($x, 0) -> $x
        Div|RealDiv($x, 1) -> $x
        whole: FloorDiv|TruncateDiv($x, $one:1..1) -> $x
        AddN($x) -> $x
        LogicalAnd(true, $x) -> $x
        LogicalOr(false, $x) -> $x
        LogicalAnd|LogicalOr|Maximum|Minimum($x, $x) -> $x
        Cast{SrcT=$type, DstT=$type}($x) -> $x
        Bitcast{T=$type, type=$type}($x) -> $x
        Pad|MirrorPad($x, $paddings:0..0) -> $x
        PadV2($x, $paddings:0..0, $value) -> $x
        Tile($x, $multiples:1..1) -> $x
        ReverseV2|All|Any|Max|Mean|Min|Prod|Sum($x, $axes:[0]) -> $x
        Split{num_split=1}($axis, $x) -> $x
        SplitV{num_split=1}($x, $sizes, $axis) -> $x
        in-order: Transpose($x, $order:const) -> $x
        """,
    "pairs": """
        Neg(Neg($x)) -> $x
        LogicalNot(LogicalNot($x)) -> $x
        Invert(Invert($x)) -> $x
        Conj(Conj($x)) -> $x
        Abs(once=Abs($x)) -> once
        Relu(once=Relu|Relu6($x)) -> once
        Relu6(once=Relu6($x)) -> once
        Ceil|Floor|Rint|Round(once=Ceil|Floor|Rint|Round($x)) -> once
        ReverseV2(ReverseV2($x, $axes:const), $axes) -> $x
        cast-back: Cast{DstT=$type}(wide=Cast{SrcT=$type}($x)) -> $x
        squeezed: Squeeze{squeeze_dims=$dims}(ExpandDims($x, $axis:scalar)) -> $x
        ordered-back: Transpose(Transpose($x, $first:const), $then:const) -> $x
        """,
}
"""The rules of each pass, in the pattern language."""
SHAPED = {
    "same-shape": """
        BroadcastTo($x, $shape) -> $x
        Slice($x, $begin:0..0, $size) -> $x
        StridedSlice{ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0}($x, $begin, $end, $steps:1..1) -> $x
        reduced: reduction=All|Any|Max|Mean|Min|Prod|Sum($x, $axes) -> $x
        """,
    "dropout": """
        Mul($x, Floor(Add|AddV2(1.0, draw=RandomUniform($shape)))) -> $x
        Mul($x, Floor(Add|AddV2(1.0, Add|AddV2(0.0, draw=RandomUniform($shape))))) -> $x
        kept-1: Mul($x, Cast(GreaterEqual(draw=RandomUniform($shape), $least:scalar))) -> $x
        kept-2: Mul($x, Cast(GreaterEqual(Add|AddV2(0.0, draw=RandomUniform($shape)), $least:scalar))) -> $x
        kept-3: Select|SelectV2(GreaterEqual(draw=RandomUniform($shape), $least:scalar), $x, $y) -> $x
        kept-4: Select|SelectV2(GreaterEqual(Add|AddV2(0.0, draw=RandomUniform($shape)), $least:scalar), $x, $y) -> $x
        """,
}
"""Further rules: a match is replaced only if the result is known to have the shape of the tensor that replaces it.

The values of RandomUniform are at least 0 and below 1: dropout with probability 0 is a product with 1.
"""


class Bound(NamedTuple):
    """The facts about a match that a condition needs.

    Attributes:
        values: returns the value of the constant that a variable is bound to.
        attrs: the plain values of attr variables, by name.
        attr_of: returns the plain value of an attr of a labelled node.
    """

    values: Callable[[str], Constant | None]
    attrs: dict[str, object]
    attr_of: Callable[[str, str], object]


def _whole(bound: Bound) -> bool:
    """Returns whether a quotient is one of integers, and the divisor is a scalar."""
    one = bound.values("one")
    return one is not None and one.shape == () and DTYPES[one.dtype].is_integer


def _in_order(bound: Bound) -> bool:
    order = bound.values("order")
    return order is not None and [*order.values] == [*range(len(order.values))]


def _ordered_back(bound: Bound) -> bool:
    """Returns whether the second Transpose restores the order of dims."""
    first, then = bound.values("first"), bound.values("then")
    if first is None or then is None or len(first.values) != len(then.values):
        return False
    places = [int(place) for place in then.values]
    size = len(places)
    return all(0 <= p < size for p in places) and [first.values[place] for place in places] == [*range(size)]


def _squeezed(bound: Bound) -> bool:
    axis = bound.values("axis")
    return axis is not None and bound.attrs["dims"] == [*axis.values]


def _reduced(bound: Bound) -> bool:
    """Returns whether single elements may be combined: dims of size 1 are kept, or a scalar has no axes."""
    return bool(bound.attr_of("reduction", "keep_dims")) or bound.values("axes") is None


def _kept(bound: Bound) -> bool:
    """Returns whether no random value is below the least one."""
    least = bound.values("least")
    return least is not None and least.shape == () and isinstance(least.values[0], float) and least.values[0] <= 0


_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""The number of bits of integers that a float dtype represents exactly."""


def _cast_back(bound: Bound) -> bool:
    """Returns whether the dtype in between represents each value exactly."""
    kinds = bound.attrs["type"], bound.attr_of("wide", "DstT")
    given, wide = (DTYPES.get(kind) if isinstance(kind, int) else None for kind in kinds)
    return given is not None and wide is not None and _represents(wide, given)


def _represents(wide: DType, given: DType) -> bool:
    """Returns whether `wide` represents each value of `given` exactly."""
    if wide == given:
        return True
    if given == BOOL:
        return wide.is_integer or wide.is_float
    if given.is_integer and wide.is_integer:
        (low, high), (least, most) = given.bounds, wide.bounds
        return least <= low and high <= most
    if given.is_integer and wide.is_float:
        low, high = given.bounds
        return max(-low, high) <= 1 << _DIGITS.get(wide.name, 0)
    if given.is_float and wide.is_float and given.name in _DIGITS:
        return wide.name == "float64" or (wide.name == "float32" and _DIGITS[given.name] < _DIGITS["float32"])
    return False


_CONDITIONS: dict[str, Callable[[Bound], bool]] = {
    "whole": _whole,
    "in-order": _in_order,
    "ordered-back": _ordered_back,
    "squeezed": _squeezed,
    "cast-back": _cast_back,
    "reduced": _reduced,
    **dict.fromkeys(("kept-1", "kept-2", "kept-3", "kept-4"), _kept),
}


class ExactRule(NamedTuple):
    """A rule.

    Attributes:
        of: the pass.
        pattern: the op whose result is replaced.
        kept: the name of the variable, or the label of the node, that replaces it.
        condition: a further condition on a match, or None.
        needed: ops; a node without an input with such an op does not match. Empty if this rules out nothing.
        literal: the number that one of the inputs must be, or None.
        depth: the number of edges between the result and the lowest op.
        is_forward: whether the op has one input, which replaces its result in any case.
    """

    of: str
    pattern: Op
    kept: str
    condition: Callable[[Bound], bool] | None
    needed: frozenset[str]
    literal: Value | None
    depth: int
    is_forward: bool


@cache
def exact_rules(name: str) -> tuple[ExactRule, ...]:
    """Returns the rules of a pass of simplify."""
    found: list[ExactRule] = []
    for rule in rules_in_text((RULES | SHAPED)[name].splitlines(), name):
        (root,), (kept,) = rule.pattern, rule.replacement or ()
        assert isinstance(root, Op)
        label = kept.name if isinstance(kept, Variable) else getattr(kept, "label", "")
        inner = [term for term in root.inputs or () if isinstance(term, Op)]
        ops = frozenset(op for term in inner for op in term.ops)
        literal = next((term for term in root.inputs or () if isinstance(term, Value)), None)
        if not ops and (literal or any(isinstance(term, Variable) and term.kind for term in root.inputs or ())):
            ops = frozenset(("Const",))
        is_forward = len(root.inputs or ()) == 1 and not (inner or ops or root.attrs)
        condition = _CONDITIONS.get(rule.name)
        found.append(ExactRule(name, root, label, condition, ops, literal, 1 + bool(inner), is_forward))
    return tuple(found)


def rules_by_op(names: Iterable[str]) -> dict[str, list[ExactRule]]:
    """Returns the rules of passes of simplify, by the op that they replace."""
    found: dict[str, list[ExactRule]] = {}
    for rule in (rule for name in names for rule in exact_rules(name)):
        for op in rule.pattern.ops:
            found.setdefault(op, []).append(rule)
    return found


def is_literal(value: Constant | None, term: Value) -> bool:
    """Returns whether a constant is a scalar with the value of a literal."""
    if value is None or value.shape or not value.values:
        return False
    found, wanted = value.values[0], term.values[0]
    if isinstance(found, bytes) or isinstance(found, bool) != isinstance(wanted, bool) or found != wanted:
        return False
    return isinstance(found, int) or copysign(1, found) == copysign(1, wanted)
