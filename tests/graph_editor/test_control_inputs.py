"""Control inputs: added, removed, and seen from the nodes that are waited for."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support import graphs
from support.graph_editor_running import Eight, refused
from support.graphs import add, const, graph, identity, node

from gdsurgeon import graph_editor as ge


def test_a_control_input_is_appended_once_and_removed_where_it_is() -> None:
    found = graph(const("x", [1]), const("k", [1]), identity("op", "k", "^k"))
    op, x, k = found["op"], found["x"], found["k"]
    refused(found, "no-such-input", lambda: ge.remove_control_inputs(op, [k, x]), node="op", input="x")
    ge.add_control_inputs(op, [x])
    assert graphs.inputs(found)["op"] == ["k", "^k", "^x"]
    refused(found, "given-twice", lambda: ge.add_control_inputs(op, x), node="op", input="x")
    ge.remove_control_inputs(op, k)
    assert graphs.inputs(found)["op"] == ["k", "^x"]


@pytest.mark.parametrize("edit", [ge.add_control_inputs, ge.remove_control_inputs])
def test_what_is_no_node_of_the_graph_is_refused(edit: Any) -> None:
    found = Eight()
    h, c = found["h"], found["c"]
    for op, others, kind in [(h.output, c, "Output"), (h, [c.output], "Output"), (h, found.graph, "Graph")]:
        refused(found.graph, "wrong-type", partial(edit, op, others), expected="Node", found=kind)
    refused(found.graph, "other-graph", lambda: edit(h, Eight()["c"]), name="foo/c", expected="foo/bar/h")


def test_a_node_cannot_wait_for_what_depends_on_it() -> None:
    found = Eight()
    for other in found.nodes("cefgh"):
        wait = partial(ge.add_control_inputs, found["c"], other)
        refused(found.graph, "would-cycle", wait, node="foo/c", inputs=[other.name])
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
    records: Any = [node("a", "NoOp")]
    refused(found, "wrong-type", lambda: ge.ControlOutputs(records), expected="Graph", found="list")
