"""The language of rules: parsed rules, and the columns of errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdsurgeon.errors import InputError, UsageError
from gdsurgeon.patterns.catalog import BOOK, in_book, rules_in, rules_in_text
from gdsurgeon.patterns.parse import rule_of
from gdsurgeon.patterns.terms import AttrOf, AttrVariable, DTypeName, Op, Ref, Value, Variable


def test_all_that_there_is() -> None:
    rule = rule_of(
        '(m=Mul|AddV2{T=float, N>=2, p!="SAME", s=[1,-2], k=$k}($x, Relu?($c:scalar), 0.5, ...):1, m:0) -> '
        "(Sub{T=m.T, k=$k, axis=$c}($x, [[1,2],[3,4]]), n=m{=m}($x))"
    )
    first, second = rule.pattern
    assert isinstance(first, Op)
    assert (first.ops, first.label, first.port, first.rest) == (("Mul", "AddV2"), "m", 1, True)
    assert [(test.key, test.relation) for test in first.attrs] == [
        ("T", "="),
        ("N", ">="),
        ("p", "!="),
        ("s", "="),
        ("k", "="),
    ]
    assert first.attrs[0].value == DTypeName(1)
    assert first.attrs[3].value == [1, -2]
    assert first.attrs[4].value == AttrVariable("k")
    assert first.inputs is not None
    x, relu, half = first.inputs
    assert isinstance(x, Variable) and not x.kind
    assert isinstance(relu, Op) and relu.optional
    assert isinstance(half, Value) and half.values == (0.5,) and half.shape == ()
    assert isinstance(second, Ref) and (second.label, second.port) == ("m", 0)
    assert rule.replacement is not None
    sub, same = rule.replacement
    assert isinstance(sub, Op) and sub.attrs[0].value == AttrOf("m", "T")
    assert sub.inputs is not None and isinstance(sub.inputs[1], Value)
    assert sub.inputs[1].shape == (2, 2)
    assert isinstance(same, Op) and (same.same, same.like, same.label) == ("m", "m", "n")


def test_kinds_of_variables() -> None:
    rule = rule_of("Foo($a:const, $b:-1..0.5, $c:[?,3], $d:[], -inf, true, [], *(_))", only_pattern=True)
    first = rule.pattern[0]
    assert isinstance(first, Op) and first.inputs is not None
    a, b, c, d, low, true, empty, any_op = first.inputs
    assert isinstance(a, Variable) and a.kind == "const"
    assert isinstance(b, Variable) and b.bounds == (-1, 0.5)
    assert isinstance(c, Variable) and c.dims == (-1, 3)
    assert isinstance(d, Variable) and d.dims == ()
    assert isinstance(low, Value) and low.values == (float("-inf"),)
    assert isinstance(true, Value) and true.values == (True,)
    assert isinstance(empty, Value) and (empty.shape, empty.values) == ((0,), ())
    assert isinstance(any_op, Op) and any_op.ops == ()


WRONG = [
    ("", 1, "an op is missing"),
    ("Relu($x", 8, "',' or ')' is missing"),
    ("Relu($x)", 9, "'->' must separate"),
    ("Relu($x) -> $x extra", 16, "should end here"),
    ("Relu($x) -> $y", 13, "does not bind '$y'"),
    ("Relu($x:cons) -> $x", 9, "Did you mean 'const'?"),
    ("Relu($x:3..1) -> $x", 9, "LOW..HIGH"),
    ("Relu(:) -> $x", 6, "a term must be an op"),
    ("Relu($x):y -> $x", 10, "index of an output"),
    ("Relu{T=flot}($x) -> $x", 8, "'flot' is not a dtype; texts need double quotes. Did you mean 'float'?"),
    ('Relu{a="b}($x) -> $x', 8, "is not terminated"),
    ("Relu{=n}($x) -> $x", 1, "allowed only in replacements"),
    ("Relu{a=n.T}($x) -> $x", 6, "allowed only in replacements"),
    ("Relu($x) -> Relu{a>1}($x)", 18, "set an attr with ="),
    ("Relu($x) -> _", 13, "'_' is allowed only in patterns"),
    ("Relu($x) -> Neg?($x)", 13, "allowed only in patterns"),
    ("Relu($x) -> Neg|Abs($x)", 13, "one op"),
    ("Relu($x) -> $x:const", 13, "allowed only in the pattern"),
    ("Relu?($x) -> $x", 1, "an existing node"),
    ("*($x) -> $x", 1, "name at least one op"),
    ("Neg(Relu?) -> $x", 5, "have an input"),
    ("(Relu($x), Neg($y)) -> ($x, $y)", 12, "in common"),
    ("(n=Relu($x), n:1) -> $x", 22, "has 2 results, but the replacement has 1"),
    ("(n=Relu($x), n) -> ($x, $x)", 14, "listed twice"),
    ("Add(n=Relu($x), n=Neg($x)) -> $x", 17, "already names a node"),
    ("n=Relu($x) -> Neg(n)", 19, "is a result"),
    ("Neg(n=Relu?($x)) -> n($x)", 21, "may be missing"),
    ("Neg(BiasAdd?($x, $b)) -> Sub($x, $b)", 34, "in every match"),
    ("Merge($x, $y) -> $x", 1, "part of loops"),
    ("Neg(Placeholder) -> 1", 5, "is an input"),
    ("Relu([1,[2]]) -> 1", 6, "ragged"),
    ("N=Relu($x) -> $x", 1, "lower-case letter"),
    ("Relu(" * 70 + "$x" + ")" * 70 + " -> $x", 306, "nested at most"),
]  # fmt: skip


def test_numbers_and_truths() -> None:
    first = rule_of("Foo($x, true, false, 1.5e-3, -2E+2, .5, [true, false])", only_pattern=True).pattern[0]
    assert isinstance(first, Op) and first.inputs is not None
    found = [term.values for term in first.inputs if isinstance(term, Value)]
    assert found == [(True,), (False,), (0.0015,), (-200.0,), (0.5,), (True, False)]


def test_numbers_of_any_length() -> None:
    (_, long, floating) = rule_of(f"Foo($x, {'9' * 5000}, 1{'0' * 30})", only_pattern=True).pattern[0].inputs  # type: ignore
    assert (long.values, floating.values) == ((float("inf"),), (1e30,))
    with pytest.raises(UsageError, match="column 9"):
        rule_of("Mul($x, \u0661) -> $x")  # a digit elsewhere


@pytest.mark.parametrize(("text", "column", "what"), WRONG, ids=[text[:40] for text, *_ in WRONG])
def test_what_is_wrong_is_told_with_its_column(text: str, column: int, what: str) -> None:
    with pytest.raises(UsageError) as raised:
        rule_of(text)
    assert raised.value.message.startswith(f"column {column}: ")
    assert what in raised.value.message


def test_a_file_has_a_rule_a_line() -> None:
    lines = ["# mine", "", "swish: Mul($x, Sigmoid($x)) -> Swish($x)  # as they say", 'Op{a="#"}($x) -> $x']
    named, plain = rules_in_text(lines, "my.rules")
    assert (named.name, plain.name) == ("swish", "rule 4")
    with pytest.raises(UsageError, match=r"^my.rules:3:16: at '\$y': the pattern does not bind '\$y'"):
        rules_in_text(["", "", "a: Relu($x) -> $y"], "my.rules")
    with pytest.raises(UsageError, match=r"^my.rules:2:1: a rule 'a' exists already"):
        rules_in_text(["a: Relu($x) -> $x", "a: Neg($x) -> $x"], "my.rules")
    with pytest.raises(UsageError, match="has no rule"):
        rules_in_text(["# nothing"], "my.rules")


def test_lines_end_where_editors_say_so(tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_bytes("# one\u2028line\r\nRelu($x) -> $x # and\x0bmore\rNeg($x) -> $x\n".encode())
    assert [rule.name for rule in rules_in(str(tmp_path / "my.rules"))] == ["rule 2", "rule 3"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        rules_in(str(tmp_path / "none"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not text"):
        rules_in(str(tmp_path / "bytes"))


def test_the_book_is_of_whole_rules() -> None:
    for name in BOOK:
        for rule in in_book(name):
            assert (rule.replacement is None) == (rule.make is not None), rule.name
    with pytest.raises(UsageError, match="Did you mean 'swish'"):
        in_book("swich")
