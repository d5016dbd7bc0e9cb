"""rewrite: replaced matches, skipped matches with reasons, and linear work."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from support import graphs
from support.desk import Desk, check_error
from support.expecting import account, refused
from support.graphs import (
    FLOAT,
    INT32,
    STRING,
    Builder,
    add,
    const,
    graph,
    graph_bytes,
    identity,
    neg,
    node,
    placeholder,
    relu,
    scalar,
    typed,
)
from support.rewriting import X, binary, done, rewritten, stays
from support.system import is_linear
from support.v1_control_flow import cond

import gdsurgeon as gds
from gdsurgeon.cli.hints import HINTS
from gdsurgeon.edits.claims import SameOutputs, SameSites
from gdsurgeon.edits.rewrite import MOST_ROUNDS, listed, matches, rewrite
from gdsurgeon.edits.rewriting.rounds import look
from gdsurgeon.errors import UsageError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.patterns.parse import rule_of
from gdsurgeon.patterns.terms import Match
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.proof.proof import DiffersError

# -- what is put in place --------------------------------------------------------------------------------------


def test_what_may_be_written_into_in_place_is_not_read_for_something_else() -> None:
    fixed = [scalar("one", 1.0), const("at", [0], INT32, (1,)), const("row", [1.0, 2.0], FLOAT, (1, 2))]
    nodes = [X, *fixed, binary("m", "Mul", "x", "one"), typed("Abs", "z", "x")]
    write = typed("InplaceAdd", "y", "i", "at", "row")
    stays("Mul($x, 1) -> $x", *nodes, identity("i", "m"), write, code="written-in-place", node="m")
    assert done("Mul($x, 1) -> $x", *nodes, typed("Neg", "i", "m"), write)["i"] == ["Neg", "x"]


def test_what_is_there_already_takes_the_place_of_what_goes() -> None:
    negs = [X, typed("Neg", "a", "x"), typed("Neg", "b", "a")]
    _, result = rewritten("Neg(Neg($x)) -> $x", *negs, typed("Abs", "c", "b"))
    assert result.intent.moved == {"b": "x"}
    assert done("Neg(Neg($x)) -> $x", *negs, typed("Abs", "c", "b")) == {"x": ["Placeholder"], "c": ["Abs", "x"]}
    assert done("Neg(Neg($x)) -> $x", *negs) == {"x": ["Placeholder"], "b": ["Identity", "x"]}, "an output has its name"
    branch = cond(neg("minus", "c/mul"), neg("alone", "minus"))
    assert done("Neg(Neg($x)) -> $x", *branch)["alone"] == ["Identity", "c/mul"], "also in a branch"
    stays("Identity($x) -> $x", X, identity("y", "x"), code="name-stays", node="y")
    split = typed("Split", "y", "axis", "x", num_split=2)
    rule = "(s=Split($axis, $x), s:1) -> ($x, $x)"
    stays(rule, X, const("axis", [0], INT32, ()), split, code="name-lost", node="y")


def test_constants_are_matched_by_value_and_have_the_dtype_of_the_match() -> None:
    double = graphs.DOUBLE
    found = graph(placeholder("x", double, (2,)), const("half", [0.5, 0.5], double),
                  typed("Mul", "y", "half", "x", kind=double))  # fmt: skip
    rewrite(found, "Mul($x, 0.5) -> RealDiv($x, 2)")
    assert found["y"].op == "RealDiv"
    assert [found["y/Const"].attr_bytes("dtype"), found["y"].attr_bytes("T")] == [double, double]
    assert "half" not in found
    stays("Mul($x, 0.5) -> $x", X, scalar("c", 0.50001), binary("y", "Mul", "x", "c"))
    done("Mul($x, 0.5) -> $x", X, scalar("c", 0.500001), binary("y", "Mul", "x", "c"))
    done("Mul($x, 0.5) -> $x", X, scalar("c", 0.5), identity("i", "c"), binary("y", "Mul", "i", "x"))
    stays("Sub($x, 0.5) -> $x", X, scalar("c", 0.5), binary("y", "Sub", "c", "x"))


def test_conditions_of_attrs_and_constants() -> None:
    conv = {"T": FLOAT, "strides": b"\x0a\x06\x1a\x04\x01\x02\x02\x01", "padding": "SAME"}
    nodes = [X, const("w", [1.0] * 9, FLOAT, (3, 3, 1, 1)), node("y", "Conv2D", ["x", "w"], **conv)]
    for test in ('padding="SAME"', "strides=[1,2,2,1]", 'data_format="NHWC"', "T=float", 'padding!="VALID"', "T=$t"):
        done(f"Conv2D{{{test}}}($x, $w:const) -> $x", *nodes)
    for test in ('padding="VALID"', "strides=[1,2,2]", "T=half", "_nothing=1", "use_cudnn_on_gpu=false"):
        stays(f"Conv2D{{{test}}}($x, $w:const) -> $x", *nodes)
    for kind in ("[3,?,1,1]", "0..1", "1..1"):
        done(f"Conv2D($x, $w:{kind}) -> $x", *nodes)
    for kind in ("[3,?,1]", "[?,2,1,1]", "0..0.5", "scalar"):
        stays(f"Conv2D($x, $w:{kind}) -> $x", *nodes)


def test_attrs_are_carried_over() -> None:
    pool = {"T": FLOAT, "ksize": b"\x0a\x06\x1a\x04\x01\x02\x02\x01", "strides": b"\x0a\x06\x1a\x04\x01\x01\x01\x01"}
    found = graph(X, node("y", "MaxPool", ["x"], padding="SAME", **pool), typed("Relu", "z", "y"))
    rewrite(found, 'Relu(p=MaxPool($x)) -> AvgPool{=p, padding="VALID", strides=p.ksize}(Relu($x))')
    assert found["z"].op == "AvgPool"
    assert found["z"].attr_bytes("ksize") == found["z"].attr_bytes("strides") == pool["ksize"]
    assert found["z"].text_attr("padding") == "VALID"
    found = graph(X, scalar("a", 0.25), binary("m", "Mul", "a", "x"), binary("y", "Maximum", "x", "m"))
    rewrite(found, "Maximum($x, Mul($a:0..1, $x)) -> LeakyRelu{alpha=$a}($x)")
    assert found["y"].plain_attr("alpha") == 0.25


def test_an_attr_without_a_name_is_removed_like_the_others() -> None:
    found, result = rewritten("Neg($x) -> Abs($x)", X, typed("Neg", "y", "x", **{"": FLOAT}))
    assert [*found["y"].attr_keys] == ["T"]
    account(found, result)


# -- what stays ------------------------------------------------------------------------------------------------

SWISH = "Mul($x, Sigmoid($x)) -> Relu($x)"
SIGMOID, MUL = typed("Sigmoid", "s", "x"), binary("y", "Mul", "x", "s")


PRODUCT = typed("MatMul", "y", "x", "x", transpose_b=True)
PARTS = [const("a", [0], INT32, ()), typed("Split", "s", "a", "x", num_split=2)]


@pytest.mark.parametrize(
    ("rule", "nodes", "code", "facts"),
    [
        (SWISH, [SIGMOID, MUL, typed("Neg", "z", "s")], "outside-uses", {"node": "s", "user": "z"}),
        (SWISH, [SIGMOID, MUL, typed("Neg", "z", "x", "^s")], "outside-uses", {"node": "s", "user": "z"}),
        (SWISH, [typed("Sigmoid", "s", "x", "^z"), MUL, typed("Neg", "z", "x")], "has-controls", {"node": "s"}),
        ("Split(_, $x) -> $x", [*PARTS, typed("Neg", "y", "s"), typed("Neg", "z", "s:1")], "no-result",
         {"tensor": "s:1", "user": "z"}),
        ("Sub(Sigmoid($a), $b) -> $b", [SIGMOID, binary("y", "Sub", "s", "s")], "still-read", {"node": "s"}),
        ("Mul($x, $y) -> Cast{DstT=int32}($x)", [binary("y", "Mul", "x", "x")], "dtype-mismatch",
         {"tensor": "y", "expected": "float32", "found": "int32"}),
        ("Neg($x) -> Mul($x, 0.5)", [placeholder("i", INT32), neg("y", "i", kind=INT32)], "bad-value",
         {"value": "0.5", "dtype": "int32"}),
        ("Neg($x) -> Rel($x)", [SIGMOID, MUL], "bad-rule", {"column": 12, "reason": "no-such-op"}),
        ("Neg($x) -> Mul($x)", [SIGMOID, MUL], "bad-rule", {"column": 12, "reason": "wrong-count", "op": "Mul"}),
        ("Neg($x) -> LeakyRelu{alfa=1}($x)", [SIGMOID, MUL], "bad-rule", {"column": 22, "reason": "no-such-attr"}),
        ("Sigmoid($x) -> LeakyRelu{alpha=[1]}($x)", [SIGMOID, MUL], "bad-rule", {"column": 26, "reason": "bad-value"}),
        ("Sigmoid($x) -> Cast($x)", [SIGMOID, MUL], "bad-rule", {"column": 16, "reason": "attr-needed"}),
        ("Sigmoyd($x) -> $x", [SIGMOID, MUL], "nothing-matched", {"missing_ops": ["Sigmoyd"], "near": "Sigmoid"}),
        ("Sigmoid|Relu($x) -> Sigmoid($x)", [SIGMOID, MUL], "nothing-to-do", {}),
        ("MatMul($x, $y) -> Identity(MatMul($x, $y))", [PRODUCT], "loses-attr", {"node": "y", "attr": "transpose_b"}),
        *((f"Mul($x, $a:const) -> {op}{{{key}=$a}}($x)", [graphs.const("a", values), typed("Mul", "y", "x", "a")],
           "bad-value", {"attr": key, "tensor": "a"})
          for op, key, values in (("Squeeze", "squeeze_dims", [1.5]), ("LeakyRelu", "alpha", [0.5, 0.25]))),
        *((f"Neg($x) -> {op}{{{key}={value}}}($x{more})", [neg("y", "x")], "bad-value", {"op": op, "attr": key})
          for op, key, value, more in (("LRN", "T", "double", ""), ("DepthToSpace", "block_size", 1, ""),
                                       ("MirrorPad", "mode", '"ROUND"', ", [[1,1]]"))),
    ],
)  # fmt: skip
def test_what_stays(rule: str, nodes: list[bytes], code: str, facts: dict[str, Any]) -> None:
    stays(rule, X, *nodes, code=code, **facts)


def test_in_a_loop_constants_wait_for_something_of_it() -> None:
    found = graph(placeholder("x", FLOAT, (2,)), *graphs.doubling_loop("loop", "x"), identity("y", "loop/done"))
    ops = {n.name: n.op for n in found.nodes()}
    inside = [name for name, op in ops.items() if op == "Sub" and name.startswith("loop/")]
    result = rewrite(found, "Sub($a, $b) -> AddV2($a, Mul($b, -1))")
    (note,) = result.notes
    check_error(note, "not-in-isolation", {"count": 1})
    assert [found[name].op for name in inside] == ["AddV2"] * len(inside)
    assert inside and all(found[f"{name}/Const"].controls for name in inside)


def test_what_only_says_when_it_runs_is_not_lost() -> None:
    bools = placeholder("p", graphs.BOOL)
    switch = typed("Switch", "s", "x", "p")
    nodes = [X, placeholder("z"), bools, switch, binary("m", "Sub", "s:1", "z"), typed("Neg", "n", "m")]
    stays("Sub($a, $b) -> Relu($b)", *nodes, code="leaves-branch", node="m")
    assert done("Sub($a, $b) -> AddV2($b, $a)", *nodes)["m"] == ["AddV2", "z", "s:1"]
    nodes = [*nodes[:4], typed("Neg", "n", "z"), binary("m", "Mul", "s:1", "n")]
    stays("Mul($a, Neg($b)) -> AddV2($a, $b)", *nodes, code="crosses-branch", nodes=["n", "m"])


# -- overlaps, rounds, limits ----------------------------------------------------------------------------------


def chain(op: str, count: int) -> list[bytes]:
    return [X, *(typed(op, f"n{i}", f"n{i - 1}" if i else "x") for i in range(count))]


def test_of_matches_that_overlap_the_first_is_replaced_and_then_it_goes_on() -> None:
    after = done("Neg(Neg($x)) -> $x", *chain("Neg", 5), typed("Abs", "end", "n4"))
    assert after == {"x": ["Placeholder"], "n4": ["Neg", "x"], "end": ["Abs", "n4"]}
    after = done("Neg(Neg($x)) -> $x", *chain("Neg", 5), typed("Abs", "end", "n4"), limit=1)
    assert list(after) == ["x", "n2", "n3", "n4", "end"]
    assert after["n2"] == ["Neg", "x"]


def test_a_rule_does_not_match_its_own_result_for_ever() -> None:
    found, result = rewritten("Relu($x) -> Relu(Relu($x))", *chain("Relu", 2))
    assert found.node_count == 5
    assert [(each["node"], each["code"]) for each in result.facts["left"]][:1] == [("n0", "own-result")]  # type: ignore[union-attr, index, call-overload]
    assert len(result.facts["left"]) == 4  # type: ignore[arg-type]
    relus = [typed("Relu", f"r{i}", f"r{i - 1}" if i else "a") for i in range(MOST_ROUNDS + 4)]
    _, result = rewritten("Relu(Neg($x)) -> Neg(Relu($x))", X, typed("Neg", "a", "x"), *relus)
    (warning,) = result.warnings
    check_error(warning, "endless", {"rule": "rule"})


def test_what_a_match_reads_is_named_for_the_proof_but_for_what_is_gone() -> None:
    edges = [X, scalar("zero", 0.0), scalar("six", 6.0)]
    clips = [binary("m", "Maximum", "x", "zero"), binary("y", "Minimum", "m", "six")]
    _, result = rewritten("Minimum(Maximum($x, 0), 6) -> Relu6($x)", *edges, *clips)
    outputs, sites = result.claims
    assert isinstance(outputs, SameOutputs) and outputs.also == ("y",)
    assert isinstance(sites, SameSites) and [site.inputs for site in sites.sites] == [("x",)]
    _, result = rewritten("Neg(Neg($x)) -> $x", *chain("Neg", 4), typed("Neg", "e", "n3"), typed("Abs", "end", "e"))
    found = [(s.inputs, s.outputs) for claim in result.claims if isinstance(claim, SameSites) for s in claim.sites]
    assert found == [(("x",), (("n1", "x"),)), (("n1",), (("n3", "x"),))]


def test_what_the_numbers_of_the_proof_do_not_reach_is_told() -> None:
    rule = "Minimum($x, $c:const) -> Neg(Maximum(Neg($x), Neg($c)))"
    assert rewritten(rule, X, scalar("c", 6.0), binary("y", "Minimum", "x", "c"))[1].notes == []
    (note,) = rewritten(rule, X, scalar("c", 100.0), binary("y", "Minimum", "x", "c"))[1].notes
    check_error(note, "clips-beyond", {"tensor": "y", "value": 100.0})


def test_a_function_says_what_takes_the_place() -> None:
    def of(match: Match) -> str | None:
        value = match.value("c")
        return f"Mul($x, {value.values[0] * 2})" if value is not None and value.values[0] < 2 else None

    nodes = [X, scalar("c", 1.5), scalar("d", 3.0), binary("y", "RealDiv", "x", "c"), binary("z", "RealDiv", "y", "d")]
    found, result = rewritten("RealDiv($x, $c:const)", *nodes, replacement=of)
    assert (found["y"].op, found["z"].op) == ("Mul", "RealDiv")
    assert [(each["node"], each["code"]) for each in result.facts["left"]] == [("z", "rule-leaves")]  # type: ignore[union-attr, index, call-overload]


# -- work ------------------------------------------------------------------------------------------------------


def tried(rule: str, *nodes: bytes) -> int:
    found = look(graph(*nodes), rule_of(rule), ())
    assert found.planned
    return found.tried


@pytest.mark.parametrize("rule", ["(Mul($x, $a), Mul($x, $b)) -> (AddV2($x, $a), AddV2($x, $b))",
                                  "(Mul($x, $a), Sub($x, $b)) -> (AddV2($x, $a), AddV2($x, $b))",
                                  "Mul(s=Sigmoid($x), $a) -> AddV2(s, $a)"])  # fmt: skip
def test_many_readers_of_one_tensor_are_looked_at_once_each(rule: str) -> None:
    def hub(count: int) -> list[bytes]:
        nodes = [X, typed("Sigmoid", "h", "x")]
        for i in range(count):
            nodes += [placeholder(f"p{i}"), binary(f"m{i}", "Mul", "h", f"p{i}"), binary(f"s{i}", "Sub", "h", f"p{i}")]
        return nodes

    few, many = tried(rule, *hub(50)), tried(rule, *hub(400))
    assert many <= 8.5 * few


def test_a_match_whose_attrs_are_kept_is_replaced() -> None:
    """A new node has the defaults of its op, unless the rule says otherwise."""
    for rule in ("m=MatMul($x, $y) -> Identity(m($x, $y))", "m=MatMul($x, $y) -> Identity(MatMul{=m}($x, $y))",
                 "MatMul{transpose_b=true}($x, $y) -> Identity(MatMul($x, $y))"):  # fmt: skip
        assert done(rule, X, PRODUCT)["y"][0] == "Identity"


def test_a_chain_is_bypassed_in_linear_time() -> None:
    def work(count: int) -> Callable[[], object]:
        found = graph(*chain("Identity", count), typed("Neg", "y", f"n{count - 1}"))
        return lambda: rewrite(found, "Identity($x) -> $x")

    assert is_linear(work, 50, 400)


@pytest.mark.tensorflow
def test_tensors_that_become_one_are_given_the_same_numbers() -> None:
    found = graph(placeholder("x", shape=(2,)), *chain("Identity", 20)[1:], typed("Neg", "y", "n19"))
    proof = gds.prove(found.pristine(), found, rewrite(found, "Identity($x) -> $x"))
    assert proof.largest_difference == 0 and len(proof.compared) == 21


def test_a_second_result_is_looked_for_among_those_that_share_a_name() -> None:
    def pairs(count: int) -> list[bytes]:
        products = [node for i in range(count) for node in (placeholder(f"p{i}"), binary(f"m{i}", "Mul", f"p{i}", "z"))]
        return [placeholder("z"), *products, *(binary(f"s{i}", "Sub", f"p{i}", "z") for i in reversed(range(count)))]

    rule = "(Mul($x, $a), Sub($x, $b)) -> (AddV2($x, $a), AddV2($x, $b))"
    assert tried(rule, *pairs(400)) <= 8.5 * tried(rule, *pairs(50))


def test_a_second_result_may_read_a_node_of_the_first() -> None:
    rule = "(Mul($x, s=Sigmoid($x)), Neg(s)) -> (Relu($x), Abs(Tanh($x)))"
    nodes = [X, SIGMOID, MUL, typed("Neg", "n", "s"), typed("Sigmoid", "t", "x"), typed("Neg", "m", "t")]
    found = done(rule, *nodes)
    assert (found["y"], found["n"], found["m"]) == (["Relu", "x"], ["Abs", "y/Tanh"], ["Neg", "t"])


# -- the command -----------------------------------------------------------------------------------------------

QUICK = ("--validate", "structure", "-o", "after.pb")


def test_the_list(desk: Desk) -> None:
    more = [typed("Sigmoid", "t", "y"), binary("z", "Mul", "t", "y"), typed("Neg", "u", "t")]
    desk.put("m.pb", graph_bytes(X, SIGMOID, MUL, *more))
    ran = desk.done("rewrite", "m.pb", "Mul($x, n=Sigmoid($x)) -> Relu($x)", "--list")
    matched, left = ran.out.decode().splitlines()
    assert matched == "y  $x=x  n=s" and left.startswith("z  left: 't'") and "'u'" in left
    ran = desk.run("rewrite", "m.pb", "Sigmoid($x)", "--list", "--json")
    assert json.loads(ran.out)[0] == {"rule": "rule", "nodes": ["s"], "bindings": {"$x": "x"}, "left": None}
    assert not (desk.folder / "m.edited.pb").exists()


def test_rules_of_files_and_what_is_wrong_with_them(desk: Desk) -> None:
    desk.put("m.pb", graph_bytes(X, SIGMOID, MUL))
    desk.put("my.rules", b"# two\nswish: Mul($x, Sigmoid($x)) -> Relu($x)\n")
    desk.done("rewrite", "m.pb", "--rules", "my.rules", "--report", "report.json", *QUICK)
    assert [each["rule"] for each in json.loads(desk.files()["report.json"])["edit"]["replaced"]] == ["swish"]
    desk.put("bad.rules", b"swish: Mul($x, Sigmoid($x)) ->\n")
    swish = swish_body().source
    desk.put("swish.pb", swish.read(0, swish.size))
    ran = desk.refused(2, "bad-rule", "rewrite", "m.pb", "--rules", "bad.rules", *QUICK, column=31)
    assert "bad.rules:1:31" in ran.err
    for code, *arguments in (
        ["no-such-rule", "--rules", "builtin:none"],
        ["missing-option", "--json", "Neg($x) -> $x"],
        ["missing-argument"],
        ["conflicting-options", "Neg($x) -> $x", "--rules", "my.rules"],
        ["conflicting-options", "Mul($x, Sigmoid($x)) -> $x", "--with", "swish.pb"],
        ["conflicting-options", "Neg($x)", "--list"],
    ):
        desk.refused(2, code, "rewrite", "m.pb", *arguments, *QUICK)


def test_a_rule_in_the_body_of_a_function(desk: Desk) -> None:
    body = graphs.function("F", neg("y", "x"))
    call = node("c", "PartitionedCall", ["x"], f=graphs.func("F"), Tin=graphs.dtypes(FLOAT), Tout=graphs.dtypes(FLOAT))
    desk.put("m.pb", graph_bytes(X, call, trailer=graphs.library(body)))
    desk.done("rewrite", "m.pb", "--in", "F", "Neg($x) -> Sub(0, $x)", *QUICK)
    ops = {n.op for n in gds.Body(gds.load(str(desk.folder / "after.pb")), "F").graph.nodes()}
    assert {"Sub", "Const"} <= ops
    assert desk.run("rewrite", "m.pb", "--in", "F", "Neg($x)", "--list").out.decode() == "F/y  $x=x\n"


@pytest.mark.tensorflow
def test_a_wrong_rule_fails_with_the_name_of_its_site() -> None:
    m = Builder(
        placeholder("x", "float32", (1, 4)), const("two", 2.0), typed("Mul", "double", "x", "two"),
        typed("Softmax", "hidden", "double"), const("zero", 0.0), typed("Mul", "y", "hidden", "zero"),
    )  # fmt: skip
    found = m.graph("model.pb")
    result = rewrite(found, "Mul($x, 2) -> $x")
    with pytest.raises(DiffersError) as raised:
        gds.prove(found.pristine(), found, result)
    assert any(line.startswith("double (now x): ") for line in raised.value.details)


def test_a_rule_that_is_none_is_a_mistake_of_the_caller() -> None:
    refused(graph(X), "bad-rule", lambda g: rewrite(g, "Neg("), error=UsageError, column=5)
    refused(graph(X), "conflicting-options", lambda g: rewrite(g, [rule_of("Neg($x) -> $x")], "$x"))


def swish_body() -> Graph:
    return graph(placeholder("x"), typed("Sigmoid", "s", "x"), binary("y", "Mul", "x", "s"), name="swish.pb")


def test_graphs_that_do_not_fit_a_pattern() -> None:
    other = Builder(node("x", "Placeholder", dtype="float64"), node("y", "Neg", ["x"], T="float64"))
    mismatch = {"op": "PartitionedCall", "expected": "float64", "found": "float32"}
    left = [{"rule": "rule", "node": "y", "code": "dtype-mismatch", "facts": mismatch}]
    for rule, body, code, facts in (
        ("Mul($x, Sigmoid($z))", Builder().graph(), "wrong-count", {"expected": 1, "found": 0}),
        ("Mul($z, Sigmoid($z))", swish_body(), "unbound-input", {"node": "x"}),
        ("(Sigmoid($x), Mul($x, _))", swish_body(), "wrong-count", {"expected": 2, "found": 1}),
        ("Mul($x, Sigmoid($x))", other.graph(), "nothing-replaced", {}),
    ):
        edit = partial(rewrite, pattern=rule, replacement=body)
        error = refused(graph(X, SIGMOID, MUL), code, edit, **facts)
    assert [{key: each[key] for key in left[0]} for each in error.facts["left"]] == left


@pytest.mark.tensorflow
def test_of_many_differences_the_first_are_told() -> None:
    names = [f"n{i}" for i in range(30)]
    found = graph(X, *(typed("Exp", name, before) for before, name in zip(["x", *names], names, strict=False)))
    result = rewrite(found, "Exp($x) -> Tanh($x)")
    with pytest.raises(DiffersError) as raised:
        gds.prove(found.pristine(), found, result)
    assert len(raised.value.details) == 21
    assert raised.value.details[0].startswith("n29: ") and "10" in raised.value.details[-1]


STRIDES = b"\x0a\x06\x1a\x04\x01\x02\x02\x01"
CONV = [X, const("w", [1.0] * 9, FLOAT, (3, 3, 1, 1)),
        typed("Conv2D", "y", "x", "w", strides=STRIDES, padding="SAME")]  # fmt: skip


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
    found = graph(X, relu("r", "x", new=1), neg("y", "r"))
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
    desk.put("m.pb", graph_bytes(X, SIGMOID, MUL))
    ran = desk.refused(exit_code, "bad-rule", "rewrite", "m.pb", rule, *QUICK)
    assert HINTS["single-quotes"] in ran.err


def test_a_pattern_that_the_shell_has_read_first_is_listed_with_a_note(desk: Desk) -> None:
    desk.put("m.pb", graph_bytes(X, SIGMOID, MUL))
    ran = desk.run("rewrite", "m.pb", "Mul()", "--list")
    assert (ran.code, ran.out) == (0, b"") and HINTS["single-quotes"] in ran.err
    assert desk.run("rewrite", "m.pb", "Neg($x)", "--list").err == ""


@pytest.mark.parametrize("rule", ["Neg($x) -> $x", "Mul($x, , ) -> $x", "Neg -> 1", "Neg(_) -> Relu"])
def test_other_mistakes_have_no_such_hint(desk: Desk, rule: str) -> None:
    desk.put("m.pb", graph_bytes(X, SIGMOID, MUL))
    ran = desk.run("rewrite", "m.pb", rule, *QUICK)
    assert ran.code in (2, 4) and HINTS["single-quotes"] not in ran.err


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("n=AddN(...) -> AddN{=n}(n.1*)", ["b", "c"]),
        ("n=AddN(...) -> AddN{=n}(n.*)", None),
        ("n=AddN(...) -> Mul(n.2, n.0)", ["c", "a"]),
        ("n=AddN(...) -> AddN(n.1*, n.0, n.0)", ["b", "c", "a", "a"]),
    ],
)
def test_a_replacement_reads_inputs_of_a_node_by_index(text: str, reads: list[str] | None) -> None:
    inputs = [placeholder(name) for name in "abc"]
    found = graph(*inputs, typed("AddN", "y", *"abc", N=3))
    if reads is None:
        refused(found, "nothing-to-do", lambda g: rewrite(g, text))
        return
    check_accounted(found, rewrite(found, text), found.chunks())
    assert graphs.inputs(found)["y"] == reads


def test_an_input_that_does_not_exist_is_refused() -> None:
    found = graph(*(placeholder(name) for name in "abc"), typed("AddN", "y", *"abc", N=3))
    refused(found, "bad-rule", lambda g: rewrite(g, "n=AddN(...) -> Neg(n.3)"))
    for text in ("n=AddN($a, $b, $c) -> Neg(m.0)", "AddN(n.0) -> Neg(n.0)"):
        with pytest.raises(UsageError):
            rewrite(found, text)


def whole(value: int) -> list[bytes]:
    return [placeholder("x", INT32), scalar("c", value, INT32), add("y", "x", "c", kind=INT32)]


def test_whole_numbers_are_just_these() -> None:
    assert done("AddV2($x, 100001) -> $x", *whole(100001))["y"] == ["Identity", "x"]
    stays("AddV2($x, 100001) -> $x", *whole(100000))
    hashed = [placeholder("x", STRING), node("y", "StringToHashBucketFast", ["x"], num_buckets=1000005)]
    rule = "StringToHashBucketFast{num_buckets=%d}($x) -> StringToHashBucket{num_buckets=7}($x)"
    stays(rule % 1000000, *hashed)
    assert done(rule % 1000005, *hashed)["y"] == ["StringToHashBucket", "x"]


def test_texts_are_joined_in_their_order() -> None:
    text = node("c", "Const", dtype=STRING, value=graphs.encode_len(8, b"\x08\x07\x12\x00\x42\x01v"))
    nodes = [placeholder("x", STRING), text, identity("i", "x", kind=STRING), typed("Add", "y", "i", "c", kind=STRING)]
    stays("Add($c:const, Identity($x)) -> Add($c, $x)", *nodes)
    assert done("Add(Identity($x), $c:const) -> Add($x, $c)", *nodes)["y"] == ["Add", "x", "c"]


HUGE = "1" + "0" * 400


def test_numbers_that_no_type_holds() -> None:
    sums = [X, scalar("c", 2.0), typed("Mul", "y", "x", "c")]
    leaks = [X, typed("LeakyRelu", "y", "x", alpha=0.5)]
    for number in (HUGE, "inf", "-inf", "1e999"):
        stays(f"Mul($x, {number}) -> $x", *sums)
    stays(f"LeakyRelu{{alpha={HUGE}}}($x) -> $x", *leaks)
    facts = {"column": 28, "reason": "bad-value", "attr": "alpha", "expected": "float"}
    stays("LeakyRelu($x) -> LeakyRelu{alpha=1e39}($x)", *leaks, code="bad-rule", **facts)


def test_a_search_that_finds_no_end_is_given_up(monkeypatch: Any) -> None:
    monkeypatch.setattr("gdsurgeon.edits.rewriting.matching.MOST_TRIED", 10_000)
    sums, last = [X, placeholder("z")], ("x", "z")
    for i in range(40):
        sums.append(add(f"n{i}", last[1], last[0]))
        last = (last[1], f"n{i}")
    pattern = "$x"
    for i in range(30):
        pattern = f"AddV2({pattern}, $v{i})"
    rule = f"Relu(AddV2({pattern}, $x)) -> $x"
    found = graph(*sums, relu("y", "n39"))
    refused(found, "too-many-ways", lambda g: rewrite(g, rule))


def test_a_constant_becomes_an_attr() -> None:
    nodes = [X, graphs.const("a", [1.0, 2.0]), typed("Mul", "y", "x", "a")]
    assert done("Mul($x, $a:const) -> Squeeze{squeeze_dims=$a}($x)", *nodes)["y"] == ["Squeeze", "x"]


SPLIT = [scalar("axis", 0, INT32), typed("Split", "s", "axis", "x", num_split=2)]


def test_outputs_and_bindings_are_told_apart() -> None:
    rule = "Sub(s=Split(_, $x), s:1) -> Neg($x)"
    assert done(rule, X, *SPLIT, typed("Sub", "y", "s", "s:1"))["y"] == ["Neg", "x"]
    stays(rule, X, *SPLIT, typed("Sub", "y", "s", "s"))
    leaks = [X, neg("n", "x"), typed("LeakyRelu", "a", "x", alpha=0.25),
             typed("LeakyRelu", "b", "n", alpha=0.5)]  # fmt: skip
    either = "AddV2(LeakyRelu{alpha=$a}(Neg($x)), LeakyRelu{alpha=$b}($x)) -> LeakyRelu{alpha=$a}($x)"
    found = graph(*leaks, add("y", "a", "b"))
    rewrite(found, either)
    assert found["y"].plain_attr("alpha") == 0.5
    both = "(LeakyRelu{alpha=$a}($x), LeakyRelu{alpha=$a}(Neg($x))) -> (Elu($x), Elu($x))"
    stays(both, *leaks, add("y", "a", "b"))


def test_a_graph_with_several_inputs_and_results() -> None:
    parts = [typed(op, name, "a", "b") for name, op in (("difference", "Sub"), ("product", "Mul"))]
    part = graph(placeholder("b"), placeholder("a"), *parts)
    both = [typed(op, name, "x", "z") for name, op in (("s", "AddV2"), ("q", "RealDiv"))]
    found = graph(X, placeholder("z"), *both)
    account(found, rewrite(found, "(RealDiv($a, $b), AddV2($a, $b))", part))
    assert found["q"].op == "PartitionedCall"
    assert [read.name for read in found["q"].inputs] == ["z", "x"]
