"""Selects from the graph of eight nodes, and looks at what that gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection, selected_nodes
from support.desk import check_error
from support.graphs import INT32, add, const, graph, identity, node, typed


def names(found: Graph, **selection: Any) -> list[str]:
    return [n.name for n in selected_nodes(found, Selection(**selection))]


def picked(records: list[bytes], **selection: Any) -> list[str]:
    return names(graph(*records), **selection)


def refused(records: list[bytes], code: str, facts: Mapping[str, Any] | None = None, **selection: Any) -> None:
    found = graph(*records)
    with pytest.raises(GdsurgeonError) as caught:
        selected_nodes(found, Selection(**selection))
    check_error(caught.value, code, facts or {})
    assert not found.is_changed


def short(text: str) -> list[str]:
    """Names on G8 with the scope prefixes dropped."""
    full = {"a": "a", "b": "foo/b", "c": "foo/c", "d": "foo/d", **{x: f"foo/bar/{x}" for x in "efgh"}}
    return [full[x] for x in text]


def split() -> list[bytes]:
    return [
        const("axis", [0], INT32, ()),
        const("v", [1, 2, 3]),
        typed("Split", "s", "axis", "v", num_split=3),
        identity("p", "s"),
        identity("q", "s:1"),
        add("r", "s:1", "s:2"),
        node("w", "NoOp", ["^s"]),
        add("z", "p", "r"),
    ]
