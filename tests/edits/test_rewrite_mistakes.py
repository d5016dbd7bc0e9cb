"""rewrite: rules that cannot be meant: attrs that an op has not got, and variables that the shell has taken."""

from __future__ import annotations

import pytest
from support.desk import Desk, check_refused
from support.graphs import FLOAT, const, graph, graph_bytes, node, placeholder

from gdsurgeon.edits.rewrite import listed, matches, rewrite
from gdsurgeon.errors import EditError
from gdsurgeon.patterns.check import rule_of

X = placeholder("x")
STRIDES = b"\x0a\x06\x1a\x04\x01\x02\x02\x01"
CONV = [X, const("w", [1.0] * 9, FLOAT, (3, 3, 1, 1)),
        node("y", "Conv2D", ["x", "w"], T=FLOAT, strides=STRIDES, padding="SAME")]  # fmt: skip
SWISH = [X, node("s", "Sigmoid", ["x"], T=FLOAT), node("y", "Mul", ["x", "s"], T=FLOAT)]
QUICK = ("--validate", "structure", "-o", "out.pb")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('Conv2D{paddin="SAME"}($x, $w) -> $x',
         "column 8: at 'paddin=\"SAME\"}($x, $...': Conv2D has no attr paddin. Did you mean 'padding'?"),
        ("Conv2D|MatMul{axis=1}($x, ...) -> $x", "column 15: at 'axis=1}($x, ...) -> ...': Conv2D and MatMul have "),
        ("Neg(Conv2D{stride=1}($x, ...)) -> $x", "column 12: at 'stride=1}($x, ...)) ...': Conv2D has no attr "),
    ],
)  # fmt: skip
def test_an_attr_that_an_op_has_not_got_is_told(rule: str, said: str) -> None:
    found = graph(*CONV)
    for refused in (
        lambda: rewrite(found, rule),
        lambda: list(matches(found, rule_of(rule))),
        lambda: list(listed(found, [rule_of(rule)])),
    ):
        with pytest.raises(EditError) as raised:
            refused()
        assert raised.value.message.startswith(said) and raised.value.code == "bad-rule"
    assert not found.is_changed


@pytest.mark.parametrize(
    "pattern",
    ["Conv2D|MatMul{transpose_a=true}($x, ...)", "Foo{bar=1}($x)", "Conv2D{_mark=1}($x, ...)", "Neg(*{a=1}(_))"],
)
def test_what_may_have_it_only_does_not_match(pattern: str) -> None:
    """Another of several ops, an op that is not known here, what any node may have."""
    with pytest.raises(EditError, match="nothing in"):
        rewrite(graph(*CONV), f"{pattern} -> {'$x' if '$x' in pattern else '1.0'}")


def test_an_attr_of_a_later_tensorflow_is_that_of_the_file() -> None:
    found = graph(X, node("r", "Relu", ["x"], T=FLOAT, new=1), node("y", "Neg", ["r"], T=FLOAT))
    rewrite(found, "Neg(Relu{new=1}($x)) -> Abs($x)")
    assert found["y"].op == "Abs"


HINT = "Hint: put the rule in single quotes: the shell replaces $x within double quotes"


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("Mul(, Sigmoid()) -> Swish()", 2),
        ("Relu() -> ", 2),
        ("Conv2D(, :const) -> ", 2),
        ("Mul() -> Relu()", 4),
        ("Sigmoid() -> Relu(Relu())", 4),
        ("Sigmoid -> Minimum(Maximum(, 0), 6)", 2),
    ],
)
def test_a_rule_that_the_shell_has_read_first(desk: Desk, rule: str, code: int) -> None:
    desk.put("m.pb", graph_bytes(*SWISH))
    ran = check_refused(desk, code, (HINT,), "rewrite", "m.pb", rule, *QUICK)
    assert "column" in ran.err or "nothing in m.pb matches" in ran.err


def test_a_pattern_that_the_shell_has_read_first_is_listed_with_a_note(desk: Desk) -> None:
    desk.put("m.pb", graph_bytes(*SWISH))
    ran = desk.run("rewrite", "m.pb", "Mul()", "--list")
    assert (ran.code, ran.out) == (0, b"") and HINT.removeprefix("Hint: ") in ran.err
    assert desk.run("rewrite", "m.pb", "Neg($x)", "--list").err == ""


@pytest.mark.parametrize("rule", ["Neg($x) -> $x", "Mul($x, , ) -> $x", "Neg -> 1", "Neg(_) -> Relu"])
def test_other_mistakes_have_no_such_hint(desk: Desk, rule: str) -> None:
    desk.put("m.pb", graph_bytes(*SWISH))
    ran = desk.run("rewrite", "m.pb", rule, *QUICK)
    assert ran.code in (2, 4) and "quotes" not in ran.err
