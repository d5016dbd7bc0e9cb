"""fuse-ops: parts of loops and branches of version 1, calls in calls, state, effects, and what nodes are tied to."""

from __future__ import annotations

from functools import partial
from typing import Any

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
    unary,
)
from support.running import outcome, run
from support.v1_control_flow import BOTH_WAYS, LOOP, cond, taken_both_ways

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.executor import Refused

# -- loops -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "chosen",
    [
        ["w/double", "w/plus"],
        ["w/two", "w/double", "w/plus"],
        ["w/one", "w/Add"],
        ["w/one", "w/two"],
        ["w/one", "w/Add", "w/two", "w/double", "w/plus"],
        ["w/i", "w/one", "w/Add"],
        ["w/Less"],
        ["w/i", "w/v", "w/one", "w/Add", "w/two", "w/double", "w/plus"],
    ],
    ids=lambda chosen: " ".join(name[2:] for name in chosen),
)
def test_a_part_of_a_loop_body(chosen: list[str]) -> None:
    found = graph(*LOOP)
    fused(found, chosen)
    assert [run(found, "out", "w/Exit", n=n) for n in (0, 1, 3)] == [[1.0, 0], [5.0, 1], [29.0, 3]]


def other_loop() -> list[bytes]:
    """The loop of LOOP once more, beside it, with names and a frame of its own."""
    records = [r.replace(b"w/", b"u/").replace(b"\x12\x01w", b"\x12\x01u") for r in LOOP]
    return [r for r in records if r not in LOOP and b"out" not in r]


# -- conditionals ------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "chosen",
    [["c/mul"], ["c/neg", "c/sub"], ["c/neg"], ["c/two", "c/mul"], ["c/neg", "c/ten", "c/sub"], ["c/ten", "c/sub"]],
    ids=" ".join,
)
def test_a_part_of_a_branch(chosen: list[str]) -> None:
    found = graph(*cond())
    fused(found, chosen)
    assert taken_both_ways(found, "y") == BOTH_WAYS


@pytest.mark.tensorflow
def test_a_constant_alone_stays_in_its_branch() -> None:
    records = cond(identity("only", "c/two"))
    found = graph(*records)
    fused(found, ["c/two"])
    assert taken_both_ways(found, "only") == taken_both_ways(graph(*records), "only") == [[2.0], "a dead value"]


@pytest.mark.tensorflow
def test_a_node_outside_goes_along_where_nobody_else_reads_it() -> None:
    """What is computed for one branch alone may be computed in it."""
    found = graph(*OUTSIDE)
    fused(found, ["minus", "two", "c/mul"])
    assert taken_both_ways(found, "y") == [[[-2.0, -4.0]], [[-11.0, -12.0]]]


OUTSIDE = [r for r in cond() if b"c/two" not in r]
OUTSIDE += [scalar("two", 2), neg("minus", "two"), node("c/mul", "Mul", ["c/x_t:1", "minus"], T=FLOAT)]


def nested() -> list[bytes]:
    return cond(
        placeholder("q", BOOL, ()),
        node("d/Switch", "Switch", ["c/mul", "q"], T=FLOAT),
        neg("d/neg", "d/Switch:1"),
        unary("Abs", "d/abs", "d/Switch"),
        node("d/Merge", "Merge", ["d/abs", "d/neg"], T=FLOAT, N=2),
        identity("z", "d/Merge"),
    )


@pytest.mark.tensorflow
def test_branches_of_two_conditionals_that_are_not_in_one_another() -> None:
    """What reads from both runs where both are taken; what reads from one does not hang on the other."""
    found = graph(*TWO_CONDITIONALS)
    fused(found, ["b", "c"])
    for p in (True, False):
        for q in (True, False):
            for fetch in ("y", "z"):
                given = {"p": p, "q": q, "x": [1.0, 2.0]}
                assert outcome(found, fetch, **given) == outcome(graph(*TWO_CONDITIONALS), fetch, **given)


