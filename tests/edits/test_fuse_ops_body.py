"""fuse-ops: another body in the place of what is fused."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support import graphs
from support.expecting import account, refused
from support.fusing import GRADS, check_calls, fused, tanh, tanh_grad2
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
from support.running import run
from support.v1_control_flow import LOOP, cond, taken_both_ways, while_loop

import gdsurgeon as gds
from gdsurgeon.graph.graph import Graph


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
    assert [note.as_json() for note in result.notes] == [{"code": "not-needed", "tensor": "a3"}]
    given = {"x": [0.3, -0.7], "dy": [1.0, 0.5]}
    assert run(found, "a1_grad", **given) == run(graph(*tanh()), "a1_grad", **given)
    assert body_of(only_function(found)) == {
        "again": ["a2"], "step": ["again:y:0", "dy"], "a2_grad": ["a2", "step:z:0"]
    }  # fmt: skip


SUB, SUB_Y = node("d", "Sub", ["x", "y"], T=FLOAT), node("d", "Sub", ["y", "x"], T=FLOAT)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("record", "body", "pairs", "expected"),
    [
        (SUB, [placeholder("x"), placeholder("y"), SUB], [("x", "y"), ("y", "x")], [-3.0, -2.0]),
        (SUB_Y, [placeholder("late"), placeholder("early"), node("e", "Sub", ["early", "late"], T=FLOAT)], [],
         [-3.0, -2.0]),
        (SUB_Y, [placeholder("x"), placeholder("y"), neg("n", "x"), add("d", "n", "y")], [], [-3.0, -2.0]),
    ],
    ids=["as mapped, before what has the same name", "by the order of first use", "by name, whatever the order"],
)  # fmt: skip
def test_a_body_is_paired(
    record: bytes, body: list[bytes], pairs: list[tuple[str, str]], expected: list[float]
) -> None:
    """Placeholders in the order in which the body's nodes read them, inputs in the selection's."""
    found = graph(X, placeholder("y", FLOAT, (2,)), record, identity("o", "d"))
    fused(found, ["d"], body=graph(*body), mapped=pairs)
    assert graphs.inputs(found)["call"] == (["x", "y"] if record is SUB else ["y", "x"])
    assert run(found, "o", x=[5.0, 5.0], y=[2.0, 3.0]) == [expected]


def small(*records: bytes, result: str = "") -> Graph:
    """A body of one input, `i`, to which RESULT is added."""
    return graph(placeholder("i"), *records, *([add("o", "i", result)] if result else []), name="body.pb")


TWO = [placeholder("a2"), placeholder("dy")]
CAST = [add("s", "a2", "dy"), node("a2_grad", "Cast", ["s"], SrcT=FLOAT, DstT=DOUBLE)]
RESULTS = graph(*TWO[::-1], neg("r1", "dy"), neg("r2", "a2"))
LONGER = graph(TWO[0], placeholder("dy", FLOAT, (3,)), add("a2_grad", "a2", "dy"))
ONE = [X, neg("n", "x"), identity("y", "n")]
DEFAULT = [const("k", [1, 2]), node("d", "PlaceholderWithDefault", ["k"], dtype=FLOAT, shape=(2,))]
HANDLE = [node("h", "VarHandleOp", dtype=FLOAT, shape=(2,)), node("r", "ReadVariableOp", ["h"], dtype=FLOAT)]
QUEUE = [node("q", "FIFOQueueV2", component_types=dtypes(FLOAT)), node("s", "QueueSizeV2", ["q"]),
         node("f", "Cast", ["s"], SrcT=INT32, DstT=FLOAT)]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "body", "pairs", "code", "facts"),
    [
        (tanh(), tanh_grad2("p", "q"), [], "ambiguous-pairs", {"inputs": ["a3", "dy", "a2"], "found": ["p", "q"]}),
        ([*tanh(), identity("g3", "a3_grad")], tanh_grad2(), [], "no-result", {"tensors": ["a3_grad"]}),
        (tanh(), RESULTS, [], "ambiguous-pairs", {"outputs": ["a2_grad"], "found": ["r1", "r2"]}),
        (tanh(), tanh_grad2(), [("a1", "a2")], "not-at-boundary",
         {"tensor": "a1", "boundary": ["a3", "dy", "a2", "a2_grad"]}),
        (tanh(), tanh_grad2(), [("a3", "again")], "not-at-boundary", {"tensor": "a3"}),
        (tanh(), tanh_grad2(), [("a2", "a2"), ("a3", "a2")], "given-twice", {"tensor": "a3", "name": "a2"}),
        (tanh(), tanh_grad2(), [("a2", "a2"), ("a2", "dy")], "given-twice", {"tensor": "a2", "name": "dy"}),
        (tanh(), tanh_grad2(), [("a2_grad", "a2_grad"), ("a2_grad", "step")], "given-twice", {"name": "step"}),
        (tanh(), tanh_grad2(), [("a2", "nope")], "no-such-node", {"node": "nope"}),
        (tanh(), tanh_grad2(), [("none", "a2")], "no-such-node", {"node": "none"}),
        (tanh(), tanh_grad2(), [("a2:1", "a2")], "no-such-tensor", {"tensor": "a2:1", "op": "Tanh"}),
        (tanh(), tanh_grad2(), [("a2", "a2:1")], "no-such-tensor", {"tensor": "a2:1", "op": "Placeholder"}),
        (tanh(), tanh_grad2(kind=DOUBLE), [], "dtype-mismatch",
         {"tensor": "dy", "expected": "float32 [2]", "name": "dy", "found": "float64"}),
        (tanh(), LONGER, [], "shape-mismatch", {"tensor": "dy", "expected": "float32 [2]", "found": "float32 [3]"}),
        (tanh(), graph(*TWO, *CAST), [], "dtype-mismatch", {"tensor": "a2_grad", "found": "float64"}),
        (ONE, small(node("u", "MyOp"), result="u"), [], "unknown-op", {"node": "u", "op": "MyOp"}),
        (ONE, small(placeholder("more"), result="more"), [], "ambiguous-pairs",
         {"inputs": ["x"], "found": ["i", "more"]}),
        (ONE, small(*DEFAULT, result="d"), [], "no-such-input", {"node": "d"}),
        (ONE, small(VARIABLE, identity("r", "v"), result="r"), [], "is-reference", {"node": "v"}),
        (ONE, small(*HANDLE, result="r"), [], "shared-state", {"node": "h"}),
        (ONE, small(*QUEUE, result="f"), [], "shared-state", {"node": "q"}),
    ],
)  # fmt: skip
def test_bodies_that_do_not_fit(
    records: list[bytes], body: Graph, pairs: list[tuple[str, str]], code: str, facts: dict[str, Any]
) -> None:
    """What cannot be fused cannot come in with a body either."""
    edit = partial(fused, selection=f"{GRADS}|^n$", body=body, mapped=pairs)
    refused(graph(*records), code, edit, body, **facts)


def test_a_body_is_left_as_it_is() -> None:
    body = tanh_grad2()
    before = graphs.written(body)
    fused(graph(*tanh()), GRADS, body=body)
    assert graphs.written(body) == before and not body.is_changed


AXIS_SPLIT = [scalar("axis", 0, INT32), node("s", "Split", ["axis", "i"], T=FLOAT, num_split=2)]
RELU = unary("Relu", "r", "i")


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("body", "pairs", "p", "q"),
    [
        ([unary("Square", "b", "i"), unary("Relu", "a", "i")], [], [1.0, 0.0], [1.0, 4.0]),
        ([unary("Square", "r", "i"), unary("Relu", "s", "i")], [], [1.0, 4.0], [1.0, 0.0]),
        (AXIS_SPLIT, [], [1.0], [-2.0]),
        ([RELU], [("a", "r"), ("b", "r")], [1.0, 0.0], [1.0, 0.0]),
        ([RELU], [("a", "i"), ("b", "r")], [1.0, -2.0], [1.0, 0.0]),
    ],
    ids=["by name", "by order", "two outputs of one node", "one result for both", "a result that is an input"],
)
def test_a_body_with_several_results(
    body: list[bytes], pairs: list[tuple[str, str]], p: list[float], q: list[float]
) -> None:
    found = graph(X, neg("a", "x"), unary("Abs", "b", "x"), identity("p", "a"), identity("q", "b"))
    fused(found, ["a", "b"], body=small(*body), mapped=pairs)
    assert run(found, "p", "q", x=[1.0, -2.0]) == [p, q]


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
def test_a_body_in_a_loop_that_does_not_need_what_changes_in_it() -> None:
    """The call belongs to the iteration, whatever it reads: without that the loop does not end."""
    found = graph(*LOOP)
    body = graph(placeholder("i"), neg("o", "i"), name="body.pb")
    fused(found, ["w/double", "w/plus"], body=body, mapped=[("w/three", "i")])
    assert run(found, "out", n=2) == [-3.0]


@pytest.mark.tensorflow
@pytest.mark.parametrize("needs", ["x", ""])
def test_a_body_in_a_branch_that_does_not_need_what_is_decided(needs: str) -> None:
    """The call belongs to the branch, whatever it reads: otherwise both sides of the conditional give a value."""
    records = cond(node("c/both", "Mul", ["c/x_t:1", "x"], T=FLOAT), identity("only", "c/both"))
    found = graph(*records)
    body = graph(placeholder("i"), neg("o", "i")) if needs else graph(const("k", [7, 7]), neg("o", "k"))
    fused(found, ["c/both"], body=body, mapped=[("x", "i")] if needs else [])
    assert taken_both_ways(found, "only") == [[[-1.0, -2.0] if needs else [-7.0, -7.0]], "a dead value"]


IDLE = [add("w/plus", "w/v", "w/three"), node("w/same", "Sub", ["w/plus", "w/three"], T=FLOAT)]
ONE_RESULT = [scalar("nothing", 0), node("f", "Cast", ["n"], SrcT=INT32, DstT=FLOAT),
              node("none", "Mul", ["f", "nothing"], T=FLOAT), scalar("one", 1), add("r", "none", "one")]  # fmt: skip


@pytest.mark.tensorflow
def test_an_exit_without_consumers_needs_no_result() -> None:
    """The loop counts up to n, and v stays 1."""
    found = graph(*while_loop(*IDLE, result="w/same", exits=["w/Switch_v"]))
    result = fused(found, "^(w/|zero|start|three)", body=graph(placeholder("n", INT32, ()), *ONE_RESULT))
    account(found, result)
    assert [note.as_json()["tensor"] for note in result.notes] == ["w/Exit", "w/Exit_0"]
    assert graphs.inputs(found) == {"n": [], "call": ["n"], "out": ["call"]}
    proof = gds.prove(found, result)
    assert [output.after for output in proof.outputs] == ["out", "call"]


def test_an_exit_without_consumers_may_have_a_result() -> None:
    """Or is to be kept, or is all that there is."""
    body = graph(placeholder("n", INT32, ()), *ONE_RESULT)
    both = graph(placeholder("n", INT32, ()), *ONE_RESULT, identity("w/Exit", "n", kind=INT32))
    found = graph(*while_loop(*IDLE, result="w/same"))
    account(found, fused(found, "^(w/|zero|start|three)", body=both))
    assert graphs.inputs(found)["w/Exit"] == ["call"]
    edit = partial(fused, selection="^(w/|zero|start|three)", body=body, keep=["w/Exit"])
    refused(graph(*while_loop(*IDLE, result="w/same")), "ambiguous-pairs", edit, body)
