"""What a parameter of a step takes: how it is called, and how a literal becomes its value."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import closing
from typing import NamedTuple

from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.ops.dtypes import NUMBERS, DType
from gdsurgeon.steps.parse import Literal
from gdsurgeon.text import listed, near_miss, size
from gdsurgeon.wire.source import STANDARD_INPUT, open_source


class Kind(NamedTuple):
    """The kind of a parameter: `says` names it with its article; `read` raises ValueError for a wrong literal.

    The text of the ValueError is appended to the message. InputError: a file cannot be read.
    """

    says: str
    read: Callable[[Literal], object]


LARGEST = (1 << 31) - 1


def whole(least: int = -LARGEST, most: int = LARGEST) -> Kind:
    """A whole number from LEAST to MOST."""

    def read(literal: Literal) -> int:
        if not isinstance(literal, int) or isinstance(literal, bool) or not least <= literal <= most:
            raise ValueError
        return literal

    limits = f" from {least} to {most:,}" if most < LARGEST else f" of at least {least}" if least > -LARGEST else ""
    return Kind(f"a whole number{limits}", read)


def one_of(*numbers: int) -> Kind:
    """One of the whole NUMBERS."""

    def read(literal: Literal) -> int:
        if not isinstance(literal, int) or isinstance(literal, bool) or literal not in numbers:
            raise ValueError
        return literal

    return Kind(f"one of {listed(map(str, numbers), len(numbers))}", read)


_ELSEWHERE = {
    "float": "float32",
    "single": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "byte": "uint8",
    "pil": "pillow",
    "cv2": "opencv",
}
"""What is called otherwise here; `near_miss`, which looks at letters, finds something else or nothing."""


def _meant(literal: Literal, words: Collection[str]) -> str:
    """Returns the end of an error message: the suggested one of `words`, if there is one."""
    if not isinstance(literal, str):
        return ""
    if literal == "xywh" and "cxcywh" in words:
        return " Use cxcywh if x and y are the center; boxes given by a corner and their size are not supported."
    known = _ELSEWHERE.get(literal.lower(), "")
    return f" Did you mean {quoted(known)}?" if known in words else near_miss(literal, words)


def choice(*words: str) -> Kind:
    """One of WORDS."""

    def read(literal: Literal) -> str:
        if not isinstance(literal, str) or literal not in words:
            raise ValueError(_meant(literal, words))
        return literal

    return Kind(f"one of {listed(words, len(words))}", read)


def _number(literal: Literal) -> float:
    if not isinstance(literal, (int, float)) or isinstance(literal, bool):
        raise ValueError
    try:
        return float(literal)
    except OverflowError:
        raise ValueError from None


def _positive(literal: Literal) -> float:
    number = _number(literal)
    if number <= 0:
        raise ValueError
    return number


def _numbers(literal: Literal) -> tuple[float, ...]:
    items = literal if isinstance(literal, list) else [literal]
    if not items:
        raise ValueError
    return tuple(map(_number, items))


def _wholes(literal: Literal) -> tuple[int, ...]:
    items = literal if isinstance(literal, list) else [literal]
    read = whole().read
    return tuple(item for item in map(read, items) if isinstance(item, int))


def _flag(literal: Literal) -> bool:
    if not isinstance(literal, bool):
        raise ValueError
    return literal


def _text(literal: Literal) -> str:
    if not isinstance(literal, str) or not literal:
        raise ValueError
    return literal


NUMERIC = tuple(dtype.name for dtype in NUMBERS.values() if dtype.code and dtype.kind in "fiub")


def _dtype(literal: Literal) -> DType:
    if not isinstance(literal, str) or literal not in NUMERIC:
        raise ValueError(_meant(literal, NUMERIC))
    return NUMBERS[literal]


def _texts(literal: Literal) -> tuple[str, ...]:
    if not isinstance(literal, list) or not literal or not all(isinstance(item, str) for item in literal):
        raise ValueError
    return tuple(item for item in literal if isinstance(item, str))


NUMBER = Kind("a number", _number)
POSITIVE = Kind("a number above 0", _positive)
NUMBERS_OF_CHANNELS = Kind("a number, or a list with one for each channel", _numbers)
WHOLES = Kind("a list of whole numbers", _wholes)
FLAG = Kind("true or false", _flag)
TEXT = Kind("a text", _text)
TEXTS = Kind("a list of texts", _texts)
DTYPE = Kind("a dtype, such as float32 or uint8", _dtype)


class FileRead(NamedTuple):
    """A file that a step needs: its path as it was written, and what it held when the steps were read."""

    path: str
    data: bytes


LARGEST_FILE = 64 << 20


def _file(literal: Literal) -> FileRead:
    """Reads it at once: the folder that its path starts from is the current one then, and may not be later."""
    if not isinstance(literal, str) or not literal or literal in STANDARD_INPUT:
        raise ValueError
    if os.path.isdir(literal):
        raise InputError(f"{printable(literal)} is a directory, not a text file")
    with closing(open_source(literal)) as source:
        if source.size > LARGEST_FILE:
            raise InputError(f"{printable(literal)} is too large for a step: the limit is {size(LARGEST_FILE)}")
        return FileRead(literal, source.read(0, source.size))


FILE = Kind("the path of a file", _file)
"""What a step reads as it is written."""
