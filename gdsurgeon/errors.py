"""Every error that a user can meet, each with its exit code."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Values in errors and reports for programs."""

INTERNAL_FAULT = 70
"""The exit code of an internal error: EX_SOFTWARE of sysexits.h. A comparison that finds differences has 1."""


class Line(str):
    """A line for the user that names arguments of the library; the command line replaces them by its options.

    Attributes:
        template: the line, with a field in braces for each fact, and for each argument without a fact.
        facts: the values of the fields; printable, or lines themselves.
    """

    template: str
    facts: Mapping[str, str]

    def __new__(cls, template: str, **facts: str) -> Line:
        self = super().__new__(cls, template.format_map(_Words(facts, {})))
        self.template = template
        self.facts = facts
        return self

    def naming(self, options: Mapping[str, str]) -> str:
        """Returns the line with the names of arguments replaced by those in `options`."""
        return self.template.format_map(_Words(self.facts, options))


class _Words(dict[str, str]):
    """The values of a template. A missing key is the name of an argument, for which `options` may have another name."""

    def __init__(self, facts: Mapping[str, str], options: Mapping[str, str]) -> None:
        super().__init__({k: v.naming(options) if isinstance(v, Line) else v for k, v in facts.items()})
        self._options = options

    def __missing__(self, name: str) -> str:
        return self._options.get(name, name)


class Remark(str):
    """A line for the user, such as a warning, with a code by which programs recognise it.

    Attributes:
        code: a short name of what the line says; it stays the same when the words change.
        facts: the subjects of the line by name: a node, a tensor, ...
    """

    code: str
    facts: Mapping[str, Json]

    def __new__(cls, text: str, code: str, **facts: Json) -> Remark:
        self = super().__new__(cls, text)
        self.code = code
        self.facts = facts
        return self

    def __str__(self) -> str:
        return self

    def as_json(self) -> dict[str, Json]:
        """Returns the code and the facts, to be a fact of an error."""
        return {"code": self.code, **self.facts}


def joined(separator: str, lines: Iterable[str]) -> Line:
    """Returns `lines` as one line, joined with `separator` and made printable."""
    facts = {f"line_{number}": printable(line) for number, line in enumerate(lines)}
    return Line(separator.join(f"{{{name}}}" for name in facts), **facts)


def named_argument(name: str) -> Line:
    """Returns the argument `name` of the library as a line."""
    return Line(f"{{{name}}}")


class GdsurgeonError(Exception):
    """Base of all errors that are shown to the user: one line, and possibly advice.

    Attributes:
        exit_code: the exit code of the command line.
        message: the line itself, without the prefix ``Error:``; a `Line` if it names arguments.
        code: a short name of the fault, which stays the same if the words change. The class has a default; the place
            that raises the error may give a more specific one.
        advice: codes of hints. The command line has their texts (`gdsurgeon.cli.hints`), which name its options and
            contain the facts.
        facts: the subjects of the message by name: a file, a node, ... They are given as a mapping or as keywords.
        hint: a second line that names no options, or None.
        details: further facts, one a line (the faults of a broken graph, the largest nodes, ...).
        warnings: the warnings that came before the error, a line each.
        function: the public function of the library that raised it; '' if it was raised elsewhere.
    """

    exit_code = INTERNAL_FAULT
    code = "failed"
    function = ""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        advice: str | tuple[str, ...] = (),
        facts: Mapping[str, Json] | None = None,
        hint: str | None = None,
        details: tuple[str, ...] = (),
        **subjects: Json,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.advice = (advice,) if isinstance(advice, str) else advice
        self.facts = {**(facts or {}), **subjects}
        self.hint = hint
        self.details = details
        self.warnings: tuple[str, ...] = ()

    def place_at(self, place: str) -> None:
        """Puts `place`, where the error arose, before the message and into the facts; '' does nothing."""
        if place:
            self.facts.setdefault("place", place)
            self.message = Line("{place}: {message}", place=printable(place), message=printable(self.message))

    def __str__(self) -> str:
        """Returns the complete text: the function, the message, the details and the hint."""
        place = f"{self.function}: " if self.function else ""
        return "\n".join(
            [place + self.message, *(f"  {detail}" for detail in self.details), *filter(None, (self.hint,))]
        )


class UsageError(GdsurgeonError):
    """The command line contradicts itself."""

    exit_code = 2
    code = "usage"


class ArgumentError(UsageError, TypeError):
    """An argument of a public function is of the wrong type, missing or unknown.

    Args:
        function: the name of the function.
        argument: the name of the argument; '' if the arguments do not fit the function at all.
        expected: the type that the argument must have, or what is wrong with the arguments.
        found: the argument.
    """

    code = "bad-type"

    def __init__(self, function: str, argument: str, expected: str, *, found: object = None) -> None:
        kind = type(found).__name__
        place = f"argument {quoted(argument)}: expected {expected}, got {kind}" if argument else expected
        facts = {"function": function, "argument": argument, "expected": expected, "found": kind}
        super().__init__(place, facts=facts)
        self.function = function


class InputError(GdsurgeonError):
    """The input cannot be read, or is in a different format."""

    exit_code = 3
    code = "bad-input"


class EditError(GdsurgeonError, ValueError):
    """The edit is refused; the graph is as it was."""

    exit_code = 4
    code = "edit-refused"


class NothingToDo(EditError):
    """The graph is already as the edit would make it: an operation passes it on, unless a change is required."""

    code = "nothing-to-do"


class ValidationError(GdsurgeonError):
    """The result does not load, does not run, or differs from the claims of the edit."""

    exit_code = 5
    code = "not-valid"


class OutputError(GdsurgeonError):
    """The output cannot be written."""

    exit_code = 6
    code = "cannot-write"


class NotValidatedError(GdsurgeonError):
    """The validation could not be carried out here; it has neither passed nor failed."""

    exit_code = 7
    code = "not-validated"


def reason(error: OSError) -> str:
    """Returns the reason for an operating system error, in lower case, to be part of a sentence."""
    return (error.strerror or str(error)).lower()


def unreadable(name: str, error: OSError, verb: str = "read") -> InputError:
    """Returns an InputError: the file `name` cannot be read (or `verb`), because of `error`."""
    line = f"{printable(name)} cannot be {verb}: {reason(error)}"
    return InputError(line, code="unreadable", file=name, reason=errno.errorcode.get(error.errno or 0))


def unwritable(name: str, error: OSError, verb: str = "written", *, role: str = "") -> OutputError:
    """Returns an OutputError: the file `name`, with this `role`, cannot be written (or `verb`), because of `error`."""
    line = f"{role} {printable(name)} cannot be {verb}: {reason(error)}".lstrip()
    return OutputError(line, code="unwritable", file=name, reason=errno.errorcode.get(error.errno or 0))


def printable(text: str) -> str:
    """Returns `text` with control characters, newlines and lone surrogates escaped.

    Names of nodes are data, not markup.
    """
    if isinstance(text, Line) or text.isprintable():
        return text  # the facts of a line are printable
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


LONGEST_NAME = 200
"""Characters of a name in a message; the middle of a longer one is left out."""


def quoted(text: str) -> str:
    """Returns `text` for a message: printable, quoted, and cut to `LONGEST_NAME` characters before escaping."""
    return f"'{printable(middle_cut(text, LONGEST_NAME))}'"


def middle_cut(text: str, most: int) -> str:
    """Returns `text` with its middle left out if it has more than `most` characters."""
    if len(text) <= most:
        return text
    kept = most - 2
    return f"{text[: kept - kept // 2]}..{text[len(text) - kept // 2 :]}"
