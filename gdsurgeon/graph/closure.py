"""What is reached from somewhere, step by step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def closure(starts: Iterable[T], step: Callable[[T], Iterable[T]]) -> set[T]:
    """STARTS, and all that STEP leads to from them, directly or not; never recurses itself."""
    out = set(starts)
    pending = list(out)
    while pending:
        new = set(step(pending.pop())) - out
        out |= new
        pending += new
    return out
