"""Patterns for nodes and their neighbours, on the graph of eight nodes."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from support.graph_editor_running import Eight, refused
from support.graphs import FLOAT, add, const, graph, identity, node

import gdsurgeon as gds
from gdsurgeon import graph_editor as ge
from gdsurgeon.graph.node import Node
from gdsurgeon.graph_editor import TreeExpr, matcher, op_type


def test_one_matcher_under_three_names() -> None:
    assert matcher is ge.OpMatcher is ge.match.OpMatcher is gds.NodeMatcher


@pytest.mark.parametrize(
    "pattern",
    [
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
    ],
)
def test_what_matches(pattern: ge.OpMatcher) -> None:
    assert pattern(Eight()["f"])


@pytest.mark.parametrize(
    "pattern",
    [
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
    ],
)
def test_what_does_not_match(pattern: ge.OpMatcher) -> None:
    """Numbers of neighbours must be right exactly."""
    assert not pattern(Eight()["f"])


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


def test_a_consumer_counts_once_and_each_output_for_itself() -> None:
    found = graph(
        const("axis", [0], shape=()), const("v", [1, 2]), node("s", "Split", ["axis", "v"], T=FLOAT, num_split=2),
        add("p", "s", "s"), identity("q", "s:1"), identity("r", "s:1"),
    )  # fmt: skip
    assert matcher("s").output_ops("p", ["r", "q"])(found["s"])
    assert not matcher("s").output_ops(["p", "p"], ["r", "q"])(found["s"])


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
    records = [const("x", [1]), const("w", [1]), node("conv", "Conv2D", ["x", "w"], T=FLOAT)]
    if bias:
        records += [const("b", [1]), node("bias", "BiasAdd", ["conv", "b"], T=FLOAT)]
    return graph(*records, node("relu", "Relu6", ["bias" if bias else "conv"], T=FLOAT))


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
