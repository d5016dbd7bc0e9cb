"""A layout of boxes and edges in layers, from top to bottom (Sugiyama, Tagawa and Toda, 1981).

Edges that close a cycle are reversed. The longest path determines the layers, and barycenters determine the order
within a layer. Within that order each box is placed close to its neighbors (isotonic regression by pooling adjacent
violators). Except for the sorting within layers, all steps are linear in boxes and edges. An edge counts once for each
layer that it passes. An edge that passes too many layers (`LONGEST`, `MOST_POINTS`) does not count and is a straight
line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from gdsurgeon.analysis.traversal.order import depth_first, places_in, producers_first

GAP_X, GAP_Y = 18.0, 28.0
"""Pixels between boxes, and between layers."""
LONGEST = 60
"""Layers that an edge passes at most and still finds a way between boxes; beyond it is a straight line."""
MOST_POINTS = 10_000
"""The maximum number of points at which edges pass layers, or four for each box if that is more. The longest edges are
straight lines if needed."""
SWEEPS_ORDER, SWEEPS_PLACE = 8, 12

Point = tuple[float, float]


class Layout(NamedTuple):
    """The places of boxes, in pixels, with y downwards.

    Attributes:
        centres: of the boxes.
        lines: for each edge its points, from its source to its target.
        width, height: of the picture; the least x and y are 0.
    """

    centres: list[Point]
    lines: list[list[Point]]
    width: float
    height: float


def layered(sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> Layout:
    """Returns a layout of boxes with `sizes` (width, height) and `edges` from source to target, without self-loops."""
    if not edges:
        return _grid(sizes)
    return _Layers(sizes, edges).layout()


def _grid(sizes: Sequence[Point]) -> Layout:
    """Returns the layout of boxes without edges, row by row."""
    columns = max(1, round(len(sizes) ** 0.5))
    centres: list[Point] = []
    width = top = 0.0
    for start in range(0, len(sizes), columns):
        row = sizes[start : start + columns]
        height, left = max(h for _, h in row), 0.0
        for w, _ in row:
            centres.append((left + w / 2, top + height / 2))
            left += w + GAP_X
        width = max(width, left - GAP_X)
        top += height + GAP_Y
    return Layout(centres, [], width, max(0.0, top - GAP_Y))


def _downwards(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int, bool]]:
    """Returns `edges` with flags; edges that close a cycle in a depth-first walk are reversed and flagged."""
    following: list[list[int]] = [[] for _ in range(count)]
    is_target = bytearray(count)
    for source, target in edges:
        following[source].append(target)
        is_target[target] = 1
    roots = sorted(range(count), key=is_target.__getitem__)
    finished = places_in(depth_first(roots, count, following.__getitem__), count)
    return [
        (target, source, True) if finished[target] > finished[source] else (source, target, False)
        for source, target in edges
    ]


def _layers(count: int, edges: Sequence[tuple[int, int, bool]]) -> tuple[list[int], list[int]]:
    """Returns the layer of each box, and the boxes in an order in which edges lead forward."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target, _ in edges:
        above[target].append(source)
        below[source].append(target)
    order = producers_first(range(count), count, above.__getitem__)
    layer = [0] * count
    for box in order:
        layer[box] = max((layer[source] + 1 for source in above[box]), default=0)
    for box in reversed(order):  # boxes whose consumers come late are placed near them
        if below[box] and len(below[box]) >= len(above[box]):
            layer[box] = max(layer[box], min(layer[target] for target in below[box]) - 1)
    return layer, order


