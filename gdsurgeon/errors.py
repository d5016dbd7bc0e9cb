"""Every error that a user can meet, each with its exit code."""

from __future__ import annotations


class GdsurgeonError(Exception):
    """Base of all errors meant for a person: one line, and perhaps a hint naming the option that helps.

    Attributes:
        exit_code: what the command line exits with.
        message: the line itself, without ``Error:`` in front.
        hint: a second line, or None.
        details: further facts, one a line (the faults of a broken graph, the largest nodes, ...).
        warnings: what there was to say before it came to this, a line each.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
        self.warnings: tuple[str, ...] = ()


class UsageError(GdsurgeonError):
    """The command line contradicts itself."""

    exit_code = 2


class InputError(GdsurgeonError):
    """The input cannot be read, or is not what it says it is."""

    exit_code = 3


class EditError(GdsurgeonError):
    """The edit is refused; the graph is as it was."""

    exit_code = 4


class ValidationError(GdsurgeonError):
    """The result does not load, does not run, or differs from what the edit promises."""

    exit_code = 5


class OutputError(GdsurgeonError):
    """The output cannot be written."""

    exit_code = 6


class NotValidatedError(GdsurgeonError):
    """The validation could not be carried out here; it has neither passed nor failed."""

    exit_code = 7


def printable(text: str) -> str:
    """TEXT with control characters, newlines and lone surrogates escaped: a node's name is data, not markup."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def quoted(text: str) -> str:
    """TEXT for a message: printable, in single quotes."""
    return f"'{printable(text)}'"
