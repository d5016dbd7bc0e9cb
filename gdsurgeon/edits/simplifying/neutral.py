"""What gives what it reads: times 1, a Cast to what it is, a Transpose that moves nothing, and their like."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign

from gdsurgeon.edits.simplifying.draft import Draft
from gdsurgeon.graph.constants import Constant
from gdsurgeon.ops.dtypes import DTYPES


def neutral(draft: Draft) -> None:
    """What the values of constants show to be neutral, bit for bit."""
    for number in draft.again("neutral", _RULES):
        reads = draft.data(number)
        slot = _RULES[draft.topology.op(number)](draft, number, reads)
        if slot is not None and slot < len(reads):
            draft.bypass(number, reads[slot], reads[:slot] + reads[slot + 1 :])
    draft.settle("neutral")


_Rule = Callable[[Draft, int, list[int]], "int | None"]


def _is_scalar(value: Constant | None, wanted: float) -> bool:
    """Whether a constant is one number, without dims to be broadcast, and that is WANTED."""
    if value is None or value.shape or not value.values:
        return False
    dtype, found = DTYPES.get(value.dtype), value.values[0]
    if dtype is None or not (dtype.is_float or dtype.is_integer) or not isinstance(found, (int, float)):
        return False
    return found == wanted and copysign(1, found) == copysign(1, wanted)


def _times(draft: Draft, number: int, reads: list[int]) -> int | None:
    del number
    ones = [_is_scalar(draft.constant(code), 1) for code in reads]
    return ones.index(True) ^ 1 if True in ones else None


def _by(neutral_value: float) -> _Rule:
    """That the second of two is NEUTRAL_VALUE."""

    def rule(draft: Draft, number: int, reads: list[int]) -> int | None:
        del number
        return 0 if len(reads) == 2 and _is_scalar(draft.constant(reads[1]), neutral_value) else None

    return rule


def _plus(draft: Draft, number: int, reads: list[int]) -> int | None:
    """Of floats 0 + -0 is 0: only -0 is neutral."""
    del number
    values = [draft.constant(code) for code in reads]
    for slot, value in enumerate(values):
        dtype = DTYPES.get(value.dtype) if value is not None else None
        if dtype is not None and _is_scalar(value, -0.0 if dtype.is_float else 0):
            return slot ^ 1
    return None


def _same_type(draft: Draft, number: int, reads: list[int]) -> int | None:
    del reads
    node = draft.topology.node(number)
    given = node.attr_bytes("SrcT")
    return 0 if given is not None and given == node.attr_bytes("DstT") else None


def _of_one(draft: Draft, number: int, reads: list[int]) -> int | None:
    del draft, number
    return 0 if len(reads) == 1 else None


def _filled(wanted: int) -> _Rule:
    """That the second input is a constant of nothing but WANTED."""

    def rule(draft: Draft, number: int, reads: list[int]) -> int | None:
        del number
        value = draft.constant(reads[1]) if len(reads) > 1 else None
        return 0 if value is not None and all(item == wanted for item in value.values) else None

    return rule


def _over_nothing(draft: Draft, number: int, reads: list[int]) -> int | None:
    """That there is no axis along which elements become one: TensorFlow hands on what it is given, bit for bit."""
    del number
    value = draft.constant(reads[1]) if len(reads) == 2 else None
    return 0 if value is not None and value.shape == (0,) else None


def _into_one(draft: Draft, number: int, reads: list[int]) -> int | None:
    """That a tensor is split into one part."""
    del reads
    node = draft.topology.node(number)
    return _SPLIT[node.op] if node.setting("num_split") == 1 else None


def _in_order(draft: Draft, number: int, reads: list[int]) -> int | None:
    del number
    value = draft.constant(reads[1]) if len(reads) > 1 else None
    return 0 if value is not None and list(value.values) == list(range(len(value.values))) else None


REDUCTIONS = ("All", "Any", "Max", "Mean", "Min", "Prod", "Sum")
"""Ops that make one of the elements along some axes, and of one element that element."""
_SPLIT = {"Split": 1, "SplitV": 0}
"""Which input is split."""
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(REDUCTIONS, _over_nothing),
    "Add": _plus,
    "AddN": _of_one,
    "AddV2": _plus,
    "Cast": _same_type,
    "Div": _by(1),
    "MirrorPad": _filled(0),
    "Mul": _times,
    "Pad": _filled(0),
    "PadV2": _filled(0),
    "RealDiv": _by(1),
    "Split": _into_one,
    "SplitV": _into_one,
    "Sub": _by(0),
    "Tile": _filled(1),
    "Transpose": _in_order,
}
