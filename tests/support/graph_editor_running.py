"""Short ways to name the nodes of the small graphs, to see what an edit has made of them, and to run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph_editor.refusal import Refusal, WrongType
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.tensor import Tensor, from_numpy
from support import expecting, graphs
from support.expecting import sound as sound
from support.patience import LONG_ENOUGH

WAIT = LONG_ENOUGH
Load = Callable[[str], Graph]
"""The fixture `tf1_graph`."""
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


def feeds(values: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: value if isinstance(value, Tensor) else from_numpy(value) for name, value in values.items()}


def run(
    worker: Worker, graph: Graph, *fetches: str, fed: Mapping[str, Any] | None = None, first: Sequence[str] = ()
) -> list[Any]:
    """The values of FETCHES as lists or numbers, after the nodes FIRST have run."""
    worker.load("graph", data=graphs.written(graph)).result(WAIT)
    for target in first:
        worker.run("graph", "first", {}, [], [target]).result(WAIT)
    worker.run("graph", "result", feeds(fed or {}), fetches).result(WAIT)
    return [worker.tensor("result", i).result(WAIT).numpy().tolist() for i in range(len(fetches))]


def int32(value: Any) -> Any:
    return np.asarray(value, np.int32)


def float32(value: Any) -> Any:
    return np.asarray(value, np.float32)
