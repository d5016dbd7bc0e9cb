"""Control inputs: added, removed, and seen from the nodes that are waited for."""

from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.graph_editor_running import Eight
from support.graphs import add, const, graph, identity, node

from gdsurgeon import graph_editor as ge


def test_a_control_input_is_appended_once() -> None:
    found = graph(const("x", [1]), const("k", [1]), identity("op", "k", "^k"))
    ge.add_control_inputs(found["op"], [found["x"]])
    assert graphs.inputs(found)["op"] == ["k", "^k", "^x"]
    with pytest.raises(ValueError, match="'x' is a control input of 'op' already"):
        ge.add_control_inputs(found["op"], found["x"])
    assert graphs.inputs(found)["op"] == ["k", "^k", "^x"]


def test_only_a_control_input_that_is_there_can_be_removed() -> None:
    found = graph(const("x", [1]), const("k", [1]), identity("op", "k", "^k"))
    with pytest.raises(ValueError, match="'x' is no control input of 'op'"):
        ge.remove_control_inputs(found["op"], [found["k"], found["x"]])
    assert not found.is_changed
    ge.remove_control_inputs(found["op"], found["k"])
    assert graphs.inputs(found)["op"] == ["k"]


@pytest.mark.parametrize("edit", [ge.add_control_inputs, ge.remove_control_inputs])
def test_what_is_no_node_is_a_type_error(edit: Any) -> None:
    found = Eight()
    with pytest.raises(TypeError, match="a Node is expected, not Output"):
        edit(found["h"].output, found["c"])
    with pytest.raises(TypeError, match="Node expected, not Output"):
        edit(found["h"], [found["c"].output])
    with pytest.raises(TypeError, match="cannot stand for its nodes"):
        edit(found["h"], found.graph)
    with pytest.raises(ValueError, match="belong to two graphs"):
        edit(found["h"], Eight()["c"])


def test_a_node_cannot_wait_for_what_depends_on_it() -> None:
    found = Eight()
    for letter in "cefgh":
        with pytest.raises(ValueError, match="that would make a cycle"):
            ge.add_control_inputs(found["c"], found[letter])
    ge.add_control_inputs(found["c"], found["d"])
    assert found.inputs("c") == {"c": ["a", "foo/b", "^foo/d"]}


def test_the_table_of_control_outputs() -> None:
    """An edge that is written twice counts once, and the table follows the graph."""
    found = graph(const("a", [1]), const("b", [1]), const("x", [1]), add("c", "a", "b", "^x", "^x"))
    table = ge.ControlOutputs(found)
    assert table.graph is found
    assert table.get_all() == {found["x"]: [found["c"]]}
    assert (table.get(found["x"]), table.get(found["a"])) == ([found["c"]], [])
    ge.remove_control_inputs(found["c"], found["x"])
    added = found.add("later", "NoOp", controls=[found["a"]])
    assert table.update() is table
    assert table.get_all() == {found["a"]: [added]}
    assert (table.get(found["x"]), table.get(found["a"])) == ([], [added])


def test_a_table_is_made_of_a_graph() -> None:
    with pytest.raises(TypeError, match="a Graph is expected"):
        ge.ControlOutputs([node("a", "NoOp")])  # type: ignore[arg-type]
