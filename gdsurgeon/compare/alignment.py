"""Two sequences aligned: what of the one is what of the other, in order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MOST_EDITS = 400
"""Elements to be put in and taken out between two anchors, beyond which a stretch is left alone."""
MOST_WORK = 4_000_000
"""Steps of one alignment."""

Pair = tuple[int, int]


class _Stretch(NamedTuple):
    """What is still to be aligned: from `a` to `a_end` of the one, from `b` to `b_end` of the other."""

    a: int
    a_end: int
    b: int
    b_end: int


def aligned(a: Sequence[int], b: Sequence[int]) -> list[Pair]:
    """Places of equal elements of A and B, ascending in both: a long common subsequence.

    Elements that either has but once are anchors (patience diff, Bram Cohen); between those the difference is least
    (Myers, 1986), where it is not too large. Of several such subsequences it is the one that pairs the earliest.
    """
    pairs: list[Pair] = []
    pending = [_Stretch(0, len(a), 0, len(b))]
    work = 0
    while pending:
        stretch = _trimmed(a, b, pending.pop(), pairs)
        size = stretch.a_end - stretch.a + stretch.b_end - stretch.b
        if stretch.a == stretch.a_end or stretch.b == stretch.b_end or work > MOST_WORK:
            continue
        work += size
        anchors = _anchors(a, b, stretch)
        if anchors:
            pending += _between(anchors, stretch)
            pairs += anchors
            continue
        found, steps = _least(a, b, stretch)
        work += steps
        pairs += found
    return sorted(pairs)


def surely_aligned(a: Sequence[int], b: Sequence[int]) -> list[Pair]:
    """Returns the pairs of `aligned` that are also found from the other end: if a run of equal elements got longer or
    shorter, the new elements cannot be determined.
    """
    forth = aligned(a, b)
    last_a, last_b = len(a) - 1, len(b) - 1
    back = {(last_a - x, last_b - y) for x, y in aligned(a[::-1], b[::-1])}
    return [pair for pair in forth if pair in back]


def _trimmed(a: Sequence[int], b: Sequence[int], stretch: _Stretch, pairs: list[Pair]) -> _Stretch:
    """STRETCH without what is equal at its beginning and end, which is added to PAIRS."""
    at, a_end, to, b_end = stretch
    while at < a_end and to < b_end and a[at] == b[to]:
        pairs.append((at, to))
        at, to = at + 1, to + 1
    while at < a_end and to < b_end and a[a_end - 1] == b[b_end - 1]:
        a_end, b_end = a_end - 1, b_end - 1
        pairs.append((a_end, b_end))
    return _Stretch(at, a_end, to, b_end)


def _anchors(a: Sequence[int], b: Sequence[int], stretch: _Stretch) -> list[Pair]:
    """The longest ascending run of elements that are there once in both."""
    once_a, once_b = _once(a, stretch.a, stretch.a_end), _once(b, stretch.b, stretch.b_end)
    return _ascending([(x, once_b[e]) for e, x in once_a.items() if x >= 0 and once_b.get(e, -1) >= 0])


def _once(sequence: Sequence[int], start: int, end: int) -> dict[int, int]:
    """The place of each element, -1 where it is there again."""
    out: dict[int, int] = {}
    for at in range(start, end):
        element = sequence[at]
        out[element] = -1 if element in out else at
    return out


def _ascending(pairs: list[Pair]) -> list[Pair]:
    """A longest subsequence of PAIRS, which ascend in their first, that ascends in the second, too (patience)."""
    tops: list[int] = []
    ends: list[int] = []
    before = [-1] * len(pairs)
    for at, (_, y) in enumerate(pairs):
        pile = bisect_left(tops, y)
        before[at] = ends[pile - 1] if pile else -1
        tops[pile : pile + 1] = [y]
        ends[pile : pile + 1] = [at]
    out: list[Pair] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        out.append(pairs[at])
        at = before[at]
    return out[::-1]


def _between(anchors: list[Pair], stretch: _Stretch) -> Iterator[_Stretch]:
    at, to = stretch.a, stretch.b
    for x, y in (*anchors, (stretch.a_end, stretch.b_end)):
        if at < x and to < y:
            yield _Stretch(at, x, to, y)
        at, to = x + 1, y + 1


def _least(a: Sequence[int], b: Sequence[int], stretch: _Stretch) -> tuple[list[Pair], int]:
    """The pairs of a longest common subsequence of STRETCH, and the steps that took; none where it differs in more than
    `MOST_EDITS`."""
    start, to, n, m = stretch.a, stretch.b, stretch.a_end - stretch.a, stretch.b_end - stretch.b
    reached = {1: 0}
    trace: list[dict[int, int]] = []
    steps = 0
    for edits in range(min(n + m, MOST_EDITS) + 1):
        trace.append(dict(reached))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reached.get(k - 1, -1) < reached.get(k + 1, -1))
            x = reached[k + 1] if down else reached[k - 1] + 1
            y = x - k
            while x < n and y < m and a[start + x] == b[to + y]:
                x, y = x + 1, y + 1
                steps += 1
            reached[k] = x
            steps += 1
            if x >= n and y >= m:
                return list(_backwards(trace, n, m, start, to)), steps
    return [], steps


def _backwards(trace: list[dict[int, int]], n: int, m: int, start: int, to: int) -> Iterator[Pair]:
    """The pairs on the way that TRACE has found, from its end."""
    x, y = n, m
    for edits in range(len(trace) - 1, -1, -1):
        reached, k = trace[edits], x - y
        down = k == -edits or (k != edits and reached.get(k - 1, -1) < reached.get(k + 1, -1))
        before_k = k + 1 if down else k - 1
        before_x = reached[before_k]
        before_y = before_x - before_k
        while x > before_x and y > before_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            yield start + x, to + y
        x, y = before_x, before_y
