"""What this package raises: errors that are gdsurgeon's and, as in the older libraries, ValueErrors and TypeErrors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gdsurgeon.errors import EditError, printable
from gdsurgeon.text import an


class Refusal(EditError, ValueError):
    """The arguments make no sense together, or the edit is refused; nothing was changed."""


class WrongType(EditError, TypeError):
    """An argument is of another type than EXPECTED; nothing was changed."""

    def __init__(self, expected: str, argument: object) -> None:
        found = type(argument).__name__
        shown = printable(repr(argument)) if isinstance(argument, (str, int, float, type(None))) else an(found)
        super().__init__(
            f"{an(expected)} is expected, not {shown}",
            code="wrong-type",
            facts={"expected": expected, "found": found},
        )


@contextmanager
def refusals() -> Iterator[None]:
    """Has an EditError of gdsurgeon's own functions come out as a Refusal."""
    try:
        yield
    except (Refusal, WrongType):
        raise
    except EditError as error:
        raise Refusal(
            error.message,
            code=error.code,
            advice=error.advice,
            facts=error.facts,
            hint=error.hint,
            details=error.details,
        ) from error
