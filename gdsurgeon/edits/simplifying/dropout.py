"""Dropout that drops nothing: what it draws decides nothing, since all of it is kept."""

from __future__ import annotations

from typing import NamedTuple

from gdsurgeon.edits.simplifying.draft import BITS, Draft
from gdsurgeon.ops.kinds import SUMS

OPS = frozenset(("Mul", "Select", "SelectV2"))
"""Ops by which elements are dropped."""
DRAWS = "RandomUniform"
MOST_SUMS = 4
"""How many numbers may be added to what is drawn."""


class Mask(NamedTuple):
    """What keeps all: what is kept, the node that draws, and whatever else is read, as codes."""

    kept: int
    drawing: int
    beside: tuple[int, ...]


def keeps_all(draft: Draft, number: int) -> Mask | None:
    """What a node is that drops elements at random, where the chance of that is 0.

    Of version 1 ``x * floor(uniform + 1)``, of version 2 ``x * cast(uniform >= 0)`` or a choice by that: what is drawn
    is at least 0, and below 1.
    """
    reads = draft.data(number)
    if draft.topology.op(number) != "Mul":
        drawing = _always(draft, reads[0]) if len(reads) == 3 else None
        return None if drawing is None else Mask(reads[1], drawing, (reads[2],))
    for slot, code in enumerate(reads):
        drawing = _ones(draft, code)
        if drawing is not None:
            return Mask(reads[1 - slot], drawing, ())
    return None


def _ones(draft: Draft, code: int) -> int | None:
    """The node that draws for a tensor which is 1 all over."""
    number = code >> BITS
    reads = draft.data(number)
    if len(reads) != 1 or draft.has_controls(number):
        return None
    if draft.topology.op(number) == "Cast":
        return _always(draft, reads[0])
    if draft.topology.op(number) != "Floor" or draft.topology.op(reads[0] >> BITS) not in SUMS:
        return None
    return _uniform(draft, reads[0], 1)


def _always(draft: Draft, code: int) -> int | None:
    """The node that draws for a tensor which is true all over."""
    number = code >> BITS
    reads = draft.data(number)
    if draft.topology.op(number) != "GreaterEqual" or len(reads) != 2 or draft.has_controls(number):
        return None
    least = _number(draft, reads[1])
    return _uniform(draft, reads[0], 0) if least is not None and least <= 0 else None


def _uniform(draft: Draft, code: int, plus: float) -> int | None:
    """The node that draws from [0, 1) for a tensor, to which PLUS is added; 0 may be left out."""
    added = 0.0
    for _ in range(MOST_SUMS):
        number = code >> BITS
        if draft.has_controls(number):
            break
        op, reads = draft.topology.op(number), draft.data(number)
        if op == DRAWS:
            return number if added == plus else None
        numbers = [_number(draft, other) for other in reads] if op in SUMS else []
        slot = next((slot for slot, found in enumerate(numbers) if found in (0, 1)), None)
        if slot is None:
            break
        added += numbers[slot] or 0
        code = reads[1 - slot]
    return None


def _number(draft: Draft, code: int) -> float | None:
    """The number that a tensor is; None where it is not known to be one."""
    value = draft.constant(code)
    found = value.values[0] if value is not None and not value.shape else None
    return found if isinstance(found, float) else None
