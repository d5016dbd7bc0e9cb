"""The base class of parsers for small languages: reads a text from left to right."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator

from gdsurgeon.errors import UsageError, quoted
from gdsurgeon.text import shortened

_SPACE = re.compile(r"[ \t\r\n]*")


class Parser(ABC):
    """Reads `text` from left to right, ignoring whitespace.

    Attributes:
        text: the complete text.
        at: the current position, from 0.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @abstractmethod
    def error(self, what: str, place: int | None = None) -> UsageError:
        """Returns an error: `what` is wrong at `place`, by default at the parser's position."""

    def space(self) -> None:
        """Skips whitespace."""
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def is_end(self) -> bool:
        """Skips spaces and returns whether the text ends there."""
        self.space()
        return self.at >= len(self.text)

    def skip(self, text: str, but: tuple[str, ...] = ()) -> bool:
        """Skips `text` if it comes next and no text of `but` does. Returns whether it was skipped."""
        self.space()
        if not self.text.startswith(text, self.at) or self.text.startswith(but or "\0", self.at):
            return False
        self.at += len(text)
        return True

    def match(self, pattern: re.Pattern[str]) -> str:
        """Skips and returns the next text that matches `pattern`; returns '' if it does not match."""
        self.space()
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def until(self, end: str) -> Iterator[None]:
        """Yields once for each item up to `end`, with commas between items; the caller reads the item.

        Raises:
            UsageError: a comma or `end` is missing.
        """
        is_first = True
        while not self.skip(end):
            if not is_first and not self.skip(","):
                raise self.error(f"',' or '{end}' is missing")
            is_first = False
            yield


def where(text: str, at: int) -> str:
    """Returns the place `at` in `text` for a message: ``at 'Mul($x'``."""
    rest = shortened(text[at:].strip(), 20)
    return f"at {quoted(rest)}" if rest else "at the end"
