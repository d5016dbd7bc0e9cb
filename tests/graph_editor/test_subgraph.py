"""Views of parts of a graph, in gdsurgeon's words and in those of the older libraries."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support.desk import check_error
from support.graph_editor_running import Eight, letters, refused
from support.graphs import FLOAT, add, const, graph, identity, node

import gdsurgeon as gds
from gdsurgeon import graph_editor as ge
from gdsurgeon.errors import EditError


def test_a_view_of_the_whole_graph() -> None:
    """A node without a consumer inside is an output."""
    found = Eight()
    for view in (ge.sgv(found.graph), ge.sgv(".*", graph=found.graph), gds.Subgraph(found.graph.nodes())):
        assert letters(view.nodes) == "abcdefgh"
        assert (letters(view.inputs), letters(view.outputs)) == ("", "eh")


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


def test_what_an_input_leads_to_is_used() -> None:
    found = Eight()
    view = ge.sgv(found["e"], found["f"], found["h"])
    assert letters(view.inputs) == "cdg"
    assert letters(view.remap([2], []).remove_unused_ops().ops) == "h"
    assert letters(view.remap([0], []).remove_unused_ops().ops) == "efh"


@pytest.mark.parametrize(
    ("members", "inputs", "outputs", "inside"), [("g", "ca", "g", ""), ("gh", "caf", "h", "g"), ("c", "ab", "c", "")]
)
def test_the_boundary(members: str, inputs: str, outputs: str, inside: str) -> None:
    found = Eight()
    given, result, internal = ge.compute_boundary_ts(found.nodes(members))
    assert (letters(given), letters(result), letters(internal)) == (inputs, outputs, inside)


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
    found = graph(const("a", [1]), node("m", "MyOp", ["a"]), node("y", "Identity", ["m:2"], T=FLOAT))
    assert [t.name for t in ge.sgv(found["m"]).outputs] == ["m", "m:2"]
    assert [t.name for t in ge.get_output_ts(found["m"])] == ["m", "m:2"]
    assert [t.name for t in ge.get_output_ts(graph(node("n", "NoOp")))] == []
