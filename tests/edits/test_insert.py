"""insert: a graph with one input and one output, spliced into a tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import graphs
from support.expecting import expect, refuse
from support.graph_editor_running import float32, int32, run
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    Builder,
    add,
    const,
    graph,
    graph_bytes,
    identity,
    node,
    placeholder,
    scalar,
)
from support.operating import operated

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.edits.claims import SameGiven, SamePart
from gdsurgeon.edits.insert import insert
from gdsurgeon.errors import EditError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Output
from gdsurgeon.runtime.client import Worker


def refused(found: Graph, tensor: str | Output, body: Graph, words: str, *, scope: str = "") -> EditError:
    """The error of an insertion, after which both graphs are as they were."""
    return refuse(found, words, lambda g: insert(g, tensor, body, scope=scope), body)


def model() -> list[bytes]:
    """x -> a -> y, z; z reads a twice."""
    return [
        placeholder("x", FLOAT, (2,)), node("a", "Neg", ["x"], T=FLOAT), node("y", "Abs", ["a"], T=FLOAT),
        node("z", "Mul", ["a", "a"], T=FLOAT),
    ]  # fmt: skip


def body() -> list[bytes]:
    """in * 10 + 1."""
    return [
        placeholder("in", FLOAT, (2,)), scalar("ten", 10), node("tens", "Mul", ["in", "ten"], T=FLOAT),
        scalar("one", 1), add("out", "tens", "one"),
    ]  # fmt: skip


@pytest.mark.tensorflow
def test_everything_that_read_the_tensor_reads_the_result(worker: Worker) -> None:
    found, part = graph(*model()), graph(*body(), name="body.pb")
    result = expect(
        found,
        lambda g: insert(g, "a", part),
        [
            *model()[:2],
            scalar("ten", 10),
            node("tens", "Mul", ["a", "ten"], T=FLOAT),
            scalar("one", 1),
            add("out", "tens", "one"),
            node("y", "Abs", ["out"], T=FLOAT),
            node("z", "Mul", ["out", "out"], T=FLOAT),
        ],
    )
    assert sorted(result.intent.rewired) == [
        Rewired("y", 0, "a", "out"), Rewired("z", 0, "a", "out"), Rewired("z", 1, "a", "out")
    ]  # fmt: skip
    assert result.intent.added == ["ten", "tens", "one", "out"]
    assert result.intent.copied == {"ten": "ten", "tens": "tens", "one": "one", "out": "out"}
    assert result.notes == result.warnings == []
    (given,) = [c for c in result.claims if isinstance(c, SameGiven)]
    assert SamePart(part, {"in": "a"}, (("out", "out"),), result.intent.copied) in result.claims
    assert given == SameGiven({"a": "out"}, (("y", "y"), ("z", "z")), "edited(x) = original(x, a := out)")
    assert run(worker, found, "y", "z", fed={"x": float32([1, -2])}) == [[9, 21], [81, 441]]


def test_only_readers_are_written_anew() -> None:
    found = graph(*model(), identity("w", "x"))
    before = graphs.bodies_by_name(found)
    insert(found, "a", graph(*body()))
    after = graphs.bodies_by_name(found)
    assert {n for n in before if after[n] != before[n]} == {"y", "z"}


def test_the_tensor_may_be_given_itself() -> None:
    found = graph(*model())
    insert(found, found["a"].output, graph(*body()))
    assert graphs.inputs(found)["y"] == ["out"]


def test_output_1_of_a_node() -> None:
    records = [const("axis", [0], INT32, ()), placeholder("v", FLOAT, (4,)),
               node("s", "Split", ["axis", "v"], T=FLOAT, num_split=2), add("y", "s", "s:1")]  # fmt: skip
    found = graph(*records)
    insert(found, "s:1", graph(*body()))
    assert graphs.inputs(found)["y"] == ["s", "out"]
    assert graphs.inputs(found)["tens"] == ["s:1", "ten"]


def test_an_input_of_the_graph() -> None:
    found = graph(*model())
    insert(found, "x", graph(*body()))
    assert graphs.inputs(found)["a"] == ["out"]
    assert graphs.inputs(found)["tens"] == ["x", "ten"]


def test_control_inputs_never_move() -> None:
    found = graph(*model(), identity("w", "x", "^a"), node("n", "NoOp", ["^a"]), node("m", "Abs", ["a", "^a"], T=FLOAT))
    insert(found, "a", graph(*body()))
    inputs = graphs.inputs(found)
    assert (inputs["w"], inputs["n"], inputs["m"]) == (["x", "^a"], ["^a"], ["out", "^a"])


def test_control_inputs_and_colocations_of_the_body_come_along() -> None:
    part = graph(placeholder("in", FLOAT, (2,)), const("k", [1], _class=["loc:@in"]), node("ready", "NoOp", ["^in"]),
                 node("out", "Neg", ["in", "^ready"], T=FLOAT, _class=["loc:@k"]))  # fmt: skip
    found = graph(*model())
    insert(found, "a", part)
    assert graphs.inputs(found)["out"] == ["a", "^ready"]
    assert graphs.inputs(found)["ready"] == ["^a"]
    assert graphs.colocations(found) == {"k": [b"loc:@a"], "out": [b"loc:@k"]}


def test_colocations_with_the_tensor_stay() -> None:
    found = graph(*model(), identity("w", "x", _class=["loc:@a"]))
    insert(found, "a", graph(*body()))
    assert graphs.colocations(found) == {"w": [b"loc:@a"]}


# -- names ---------------------------------------------------------------------------------------------------


def test_names_that_are_taken_are_made_unique() -> None:
    found = graph(*model(), const("ten", [10]), const("out", [1]))
    result = insert(found, "a", graph(*body(), name="body.pb"))
    inputs = graphs.inputs(found)
    assert (inputs["y"], inputs["out_1"], inputs["tens"]) == (["out_1"], ["tens", "one"], ["a", "ten_1"])
    assert result.notes == [
        f"'{name}' of body.pb has become '{name}_1': the name was taken" for name in ("ten", "out")
    ]  # fmt: skip


def test_the_placeholder_of_the_body_needs_no_name() -> None:
    found = graph(*model(), const("in", [1]))
    assert insert(found, "a", graph(*body())).notes == []
    assert graphs.ops(found)["in"] == "Const"


def test_under_a_scope() -> None:
    found = graph(*model(), const("ten", [10]))
    result = insert(found, "a", graph(*body()), scope="s/")
    assert result.intent.added == ["s/ten", "s/tens", "s/one", "s/out"]
    assert graphs.inputs(found)["z"] == ["s/out", "s/out"]
    assert graphs.inputs(found)["s/out"] == ["s/tens", "s/one"]
    assert result.notes == []


def test_under_a_scope_that_is_in_use_by_other_names() -> None:
    found = graph(*model(), const("s/other", [10]))
    insert(found, "a", graph(*body()), scope="s")
    assert graphs.inputs(found)["z"] == ["s/out", "s/out"]


def test_under_a_scope_where_a_name_is_taken() -> None:
    """Refused, or made unique: both sides of a name are never mixed up."""
    found = graph(*model(), const("s/ten", [10]))
    try:
        result = insert(found, "a", graph(*body()), scope="s")
    except EditError:
        assert graphs.written(found) == graph_bytes(*model(), const("s/ten", [10]))
    else:
        assert result.intent.copied["ten"] == "s/ten_1"
        assert graphs.inputs(found)["s/tens"] == ["a", "s/ten_1"]


def test_a_scope_that_tensorflow_does_not_take_is_refused() -> None:
    for scope in ("_s", "a b", "s:0"):
        refused(graph(*model()), "a", graph(*body()), "is not a legal node name", scope=scope)


def test_several_insertions_at_one_place() -> None:
    found = graph(*model())
    for _ in range(3):
        insert(found, "a", graph(*body()))
    chain, name = [], "y"
    while name != "a":
        name = graphs.inputs(found)[name][0]
        chain.append(name)
    assert len(chain) == 7 and chain[-1] == "a"
    assert check(from_bytes(graphs.written(found))).faults == []


# -- what does not fit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([const("k", [1, 1]), identity("out", "k")], "body.pb has 0 placeholders: it must have one"),
        ([placeholder("p", FLOAT, (2,)), placeholder("q", FLOAT, (2,)), add("out", "p", "q")],
         r"body.pb has 2 placeholders \('p', 'q'\): it must have one"),
        ([placeholder("p", FLOAT, (2,))], "body.pb has 0 outputs: it must have one"),
        ([placeholder("p", FLOAT, (2,)), identity("r", "p"), identity("s", "p")],
         r"body.pb has 2 outputs \('r', 's'\): it must have one"),
        ([const("axis", [0], INT32, ()), placeholder("p", FLOAT, (2,)),
          node("s", "Split", ["axis", "p"], T=FLOAT, num_split=2)], r"body.pb has 2 outputs \('s', 's:1'\)"),
    ],
    ids=["no-input", "two-inputs", "no-output", "two-outputs", "split"],
)  # fmt: skip
def test_one_input_and_one_output(records: list[bytes], words: str) -> None:
    refused(graph(*model()), "a", graph(*records, name="body.pb"), words)


def test_an_input_with_a_default_is_none_that_must_be_given() -> None:
    part = graph(placeholder("in", FLOAT, (2,)), scalar("d", 1), node("p", "PlaceholderWithDefault", ["d"],
                 dtype=FLOAT, shape=()), add("out", "in", "p"))  # fmt: skip
    found = graph(*model())
    insert(found, "a", part)
    assert graphs.inputs(found)["out"] == ["a", "p"]
    assert graphs.ops(found)["p"] == "PlaceholderWithDefault"


def test_an_unused_placeholder_counts() -> None:
    part = graph(placeholder("in", FLOAT, (2,)), placeholder("unused", FLOAT, (2,)), identity("out", "in"))
    refused(graph(*model()), "a", part, "2 placeholders")


def test_the_dtype_of_the_input() -> None:
    part = graph(placeholder("in", INT32, (2,)), node("out", "Cast", ["in"], SrcT=INT32, DstT=FLOAT), name="body.pb")
    refused(graph(*model(), const("k", [1, 2])), "x", part,
            r"'x' of model.pb is float32 \[2\], and 'in' of body.pb takes int32 \[2\]")  # fmt: skip


def test_the_dtype_of_the_output() -> None:
    part = graph(placeholder("in", FLOAT, (2,)), node("out", "Cast", ["in"], SrcT=FLOAT, DstT=INT32), name="body.pb")
    error = refused(graph(*model()), "x", part, "int32")
    assert "'out'" in error.message and "'x'" in error.message


def test_the_shape_of_the_input() -> None:
    part = graph(placeholder("in", FLOAT, (3,)), identity("out", "in"), name="body.pb")
    refused(graph(*model()), "x", part, r"'x' of model.pb is float32 \[2\], and 'in' of body.pb takes float32 \[3\]")


def test_a_known_shape_of_the_output() -> None:
    shapes = graphs.encode_len(1, graphs.encode_len(7, graphs.shape_proto([3])))
    part = graph(placeholder("in", FLOAT, (2,)), const("k", [1, 1, 1]),
                 node("out", "MyOp", ["in", "k"], T=FLOAT, _output_shapes=shapes))  # fmt: skip
    refused(graph(*model()), "x", part, r"float32 \[3\]|unknown")


def test_unknown_shapes_fit() -> None:
    for shape in (None, (-1,)):
        found = graph(*model())
        insert(found, "x", graph(placeholder("in", FLOAT, shape), identity("out", "in")))
        assert graphs.inputs(found)["a"] == ["out"]


def test_nobody_reads_the_tensor() -> None:
    error = refused(graph(*model()), "y", graph(*body()), "nothing would change: nobody reads 'y'")
    assert hint_of(error) == "add-postprocessing puts a graph behind an output"
    refused(graph(*model(), node("n", "NoOp", ["^y"])), "y", graph(*body()), "nobody reads 'y'")


@pytest.mark.parametrize(
    ("tensor", "words"),
    [("nope", "has no node 'nope'"), ("a:1", "has 1 output"), ("^a", "is not the name of a tensor"), ("", "")],
)
def test_what_names_no_tensor(tensor: str, words: str) -> None:
    refused(graph(*model()), tensor, graph(*body()), words or "node")


def test_a_tensor_of_another_graph() -> None:
    refused(graph(*model()), graph(*model())["a"].output, graph(*body()), "another graph")


# -- control flow --------------------------------------------------------------------------------------------


def doubling(kind: bytes = INT32) -> list[bytes]:
    """Without a constant of its own, so that all of it runs where its input does."""
    return [placeholder("in", kind, ()), add("out", "in", "in", kind=kind)]


def plus_one() -> list[bytes]:
    return [placeholder("in", INT32, ()), scalar("one", 1, INT32), add("out", "in", "one", kind=INT32)]


@pytest.mark.tensorflow
def test_inside_a_loop_without_constants(worker: Worker) -> None:
    found = graph(*graphs.loop())
    insert(found, "w/Add", graph(*doubling()), scope="b")  # i = 2 (i + 1): 0, 2, 6, 14
    assert graphs.inputs(found)["w/NextIteration"] == ["b/out"]
    assert run(worker, found, "out", fed={"n": int32(10)}) == [14]


@pytest.mark.tensorflow
@pytest.mark.parametrize("tensor", ["w/Add", "w/Identity", "w/Switch:1", "w/Merge"])
def test_inside_a_loop_with_a_constant(tensor: str, worker: Worker) -> None:
    """A constant without inputs runs outside of the frame: what reads it and the loop's tensor does not load. It waits
    for something in the frame, or the edit is refused and says why."""
    found = graph(*graphs.loop())
    try:
        insert(found, tensor, graph(*plus_one()), scope="b")
    except EditError as error:
        assert "loop" in error.message
        assert graphs.written(found) == graph_bytes(*graphs.loop())
        return
    # What is compared with the limit: i, or (behind the Merge, of which all of the loop reads) i + 1.
    expected = {"w/Add": 10, "w/Identity": 10, "w/Switch:1": 10, "w/Merge": 11}[tensor]
    assert run(worker, found, "out", fed={"n": int32(10)}) == [expected]


@pytest.mark.tensorflow
def test_in_front_of_a_loop_and_behind_it(worker: Worker) -> None:
    for tensor, n, expected in (("n", 5, 6), ("w/Exit", 5, 6), ("zero", 5, 5)):
        found = graph(*graphs.loop())
        insert(found, tensor, graph(*plus_one(), name="b.pb"), scope="b")
        assert run(worker, found, "out", fed={"n": int32(n)}) == [expected]


@pytest.mark.tensorflow
@pytest.mark.parametrize("tensor", ["w/Merge", "w/Exit"])
def test_a_loop_in_a_body(tensor: str, worker: Worker) -> None:
    """A body with a loop of the same frame name; inside a loop, it is a loop in the loop, or refused."""
    part = [r.replace(b"out", b"res") for r in graphs.loop()]
    found = graph(*graphs.loop())
    try:
        insert(found, tensor, graph(*part), scope="b")
    except EditError as error:
        assert tensor == "w/Merge" and "loop" in error.message
        return
    assert run(worker, found, "out", fed={"n": int32(4)}) == [4]


def conditional() -> list[bytes]:
    """Where p: -(x); else |x|."""
    return [
        placeholder("p", BOOL, ()), placeholder("x", INT32, ()), node("c/s", "Switch", ["x", "p"], T=INT32),
        node("c/t", "Neg", ["c/s:1"], T=INT32), node("c/f", "Abs", ["c/s"], T=INT32),
        node("c/m", "Merge", ["c/f", "c/t"], T=INT32, N=2), identity("y", "c/m", kind=INT32),
    ]  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("p", [True, False])
@pytest.mark.parametrize("tensor", ["c/t", "c/s:1", "c/f"])
def test_inside_a_branch(tensor: str, p: bool, worker: Worker) -> None:
    found = graph(*conditional())
    insert(found, tensor, graph(*plus_one()))
    value = 5
    expected = {"c/t": -value + 1 if p else value, "c/s:1": -(value + 1) if p else value,
                "c/f": -value if p else value + 1}[tensor]  # fmt: skip
    assert run(worker, found, "y", fed={"p": np.bool_(p), "x": int32(value)}) == [expected]


@pytest.mark.tensorflow
def test_a_body_with_a_table(worker: Worker) -> None:
    """Its initialiser waits for nothing, and is there to be run."""
    part = graph(
        placeholder("in", INT32, (1,)),
        node("t", "HashTableV2", key_dtype=INT32, value_dtype=INT32, shared_name="t"),
        const("keys", [3], INT32), const("values", [30], INT32), const("d", [-1], INT32, ()),
        node("init", "InitializeTableV2", ["t", "keys", "values"], Tkey=INT32, Tval=INT32),
        node("out", "LookupTableFindV2", ["t", "in", "d"], Tin=INT32, Tout=INT32),
    )  # fmt: skip
    found = graph(placeholder("x", INT32, (1,)), node("y", "Neg", ["x"], T=INT32))
    insert(found, "x", part)
    assert run(worker, found, "y", fed={"x": int32([3])}, first=["init"]) == [[-30]]


def test_functions_come_along() -> None:
    def call(name: str, source: str) -> bytes:
        return node(name, "PartitionedCall", [source], f=graphs.func("F"), Tin=graphs.dtypes(FLOAT),
                    Tout=graphs.dtypes(FLOAT))  # fmt: skip

    mine = graphs.function("F", node("y", "Neg", ["x"], T=FLOAT))
    other = graphs.function("F", node("y", "Exp", ["x"], T=FLOAT))
    part = graph(placeholder("in"), call("out", "in"), trailer=graphs.library(other) + graphs.VERSIONS)
    found = graph(placeholder("x"), call("y", "x"), trailer=graphs.library(mine) + graphs.VERSIONS)
    result = insert(found, "x", part)
    assert result.intent.renamed_functions == {"F": "F_1"}
    assert graphs.attrs(found, "out")["f"].func.name == "F_1"
    assert graphs.attrs(found, "y")["f"].func.name == "F"


# -- proven --------------------------------------------------------------------------------------------------


def built(name: str, op: str, number: float) -> Builder:
    p = Builder()
    p.placeholder(name, "float32", (2,))
    p.const("number", number)
    p.node("result", op, [name, "number"], T="float32")
    return p


def built_model() -> Builder:
    m = built("x", "Mul", 3.0)
    m.node("y", "Neg", ["result"], T="float32")
    m.node("z", "Sub", ["y", "result"], T="float32")
    m.node("w", "Abs", ["x"], T="float32")
    return m


@pytest.mark.tensorflow
@pytest.mark.parametrize("tensor", ["x", "result", "number", "y"])
def test_an_insertion_is_proven(tensor: str, tmp_path: Path) -> None:
    p = Builder()
    p.placeholder("in", "float32", None)
    p.const("number", 7.0)
    p.node("shifted", "AddV2", ["in", "number"], T="float32")
    part = p.graph("body.pb")
    outcome = operated(tmp_path, built_model(), lambda g: insert(g, tensor, part), overrides=Overrides({"x": "[1, 2]"}))
    assert {o.after for o in outcome.proof.compared} >= {"shifted", "z", "w"}
    values = {o.after: o.value for o in outcome.proof.compared}
    assert values["z"] == {"x": "[-48, -54]", "result": "[-20, -26]", "number": "[-20, -40]", "y": "[1, -5]"}[tensor]


@pytest.mark.tensorflow
def test_an_insertion_into_a_random_model_is_proven(tmp_path: Path) -> None:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("shape", [2], "int32")
    m.node("draw", "RandomUniform", ["shape"], T="int32", dtype="float32")
    m.node("sum", "AddV2", ["x", "draw"], T="float32")
    m.node("y", "Neg", ["sum"], T="float32")
    m.node("z", "Abs", ["draw"], T="float32")
    p = Builder()
    p.placeholder("in", "float32", (2,))
    p.const("shape", [2], "int32")
    p.node("noise", "RandomStandardNormal", ["shape"], T="int32", dtype="float32", seed=3)
    p.node("out", "AddV2", ["in", "noise"], T="float32")
    part = p.graph("noise.pb")
    for tensor in ("x", "draw", "sum"):
        outcome = operated(tmp_path, m, lambda g, t=tensor: insert(g, t, part))  # type: ignore[misc]
        assert {o.after for o in outcome.proof.compared} >= {"out", "y", "z"}
        (tmp_path / "out.pb").unlink()
