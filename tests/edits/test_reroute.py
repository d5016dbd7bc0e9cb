"""reroute; the numbers are those of the sections on rerouting and control inputs of the specification."""

from __future__ import annotations

import pytest
from support import graphs
from support.expecting import expect, refuse
from support.graphs import FLOAT, INT32, add, const, g8, graph, identity, inputs, loop, node, placeholder, r3

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.edits.reroute import reroute
from gdsurgeon.errors import EditError, GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.accounting import check_accounted


def refused(found: Graph, words: str, *pairs: tuple[str, str], **options: object) -> None:
    refuse(found, words, lambda g: reroute(g, pairs, **options), error=GdsurgeonError)  # type: ignore[arg-type]


def split() -> list[bytes]:
    return [
        const("axis", [0], INT32, ()),
        const("v", [1, 2]),
        node("s", "Split", ["axis", "v"], T=FLOAT, num_split=2),
        add("p", "s", "s:1"),
        add("q", "s:1", "s:1"),
    ]


def test_swapping_two_pairs() -> None:
    before = r3()
    after = [*before[:2], add("c0", "a1", "b1"), *before[3:5], add("c1", "a0", "b0"), *before[6:]]
    pairs = [("a0", "a1"), ("b0", "b1")]
    result = expect(before, lambda g: reroute(g, pairs, swap=True), after, command="reroute a0=a1 b0=b1 --swap")
    assert len(result.intent.rewired) == 4


def test_rerouting_two_pairs_and_back_over_them() -> None:
    found = graph(*r3())
    assert len(reroute(found, [("a1", "a0"), ("b1", "b0")]).intent.rewired) == 2
    assert inputs(found)["c0"] == inputs(found)["c1"] == ["a0", "b0"]
    assert {"a1", "b1"} <= set(graphs.names(found))
    assert len(reroute(found, [("a0", "a1"), ("b0", "b1")]).intent.rewired) == 4
    assert inputs(found)["c0"] == inputs(found)["c1"] == ["a1", "b1"]


def test_known_shapes_that_differ_are_refused() -> None:
    refused(graph(*r3()), r"'a2' \(float32 \[3\]\) cannot give way to 'a0' \(float32 \[2\]\): shapes differ",
            ("a2", "a0"), ("b2", "b0"))  # fmt: skip


def test_dtypes_that_differ_are_refused() -> None:
    found = graph(*r3(), const("i", [1, 2], INT32))
    refused(found, r"'a0' \(float32 \[2\]\) cannot give way to 'i' \(int32 \[2\]\): dtypes differ", ("a0", "i"))
    refused(found, "dtypes differ", ("b0", "b1"), ("a0", "i"))


def test_unknown_dimensions_fit_everything() -> None:
    for shape in [(-1,), None]:
        found = graph(*r3(), placeholder("p", FLOAT, shape))
        reroute(found, [("a2", "p"), ("a0", "p")])
        assert (inputs(found)["c2"], inputs(found)["c0"]) == (["p", "b2"], ["p", "b0"])
    refused(graph(*r3(), placeholder("p", FLOAT, (-1, 2))), "shapes differ", ("a0", "p"))


def test_unknown_types_fit_everything_and_are_warned_about() -> None:
    found = graph(*r3(), node("u", "MyOp"))
    result = reroute(found, [("a0", "u")])
    assert inputs(found)["c0"] == ["u", "b0"]
    assert result.warnings == ["the type of 'u' is not known here (MyOp): not compared"]


def test_a_reference_fits_its_value() -> None:
    found = graph(*r3(), node("v", "VariableV2", dtype=FLOAT, shape=(2,)))
    reroute(found, [("a0", "v")])
    assert inputs(found)["c0"] == ["v", "b0"]


def test_onto_itself_changes_nothing() -> None:
    refused(graph(*r3()), "nothing would change", ("a0", "a0"))


def test_onto_itself_is_not_said_to_be_unread() -> None:
    with pytest.raises(EditError) as caught:
        reroute(graph(*r3()), [("a0", "a0:0")])
    assert "nobody reads" not in caught.value.message


def test_only_and_exclude_bound_the_consumers() -> None:
    found = graph(*g8())
    reroute(found, [("foo/c", "foo/d")], only="bar/[ef]$")
    assert inputs(found)["foo/bar/e"] == inputs(found)["foo/bar/f"] == ["foo/d", "foo/d"]
    assert inputs(found)["foo/bar/g"] == ["foo/c", "a"]
    found = graph(*g8())
    reroute(found, [("foo/c", "foo/d")], exclude="bar/[ef]$")
    assert inputs(found)["foo/bar/e"] == inputs(found)["foo/bar/f"] == ["foo/c", "foo/d"]
    assert inputs(found)["foo/bar/g"] == ["foo/d", "a"]
    found = graph(*g8())
    reroute(found, [("foo/c", "foo/d")], only="bar", exclude="/[eg]$")
    assert [inputs(found)[f"foo/bar/{x}"][0] for x in "efg"] == ["foo/c", "foo/d", "foo/c"]


