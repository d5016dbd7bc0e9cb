"""The language of steps: from text to calls, and from literals to the values of parameters.

``decode-image(channels=3) | resize(224, 224, like=pillow)`` are two calls.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from math import isfinite
from typing import Annotated, NamedTuple, TypeAlias, TypeGuard

from gdsurgeon.errors import InputError, UsageError, printable, quoted
from gdsurgeon.ops.dtypes import NUMBERS, DType
from gdsurgeon.parser import Parser, where
from gdsurgeon.text import listed, near_miss, size
from gdsurgeon.wire.source import STANDARD_INPUT, open_source

Literal: TypeAlias = "bool | int | float | str | list[Literal]"
"""The value in a call; a bare word and a text in quotes are both texts."""

DEEPEST = 8
"""The number of lists inside each other that are accepted."""


class Argument(NamedTuple):
    """An argument of a call; `key` is '' if it is given by its position."""

    key: str
    value: Literal


class Call(NamedTuple):
    """A step as it was written."""

    name: str
    arguments: tuple[Argument, ...]


def parse(text: str) -> list[Call]:
    """Returns the calls in `text`.

    Raises:
        UsageError: a syntax error; the message names the step and the column.
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
    """Reads from left to right; `step` is the name of the current step."""

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
        """Returns the value of a bare word."""
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
        """Returns the error `what` at `place` (default: here), or an error about a typographic character there."""
        place = self.at if place is None else place
        here = self.text[place : place + 1]
        if here in _LOOKALIKES:
            what = f"{printable(here)} is a typographic character; use {_LOOKALIKES[here]}"
        step = f"{self.step}: " if self.step else ""
        return UsageError(f"steps, column {place + 1}: {step}{what}, {where(self.text, place)}")


