"""Sequences aligned, against a plain longest common subsequence."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from gdsurgeon.compare.alignment import aligned, surely_aligned


def longest(a: list[int], b: list[int]) -> int:
    """The length of the longest common subsequence, by the textbook's table."""
    row = [0] * (len(b) + 1)
    for x in a:
        new = [0]
        for j, y in enumerate(b):
            new.append(row[j] + 1 if x == y else max(new[j], row[j + 1]))
        row = new
    return row[-1]


@pytest.mark.parametrize("seed", range(200))
def test_pairs_are_equal_ascend_and_are_nearly_as_many_as_can_be(seed: int) -> None:
    draw = random.Random(seed)
    kinds = draw.choice([2, 3, 8, 30])
    a, b = ([draw.randrange(kinds) for _ in range(draw.randrange(14))] for _ in range(2))
    pairs = aligned(a, b)
    assert all(a[x] == b[y] for x, y in pairs)
    assert all(x < u and y < v for (x, y), (u, v) in pairwise(pairs))
    assert len(pairs) >= longest(a, b) - 2  # anchors may cost one or two
    assert set(surely_aligned(a, b)) <= set(pairs)


def test_without_anchors_it_is_the_longest() -> None:
    a, b = [1, 2, 1, 2, 2, 1, 1], [2, 1, 1, 2, 1, 2, 1, 1]
    assert len(aligned(a, b)) == longest(a, b)


def test_which_of_equal_elements_is_new_is_not_certain() -> None:
    assert surely_aligned([1, 2, 2, 3], [1, 2, 2, 2, 3]) == [(0, 0), (3, 4)]
    assert surely_aligned([1, 2, 3], [1, 5, 2, 3]) == [(0, 0), (1, 2), (2, 3)]
