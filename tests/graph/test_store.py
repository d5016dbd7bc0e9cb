"""What a graph knows of its file, and when what follows from a graph is worked out again."""

from __future__ import annotations

from typing import Any

import pytest
from support.graphs import add, const, g8, graph, identity, node

from gdsurgeon.graph.graph import Graph


def counted(found: Graph) -> tuple[int, list[str]]:
    """What stands for something that takes long to work out."""
    calls.append(found.version)
    return found.node_count, list(found.names())


calls: list[int] = []


def test_what_is_derived_is_made_once_for_each_version() -> None:
    calls.clear()
    found = graph(*g8())
    assert found.derived(counted) is found.derived(counted)
    found.rename({found["a"]: "z"})
    assert "z" in found.derived(counted)[1]
    assert found.derived(counted) is found.derived(counted)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda g: g.set_inputs(g["z"], [g["a"].output]),
        lambda g: g.set_controls(g["z"], [g["b"]]),
        lambda g: g.set_colocated(g["z"], [g["b"]]),
        lambda g: g.set_attr(g["z"], "_x", b""),
        lambda g: g.set_op(g["z"], "Snapshot"),
        lambda g: g.set_device(g["z"], "/cpu:0"),
        lambda g: g.add("new", "NoOp"),
        lambda g: g.add_copy("copy", g["a"]),
        lambda g: g.rename({g["z"]: "newer"}),
        lambda g: g.remove([g["z"]]),
    ],
)
def test_each_way_to_change_a_graph_makes_another_version(change: Any) -> None:
    found = graph(const("a", [1]), const("b", [1]), add("y", "a", "b"), identity("z", "y"))
    before = found.version
    change(found)
    assert found.version > before


def test_the_pristine_graph_is_one_object_that_no_change_reaches() -> None:
    found = graph(const("a", [1]), identity("y", "a"))
    before = found.pristine()
    found.rename({found["a"]: "b"})
    assert found.pristine() is before
    assert before.version == 0
    assert list(before.names()) == ["a", "y"]


def test_a_node_that_nobody_has_is_known_by_those_who_read_it() -> None:
    found = graph(identity("y", "gone"), node("z", "NoOp", ["^gone"]))
    assert sorted(found.store.users("gone")) == ["y", "z"]
    assert not found.store.has("gone")
