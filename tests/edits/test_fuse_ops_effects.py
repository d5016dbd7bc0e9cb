"""fuse-ops: calls in calls, state, effects, and what nodes are tied to."""

from __future__ import annotations

from functools import partial

import pytest
from support import graphs
from support.desk import check_error
from support.expecting import refused
from support.fusing import chain, fused
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    X,
    add,
    body_of,
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
)
from support.running import outcome, run

from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.executor import Refused

# -- calls in calls ----------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_a_call_can_be_fused_in_turn() -> None:
    found = graph(*chain())
    fused(found, ["neg", "mul"], "inner")
    fused(found, ["sum", "inner"], "outer")
    assert graphs.inputs(found) == {"x": [], "one": [], "outer": ["x", "one"], "y": ["outer"]}
    assert len(list(found.functions)) == 2
    assert run(found, "y", x=[3.0, 4.0]) == [[-16.0, -36.0]]
    again = from_bytes(graphs.written(found))
    fused(again, ["outer"], "outermost")
    assert run(again, "y", x=[3.0, 4.0]) == [[-16.0, -36.0]]


@pytest.mark.tensorflow
def test_a_call_by_the_name_of_a_function() -> None:
    made = define("twice", {"a": FLOAT}, {"o": (FLOAT, "s:z:0")}, add("s", "a", "a"))
    found = graph(X, node("t", "twice", ["x"]), neg("y", "t"), identity("z", "y"), library(made))
    fused(found, ["t", "y"])
    assert body_of(next(f for f in found.functions if f.signature.name != "twice"))["y"] == ["t:o:0"]
    assert run(found, "z", x=[1.0, 2.0]) == [[-2.0, -4.0]]


# -- state and effects -------------------------------------------------------------------------------------


def random() -> list[bytes]:
    return [
        placeholder("shape", INT32, (1,)),
        node("r", "RandomUniform", ["shape"], T=INT32, dtype=FLOAT, seed=7, seed2=3),
        neg("n", "r"),
        identity("y", "n"),
    ]


@pytest.mark.tensorflow
def test_stateful_nodes_make_a_stateful_call() -> None:
    found = graph(*random())
    fused(found, ["r", "n"])
    made = only_function(found)
    assert made.signature.is_stateful
    assert dict(made.control_ret) == {"r": "r"} and list(made.signature.control_output) == ["r"]
    assert graphs.ops(found)["call"] == "StatefulPartitionedCall"
    assert run(found, "y", shape=[3]) == run(graph(*random()), "y", shape=[3])


CHECKED = [X, placeholder("ok", BOOL, ()), node("check", "Assert", ["ok", "x"], T=dtypes(FLOAT), summarize=3)]


@pytest.mark.tensorflow
def test_control_edges_in_and_out() -> None:
    records = [
        *CHECKED,
        neg("a", "x"),
        neg("b", "a", "^check"),
        neg("c", "b", "^a", "^check"),
        node("after", "Identity", ["x", "^a", "^c"], T=FLOAT),
        identity("y", "c"),
    ]
    found = graph(*records)
    result = fused(found, ["a", "b", "c"])
    assert graphs.inputs(found)["call"] == ["x", "^check"]
    assert graphs.inputs(found)["after"] == ["x", "^call"]
    made = only_function(found)
    assert body_of(made) == {"a": ["x"], "b": ["a:y:0"], "c": ["b:y:0", "^a"]}
    assert set(made.control_ret.values()) == {"a", "c"}
    assert result.intent.changed == ["after"]
    for fetch in ("y", "after"):
        assert run(found, fetch, x=[1.0, 2.0], ok=True) == run(graph(*records), fetch, x=[1.0, 2.0], ok=True)
        assert "assertion failed" in str(outcome(found, fetch, x=[1.0, 2.0], ok=False))


