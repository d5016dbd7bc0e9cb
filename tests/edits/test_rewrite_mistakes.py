"""rewrite: rules that cannot be meant: attrs that an op has not got, and variables that the shell has taken."""

from __future__ import annotations

import pytest
from support.desk import Desk
from support.expecting import refused
from support.graphs import FLOAT, const, graph, graph_bytes, node
from support.rewriting import X, stays

from gdsurgeon.cli.hints import HINTS
from gdsurgeon.edits.rewrite import listed, matches, rewrite
from gdsurgeon.patterns.check import rule_of

STRIDES = b"\x0a\x06\x1a\x04\x01\x02\x02\x01"
CONV = [X, const("w", [1.0] * 9, FLOAT, (3, 3, 1, 1)),
        node("y", "Conv2D", ["x", "w"], T=FLOAT, strides=STRIDES, padding="SAME")]  # fmt: skip
SWISH = [X, node("s", "Sigmoid", ["x"], T=FLOAT), node("y", "Mul", ["x", "s"], T=FLOAT)]
QUICK = ("--validate", "structure", "-o", "out.pb")


@pytest.mark.parametrize(
    ("rule", "column", "facts"),
    [
        ('Conv2D{paddin="SAME"}($x, $w) -> $x', 8, {"ops": ["Conv2D"], "attr": "paddin", "near": "padding"}),
        ("Conv2D|MatMul{axis=1}($x, ...) -> $x", 15, {"ops": ["Conv2D", "MatMul"], "attr": "axis"}),
        ("Neg(Conv2D{stride=1}($x, ...)) -> $x", 12, {"ops": ["Conv2D"], "attr": "stride", "near": "strides"}),
    ],
)
def test_an_attr_that_an_op_has_not_got_is_told(rule: str, column: int, facts: dict[str, object]) -> None:
    for edit in (
        lambda g: rewrite(g, rule),
        lambda g: list(matches(g, rule_of(rule))),
        lambda g: list(listed(g, [rule_of(rule)])),
    ):
        refused(graph(*CONV), "bad-rule", edit, column=column, reason="no-such-attr", **facts)


@pytest.mark.parametrize(
    "pattern",
    ["Conv2D|MatMul{transpose_a=true}($x, ...)", "Foo{bar=1}($x)", "Conv2D{_mark=1}($x, ...)", "Neg(*{a=1}(_))"],
)
def test_what_may_have_it_only_does_not_match(pattern: str) -> None:
    """Another of several ops, an op that is not known here, what any node may have."""
    stays(f"{pattern} -> {'$x' if '$x' in pattern else '1.0'}", *CONV)


def test_an_attr_of_a_later_tensorflow_is_that_of_the_file() -> None:
    found = graph(X, node("r", "Relu", ["x"], T=FLOAT, new=1), node("y", "Neg", ["r"], T=FLOAT))
    rewrite(found, "Neg(Relu{new=1}($x)) -> Abs($x)")
    assert found["y"].op == "Abs"


@pytest.mark.parametrize(
    ("rule", "exit_code"),
    [
        ("Mul(, Sigmoid()) -> Swish()", 2),
        ("Relu() -> ", 2),
        ("Conv2D(, :const) -> ", 2),
        ("Mul() -> Relu()", 4),
        ("Sigmoid() -> Relu(Relu())", 4),
        ("Sigmoid -> Minimum(Maximum(, 0), 6)", 2),
    ],
)
def test_a_rule_that_the_shell_has_read_first(desk: Desk, rule: str, exit_code: int) -> None:
    desk.put("m.pb", graph_bytes(*SWISH))
    ran = desk.refused(exit_code, "bad-rule", "rewrite", "m.pb", rule, *QUICK)
    assert HINTS["single-quotes"] in ran.err


def test_a_pattern_that_the_shell_has_read_first_is_listed_with_a_note(desk: Desk) -> None:
    desk.put("m.pb", graph_bytes(*SWISH))
    ran = desk.run("rewrite", "m.pb", "Mul()", "--list")
    assert (ran.code, ran.out) == (0, b"") and HINTS["single-quotes"] in ran.err
    assert desk.run("rewrite", "m.pb", "Neg($x)", "--list").err == ""


@pytest.mark.parametrize("rule", ["Neg($x) -> $x", "Mul($x, , ) -> $x", "Neg -> 1", "Neg(_) -> Relu"])
def test_other_mistakes_have_no_such_hint(desk: Desk, rule: str) -> None:
    desk.put("m.pb", graph_bytes(*SWISH))
    ran = desk.run("rewrite", "m.pb", rule, *QUICK)
    assert ran.code in (2, 4) and HINTS["single-quotes"] not in ran.err
