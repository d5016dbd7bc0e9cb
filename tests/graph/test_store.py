"""What a graph knows of its file, and when what follows from a graph is worked out again."""

from __future__ import annotations

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


def test_each_way_to_change_a_graph_makes_another_version() -> None:
    found = graph(const("a", [1]), const("b", [1]), add("y", "a", "b"), identity("z", "y"))
    versions = [found.version]

    def changed() -> None:
        assert found.version > versions[-1]
        versions.append(found.version)

    found.set_inputs(found["z"], [found["a"].output])
    changed()
    found.set_controls(found["z"], [found["b"]])
    changed()
    found.set_colocated(found["z"], [found["b"]])
    changed()
    found.set_attr(found["z"], "_x", b"")
    changed()
    found.set_op(found["z"], "Snapshot")
    changed()
    found.set_device(found["z"], "/cpu:0")
    changed()
    found.add("new", "NoOp")
    changed()
    found.add_copy("copy", found["a"])
    changed()
    found.rename({found["new"]: "newer"})
    changed()
    found.remove([found["newer"]])
    changed()


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
