"""The language of steps, from text to calls: ``decode-image(channels=3) | resize(224, 224, like=pillow)``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple, TypeAlias

from gdsurgeon.errors import UsageError, printable
from gdsurgeon.parser import Parser, where

Literal: TypeAlias = "bool | int | float | str | list[Literal]"
"""What stands for a value in a call; a bare word and a text in quotes are both texts."""

DEEPEST = 8
"""Lists inside of lists that are read."""


class Argument(NamedTuple):
    """An argument of a call; `key` is '' where it is given by its place."""

    key: str
    value: Literal


class Call(NamedTuple):
    """A step as it was written."""

    name: str
    arguments: tuple[Argument, ...]


def parse(text: str) -> list[Call]:
    """The calls in TEXT, one after the other.

    Raises:
        UsageError: it is not in the language; the line says in which step, and at which column.
    """
    return _StepsParser(text).steps()


_LOOKALIKES = {
    **dict.fromkeys("“”„‟«»＂", '"'), **dict.fromkeys("‘’‚‛‹›＇`´", "'"), **dict.fromkeys("–—−‐‑", "-"),
    "，": ",", "＝": "=", "｜": "|", "（": "(", "）": ")", "\u00a0": " ",
}  # fmt: skip
"""Characters that editors and web pages use instead of plain ones."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)[ \t\r\n]*=")
_WORD = re.compile(r"""[^\s,()\[\]|='"]+""")
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_WHOLE = re.compile(r"[+-]?\d+")
_QUOTIENT = re.compile(rf"({_NUMBER})(?:/({_NUMBER}))?")


class _StepsParser(Parser):
    """Reads from left to right; `step` is the name of the step that is being read."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.step = ""

    def steps(self) -> list[Call]:
        calls = [self._call()]
        while self.skip("|"):
            calls.append(self._call())
        if not self.is_end():
            raise self.error("'|' must separate steps")
        return calls

    def _call(self) -> Call:
        self.step = ""
        name = self.match(_NAME)
        if not name:
            is_missing = self.is_end() or self.text[self.at] == "|"
            raise self.error("a step is missing" if is_missing else "a step must begin with its name")
        self.step = name
        arguments: list[Argument] = []
        if self.skip("("):
            for _ in self.until(")"):
                arguments.append(self._argument(arguments))
        return Call(name, tuple(arguments))

    def _argument(self, before: Sequence[Argument]) -> Argument:
        self.space()
        start = self.at
        found = _KEY.match(self.text, self.at)
        if found is None:
            if before and before[-1].key:
                raise self.error(f"after {before[-1].key}=... arguments must be given by name")
            return Argument("", self._literal(0))
        key = found[1]
        if any(argument.key == key for argument in before):
            raise self.error(f"{key} is given twice", start)
        self.at = found.end()
        return Argument(key, self._literal(0))

    def _literal(self, depth: int) -> Literal:
        self.space()
        start = self.at
        if self.skip("["):
            if depth == DEEPEST:
                raise self.error(f"lists can be nested at most {DEEPEST} deep", start)
            return [self._literal(depth + 1) for _ in self.until("]")]
        quote = self.text[start : start + 1]
        if quote and quote in "'\"":
            end = self.text.find(quote, start + 1)
            if end < 0:
                raise self.error(f"the text that begins with {quote} is not terminated", start)
            self.at = end + 1
            return self.text[start + 1 : end]
        word = self.match(_WORD)
        if not word:
            is_tuple = self.text[start : start + 1] == "("
            raise self.error("a list must be enclosed in [ and ]" if is_tuple else "a value is missing")
        return self._value(word, start)

    def _value(self, word: str, start: int) -> Literal:
        """What a bare word stands for."""
        for place, character in enumerate(word, start):
            if character in _LOOKALIKES:
                raise self.error("", place)
        if word.lower() in ("true", "false"):
            return word.lower() == "true"
        found = _QUOTIENT.fullmatch(word)
        if found is None:
            return word
        try:
            if found[2] is None:
                number: int | float = int(word) if _WHOLE.fullmatch(word) else float(word)
            else:
                number = float(found[1]) / float(found[2])
        except (ValueError, ZeroDivisionError, OverflowError):
            raise self.error("this is not a number", start) from None
        if isinstance(number, float) and not isfinite(number):
            raise self.error("this number is too large", start)
        return number

    def error(self, what: str, place: int | None = None) -> UsageError:
        """WHAT is wrong at PLACE, or where the parser is; a typographic character there is what is wrong."""
        place = self.at if place is None else place
        here = self.text[place : place + 1]
        if here in _LOOKALIKES:
            what = f"{printable(here)} is a typographic character; use {_LOOKALIKES[here]}"
        who = f"{self.step}: " if self.step else ""
        return UsageError(f"steps, column {place + 1}: {who}{what}, {where(self.text, place)}")
