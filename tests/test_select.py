"""The selection language: nodes by name, by op, by paths."""

from __future__ import annotations

import pytest
from support import graphs
from support.graphs import BOOL, FLOAT, INT32, add, const, g8, graph, identity, node, placeholder, scalar, tensor
from support.selecting import picked, refused, short, split

from gdsurgeon.edits.reroute import reroute

# -- by name -----------------------------------------------------------------------------------------------


def test_nodes_come_in_file_order_and_once() -> None:
    assert picked(g8(), nodes=("foo/d", "a", "foo/d")) == ["a", "foo/d"]
    assert picked(g8(), nodes=("foo/d",), regexes=("d$",), ops=("Const",)) == short("abd")


def test_a_missing_node_is_said_with_the_nearest() -> None:
    for name, near in (("foo/bra/e", "foo/bar/e"), ("foo/c:0", "foo/c"), ("", None)):
        refused(g8(), "no-such-node", {"node": name, "near": near}, nodes=(name,))


def test_patterns_are_searched_and_not_anchored() -> None:
    assert picked(g8(), regexes=("a",)) == short("aefgh")
    assert picked(g8(), regexes=("^foo/",)) == short("bcdefgh")
    assert picked(g8(), regexes=("^foo/bar/",)) == short("efgh")
    assert picked(g8(), regexes=("^foo/bar/", "^a$")) == short("aefgh")
    assert picked(g8(), regexes=(r"^.*\b[abc]$",)) == short("abc")


def test_a_pattern_without_a_match_is_named() -> None:
    refused(g8(), "nothing-matched", {"argument": "regexes", "value": "^bar"}, regexes=("a", "^bar"))


@pytest.mark.parametrize("key", ["regexes", "exclude"])
def test_what_is_no_pattern(key: str) -> None:
    refused(g8(), "bad-pattern", {"value": "("}, **{key: ("(",)})


def test_ops_are_taken_exactly() -> None:
    assert picked(g8(), ops=("Const",)) == short("abd")
    assert picked(g8(), ops=("AddV2",)) == short("cefgh")
    assert picked(g8(), ops=("AddV2", "Const")) == short("abcdefgh")
    nearest = {"Add": "AddV2", "Addv2": "AddV2", "Conv2D": None, "const": "Const", "AddV2 ": "AddV2", "Add.*": None}
    for op, near in nearest.items():
        refused(g8(), "nothing-matched", {"argument": "ops", "value": op, "near": near}, ops=(op,))


def test_scopes() -> None:
    assert picked(g8(), scopes=("foo",)) == picked(g8(), scopes=("foo/",)) == short("bcdefgh")
    assert picked(g8(), scopes=("foo/bar",)) == picked(g8(), scopes=("foo/bar/",)) == short("efgh")
    assert picked(g8(), scopes=("foo/bar", "a")) == short("aefgh")
    assert picked(g8(), scopes=("foo/b",)) == short("b")


def test_the_node_named_like_the_scope_belongs_to_it_and_names_that_begin_like_it_do_not() -> None:
    records = [const(n, [1]) for n in ("s", "s/x", "s_1", "s_1/x", "st/x", "r/s", "r/s/x", "S/x")]
    assert picked(records, scopes=("s",)) == ["s", "s/x"]
    assert picked(records, scopes=("r/s",)) == ["r/s", "r/s/x"]


def test_scopes_are_literal() -> None:
    records = [const(n, [1]) for n in ("a.b/y", "axb/y", "a.b", "axb", "c-d/y")]
    assert picked(records, scopes=("a.b",)) == ["a.b/y", "a.b"]
    refused(records, "nothing-matched", {"argument": "scopes", "value": "a."}, scopes=("a.",))
    refused(records, "nothing-matched", scopes=(".*",))
    refused(g8(), "nothing-matched", {"near": "foo/bar"}, scopes=("foo/baz",))


# -- paths -------------------------------------------------------------------------------------------------


def test_between_has_the_ends_and_not_the_beginnings() -> None:
    assert picked(g8(), between=((("foo/c",), ("foo/bar/h",)),)) == short("fgh")
    assert picked(g8(), between=((("a",), ("foo/bar/h",)),)) == short("cfgh")
    assert picked(g8(), between=((("a",), ("foo/c",)),)) == short("c")


