"""import: another graph beside a model, in one file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import graphs
from support.expecting import expect
from support.graph_editor_running import float32, run
from support.graphs import (
    FLOAT,
    INT32,
    Builder,
    add,
    body_node,
    const,
    func,
    graph,
    graph_bytes,
    identity,
    node,
    placeholder,
    scalar,
)
from support.importing import Pairs, other_loop, ours, refused, theirs
from support.operating import operated

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.claims import SameOutputs, SamePart
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.errors import EditError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.runtime.client import Worker

# -- names ---------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_under_a_scope(worker: Worker) -> None:
    found, other = graph(*ours()), graph(*theirs(), name="other.pb")
    result = expect(
        found,
        lambda g: import_graph(g, other, scope="o"),
        [
            *ours(),
            placeholder("o/x", FLOAT, (2,)),
            const("o/k", [10, 10]),
            node("o/ready", "NoOp", ["^o/k"]),
            node("o/y", "Sub", ["o/x", "o/k", "^o/ready"], T=FLOAT, device="/cpu:0", _class=["loc:@o/k"]),
        ],
    )
    assert result.intent.added == ["o/x", "o/k", "o/ready", "o/y"]
    assert result.intent.copied == {"x": "o/x", "k": "o/k", "ready": "o/ready", "y": "o/y"}
    assert result.notes == result.warnings == []
    assert result.claims == (SameOutputs(), SamePart(other, {}, (("y", "o/y"),), result.intent.copied))
    fed = {"x": float32([1, 2]), "o/x": float32([30, 40])}
    assert run(worker, found, "y", "o/y", fed=fed) == [[-1, -2], [20, 30]]


@pytest.mark.parametrize("scope", ["o/", "/o", "o", "o//"])
def test_a_scope_has_one_slash_at_its_end(scope: str) -> None:
    found = graph(*ours())
    import_graph(found, graph(*theirs()), scope=scope)
    assert graphs.names(found) == ["x", "y", "o/x", "o/k", "o/ready", "o/y"]


def test_a_scope_of_several_parts() -> None:
    found = graph(*ours(), identity("a/b", "x"))
    import_graph(found, graph(*theirs()), scope="a/c")
    assert graphs.names(found)[3:] == ["a/c/x", "a/c/k", "a/c/ready", "a/c/y"]


@pytest.mark.parametrize("scope", ["used", "node", "used/deep"])
def test_a_scope_that_is_in_use_is_refused(scope: str) -> None:
    records = [*ours(), identity("used/deep/z", "x"), identity("node", "x")]
    refused(graph(*records), graph(*theirs()), f"the scope '{scope}' is in use", scope=scope)


@pytest.mark.parametrize("scope", ["use", "used_1", "nod", "node_1", "y1"])
def test_a_scope_that_is_only_like_one_in_use(scope: str) -> None:
    found = graph(*ours(), identity("used/deep/z", "x"), identity("node", "x"))
    import_graph(found, graph(*theirs()), scope=scope)
    assert f"{scope}/y" in found


@pytest.mark.parametrize("scope", ["_o", "a b", "-o", "o:0", "^o"])
def test_a_scope_that_tensorflow_does_not_take_is_refused(scope: str) -> None:
    refused(graph(*ours()), graph(*theirs()), "is not a legal node name", scope=scope)


@pytest.mark.tensorflow
def test_without_a_scope_names_that_are_taken_are_made_unique(worker: Worker) -> None:
    found = graph(*ours())
    result = expect(
        found,
        lambda g: import_graph(g, graph(*theirs(), name="other.pb")),
        [
            *ours(),
            placeholder("x_1", FLOAT, (2,)),
            *theirs()[1:3],
            node("y_1", "Sub", ["x_1", "k", "^ready"], T=FLOAT, device="/cpu:0", _class=["loc:@k"]),
        ],
    )
    assert result.notes == [
        "'x' of other.pb has become 'x_1': the name was taken", "'y' of other.pb has become 'y_1': the name was taken",
    ]  # fmt: skip
    fed = {"x": float32([1, 2]), "x_1": float32([30, 40])}
    assert run(worker, found, "y", "y_1", fed=fed) == [[-1, -2], [20, 30]]


def test_names_that_are_free_stay_and_so_do_their_bytes() -> None:
    found = graph(placeholder("a", FLOAT, (2,)), node("b", "Neg", ["a"], T=FLOAT))
    expect(
        found,
        lambda g: import_graph(g, graph(*theirs())),
        [placeholder("a", FLOAT, (2,)), node("b", "Neg", ["a"], T=FLOAT), *theirs()],
    )
    assert graphs.bodies(found)[2:] == graphs.bodies(graph_bytes(*theirs()))


def test_a_new_name_is_none_that_others_have() -> None:
    found = graph(*ours(), const("x_1", [1]))
    other = graph(*theirs(), const("y_1", [2]))
    import_graph(found, other)
    names = graphs.names(found)
    assert len(set(names)) == len(names) == 8
    assert {"x_1", "y_1", "x_2", "y_2"} <= set(names)


def test_the_same_graph_several_times() -> None:
    found = graph(*ours())
    for _ in range(3):
        import_graph(found, graph(*theirs()))
    assert len(set(graphs.names(found))) == 14
    assert check(from_bytes(graphs.written(found))).faults == []


def test_a_graph_into_itself() -> None:
    found = graph(*theirs())
    try:
        import_graph(found, found, scope="o")
    except EditError:
        assert not found.is_changed
        return
    assert graphs.inputs(found)["o/y"] == ["o/x", "o/k", "^o/ready"]
    assert graphs.inputs(found)["y"] == ["x", "k", "^ready"]
    assert len(graphs.names(found)) == 8


def test_an_empty_graph_is_refused_or_changes_nothing() -> None:
    found = graph(*ours())
    try:
        import_graph(found, graph())
    except EditError:
        pass
    assert graphs.written(found) == graph_bytes(*ours())


# -- connections ---------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_what_read_the_placeholder_reads_the_tensor(worker: Worker) -> None:
    found, other = graph(*ours()), graph(*theirs())
    result = expect(
        found,
        lambda g: import_graph(g, other, scope="o", connect=[("y", "x")]),
        [
            *ours(),
            const("o/k", [10, 10]),
            node("o/ready", "NoOp", ["^o/k"]),
            node("o/y", "Sub", ["y", "o/k", "^o/ready"], T=FLOAT, device="/cpu:0", _class=["loc:@o/k"]),
        ],
    )
    assert SameOutputs() in result.claims
    assert SamePart(other, {"x": "y"}, (("y", "o/y"),), result.intent.copied) in result.claims
    assert "x" not in result.intent.copied
    assert run(worker, found, "y", "o/y", fed={"x": float32([1, 2])}) == [[-1, -2], [-11, -12]]


def test_a_connected_placeholder_needs_no_name() -> None:
    result = expect(
        ours(),
        lambda g: import_graph(g, graph(*theirs()[:3], identity("z", "x", "^x")), connect=[("x", "x:0")]),
        [*ours(), *theirs()[1:3], identity("z", "x", "^x")],
    )
    assert result.notes == []


def test_output_1_is_connected() -> None:
    records = [const("axis", [0], INT32, ()), placeholder("v", FLOAT, (4,)),
               node("s", "Split", ["axis", "v"], T=FLOAT, num_split=2)]  # fmt: skip
    found = graph(*records)
    import_graph(found, graph(*theirs()), connect=[("s:1", "x")])
    assert graphs.inputs(found)["y"] == ["s:1", "k", "^ready"]


def test_one_tensor_for_two_placeholders() -> None:
    other = graph(placeholder("a", FLOAT, (2,)), placeholder("b", FLOAT, (2,)), node("z", "Sub", ["a", "b"], T=FLOAT))
    found = graph(*ours())
    expect(
        found,
        lambda g: import_graph(g, other, connect=[("y", "a"), ("x", "b")]),
        [*ours(), node("z", "Sub", ["y", "x"], T=FLOAT)],
    )
    found = graph(*ours())
    expect(
        found,
        lambda g: import_graph(g, other, connect=[("y", "a"), ("y", "b")]),
        [*ours(), node("z", "Sub", ["y", "y"], T=FLOAT)],
    )


def test_placeholders_that_are_not_connected_stay_inputs() -> None:
    other = graph(placeholder("a", FLOAT, (2,)), placeholder("b", FLOAT, (2,)), node("z", "Sub", ["a", "b"], T=FLOAT))
    expect(
        ours(),
        lambda g: import_graph(g, other, connect=[("y", "a")]),
        [*ours(), placeholder("b", FLOAT, (2,)), node("z", "Sub", ["y", "b"], T=FLOAT)],
    )


def test_a_placeholder_with_a_default_can_be_connected() -> None:
    other = graph(const("d", [1, 1]), node("p", "PlaceholderWithDefault", ["d"], dtype=FLOAT, shape=(2,)),
                  node("z", "Neg", ["p"], T=FLOAT))  # fmt: skip
    expect(
        ours(),
        lambda g: import_graph(g, other, connect=[("y", "p")]),
        [*ours(), const("d", [1, 1]), node("z", "Neg", ["y"], T=FLOAT)],
    )


def test_a_reference_is_connected_to_a_placeholder_of_its_value() -> None:
    found = graph(node("v", "VariableV2", dtype=FLOAT, shape=(2,)))
    import_graph(found, graph(*theirs()), connect=[("v", "x")])
    assert graphs.inputs(found)["y"][0] == "v"


@pytest.mark.parametrize(
    ("connect", "words"),
    [
        ([("nope", "x")], "has no node 'nope'"),
        ([("images", "x")], "Did you mean 'image'"),
        ([("y", "keep")], "Did you mean 'keep_prob'"),
        ([("y", "k")], "'k' of other.pb is a Const, not a Placeholder"),
        ([("y:1", "x")], "has 1 output"),
        ([("^y", "x")], "is not the name of a tensor"),
        ([("y", "x"), ("image", "x")], "the placeholder 'x' is connected twice"),
        ([("y", "x"), ("y", "x:0")], "the placeholder 'x' is connected twice"),
        ([("number", "x")], r"'number' of model.pb is int32 \[2\], and 'x' of other.pb takes float32 \[2\]"),
        ([("three", "x")], r"'three' of model.pb is float32 \[3\], and 'x' of other.pb takes float32 \[2\]"),
        ([("y", "keep_prob"), ("number", "x")], "int32"),
    ],
)
def test_connections_that_cannot_be(connect: Pairs, words: str) -> None:
    records = [*ours(), placeholder("image"), const("number", [1, 2], INT32), const("three", [1, 2, 3])]
    other = graph(*theirs(), placeholder("keep_prob"), identity("z", "keep_prob"), name="other.pb")
    for scope in ("", "o"):
        refused(graph(*records), other, words, scope=scope, connect=connect)


def test_an_unknown_type_is_connected_with_a_warning() -> None:
    found = graph(node("u", "MyOp"))
    result = import_graph(found, graph(*theirs()), connect=[("u", "x")])
    assert result.warnings == ["the type of 'u' (MyOp) is not known here: not compared"]


@pytest.mark.parametrize("name", ["w/Add", "w/Identity", "w/Merge"])
def test_a_tensor_inside_a_loop_is_refused(name: str) -> None:
    """The added constants would run outside of the frame, and what reads both would not load."""
    other = graph(placeholder("p", INT32, ()), scalar("k", 1, INT32), add("z", "p", "k", kind=INT32))
    refused(graph(*graphs.loop()), other, "loop 'w'", connect=[(name, "p")])


def test_a_name_that_tensorflow_does_not_take_is_refused() -> None:
    refused(graph(*ours()), graph(node("_bad", "NoOp")), "_bad")
    refused(graph(*ours()), graph(identity("z", "gone")), "'z' reads 'gone', which is not there")


# -- versions ------------------------------------------------------------------------------------------------


def test_shapes_of_an_old_producer_keep_their_meaning() -> None:
    """A scalar's shape is an unknown one in a graph of a producer before 24, and a scalar's in the model's."""
    found = graph(*ours())
    try:
        import_graph(found, graph(placeholder("p", FLOAT, ()), identity("z", "p"), trailer=graphs.versions(20)))
    except EditError:
        return
    shape = graphs.attrs(found, "p").get("shape")
    assert shape is None or shape.shape.unknown_rank


