"""detach, connect and bypass, mostly on the graph of eight nodes."""

from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.graph_editor_running import Eight, run, sound
from support.graphs import FLOAT, INT32, add, const, graph, identity, node, placeholder

from gdsurgeon import graph_editor as ge
from gdsurgeon.analysis.shapes.stated import stated_shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output
from gdsurgeon.runtime.client import Worker


def names(tensors: list[Output]) -> list[str]:
    return [tensor.name for tensor in tensors]


def refused(found: Graph, words: str, edit: Any) -> None:
    before = graphs.written(found)
    with pytest.raises(ValueError, match=words):
        edit()
    assert graphs.written(found) == before


def xyz() -> list[bytes]:
    return [const("x", [1, 1]), const("y", [2, 2]), add("z", "x", "y")]


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


def test_control_edges_stay_where_they_are_not_meant() -> None:
    found = Eight()
    ge.detach(found["c"])
    assert found.inputs("h") == {"h": ["foo/bar/f", "foo/bar/g", "^foo/c"]}


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


def test_a_tensor_that_is_read_inside_too_is_replaced_outside_only() -> None:
    found = graph(const("a", [1]), identity("b", "a"), identity("c", "b"), add("d", "c", "b"))
    _, outputs = ge.detach_outputs([found["b"], found["c"]])
    assert names(outputs) == ["geph__b_0", "geph__c_0"]
    assert (graphs.inputs(found)["c"], graphs.inputs(found)["d"]) == (["b"], ["geph__c_0", "geph__b_0"])


def test_placeholders_of_outputs_are_not_mixed_up() -> None:
    """The consumers read the outputs in another order than the subgraph gives them."""
    found = graph(
        const("a", [1, 1]), const("b", [2, 2, 2]),
        node("y", "Pack", ["b"], N=1, T=FLOAT), node("z", "Pack", ["a"], N=1, T=FLOAT),
    )  # fmt: skip
    _, outputs = ge.detach_outputs([found["a"], found["b"]])
    assert names(outputs) == ["geph__a_0", "geph__b_0"]
    assert (graphs.inputs(found)["y"], graphs.inputs(found)["z"]) == (["geph__b_0"], ["geph__a_0"])


def test_detaching_the_inputs_with_the_control_inputs() -> None:
    found = Eight()
    before = found.inputs("cefg")
    ge.detach_inputs(found["h"], control_inputs=True)
    assert found.inputs("h") == {"h": ["foo/bar/geph__f_0", "foo/bar/geph__g_0"]}
    assert found.inputs("cefg") == before


def test_detaching_control_edges_alone() -> None:
    found = Eight()
    ge.detach_control_inputs([found["h"], found["g"]])
    assert found.inputs("h") == {"h": ["foo/bar/f", "foo/bar/g"]}
    found = Eight()
    ge.detach_control_inputs([found["h"], found["c"]])
    assert not found.graph.is_changed
    ge.detach_control_outputs([found["h"], found["c"]], ge.ControlOutputs(found.graph))
    assert not found.graph.is_changed
    ge.detach_control_outputs(found["c"], ge.ControlOutputs(found.graph))
    assert found.inputs("h") == {"h": ["foo/bar/f", "foo/bar/g"]}
    with pytest.raises(TypeError, match="a ControlOutputs is expected"):
        ge.detach_control_outputs(found["c"], True)  # type: ignore[arg-type]


def connected() -> Eight:
    found = Eight(*xyz())
    a, b = ge.sgv(*found.nodes("xyz")), ge.sgv(found["e"]).remap_inputs([0])
    assert ge.connect(a, b) == (a, b)
    assert list(b.inputs) == list(a.outputs) == [found["z"].output]
    return found


def test_connecting_outputs_to_some_of_the_inputs() -> None:
    before = Eight().inputs("cfgh")
    found = connected()
    assert found.inputs("e") == {"e": ["z", "foo/d"]}
    assert found.inputs("cfgh") == before


@pytest.mark.tensorflow
def test_what_is_connected_is_computed(worker: Worker) -> None:
    assert run(worker, connected().graph, "foo/bar/e") == [[6, 6]]


def test_connecting_changes_nobody_but_the_second_subgraph() -> None:
    found = Eight(*xyz(), add("k", "z", "foo/c"))
    ge.connect(found["z"], ge.sgv(found["e"]).remap_inputs([0]))
    assert graphs.inputs(found.graph)["k"] == ["z", "foo/c"]


def test_connecting_what_has_been_disconnected_first() -> None:
    found = Eight()
    ge.connect(ge.sgv(found["c"]), ge.sgv(found["h"]).remap_inputs([0]), disconnect_first=True)
    assert found.inputs("efgh") == {
        "e": ["foo/geph__c_0", "foo/d"],
        "f": ["foo/geph__c_0", "foo/d"],
        "g": ["foo/geph__c_0", "a"],
        "h": ["foo/c", "foo/bar/g", "^foo/c"],
    }
    assert sound(found.graph)


def test_what_is_connected_already_stays_connected_when_it_is_disconnected_first() -> None:
    found = Eight()
    ge.connect(ge.sgv(found["c"]), ge.sgv(found["e"]).remap_inputs([0]), disconnect_first=True)
    assert found.inputs("efg") == {
        "e": ["foo/c", "foo/d"],
        "f": ["foo/geph__c_0", "foo/d"],
        "g": ["foo/geph__c_0", "a"],
    }


def bypassed() -> Eight:
    found = Eight()
    view = ge.sgv(found["f"]).remap_inputs([0])
    same, placeholders = ge.bypass(view)
    assert same is view and names(placeholders) == ["foo/geph__c_0"]
    return found


def test_bypassing() -> None:
    found = bypassed()
    assert found.inputs("cefgh") == {
        "c": ["a", "foo/b"],
        "e": ["foo/c", "foo/d"],
        "f": ["foo/geph__c_0", "foo/d"],
        "g": ["foo/c", "a"],
        "h": ["foo/c", "foo/bar/g", "^foo/c"],
    }
    assert sound(found.graph)


@pytest.mark.tensorflow
def test_what_is_bypassed_is_not_computed(worker: Worker) -> None:
    assert run(worker, bypassed().graph, "foo/bar/h") == [[7, 7]]


def test_bypassing_needs_as_many_inputs_as_outputs() -> None:
    found = Eight()
    refused(found.graph, "different sizes: 2 and 1", lambda: ge.bypass(found["f"]))


def test_what_does_not_fit_is_refused_before_anything_is_made() -> None:
    found = Eight(const("i", [1, 2], INT32))
    refused(found.graph, "dtypes differ",
            lambda: ge.connect(found["i"], ge.sgv(found["e"]).remap_inputs([0]), disconnect_first=True))  # fmt: skip
    refused(found.graph, "another graph", lambda: ge.connect(found["c"], Eight()["h"]))
    odd = graph(const("a", [1]), node("m", "MyOp", ["a"]), node("n", "MyOp", ["m"]))
    refused(odd, "the type of 'm' .* is not known", lambda: ge.detach_inputs([odd["n"]]))
    refused(odd, "the type of 'm' .* is not known", lambda: ge.detach(odd["m"]))


def test_an_empty_subgraph_has_nothing_to_detach() -> None:
    view, inputs, outputs = ge.detach(ge.sgv())
    assert (bool(view), inputs, outputs) == (False, [], [])