def test_between_several() -> None:
    assert picked(g8(), between=((("foo/c", "foo/d"), ("foo/bar/e", "foo/bar/g")),)) == short("eg")
    two = ((("a",), ("foo/c",)), (("foo/d",), ("foo/bar/e",)))
    assert picked(g8(), between=two) == short("ce")
    # A beginning that lies on a path from another is part of it.
    assert picked(g8(), between=((("a", "foo/c"), ("foo/bar/f",)),)) == short("cf")


def test_between_an_end_that_no_path_leads_to_is_left_out() -> None:
    assert picked(g8(), between=((("foo/d",), ("foo/bar/e", "foo/bar/g")),)) == short("e")
    facts = {"argument": "between", "value": "foo/d=foo/bar/g"}
    refused(g8(), "nothing-matched", facts, between=((("foo/d",), ("foo/bar/g",)),))
    refused(g8(), "nothing-matched", between=((("foo/bar/h",), ("foo/c",)),))


def test_between_follows_control_edges_where_that_is_asked_for() -> None:
    records = [const("x", [1]), identity("a", "x"), const("k", [1]), identity("y", "k", "^a"), identity("z", "y")]
    refused(records, "nothing-matched", between=((("x",), ("z",)),))
    assert picked(records, between=((("x",), ("z",)),), control=True) == ["a", "y", "z"]


def test_what_waits_for_the_beginning_of_between_is_not_behind_it_unless_control_edges_are_followed() -> None:
    records = [const("x", [1]), const("k", [1]), identity("y", "k", "^x"), identity("z", "y")]
    refused(records, "nothing-matched", between=((("x",), ("z",)),))


def test_between_starts_at_one_output_of_a_node() -> None:
    assert picked(split(), between=((("s:1",), ("z",)),)) == ["r", "z"]
    assert picked(split(), between=((("s",), ("z",)),)) == picked(split(), between=((("s:0",), ("z",)),)) == ["p", "z"]
    assert picked(split(), between=((("s:1",), ("z", "q")),)) == ["q", "r", "z"]
    assert picked(split(), between=((("v",), ("s:2",)),)) == ["s"]


@pytest.mark.parametrize(
    ("tensor_name", "code", "facts"),
    [
        ("s:3", "no-such-tensor", {"tensor": "s:3", "op": "Split", "count": 3}),
        ("w", "no-such-tensor", {"tensor": "w", "op": "NoOp", "count": 0}),
        ("^s", "bad-tensor-name", {"tensor": "^s"}),
        ("s:01", "bad-tensor-name", {"tensor": "s:01"}),
        ("axi", "no-such-node", {"node": "axi", "near": "axis"}),
    ],
)
def test_what_names_no_tensor(tensor_name: str, code: str, facts: dict[str, object]) -> None:
    refused(split(), code, facts, between=(((tensor_name,), ("z",)),))
    refused(split(), code, facts, between=((("v",), (tensor_name,)),))


def test_walks() -> None:
    assert picked(g8(), forward=("foo/bar/f",), backward=("foo/bar/g",)) == short("abcfgh")
    assert picked(g8(), forward=("a",), backward=("foo/bar/f",)) == short("abcdefgh")
    assert picked(g8(), forward=("foo/d",)) == short("defh")
    assert picked(g8(), backward=("foo/bar/g",)) == short("abcg")
    assert picked(g8(), forward=("foo/bar/e", "foo/bar/g")) == short("egh")


def test_walks_from_a_node_that_gives_nothing() -> None:
    """An end without outputs is where people want to walk back from: an init op, a train op, an Assert."""
    assert picked(split(), backward=("w",), control=True) == ["axis", "v", "s", "w"]
    assert picked(split(), backward=("w",)) == ["w"]


def test_walks_with_control_edges() -> None:
    records = [const("a", [1]), const("b", [1], _x=1), identity("c", "b", "^a"), node("d", "NoOp", ["^c"])]
    assert picked(records, forward=("a",)) == ["a"]
    assert picked(records, forward=("a",), control=True) == ["a", "c", "d"]
    assert picked(records, backward=("c",)) == ["b", "c"]
    assert picked(records, backward=("c",), control=True) == ["a", "b", "c"]