# -- big -----------------------------------------------------------------------------------------------------


def test_many_nodes_with_names_that_are_taken() -> None:
    records = [placeholder("x", FLOAT, (1,)), *(node(f"n{i}", "Neg", [f"n{i - 1}" if i else "x"], T=FLOAT)
               for i in range(5_000))]  # fmt: skip
    found = graph(*records)
    import_graph(found, graph(*records))
    assert len(set(graphs.names(found))) == 10_002
    assert graphs.inputs(found)["n5_1"] == ["n4_1"]


# -- proven --------------------------------------------------------------------------------------------------


def built_ours() -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("two", 2.0)
    m.node("y", "Mul", ["x", "two"], T="float32")
    return m


def built_theirs() -> Builder:
    p = Builder()
    p.placeholder("x", "float32", (2,))
    p.placeholder("keep", "float32", ())
    p.const("two", 3.0)
    p.node("scaled", "Mul", ["x", "two"], T="float32")
    p.node("y", "Sub", ["scaled", "keep"], T="float32")
    return p


@pytest.mark.tensorflow
@pytest.mark.parametrize("scope", ["", "o"])
@pytest.mark.parametrize("connect", [[], [("y", "x")], [("x", "x")]], ids=["open", "behind", "beside"])
def test_an_import_is_proven(connect: Pairs, scope: str, tmp_path: Path) -> None:
    other = built_theirs().graph("other.pb")
    outcome = operated(tmp_path, built_ours(), lambda g: import_graph(g, other, scope=scope, connect=connect))
    assert {"y", "o/y" if scope else "y_1"} <= {o.after for o in outcome.proof.compared}
    assert "what came from other.pb = other.pb on its own" in outcome.proof.statement


