"""What of a graph is run, and what is not: decided without running it, then run."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.graphs import Builder, body_node, counting_loop, func
from support.operating import operated
from support.paths import FIXTURES

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.subject import Subject


def plan_of(m: Builder, outputs: list[str] | None = None, *, allow_ops: bool = False) -> FetchPlan:
    return plan_with(Settings(allow_ops=allow_ops), m.graph(), outputs)


def skipped(plan: FetchPlan) -> dict[str, str]:
    return {s.name: s.reason for s in plan.skipped}


def runs(executor: Executor, m: Builder) -> dict[str, tuple[int, ...]]:
    """Runs all that the plan has; the shapes of what came out."""
    executor.load_bytes("planned", m.bytes())
    executor.loaded("planned")
    subject = Subject(executor, "planned", m.graph(), overrides=Overrides())
    subject.initialize()
    _, pending = subject.start(0, {})
    found = [executor.wait(run) for run in pending]
    return {
        name: output.shape
        for names, summary in zip(subject.plan.groups, found, strict=True)
        for name, output in zip(names, summary.outputs, strict=True)
    }


def branches() -> Builder:
    """A v1 cond: `chosen` merges its branches; `left` and `right` are in them."""
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("which", True, "bool")
    m.node("pivot", "Switch", ["which", "which"], T="bool")
    m.node("yes", "Identity", ["pivot:1"], T="bool")
    m.node("no", "Identity", ["pivot"], T="bool")
    m.node("switch", "Switch", ["x", "which"], T="float32")
    m.node("then", "Neg", ["switch:1"], T="float32")
    m.node("else", "Square", ["switch"], T="float32")
    m.const("in_yes", 7.0, controls=["^yes"])
    m.node("left", "Exp", ["in_yes"], T="float32")
    m.node("right", "Exp", ["else"], T="float32")
    m.node("chosen", "Merge", ["then", "else"], T="float32", N=2)
    m.node("y", "Abs", ["chosen"], T="float32")
    m.node("index", "Neg", ["chosen:1"], T="int32")
    return m


def array_read_twice(*, clear: bool = True, readers: int = 2) -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("size", 1, "int32")
    m.const("zero", 0, "int32")
    m.node("array", "TensorArrayV3", ["size"], dtype="float32", clear_after_read=clear)
    m.node("write", "TensorArrayWriteV3", ["array", "zero", "x", "array:1"], T="float32")
    for i in range(readers):
        m.node(f"read_{i}", "TensorArrayReadV3", ["array", "zero", "write"], dtype="float32")
        m.node(f"y_{i}", "Neg", [f"read_{i}"], T="float32")
    return m


def test_nothing_inside_a_while_frame_is_fetched() -> None:
    plan = plan_of(counting_loop(), ["y", "square", "fixed"])
    assert plan.groups == [["y"]]
    assert skipped(plan) == {"square": "inside a while loop", "fixed": "inside a while loop"}


@pytest.mark.tensorflow
def test_a_loop_runs(executor: Executor) -> None:
    assert runs(executor, counting_loop()) == {"y": ()}


def test_nothing_in_a_branch_is_fetched() -> None:
    plan = plan_of(branches(), ["y", "index", "yes", "no", "left", "right"])
    assert plan.fetches == ["y", "index"]
    reason = "in a branch that may not be taken"
    assert skipped(plan) == {"yes": reason, "no": reason, "left": reason, "right": reason}


@pytest.mark.tensorflow
def test_a_branch_runs(executor: Executor) -> None:
    assert runs(executor, branches()) == {"y": (2,), "index": ()}


def test_of_a_merge_that_is_an_output_the_value_is_fetched() -> None:
    m = branches()
    del m.graph_def.node[-2:]
    assert [node.op for node in m.graph_def.node][-1] == "Merge"
    assert plan_of(m).fetches == ["chosen"]


def test_a_loop_inside_a_branch_and_what_follows_it() -> None:
    m = counting_loop()
    m.const("which", True, "bool")
    m.node("choice", "Switch", ["y", "which"], T="int32")
    m.node("down", "Neg", ["choice"], T="int32")
    m.node("up", "Abs", ["choice:1"], T="int32")
    m.node("either", "Merge", ["down", "up"], T="int32", N=2)
    m.node("z", "Neg", ["either"], T="int32")
    plan = plan_of(m)
    assert plan.fetches == ["z"]


def test_two_reads_of_one_array_do_not_share_a_run() -> None:
    assert plan_of(array_read_twice()).groups == [["y_0"], ["y_1"]]


def test_what_reads_the_same_way_shares_a_run() -> None:
    m = array_read_twice()
    m.node("also_0", "Abs", ["read_0"], T="float32")
    m.node("beside", "Abs", ["x"], T="float32")
    assert plan_of(m).groups == [["y_0", "also_0", "beside"], ["y_1"]]


def test_one_reader_needs_one_run() -> None:
    assert plan_of(array_read_twice(readers=1)).groups == [["y_0"]]


@pytest.mark.tensorflow
def test_an_array_that_is_read_twice_runs(executor: Executor) -> None:
    assert runs(executor, array_read_twice()) == {"y_0": (2,), "y_1": (2,)}


@pytest.mark.tensorflow
def test_two_outputs_that_read_one_array_can_both_be_served_otherwise(tmp_path: Path) -> None:
    p = Builder()
    for name in ("y_0", "y_1"):
        p.placeholder(name, "float32", (2,))
        p.node(f"{name}_postprocessed", "Exp", [name], T="float32")

    def edit(graph: Graph) -> EditResult:
        return gds.add_postprocessing(graph, p.graph("post.pb"))

    proof = operated(tmp_path, array_read_twice(), edit).proof
    assert {o.after for o in proof.compared} == {"y_0", "y_1", "y_0_raw", "y_1_raw"}


def test_a_dequeue_is_not_waited_for() -> None:
    m = Builder()
    m.node("queue", "FIFOQueueV2", component_types=["float32"], shapes=[()])
    m.node("next", "QueueDequeueV2", ["queue"], component_types=["float32"])
    m.node("y", "Neg", ["next"], T="float32")
    m.node("size", "QueueSizeV2", ["queue"])
    plan = plan_of(m)
    assert plan.fetches == ["size"]
    assert skipped(plan) == {"y": "'next' (QueueDequeueV2) may wait for ever (QueueDequeueV2)"}


@pytest.mark.parametrize(
    "op",
    "QueueDequeueManyV2 QueueEnqueueV2 Unstage MapUnstage BarrierTakeMany IteratorGetNext ReaderReadV2 "
    "CollectiveReduceV2 _Recv".split(),
)
def test_ops_that_may_wait_for_ever(op: str) -> None:
    from gdsurgeon.ops.kinds import is_blocking

    assert is_blocking(op)


@pytest.mark.parametrize("op", "QueueSizeV2 MatMul StageSize TensorArrayReadV3 IteratorV2 Identity".split())
def test_ops_that_do_not_wait(op: str) -> None:
    from gdsurgeon.ops.kinds import is_blocking

    assert not is_blocking(op)


def test_resources_are_not_fetched() -> None:
    m = Builder()
    m.node("table", "HashTableV2", key_dtype="string", value_dtype="int64", shared_name="t")
    m.const("n", 3, "int32")
    m.const("shape", [], "int32")
    m.node("list", "TensorListReserve", ["shape", "n"], element_dtype="float32", shape_type="int32")
    m.node("y", "Neg", ["n"], T="int32")
    plan = plan_of(m, ["table", "list", "y"])
    assert plan.fetches == ["y"]
    assert skipped(plan) == dict.fromkeys(("table", "list"), "a resource or variant, which cannot be fetched")


def test_a_variable_without_a_value_is_not_read() -> None:
    m = Builder()
    m.node("v", "VarHandleOp", dtype="float32", shape=(2,), shared_name="v", container="")
    m.node("read", "ReadVariableOp", ["v"], dtype="float32")
    m.node("y", "Neg", ["read"], T="float32")
    plan = plan_of(m)
    assert plan.fetches == []
    assert skipped(plan) == {"y": "'v' (VarHandleOp) is a variable, whose value is not in the file"}


def test_reference_variables_are_fed_and_their_assignments_not_fetched() -> None:
    m = Builder()
    m.node("v", "VariableV2", dtype="float32", shape=(2,), shared_name="", container="")
    m.const("start", [1.0, 2.0])
    m.node("assign", "Assign", ["v", "start"], T="float32", use_locking=True, validate_shape=True)
    m.node("read", "Identity", ["v"], T="float32")
    m.node("y", "Neg", ["read"], T="float32")
    plan = plan_of(m)
    assert (plan.fetches, plan.variables, plan.skipped) == (["y"], ["v"], [])


def reads_a_file() -> Builder:
    m = Builder()
    m.placeholder("path", "string", ())
    m.node("content", "ReadFile", ["path"])
    m.node("y", "StringLength", ["content"])
    return m


def test_a_file_is_read_only_where_that_is_allowed() -> None:
    reason = "'content' (ReadFile) reaches outside (ReadFile); allow_ops runs it"
    assert skipped(plan_of(reads_a_file())) == {"y": reason}
    plan = plan_of(reads_a_file(), allow_ops=True)
    assert (plan.fetches, plan.skipped, plan.placeholders) == (["y"], [], ["path"])


@pytest.mark.tensorflow
def test_a_file_is_read_where_that_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "content.txt"
    file.write_text("twelve bytes")
    proof = operated(
        tmp_path,
        reads_a_file(),
        lambda g: gds.rename(g, [("y", "z")]),
        overrides=Overrides({"path": str(file)}),
        allow_ops=True,
    ).proof
    assert [(o.after, o.value) for o in proof.compared] == [("z", "12")]


@pytest.mark.parametrize("how", ["control", "call", "through a second function"])
def test_a_file_is_not_read_on_detours_either(how: str) -> None:
    m = Builder()
    m.const("path", "nowhere", "string")
    if how == "control":
        m.node("read", "ReadFile", ["path"])
        m.const("one", 1.0, controls=["^read"])
        m.node("y", "Neg", ["one"], T="float32")
    else:
        inner = m.function("inner", {"path": "string"}, {"out": "string"})
        body_node(inner, "read", "ReadFile", ["path"])
        inner.ret["out"] = "read:contents:0"
        outer = m.function("outer", {"path": "string"}, {"out": "string"})
        call = {"Tin": ["string"], "Tout": ["string"], "config": "", "config_proto": "", "executor_type": ""}
        body_node(outer, "call", "PartitionedCall", ["path"], f=func("inner"), **call)
        outer.ret["out"] = "call:output:0"
        name = "inner" if how == "call" else "outer"
        m.node("y", "PartitionedCall", ["path"], f=func(name), **call)
    plan = plan_of(m)
    assert plan.fetches == []
    assert "reaches outside (ReadFile)" in skipped(plan)["y"]


def lookup(keys: str = "keys") -> Builder:
    m = Builder()
    m.placeholder("x", "string", (1,))
    m.const("keys", ["a"], "string")
    m.const("values", [5], "int64")
    m.const("none", -1, "int64")
    m.node("table", "HashTableV2", key_dtype="string", value_dtype="int64", shared_name="t")
    m.node("initialise", "InitializeTableV2", ["table", keys, "values"], Tkey="string", Tval="int64")
    m.node("y", "LookupTableFindV2", ["table", "x", "none"], Tin="string", Tout="int64")
    return m


def test_tables_that_are_needed_are_initialised() -> None:
    m = lookup()
    m.node("other", "HashTableV2", key_dtype="string", value_dtype="int64", shared_name="other")
    m.node("start_other", "InitializeTableV2", ["other", "keys", "values"], Tkey="string", Tval="int64")
    assert plan_of(m).initializers == ["initialise"]


def test_a_table_does_not_reach_outside_for_its_keys() -> None:
    m = lookup("lines")
    m.const("path", ["nowhere"], "string")
    m.const("zero", 0, "int32")
    m.node("first", "GatherV2", ["path", "zero", "zero"], Tparams="string", Tindices="int32", Taxis="int32")
    m.node("content", "ReadFile", ["first"])
    m.node("lines", "ExpandDims", ["content", "zero"], T="string", Tdim="int32")
    plan = plan_of(m)
    assert plan.initializers == [] and plan.fetches == []
    assert "reaches outside (ReadFile)" in skipped(plan)["y"]
    assert plan_of(m, allow_ops=True).initializers == ["initialise"]


def vocabulary(path: str) -> Builder:
    m = lookup()
    m.const("path", path, "string")
    del m.graph_def.node[5]
    m.node(
        "start",
        "InitializeTableFromTextFileV2",
        ["table", "path"],
        key_index=-2,
        value_index=-1,
        vocab_size=-1,
        delimiter="\t",
    )
    return m


def test_a_table_from_a_file_is_said_to_reach_outside() -> None:
    plan = plan_of(vocabulary("words.txt"))
    assert plan.fetches == []
    assert "reaches outside (InitializeTableFromTextFileV2); allow_ops runs it" in skipped(plan)["y"]


@pytest.mark.tensorflow
def test_a_table_from_a_file_is_read_where_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a\nb\n")
    proof = operated(
        tmp_path,
        vocabulary(str(tmp_path / "words.txt")),
        lambda g: gds.rename(g, [("y", "z")]),
        overrides=Overrides({"x": "b"}),
        allow_ops=True,
    ).proof
    assert [(o.after, o.value) for o in proof.compared] == [("z", "[1]")]


def test_a_random_op_is_drawn_once() -> None:
    m = Builder()
    m.const("shape", [2], "int32")
    m.node("draw", "RandomUniform", ["shape"], T="int32", dtype="float32")
    m.node("y", "Neg", ["draw"], T="float32")
    plan = plan_of(m)
    assert (plan.fetches, plan.draws, plan.random) == (["y"], ["draw"], set())


def test_a_random_op_in_a_loop_is_reported() -> None:
    m = counting_loop()
    m.const("shape", [], "int32", ["^body"])
    m.node("draw", "RandomUniform", ["shape"], T="int32", dtype="float32")
    m.node("number", "Cast", ["draw"], SrcT="float32", DstT="int32")
    sum_ = next(n for n in m.graph_def.node if n.name == "added")
    sum_.input[1] = "number"
    plan = plan_of(m)
    assert plan.fetches == ["y"]
    assert (plan.draws, plan.random, plan.random_ops) == ([], {"y"}, ["draw"])
    assert (plan.chance, plan.enclosed) == (["draw"], ["draw"])


def test_what_is_not_an_output() -> None:
    m = Builder()
    m.placeholder("unused", "float32", (1,))
    m.const("constant", 1.0)
    m.node("nothing", "NoOp", ["^constant"])
    m.const("true", True, "bool")
    m.node("check", "Assert", ["true", "constant"], T=["float32"])
    assert plan_of(m).fetches == [] and plan_of(m).skipped == []


def test_an_unknown_op_is_skipped_with_its_name_and_so_is_what_reads_it() -> None:
    m = Builder()
    m.placeholder("x", "float32", (1,))
    m.node("odd", "NobodyKnowsThisOp", ["x"], T="float32")
    m.node("y", "Neg", ["odd"], T="float32")
    m.node("fine", "Neg", ["x"], T="float32")
    plan = plan_of(m)
    assert plan.fetches == ["fine"]
    assert skipped(plan) == {"y": "'odd' (NobodyKnowsThisOp) is an op that is not known here"}


def test_only_the_placeholders_that_are_needed_are_fed() -> None:
    m = Builder()
    m.placeholder("x", "float32", (1,))
    m.placeholder("unused", "resource", ())
    m.node("y", "Neg", ["x"], T="float32")
    assert plan_of(m).placeholders == ["x"]


def test_all_outputs_of_an_output_node_are_fetched() -> None:
    m = Builder()
    m.placeholder("x", "float32", (1, 4))
    m.const("axis", 1, "int32")
    m.node("halves", "Split", ["axis", "x"], T="float32", num_split=2)
    assert plan_of(m).fetches == ["halves", "halves:1"]


@pytest.mark.parametrize(
    ("fixture", "fetches"),
    [
        ("classifier.pb", ["classes"]),
        ("control_edges.pb", ["total", "swapped"]),
        ("functions_tf2.pb", ["Identity"]),
        ("tiny.pbtxt", ["y"]),
        ("while_v1.pb", ["while/Exit", "sum"]),
    ],
)
def test_the_plans_of_the_fixtures(fixture: str, fetches: list[str]) -> None:
    plan = plan_with(Settings(), gds.load(str(FIXTURES / fixture)))
    assert plan.groups == [fetches]
    assert plan.skipped == []


def test_which_random_ops_are_in_a_loop_or_a_function_and_which_are_not_drawn_for_another_reason() -> None:
    m = Builder()
    m.const("shape", [2], "int32")
    for name in ("draw", "other"):
        m.node(name, "RandomUniform", ["shape"], T="int32", dtype="float32")
    m.node("y", "AddV2", ["draw", "other"], T="float32")
    plan = plan_with(Settings(), m.graph(), undrawable=frozenset(["other"]))
    assert (plan.draws, plan.chance, plan.enclosed) == (["draw"], ["draw", "other"], [])
