"""Sets of numbers that are joined."""

from __future__ import annotations


class UnionFind:
    """Sets that are joined (union-find, with halving of paths)."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def root(self, item: int) -> int:
        """The member of the set of ITEM that stands for it."""
        parents = self._parents
        while parents[item] != item:
            parents[item] = parents[parents[item]]
            item = parents[item]
        return item

    def join(self, one: int, other: int) -> None:
        """Joins the sets of ONE and OTHER."""
        self._parents[self.root(one)] = self.root(other)
