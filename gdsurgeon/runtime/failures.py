"""What can go wrong with TensorFlow: errors it reports, its absence, and the death of the process it runs in."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from gdsurgeon.errors import printable

# The names of TensorFlow's status codes, by number (error_codes.proto).
CODES = (
    "ok",
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
)

_CRASHES = {
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGTRAP")
    if hasattr(signal, name)
}


def code_name(number: int) -> str:
    """The name of TensorFlow's status code NUMBER, such as 'invalid_argument'."""
    return CODES[number] if 0 <= number < len(CODES) else "unknown"


class RuntimeFailure(Exception):
    """Base of everything that keeps TensorFlow from giving an answer; its text is one sentence."""

    def told(self, called: Mapping[str, str]) -> str:
        """The sentence, in which graphs and the like are called what CALLED calls them."""
        del called
        return str(self)


class TensorFlowError(RuntimeFailure):
    """TensorFlow, or a check made on its behalf, refuses a request.

    Attributes:
        code: the name of a status code, such as 'invalid_argument' or 'not_found'.
        message: TensorFlow's own words; may be several lines.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Stage(NamedTuple):
    """What the process is doing: ``running``, and of what, by its key; '' where that says all."""

    doing: str
    key: str = ""

    def told(self, called: Mapping[str, str] = MappingProxyType({})) -> str:
        """``running edited``, where CALLED has no other name for it."""
        return f"{self.doing} {printable(called.get(self.key, self.key))}" if self.key else self.doing


class FileUnreadable(RuntimeFailure):
    """The file of a graph cannot be read."""


class TensorFlowMissing(RuntimeFailure):
    """TensorFlow is not installed here, or is installed and cannot be loaded."""


class WorkerUnavailable(RuntimeFailure):
    """There is no process for TensorFlow, or not the memory that it needs: that says nothing of a graph."""


class WorkerDied(RuntimeFailure):
    """The process that ran TensorFlow has ended without being asked to.

    Attributes:
        exit_status: its exit code, or minus the number of the signal that killed it, or None if unknown.
        signal_name: 'SIGSEGV' and the like, or None.
        stages: what it was doing.
        says_nothing: whether that says nothing of a graph: it had not got to one, or lacked memory.
        who: what ran in it.
    """

    def __init__(
        self, exit_status: int | None, stages: Sequence[Stage], says_nothing: bool, who: str = "TensorFlow"
    ) -> None:
        self.exit_status = exit_status
        self.signal_name = _signal_name(exit_status)
        self.stages = stages
        self.says_nothing = says_nothing
        self.who = who
        super().__init__(self.told({}))

    def told(self, called: Mapping[str, str]) -> str:
        stages = " or ".join(stage.told(called) for stage in self.stages)
        return f"{self.who} {_manner_of_death(self.exit_status, self.signal_name)} while {stages}"


class WorkerTimeout(RuntimeFailure):
    """TensorFlow did not answer in time; its process has been killed.

    Attributes:
        seconds: how long was waited.
        stage: what it was doing.
        who: what ran in it.
    """

    def __init__(self, seconds: float, stage: Stage, who: str = "TensorFlow") -> None:
        self.seconds = seconds
        self.stage = stage
        self.who = who
        super().__init__(self.told({}))

    def told(self, called: Mapping[str, str]) -> str:
        return f"{self.who} did not finish {self.stage.told(called)} within {self.seconds:g} s"


def _signal_name(exit_status: int | None) -> str | None:
    if exit_status is None or exit_status >= 0:
        return None
    try:
        return signal.Signals(-exit_status).name
    except ValueError:
        return f"signal {-exit_status}"


def _manner_of_death(exit_status: int | None, name: str | None) -> str:
    if exit_status is None:
        return "ended unexpectedly"
    if name is None:
        return f"ended unexpectedly (exit code {exit_status})"
    if -exit_status in _CRASHES:
        return f"crashed ({name})"
    if -exit_status == getattr(signal, "SIGKILL", None):
        return f"was killed ({name}, most likely out of memory)"
    return f"was killed ({name})"