def test_no_consumer_among_those_allowed() -> None:
    words = "no consumer of 'foo/c' is among those allowed"
    refused(graph(*g8()), words, ("foo/c", "foo/d"), only="^foo/d$")
    refused(graph(*g8()), words, ("foo/c", "foo/d"), exclude="bar")
    refused(graph(*g8()), words, ("foo/c", "foo/d"), only="bar", exclude="bar")
    refused(graph(*g8()), words, ("foo/c", "foo/d"), only="^$")
    refused(graph(*g8()), "is not a regular expression", ("foo/c", "foo/d"), only="(")


def test_every_slot_that_matches_counts() -> None:
    found = graph(*split())
    result = reroute(found, [("s:1", "s:0")])
    assert len(result.intent.rewired) == 3
    assert (inputs(found)["p"], inputs(found)["q"]) == (["s", "s"], ["s", "s"])
    assert result.intent.rewired[0] == Rewired("p", 1, "s:1", "s")


def test_control_inputs_never_count_and_never_move() -> None:
    found = graph(*g8())
    result = reroute(found, [("foo/c", "a")])
    assert sorted((r.node, r.slot) for r in result.intent.rewired) == [
        ("foo/bar/e", 0), ("foo/bar/f", 0), ("foo/bar/g", 0)
    ]  # fmt: skip
    assert inputs(found)["foo/bar/h"] == ["foo/bar/f", "foo/bar/g", "^foo/c"]
    refused(graph(*r3(), node("w", "NoOp", ["^c0"])), "nobody reads 'c0'", ("c0", "c1"))


def test_all_slots_are_decided_from_the_state_before() -> None:
    found = graph(const("p", [1]), const("q", [2]), add("s", "p", "q"))
    assert len(reroute(found, [("p", "q")], swap=True).intent.rewired) == 2
    assert inputs(found)["s"] == ["q", "p"]


def test_pairs_do_not_see_each_others_changes() -> None:
    records = [const(n, [1]) for n in "pqr"] + [add("s", "p", "q"), identity("t", "r")]
    found = graph(*records)
    reroute(found, [("p", "q"), ("q", "r"), ("r", "p")])
    assert (inputs(found)["s"], inputs(found)["t"]) == (["q", "r"], ["p"])
    found = graph(*records)
    reroute(found, [("p", "q"), ("q", "p")])
    assert inputs(found)["s"] == ["q", "p"]


def test_a_swap_with_one_side_unread() -> None:
    found = graph(const("p", [1]), const("q", [2]), identity("s", "p"))
    assert len(reroute(found, [("p", "q")], swap=True).intent.rewired) == 1
    assert inputs(found)["s"] == ["q"]


def test_an_identity_can_take_the_place_of_what_it_reads() -> None:
    found = graph(const("x", [1]), identity("pre", "x"), identity("y", "x"), add("z", "x", "x"))
    result = reroute(found, [("x", "pre")])
    assert len(result.intent.rewired) == 3
    assert (inputs(found)["pre"], inputs(found)["y"], inputs(found)["z"]) == (["x"], ["pre"], ["pre", "pre"])
    assert result.notes == ["'pre' keeps reading 'x': 'pre' depends on it"]
    assert check(from_bytes(graphs.written(found))).faults == []


def test_the_whole_cone_above_the_new_tensor_is_left_alone() -> None:
    found = graph(const("x", [1]), identity("a", "x"), add("b", "a", "x"), node("w", "NoOp", ["^a"]),
                  identity("new", "b"), identity("y", "x"))  # fmt: skip
    reroute(found, [("x", "new")])
    assert (inputs(found)["a"], inputs(found)["b"], inputs(found)["y"]) == (["x"], ["a", "x"], ["new"])


def test_a_cone_that_hangs_on_a_control_input() -> None:
    found = graph(const("x", [1]), identity("a", "x"), const("new", [1]), identity("y", "x"))
    found.set_controls(found["new"], [found["a"]])
    reroute(found, [("x", "new")])
    assert (inputs(found)["a"], inputs(found)["y"]) == (["x"], ["new"])


def test_nothing_but_a_cycle_is_refused() -> None:
    refused(graph(const("x", [1]), identity("pre", "x")), "would make a cycle: 'pre' keeps reading 'x'", ("x", "pre"))


def test_pairs_that_close_a_cycle_together_are_refused() -> None:
    found = graph(const("p", [1]), const("q", [1]), identity("a", "p"), identity("b", "q"))
    refused(found, "rerouting would make a cycle: '[ab]' -> '[ab]' -> '[ab]'", ("p", "b"), ("q", "a"))


def test_a_cycle_is_seen_where_control_inputs_stand_before_data() -> None:
    found = graph(const("p", [1]), const("q", [1]), const("k", [1]), node("a", "Identity", ["^k", "p"], T=FLOAT),
                  node("b", "Identity", ["^k", "q"], T=FLOAT))  # fmt: skip
    refused(found, "rerouting would make a cycle", ("p", "b"), ("q", "a"))


