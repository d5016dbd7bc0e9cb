"""What the tests of copies and of handlers work on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gdsurgeon.graph.graph import Graph
from support import graphs
from support.graphs import FLOAT, add, const, graph, identity, placeholder

Load = Callable[[str], Graph]


def t8(*more: bytes) -> Graph:
    """Three additions in a row, of ones."""
    ones = [1.0] * 10
    return graph(
        const("Const", ones, _foo="foo"), const("Const_1", ones), const("Const_2", ones), const("Input", ones),
        add("Add", "Const", "Input"), add("Add_1", "Const_1", "Add"), add("Add_2", "Const_2", "Add_1"),
        identity("o", "Add_2"), *more,
    )  # fmt: skip


def refused(found: Graph, words: str, edit: Callable[[], object], error: type[Exception] = ValueError) -> None:
    before = graphs.written(found)
    with pytest.raises(error, match=words):
        edit()
    assert graphs.written(found) == before


def clone(*more: bytes) -> Graph:
    return graph(placeholder("ext", FLOAT, (2,)), identity("s/b", "ext"), *more)
