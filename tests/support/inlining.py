"""Calls of functions, inlined, and what the graph then gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdsurgeon.edits.inline import inline
from gdsurgeon.graph.graph import Graph
from support import graphs
from support.expecting import sound
from support.graphs import FLOAT, INT32, add, call, const, define, graph, graph_bytes, neg, scalar, typed
from support.running import outcome


def same(records: Sequence[bytes], *fetches: str, feeds: Sequence[dict[str, Any]], **options: Any) -> Graph:
    """The graph with everything inlined; it must give what it gave, whatever it is fed."""
    found = graph(*records)
    inline(found, **options)
    assert sound(found)
    for given_ in feeds:
        before = outcome(graph_bytes(*records), *fetches, **given_)
        assert outcome(found, *fetches, **given_) == before, given_
    return found


def functions_of(found: Graph) -> list[str]:
    return [f.signature.name for f in graphs.parsed(found).library.function]


XS = [{"x": [1.0, -2.0]}]


TWICE = define("twice", {"a": FLOAT}, {"o": (FLOAT, "s:z:0")}, add("s", "a", "a"))


LESS_ONE = define(
    "less_one", {"a": FLOAT}, {"o": (FLOAT, "d:z:0")}, scalar("k", 1), typed("Sub", "d", "a", "k:output:0")
)


F1 = [FLOAT]


TWO = define(
    "two", {"a": FLOAT, "b": INT32}, {"p": (FLOAT, "n:y:0"), "q": (INT32, "b"), "r": (FLOAT, "a")}, neg("n", "a")
)


TWO_CALL = call("c", "two", ["x", "i"], [FLOAT, INT32], [FLOAT, INT32, FLOAT])


I = const("i", [4], INT32)  # noqa: E741