# -- parameters ------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """The kind of a parameter.

    Attributes:
        says: its name with an article.
        read: returns the value of a literal. It raises ValueError, whose text is appended to the message, for a wrong
            literal, and InputError if a file cannot be read.
    """

    says: str
    read: Callable[[Literal], object]


class FileRead(NamedTuple):
    """A file that a step needs: its path as it was written, and its content when the steps were read."""

    path: str
    data: bytes


def _kind(says: str, is_valid: Callable[[Literal], object]) -> Kind:
    """Returns the kind of literals that are their own values."""

    def read(literal: Literal) -> Literal:
        if not is_valid(literal):
            raise ValueError
        return literal

    return Kind(says, read)


def _is_whole(literal: Literal) -> TypeGuard[int]:
    return isinstance(literal, int) and not isinstance(literal, bool)


LARGEST = (1 << 31) - 1


def whole(least: int = -LARGEST, most: int = LARGEST) -> Kind:
    """Returns the kind of whole numbers from `least` to `most`."""
    limits = f" from {least} to {most:,}" if most < LARGEST else f" of at least {least}" if least > -LARGEST else ""
    return _kind(f"a whole number{limits}", lambda literal: _is_whole(literal) and least <= literal <= most)


def one_of(*numbers: int) -> Kind:
    """Returns the kind of whole numbers that are one of `numbers`."""
    says = f"one of {listed(map(str, numbers), len(numbers))}"
    return _kind(says, lambda literal: _is_whole(literal) and literal in numbers)


_SYNONYMS = {
    "float": "float32", "single": "float32", "double": "float64", "half": "float16", "int": "int32", "long": "int64",
    "byte": "uint8", "pil": "pillow", "cv2": "opencv",
}  # fmt: skip
"""Names that other libraries use; `near_miss`, which compares letters, would find a wrong name or none."""


def choice(*words: str) -> Kind:
    """Returns the kind of texts that are one of `words`."""

    def read(literal: Literal) -> str:
        if isinstance(literal, str) and literal in words:
            return literal
        known = _SYNONYMS.get(literal.lower(), "") if isinstance(literal, str) else ""
        if literal == "xywh" and "cxcywh" in words:
            center = "Use cxcywh if x and y are the center"
            raise ValueError(f" {center}; boxes given by a corner and their size are not supported.")
        if known in words:
            raise ValueError(f" Did you mean {quoted(known)}?")
        raise ValueError(near_miss(literal, words) if isinstance(literal, str) else "")

    return Kind(f"one of {listed(words, len(words))}", read)


def dtype_of(*names: str, says: str = "") -> Kind:
    """Returns the kind of dtypes with these names."""
    return Kind(
        says or f"one of {listed(names, len(names))}", lambda literal: NUMBERS[str(choice(*names).read(literal))]
    )


def number(literal: Literal) -> float:
    """Returns the number that `literal` is. Raises ValueError."""
    if not isinstance(literal, (int, float)) or isinstance(literal, bool):
        raise ValueError
    try:
        return float(literal)
    except OverflowError:
        raise ValueError from None


def number_that(says: str, is_valid: Callable[[float], bool]) -> Kind:
    """Returns the kind of numbers that are valid."""

    def read(literal: Literal) -> float:
        if not is_valid(number(literal)):
            raise ValueError
        return number(literal)

    return Kind(says, read)


def one_or_more(says: str, item: Callable[[Literal], object]) -> Kind:
    """Returns the kind of tuples of items, at least one; a literal that is not a list is the only item."""

    def read(literal: Literal) -> tuple[object, ...]:
        if literal == []:
            raise ValueError
        return tuple(map(item, items_of(literal)))

    return Kind(says, read)


def items_of(literal: Literal) -> list[Literal]:
    """Returns the items of a list, or a single item as a list."""
    return literal if isinstance(literal, list) else [literal]


LARGEST_FILE = 64 << 20


def _file(literal: Literal) -> FileRead:
    """Reads a file at once: its path is relative to the current directory, which may change later."""
    if not isinstance(literal, str) or not literal or literal in STANDARD_INPUT:
        raise ValueError
    if os.path.isdir(literal):
        raise InputError(f"{printable(literal)} is a directory, not a text file")
    with closing(open_source(literal)) as source:
        if source.size > LARGEST_FILE:
            raise InputError(f"{printable(literal)} is too large for a step: the limit is {size(LARGEST_FILE)}")
        return FileRead(literal, source.read(0, source.size))


_NUMERIC = tuple(dtype.name for dtype in NUMBERS.values() if dtype.code and dtype.kind in "fiub")

# The annotations of parameters: their types, and how literals are read.
TEXTS = one_or_more("a text, or a list of texts", _kind("a text", lambda literal: isinstance(literal, str)).read)
FLAG = _kind("true or false", lambda literal: isinstance(literal, bool))
Flag: TypeAlias = Annotated[bool, FLAG]
Text: TypeAlias = Annotated[str, _kind("a text", lambda literal: isinstance(literal, str) and literal)]
Texts: TypeAlias = Annotated[
    tuple[str, ...],
    Kind("a list of texts", lambda literal: TEXTS.read(literal if isinstance(literal, list) else [])),
]
Count: TypeAlias = Annotated[int, whole(1)]
NotNegative: TypeAlias = Annotated[int, whole(0)]
Wholes: TypeAlias = Annotated[
    tuple[int, ...], Kind("a list of whole numbers", lambda literal: tuple(map(whole().read, items_of(literal))))
]
Number: TypeAlias = Annotated[float, Kind("a number", number)]
Positive: TypeAlias = Annotated[float, number_that("a number above 0", lambda found: found > 0)]
ChannelNumbers: TypeAlias = Annotated[
    tuple[float, ...], one_or_more("a number, or a list with one for each channel", number)
]
NumericType: TypeAlias = Annotated[DType, dtype_of(*_NUMERIC, says="a dtype, such as float32 or uint8")]
File: TypeAlias = Annotated[FileRead, Kind("the path of a file", _file)]
