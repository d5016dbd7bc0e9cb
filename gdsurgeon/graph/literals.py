"""Values as people write them: a number, true, a text, or nested lists in brackets."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from gdsurgeon.errors import Remark
from gdsurgeon.ops import dtypes

_SPELLINGS = (
    (re.compile(r"\b[nN][aA][nN]\b"), "NaN"),
    (re.compile(r"\b[iI][nN][fF]([iI][nN][iI][tT][yY])?\b"), "Infinity"),
    (re.compile(r"(?<![\w.])\.(?=\d)"), "0."),
    (re.compile(r"\b[tT][rR][uU][eE]\b"), "true"),
    (re.compile(r"\b[fF][aA][lL][sS][eE]\b"), "false"),
)


class Literal(NamedTuple):
    """A value: its shape, and its elements in row-major order; `is_scalar` where no list was written."""

    shape: tuple[int, ...]
    values: list[object]
    is_scalar: bool


def parse_literal(text: str, dtype: int) -> Literal:
    """The value that TEXT spells for a tensor of DTYPE; of its elements only the form is checked.

    Numbers with commas between them are a list; for strings, what does not begin with ``[`` is the text itself.

    Raises:
        ValueError: it is no value; its argument is a `Remark` that says what would be.
    """
    is_text = dtype == dtypes.STRING
    if is_text and not text.startswith("["):
        return Literal((), [text.encode("utf-8", "surrogateescape")], True)
    try:
        value = json.loads(text if is_text else _normal(text), parse_float=_finite)
    except OverflowError:
        raise ValueError(Remark(f"is not {dtypes.dtype_name(dtype)}", "bad-value")) from None
    except (ValueError, RecursionError):
        form = 'a text, or a list such as ["a", "b"]' if is_text else "a number, or a list such as [0.6, 0.7]"
        raise ValueError(Remark(f"is not {form}", "not-a-literal")) from None
    flat: list[object] = []
    shape = _flatten(value, flat)
    if shape is None:
        raise ValueError(Remark("is a ragged list", "ragged-list"))
    return Literal(shape, flat, not isinstance(value, list))


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):  # written as a number, and too large for one
        raise OverflowError
    return value


def _normal(text: str) -> str:
    """TEXT as JSON: numbers with commas between them as a list, NaN and true in the spelling that it knows."""
    if "," in text and not text.startswith("["):
        text = f"[{text}]"
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    return text


def _flatten(value: object, out: list[object]) -> tuple[int, ...] | None:
    """Appends the elements of nested lists to OUT; the shape, or None where it is ragged."""
    if not isinstance(value, list):
        out.append(value)
        return ()
    shapes = {_flatten(item, out) for item in value}
    if len(shapes) > 1 or None in shapes:
        return None
    inner = shapes.pop() if shapes else ()
    return (len(value), *inner) if inner is not None else None
