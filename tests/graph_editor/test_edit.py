"""detach, connect, bypass and control inputs, mostly on the graph of eight nodes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support import graphs
from support.graph_editor_running import Eight, refused, sound
from support.graphs import FLOAT, INT32, add, const, graph, identity, node, placeholder

from gdsurgeon import graph_editor as ge
from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.graph.node import Output


def names(tensors: list[Output]) -> list[str]:
    return [tensor.name for tensor in tensors]


def test_detaching_with_the_control_edges() -> None:
    found = Eight()
    view = ge.sgv(found["c"], found["a"])
    same, inputs, outputs = ge.detach(view, control_ios=ge.ControlOutputs(found.graph))
    assert same is view
    assert (names(inputs), names(outputs)) == (["foo/geph__b_0"], ["foo/geph__c_0", "geph__a_0"])
    assert list(view.inputs) == inputs
    assert found.inputs("cefgh") == {
        "c": ["a", "foo/geph__b_0"],
        "e": ["foo/geph__c_0", "foo/d"],
        "f": ["foo/geph__c_0", "foo/d"],
        "g": ["foo/geph__c_0", "geph__a_0"],
        "h": ["foo/bar/f", "foo/bar/g"],
    }
    assert sound(found.graph)


def test_a_placeholder_is_of_the_dtype_and_the_shape_of_its_tensor() -> None:
    """As the graph states the shape, or as it follows from what the graph states."""
    found = graph(
        const("w", [1, 2, 3], INT32), placeholder("p", FLOAT, (-1, 3)), placeholder("u", FLOAT, None),
        identity("a", "w", kind=INT32), identity("b", "p"), identity("c", "u"), identity("d", "b"),
    )  # fmt: skip
    _, inputs = ge.detach_inputs([found[name] for name in "abcd"])
    assert names(inputs) == ["geph__w_0", "geph__p_0", "geph__u_0"]
    assert [(t.dtype, stated_shape(t)) for t in inputs] == [(3, (3,)), (1, (-1, 3)), (1, None)]
    assert graphs.attrs(found, "geph__u_0")["shape"].shape.unknown_rank
    _, [inferred] = ge.detach_inputs(found["d"])
    assert (inferred.name, stated_shape(inferred)) == ("geph__b_0", (-1, 3))
    assert sound(found)


def test_there_is_one_placeholder_for_each_tensor_however_often_it_is_read() -> None:
    found = graph(const("a", [1]), add("b", "a", "a"), add("c", "a", "b"), add("d", "c", "c"))
    _, inputs, outputs = ge.detach([found["b"], found["c"]])
    assert (names(inputs), names(outputs)) == (["geph__a_0"], ["geph__c_0"])
    assert graphs.inputs(found)["b"] == ["geph__a_0", "geph__a_0"]
    _, again = ge.detach_inputs(found["d"])
    assert names(again) == ["geph__c_0_1"]
    assert sound(found)


def detach_control_outputs(view: Any) -> None:
    ge.detach_control_outputs(view, ge.ControlOutputs(view.graph))


@pytest.mark.parametrize(
    ("edit", "letters", "changed"),
    [
        (ge.detach, "c", {"e": ["foo/geph__c_0", "foo/d"], "f": ["foo/geph__c_0", "foo/d"],
                          "g": ["foo/geph__c_0", "a"]}),
        (lambda view: ge.detach_inputs(view, control_inputs=True), "h",
         {"h": ["foo/bar/geph__f_0", "foo/bar/geph__g_0"]}),
        (ge.detach_control_inputs, "hg", {"h": ["foo/bar/f", "foo/bar/g"]}),
        (ge.detach_control_inputs, "hc", {}),
        (detach_control_outputs, "hc", {}),
        (detach_control_outputs, "c", {"h": ["foo/bar/f", "foo/bar/g"]}),
    ],
)  # fmt: skip
def test_control_edges_are_cut_where_that_is_meant(edit: Any, letters: str, changed: dict[str, list[str]]) -> None:
    found = Eight()
    before = found.inputs("efgh")
    edit(ge.sgv(found.nodes(letters)))
    assert found.inputs("efgh") == {**before, **changed}
    assert found.graph.is_changed == bool(changed)


def test_control_edges_are_found_in_a_table_of_them() -> None:
    found = Eight()
    table: Any = True
    refused(found.graph, "wrong-type", lambda: ge.detach_control_outputs(found["c"], table), expected="ControlOutputs")


def test_connecting_changes_nobody_but_the_second_subgraph() -> None:
    found = Eight(const("x", [1, 1]), const("y", [2, 2]), add("z", "x", "y"), add("k", "z", "foo/c"))
    before = graphs.inputs(found.graph)
    a, b = ge.sgv(*found.nodes("xyz")), ge.sgv(found["e"]).remap_inputs([0])
    assert ge.connect(a, b) == (a, b)
    assert list(b.inputs) == list(a.outputs) == [found["z"].output]
    assert graphs.inputs(found.graph) == before | {"foo/bar/e": ["z", "foo/d"]}


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        ("h", {
            "e": ["foo/geph__c_0", "foo/d"], "f": ["foo/geph__c_0", "foo/d"], "g": ["foo/geph__c_0", "a"],
            "h": ["foo/c", "foo/bar/g", "^foo/c"],
        }),
        ("e", {"e": ["foo/c", "foo/d"], "f": ["foo/geph__c_0", "foo/d"], "g": ["foo/geph__c_0", "a"]}),
    ],
)  # fmt: skip
def test_connecting_what_has_been_disconnected_first(reader: str, expected: dict[str, list[str]]) -> None:
    """Existing connections are kept."""
    found = Eight()
    ge.connect(ge.sgv(found["c"]), ge.sgv(found[reader]).remap_inputs([0]), disconnect_first=True)
    assert found.inputs("".join(expected)) == expected
    assert sound(found.graph)


def test_bypassing() -> None:
    found = Eight()
    view = ge.sgv(found["f"]).remap_inputs([0])
    same, placeholders = ge.bypass(view)
    assert same is view and names(placeholders) == ["foo/geph__c_0"]
    assert found.inputs("cefgh") == {
        "c": ["a", "foo/b"],
        "e": ["foo/c", "foo/d"],
        "f": ["foo/geph__c_0", "foo/d"],
        "g": ["foo/c", "a"],
        "h": ["foo/c", "foo/bar/g", "^foo/c"],
    }
    assert sound(found.graph)


def test_what_does_not_fit_is_refused_before_anything_is_made() -> None:
    found = Eight(const("i", [1, 2], INT32))
    into = ge.sgv(found["e"]).remap_inputs([0])
    refused(found.graph, "wrong-count", lambda: ge.bypass(found["f"]), expected=2, found=1)
    refused(found.graph, "dtype-mismatch", lambda: ge.connect(found["i"], into, disconnect_first=True), tensor="foo/c")
    refused(found.graph, "other-graph", lambda: ge.connect(found["c"], Eight()["h"]))
    odd = graph(const("a", [1]), node("m", "MyOp", ["a"]), node("n", "MyOp", ["m"]))
    refused(odd, "unknown-dtype", lambda: ge.detach_inputs([odd["n"]]), tensor="m")
    refused(odd, "unknown-dtype", lambda: ge.detach(odd["m"]), tensor="m")


def test_an_empty_subgraph_has_nothing_to_detach() -> None:
    view, inputs, outputs = ge.detach(ge.sgv())
    assert (bool(view), inputs, outputs) == (False, [], [])


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