def test_inside_a_loop_what_comes_round_is_no_cone() -> None:
    found = graph(*graphs.loop())
    reroute(found, [("w/Merge", "w/Enter")], only="Less")
    assert inputs(found)["w/Less"] == ["w/Enter", "w/Limit"]
    found = graph(*graphs.loop())
    reroute(found, [("w/Identity", "w/Switch:1")])
    assert inputs(found)["w/Add"] == ["w/Switch:1", "w/one"]
    assert check(from_bytes(graphs.written(found))).faults == []


def test_tensors_of_another_graph_are_refused() -> None:
    found, other = graph(*r3()), graph(*r3())
    for pair in [(found["a0"].output, other["a1"].output), (other["a0"].output, found["a1"].output)]:
        with pytest.raises(EditError, match=r"'a[01]' belongs to another graph"):
            reroute(found, [pair])
    assert not found.is_changed
    reroute(found, [(found["a0"].output, found["a1"].output)])
    assert inputs(found)["c0"] == ["a1", "b0"]


def test_swapping_outputs() -> None:
    records = [*r3(), identity("o0", "c0"), identity("o1", "c1")]
    found = graph(*records)
    reroute(found, [("c0", "c1")], swap=True)
    assert (inputs(found)["o0"], inputs(found)["o1"]) == (["c1"], ["c0"])
    found = graph(*records)
    reroute(found, [("c1", "c0")])
    assert (inputs(found)["o0"], inputs(found)["o1"]) == (["c0"], ["c0"])


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (("nope", "a0"), r"model\.pb has no node 'nope'"),
        (("a0", "b00"), "Did you mean 'b0'"),
        (("a0:1", "b0"), r"'a0:1': node 'a0' \(Const\) has 1 output"),
        (("a0", "b0:7"), "has 1 output"),
        (("^a0", "b0"), "is not the name of a tensor"),
        (("a0", "b0:0:1"), "is not the name of a tensor"),
        (("c0", "c1"), "nobody reads 'c0'"),
    ],
)
def test_what_names_no_tensor_is_refused(pair: tuple[str, str], words: str) -> None:
    refused(graph(*r3()), words, pair)
    if "nobody" not in words:
        refused(graph(*r3()), words, ("b1", "b0"), pair)


def test_one_tensor_to_two_others_is_refused() -> None:
    refused(graph(*r3()), "to two others at once", ("a0", "a1"), ("a0", "b1"))
    refused(graph(*r3()), "to two others at once", ("a0", "a1"), ("a1", "b1"), swap=True)


def test_a_node_without_outputs_has_none_to_give() -> None:
    refused(graph(*r3(), node("n", "NoOp")), r"node 'n' \(NoOp\) has 0 outputs", ("a0", "n"))


def test_control_inputs_and_colocations_of_rewired_nodes_stay() -> None:
    found = graph(*r3(), add("y", "a0", "a1", "^c0", "^c1", _class=["loc:@a0"], _x=5))
    reroute(found, [("a0", "b0")])
    assert inputs(found)["y"] == ["b0", "a1", "^c0", "^c1"]
    assert graphs.colocations(found) == {"y": [b"loc:@a0"]}
    assert graphs.attrs(found, "y")["_x"].i == 5


def test_only_rewired_nodes_are_written_anew() -> None:
    found = graph(*g8())
    before = graphs.bodies_by_name(found)
    result = reroute(found, [("foo/c", "foo/d")])
    after = graphs.bodies_by_name(found)
    assert {n for n in after if after[n] != before[n]} == {r.node for r in result.intent.rewired}


def test_an_edit_and_its_inverse_give_back_the_bytes() -> None:
    found = graph(*r3())
    reroute(found, [("a0", "a1")], swap=True)
    back = from_bytes(graphs.written(found))
    reroute(back, [("a0", "a1")], swap=True)
    assert graphs.written(back) == graphs.graph_bytes(*r3())


def test_a_cycle_through_a_control_input_that_stands_before_data_is_refused() -> None:
    found = graph(
        *(const(name, [1]) for name in "pqvz"),
        node("k", "Identity", ["q"], T=FLOAT),
        node("a", "Identity", ["^k", "p"], T=FLOAT),
        node("w", "Identity", ["v"], T=FLOAT),
        node("t", "Identity", ["w"], T=FLOAT),
    )
    with pytest.raises(EditError, match="cycle"):
        reroute(found, [("q", "t"), ("v", "a"), ("p", "z")])


def test_what_comes_round_a_loop_is_not_above_what_it_comes_to() -> None:
    found = graph(*loop())
    merge = next(n for n in found.nodes() if n.op == "Merge")
    again = next(read.node for read in merge.inputs if read.node.op == "NextIteration")
    result = reroute(found, [(again.inputs[0].name, merge.name)])
    assert (again.name, 0) in {(slot.node, slot.slot) for slot in result.intent.rewired}
    check_accounted(found, result, found.chunks())
