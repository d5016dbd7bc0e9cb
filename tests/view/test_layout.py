"""The layered layout: boxes do not overlap, edges lead down, long ones pass between boxes."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsurgeon.view.layout import LONGEST, MOST_POINTS, Layout, layered

SIZE = (80.0, 30.0)


def boxes(layout: Layout, sizes: list[tuple[float, float]]) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of each."""
    pairs = zip(layout.centres, sizes, strict=True)
    return [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in pairs]


def overlapping(layout: Layout, sizes: list[tuple[float, float]]) -> list[tuple[int, int]]:
    found = enumerate(boxes(layout, sizes))
    return [
        (i, j)
        for (i, a), (j, b) in combinations(found, 2)
        if a[0] < b[2] - 0.01 and b[0] < a[2] - 0.01 and a[1] < b[3] - 0.01 and b[1] < a[3] - 0.01
    ]


def test_a_chain_stands_straight() -> None:
    layout = layered([SIZE] * 4, [(0, 1), (1, 2), (2, 3)])
    assert len({x for x, _ in layout.centres}) == 1
    assert [y for _, y in layout.centres] == sorted(y for _, y in layout.centres)
    assert (layout.width, layout.height) == (80, 4 * 30 + 3 * 28)
    assert layout.lines[0] == [(40, 30), (40, 58)]


def test_a_residual_edge_passes_beside_the_boxes() -> None:
    layout = layered([SIZE] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert not overlapping(layout, [SIZE] * 4)
    for x, y in layout.lines[3][1:-1]:
        assert not any(left < x < right and top < y < bottom for left, top, right, bottom in boxes(layout, [SIZE] * 4))


def test_a_loop_has_one_edge_that_leads_up() -> None:
    layout = layered([SIZE] * 3, [(0, 1), (1, 2), (2, 1)])
    assert [line[0][1] < line[-1][1] for line in layout.lines] == [True, True, False]


def test_what_nothing_connects_stands_in_rows() -> None:
    layout = layered([SIZE] * 9, [])
    assert len({y for _, y in layout.centres}) == 3
    assert not overlapping(layout, [SIZE] * 9)
    assert layered([], []).height == 0


def test_an_edge_past_many_layers_is_a_straight_line() -> None:
    count = LONGEST + 3
    layout = layered([SIZE] * count, [*((i, i + 1) for i in range(count - 1)), (0, count - 1)])
    assert len(layout.lines[-1]) == 2


def test_edges_between_all_boxes_pass_few_layers() -> None:
    """The work is in the points that edges pass: there would be 21 for each of these edges."""
    count = 200
    layout = layered([SIZE] * count, list(combinations(range(count), 2)))
    assert sum(len(line) - 2 for line in layout.lines) <= 2 * MOST_POINTS
    assert len(layout.lines[1]) > 2  # the short ones do
    assert not overlapping(layout, [SIZE] * count)


@st.composite
def pictures(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    count = draw(st.integers(1, 12))
    size = st.tuples(st.floats(10, 200), st.floats(10, 80))
    box = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(box, box).filter(lambda edge: edge[0] != edge[1]), max_size=20))
    return draw(st.lists(size, min_size=count, max_size=count)), edges


@given(pictures())
def test_boxes_do_not_overlap_and_lie_within(picture: tuple[list[tuple[float, float]], list[tuple[int, int]]]) -> None:
    sizes, edges = picture
    layout = layered(sizes, edges)
    assert not overlapping(layout, sizes)
    for left, top, right, bottom in boxes(layout, sizes):
        assert left >= -0.01 and top >= -0.01 and right <= layout.width + 0.01 and bottom <= layout.height + 0.01
    for (source, target), line in zip(edges, layout.lines, strict=True):
        (sx, _), (tx, _) = layout.centres[source], layout.centres[target]
        assert line[0][0] == pytest.approx(sx) and line[-1][0] == pytest.approx(tx)
    assert layered(sizes, edges) == layout  # the same each time


def test_five_thousand_boxes_are_no_more_work_each() -> None:
    """Nothing in it is quadratic: a chain of so many would not end."""
    count = 5_000
    layout = layered([SIZE] * count, [(i, i + 1) for i in range(count - 1)])
    assert layout.height == count * 30 + (count - 1) * 28
