"""How much work a call is, as a number that is the same on every machine: calls of functions, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(work: Callable[[], Any]) -> int:
    """How many functions WORK calls, those written in C too."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def is_linear(work: Callable[[int], Callable[[], Any]], small: int, large: int, slack: float = 1.5) -> bool:
    """Whether the work that WORK(n) makes grows no faster than n, from SMALL to LARGE; SLACK is for what does not."""
    work(small)()  # what is looked up once is looked up now
    return calls(work(large)) <= slack * large / small * calls(work(small))
