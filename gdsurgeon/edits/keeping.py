"""Constants that an edit is to leave as they are, by a pattern."""

from __future__ import annotations

from gdsurgeon.errors import EditError, quoted
from gdsurgeon.select import compiled
from gdsurgeon.text import nearest, suggestion


class Keeping:
    """The constants whose names a pattern is found in.

    Attributes:
        found: those that were asked for and are held.

    Raises:
        UsageError: the text is no pattern.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._others: list[str] = []
        self.found: list[str] = []
        self._pattern = compiled(text) if text else None

    def holds(self, name: str) -> bool:
        """Whether the constant NAME is to be left as it is."""
        is_held = self._pattern is not None and self._pattern.search(name) is not None
        (self.found if is_held else self._others).append(name)
        return is_held

    def check_found(self) -> None:
        """Raises EditError where there is a pattern and no constant that was asked for is held."""
        if self._pattern is not None and not self.found:
            near = nearest(self._text, self._others)
            message = f"no constant matches {quoted(self._text)}.{suggestion(near)}"
            raise EditError(message, code="nothing-matched", facts={"value": self._text, "near": near})
