"""What the tests of remove take away, and from what."""

from __future__ import annotations

from typing import Any

from gdsurgeon.edits.remove import remove
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection
from support.expecting import refuse
from support.graphs import (
    FLOAT,
    identity,
    node,
    placeholder,
)  # fmt: skip


def named(*names: str) -> Selection:
    return Selection(nodes=names)


def refused(found: Graph, words: str, *names: str, **options: Any) -> EditError:
    """The error of a removal, after which the graph is as it was."""
    return refuse(found, words, lambda g: remove(g, named(*names), **options))


def chain() -> list[bytes]:
    """x -> a -> b -> c -> y, with a branch at b."""
    return [
        placeholder("x", FLOAT, (2,)),
        identity("a", "x"),
        node("b", "Relu", ["a"], T=FLOAT),
        identity("c", "b"),
        node("y", "Neg", ["c"], T=FLOAT),
        node("z", "Abs", ["b"], T=FLOAT),
    ]