class _Layers:
    """Boxes in layers, with a point of no size in each layer that an edge passes."""

    def __init__(self, sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> None:
        self.count = len(sizes)
        self.edges = _downwards(self.count, edges)
        self.layer, order = _layers(self.count, self.edges)
        self.width = [w for w, _ in sizes]
        self.height = [h for _, h in sizes]
        self.above: list[list[int]] = [[] for _ in sizes]
        self.below: list[list[int]] = [[] for _ in sizes]
        self.longest = self._longest()
        self.passed = [self._enter_edge(source, target) for source, target, _ in self.edges]
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer) + 1)]
        self.place = [0] * len(self.layer)
        self._fill_rows(order)
        self._sort_rows()
        self.x = [0.0] * len(self.layer)
        self._place_rows()

    def _longest(self) -> int:
        """Returns the length, in layers, of the longest edges that are routed between boxes."""
        spans = Counter(self.layer[target] - self.layer[source] for source, target, _ in self.edges)
        left = max(MOST_POINTS, 4 * self.count)
        for span in range(1, LONGEST + 1):
            left -= spans[span] * (span - 1)
            if left < 0:
                return span - 1
        return LONGEST

    def _enter_edge(self, source: int, target: int) -> list[int]:
        """Connects two boxes through points in the layers between them, and returns the points."""
        span = self.layer[target] - self.layer[source]
        if span > self.longest:
            return []
        points: list[int] = []
        for layer in range(self.layer[source] + 1, self.layer[target]):
            points.append(len(self.layer))
            self.layer.append(layer)
            self.width.append(4.0)
            self.height.append(0.0)
            self.above.append([])
            self.below.append([])
        for upper, lower in zip((source, *points), (*points, target), strict=True):
            self.below[upper].append(lower)
            self.above[lower].append(upper)
        return points

    def _fill_rows(self, order: Sequence[int]) -> None:
        """Fills the rows in a first order: depth first from the sources, so that chains stay together."""
        seen = bytearray(len(self.layer))
        for root in (*order, *range(len(self.layer))):
            pending = [root]
            while pending:
                box = pending.pop()
                if not seen[box]:
                    seen[box] = 1
                    self.rows[self.layer[box]].append(box)
                    pending.extend(reversed(self.below[box]))
        self._number_rows(self.rows)

    def _number_rows(self, rows: Sequence[Sequence[int]]) -> None:
        for row in rows:
            for place, box in enumerate(row):
                self.place[box] = place

    def _sort_rows(self) -> None:
        """Sorts each row by the mean position of its neighbors, alternating between the rows above and below."""
        for sweep in range(SWEEPS_ORDER):
            neighbours = self.above if sweep % 2 == 0 else self.below
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                wanted = {box: self._mean_place(box, neighbours[box], len(row)) for box in row}
                row.sort(key=lambda box: (wanted[box], self.place[box]))
                self._number_rows([row])

    def _mean_place(self, box: int, neighbours: Sequence[int], size: int) -> float:
        if not neighbours:
            return self.place[box]
        shares = (self.place[other] / max(1, len(self.rows[self.layer[other]]) - 1) for other in neighbours)
        return sum(shares) / len(neighbours) * max(1, size - 1)

    def _place_rows(self) -> None:
        """Sets x: first side by side, then towards the neighbors, alternating between the rows above and below."""
        for row in self.rows:
            left = -sum(self.width[box] + GAP_X for box in row) / 2
            for box in row:
                self.x[box] = left + self.width[box] / 2
                left += self.width[box] + GAP_X
        for sweep in range(SWEEPS_PLACE):
            near, far = (self.above, self.below) if sweep % 2 == 0 else (self.below, self.above)
            is_late = sweep >= SWEEPS_PLACE - 4
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                wanted, weights = [], []
                for box in row:
                    others = near[box] + far[box] if is_late else near[box]
                    wanted.append(sum(self.x[other] for other in others) / len(others) if others else self.x[box])
                    weights.append((8.0 if box >= self.count else 1.0 + len(others)) if others else 0.05)
                self._fit(row, wanted, weights)

    def _fit(self, row: Sequence[int], wanted: Sequence[float], weights: Sequence[float]) -> None:
        """Moves each box of a row close to its wanted place, without changing the order.

        This is isotonic regression of the wanted places minus the widths to the left (Ayer and others, 1955).
        """
        offsets: list[float] = []
        left = 0.0
        for box in row:
            offsets.append(left + self.width[box] / 2)
            left += self.width[box] + GAP_X
        blocks: list[tuple[float, float, int]] = []  # sum, weight, boxes
        for target, offset, weight in zip(wanted, offsets, weights, strict=True):
            total, mass, size = (target - offset) * weight, weight, 1
            while blocks and blocks[-1][0] / blocks[-1][1] > total / mass:
                before = blocks.pop()
                total, mass, size = total + before[0], mass + before[1], size + before[2]
            blocks.append((total, mass, size))
        shifts = (total / mass for total, mass, size in blocks for _ in range(size))
        for box, offset, shift in zip(row, offsets, shifts, strict=True):
            self.x[box] = offset + shift

    def layout(self) -> Layout:
        """Returns the layout."""
        tops: list[float] = []
        top = 0.0
        heights = [max(self.height[box] for box in row) for row in self.rows]
        for height in heights:
            tops.append(top)
            top += height + GAP_Y
        least = min(x - w / 2 for x, w in zip(self.x, self.width, strict=True))
        most = max(x + w / 2 for x, w in zip(self.x, self.width, strict=True))
        x = [value - least for value in self.x]
        y = [tops[layer] + heights[layer] / 2 for layer in self.layer[: self.count]]
        lines: list[list[Point]] = []
        for (source, target, is_turned), passed in zip(self.edges, self.passed, strict=True):
            line = [(x[source], y[source] + self.height[source] / 2)]
            for point in passed:
                begin = tops[self.layer[point]]
                line += ((x[point], begin), (x[point], begin + heights[self.layer[point]]))
            line.append((x[target], y[target] - self.height[target] / 2))
            lines.append(line[::-1] if is_turned else line)
        return Layout(list(zip(x, y, strict=False)), lines, most - least, top - GAP_Y)
