"""swap_* and reroute_*: which input slots change, how many, and which never do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick
from support.graph_editor_running import refused, sound
from support.graphs import FLOAT, add, const, graph, identity, placeholder, r3, typed

from gdsurgeon import graph_editor as ge
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Output

Edit = Callable[..., object]


def ts(found: Graph, *names: str) -> list[Output]:
    return [found.tensor(name) for name in names]


def reads(found: Graph, *names: str) -> list[list[str]]:
    inputs = graphs.inputs(found)
    return [inputs[name] for name in names]


# Tensors.


def test_swapping_two_pairs_exchanges_the_inputs_and_counts_four() -> None:
    found = graph(*r3())
    assert ge.swap_ts(ts(found, "a0", "b0"), ts(found, "a1", "b1")) == 4
    assert reads(found, "c0", "c1", "c2") == [["a1", "b1"], ["a0", "b0"], ["a2", "b2"]]


def test_onto_itself_nothing_changes_and_nothing_is_wrong() -> None:
    found = graph(*r3())
    for edit in (ge.swap_ts, ge.reroute_ts):
        assert edit(ts(found, "a0"), ts(found, "a0")) == edit([], []) == 0
    assert not found.is_changed
    assert ge.reroute_ts(found.tensor("a0"), found.tensor("a1")) == 1  # one tensor need not be in a list


@pytest.mark.parametrize(
    ("bounds", "count"),
    [
        ({"can_modify": ["c1"]}, 1),
        ({"can_modify": ["c0"]}, 0),
        ({"cannot_modify": ["c1"]}, 0),
        ({"can_modify": []}, 0),
        ({"cannot_modify": []}, 1),
        ({"can_modify": ["c1"], "cannot_modify": ["c1"]}, 0),
    ],
)
def test_only_what_may_be_modified_is(bounds: dict[str, list[str]], count: int) -> None:
    found = graph(*r3())
    nodes: Any = {key: [found[name] for name in names] for key, names in bounds.items()}
    assert ge.reroute_ts(ts(found, "a0"), ts(found, "a1"), **nodes) == count


def test_the_first_of_two_pairs_that_claim_a_slot_has_it() -> None:
    found = graph(*r3())
    assert ge.reroute_ts(ts(found, "a0", "b0"), ts(found, "a1", "a1")) == 1
    assert reads(found, "c1") == [["a0", "b1"]]


def test_pairs_that_close_a_cycle_together_are_refused() -> None:
    found = graph(const("p", [1]), const("q", [1]), identity("a", "p"), identity("b", "q"))
    error = refused(found, "would-cycle", lambda: ge.reroute_ts(ts(found, "b", "a"), ts(found, "p", "q")))
    assert sorted(error.facts["nodes"]) == ["a", "b"]


def test_what_is_no_tensor_of_the_graph_is_refused() -> None:
    found = graph(*r3(), identity("gone", "a0"))
    gone, wrong, a1 = found.tensor("gone"), Output(found["a0"], 1), ts(found, "a1")
    refused(found, "wrong-type", lambda: ge.swap_ts([found["a0"]], a1), expected="Output", found="Node")
    refused(found, "wrong-type", lambda: ge.reroute_ts(gone, a1, ["c1"]), expected="Node", found="str")
    refused(found, "no-such-tensor", lambda: ge.reroute_ts([wrong], a1), tensor="a0:1", count=1)
    found.remove([found["gone"]])
    refused(found, "other-graph", lambda: ge.reroute_ts([gone], a1), tensor="gone")


@given(graphs.random_graphs(), st.data())
def test_whatever_is_rerouted_the_graph_stays_sound(drawn: graphs.Drawn, data: st.DataObject) -> None:
    found = from_bytes(drawn.data)
    tensors = st.sampled_from(ge.get_tensors(found) or [None])
    pairs = data.draw(st.lists(st.tuples(tensors, tensors), min_size=1, max_size=3))
    if pairs[0][0] is None:
        return
    before = {(n, i): t for n in found.nodes() for i, t in enumerate(n.inputs)}
    controls = {n: n.controls for n in found.nodes()}
    edit = pick(data.draw, [ge.swap_ts, ge.reroute_ts])
    try:
        count = edit([a for a, _ in pairs], [b for _, b in pairs])
    except ValueError:
        assert not found.is_changed
        return
    after = {(n, i): t for n in found.nodes() for i, t in enumerate(n.inputs)}
    assert count == sum(before[place] != after[place] for place in before)
    assert controls == {n: n.controls for n in found.nodes()}
    assert sound(found) == sound(from_bytes(drawn.data))


# Subgraphs.


def with_outputs() -> Graph:
    return graph(*r3(), identity("o0", "c0"), identity("o1", "c1"))


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (ge.swap_inputs, [["a1", "b1"], ["a0", "b0"], ["c0"], ["c1"]]),
        (ge.reroute_inputs, [["a0", "b0"], ["a0", "b0"], ["c0"], ["c1"]]),
        (ge.swap_outputs, [["a0", "b0"], ["a1", "b1"], ["c1"], ["c0"]]),
        (ge.reroute_outputs, [["a0", "b0"], ["a1", "b1"], ["c0"], ["c0"]]),
        (ge.swap_ios, [["a1", "b1"], ["a0", "b0"], ["c1"], ["c0"]]),
        (ge.reroute_ios, [["a0", "b0"], ["a0", "b0"], ["c0"], ["c0"]]),
    ],
)
def test_inputs_and_outputs_of_two_subgraphs(edit: Edit, expected: list[list[str]]) -> None:
    found = with_outputs()
    views = ge.sgv(found["c0"]), ge.sgv(found["c1"])
    assert edit(*views) == views
    assert reads(found, "c0", "c1", "o0", "o1") == expected
    assert [[t.name for t in view.inputs] for view in views] == expected[:2]
    assert sound(found)


def test_where_the_inputs_cannot_change_the_outputs_do_not_either() -> None:
    found = graph(
        const("p", [1]), const("q", [1]), identity("a", "p"), identity("b", "q"), const("e", [1]), identity("z", "e"),
        identity("x", "b"), identity("y", "a"), add("c", "x", "y"), const("k", [1]),
    )  # fmt: skip
    views = ge.sgv(found["c"], found["k"]).remap_outputs([1]), ge.sgv(*(found[n] for n in "abe")).remap_outputs([2])
    assert [t.name for view in views for t in view.outputs] == ["k", "e"]
    refused(found, "would-cycle", lambda: ge.reroute_ios(*views))
    assert [t.name for t in views[1].inputs] == ["p", "q"]


def test_consumers_inside_either_subgraph_are_never_rewired() -> None:
    """A tensor that is at once inside a subgraph and an output of it."""
    found = graph(
        const("a", [1, 1]), const("b", [2, 2]), add("c", "a", "b"), add("d", "a", "c"),
        const("e", [1, 1]), const("f", [2, 2]), add("g", "e", "f"),
    )  # fmt: skip
    ge.swap_outputs([found[n] for n in "abc"], [found[n] for n in "ef"])
    assert reads(found, "g", "c", "d") == [["a", "c"], ["a", "b"], ["e", "f"]]


def path() -> Graph:
    ops = [typed(op, op.lower(), above) for above, op in (("x", "Relu"), ("relu", "Neg"), ("neg", "Tanh"))]
    return graph(placeholder("x", FLOAT, (2,)), *ops, identity("y", "tanh"))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("relu", "tanh", {"tanh": "x", "neg": "tanh", "relu": "neg", "y": "relu"}),
        ("tanh", "relu", {"tanh": "x", "neg": "tanh", "relu": "neg", "y": "relu"}),
        ("relu", "neg", {"neg": "x", "relu": "neg", "tanh": "relu", "y": "tanh"}),
        ("tanh", "neg", {"relu": "x", "tanh": "relu", "neg": "tanh", "y": "neg"}),
    ],
)
def test_subgraphs_on_one_path_stand_where_the_other_stood(first: str, second: str, expected: dict[str, str]) -> None:
    found = path()
    a, b = ge.swap_ios(found[first], found[second])
    assert {name: reads(found, name)[0][0] for name in expected} == expected
    assert [[t.name for t in view.inputs] for view in (a, b)] == reads(found, first, second)
    assert sound(found)
    ge.swap_ios(found[first], found[second])
    assert graphs.inputs(found) == graphs.inputs(path())


@pytest.mark.parametrize("edit", [ge.swap_ts, ge.swap_inputs, ge.swap_outputs])
def test_half_of_an_exchange_is_not_made(edit: Edit) -> None:
    found = path()
    ends = (found["relu"], found["tanh"]) if edit is not ge.swap_ts else tuple(ts(found, "relu", "tanh"))
    refused(found, "would-cycle", lambda: edit(*ends))
    found = path()
    assert ge.reroute_ts(*ts(found, "tanh", "relu")) == 0


def test_subgraphs_that_do_not_fit_are_refused() -> None:
    found, other = with_outputs(), with_outputs()
    refused(found, "wrong-count", lambda: ge.swap_ios(found["c0"], found["o1"]), expected=2, found=1)
    refused(found, "shape-mismatch", lambda: ge.reroute_ios(found["c0"], found["c2"]), tensor="a2", replacement="a0")
    refused(found, "other-graph", lambda: ge.swap_inputs(found["c0"], other["c1"]), value=1)
