"""Numbers for all that is upstream or downstream of a node: equal where the cones are, names aside.

Hash-consing (Ershov, 1958): a node's number stands for its label and the numbers of its neighbors.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.compare.side import Interner, Side

MOST_READERS = 200
"""The maximum number of consumers of a node that are distinguished; of more, as for a hub, only the count is used."""


def upstream(side: Side, labels: Sequence[int], numbers: Interner) -> list[int]:
    """A number for each node: of its label, and of what it reads with all that is behind that."""
    out = [-1] * side.size
    inputs = side.inputs
    for node in side.order:
        key: list[int | str] = ["upstream", labels[node]]
        for producer, port in inputs[node]:
            key.append(out[producer])
            key.append(port)
        out[node] = numbers[tuple(key)]
    return out


def downstream(side: Side, labels: Sequence[int], numbers: Interner) -> list[int]:
    """A number for each node: of its label, and of who reads it, where, with all that is behind them."""
    out = [-1] * side.size
    users = side.users
    for node in reversed(side.order):
        readers = users[node]
        if len(readers) > MOST_READERS:
            key: tuple[object, ...] = ("hub", labels[node], len(readers))
        else:
            key = ("downstream", labels[node], *sorted((out[reader], slot, port) for reader, slot, port in readers))
        out[node] = numbers[key]
    return out


def both(one: Sequence[int], other: Sequence[int], numbers: Interner) -> list[int]:
    """A number for each pair."""
    return [numbers["both", a, b] for a, b in zip(one, other, strict=True)]
