"""What of a graph is run, and what is not: decided without running it, then run."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.feeding import returned
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    STRING,
    Builder,
    X,
    add,
    call,
    const,
    counting_loop,
    define,
    graph,
    graph_bytes,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
    typed,
)
from support.operating import operated

import gdsurgeon as gds
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.ops.kinds import is_blocking
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.proof import ENCLOSED, FED
from gdsurgeon.proof.settings import Settings

LOOP = counting_loop().bytes()
BRANCHES = [
    X, const("which", True, BOOL), typed("Switch", "pivot", "which", "which", kind=BOOL),
    identity("yes", "pivot:1", kind=BOOL), identity("no", "pivot", kind=BOOL),
    typed("Switch", "switch", "x", "which"), neg("then", "switch:1"),
    typed("Square", "else", "switch"), const("in_yes", 7.0, controls=["^yes"]),
    typed("Exp", "left", "in_yes"), typed("Exp", "right", "else"),
    typed("Merge", "chosen", "then", "else", N=2), typed("Abs", "y", "chosen"), neg("index", "chosen:1", kind=INT32),
]  # fmt: skip
"""A v1 cond: `chosen` merges its branches; `left` and `right` are in them."""
AFTER_LOOP = [
    LOOP, const("which", True, BOOL), typed("Switch", "choice", "y", "which", kind=INT32),
    neg("down", "choice", kind=INT32), typed("Abs", "up", "choice:1", kind=INT32),
    typed("Merge", "either", "down", "up", kind=INT32, N=2), neg("z", "either", kind=INT32),
]  # fmt: skip
ARRAY = [
    X, scalar("size", 1, INT32), scalar("zero", 0, INT32),
    node("array", "TensorArrayV3", ["size"], dtype=FLOAT, clear_after_read=True),
    typed("TensorArrayWriteV3", "write", "array", "zero", "x", "array:1"), *(record for i in range(2) for record in (
        node(f"read_{i}", "TensorArrayReadV3", ["array", "zero", "write"], dtype=FLOAT), neg(f"y_{i}", f"read_{i}"))),
]  # fmt: skip
QUEUE = [
    node("queue", "FIFOQueueV2", component_types=[FLOAT], shapes=[()]),
    node("next", "QueueDequeueV2", ["queue"], component_types=[FLOAT]), neg("y", "next"),
    node("size", "QueueSizeV2", ["queue"]),
]  # fmt: skip
TABLE = node("table", "HashTableV2", key_dtype=STRING, value_dtype=INT64, shared_name="t")
HANDLES = [
    TABLE, scalar("n", 3, INT32), const("shape", [], INT32),
    node("list", "TensorListReserve", ["shape", "n"], element_dtype=FLOAT, shape_type=INT32), neg("y", "n", kind=INT32),
]  # fmt: skip
HANDLE = [
    node("v", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name="v", container=""),
    node("read", "ReadVariableOp", ["v"], dtype=FLOAT), neg("y", "read"),
]  # fmt: skip
CONTENT = [
    placeholder("path", STRING, ()), node("content", "ReadFile", ["path"]), node("y", "StringLength", ["content"]),
]  # fmt: skip
PATH, ENDS = const("path", "nowhere", STRING), ([STRING], [STRING])
READING = library(
    define("inner", {"path": STRING}, {"out": (STRING, "read:contents:0")}, node("read", "ReadFile", ["path"])),
    define("outer", {"path": STRING}, {"out": (STRING, "call:output:0")}, call("call", "inner", ["path"], *ENDS)),
)
NOTHING = [
    placeholder("unused", FLOAT, (1,)), scalar("constant", 1.0), node("nothing", "NoOp", ["^constant"]),
    const("true", True, BOOL), node("check", "Assert", ["true", "constant"], T=[FLOAT]),
]  # fmt: skip
ODD = [X, typed("NobodyKnowsThisOp", "odd", "x"), neg("y", "odd"), neg("fine", "x")]
DRAWN = [const("shape", [2], INT32), *(typed("RandomUniform", name, "shape", kind=INT32, dtype=FLOAT) for name in "de")]


def lookup(keys: str = "keys") -> list[bytes]:
    return [
        placeholder("x", STRING, (1,)), const("keys", ["a"], STRING), const("values", [5], INT64), TABLE,
        scalar("none", -1, INT64), node("y", "LookupTableFindV2", ["table", "x", "none"], Tin=STRING, Tout=INT64),
        node("initialise", "InitializeTableV2", ["table", keys, "values"], Tkey=STRING, Tval=INT64),
    ]  # fmt: skip


def vocabulary(path: str) -> list[bytes]:
    attrs = {"key_index": -2, "value_index": -1, "vocab_size": -1, "delimiter": "\t"}
    start = node("start", "InitializeTableFromTextFileV2", ["table", "path"], **attrs)
    return [*lookup()[:-1], const("path", path, STRING), start]


LINES = [
    *lookup("lines"), const("path", ["nowhere"], STRING), scalar("zero", 0, INT32),
    node("first", "GatherV2", ["path", "zero", "zero"], Tparams=STRING, Tindices=INT32, Taxis=INT32),
    node("content", "ReadFile", ["first"]), typed("ExpandDims", "lines", "content", "zero", kind=STRING, Tdim=INT32),
]  # fmt: skip

IN_LOOP, IN_BRANCH = "inside a while loop", "in a branch that does not always run"
NO_FETCH, OUTSIDE = "a resource or variant, which cannot be fetched", "reads or writes outside the graph (ReadFile)"
PLANS: dict[str, tuple[list[bytes], str, list[list[str]], dict[str, str]]] = {
    "in a loop": ([LOOP], "y square fixed", [["y"]], {"square": IN_LOOP, "fixed": IN_LOOP}),
    "in a branch": (
        BRANCHES, "y index yes no left right", [["y", "index"]],
        dict.fromkeys(("yes", "no", "left", "right"), IN_BRANCH)),
    "a Merge": (BRANCHES[:-2], "", [["chosen"]], {}),
    "behind a loop in a branch": (AFTER_LOOP, "", [["z"]], {}),
    "one reader": (ARRAY[:-2], "", [["y_0"]], {}),
    "two reads of one array share no run": (ARRAY, "", [["y_0"], ["y_1"]], {}),
    "those that read one share a run": (
        [*ARRAY, typed("Abs", "also_0", "read_0"), typed("Abs", "beside", "x")], "",
        [["y_0", "also_0"], ["y_1"], ["beside"]], {}),
    "a dequeue": (QUEUE, "", [["size"]], {"y": "'next' (QueueDequeueV2) may wait forever (QueueDequeueV2)"}),
    "resources": (HANDLES, "table list y", [["y"]], {"table": NO_FETCH, "list": NO_FETCH}),
    "a variable": (HANDLE, "", [], {"y": "'v' (VarHandleOp) is a variable without a value in the file"}),
    "a file": (CONTENT, "", [], {"y": OUTSIDE}),
    "a file, as a control input": (
        [PATH, node("read", "ReadFile", ["path"]), const("one", 1.0, controls=["^read"]), neg("y", "one")], "", [],
        {"read": OUTSIDE, "y": OUTSIDE}),
    **{f"a file, in {name}": ([PATH, call("y", name, ["path"], *ENDS), READING], "", [], {"y": OUTSIDE})
       for name in ("inner", "outer")},
    "a table whose keys are in a file": (LINES, "", [], {"y": OUTSIDE}),
    "a table of a file": (
        vocabulary("words.txt"), "", [], {"y": "(InitializeTableFromTextFileV2); allow_ops allows it"}),
    "no outputs": (NOTHING, "", [], {}),
    "an unknown op": (ODD, "", [["fine"]], {"y": "'odd' (NobodyKnowsThisOp) is an unknown op"}),
    "several outputs of one node": (
        [X, scalar("axis", 0, INT32), typed("Split", "two", "axis", "x", num_split=2)], "",
        [["two", "two:1"]], {}),
}  # fmt: skip


def plan_of(records: list[bytes], *, allow_ops: bool = False, not_sampled: frozenset[str] = frozenset()) -> FetchPlan:
    return plan_with(Settings(allow_ops=allow_ops), graph(*records), not_sampled=not_sampled)


@pytest.mark.parametrize(("records", "outputs", "groups", "reasons"), PLANS.values(), ids=PLANS)
def test_what_is_fetched(records: list[bytes], outputs: str, groups: list[list[str]], reasons: dict[str, str]) -> None:
    plan = plan_with(Settings(), graph(*records), outputs.split() or None)
    assert [group for group in plan.groups if group] == groups
    assert {each.name for each in plan.skipped} == reasons.keys()
    assert all(reasons[each.name] in each.reason for each in plan.skipped)


@pytest.mark.parametrize(
    ("records", "shapes"),
    [([LOOP], {"y": ()}), (BRANCHES, {"y": (2,), "index": ()}), (ARRAY, {"y_0": (2,), "y_1": (2,)})],
)
def test_what_is_fetched_runs(executor: Executor, records: list[bytes], shapes: dict[str, tuple[int, ...]]) -> None:
    outputs = returned(executor, Builder(*records, producer=1882))
    assert {name: outputs[name].shape for name in shapes} == shapes


@pytest.mark.tensorflow
def test_two_outputs_that_read_one_array_can_both_be_served_otherwise(tmp_path: Path) -> None:
    names = "y_0", "y_1"
    ends = (typed("Exp", f"{name}_postprocessed", name) for name in names)
    p = graph(*(placeholder(name, FLOAT, (2,)) for name in names), *ends)
    proof = operated(tmp_path, graph_bytes(*ARRAY), lambda found: gds.add_postprocessing(found, p)).proof
    assert {o.after for o in proof.compared} == {"y_0", "y_1", "y_0_raw", "y_1_raw"}


def test_ops_that_may_wait_for_ever() -> None:
    waiting = "QueueDequeueManyV2 QueueEnqueueV2 Unstage MapUnstage BarrierTakeMany IteratorGetNext ReaderReadV2 " \
              "CollectiveReduceV2 _Recv"  # fmt: skip
    others = "QueueSizeV2 MatMul StageSize TensorArrayReadV3 IteratorV2 Identity"
    assert [op for op in f"{waiting} {others}".split() if is_blocking(op)] == waiting.split()


def test_reference_variables_are_fed_and_their_assignments_not_fetched() -> None:
    v = node("v", "VariableV2", dtype=FLOAT, shape=(2,), shared_name="", container="")
    assign = typed("Assign", "assign", "v", "start", use_locking=True, validate_shape=True)
    plan = plan_of([v, const("start", [1.0, 2.0]), assign, identity("read", "v"), neg("y", "read")])
    assert (plan.fetches, plan.variables, plan.skipped) == (["y"], ["v"], [])


def test_a_file_is_run_where_that_is_allowed() -> None:
    plan = plan_of(CONTENT, allow_ops=True)
    assert (plan.fetches, plan.skipped, plan.placeholders) == (["y"], [], ["path"])
    assert plan_of(LINES).initializers == []
    assert plan_of(LINES, allow_ops=True).initializers == ["initialise"]


@pytest.mark.tensorflow
def test_a_file_is_read_where_that_is_allowed(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a\nb\n")
    for records, fed, value in ((CONTENT, {"path": str(words)}, "4"), (vocabulary(str(words)), {"x": "b"}, "[1]")):
        data, edit = graph_bytes(*records), lambda g: gds.rename(g, [("y", "z")])
        proof = operated(tmp_path, data, edit, overrides=Overrides(fed), allow_ops=True).proof
        assert [(o.after, o.value) for o in proof.compared] == [("z", value)]


def test_tables_that_are_needed_are_initialised() -> None:
    other = node("other", "HashTableV2", key_dtype=STRING, value_dtype=INT64, shared_name="other")
    start = node("start_other", "InitializeTableV2", ["other", "keys", "values"], Tkey=STRING, Tval=INT64)
    assert plan_of([*lookup(), other, start]).initializers == ["initialise"]


def test_random_ops_are_drawn_once_unless_they_cannot_be() -> None:
    plan = plan_of([*DRAWN[:-1], neg("y", "d")])
    assert (plan.fetches, plan.sampled, plan.random) == (["y"], ["d"], set())
    plan = plan_of([*DRAWN, add("y", "d", "e")], not_sampled=frozenset("e"))
    assert (plan.sampled, plan.random_nodes) == (["d"], {"d": FED, "e": ""})


def test_a_random_op_in_a_loop_is_reported() -> None:
    m = counting_loop()
    m.const("shape", [], "int32", ["^body"])
    m.typed("RandomUniform", "draw", "shape", kind="int32", dtype="float32")
    m.node("number", "Cast", ["draw"], SrcT="float32", DstT="int32")
    next(n for n in m.graph_def.node if n.name == "added").input[1] = "number"
    plan = plan_of([m.bytes()])
    assert (plan.fetches, plan.sampled, plan.random, plan.random_ops) == (["y"], [], {"y"}, ["draw"])
    assert plan.random_nodes == {"draw": ENCLOSED}


def test_only_the_placeholders_that_are_needed_are_fed() -> None:
    assert plan_of([X, placeholder("unused", "resource", ()), neg("y", "x")]).placeholders == ["x"]