TWO_CONDITIONALS = [
    placeholder("p", BOOL, ()), placeholder("q", BOOL, ()), X, node("where_p", "Switch", ["x", "p"], T=FLOAT),
    node("where_q", "Switch", ["x", "q"], T=FLOAT), neg("a", "where_p:1"), add("b", "a", "where_q:1"), neg("c", "b"),
    identity("y", "a"), identity("z", "c"),
]  # fmt: skip
ON_ONE_NODE = [
    placeholder("both", BOOL, (2,)), X, node("u", "Unpack", ["both"], T=BOOL, num=2, axis=0),
    identity("second", "u:1", kind=BOOL), node("where_p", "Switch", ["x", "u"], T=FLOAT),
    node("where_q", "Switch", ["x", "u:1"], T=FLOAT), node("where_second", "Switch", ["x", "second"], T=FLOAT),
    neg("p", "where_p:1"), neg("q", "where_q:1"), neg("r", "where_second:1"),
    *(identity(f"y_{name}", name) for name in "pqr"),
]  # fmt: skip
BESIDE = cond(neg("aside", "x"))
BESIDE_AND_READ = cond(neg("aside", "x"), add("c/more", "c/mul", "aside"), identity("m", "c/more"))


@pytest.mark.parametrize(
    ("records", "chosen", "options", "code", "facts"),
    [
        ([*LOOP, neg("aside", "three")], ["w/plus", "aside"], {}, "crosses-loop", {"loop": "w"}),
        (LOOP, ["w/plus", "out"], {}, "crosses-loop", {"loop": "w"}),
        ([*LOOP, *other_loop()], ["w/double", "u/double"], {}, "crosses-loop", {"loop": "u"}),
        (LOOP, ["w/Less", "w/Add"], {}, "path-outside",
         {"nodes": ["w/Less", "w/LoopCond", "w/Switch", "w/i", "w/Add"]}),
        (cond(), ["c/mul", "c/neg"], {}, "crosses-branch", {"nodes": ["c/neg", "c/mul"]}),
        (cond(), ["c/two", "c/ten"], {}, "crosses-branch", {"nodes": ["c/ten", "c/two"]}),
        *(([*OUTSIDE, reader], ["minus", "c/mul"], {}, "crosses-branch", {"nodes": ["minus", "c/mul"]})
          for reader in (neg("outside", "minus"), node("waiting", "NoOp", ["^minus"]))),
        (BESIDE, ["c/mul", "aside"], {}, "crosses-branch", {"nodes": ["aside", "c/mul"]}),
        (BESIDE_AND_READ, ["c/mul", "aside", "c/more"], {"keep": ["aside"]}, "crosses-branch",
         {"nodes": ["aside", "c/mul"]}),
        (nested(), ["d/neg", "c/neg"], {}, "crosses-branch", {"nodes": ["c/neg", "d/neg"]}),
        (TWO_CONDITIONALS, ["a", "b"], {}, "crosses-branch", {"nodes": ["a", "b"]}),
        (ON_ONE_NODE, ["p", "q"], {}, "crosses-branch", {"nodes": ["q", "p"]}),
        (ON_ONE_NODE, ["p", "r"], {}, "crosses-branch", {"nodes": ["r", "p"]}),
    ],
)  # fmt: skip
def test_what_does_not_go_together(
    records: list[bytes], chosen: list[str], options: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    """Nodes inside and outside of a loop, of two loops, and of two branches; an output exists whatever is decided."""
    assert check(graph(*records)).faults == []
    refused(graph(*records), code, partial(fused, nodes=chosen, **options), **facts)


def test_branches_on_one_output_of_a_node_go_together() -> None:
    fused(graph(*ON_ONE_NODE), ["q", "r"])


def test_a_switch_that_leads_nowhere_is_no_internal_fault() -> None:
    """A broken graph is repaired by edits."""
    for records in ([node("s", "Switch", ["x", "gone"], T=FLOAT)], [node("s", "Switch", ["x"], T=FLOAT)],
                    [identity("i", "gone", kind=BOOL), node("s", "Switch", ["x", "i"], T=FLOAT)]):  # fmt: skip
        found = graph(X, *records, neg("a", "s:1"), neg("b", "x"), identity("y", "b"))
        fused(found, ["b"])
        assert graphs.inputs(found)["y"] == ["call"]


def test_what_an_earlier_edit_has_added_in_a_branch_holds_the_call_there() -> None:
    found = graph(placeholder("p", BOOL, ()), X, node("s", "Switch", ["x", "p"], T=FLOAT), neg("a", "s:1"),
                  neg("b", "a"), identity("y", "b"))  # fmt: skip
    fused(found, ["a"], "first")
    fused(found, ["b"], "second")
    assert graphs.inputs(found)["second"] == ["first"] and len(graphs.names(found)) == 6


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
        refused(found, "step-state", partial(fused, nodes=chosen), node="array")
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
    refused(graph(*records), "nothing-left", partial(fused, nodes=["weights"]))


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
