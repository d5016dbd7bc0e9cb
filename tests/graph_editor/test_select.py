"""Selections of nodes and tensors, and the matcher of graph_editor."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from support.graph_editor_running import Eight, letters, refused
from support.graphs import const, graph, identity, node, typed

import gdsurgeon as gds
from gdsurgeon import graph_editor as ge
from gdsurgeon.graph.node import Node
from gdsurgeon.graph_editor import TreeExpr, matcher, op_type


def ordered(chosen: Any) -> str:
    return "".join(sorted(letters(chosen)))


def test_filtering_nodes_by_op_type_and_by_name() -> None:
    found = Eight().graph
    assert letters(ge.filter_ops_by_optype(found, "Const")) == "abd"
    assert letters(ge.filter_ops_by_optype(found, ["Add", "AddV2"])) == "cefgh"
    assert letters(ge.filter_ops_from_regex(found, r"^.*\b[abc]$")) == "abc"


@pytest.mark.parametrize(("scope", "count"), [("foo/", 7), ("foo", 7), ("foo/bar", 4), ("foo/bar/", 4), ("fo", 0)])
def test_the_nodes_of_a_scope(scope: str, count: int) -> None:
    assert len(ge.get_name_scope_ops(Eight().graph, scope)) == count


def test_a_scope_is_taken_literally_and_its_own_node_belongs_to_it() -> None:
    found = graph(*(node(name, "NoOp") for name in ("a.b", "a.b/x", "axb/y", "a.bc")))
    for scope in ("a.b", "a.b/"):
        assert [n.name for n in ge.get_name_scope_ops(found, scope)] == ["a.b", "a.b/x"]


def test_saying_twice_that_control_edges_count_is_refused() -> None:
    found = Eight()
    table = ge.ControlOutputs(found.graph)
    assert ge.check_cios() == (False, None)
    assert ge.check_cios(control_ios=table) == (True, table)
    both = lambda: ge.get_ops_ios(found["c"], control_outputs=table, control_ios=table)  # noqa: E731
    refused(found.graph, "conflicting-options", both, options=["control_ios", "control_outputs"])
    wrong: Any = True
    refused(found.graph, "wrong-type", lambda: ge.get_ops_ios(found["c"], control_ios=wrong), expected="ControlOutputs")


def test_what_lies_within_a_boundary() -> None:
    found = Eight()
    table = ge.ControlOutputs(found.graph)
    bounds = found.nodes("ch")
    inside = ge.get_within_boundary_ops(found.graph, found["f"], bounds, inclusive=False, control_ios=table)
    assert letters(inside) == "def"
    assert letters(ge.get_within_boundary_ops(found.graph, found["h"], found.nodes("fg"))) == "fgh"
    seeds, edge = found.nodes("fg"), found["f"]
    chosen = lambda: ge.get_within_boundary_ops(found.graph, seeds, edge)  # noqa: E731
    refused(found.graph, "conflicting-options", chosen, node="foo/bar/f")


@pytest.mark.parametrize(
    ("forward", "backward", "both", "either"),
    [("c", "g", "cg", None), ("a", "f", "acf", "abcdefgh"), ("f", "g", "", "abcfgh")],
)
def test_two_walks(forward: str, backward: str, both: str, either: str | None) -> None:
    found = Eight()
    seeds = found.nodes(forward), found.nodes(backward)
    assert ordered(ge.get_walks_intersection_ops(*seeds)) == both
    if either is not None:
        assert ordered(ge.get_walks_union_ops(*seeds)) == either


def test_selecting_nodes_as_they_are() -> None:
    found = Eight()
    chosen = ge.select_ops(found["h"], found.nodes("ch"), found.ts("d"), "^a$", graph=found.graph)
    assert letters(chosen) == "hca"
    assert letters(ge.select_ops(".", graph=found.graph, positive_filter=lambda op: op.op == "Const")) == "abd"
    assert letters(ge.select_ops("a", "(?#ops)^a$", graph=found.graph, restrict_ops_regex=True)) == "a"


@pytest.mark.parametrize(
    ("patterns", "expected"), [([".*:0"], "abcdefgh"), ([r".*/bar/\w+:0"], "efgh"), (["(?#ops).", "(?#ts)^a:"], "a")]
)
def test_selecting_tensors(patterns: list[str], expected: str) -> None:
    found = Eight()
    assert ordered(ge.select_ts(*patterns, graph=found.graph)) == expected
    assert letters(ge.select_ts(found.ts("ha"), found["c"], found["a"].output)) == "ha"
    assert letters(ge.select_ts(".", graph=found.graph, positive_filter=lambda t: t.node.op == "Const")) == "abd"


@pytest.mark.parametrize(
    ("patterns", "nodes", "tensors"),
    [(["^foo/.*"], 7, 0), (["^foo/.*", "(?#ts)^foo/bar/.*"], 7, 4), (["(?#ops)^a$", "(?#ts)^a:"], 1, 1)],
)
def test_selecting_both(patterns: list[str], nodes: int, tensors: int) -> None:
    chosen = ge.select_ops_and_ts(*patterns, graph=Eight().graph)
    assert (len(chosen[0]), len(chosen[1])) == (nodes, tensors)


@pytest.mark.parametrize("choose", [ge.select_ops, ge.select_ts, ge.select_ops_and_ts, ge.make_view])
def test_a_regular_expression_needs_a_graph_and_keywords_must_be_known(choose: Any) -> None:
    found = Eight().graph
    refused(found, "missing-argument", lambda: choose("a"), value="a")
    refused(found, "bad-option", lambda: choose("a", graph=found, colour="red"), option="colour")
    refused(found, "bad-pattern", lambda: choose("(", graph=found), value="(")
    refused(found, "wrong-type", lambda: choose("a", graph=[]), expected="Graph", found="list")


def test_regular_expressions() -> None:
    regex = re.compile("foo")
    assert ge.can_be_regex("foo") and ge.can_be_regex(regex) and not ge.can_be_regex(3)
    assert ge.make_regex(regex) is regex
    assert ge.make_regex("foo").pattern == "foo"
    refused(Eight().graph, "bad-pattern", lambda: ge.make_regex(3), found="int")


def all_but(found: Eight, letter: str) -> list[Node]:
    return found.nodes("abcdefgh".replace(letter, ""))


def test_walking_forward() -> None:
    found = Eight()
    stop = found.ts("f")
    bounds: dict[str, Any] = {"within_ops": all_but(found, "g")}
    no_e: dict[str, Any] = {**bounds, "within_ops_fn": lambda op: op is not found["e"]}

    def walk(**more: Any) -> str:
        return ordered(ge.get_forward_walk_ops(found.nodes("ad"), **more))

    assert walk(inclusive=True, stop_at_ts=stop, **no_e) == "acdf"
    assert walk(inclusive=False, stop_at_ts=stop, **no_e) == "cf"
    assert walk(inclusive=False, stop_at_ts=stop, **bounds) == "cef"
    assert walk(inclusive=False, **bounds) == "cefh"
    # From a tensor: from the nodes that read it.
    assert ordered(ge.get_forward_walk_ops(found.ts("a"))) == "cefgh"
    assert ordered(ge.get_forward_walk_ops(found["a"].output, inclusive=False)) == "efh"
    assert ge.get_forward_walk_ops([]) == []


def test_walking_backward() -> None:
    found = Eight()
    stop = found.ts("f")
    bounds: dict[str, Any] = {"within_ops": all_but(found, "g")}
    no_c: dict[str, Any] = {**bounds, "within_ops_fn": lambda op: op is not found["c"]}

    def walk(**more: Any) -> str:
        return ordered(ge.get_backward_walk_ops(found.nodes("h"), **more))

    assert walk(inclusive=True, stop_at_ts=stop, **no_c) == "h"
    assert walk(inclusive=False, stop_at_ts=stop, **no_c) == ""
    assert walk(inclusive=True, **no_c) == "dfh"
    assert walk(inclusive=True, **bounds) == "abcdfh"
    assert walk(inclusive=True) == "abcdfgh"
    assert ordered(ge.get_backward_walk_ops(found.ts("c"))) == "abc"


def test_a_walk_follows_a_very_long_chain() -> None:
    length = 5000
    found = graph(const("n0", [1]), *(identity(f"n{i}", f"n{i - 1}") for i in range(1, length)))
    assert len(ge.get_forward_walk_ops(found["n0"])) == len(ge.get_backward_walk_ops(found[f"n{length - 1}"])) == length


def test_one_matcher_under_three_names() -> None:
    assert matcher is ge.OpMatcher is ge.match.OpMatcher is gds.NodeMatcher


MATCHING = [
    matcher("^.*/f$"),
    matcher(re.compile("f$")),
    matcher(True),
    matcher(op_type("AddV2")),
    matcher("^.*/f$").input_ops("^.*/c$", "^.*/d$"),
    matcher("^.*/f$").input_ops(True, "^.*/d$"),
    matcher("^.*/f$").input_ops(None, "^.*/d$"),
    matcher("^.*/f$").input_ops(op_type(("Add", "AddV2")), op_type("Const")),
    matcher("f$").input_ops("/c$", "/d$").output_ops(matcher("/h$").control_input_ops("/c$")),
    matcher("f$").input_ops("/c$", "/d$").output_ops(matcher("/h$").control_input_ops("/c$").output_ops([])),
    matcher("f$").output_ops(None),
    matcher("f$").output_ops([None]),
    matcher("f$").control_input_ops(),
    matcher("f$").input_ops(matcher("c$").input_ops("^a$", "b$"), None),
]
OTHERS = [
    matcher("^f$"),
    matcher(op_type("Const")),
    matcher("f$").input_ops("/d$", "/c$"),
    matcher("f$").input_ops("/c$"),
    matcher("f$").input_ops("/c$", "/d$", None),
    matcher("f$").input_ops(),
    matcher("f$").control_input_ops(None),
    matcher("f$").output_ops(),
    matcher("f$").output_ops(None, None),
    matcher("f$").output_ops([]),
    matcher("f$").output_ops([None, None]),
    matcher("f$").output_ops(matcher("h$").control_input_ops()),
    matcher("f$").output_ops(matcher("h$").output_ops("e$")),
]
"""Patterns for the node `f`; the numbers of neighbours must be right exactly."""


@pytest.mark.parametrize("pattern", [*MATCHING, *OTHERS])
def test_what_matches(pattern: ge.OpMatcher) -> None:
    assert pattern(Eight()["f"]) == (pattern in MATCHING)


def test_a_node_can_be_the_pattern() -> None:
    found = Eight()
    pattern = matcher("f$").input_ops(found["c"], found["d"])
    assert pattern(found["f"]) and not pattern(found["g"])
    assert matcher(found["c"])(found["c"]) and not matcher(found["c"])(found["d"])


def test_consumers_match_in_any_order_each_by_one_pattern() -> None:
    found = Eight()
    assert matcher("c$").output_ops(["g$", "f$", "e$"])(found["c"])
    assert matcher("c$").output_ops([True, "bar", "e$"])(found["c"])
    assert not matcher("c$").output_ops(["e$", "e$", "f$"])(found["c"])
    assert not matcher("c$").output_ops(["g$", "f$"])(found["c"])


def test_op_types() -> None:
    found = Eight()
    assert op_type("Const")(found["a"]) and op_type(("Add", "AddV2"), found["c"])
    assert op_type("Const", found["c"]) is False


@pytest.mark.parametrize(
    ("make", "code", "facts"),
    [
        (lambda: matcher(cast(bool, 3)), "bad-value", {"found": "int"}),
        (lambda: matcher(False), "bad-value", {"found": "bool"}),
        (lambda: matcher(cast(bool, None)), "bad-value", {"found": "NoneType"}),
        (lambda: matcher("f").input_ops("a").input_ops("b"), "given-twice", {"value": "inputs"}),
        (
            lambda: matcher("f").control_input_ops("a").control_input_ops("b"),
            "given-twice",
            {"value": "controls"},
        ),
        (lambda: matcher("f").output_ops("a").output_ops("b"), "given-twice", {"value": "outputs"}),
        (lambda: matcher("f")(cast(Node, Eight()["f"].output)), "wrong-type", {"expected": "Node", "found": "Output"}),
        (lambda: TreeExpr(optional=True, inputs=[TreeExpr(), TreeExpr()]), "wrong-count", {"found": 2}),
    ],
)
def test_a_pattern_that_makes_no_sense(make: Any, code: str, facts: dict[str, Any]) -> None:
    refused(Eight().graph, code, make, **facts)


def conv(*, bias: bool = True) -> Any:
    records = [const("x", [1]), const("w", [1]), typed("Conv2D", "conv", "x", "w")]
    if bias:
        records += [const("b", [1]), typed("BiasAdd", "bias", "conv", "b")]
    return graph(*records, typed("Relu6", "relu", "bias" if bias else "conv"))


def tree(**options: Any) -> TreeExpr:
    return TreeExpr(
        op="Relu|Relu6",
        alias="relu",
        inputs=TreeExpr(op="BiasAdd", alias="bias", inputs=TreeExpr(op="Conv2D", alias="conv"), **options),
    )


def test_a_tree_binds_its_aliases() -> None:
    found = conv()
    assert tree().eval_from(found["relu"]) == {name: found[name] for name in ("relu", "bias", "conv")}
    assert tree().eval_from(found["bias"]) is None
    assert TreeExpr().eval_from(found["relu"]) == {}


@pytest.mark.parametrize(
    ("root", "pattern", "bound"),
    [
        ("relu", TreeExpr(op="Relu"), None),
        ("relu", TreeExpr(op="Relu.?"), ""),
        ("relu", TreeExpr(op=re.compile("elu6")), None),
        ("conv", TreeExpr(op="Conv2D", inputs=TreeExpr(alias="x")), "x"),
        ("conv", TreeExpr(op="Conv2D", inputs=[TreeExpr(alias="x"), TreeExpr(op="Const", alias="w")]), "xw"),
        ("relu", TreeExpr(op="Relu6", inputs=[TreeExpr(), TreeExpr()]), None),
        ("x", TreeExpr(inputs=TreeExpr()), None),
    ],
)
def test_the_whole_op_type_must_match_and_patterns_are_for_the_first_inputs(
    root: str, pattern: TreeExpr, bound: str | None
) -> None:
    found = conv()
    expected = None if bound is None else {name: found[name] for name in bound}
    assert pattern.eval_from(found[root]) == expected


def test_an_optional_node_may_be_missing() -> None:
    with_bias, without = conv(), conv(bias=False)
    assert tree(optional=True).eval_from(with_bias["relu"]) == {n: with_bias[n] for n in ("relu", "bias", "conv")}
    assert tree(optional=True).eval_from(without["relu"]) == {n: without[n] for n in ("relu", "conv")}
    assert tree().eval_from(without["relu"]) is None
    alone = TreeExpr(op="Relu6", inputs=TreeExpr(op="BiasAdd", alias="bias", optional=True))
    assert alone.eval_from(without["relu"]) == {}


def test_a_tree_shows_what_it_is() -> None:
    shown = repr(TreeExpr(op="Relu", inputs=TreeExpr(op="BiasAdd", alias="bias", optional=True)))
    assert shown == "TreeExpr(op='Relu', inputs=(\n    TreeExpr(alias='bias', op='BiasAdd', optional=True)))"