@pytest.mark.tensorflow
def test_an_import_with_loops_tables_and_variables_is_proven(tmp_path: Path) -> None:
    def both(number: int) -> Builder:
        b = Builder()
        b.graph_def.MergeFromString(graph_bytes(*(graphs.loop() if number == 5 else other_loop()), trailer=b""))
        b.placeholder("key", "string", (1,))
        b.const("default", -1, "int64")
        b.node("table", "HashTableV2", key_dtype="string", value_dtype="int64", shared_name="t")
        b.const("keys", ["a"], "string")
        b.const("values", [number], "int64")
        b.node("init", "InitializeTableV2", ["table", "keys", "values"], Tkey="string", Tval="int64")
        b.node("found", "LookupTableFindV2", ["table", "key", "default"], Tin="string", Tout="int64")
        b.node("v", "VariableV2", shape=(2,), dtype="float32", container="", shared_name="v")
        b.node("read", "Neg", ["v"], T="float32")
        return b

    other = both(6).graph("other.pb")
    outcome = operated(tmp_path, both(5), lambda g: import_graph(g, other))
    values = {o.after: o.value for o in outcome.proof.compared}
    assert (values["found"], values["found_1"]) == ("[5]", "[6]")
    assert set(values) == {"out", "found", "read", "out_1", "found_1", "read_1"}


