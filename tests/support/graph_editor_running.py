"""Short ways to name the nodes of the small graphs, and to see what an edit has made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph_editor.util import Refusal, WrongType
from support import expecting, graphs
from support.expecting import sound as sound

G8 = {name.rpartition("/")[2]: name for name in graphs.names(graphs.graph(*graphs.g8()))}


class Eight:
    """The graph of eight nodes, each under the last part of its name."""

    def __init__(self, *more: bytes) -> None:
        self.graph = graphs.graph(*graphs.g8(), *more)

    def __getitem__(self, letter: str) -> Node:
        return self.graph[G8.get(letter, letter)]

    def nodes(self, letters: str) -> list[Node]:
        return [self[letter] for letter in letters]

    def ts(self, letters: str) -> list[Output]:
        return [self[letter].output for letter in letters]

    def inputs(self, letters: str) -> dict[str, list[str]]:
        found = graphs.inputs(self.graph)
        return {letter: found[G8[letter]] for letter in letters}


def clone(*more: bytes) -> Graph:
    """A scope that reads something outside."""
    return graphs.graph(graphs.placeholder("ext", graphs.FLOAT, (2,)), graphs.identity("s/b", "ext"), *more)


def letters(items: Sequence[Node] | Sequence[Output]) -> str:
    """The last parts of the names, in order."""
    return "".join(item.name.rpartition("/")[2] for item in items)


def refused(found: Graph, code: str, edit: Callable[[], object], /, **facts: Any) -> Any:
    """As `expecting.refused`; the error is a ValueError, or a TypeError, as in the older libraries."""
    error = WrongType if code == "wrong-type" else Refusal
    return expecting.refused(found, code, lambda _: edit(), error=error, **facts)
