"""Time limits, and waiting for events."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import pytest

from gdsurgeon.runtime.client import Pending
from gdsurgeon.runtime.failures import Stage
from gdsurgeon.runtime.process import who_runs

T = TypeVar("T")

LONG_ENOUGH = 300.0
"""Seconds in which comes whatever is to come, however busy the machine is."""


class Overdue(BaseException):
    """It has not come back; nothing that the command line turns into an exit code."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fails what does not come back."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Overdue(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def until(look: Callable[[], T]) -> T:
    """Returns the result of LOOK as soon as it is true; its last result if it does not become true."""
    give_up = time.monotonic() + LONG_ENOUGH
    while not (found := look()) and time.monotonic() < give_up:
        time.sleep(0.02)
    return found


def is_alive(pid: int) -> bool:
    """Whether process PID runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    """Whether process PID ends."""
    return until(lambda: not is_alive(pid))


def begun(*asked: Pending[Any]) -> None:
    """Returns when the workers are busy with the requests ASKED, which never end."""
    for pending in asked:
        # The start is reported before later answers.
        assert until(lambda: pending._worker.info().result(LONG_ENOUGH) and pending._thread is not None)  # noqa: B023


def impatient_with(patch: pytest.MonkeyPatch, stage: Stage, who: str = "TensorFlow") -> None:
    """Has the limit that is set be one for WHO at STAGE alone; all that comes before may take as long as it does."""
    result = Pending.result

    def limited(self: Pending[Any], timeout: float | None = None) -> object:
        is_limited = self.stage == stage and who_runs(self._worker._runtime) == who
        return result(self, timeout if is_limited else LONG_ENOUGH)

    patch.setattr(Pending, "result", limited)
