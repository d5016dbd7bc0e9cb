"""compat: loops, conditionals and calls of version 2 in version 1, at several trip counts and on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support import graphs
from support.desk import check_error
from support.expecting import sound
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    add,
    call,
    const,
    define,
    dtypes,
    func,
    graph,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
)
from support.older import check_reason, older, same
from support.paths import FIXTURES
from support.running import outcome

from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.compat import compat
from gdsurgeon.edits.downgrade import control_flow
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.operation.library import prove
from gdsurgeon.ops.kinds import CONTROL_FLOW
from gdsurgeon.proof.accounting import check_accounted

STATE = [INT32, INT32, FLOAT]
LESS = define("less", {"i": INT32, "n": INT32, "v": FLOAT}, {"go": (BOOL, "l:z:0")},
                node("l", "Less", ["i", "n"], T=INT32))  # fmt: skip
STEP = define(
    "step", {"i": INT32, "n": INT32, "v": FLOAT}, {"a": (INT32, "j:z:0"), "b": (INT32, "n"), "c": (FLOAT, "w:z:0")},
    scalar("one", 1, INT32), add("j", "i", "one:output:0", kind=INT32), const("k", [1.5, -0.75]),
    add("s", "v", "k:output:0"), node("w", "Mul", ["s:z:0", "v"], T=FLOAT),
)  # fmt: skip
START = [placeholder("n", INT32, ()), placeholder("x", FLOAT, (2,)), scalar("zero", 0, INT32)]
TIMES = [{"n": n, "x": [0.5, -1.25]} for n in (0, 1, 5)]
SIDES = [{"p": p, "x": [0.5, -1.25]} for p in (True, False)]


def loop(body: str = "step", inputs: Sequence[str] = ("zero", "n", "x"), name: str = "while", **attrs: Any) -> bytes:
    wanted = {"cond": func("less"), "body": func(body), "T": dtypes(*STATE), "parallel_iterations": 3, **attrs}
    return node(name, "StatelessWhile", inputs, **wanted)


def choice(then: str, other: str, inputs: Sequence[str] = ("p", "x"), name: str = "if", kinds: Any = (FLOAT,)) -> bytes:
    return node(name, "If", inputs, Tcond=BOOL, Tin=dtypes(*[FLOAT] * (len(inputs) - 1)), Tout=dtypes(*kinds),
                then_branch=func(then), else_branch=func(other))  # fmt: skip


def lowered(records: Sequence[bytes], *fetches: str, feeds: Sequence[dict[str, Any]]) -> Graph:
    """The graph for 1.4; it must give what it gave, and hold no function."""
    found = same(records, "1.4", *fetches, feeds=feeds)
    assert not graphs.parsed(found).library.function and CONTROL_FLOW & set(graphs.ops(found).values())
    return found


@pytest.mark.tensorflow
def test_a_loop() -> None:
    """Its results are read by others, and fetched themselves under the name of the loop; nothing may run early."""
    out = [identity("y", "while:2"), identity("i", "while", kind=INT32), identity("late", "x", "^while")]
    found = lowered([*START, loop(), *out, library(LESS, STEP)], "y", "i", "late", "while:2", feeds=TIMES)
    assert graphs.ops(found)["while"] == "IdentityN"
    enters = [n for n in graphs.parsed(found).node if n.op == "Enter"]
    assert {(n.attr["frame_name"].s, n.attr["parallel_iterations"].i) for n in enters} == {(b"while", 3)}


@pytest.mark.tensorflow
def test_a_loop_that_waits_and_is_an_output() -> None:
    held = loop(inputs=("zero", "n", "x", "^x"))
    found = lowered([*START, held, library(LESS, STEP)], "while:2", "while", feeds=TIMES)
    assert "^x" in graphs.inputs(found)["while/Enter"] and "^x" in graphs.inputs(found)["while"]


NEGATED = define("negated", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "a"))
PASSED = define("passed", {"a": FLOAT}, {"o": (FLOAT, "a")})
CONSTANT = define("constant", {"a": FLOAT}, {"o": (FLOAT, "k:output:0")}, const("k", [7, 8]))
NONE = define("none", {}, {"o": (FLOAT, "k:output:0")}, const("k", [7, 8]))
OTHER = define("other", {}, {"o": (FLOAT, "k:output:0")}, const("k", [9, 8]))
GIVEN = [placeholder("p", BOOL, ()), placeholder("x", FLOAT, (2,))]


@pytest.mark.tensorflow
def test_a_conditional() -> None:
    """Branches that compute, pass on, and are constant; of no inputs; read by those who wait alone."""
    out = [choice("negated", "passed"), choice("constant", "negated", name="if2")]
    out += [choice("none", "other", ("p",), "if3"), choice("negated", "constant", ("p", "if"), "if4")]
    out += [identity("y", "x", "^if2")]
    records = [*GIVEN, *out, library(NEGATED, PASSED, CONSTANT, NONE, OTHER)]
    found = lowered(records, "if", "if2", "if3", "if4", "y", feeds=SIDES)
    assert graphs.ops(found)["if"] == "Identity"


@pytest.mark.tensorflow
def test_a_graph_of_tensorflow_2_at_every_count_and_on_both_sides() -> None:
    """A loop with a call of a call in it and a captured weight, a conditional, a call; no round, one, three, five."""
    before = (FIXTURES / "functions_tf2.pb").read_bytes()
    found = from_bytes(before)
    result = compat(found, "1.4")
    check_accounted(found, result, found.chunks())
    assert not graphs.parsed(found).library.function and sound(found)
    sides = set()
    for begin in (3, 2, 0, -2):  # it goes on while that is less than 3
        for sign in (1, -1):
            fed = {"x": [[0.5 * sign, -0.25, 0.75 * sign, 1.0 * sign], [0.1, 0.2 * sign, -0.1, 0.3 * sign]]}
            wanted = outcome(before, "y", "while:2", "Greater", Const=begin, **fed)
            assert (
                not isinstance(wanted, str) and outcome(found, "y", "while:2", "Greater", Const=begin, **fed) == wanted
            )
            assert wanted[1] == max(begin, 3)
            sides.add(wanted[2])
    assert sides == {True, False}


CASES = [{"k": k, "x": [0.5, -1.25]} for k in (0, 1, 2, 3, -1)]
GIVEN_CASE = [placeholder("k", INT32, ()), placeholder("x", FLOAT, (2,))]


def case(*names: str, inputs: Sequence[str] = ("k", "x"), name: str = "case", op: str = "Case") -> bytes:
    """A Case of functions that take floats and give one."""
    return node(name, op, inputs, Tin=dtypes(*[FLOAT] * (len(inputs) - 1)), Tout=dtypes(FLOAT),
                branches=[func(each) for each in names], output_shapes=[])  # fmt: skip


@pytest.mark.tensorflow
def test_a_case() -> None:
    """Three branches with zero, two and one inputs; an invalid index selects the last; control edges are kept."""
    out = [case("negated", "passed", "constant"), case("none", "other", inputs=("k",), name="c2", op="StatelessCase")]
    out += [case("negated", name="c1"), case("constant", "negated", inputs=("k", "case"), name="c3")]
    out += [identity("y", "x", "^c2")]
    records = [*GIVEN_CASE, *out, library(NEGATED, PASSED, CONSTANT, NONE, OTHER)]
    found = lowered(records, "case", "c1", "c2", "c3", "y", feeds=CASES)
    assert graphs.ops(found)["case"] == "Identity"
    assert not {"Case", "StatelessCase", "_SwitchN"} & set(graphs.ops(found).values())


@pytest.mark.tensorflow
def test_a_case_in_a_loop_and_a_loop_in_a_case() -> None:
    """By the number of the round, so that each branch is taken, and the last twice."""
    state = {"i": INT32, "n": INT32, "v": FLOAT}
    looping = define(
        "looping", {"a": FLOAT}, {"o": (FLOAT, "w:output:2")}, scalar("z", 0, INT32), scalar("two", 2, INT32),
        loop(inputs=("z:output:0", "two:output:0", "a"), name="w"),
    )  # fmt: skip
    outer = define(
        "outer", state, {"a": (INT32, "j:z:0"), "b": (INT32, "n"), "c": (FLOAT, "chosen:output:0")},
        scalar("one", 1, INT32), add("j", "i", "one:output:0", kind=INT32),
        case("negated", "looping", "negated", inputs=("i", "v"), name="chosen"),
    )  # fmt: skip
    records = [*START, loop("outer"), identity("y", "while:2"), library(LESS, STEP, outer, NEGATED, looping)]
    lowered(records, "y", feeds=[{"n": n, "x": [0.5, -1.25]} for n in (0, 1, 2, 4)])


def test_a_release_that_has_case_gets_one_that_says_less() -> None:
    records = [*GIVEN_CASE, case("negated", "passed", op="StatelessCase"), library(NEGATED, PASSED)]
    found = older(records, "2.3")
    assert graphs.ops(found)["case"] == "Case" and len(graphs.parsed(found).library.function) == 2


def test_a_case_without_branches_is_refused() -> None:
    check_reason([*GIVEN_CASE, case()], "1.4", "wrong-count", node="case")


@pytest.mark.tensorflow
def test_what_a_branch_does_is_done() -> None:
    """A conditional without outputs that fails on one side: nodes that wait for it fail there."""
    failing = define("failing", {"a": FLOAT}, {}, const("no", False, BOOL),
                       node("t", "Assert", ["no:output:0", "a"], T=dtypes(FLOAT), summarize=3), effects=["t"],
                     stateful=True)  # fmt: skip
    nothing = define("nothing", {"a": FLOAT}, {})
    records = [*GIVEN, choice("failing", "nothing", kinds=()), identity("y", "x", "^if"), library(failing, nothing)]
    found = graph(*records)
    compat(found, "1.4")
    assert graphs.ops(found)["if"] == "NoOp"
    assert isinstance(outcome(found, "y", **SIDES[0]), str)
    assert outcome(found, "y", **SIDES[1]) == outcome(graphs.graph_bytes(*records), "y", **SIDES[1])


@pytest.mark.tensorflow
def test_an_output_that_is_returned_no_longer_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compat that reads the other sides of the Switches of inputs: neither branch has both its inputs and its turn."""

    def other_side(of: Node, index: int = 0) -> Output:
        return Output(of, 1 - index if of.name.startswith("if/Switch_") else index)

    monkeypatch.setattr(control_flow, "Output", other_side)
    records = [*GIVEN, choice("negated", "passed"), identity("y", "if"), neg("z", "x"), library(NEGATED, PASSED)]
    found = graph(*records)
    result = compat(found, "1.4")
    with pytest.raises(ValidationError) as caught:
        prove(found.pristine(), found, result)
    check_error(caught.value, "does-not-run", {})


