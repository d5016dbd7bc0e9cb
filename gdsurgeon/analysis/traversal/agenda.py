"""A worklist: nodes to visit in order, while each visit can add more nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush


class Agenda:
    """Nodes in the order of a sequence; those that come in behind the one that is looked at are still looked at.

    Args:
        order: the nodes.
        places: for each node its place in that, or -1: it is never looked at.
    """

    def __init__(self, order: Sequence[int], places: Sequence[int]) -> None:
        self._order, self._places = order, places
        self._heap: list[int] = []
        self._waiting: set[int] = set()
        self._at = -1

    def add(self, numbers: Iterable[int]) -> None:
        """Has nodes be looked at, each once, but for those whose turn is over."""
        for number in numbers:
            place = self._places[number]
            if place > self._at and place not in self._waiting:
                self._waiting.add(place)
                heappush(self._heap, place)

    def __iter__(self) -> Iterator[int]:
        while self._heap:
            self._at = heappop(self._heap)
            self._waiting.discard(self._at)
            yield self._order[self._at]
