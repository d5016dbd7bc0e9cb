"""Nodes that the tests of remove remove, and their graphs."""

from __future__ import annotations

from gdsurgeon.select import Selection
from support.graphs import (
    FLOAT,
    identity,
    neg,
    placeholder,
    relu,
    typed,
)  # fmt: skip


def named(*names: str) -> Selection:
    return Selection(nodes=names)


def chain() -> list[bytes]:
    """x -> a -> b -> c -> y, with a branch at b."""
    return [
        placeholder("x", FLOAT, (2,)),
        identity("a", "x"),
        relu("b", "a"),
        identity("c", "b"),
        neg("y", "c"),
        typed("Abs", "z", "b"),
    ]
