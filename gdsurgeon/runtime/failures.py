"""What can go wrong with TensorFlow: errors it reports, its absence, and the death of the process it runs in."""

from __future__ import annotations

import signal

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


class TensorFlowMissing(RuntimeFailure):
    """TensorFlow is not installed here, or is installed and cannot be loaded."""


class WorkerDied(RuntimeFailure):
    """The process that ran TensorFlow has ended without being asked to.

    Attributes:
        exit_status: its exit code, or minus the number of the signal that killed it, or None if unknown.
        signal_name: 'SIGSEGV' and the like, or None.
        stage: what it was doing, such as 'loading edited'.
    """

    def __init__(self, exit_status: int | None, stage: str) -> None:
        self.exit_status = exit_status
        self.signal_name = _signal_name(exit_status)
        self.stage = stage
        super().__init__(f"{_manner_of_death(exit_status, self.signal_name)} while {stage}")


class WorkerTimeout(RuntimeFailure):
    """TensorFlow did not answer in time; its process has been killed.

    Attributes:
        seconds: how long was waited.
        stage: what it was doing, such as 'running edited'.
    """

    def __init__(self, seconds: float, stage: str) -> None:
        self.seconds = seconds
        self.stage = stage
        super().__init__(f"TensorFlow did not finish {stage} within {seconds:g} s")


def _signal_name(exit_status: int | None) -> str | None:
    if exit_status is None or exit_status >= 0:
        return None
    try:
        return signal.Signals(-exit_status).name
    except ValueError:
        return f"signal {-exit_status}"


def _manner_of_death(exit_status: int | None, name: str | None) -> str:
    if exit_status is None:
        return "TensorFlow ended unexpectedly"
    if name is None:
        return f"TensorFlow ended unexpectedly (exit code {exit_status})"
    if -exit_status in _CRASHES:
        return f"TensorFlow crashed ({name})"
    if -exit_status == getattr(signal, "SIGKILL", None):
        return f"TensorFlow was killed ({name}, most likely out of memory)"
    return f"TensorFlow was killed ({name})"