def test_products_in_bodies_may_be_computed_by_another_kernel() -> None:
    product = define("product", {"a": FLOAT}, {"o": (FLOAT, "m:product:0")}, node("m", "MatMul", ["a", "a"], T=FLOAT))
    square = placeholder("s", FLOAT, (2, 2))
    for called, tolerance in ((product, 1e-5), (NEGATED, 0.0)):
        name = called.signature.name
        found = graph(square, call("c", name, ["s"], [FLOAT], [FLOAT]), library(called))
        (claim,) = compat(found, "1.4").claims
        assert isinstance(claim, SameOutputs) and claim.rtol == claim.atol == tolerance


def test_releases_that_have_them_keep_them() -> None:
    found = older([*START, loop(), library(LESS, STEP)], "1.12")
    assert graphs.ops(found)["while"] == "StatelessWhile" and len(graphs.parsed(found).library.function) == 2
    assert "parallel_iterations" not in graphs.attrs(found, "while")


def test_what_cannot_be_lowered_is_refused_with_all_else() -> None:
    counting = define("count", {"i": INT32, "n": INT32, "v": FLOAT}, {"go": (INT32, "n")})
    odd = loop(cond=func("count"))
    records = [*START, odd, node("f", "Foo", ["x"]), library(LESS, STEP, counting)]
    facts = {"node": "while", "function": "count", "expected": "bool", "found": "int32"}
    error = check_reason(records, "1.4", "dtype-mismatch", **facts)
    assert [each["node"] for each in error.facts["unknown"]] == ["while", "f"]
    sides = {"then_branch": func("negated"), "else_branch": func("negated")}
    branch = node("if", "If", ["x", "x"], Tcond=FLOAT, Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), **sides)
    check_reason([*GIVEN, branch, library(NEGATED)], "1.4", "dtype-mismatch", node="if", tensor="x", found="float32")
