"""fuse-ops: another body in the place of what is fused."""

from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.fusing import GRADS, check_calls, fused, refused, tanh, tanh_grad2
from support.graphs import (
    DOUBLE,
    FLOAT,
    INT32,
    VARIABLE,
    X,
    add,
    body_of,
    call,
    const,
    define,
    dtypes,
    graph,
    identity,
    library,
    neg,
    node,
    only_function,
    placeholder,
    scalar,
    unary,
)
from support.running import outcome, run
from support.v1_control_flow import LOOP, cond, taken_both_ways

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.errors import EditError


@pytest.mark.tensorflow
def test_another_body_that_needs_fewer_inputs() -> None:
    found = graph(*tanh())
    result = fused(found, GRADS, "tanh_grad2", body=tanh_grad2())
    name = only_function(found).signature.name
    assert name.startswith("tanh_grad2_")
    check_calls(
        found,
        *tanh()[:5],
        call("tanh_grad2", name, ["dy", "a2"], [FLOAT] * 2, [FLOAT]),
        node("a1_grad", "TanhGrad", ["a1", "tanh_grad2"], T=FLOAT),
    )
    assert result.notes == ["'a3' is not needed by body.pb"]
    given = {"x": [0.3, -0.7], "dy": [1.0, 0.5]}
    assert run(found, "a1_grad", **given) == run(graph(*tanh()), "a1_grad", **given)
    assert body_of(only_function(found)) == {
        "again": ["a2"], "step": ["again:y:0", "dy"], "a2_grad": ["a2", "step:z:0"]
    }  # fmt: skip


@pytest.mark.tensorflow
def test_a_body_is_paired_by_what_is_mapped() -> None:
    found = graph(*tanh())
    pairs = [("a2", "p"), ("dy:0", "q"), ("a2_grad", "r")]
    fused(found, GRADS, body=tanh_grad2("p", "q", "r"), mapped=pairs)
    assert graphs.inputs(found)["call"] == ["dy", "a2"]
    given = {"x": [0.3, -0.7], "dy": [1.0, 0.5]}
    assert run(found, "a1_grad", **given) == run(graph(*tanh()), "a1_grad", **given)


@pytest.mark.tensorflow
def test_what_is_mapped_goes_before_what_has_the_same_name() -> None:
    found = graph(X, placeholder("y", FLOAT, (2,)), node("d", "Sub", ["x", "y"], T=FLOAT), identity("o", "d"))
    body = graph(placeholder("x"), placeholder("y"), node("d", "Sub", ["x", "y"], T=FLOAT), name="body.pb")
    fused(found, ["d"], body=body, mapped=[("x", "y"), ("y", "x")])
    assert run(found, "o", x=[5.0, 5.0], y=[2.0, 3.0]) == [[-3.0, -2.0]]


@pytest.mark.tensorflow
def test_a_body_is_paired_by_the_order_of_first_use() -> None:
    """The placeholders in the order in which the body's nodes read them, the inputs in the selection's."""
    found = graph(X, placeholder("y", FLOAT, (2,)), node("d", "Sub", ["y", "x"], T=FLOAT), identity("o", "d"))
    body = graph(placeholder("late"), placeholder("early"), node("e", "Sub", ["early", "late"], T=FLOAT))
    fused(found, ["d"], body=body)
    assert graphs.inputs(found)["call"] == ["y", "x"]
    assert run(found, "o", x=[5.0, 5.0], y=[2.0, 3.0]) == [[-3.0, -2.0]]


@pytest.mark.tensorflow
def test_a_body_is_paired_by_name_where_the_order_is_another() -> None:
    found = graph(X, placeholder("y", FLOAT, (2,)), node("d", "Sub", ["y", "x"], T=FLOAT), identity("o", "d"))
    body = graph(placeholder("x"), placeholder("y"), neg("n", "x"), add("d", "n", "y"))
    fused(found, ["d"], body=body)
    assert run(found, "o", x=[5.0, 5.0], y=[2.0, 3.0]) == [[-3.0, -2.0]]


