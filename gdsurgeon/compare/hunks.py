"""What was added and what was removed in one place, as one; and places where the same was done."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from gdsurgeon.analysis.traversal.order import UnionFind
from gdsurgeon.compare.matching import FREE, Matching


class Hunk(NamedTuple):
    """A replacement: nodes of A without partners, and nodes of B without partners, in file order."""

    removed: tuple[int, ...]
    added: tuple[int, ...]


class Hunks(NamedTuple):
    """Hunks in which nodes of the same ops, as many of each, were removed and added."""

    removed: Counter[str]
    added: Counter[str]
    places: tuple[Hunk, ...]


def hunks(matching: Matching) -> list[Hunks]:
    """Returns the added and removed nodes, grouped by content, the largest first."""
    kinds: dict[tuple[tuple[tuple[str, int], ...], ...], list[Hunk]] = defaultdict(list)
    for hunk in _connected(matching):
        before = Counter(matching.a.forms[i].op for i in hunk.removed)
        after = Counter(matching.b.forms[j].op for j in hunk.added)
        kinds[tuple(tuple(sorted(counts.items())) for counts in (before, after))].append(hunk)
    return [Hunks(Counter(dict(b)), Counter(dict(a)), tuple(found)) for (b, a), found in kinds.items()]


def _connected(matching: Matching) -> Iterator[Hunk]:
    """Yields the connected groups of nodes without partners; groups of A and B with the same neighbors are joined."""
    a, b = matching.a, matching.b
    removed = [i for i, mate in enumerate(matching.mates) if mate == FREE]
    added = [j for j, mate in enumerate(matching.back) if mate == FREE]
    places = UnionFind(a.size + b.size)
    for side, first, free in ((a, 0, matching.mates), (b, a.size, matching.back)):
        for node in removed if not first else added:
            for producer, _ in side.written[node]:
                if free[producer] == FREE:
                    places.join(first + node, first + producer)
    _join_sides(matching, removed, added, places)
    pieces: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for i in removed:
        pieces[places.root(i)][0].append(i)
    for j in added:
        pieces[places.root(a.size + j)][1].append(j)
    for gone, new in pieces.values():
        yield Hunk(tuple(gone), tuple(new))


def _join_sides(matching: Matching, removed: list[int], added: list[int], places: UnionFind) -> None:
    """Joins what the same node read before and reads now, and what reads the same (constants aside)."""
    a, b = matching.a, matching.b
    readers = {v for i in removed for v, _, _ in a.users[i] if matching.mates[v] != FREE}
    for v in sorted(readers):
        for (u, _), (w, _) in zip(a.inputs[v], b.inputs[matching.mates[v]], strict=False):
            if matching.mates[u] == FREE and matching.back[w] == FREE:
                places.join(u, a.size + w)
    reading: dict[tuple[int, int], int] = {}
    for i in removed:
        for u, port in a.inputs[i]:
            if matching.mates[u] != FREE and not a.is_constant[u]:
                reading.setdefault((matching.mates[u], port), i)
    for j in added:
        for read in b.inputs[j]:
            if read in reading:
                places.join(reading[read], a.size + j)
