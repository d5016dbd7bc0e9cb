"""Failures of TensorFlow and of its process, and the only place where these become errors for users."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import NamedTuple

from gdsurgeon.errors import InputError, Json, Line, NotValidatedError, UsageError, ValidationError, printable
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.resources import OUT_OF_MEMORY, is_memory_limited, memory_budget

_CODES = (
    "ok cancelled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied "
    "resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable data_loss "
    "unauthenticated"
).split()
"""The names of TensorFlow's status codes, by number (error_codes.proto)."""

_CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGTRAP")


def code_name(number: int) -> str:
    """Returns the name of TensorFlow's status code `number`, such as 'invalid_argument'."""
    return _CODES[number] if 0 <= number < len(_CODES) else "unknown"


NOT_LOADED, NOT_RUN = "unimplemented", "internal"
"""The codes of an engine that does not load a graph, and of an engine that loads it and does not run it."""


def first_line(error: Exception) -> str:
    """Returns the first line of the text of `error`, or its class if it has no text."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class TensorFlowError(Exception):
    """TensorFlow, or a check on its behalf, refuses a request.

    Attributes:
        code: the name of a status code, such as 'invalid_argument' or 'not_found'.
        message: TensorFlow's message; it may have several lines.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def node(self) -> str:
        """The node that fails, or ''."""
        return self.message.partition("{{node ")[2].partition("}}")[0]

    @property
    def text(self) -> str:
        """The first line of the message, without details for TensorFlow's developers."""
        line = (self.message.strip().splitlines() or ["no reason reported"])[0]
        return line.split(" in binary running on ")[0].rstrip(". ")


class TensorFlowMissing(NotValidatedError):
    """TensorFlow or a different engine is not installed, or cannot be loaded; `reason` says why."""

    def __init__(self, reason: str) -> None:
        advice = ("install-tensorflow", "do-without-tensorflow")
        super().__init__(f"{reason}: the result cannot run on this machine", code="no-tensorflow", advice=advice)
        self.reason = reason


class Stage(NamedTuple):
    """The current work of the process, and the key of its graph; '' if it has none."""

    doing: str
    key: str = ""

    def called(self, names: Mapping[str, str]) -> str:
        """Returns ``running edited``, or with the name of the graph in `names`."""
        return f"{self.doing} {printable(names.get(self.key, self.key))}" if self.key else self.doing


STARTING = Stage("starting")
"""The work of the process before it has a graph."""

REFUSED, MISSING, UNAVAILABLE, UNREADABLE, FAILED = "tensorflow", "missing", "unavailable", "unreadable", "other"


class Failure(NamedTuple):
    """The reason why a request has no answer.

    Attributes:
        kind: `REFUSED` by TensorFlow; TensorFlow is `MISSING`; the process or its memory is `UNAVAILABLE`, which shows
            nothing about a graph; the file is `UNREADABLE`; or `FAILED`.
        code: TensorFlow's status if it refuses, otherwise an error code.
        reason: one sentence.
        facts: of the error.
    """

    kind: str
    code: str
    reason: str
    facts: Mapping[str, Json] = MappingProxyType({})

    def error(self) -> Exception:
        """Returns a new error for the user; a `TensorFlowError` if TensorFlow refuses, for the caller to word."""
        if self.kind == REFUSED:
            return TensorFlowError(self.code, self.reason)
        if self.kind == MISSING:
            return TensorFlowMissing(self.reason)
        if self.kind == UNREADABLE:
            return InputError(printable(self.reason), code=self.code, facts=self.facts)
        if self.kind == UNAVAILABLE:
            more = ("more-memory",) if self.code == "out-of-memory" else ()
            advice = (*more, "do-without-tensorflow")
            return NotValidatedError(self.reason, code=self.code, facts=self.facts, advice=advice)
        longer = "longer" if self.code == "timed-out" else ()
        return ValidationError(self.reason, code=self.code or "failed", facts=self.facts, advice=longer)


_FOR_WANT_OF_MEMORY = ("resource_exhausted", "aborted", "internal", "unknown")
"""TensorFlow's error codes for a kernel that gets no memory."""
_TOO_LARGE = re.compile(r"OOM when allocating tensor with shape\[(?P<shape>[\d,]*)\] and type (?P<dtype>\w+)")


def for_user(error: TensorFlowError, op_libraries: Sequence[str]) -> Exception:
    """Returns `error`, or an error for the user if it is not about a graph: a library of ops does not load, or memory
    is exhausted."""
    for library in op_libraries:
        if error.message.startswith(os.path.abspath(library)):
            line = "{op_libraries} {library} cannot be loaded: {reason}"
            words = {"library": printable(library), "reason": error.message}
            return UsageError(
                Line(line, **words), code="wrong-format", option="op_libraries", file=library, reason=error.message
            )
    # A single tensor above the budget is the fault of the graph.
    found = _TOO_LARGE.search(error.message) if error.code == "resource_exhausted" else None
    is_small = found is not None and _nbytes(found["shape"], found["dtype"]) <= memory_budget()
    if not is_small and (error.code not in _FOR_WANT_OF_MEMORY or not is_memory_limited()):
        return error
    reason = printable(error.text)
    return NotValidatedError(
        f"TensorFlow needs more memory than it is allowed to use: {reason}",
        code="out-of-memory",
        limit=memory_budget(),
        reason=reason,
        advice=("more-memory", "do-without-running"),
    )


def _nbytes(shape: str, dtype: str) -> int:
    """Returns the bytes of a tensor, of a shape and dtype as in TensorFlow's messages."""
    kind = NUMBERS.get({"half": "float16", "double": "float64"}.get(dtype, dtype))
    return (kind.size if kind else 4) * prod(int(dim) for dim in shape.split(",") if dim)


def died(
    status: int | None,
    doing: Sequence[str],
    who: str,
    *,
    lacked: str,
    needed: int,
    has_libraries: bool,
) -> Failure:
    """Returns the failure of a process that ended unexpectedly.

    Args:
        status: its exit code, or minus the number of the signal that killed it, or None if unknown.
        doing: its work at that time.
        who: the program in it.
        lacked: the resource that was exhausted, such as ``out of memory``; '' if that is not known.
        needed: bytes of memory that its largest graph needs.
        has_libraries: whether it loads libraries of the user, which may be the cause.
    """
    name = None
    if status is None or status >= 0:
        manner = "ended unexpectedly" + (f" (exit code {status})" if status is not None else "")
    else:
        known = {number.value: number.name for number in signal.Signals}
        name = known.get(-status, f"signal {-status}")
        guess = ", most likely out of memory" if name == "SIGKILL" and not lacked else ""
        manner = f"crashed ({name})" if name in _CRASHES else f"was killed ({name}{guess})"
    reason = f"{who} {manner} while {' or '.join(doing)}" + (f": {lacked}" if lacked else "")
    facts: dict[str, Json] = {"doing": doing, "signal": name, "reason": lacked}
    if lacked == OUT_OF_MEMORY:
        limit = memory_budget()
        if needed > limit // 2:
            from gdsurgeon.text import size

            reason += f"; the graph needs about {size(needed)}, and {size(limit)} are allowed"
        return Failure(UNAVAILABLE, "out-of-memory", reason, {**facts, "limit": limit, "needed": needed})
    shows_nothing = lacked or is_memory_limited() or doing == [STARTING.doing]  # about a graph
    return Failure(UNAVAILABLE if shows_nothing and not has_libraries else FAILED, "crashed", reason, facts)