def test_pairs_that_are_not_clear() -> None:
    error = refused(graph(*tanh()), "the selection has 'a3', 'dy', 'a2' left as inputs, and body.pb 'p', 'q': which "
                    "is which?", GRADS, body=tanh_grad2("p", "q"))  # fmt: skip
    assert hint_of(error) is not None and "--map" in hint_of(error)
    two = graph(*tanh(), identity("g3", "a3_grad"))
    refused(two, "body.pb has no result for 'a3_grad'", GRADS, body=tanh_grad2())
    body = graph(placeholder("dy"), placeholder("a2"), neg("r1", "dy"), neg("r2", "a2"), name="body.pb")
    error = refused(graph(*tanh()), "which is which?", GRADS, body=body)
    assert "'a2_grad'" in error.message and "'r1', 'r2'" in error.message


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("a1", "a2")], "'a1' is not at the boundary of the selection, which is 'a3', 'dy', 'a2', 'a2_grad'"),
        ([("a3", "again")], "'a3' is not at the boundary"),
        ([("a2", "a2"), ("a3", "a2")], "is mapped twice"),
        ([("a2", "a2"), ("a2", "dy")], "is mapped twice"),
        ([("a2_grad", "a2_grad"), ("a2_grad", "step")], "is mapped twice"),
        ([("a2", "nope")], "body.pb has no node 'nope'"),
        ([("nope", "a2")], "model.pb has no node 'nope'"),
        ([("a2:1", "a2")], "has 1 output"),
        ([("a2", "a2:1")], "has 1 output"),
    ],
)
def test_pairs_that_make_no_sense(pairs: list[tuple[str, str]], words: str) -> None:
    refused(graph(*tanh()), words, GRADS, body=tanh_grad2(), mapped=pairs)


def test_a_body_of_other_types() -> None:
    refused(graph(*tanh()), "'dy' is float32 [2], and 'dy' of body.pb, which is to take its place, is float64",
            GRADS, body=tanh_grad2(kind=DOUBLE))  # fmt: skip
    body = graph(placeholder("a2", FLOAT), placeholder("dy", FLOAT, (3,)), add("a2_grad", "a2", "dy"), name="body.pb")
    refused(graph(*tanh()), "'dy' is float32 [2], and 'dy' of body.pb, which is to take its place, is float32 [3]",
            GRADS, body=body)  # fmt: skip
    body = graph(placeholder("a2"), placeholder("dy"), add("s", "a2", "dy"),
                 node("a2_grad", "Cast", ["s"], SrcT=FLOAT, DstT=DOUBLE), name="body.pb")  # fmt: skip
    refused(graph(*tanh()), "'a2_grad' is float32, and 'a2_grad' of body.pb", GRADS, body=body)


@pytest.mark.parametrize(
    ("records", "result", "words"),
    [
        ([node("u", "MyOp")], "u", "'u' of body.pb: MyOp is not known here"),
        ([placeholder("more")], "more", "left as inputs"),
        ([const("k", [1, 2]), node("d", "PlaceholderWithDefault", ["k"], dtype=FLOAT, shape=(2,))], "d",
         "'d' of body.pb stands for no input of the selection"),
        ([VARIABLE, identity("r", "v")], "r", "'v'"),
        ([node("h", "VarHandleOp", dtype=FLOAT, shape=(2,)), node("r", "ReadVariableOp", ["h"], dtype=FLOAT)], "r",
         "'h'"),
        ([node("q", "FIFOQueueV2", component_types=dtypes(FLOAT)), node("s", "QueueSizeV2", ["q"]),
          node("f", "Cast", ["s"], SrcT=INT32, DstT=FLOAT)], "f", "'q'"),
    ],
    ids=["an unknown op", "another input", "a default", "a variable", "a resource variable", "a queue"],
)  # fmt: skip
def test_what_a_body_cannot_hold(records: list[bytes], result: str, words: str) -> None:
    """What cannot be fused cannot come in with a body either."""
    body = graph(placeholder("i"), *records, add("o", "i", result), name="body.pb")
    refused(graph(X, neg("n", "x"), identity("y", "n")), words, ["n"], body=body)


def test_a_body_is_left_as_it_is() -> None:
    body = tanh_grad2()
    before = graphs.written(body)
    fused(graph(*tanh()), GRADS, body=body)
    assert graphs.written(body) == before and not body.is_changed


@pytest.mark.tensorflow
def test_a_body_with_several_results() -> None:
    records = [X, neg("a", "x"), unary("Abs", "b", "x"), identity("p", "a"), identity("q", "b")]
    found = graph(*records)
    body = graph(placeholder("i"), unary("Square", "b", "i"), unary("Relu", "a", "i"), name="body.pb")
    fused(found, ["a", "b"], body=body)
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0, 0.0], [1.0, 4.0]]  # by name
    found = graph(*records)
    body = graph(placeholder("i"), unary("Square", "r", "i"), unary("Relu", "s", "i"), name="body.pb")
    fused(found, ["a", "b"], body=body)
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0, 4.0], [1.0, 0.0]]  # by order
    found = graph(*records)
    body = graph(placeholder("i"), scalar("axis", 0, INT32), node("s", "Split", ["axis", "i"], T=FLOAT, num_split=2))
    fused(found, ["a", "b"], body=body)
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0], [-2.0]]  # two outputs of one node


