"""A limit to how long something may take."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Overdue(BaseException):
    """It has not come back; nothing that the command line turns into an exit code."""


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fails what does not come back."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Overdue(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
