"""Draws from what there is. A strategy is dear to make, so each is made once; so is a draw: many are one of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]


def pick(draw: Draw, items: Sequence[T]) -> T:
    """One of ITEMS."""
    return items[draw(below(len(items)))]


def pick_some(
    draw: Draw, items: Sequence[T], most: int | None = None, *, least: int = 0, unique: bool = False
) -> list[T]:
    """LEAST to MOST of ITEMS, in any order."""
    width = _width(len(items))
    if unique:
        most = len(items) if most is None else min(most, len(items))
    numbers = _numbers(draw(_bytes(least * width, None if most is None else most * width)), width)
    if not unique:
        return [items[number % len(items)] for number in numbers]
    left = list(items)
    return [left.pop(number % len(left)) for number in numbers]


def shuffled(draw: Draw, items: Sequence[T]) -> list[T]:
    """ITEMS in any order."""
    width = 1 + _width(len(items))
    keys = _numbers(draw(_bytes(len(items) * width, len(items) * width)), width)
    return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__)]


def _width(count: int) -> int:
    """Returns how many bytes sample one of COUNT numbers, so that no number is twice as frequent as a different one."""
    return (count.bit_length() + 7) // 8


def _numbers(drawn: bytes, width: int) -> list[int]:
    return [int.from_bytes(drawn[i : i + width], "big") for i in range(0, len(drawn) - width + 1, width)]


@cache
def below(count: int) -> st.SearchStrategy[int]:
    """One of the first COUNT numbers."""
    return st.integers(0, count - 1)


@cache
def _bytes(least: int, most: int | None) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=least, max_size=most)
