"""The known pairs of nodes of A and B, and the consequences for their neighbors."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from gdsurgeon.compare.side import Interner, Side

FREE = -1
"""In place of the partner of a node that has none."""

MOST_GROUPED = 64
"""The maximum number of consumers of a node that are distinguished by their form."""
_MOST_AGAIN = 16
"""Readers of a node up to which it is looked at again when one of them has found its partner."""


class Matching:
    """Pairs of nodes, one of each side.

    Attributes:
        a, b: the sides.
        numbers: of what both have in common.
        mates: for each node of A its partner, or `FREE`; `back` the same for B.
        evidence: by which the partner of each node of A was found.
    """

    def __init__(self, a: Side, b: Side, numbers: Interner) -> None:
        self.a, self.b = a, b
        self.numbers = numbers
        self.mates = [FREE] * a.size
        self.back = [FREE] * b.size
        self.evidence: dict[int, str] = {}
        self._near: tuple[dict[int, int], dict[int, int]] = {}, {}

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All pairs, in the order of A's file."""
        return ((i, j) for i, j in enumerate(self.mates) if j != FREE)

    def pair(self, i: int, j: int, evidence: str) -> None:
        """Has I of A and J of B, both free, be partners."""
        self.mates[i], self.back[j] = j, i
        self.evidence[i] = evidence

    def release(self, i: int) -> None:
        """Has I of A have no partner after all."""
        self.back[self.mates[i]] = FREE
        self.mates[i] = FREE
        del self.evidence[i]

    def is_free(self, i: int, j: int) -> bool:
        """Whether neither I of A nor J of B has a partner."""
        return self.mates[i] == FREE and self.back[j] == FREE

    def free(self) -> tuple[list[int], list[int]]:
        """The free nodes of A and of B that are no constants, producers first."""
        mates, back = self.mates, self.back
        return [i for i in self.a.inner if mates[i] == FREE], [j for j in self.b.inner if back[j] == FREE]

    def is_beside_pair(self, side: Side, node: int) -> bool:
        """Whether a neighbour of NODE of SIDE, constants aside, has a partner."""
        mates, is_constant = self.mates if side is self.a else self.back, side.is_constant
        return any(mates[u] != FREE and not is_constant[u] for u, _ in side.inputs[node]) or any(
            mates[v] != FREE for v, _, _ in side.users[node]
        )

    def is_contradicted(self, i: int, j: int) -> bool:
        """Whether of what I and J read something speaks against them, and nothing for them.

        An input of J may be new; but if an input of I has a consumer among the free nodes of B that equals I, that
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
            beside = reads[slot][0] if slot < len(reads) else FREE
            if beside == FREE or back[beside] != FREE:
                against = True
            else:
                label, users = one.shaped[i], other.users[mate]
                against = against or (
                    len(users) <= MOST_GROUPED
                    and any(back[v] == FREE and other.shaped[v] == label and at == slot for v, at, _ in users)
                )
        return against

    # -- unique keys -----------------------------------------------------------------------------------------

    def pair_unique(
        self,
        keys_a: Sequence[int],
        keys_b: Sequence[int],
        evidence: str,
        among: Callable[[Side, int], bool] = lambda _side, _node: True,
        *,
        whatever: bool = False,
    ) -> int:
        """Pairs the free nodes, constants aside, whose key no other free node of the same side has; returns how many.

        Args:
            keys_a, keys_b: for each node.
            evidence: the reason for the pairs.
            among: which nodes may be paired.
            whatever: whether that holds, whatever they read.
        """
        free_a, free_b = self.free()
        free_a = [i for i in free_a if among(self.a, i)]
        free_b = [j for j in free_b if among(self.b, j)]
        where_a, where_b = _unique(free_a, keys_a), _unique(free_b, keys_b)
        count = 0
        for key, i in where_a.items():
            j = where_b.get(key, FREE)
            if i != FREE and j != FREE and (whatever or not self.is_contradicted(i, j)):
                self.pair(i, j, evidence)
                count += 1
        return count

    # -- neighbours ------------------------------------------------------------------------------------------

    def near(self, side: int, node: int) -> int:
        """A number for what is around a node of A (SIDE 0) or B (1): its label, and those of its neighbours."""
        known = self._near[side]
        found = known.get(node)
        if found is None:
            graph = self.b if side else self.a
            labels, users = graph.shaped, graph.users[node]
            reads = [(labels[u], port) for u, port in graph.inputs[node]]
            around = sorted((labels[v], slot, port) for v, slot, port in users) if len(users) <= MOST_GROUPED else ()
            found = known[node] = self.numbers["near", labels[node], tuple(reads), len(users), tuple(around)]
        return found

    def propagate(
        self,
        labels_a: Sequence[int],
        labels_b: Sequence[int],
        evidence: str,
        *,
        near: bool = False,
        seeds: Iterable[int] | None = None,
    ) -> None:
        """Pairs neighbours of partners that have equal labels, each once it can only be that one, and so on.

        Constants are left to the end.

        Args:
            labels_a, labels_b: for each node.
            evidence: what this is called.
            near: whether the neighbors of both must also be equal.
            seeds: the nodes of A to begin with; all that have partners by default.
        """
        queue = deque(seeds if seeds is not None else self._beside_free())
        is_queued = set(queue)
        while queue:
            i = queue.popleft()
            is_queued.discard(i)
            for u, v in self._following(i, self.mates[i], labels_a, labels_b):
                if not self.is_free(u, v) or (near and self.near(0, u) != self.near(1, v)):
                    continue
                if self.is_contradicted(u, v):
                    continue
                self.pair(u, v, evidence)
                for again in (u, *self._looked_at_again(u)):
                    if again not in is_queued:
                        is_queued.add(again)
                        queue.append(again)

    def _beside_free(self) -> list[int]:
        """The nodes of A that have partners, and neighbours that have none, producers first."""
        free_a, free_b = self.free()
        if not free_b:
            return []
        mates, inputs, users = self.mates, self.a.inputs, self.a.users
        beside = {u for i in free_a for u, _ in inputs[i]} | {v for i in free_a for v, _, _ in users[i]}
        return sorted((i for i in beside if mates[i] != FREE), key=self.a.rank.__getitem__)

    def _looked_at_again(self, i: int) -> Iterable[int]:
        """The nodes with partners whose readers there are fewer to tell apart of, now that I has a partner."""
        users, mates = self.a.users, self.mates
        return [p for p, _ in self.a.inputs[i] if mates[p] != FREE and len(users[p]) <= _MOST_AGAIN]

    def _following(self, i: int, j: int, labels_a: Sequence[int], labels_b: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The neighbours of the partners I and J that correspond, where both are free."""
        mates, back, is_constant = self.mates, self.back, self.a.is_constant
        reads_a, reads_b = self.a.inputs[i], self.b.inputs[j]
        if len(reads_a) == len(reads_b):
            for (u, x), (v, y) in zip(reads_a, reads_b, strict=True):
                if (
                    mates[u] == FREE
                    and back[v] == FREE
                    and x == y
                    and labels_a[u] == labels_b[v]
                    and not is_constant[u]
                ):
                    yield u, v
        users_a, users_b = self.a.users[i], self.b.users[j]
        if not users_a or not users_b or len(users_a) > MOST_GROUPED or len(users_b) > MOST_GROUPED:
            return
        places_a: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        places_b: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for v, slot, port in users_a:
            if mates[v] == FREE:
                places_a[labels_a[v], slot, port].append(v)
        if not places_a:
            return
        for v, slot, port in users_b:
            if back[v] == FREE:
                places_b[labels_b[v], slot, port].append(v)
        for place, found in places_a.items():
            others = places_b.get(place, ())
            if len(found) == len(others) == 1:
                yield found[0], others[0]


def _unique(nodes: Iterable[int], keys: Sequence[int]) -> dict[int, int]:
    """For each key the only one of NODES that has it, or `FREE` where several have."""
    out: dict[int, int] = {}
    for node in nodes:
        key = keys[node]
        out[key] = FREE if key in out else node
    return out
