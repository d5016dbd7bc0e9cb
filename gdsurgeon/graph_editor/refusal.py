"""What this package raises: errors that are gdsurgeon's and, as in the older libraries, ValueErrors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gdsurgeon.errors import EditError


class Refusal(EditError, ValueError):
    """The arguments make no sense together, or the edit is refused; nothing was changed."""


@contextmanager
def refusals() -> Iterator[None]:
    """Has an EditError of gdsurgeon's own functions come out as a Refusal."""
    try:
        yield
    except Refusal:
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
