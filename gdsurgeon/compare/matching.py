"""The known pairs of nodes of A and B, and the consequences for their neighbors."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence

from gdsurgeon.compare.side import Side

FREE = -1
"""The partner of a node that has none."""
MOST_READERS = 64
"""The maximum number of consumers of a node that are distinguished by their form."""


class Matching:
    """Pairs of nodes, one of each side.

    Attributes:
        a, b: the sides.
        mates: for each node of A its partner, or `FREE`; `back` the same for B.
    """

    def __init__(self, a: Side, b: Side) -> None:
        self.a, self.b = a, b
        self.mates = [FREE] * a.size
        self.back = [FREE] * b.size

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yields all pairs, in the order of A's file."""
        return ((i, j) for i, j in enumerate(self.mates) if j != FREE)

    def pair(self, i: int, j: int) -> None:
        """Makes the free nodes `i` of A and `j` of B partners."""
        self.mates[i], self.back[j] = j, i

    def is_free(self, i: int, j: int) -> bool:
        """Returns whether neither `i` of A nor `j` of B has a partner."""
        return self.mates[i] == FREE and self.back[j] == FREE

    def free(self) -> tuple[list[int], list[int]]:
        """Returns the free nodes of A and of B that are not constants, producers first."""
        mates, back = self.mates, self.back
        return [i for i in self.a.inner if mates[i] == FREE], [j for j in self.b.inner if back[j] == FREE]

    def is_contradicted(self, i: int, j: int) -> bool:
        """Returns whether the inputs of `i` and `j` indicate that they are not partners.

        An input of J may be new. But if an input of I has a consumer among the free nodes of B that equals I, that
        consumer is a better partner. Constants are left out, because any of several equal constants may be read.
        Consumers are left out as well: a node is determined by what it computes, not by its consumers.
        """
        return self._is_against(i, j, 0) or self._is_against(j, i, 1)

    def _is_against(self, i: int, j: int, side: int) -> bool:
        one, other = (self.a, self.b) if not side else (self.b, self.a)
        mates, back = (self.mates, self.back) if not side else (self.back, self.mates)
        reads, against = other.inputs[j], False
        for slot, (producer, port) in enumerate(one.inputs[i]):
            mate = mates[producer]
            if mate == FREE or one.is_constant[producer]:
                continue
            if (mate, port) in reads:
                return False
            if slot >= len(reads) or back[reads[slot][0]] != FREE:
                against = True
            elif not against and other.count_uses(mate) <= MOST_READERS:
                label = one.shaped[i]
                against = any(
                    back[v] == FREE and other.shaped[v] == label and at == slot for v, at, _ in other.uses(mate)
                )
        return against

    def pair_unique(self, keys_a: Sequence[int], keys_b: Sequence[int], *, is_certain: bool = False) -> None:
        """Pairs the free nodes, except constants, whose key no other free node of the same side has.

        Args:
            keys_a, keys_b: for each node; -1 is no key.
            is_certain: whether nodes are paired even if their inputs contradict.
        """
        free_a, free_b = self.free()
        where_a, where_b = _unique(free_a, keys_a), _unique(free_b, keys_b)
        for key, i in where_a.items():
            j = where_b.get(key, FREE)
            if key >= 0 and i != FREE and j != FREE and (is_certain or not self.is_contradicted(i, j)):
                self.pair(i, j)

    def propagate(self, labels_a: Sequence[int], labels_b: Sequence[int], seeds: Iterable[int] | None = None) -> None:
        """Pairs neighbors of partners that have equal labels, if the label is unique; repeats for new pairs.

        Constants are not paired here.

        Args:
            labels_a, labels_b: for each node.
            seeds: the nodes of A to begin with; by default all partners with free neighbors.
        """
        queue = deque(seeds if seeds is not None else self._next_to_free())
        while queue:
            i = queue.popleft()
            for u, v in self._following(i, self.mates[i], labels_a, labels_b):
                if self.is_free(u, v) and not self.is_contradicted(u, v):
                    self.pair(u, v)
                    queue.append(u)

    def _next_to_free(self) -> list[int]:
        """Returns the paired nodes of A with free neighbors, producers first."""
        free_a, free_b = self.free()
        if not free_b:
            return []
        mates, inputs = self.mates, self.a.inputs
        near = {u for i in free_a for u, _ in inputs[i]} | {v for i in free_a for v, _, _ in self.a.uses(i)}
        return [i for i in self.a.order if i in near and mates[i] != FREE]

    def _following(self, i: int, j: int, labels_a: Sequence[int], labels_b: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yields the corresponding neighbors of the partners `i` and `j` that are both free."""
        mates, back, is_constant = self.mates, self.back, self.a.is_constant
        reads_a, reads_b = self.a.inputs[i], self.b.inputs[j]
        if len(reads_a) == len(reads_b):
            for (u, x), (v, y) in zip(reads_a, reads_b, strict=True):
                if self.is_free(u, v) and x == y and labels_a[u] == labels_b[v] and not is_constant[u]:
                    yield u, v
        if self.a.count_uses(i) > MOST_READERS or self.b.count_uses(j) > MOST_READERS:
            return
        places: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, uses, partners, labels in ((0, self.a.uses(i), mates, labels_a), (1, self.b.uses(j), back, labels_b)):
            for v, slot, port in uses:
                if partners[v] == FREE:
                    places[labels[v], slot, port][side].append(v)
        for found, others in places.values():
            if len(found) == len(others) == 1:
                yield found[0], others[0]


def _unique(nodes: Iterable[int], keys: Sequence[int]) -> dict[int, int]:
    """Returns for each key the only one of `nodes` with that key, or `FREE` if several have it."""
    out: dict[int, int] = {}
    for node in nodes:
        out[keys[node]] = FREE if keys[node] in out else node
    return out


# -- nodes with the same name ----------------------------------------------------------------------------------


def namesakes(matching: Matching) -> Iterator[tuple[int, int]]:
    """Yields the pairs of nodes in both graphs with the same name and op; the versions of the op may differ."""
    a, b = matching.a, matching.b
    places = {name: j for j, name in enumerate(b.names)}
    for i, name in enumerate(a.names):
        j = places.get(name, FREE)
        if j != FREE and a.kind[i] == b.kind[j]:
            yield i, j


def pair_namesakes(matching: Matching) -> None:
    """Pairs the namesakes that are free."""
    for i, j in namesakes(matching):
        if matching.is_free(i, j):
            matching.pair(i, j)
