"""What can go wrong with TensorFlow: errors it reports, its absence, and the death of the process it runs in."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from gdsurgeon.errors import GdsurgeonError, InputError, Json, NotValidatedError, ValidationError, printable
from gdsurgeon.resources import OUT_OF_MEMORY

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
    """Base of everything that keeps TensorFlow from giving an answer; its text is one sentence.

    Attributes:
        error_code: a short name of what is wrong, for `gdsurgeon.errors`.
        says_nothing: whether the failure says nothing about a graph: TensorFlow had not started, or lacked memory.
    """

    error_code = "failed"
    says_nothing = False

    def __init__(self, message: str, error_code: str = "") -> None:
        super().__init__(message)
        self.error_code = error_code or self.error_code

    def facts(self, called: Mapping[str, str]) -> dict[str, Json]:
        """The facts of the error that a person is shown; graphs are called what CALLED calls them."""
        del called
        return {}

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

    def of(self, arguments: Mapping[str, object]) -> Stage:
        """The stage whose key is the argument that this one names."""
        return self._replace(key=str(arguments[self.key])) if self.key else self

    def told(self, called: Mapping[str, str] = MappingProxyType({})) -> str:
        """``running edited``, where CALLED has no other name for it."""
        return f"{self.doing} {printable(called.get(self.key, self.key))}" if self.key else self.doing


STARTING = Stage("starting")
"""What the process is doing before it has a graph."""


class FileUnreadable(RuntimeFailure):
    """The file of a graph cannot be read."""

    error_code = "unreadable"


class TensorFlowMissing(RuntimeFailure):
    """TensorFlow is not installed here, or is installed and cannot be loaded."""

    error_code = "no-tensorflow"
    says_nothing = True


class WorkerUnavailable(RuntimeFailure):
    """There is no process for TensorFlow, or not the memory that it needs: that says nothing of a graph."""

    error_code = "no-tensorflow"
    says_nothing = True


class WorkerDied(RuntimeFailure):
    """The process that ran TensorFlow has ended without being asked to.

    Attributes:
        exit_status: its exit code, or minus the number of the signal that killed it, or None if unknown.
        signal_name: 'SIGSEGV' and the like, or None.
        stages: its work at that time.
        who: what ran in it.
        lacked: the resource that had run out, such as ``out of memory``; '' if that is not known.
        limit: bytes of memory that it could use; 0 if there was no limit.
    """

    def __init__(
        self,
        exit_status: int | None,
        stages: Sequence[Stage],
        says_nothing: bool,
        who: str = "TensorFlow",
        *,
        lacked: str = "",
        limit: int = 0,
    ) -> None:
        self.exit_status = exit_status
        self.signal_name = _signal_name(exit_status)
        self.stages = stages
        self.says_nothing = says_nothing or bool(lacked)
        self.who = who
        self.lacked = lacked
        self.limit = limit
        self.error_code = "out-of-memory" if lacked == OUT_OF_MEMORY else "crashed"
        super().__init__(self.told({}))

    def facts(self, called: Mapping[str, str]) -> dict[str, Json]:
        found: dict[str, Json] = {
            "doing": [stage.told(called) for stage in self.stages],
            "signal": self.signal_name,
            "reason": self.lacked,
        }
        return {**found, "limit": self.limit} if self.lacked == OUT_OF_MEMORY else found

    def told(self, called: Mapping[str, str]) -> str:
        stages = " or ".join(stage.told(called) for stage in self.stages)
        manner = _manner_of_death(self.exit_status, self.signal_name, self.lacked)
        return f"{self.who} {manner} while {stages}" + (f": {self.lacked}" if self.lacked else "")


class BadAnswer(WorkerDied):
    """The process has sent a message that does not answer a request, and has been killed."""

    def __init__(self, reason: str, stages: Sequence[Stage], who: str = "TensorFlow") -> None:
        self.reason = printable(reason)
        super().__init__(None, stages, False, who)
        self.error_code = "bad-message"

    def facts(self, called: Mapping[str, str]) -> dict[str, Json]:
        return {"doing": [stage.told(called) for stage in self.stages], "reason": self.reason}

    def told(self, called: Mapping[str, str]) -> str:
        stages = " or ".join(stage.told(called) for stage in self.stages)
        return f"the process of {self.who} sent an invalid message while {stages}: {self.reason}"


class WorkerTimeout(RuntimeFailure):
    """TensorFlow did not answer in time; its process has been killed.

    Attributes:
        seconds: how long was waited.
        stage: its work at that time.
        who: what ran in it.
    """

    error_code = "timed-out"

    def __init__(self, seconds: float, stage: Stage, who: str = "TensorFlow") -> None:
        self.seconds = seconds
        self.stage = stage
        self.who = who
        self.says_nothing = stage == STARTING
        super().__init__(self.told({}))

    def facts(self, called: Mapping[str, str]) -> dict[str, Json]:
        return {"doing": [self.stage.told(called)], "seconds": self.seconds}

    def told(self, called: Mapping[str, str]) -> str:
        return f"{self.who} did not finish {self.stage.told(called)} within {self.seconds:g} s"


def error_of(
    failure: RuntimeFailure, called: Mapping[str, str] = MappingProxyType({}), *, has_libraries: bool = False
) -> GdsurgeonError:
    """The error for a person that FAILURE amounts to; what TensorFlow refuses is for the caller to word.

    Args:
        called: names for graphs in the message, by their keys.
        has_libraries: whether the process loads libraries that the user names: these may be why it did not start.
    """
    message, code, facts = failure.told(called), failure.error_code, failure.facts(called)
    if isinstance(failure, FileUnreadable):
        return InputError(printable(message), code=code, facts=facts)
    if isinstance(failure, TensorFlowMissing):
        message += ": the result cannot run on this machine"
    if failure.says_nothing and not (has_libraries and code in ("crashed", "timed-out")):
        if code == "out-of-memory":
            return NotValidatedError(message, code=code, facts=facts, advice=("more-memory", "do-without-tensorflow"))
        install = ("install-tensorflow",) if isinstance(failure, TensorFlowMissing) else ()
        return NotValidatedError(message, code=code, facts=facts, advice=(*install, "do-without-tensorflow"))
    if code == "timed-out":
        return ValidationError(message, code=code, facts=facts, advice="longer")
    return ValidationError(message, code=code, facts=facts)


def _signal_name(exit_status: int | None) -> str | None:
    if exit_status is None or exit_status >= 0:
        return None
    try:
        return signal.Signals(-exit_status).name
    except ValueError:
        return f"signal {-exit_status}"


def _manner_of_death(exit_status: int | None, name: str | None, lacked: str) -> str:
    if exit_status is None:
        return "ended unexpectedly"
    if name is None:
        return f"ended unexpectedly (exit code {exit_status})"
    if -exit_status in _CRASHES:
        return f"crashed ({name})"
    if -exit_status == getattr(signal, "SIGKILL", None):
        return f"was killed ({name}{', most likely out of memory' * (not lacked)})"
    return f"was killed ({name})"
