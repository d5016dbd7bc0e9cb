"""Colours of the nodes that have no partner yet, by what is around them: partners have the same colour."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.compare.matching import FREE, Matching
from gdsurgeon.compare.side import Interner, Side

MOST_READERS = 64
"""The maximum number of consumers of a node that are distinguished; of more, only the count is used."""


def refined(matching: Matching, rounds: int) -> tuple[list[int], list[int]]:
    """A colour for each node of A and of B, after so many ROUNDS in which each takes on those of its neighbours.

    Colour refinement (Weisfeiler and Leman, 1968), in which a pair of partners has a colour of its own.
    """
    numbers = matching.numbers
    free_a, free_b = matching.free()
    colours_a = _first(matching.a, matching.mates, numbers)
    colours_b = _first(matching.b, None, numbers)
    for j, i in enumerate(matching.back):
        if i != FREE:
            colours_b[j] = colours_a[i]
    for _ in range(rounds):
        colours_a = _next(matching.a, free_a, colours_a, numbers)
        colours_b = _next(matching.b, free_b, colours_b, numbers)
    return colours_a, colours_b


def _first(side: Side, mates: Sequence[int] | None, numbers: Interner) -> list[int]:
    if mates is None:
        return list(side.shaped)
    return [
        numbers["pair", i] if mate != FREE else label
        for i, (mate, label) in enumerate(zip(mates, side.shaped, strict=True))
    ]


def _next(side: Side, free: Sequence[int], colours: list[int], numbers: Interner) -> list[int]:
    out = list(colours)
    inputs, users = side.inputs, side.users
    for node in free:
        reads = [(colours[u], port) for u, port in inputs[node]]
        readers = users[node]
        around = sorted([(colours[v], slot, port) for v, slot, port in readers]) if len(readers) <= MOST_READERS else ()
        order = (_set(colours, side.controls[node]), _set(colours, side.waiting[node]))
        out[node] = numbers["colour", colours[node], tuple(reads), len(readers), tuple(around), order]
    return out


def _set(colours: Sequence[int], nodes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted([colours[node] for node in nodes])) if 0 < len(nodes) <= MOST_READERS else (len(nodes),)
