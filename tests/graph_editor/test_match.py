"""Patterns for nodes and their neighbours, on the graph of eight nodes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.graph_editor_running import Eight
from support.graphs import FLOAT, add, const, graph, identity, node

import gdsurgeon as gds
from gdsurgeon import graph_editor as ge
from gdsurgeon.graph_editor import TreeExpr, matcher, op_type


def test_one_matcher_under_three_names() -> None:
    assert matcher is ge.OpMatcher is ge.match.OpMatcher is gds.NodeMatcher


@pytest.mark.parametrize(
    "pattern",
    [
        lambda: matcher("^.*/f$"),
        lambda: matcher(re.compile("f$")),
        lambda: matcher(True),
        lambda: matcher(op_type("AddV2")),
        lambda: matcher("^.*/f$").input_ops("^.*/c$", "^.*/d$"),
        lambda: matcher("^.*/f$").input_ops(True, "^.*/d$"),
        lambda: matcher("^.*/f$").input_ops(None, "^.*/d$"),
        lambda: matcher("^.*/f$").input_ops(op_type(("Add", "AddV2")), op_type("Const")),
        lambda: matcher("f$").input_ops("/c$", "/d$").output_ops(matcher("/h$").control_input_ops("/c$")),
        lambda: matcher("f$").input_ops("/c$", "/d$").output_ops(
            matcher("/h$").control_input_ops("/c$").output_ops([])
        ),
        lambda: matcher("f$").output_ops(None),
        lambda: matcher("f$").output_ops([None]),
        lambda: matcher("f$").control_input_ops(),
        lambda: matcher("f$").input_ops(matcher("c$").input_ops("^a$", "b$"), None),
    ],
)  # fmt: skip
def test_what_matches(pattern: Any) -> None:
    assert pattern()(Eight()["f"])


@pytest.mark.parametrize(
    "pattern",
    [
        lambda: matcher("^f$"),
        lambda: matcher(op_type("Const")),
        lambda: matcher("f$").input_ops("/d$", "/c$"),
        lambda: matcher("f$").input_ops("/c$"),
        lambda: matcher("f$").input_ops("/c$", "/d$", None),
        lambda: matcher("f$").input_ops(),
        lambda: matcher("f$").control_input_ops(None),
        lambda: matcher("f$").output_ops(),
        lambda: matcher("f$").output_ops(None, None),
        lambda: matcher("f$").output_ops([]),
        lambda: matcher("f$").output_ops([None, None]),
        lambda: matcher("f$").output_ops(matcher("h$").control_input_ops()),
        lambda: matcher("f$").output_ops(matcher("h$").output_ops("e$")),
    ],
)
def test_what_does_not_match(pattern: Any) -> None:
    """Numbers of neighbours must be right exactly."""
    assert not pattern()(Eight()["f"])


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


def test_a_pattern_that_makes_no_sense() -> None:
    for wrong in (3, False, None):
        with pytest.raises(ValueError, match="a node is not to be matched by"):
            matcher(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="set already"):
        matcher("f").input_ops("a").input_ops("b")
    with pytest.raises(ValueError, match="set already"):
        matcher("f").control_input_ops("a").control_input_ops("b")
    with pytest.raises(ValueError, match="set already"):
        matcher("f").output_ops("a").output_ops("b")
    with pytest.raises(TypeError, match="a Node is expected, not Output"):
        matcher("f")(Eight()["f"].output)  # type: ignore[arg-type]


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


def test_the_whole_op_type_must_match() -> None:
    found = conv()
    assert TreeExpr(op="Relu").eval_from(found["relu"]) is None
    assert TreeExpr(op="Relu.?").eval_from(found["relu"]) == {}
    assert TreeExpr(op=re.compile("elu6")).eval_from(found["relu"]) is None


def test_fewer_patterns_than_inputs_speak_of_the_first_ones() -> None:
    found = conv()
    assert TreeExpr(op="Conv2D", inputs=TreeExpr(alias="x")).eval_from(found["conv"]) == {"x": found["x"]}
    both = TreeExpr(op="Conv2D", inputs=[TreeExpr(alias="x"), TreeExpr(op="Const", alias="w")])
    assert both.eval_from(found["conv"]) == {"x": found["x"], "w": found["w"]}


def test_more_patterns_than_inputs_are_no_match() -> None:
    found = conv()
    assert TreeExpr(op="Relu6", inputs=[TreeExpr(), TreeExpr()]).eval_from(found["relu"]) is None
    assert TreeExpr(inputs=TreeExpr()).eval_from(found["x"]) is None


def test_an_optional_node_may_be_missing() -> None:
    with_bias, without = conv(), conv(bias=False)
    assert tree(optional=True).eval_from(with_bias["relu"]) == {n: with_bias[n] for n in ("relu", "bias", "conv")}
    assert tree(optional=True).eval_from(without["relu"]) == {n: without[n] for n in ("relu", "conv")}
    assert tree().eval_from(without["relu"]) is None
    alone = TreeExpr(op="Relu6", inputs=TreeExpr(op="BiasAdd", alias="bias", optional=True))
    assert alone.eval_from(without["relu"]) == {}
    with pytest.raises(ValueError, match="an optional node has one input, or none"):
        TreeExpr(optional=True, inputs=[TreeExpr(), TreeExpr()])


def test_a_tree_shows_what_it_is() -> None:
    shown = repr(TreeExpr(op="Relu", inputs=TreeExpr(op="BiasAdd", alias="bias", optional=True)))
    assert shown == "TreeExpr(op='Relu', inputs=(\n    TreeExpr(alias='bias', op='BiasAdd', optional=True)))"
