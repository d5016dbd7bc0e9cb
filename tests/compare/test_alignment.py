"""Which elements of two sequences correspond."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from gdsurgeon.compare.match import aligned


@pytest.mark.parametrize("seed", range(200))
def test_pairs_are_equal_and_ascend(seed: int) -> None:
    draw = random.Random(seed)
    kinds = draw.choice([2, 3, 8, 30])
    a, b = ([draw.randrange(kinds) for _ in range(draw.randrange(14))] for _ in range(2))
    pairs = aligned(a, b)
    assert all(a[x] == b[y] for x, y in pairs)
    assert all(x < u and y < v for (x, y), (u, v) in pairwise(pairs))


@pytest.mark.parametrize("seed", range(50))
def test_of_distinct_elements_all_that_both_have_in_one_order_are_pairs(seed: int) -> None:
    draw = random.Random(seed)
    a, b = (sorted(draw.sample(range(30), 20)) for _ in range(2))
    assert [a[x] for x, _ in aligned(a, b)] == sorted({*a} & {*b})


def test_which_of_equal_elements_is_new_is_not_certain() -> None:
    assert aligned([1, 2, 2, 3], [1, 2, 2, 2, 3]) == [(0, 0), (3, 4)]
    assert aligned([1, 2, 3], [1, 5, 2, 3]) == [(0, 0), (1, 2), (2, 3)]