@pytest.mark.tensorflow
def test_what_waited_for_an_effect_inside_waits_for_it_still() -> None:
    records = [*CHECKED,
               node("group", "NoOp", ["^check"]), identity("y", "x", "^group")]  # fmt: skip
    found = graph(*records)
    fused(found, ["check", "group"])
    assert graphs.inputs(found)["y"] == ["x", "^call"]
    assert run(found, "y", x=[1.0, 2.0], ok=True) == [[1.0, 2.0]]
    assert "assertion failed" in str(outcome(found, "y", x=[1.0, 2.0], ok=False))


@pytest.mark.tensorflow
def test_a_group_that_nobody_reads_can_still_be_run_under_its_name() -> None:
    """A NoOp at the end, such as an init or a train op, is what is run by name."""
    records = [*CHECKED,
               node("init", "NoOp", ["^check"])]  # fmt: skip
    found = graph(*records)
    fused(found, ["check", "init"], keep=["init"])
    run(found, targets=["init"], x=[1.0, 2.0], ok=True)
    with pytest.raises(Refused, match="assertion failed"):
        run(found, targets=["init"], x=[1.0, 2.0], ok=False)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "chosen",
    [["array", "write"], ["array", "write", "read"], ["write", "read"], ["set", "get", "minus"], ["get"]],
    ids=" ".join,
)
def test_state_that_is_handed_in_and_out(chosen: list[str]) -> None:
    """A TensorArray lives in a step, and a function's steps are its own."""
    records = [
        X,
        scalar("size", 1, INT32),
        scalar("at", 0, INT32),
        node("array", "TensorArrayV3", ["size"], dtype=FLOAT, clear_after_read=False),
        node("write", "TensorArrayWriteV3", ["array", "at", "x", "array:1"], T=FLOAT),
        node("read", "TensorArrayReadV3", ["array", "at", "write"], dtype=FLOAT),
        identity("y", "read"),
        node("h", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name="h"),
        node("set", "AssignVariableOp", ["h", "x"], dtype=FLOAT),
        node("get", "ReadVariableOp", ["h", "^set"], dtype=FLOAT),
        neg("minus", "get"),
        identity("z", "minus"),
    ]
    found = graph(*records)
    if "array" in chosen:
        refused(found, "step-state", partial(fused, selection=chosen), node="array")
        return
    fused(found, chosen)
    assert outcome(found, "y", "z", x=[1.0, 2.0]) == [[1.0, 2.0], [-1.0, -2.0]]


# -- large constants ---------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_large_constants_stay_outside() -> None:
    big = const("weights", [1.0] * 20_000, shape=(2, 10_000))
    records = [X, big, const("small", [3, 4]), add("sum", "x", "small"),
               node("product", "Mul", ["sum", "column"], T=FLOAT),
               node("column", "Sum", ["weights", "axis"], T=FLOAT, Tidx=INT32), const("axis", [1], INT32),
               identity("y", "product")]  # fmt: skip
    found = graph(*records)
    result = fused(found, "weights|small|sum|product|column|axis")
    assert graphs.inputs(found) == {"x": [], "weights": [], "call": ["x", "weights"], "y": ["call"]}
    assert [note.as_json() for note in result.notes] == [{"code": "stays-outside", "count": 1}]
    assert run(found, "y", x=[1.0, 2.0]) == [[40_000.0, 60_000.0]]
    refused(graph(*records), "nothing-left", partial(fused, selection=["weights"]))


# -- colocation --------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_colocations_are_mended() -> None:
    records = [
        X,
        neg("a", "x", _class=["loc:@z", "other"]),
        neg("b", "a", _class=["loc:@a"]),
        neg("c", "b", _class=["loc:@a", "loc:@x", "loc:@b"]),
        neg("z", "c"),
    ]
    found = graph(*records)
    result = fused(found, ["a", "b"])
    made = {n.name: n for n in only_function(found).node_def}
    assert list(made["a"].attr["_class"].list.s) == [b"other"]
    assert list(made["b"].attr["_class"].list.s) == [b"loc:@a"]
    assert graphs.colocations(found) == {"c": [b"loc:@x"]}
    check_error(result.notes[0], "colocation-lost", {"node": "c", "name": "a"})
    assert run(found, "z", x=[1.0, 2.0]) == [[1.0, 2.0]]
    assert "c" in result.intent.changed