def test_walks_through_a_loop_go_round_it() -> None:
    body = {"w/Merge", "w/Less", "w/LoopCond", "w/Switch", "w/Identity", "w/Add", "w/NextIteration"}
    assert set(picked(graphs.loop(), forward=("w/Add",))) == {*body, "w/Exit", "out"}
    outside = {"w/Enter", "w/Limit", "w/one", "zero", "n"}
    assert set(picked(graphs.loop(), backward=("w/Less",))) == {*body, *outside}
    assert set(picked(graphs.loop(), between=((("w/Identity",), ("w/NextIteration",)),))) == body


# -- united, then excluded ---------------------------------------------------------------------------------


def test_all_that_is_named_is_united_before_anything_is_excluded() -> None:
    assert picked(g8(), scopes=("foo/bar",), nodes=("foo/bar/e", "a"), exclude=("/[ef]$",)) == short("agh")
    assert picked(g8(), ops=("Const",), regexes=("h$",), exclude=("^a$", "d")) == short("bh")


def test_exclude_alone_leaves_all_the_others() -> None:
    assert picked(g8(), exclude=("bar",)) == short("abcd")


def test_exclude_that_matches_nothing_excludes_nothing() -> None:
    assert picked(g8(), ops=("Const",), exclude=("nothing",)) == short("abd")


def test_nothing_is_left() -> None:
    refused(g8(), "all-excluded", ops=("Const",), exclude=(".",))


def test_nothing_is_named() -> None:
    refused(g8(), "nothing-selected")
    refused(g8(), "nothing-selected", control=True, constants=True)


# -- constants ---------------------------------------------------------------------------------------------


def weights() -> list[bytes]:
    """x * (w1 + w2) + bias, where the bias is read twice."""
    return [
        placeholder("x"),
        const("w1", [1, 2]),
        const("w2", [3, 4]),
        add("w", "w1", "w2"),
        node("mul", "Mul", ["x", "w"], T=FLOAT),
        const("bias", [1, 1]),
        add("y", "mul", "bias"),
        add("z", "mul", "bias"),
        const("unread", [1]),
    ]


def test_constants_come_with_the_nodes_that_alone_read_them() -> None:
    assert picked(weights(), nodes=("mul",)) == ["mul"]
    assert picked(weights(), nodes=("mul",), constants=True) == ["w1", "w2", "w", "mul"]
    assert picked(weights(), nodes=("y",), constants=True) == ["y"]
    assert picked(weights(), nodes=("y", "z"), constants=True) == ["bias", "y", "z"]


def test_what_has_state_or_is_fed_is_no_constant() -> None:
    records = [
        const("shape", [2], INT32),
        node("random", "RandomUniform", ["shape"], T=INT32, dtype=FLOAT, seed=1, seed2=2),
        const("c", [1, 2]),
        node("fed", "PlaceholderWithDefault", ["c"], dtype=FLOAT, shape=(2,)),
        add("y", "random", "fed"),
    ]
    assert picked(records, nodes=("y",), constants=True) == ["y"]


def test_constants_that_wait_for_something_selected() -> None:
    records = [placeholder("x"), identity("i", "x"), node("k", "Const", ["^i"], dtype=FLOAT, value=tensor([1])),
               add("y", "i", "k")]  # fmt: skip
    assert picked(records, nodes=("y",), constants=True) == ["k", "y"]


def test_excluded_constants_stay_out() -> None:
    assert picked(weights(), nodes=("mul",), constants=True, exclude=("w1",)) == ["w2", "w", "mul"]


def test_v1_control_flow_is_no_constant() -> None:
    """An Enter hands a weight into a loop: it is part of the loop and not of the node that reads it."""
    records = [
        *graphs.loop(),
        const("weight", [2], INT32, ()),
        node("w/weight", "Enter", ["weight"], T=INT32, frame_name="w", is_constant=True, parallel_iterations=10),
        node("w/Mul", "Mul", ["w/Identity", "w/weight"], T=INT32),
    ]
    assert picked(records, nodes=("w/Mul",), constants=True) == ["w/Mul"]
    assert picked(records, nodes=("w/Add",), constants=True) == ["w/one", "w/Add"]


def test_reroute_and_select_agree_on_what_a_pattern_is() -> None:
    found = graph(*g8())
    result = reroute(found, [("foo/c", "foo/d")], only="bar/[ef]$")
    assert {r.node for r in result.intent.rewired} == set(picked(g8(), regexes=("bar/[ef]$",)))


def test_bool_placeholders_and_scalars_are_nothing_special() -> None:
    assert picked([placeholder("p", BOOL, ()), scalar("s", 1)], exclude=("s",)) == ["p"]
