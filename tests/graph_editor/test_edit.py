"""Edits of graph_editor, and its view of a subgraph."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support import graphs
from support.desk import check_error
from support.graph_editor_running import Eight, letters, refused, sound
from support.graphs import INT32, add, const, graph, identity, node

import gdsurgeon as gds
from gdsurgeon import graph_editor as ge
from gdsurgeon.errors import EditError
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


def test_inputs_and_outputs_are_remapped_by_place_and_by_tensor() -> None:
    found = Eight()
    view = ge.sgv(found["c"])
    assert (letters(view.inputs), letters(view.outputs)) == ("ab", "c")
    view = view.remap_inputs([found["a"].output]).remap_outputs([0, found["c"].output])
    assert (letters(view.inputs), letters(view.outputs)) == ("a", "cc")
    assert letters(view.remap_outputs_to_consumers().outputs) == "ccc"
    assert letters(view.remap_outputs_to_consumers().remap_outputs_make_unique().outputs) == "c"
    view = view.remap([], [])
    assert (list(view.inputs), list(view.outputs)) == ([], [])
    assert (letters(view.remap_default(remove_output_map=False).inputs), list(view.outputs)) == ("ab", [])
    view = view.remap_default()
    assert (letters(view.inputs), letters(view.outputs)) == ("ab", "c")


def test_outputs_to_consumers_counts_nodes_and_no_control_edges() -> None:
    found = graph(const("x", [1]), add("y", "x", "x"), identity("z", "x", "^y"), node("w", "NoOp", ["^x"]))
    assert [t.name for t in ge.sgv(found["x"]).remap_outputs_to_consumers().outputs] == ["x", "x"]


@pytest.mark.parametrize("make", [ge.sgv, lambda *nodes: gds.Subgraph(nodes)])
@pytest.mark.parametrize(
    ("of", "wanted", "code", "facts"),
    [
        ("inputs", [0, 0], "given-twice", {"tensor": "a"}),
        ("inputs", [0, "a"], "given-twice", {"tensor": "a"}),
        ("inputs", [2], "no-such-input", {"value": 2, "count": 2}),
        ("inputs", [-1], "no-such-input", {"value": -1}),
        ("inputs", ["d"], "no-such-input", {"tensor": "foo/d"}),
        ("outputs", [1], "no-such-output", {"value": 1, "count": 1}),
        ("outputs", [0, -1], "no-such-output", {"value": -1}),
        ("outputs", ["a"], "no-such-output", {"tensor": "a"}),
    ],
)
def test_a_remapping_that_makes_no_sense_is_refused(
    make: Any, of: str, wanted: list[Any], code: str, facts: dict[str, Any]
) -> None:
    found = Eight()
    view = make(found["c"])
    tensors = [found[each].output if isinstance(each, str) else each for each in wanted]
    with pytest.raises(ge.Refusal if isinstance(view, ge.SubGraphView) else EditError) as caught:
        getattr(view, f"remap_{of}")(tensors)
    check_error(caught.value, code, facts)
    assert (letters(view.inputs), letters(view.outputs)) == ("ab", "c")


def test_control_inputs_keep_nodes_unless_they_are_not_followed() -> None:
    found = graph(const("x", [1]), const("y", [1]), identity("z", "x", "^y"))
    assert len(ge.sgv(found).remap_outputs([found["z"].output]).remove_unused_ops().ops) == 3
    assert len(ge.sgv(found).remap_outputs([found["z"].output]).remove_unused_ops(control_inputs=False).ops) == 2


def test_a_tensor_that_is_read_on_both_sides_is_an_output_and_inside() -> None:
    found = graph(const("a", [1]), const("b", [1]), add("c", "a", "b"), add("d", "a", "c"))
    given, result, internal = ge.compute_boundary_ts([found["a"], found["c"]])
    assert (letters(given), letters(result), letters(internal)) == ("b", "ac", "a")


def test_a_tensor_that_the_nodes_do_not_touch_goes_straight_through() -> None:
    found = Eight()
    view = ge.sgv(found["e"], found.ts("cge"))
    assert (letters(view.inputs), letters(view.outputs)) == ("cdg", "eg")
    assert letters(view.passthroughs) == "g"
    assert view.is_passthrough(found["g"].output) and not view.is_passthrough(found["c"].output)
    assert (letters(view.connected_inputs), letters(view.connected_outputs)) == ("cd", "e")
    assert letters(view.consumers()) == "h"
    view = ge.sgv(found["c"].output)
    assert letters(view.inputs) == letters(view.outputs) == letters(view.passthroughs) == "c"
    assert letters(view.remap_default().inputs) == "c"
    assert letters(view.consumers()) == "efg"


def test_the_place_of_an_input_or_output() -> None:
    found = Eight()
    view = ge.sgv(found["f"], found["g"])
    assert [view.input_index(t) for t in found.ts("cda")] == [0, 1, 2]
    assert view.output_index(found["g"].output) == 1
    refused(found.graph, "no-such-input", lambda: view.input_index(found["b"].output), tensor="foo/b")
    refused(found.graph, "no-such-output", lambda: view.output_index(found["c"].output), tensor="foo/c")


def test_a_view_is_not_changed_by_what_is_made_of_it() -> None:
    found = Eight()
    view = ge.sgv(found["c"])
    copy = view.copy()
    assert copy is not view and list(copy.inputs) == list(view.inputs) and type(copy) is ge.SubGraphView
    copy.take_inputs(found.ts("dd"))
    assert (letters(copy.inputs), letters(view.inputs)) == ("dd", "ab")
    assert repr(view) == "<SubGraphView of 1 node: a, foo/b -> foo/c>"


def test_a_view_in_the_words_of_the_older_libraries() -> None:
    found = Eight()
    view = ge.sgv(found["c"])
    assert view.op(0) is found["c"] and view.find_op_by_name("foo/c") is found["c"] and view.graph is found.graph
    refused(found.graph, "no-such-node", lambda: view.find_op_by_name("nope"), node="nope")
    with ge.sgv(view) as same:
        assert same is view
    assert view and not ge.sgv() and not ge.sgv([], [])
    assert ge.SubGraphView is ge.SubgraphView


def test_nodes_of_two_graphs_make_no_view() -> None:
    a, b = Eight(), Eight()
    for edit in (partial(ge.sgv, [a["c"], b["d"]]), partial(ge.sgv, a["c"], b["d"])):
        refused(a.graph, "other-graph", edit, name="foo/d", expected="foo/c")
    with pytest.raises(EditError) as caught:
        gds.Subgraph([a["c"]], [b["d"].output])
    check_error(caught.value, "other-graph", {"name": "foo/d", "expected": "foo/c"})
    refused(a.graph, "other-graph", lambda: ge.sgv(a["c"], graph=b.graph))
    refused(a.graph, "wrong-type", lambda: ge.sgv(3), expected="Node", found="int")


def test_the_outputs_of_an_unknown_op_are_those_that_are_read() -> None:
    found = graph(const("a", [1]), node("m", "MyOp", ["a"]), identity("y", "m:2"))
    assert [t.name for t in ge.sgv(found["m"]).outputs] == ["m", "m:2"]
    assert [t.name for t in ge.get_output_ts(found["m"])] == ["m", "m:2"]
    assert [t.name for t in ge.get_output_ts(graph(node("n", "NoOp")))] == []