@pytest.mark.tensorflow
def test_two_outputs_may_have_one_result_and_a_result_may_be_an_input() -> None:
    records = [X, neg("a", "x"), unary("Abs", "b", "x"), identity("p", "a"), identity("q", "b")]
    body = graph(placeholder("i"), unary("Relu", "r", "i"), name="body.pb")
    found = graph(*records)
    fused(found, ["a", "b"], body=body, mapped=[("a", "r"), ("b", "r")])
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0, 0.0]] * 2
    found = graph(*records)
    fused(found, ["a", "b"], body=body, mapped=[("a", "i"), ("b", "r")])
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0, -2.0], [1.0, 0.0]]


@pytest.mark.tensorflow
def test_a_body_with_functions_of_its_own() -> None:
    def inner(op: str) -> Any:
        return define("f", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, unary(op, "n", "a"))

    body = graph(placeholder("i"), call("c", "f", ["i"], [FLOAT], [FLOAT]), library(inner("Square")), name="body.pb")
    found = graph(X, neg("a", "x"), call("b", "f", ["a"], [FLOAT], [FLOAT]), identity("y", "b"),
                  library(inner("Abs")))  # fmt: skip
    result = fused(found, ["a"], body=body)
    assert sorted(f.signature.name for f in found.functions) == sorted(["f", *result.intent.functions.added])
    assert len(result.intent.functions.added) == 2
    assert run(found, "y", x=[1.0, -2.0]) == [[1.0, 4.0]]
    again = graph(X, neg("a", "x"), identity("y", "a"), library(inner("Square")))
    assert len(fused(again, ["a"], body=body).intent.functions.added) == 1


@pytest.mark.tensorflow
def test_a_body_with_weights_of_its_own() -> None:
    weights = const("weights", [1.0] * 20_000, shape=(2, 10_000))
    body = graph(placeholder("i"), weights, const("axis", [1], INT32),
                 node("column", "Sum", ["weights", "axis"], T=FLOAT, Tidx=INT32), add("o", "i", "column"),
                 name="body.pb")  # fmt: skip
    found = graph(X, neg("n", "x"), identity("y", "n"))
    result = fused(found, ["n"], body=body)
    assert graphs.inputs(found) == {"x": [], "call/weights": [], "call": ["x", "call/weights"], "y": ["call"]}
    assert "call/weights" in result.intent.added
    assert run(found, "y", x=[1.0, 2.0]) == [[10_001.0, 10_002.0]]


@pytest.mark.tensorflow
def test_a_body_with_weights_in_a_loop() -> None:
    """Weights from outside reach a loop through an Enter: refused, or it runs."""
    weights = const("weights", [1.0] * 20_000)
    body = graph(placeholder("w/v"), weights, const("axis", [0], INT32),
                 node("sum", "Sum", ["weights", "axis"], T=FLOAT, Tidx=INT32),
                 add("w/double", "w/v", "sum"), name="body.pb")  # fmt: skip
    found = graph(*LOOP)
    try:
        fused(found, ["w/double"], body=body, mapped=[("w/v", "w/v")])
    except EditError:
        assert not found.is_changed
        return
    assert outcome(found, "out", n=2) == [40_007.0]


@pytest.mark.tensorflow
def test_a_body_in_a_loop_that_does_not_need_what_changes_in_it() -> None:
    """The call belongs to the iteration, whatever it reads: without that the loop does not end."""
    found = graph(*LOOP)
    body = graph(placeholder("i"), neg("o", "i"), name="body.pb")
    try:
        fused(found, ["w/double", "w/plus"], body=body, mapped=[("w/three", "i")])
    except EditError:
        assert not found.is_changed
        return
    assert run(found, "out", n=2) == [-3.0]


@pytest.mark.tensorflow
@pytest.mark.parametrize("needs", ["x", ""])
def test_a_body_in_a_branch_that_does_not_need_what_is_decided(needs: str) -> None:
    """The call belongs to the branch, whatever it reads: otherwise both sides of the conditional give a value."""
    records = cond(node("c/both", "Mul", ["c/x_t:1", "x"], T=FLOAT), identity("only", "c/both"))
    found = graph(*records)
    body = graph(placeholder("i"), neg("o", "i")) if needs else graph(const("k", [7, 7]), neg("o", "k"))
    try:
        fused(found, ["c/both"], body=body, mapped=[("x", "i")] if needs else [])
    except EditError:
        assert not found.is_changed
        return
    assert taken_both_ways(found, "only") == [[[-1.0, -2.0] if needs else [-7.0, -7.0]], "a dead value"]
