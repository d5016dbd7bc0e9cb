"""Draws from what there is: strategies are dear to make and cheap to draw from, so each is made once."""

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
    return [items[i] for i in draw(_some_below(len(items), least, most, unique))]


def shuffled(draw: Draw, items: Sequence[T]) -> list[T]:
    """ITEMS in any order."""
    return [items[i] for i in draw(_orders(len(items)))]


@cache
def below(count: int) -> st.SearchStrategy[int]:
    """One of the first COUNT numbers."""
    return st.integers(0, count - 1)


@cache
def _some_below(count: int, least: int, most: int | None, unique: bool) -> st.SearchStrategy[list[int]]:
    return st.lists(below(count), min_size=least, max_size=most, unique=unique)


@cache
def _orders(count: int) -> st.SearchStrategy[list[int]]:
    return st.permutations(range(count))