@pytest.mark.tensorflow
def test_an_import_with_functions_of_equal_names_is_proven(tmp_path: Path) -> None:
    def calling(op: str) -> Builder:
        b = Builder()
        f = b.function("F", {"a": "float32"}, {"out": "float32"})
        body_node(f, "r", op, ["a"], T="float32")
        f.ret["out"] = "r:y:0"
        b.placeholder("x", "float32", (2,))
        b.node("y", "PartitionedCall", ["x"], Tin=["float32"], Tout=["float32"], f=func("F"))
        return b

    other = calling("Exp").graph("other.pb")
    outcome = operated(tmp_path, calling("Neg"), lambda g: import_graph(g, other),
                       overrides=Overrides({"x": "[0, 1]", "x_1": "[0, 0]"}))  # fmt: skip
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("y", "[-0, -1]"), ("y_1", "[1, 1]")]


@pytest.mark.tensorflow
def test_a_feed_for_the_model_is_none_for_the_other_graph(tmp_path: Path) -> None:
    """Both have an input `x`, of other dtypes and shapes: the copy's is called otherwise."""
    p = Builder()
    p.placeholder("x", "string", (3,))
    p.node("length", "StringLength", ["x"])
    other = p.graph("other.pb")
    overrides = Overrides({"x": "[1, 2]"})
    outcome = operated(tmp_path, built_ours(), lambda g: import_graph(g, other), overrides=overrides)
    assert ("y", "[2, 4]") in [(o.after, o.value) for o in outcome.proof.compared]
    (tmp_path / "out.pb").unlink()
    overrides = Overrides({"x": "[1, 2]", "x_1": '["a", "bb", "ccc"]'})
    outcome = operated(tmp_path, built_ours(), lambda g: import_graph(g, other), overrides=overrides)
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("y", "[2, 4]"), ("length", "[1, 2, 3]")]


@pytest.mark.tensorflow
def test_feeds_from_an_archive_are_the_models_by_the_names_in_the_result(tmp_path: Path) -> None:
    p = Builder()
    p.placeholder("x", "int32", (3,))
    p.node("negative", "Neg", ["x"], T="int32")
    other = p.graph("other.pb")
    np.savez(tmp_path / "feeds.npz", x=np.array([1, 2], "float32"), x_1=np.array([7, 8, 9], "int32"))
    overrides = Overrides(archive=str(tmp_path / "feeds.npz"))
    outcome = operated(tmp_path, built_ours(), lambda g: import_graph(g, other), overrides=overrides)
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("y", "[2, 4]"), ("negative", "[-7, -8, -9]")]


@pytest.mark.tensorflow
def test_a_graph_without_outputs_of_its_own_is_no_reason_to_refuse_a_sound_one(tmp_path: Path) -> None:
    """Nothing of the model can be compared: it has inputs only. What came from the other graph can."""
    m = Builder()
    m.placeholder("x", "float32", (2,))
    other = built_theirs().graph("other.pb")
    outcome = operated(tmp_path, m, lambda g: import_graph(g, other, connect=[("x", "x")]))
    assert "y" in {o.after for o in outcome.proof.compared}
