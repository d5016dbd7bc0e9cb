"""import: another graph beside a model, in one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.expecting import expect, refuse
from support.graph_editor_running import float32, int32, run
from support.graphs import FLOAT, INT32, STRING, add, const, graph, graph_bytes, identity, node, placeholder, scalar
from support.tf_graphs import Builder, Shape, body_node, function_attr, operated

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.claims import SameOutputs, SamePart
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.errors import EditError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.runtime.client import Worker

pytestmark = pytest.mark.usefixtures("one_worker")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


Pairs = Sequence[tuple[str, str]]


def refused(found: Graph, other: Graph, words: str, *, scope: str = "", connect: Pairs = ()) -> EditError:
    """The error of an import, after which both graphs are as they were."""
    return refuse(found, words, lambda g: import_graph(g, other, scope=scope, connect=connect), other)


def ours() -> list[bytes]:
    return [placeholder("x", FLOAT, (2,)), node("y", "Neg", ["x"], T=FLOAT)]


def theirs() -> list[bytes]:
    """x - 10, and a control edge, a colocation and a device."""
    return [
        placeholder("x", FLOAT, (2,)), const("k", [10, 10]), node("ready", "NoOp", ["^k"]),
        node("y", "Sub", ["x", "k", "^ready"], T=FLOAT, device="/cpu:0", _class=["loc:@k"]),
    ]  # fmt: skip


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
    assert result.claims == (SameOutputs(), SamePart(other, {}, (("y", "o/y"),)))
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
    assert SamePart(other, {"x": "y"}, (("y", "o/y"),)) in result.claims
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


# -- loops ---------------------------------------------------------------------------------------------------


def other_loop() -> list[bytes]:
    """A loop with the frame name of the one in the model, that counts in steps of 2."""
    out = graphs.loop()
    out[9] = node("w/one", "Const", ["^w/Identity"], dtype=INT32, value=graphs.tensor([2], INT32, ()))
    return out


@pytest.mark.tensorflow
@pytest.mark.parametrize("scope", ["", "o"])
def test_both_loops_of_one_frame_name_run_in_one_session(scope: str, worker: Worker) -> None:
    found = graph(*graphs.loop())
    result = import_graph(found, graph(*other_loop()), scope=scope)
    names = result.intent.copied
    frames = {n: graphs.attrs(found, n)["frame_name"].s for n, op in graphs.ops(found).items() if op == "Enter"}
    assert frames["w/Enter"] == frames["w/Limit"] == b"w"
    assert frames[names["w/Enter"]] == frames[names["w/Limit"]] != b"w"
    fed = {"n": int32(5), names["n"]: int32(9)}
    for _ in range(3):
        assert run(worker, found, "out", names["out"], fed=fed) == [5, 10]
    bodies = graphs.bodies(graph_bytes(*graphs.loop()))
    assert graphs.bodies(found)[: len(bodies)] == bodies


@pytest.mark.tensorflow
def test_a_loop_behind_a_loop_of_its_name(worker: Worker) -> None:
    found = graph(*graphs.loop())
    names = import_graph(found, graph(*other_loop()), connect=[("out", "n")]).intent.copied
    assert run(worker, found, names["out"], fed={"n": int32(5)}) == [6]


def test_frame_names_that_do_not_clash_stay() -> None:
    found = graph(*ours())
    import_graph(found, graph(*graphs.loop()))
    assert graphs.bodies(found)[2:] == graphs.bodies(graph_bytes(*graphs.loop()))


# -- tables and variables ------------------------------------------------------------------------------------


def table(number: int, shared_name: str = "t", op: str = "HashTableV2") -> list[bytes]:
    """A table in which `a` is NUMBER, in nodes named after it."""
    keys = graphs.encode_len(8, b"\x08\x07" + graphs.encode_len(2, graphs.shape_proto([1])) + b"\x42\x01a")
    kind = {"Tkey": STRING, "Tval": INT32}
    v2 = "V2" if op.endswith("V2") else ""
    return [
        node(f"table_{number}", op, key_dtype=STRING, value_dtype=INT32, shared_name=shared_name, container=""),
        node(f"keys_{number}", "Const", dtype=STRING, value=keys),
        const(f"values_{number}", [number], INT32), const(f"default_{number}", [-1], INT32, ()),
        node(f"init_{number}", f"InitializeTable{v2}",
             [f"table_{number}", f"keys_{number}", f"values_{number}"], **kind),
        node(f"found_{number}", f"LookupTableFind{v2}", [f"table_{number}", f"keys_{number}", f"default_{number}"],
             Tin=STRING, Tout=INT32),
    ]  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("op", ["HashTable", "HashTableV2"])
@pytest.mark.parametrize("scope", ["", "o"])
def test_tables_of_one_shared_name_keep_their_own_content(scope: str, op: str, worker: Worker) -> None:
    found = graph(*table(5, op=op))
    names = import_graph(found, graph(*table(6, op=op)), scope=scope).intent.copied
    shared = [graphs.attrs(found, n)["shared_name"].s for n in ("table_5", names["table_6"])]
    assert shared[0] == b"t" != shared[1]
    first = ["init_5", names["init_6"]]
    assert run(worker, found, "found_5", names["found_6"], first=first) == [[5], [6]]


def test_two_tables_of_the_other_graph_that_are_one_stay_one() -> None:
    found = graph(*table(5))
    names = import_graph(found, graph(*table(6), *table(7))).intent.copied
    shared = {graphs.attrs(found, names[f"table_{n}"])["shared_name"].s for n in (6, 7)}
    assert len(shared) == 1 and b"t" not in shared


def test_a_shared_name_that_does_not_clash_stays() -> None:
    expect(table(5), lambda g: import_graph(g, graph(*table(6, "u"))), [*table(5), *table(6, "u")])


def test_a_new_shared_name_is_none_that_others_have() -> None:
    found = graph(*table(5))
    names = import_graph(found, graph(*table(6), *table(7, "t_1"))).intent.copied
    shared = [graphs.attrs(found, n)["shared_name"].s for n in ("table_5", names["table_6"], names["table_7"])]
    assert len(set(shared)) == 3


@pytest.mark.tensorflow
def test_tables_without_a_shared_name_keep_their_own_content(worker: Worker) -> None:
    found = graph(*table(5, ""))
    names = import_graph(found, graph(*table(6, ""))).intent.copied
    first = ["init_5", names["init_6"]]
    assert run(worker, found, "found_5", names["found_6"], first=first) == [[5], [6]]


@pytest.mark.tensorflow
def test_a_table_that_is_shared_by_the_name_of_its_node(worker: Worker) -> None:
    """With `use_node_name_sharing` the name of the node is the shared name: a copy of another name is another table,
    and a table elsewhere that is shared under that name is none of its own."""
    kind = {"key_dtype": STRING, "value_dtype": INT32, "container": ""}
    mine, other = table(5, "t"), table(6)
    other[0] = node("table_6", "HashTableV2", **kind, shared_name="", use_node_name_sharing=True)
    mine[0] = node("table_5", "HashTableV2", **kind, shared_name="table_6")
    found = graph(*mine)
    names = import_graph(found, graph(*other)).intent.copied
    first = ["init_5", names["init_6"]]
    assert run(worker, found, "found_5", names["found_6"], first=first) == [[5], [6]]


def resource_variable(name: str, value: float, shared_name: str) -> list[bytes]:
    return [
        node(name, "VarHandleOp", dtype=FLOAT, shape=(1,), shared_name=shared_name, container=""),
        const(f"{name}/start", [value]), node(f"{name}/assign", "AssignVariableOp", [name, f"{name}/start"],
        dtype=FLOAT), node(f"{name}/read", "ReadVariableOp", [name], dtype=FLOAT),
    ]  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("shared_name", ["v", ""])
@pytest.mark.parametrize("scope", ["", "o"])
def test_resource_variables_keep_their_own_values(scope: str, shared_name: str, worker: Worker) -> None:
    found = graph(*resource_variable("a", 1, shared_name))
    names = import_graph(found, graph(*resource_variable("b", 2, shared_name)), scope=scope).intent.copied
    first = ["a/assign", names["b/assign"]]
    assert run(worker, found, "a/read", names["b/read"], first=first) == [[1], [2]]


@pytest.mark.tensorflow
@pytest.mark.parametrize("shared_name", ["v", ""])
def test_variables_keep_their_own_values(shared_name: str, worker: Worker) -> None:
    def records(name: str, value: float) -> list[bytes]:
        return [node(name, "VariableV2", dtype=FLOAT, shape=(1,), shared_name=shared_name, container=""),
                const(f"{name}/start", [value]), node(f"{name}/assign", "Assign", [name, f"{name}/start"], T=FLOAT),
                identity(f"{name}/read", name)]  # fmt: skip

    found = graph(*records("a", 1))
    names = import_graph(found, graph(*records("b", 2))).intent.copied
    first = ["a/assign", names["b/assign"]]
    assert run(worker, found, "a/read", names["b/read"], first=first) == [[1], [2]]


# -- functions -----------------------------------------------------------------------------------------------


def call(name: str, callee: str, source: str = "x") -> bytes:
    return node(name, "PartitionedCall", [source], f=graphs.func(callee), Tin=graphs.dtypes(FLOAT),
                Tout=graphs.dtypes(FLOAT))  # fmt: skip


NEG, EXP = node("y", "Neg", ["x"], T=FLOAT), node("y", "Exp", ["x"], T=FLOAT)


@pytest.mark.tensorflow
def test_functions_of_equal_names_and_other_bodies(worker: Worker) -> None:
    mine = graphs.library(graphs.function("F", NEG)) + graphs.VERSIONS
    other = graphs.library(graphs.function("F", EXP)) + graphs.VERSIONS
    found = graph(placeholder("x", FLOAT, (1,)), call("a", "F"), trailer=mine)
    result = import_graph(found, graph(placeholder("x", FLOAT, (1,)), call("b", "F"), trailer=other, name="other.pb"))
    assert result.intent.renamed_functions == {"F": "F_1"}
    assert "'F' of other.pb has become 'F_1': the name was taken" in result.notes
    assert graphs.attrs(found, "a")["f"].func.name == "F"
    assert graphs.attrs(found, "b")["f"].func.name == "F_1"
    library = graphs.parsed(found).library.function
    assert [(f.signature.name, f.node_def[0].op) for f in library] == [("F", "Neg"), ("F_1", "Exp")]
    assert run(worker, found, "a", "b", fed={"x": float32([0]), "x_1": float32([0])}) == [[0], [1]]


def test_equal_functions_are_there_once() -> None:
    trailer = graphs.library(graphs.function("F", NEG)) + graphs.VERSIONS
    found = graph(placeholder("x"), call("a", "F"), trailer=trailer)
    result = import_graph(found, graph(placeholder("x"), call("b", "F"), trailer=trailer))
    assert result.intent.renamed_functions == {}
    assert len(graphs.parsed(found).library.function) == 1
    assert graphs.written(found).endswith(trailer)


def table_function(number: int) -> Any:
    """A function that puts NUMBER into a table with the shared name `inside` and looks it up."""
    b = Builder()
    f = b.function(f"look_up_{number}", {}, {"out": "int32"})
    f.signature.is_stateful = True
    body_node(f, "table", "HashTableV2", key_dtype="int32", value_dtype="int32", shared_name=b"inside", container=b"")
    value = b.const("k", [number], "int32")
    constant = b.graph_def.node[-1].attr["value"]
    for name in ("key", "value"):
        one = constant if name == "value" else graphs.proto(const("one", [1], INT32)).node[0].attr["value"]
        body_node(f, name, "Const", dtype="int32", value=one)
    body_node(f, "default", "Const", dtype="int32", value=graphs.proto(scalar("d", -1, INT32)).node[0].attr["value"])
    body_node(f, "put", "LookupTableInsertV2", ["table:table_handle:0", "key:output:0", "value:output:0"],
              Tin="int32", Tout="int32")  # fmt: skip
    body_node(f, "found", "LookupTableFindV2", ["table:table_handle:0", "key:output:0", "default:output:0", "^put"],
              Tin="int32", Tout="int32")  # fmt: skip
    f.ret["out"] = "found:values:0"
    assert value
    return f


def test_shared_names_inside_functions_do_not_clash() -> None:
    """Tables of one name are one table, also where a function makes them."""
    kinds = {"Tin": graphs.encode_len(1, b""), "Tout": graphs.dtypes(INT32)}

    def records(number: int) -> tuple[list[bytes], bytes]:
        trailer = graphs.library(table_function(number)) + graphs.VERSIONS
        called = node(f"y_{number}", "StatefulPartitionedCall", f=graphs.func(f"look_up_{number}"), **kinds)
        return [called], trailer

    (mine, my_library), (other, their_library) = records(5), records(6)
    found = graph(*mine, trailer=my_library)
    import_graph(found, graph(*other, trailer=their_library))
    shared = [n.attr["shared_name"].s for f in graphs.parsed(found).library.function for n in f.node_def
              if n.op == "HashTableV2"]  # fmt: skip
    assert len(shared) == len(set(shared)) == 2


def test_a_shared_name_in_the_graph_and_one_inside_a_function_do_not_clash() -> None:
    trailer = graphs.library(table_function(6)) + graphs.VERSIONS
    called = node("y", "StatefulPartitionedCall", f=graphs.func("look_up_6"), Tin=graphs.encode_len(1, b""),
                  Tout=graphs.dtypes(INT32))  # fmt: skip
    for mine, other in (
        (graph(*table(5, "inside")), graph(called, trailer=trailer)),
        (graph(called, trailer=trailer), graph(*table(5, "inside"))),
    ):
        import_graph(mine, other)
        shared = [n.attr["shared_name"].s for f in graphs.parsed(mine).library.function for n in f.node_def
                  if n.op == "HashTableV2"]  # fmt: skip
        shared += [n.attr["shared_name"].s for n in graphs.parsed(mine).node if n.op == "HashTableV2"]
        assert len(shared) == len(set(shared)) == 2


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
        b.node("table", "HashTableV2", key_dtype="string", value_dtype="int64", shared_name=b"t")
        b.const("keys", ["a"], "string")
        b.const("values", [number], "int64")
        b.node("init", "InitializeTableV2", ["table", "keys", "values"], Tkey="string", Tval="int64")
        b.node("found", "LookupTableFindV2", ["table", "key", "default"], Tin="string", Tout="int64")
        b.node("v", "VariableV2", shape=Shape((2,)), dtype="float32", container=b"", shared_name=b"v")
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
        b.node("y", "PartitionedCall", ["x"], Tin=["float32"], Tout=["float32"], f=function_attr("F"))
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
