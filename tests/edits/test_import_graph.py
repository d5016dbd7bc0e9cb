"""import: a second graph and a model, in one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import graphs, loaders
from support.desk import Desk, check_error
from support.expecting import expect, refused
from support.graphs import (
    FLOAT,
    INT32,
    STRING,
    VARIABLE,
    add,
    call,
    const,
    define,
    graph,
    graph_bytes,
    identity,
    neg,
    node,
    placeholder,
    scalar,
    typed,
)
from support.meta_graphs import meta_graph, put, read
from support.renaming import QUICK
from support.running import run
from support.shipped import Shipped

from gdsurgeon.container.load import load
from gdsurgeon.edits.claims import SameOutputs, SamePart
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.errors import Remark
from gdsurgeon.graph.graph import Graph

Pairs = Sequence[tuple[str, str]]


def ours() -> list[bytes]:
    return [placeholder("x", FLOAT, (2,)), neg("y", "x")]


def theirs() -> list[bytes]:
    """x - 10, and a control edge, a colocation and a device."""
    return [
        placeholder("x", FLOAT, (2,)), const("k", [10, 10]), node("ready", "NoOp", ["^k"]),
        typed("Sub", "y", "x", "k", "^ready", device="/cpu:0", _class=["loc:@k"]),
    ]  # fmt: skip


# -- names ---------------------------------------------------------------------------------------------------


def test_under_a_scope() -> None:
    found, other = graph(*ours()), graph(*theirs(), name="other.pb")
    result = expect(
        found,
        lambda g: import_graph(g, other, scope="o"),
        [
            *ours(),
            placeholder("o/x", FLOAT, (2,)),
            const("o/k", [10, 10]),
            node("o/ready", "NoOp", ["^o/k"]),
            typed("Sub", "o/y", "o/x", "o/k", "^o/ready", device="/cpu:0", _class=["loc:@o/k"]),
        ],
    )
    assert result.intent.added == ["o/x", "o/k", "o/ready", "o/y"]
    assert result.intent.copied == {"x": "o/x", "k": "o/k", "ready": "o/ready", "y": "o/y"}
    assert result.notes == result.warnings == []
    assert result.claims == (SameOutputs(), SamePart(other, {}, (("y", "o/y"),), result.intent.copied))
    assert run(found, "y", "o/y", x=[1.0, 2.0], o__x=[30.0, 40.0]) == [[-1, -2], [20, 30]]


SCOPES = {
    "o": "o", "o/": "o", "/o": "o", "o//": "o", "a/c": "a/c",
    "use": "use", "used_1": "used_1", "nod": "nod", "node_1": "node_1", "y1": "y1",
}  # fmt: skip
"""Scopes that are in use by none of IN_USE, and how they are spelt."""
IN_USE = [identity("used/deep/z", "x"), identity("node", "x"), identity("a/b", "x")]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_has_one_slash_at_its_end(scope: str) -> None:
    found = graph(*ours(), *IN_USE)
    import_graph(found, graph(*theirs()), scope=scope)
    assert graphs.names(found)[5:] == [f"{SCOPES[scope]}/{name}" for name in ("x", "k", "ready", "y")]


@pytest.mark.parametrize(
    ("scope", "code", "facts"),
    [
        *((scope, "name-taken", {"scope": scope}) for scope in ("used", "node", "used/deep")),
        *((scope, "bad-name", {}) for scope in ("_o", "a b", "-o", "o:0", "^o")),
    ],
)
def test_scopes_that_are_refused(scope: str, code: str, facts: dict[str, Any]) -> None:
    other = graph(*theirs())
    refused(graph(*ours(), *IN_USE), code, partial(import_graph, other=other, scope=scope), other, **facts)


def test_without_a_scope_names_that_are_taken_are_made_unique() -> None:
    found = graph(*ours())
    result = expect(
        found,
        lambda g: import_graph(g, graph(*theirs(), name="other.pb")),
        [
            *ours(),
            placeholder("x_1", FLOAT, (2,)),
            *theirs()[1:3],
            typed("Sub", "y_1", "x_1", "k", "^ready", device="/cpu:0", _class=["loc:@k"]),
        ],
    )
    for note, name in zip(result.notes, "xy", strict=True):
        check_error(note, "name-taken", {"name": name, "found": f"{name}_1"})
    assert run(found, "y", "y_1", x=[1.0, 2.0], x_1=[30.0, 40.0]) == [[-1, -2], [20, 30]]


def test_a_graph_into_itself() -> None:
    found = graph(*theirs())
    import_graph(found, found, scope="o")
    assert graphs.inputs(found)["o/y"] == ["o/x", "o/k", "^o/ready"]
    assert graphs.inputs(found)["y"] == ["x", "k", "^ready"]
    assert len(graphs.names(found)) == 8


# -- connections ---------------------------------------------------------------------------------------------


TWO = [placeholder("a", FLOAT, (2,)), placeholder("b", FLOAT, (2,)), typed("Sub", "z", "a", "b")]
WITH_DEFAULT = [const("d", [1, 1]), node("p", "PlaceholderWithDefault", ["d"], dtype=FLOAT, shape=(2,)),
                neg("z", "p")]  # fmt: skip
SPLIT = [const("axis", [0], INT32, ()), placeholder("v", FLOAT, (4,)),
         typed("Split", "s", "axis", "v", num_split=2)]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "other", "connect", "added"),
    [
        (ours(), [*theirs()[:3], identity("z", "x", "^x")], [("x", "x:0")], [*theirs()[1:3], identity("z", "x", "^x")]),
        (SPLIT, [placeholder("x"), identity("z", "x")], [("s:1", "x")], [identity("z", "s:1")]),
        (ours(), TWO, [("y", "a"), ("x", "b")], [typed("Sub", "z", "y", "x")]),
        (ours(), TWO, [("y", "a"), ("y", "b")], [typed("Sub", "z", "y", "y")]),
        (ours(), TWO, [("y", "a")], [TWO[1], typed("Sub", "z", "y", "b")]),
        (ours(), WITH_DEFAULT, [("y", "p")], [WITH_DEFAULT[0], neg("z", "y")]),
        ([VARIABLE], [placeholder("x"), identity("z", "x")], [("v", "x")], [identity("z", "v")]),
    ],
    ids=["no name is needed", "output 1", "two", "one tensor for two", "one stays an input", "with a default",
         "a reference for its value"],
)  # fmt: skip
def test_what_is_connected(records: list[bytes], other: list[bytes], connect: Pairs, added: list[bytes]) -> None:
    result = expect(records, lambda g: import_graph(g, graph(*other), connect=connect), [*records, *added])
    assert result.notes == []


@pytest.mark.parametrize("scope", ["", "o"])
@pytest.mark.parametrize(
    ("connect", "code", "facts"),
    [
        ([("nope", "x")], "no-such-node", {"node": "nope"}),
        ([("images", "x")], "no-such-node", {"node": "images", "near": "image"}),
        ([("y", "keep")], "no-such-node", {"node": "keep", "near": "keep_prob"}),
        ([("y", "k")], "not-a-placeholder", {"node": "k", "op": "Const", "file": "other.pb"}),
        ([("y:1", "x")], "no-such-tensor", {"tensor": "y:1", "count": 1}),
        ([("^y", "x")], "bad-tensor-name", {"tensor": "^y"}),
        ([("y", "x"), ("image", "x")], "given-twice", {"placeholder": "x"}),
        ([("y", "x"), ("y", "x:0")], "given-twice", {"placeholder": "x"}),
        ([("number", "x")], "dtype-mismatch",
         {"tensor": "number", "found": "int32 [2]", "input": "x", "expected": "float32 [2]"}),
        ([("three", "x")], "shape-mismatch",
         {"tensor": "three", "found": "float32 [3]", "input": "x", "expected": "float32 [2]"}),
        ([("y", "keep_prob"), ("number", "x")], "dtype-mismatch", {"tensor": "number"}),
    ],
)  # fmt: skip
def test_connections_that_cannot_be(connect: Pairs, code: str, facts: dict[str, Any], scope: str) -> None:
    records = [*ours(), placeholder("image"), const("number", [1, 2], INT32), const("three", [1, 2, 3])]
    other = graph(*theirs(), placeholder("keep_prob"), identity("z", "keep_prob"), name="other.pb")
    refused(graph(*records), code, partial(import_graph, other=other, scope=scope, connect=connect), other, **facts)


def test_an_unknown_type_is_connected_with_a_warning() -> None:
    found = graph(node("u", "MyOp"))
    (warning,) = import_graph(found, graph(*theirs()), connect=[("u", "x")]).warnings
    check_error(warning, "unknown-dtype", {"tensor": "u", "op": "MyOp"})


@pytest.mark.parametrize("name", ["w/Add", "w/Identity", "w/Merge"])
def test_a_tensor_inside_a_loop_is_refused(name: str) -> None:
    """The added constants would run outside of the frame, and what reads both would not load."""
    other = graph(placeholder("p", INT32, ()), scalar("k", 1, INT32), add("z", "p", "k", kind=INT32))
    edit = partial(import_graph, other=other, connect=[(name, "p")])
    refused(graph(*graphs.loop()), "crosses-loop", edit, other, tensor=name, loop="w")


def test_nodes_that_are_not_sound_are_refused() -> None:
    refused(graph(*ours()), "bad-name", partial(import_graph, other=graph(node("_bad", "NoOp"))), name="_bad")
    refused(graph(*ours()), "unsound-graph", partial(import_graph, other=graph(identity("z", "gone"))), node="z")


# -- versions ------------------------------------------------------------------------------------------------


def test_shapes_of_an_old_producer_keep_their_meaning() -> None:
    """A scalar's shape is an unknown one in a graph of a producer before 24, and a scalar's in the model's."""
    found = graph(*ours())
    import_graph(found, graph(placeholder("p", FLOAT, ()), identity("z", "p"), trailer=graphs.versions(20)))
    assert graphs.attrs(found, "p")["shape"].shape.unknown_rank


# -- loops ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["", "o"])
def test_both_loops_of_one_frame_name_run_in_one_session(scope: str) -> None:
    found = graph(*graphs.loop())
    result = import_graph(found, graph(*graphs.loop(step=2)), scope=scope)
    names = result.intent.copied
    frames = {n: graphs.attrs(found, n)["frame_name"].s for n, op in graphs.ops(found).items() if op == "Enter"}
    assert frames["w/Enter"] == frames["w/Limit"] == b"w"
    assert frames[names["w/Enter"]] == frames[names["w/Limit"]] != b"w"
    for _ in range(3):
        assert run(found, "out", names["out"], **{"n": 5, names["n"]: 9}) == [5, 10]
    bodies = graphs.bodies(graph_bytes(*graphs.loop()))
    assert graphs.bodies(found)[: len(bodies)] == bodies


def test_frame_names_that_do_not_clash_stay() -> None:
    found = graph(*ours())
    import_graph(found, graph(*graphs.loop()))
    assert graphs.bodies(found)[2:] == graphs.bodies(graph_bytes(*graphs.loop()))


# -- tables and variables ------------------------------------------------------------------------------------


def table(number: int, shared_name: str = "t", op: str = "HashTableV2") -> list[bytes]:
    """A table in which `a` is NUMBER, in nodes named after it."""
    kind = {"Tkey": STRING, "Tval": INT32}
    v2 = "V2" if op.endswith("V2") else ""
    return [
        node(f"table_{number}", op, key_dtype=STRING, value_dtype=INT32, shared_name=shared_name, container=""),
        const(f"keys_{number}", ["a"], STRING),
        const(f"values_{number}", [number], INT32), const(f"default_{number}", [-1], INT32, ()),
        node(f"init_{number}", f"InitializeTable{v2}",
             [f"table_{number}", f"keys_{number}", f"values_{number}"], **kind),
        node(f"found_{number}", f"LookupTableFind{v2}", [f"table_{number}", f"keys_{number}", f"default_{number}"],
             Tin=STRING, Tout=INT32),
    ]  # fmt: skip


@pytest.mark.parametrize("op", ["HashTable", "HashTableV2"])
@pytest.mark.parametrize("scope", ["", "o"])
@pytest.mark.parametrize("shared_name", ["t", ""])
def test_tables_keep_their_own_content(shared_name: str, scope: str, op: str) -> None:
    found = graph(*table(5, shared_name, op))
    names = import_graph(found, graph(*table(6, shared_name, op)), scope=scope).intent.copied
    shared = [graphs.attrs(found, n)["shared_name"].s for n in ("table_5", names["table_6"])]
    assert shared[0] == shared_name.encode() and (shared[0] != shared[1] or not shared_name)
    first = ["init_5", names["init_6"]]
    assert run(found, "found_5", names["found_6"], initialisers=first) == [[5], [6]]


def test_two_tables_of_the_other_graph_that_are_one_stay_one() -> None:
    found = graph(*table(5))
    names = import_graph(found, graph(*table(6), *table(7))).intent.copied
    shared = {graphs.attrs(found, names[f"table_{n}"])["shared_name"].s for n in (6, 7)}
    assert len(shared) == 1 and b"t" not in shared


def test_a_shared_name_that_does_not_clash_stays() -> None:
    expect(table(5), lambda g: import_graph(g, graph(*table(6, "u"))), [*table(5), *table(6, "u")])


def test_a_table_that_is_shared_by_the_name_of_its_node() -> None:
    """With `use_node_name_sharing` the name of the node is the shared name: a copy under a different name is a
    different table, and a table of the model with this shared name stays separate."""
    kind = {"key_dtype": STRING, "value_dtype": INT32, "container": ""}
    mine, other = table(5, "t"), table(6)
    other[0] = node("table_6", "HashTableV2", **kind, shared_name="", use_node_name_sharing=True)
    mine[0] = node("table_5", "HashTableV2", **kind, shared_name="table_6")
    found = graph(*mine)
    names = import_graph(found, graph(*other)).intent.copied
    first = ["init_5", names["init_6"]]
    assert run(found, "found_5", names["found_6"], initialisers=first) == [[5], [6]]


def resource_variable(name: str, value: float, shared_name: str) -> list[bytes]:
    return [node(name, "VarHandleOp", dtype=FLOAT, shape=(1,), shared_name=shared_name, container=""),
            const(f"{name}/start", [value]),
            node(f"{name}/assign", "AssignVariableOp", [name, f"{name}/start"], dtype=FLOAT),
            node(f"{name}/read", "ReadVariableOp", [name], dtype=FLOAT)]  # fmt: skip


def reference_variable(name: str, value: float, shared_name: str) -> list[bytes]:
    return [node(name, "VariableV2", dtype=FLOAT, shape=(1,), shared_name=shared_name, container=""),
            const(f"{name}/start", [value]), typed("Assign", f"{name}/assign", name, f"{name}/start"),
            identity(f"{name}/read", name)]  # fmt: skip


@pytest.mark.parametrize("variable", [resource_variable, reference_variable])
@pytest.mark.parametrize("shared_name", ["v", ""])
@pytest.mark.parametrize("scope", ["", "o"])
def test_variables_keep_their_own_values(
    scope: str, shared_name: str, variable: Callable[[str, float, str], list[bytes]]
) -> None:
    found = graph(*variable("a", 1, shared_name))
    names = import_graph(found, graph(*variable("b", 2, shared_name)), scope=scope).intent.copied
    first = ["a/assign", names["b/assign"]]
    assert run(found, "a/read", names["b/read"], initialisers=first) == [[1], [2]]


# -- functions -----------------------------------------------------------------------------------------------


def calling(name: str, op: str = "Neg") -> Graph:
    """x -> NAME, by a function F that has OP in it."""
    trailer = graphs.library(graphs.function("F", typed(op, "y", "x"))) + graphs.VERSIONS
    return graph(placeholder("x", FLOAT, (1,)), call(name, "F", ["x"], [FLOAT], [FLOAT]), trailer=trailer)


def test_functions_of_equal_names_and_other_bodies() -> None:
    found = calling("a")
    result = import_graph(found, calling("b", "Exp"))
    assert result.intent.renamed_functions == {"F": "F_1"}
    assert {"code": "name-taken", "name": "F", "found": "F_1"} in [note.as_json() for note in result.notes]
    assert [graphs.attrs(found, name)["f"].func.name for name in "ab"] == ["F", "F_1"]
    library = graphs.parsed(found).library.function
    assert [(f.signature.name, f.node_def[0].op) for f in library] == [("F", "Neg"), ("F_1", "Exp")]
    assert run(found, "a", "b", x=[0.0], x_1=[0.0]) == [[0], [1]]


def test_a_function_has_one_gradient() -> None:
    functions = [graphs.function(name, neg("y", "x")) for name in "FG"]
    trailer = graphs.library(*functions, gradients={"F": "G"}) + graphs.VERSIONS
    found = graph(*ours(), trailer=trailer)
    import_graph(found, graph(placeholder("p"), identity("z", "p"), trailer=trailer))
    assert [(each.function_name, each.gradient_func) for each in found.functions.gradients()] == [("F", "G")]


def table_function(number: int) -> Any:
    """A function that puts NUMBER into a table with the shared name `inside` and looks it up."""
    kinds = {"Tin": INT32, "Tout": INT32}
    return define(
        f"look_up_{number}",
        {},
        {"out": (INT32, "found:values:0")},
        node("table", "HashTableV2", key_dtype=INT32, value_dtype=INT32, shared_name="inside", container=""),
        const("key", [1], INT32), const("value", [number], INT32), scalar("default", -1, INT32),
        node("put", "LookupTableInsertV2", ["table:table_handle:0", "key:output:0", "value:output:0"], **kinds), node(
            "found", "LookupTableFindV2", ["table:table_handle:0", "key:output:0", "default:output:0", "^put"], **kinds
        ),
        stateful=True,
    )  # fmt: skip


def filling(number: int) -> Graph:
    """A call of such a function."""
    called = call(f"y_{number}", f"look_up_{number}", [], [], [INT32], stateful=True)
    return graph(called, trailer=graphs.library(table_function(number)) + graphs.VERSIONS)


@pytest.mark.parametrize(
    ("mine", "other"),
    [(filling(5), filling(6)), (graph(*table(5, "inside")), filling(6)), (filling(5), graph(*table(6, "inside")))],
)
def test_shared_names_inside_functions_do_not_clash(mine: Graph, other: Graph) -> None:
    """Tables of one name are one table, also where a function makes them."""
    import_graph(mine, other)
    parsed = graphs.parsed(mine)
    nodes = [*parsed.node, *(node for function in parsed.library.function for node in function.node_def)]
    shared = {node.attr["shared_name"].s for node in nodes if node.op == "HashTableV2"}
    assert len(shared) == 2


X = np.array([[2.0, -3.0]], np.float32)
W = np.array([1.5, 2.5])


@pytest.fixture(autouse=True)
def _put(desk: Desk) -> None:
    """y = w x, twice, where w is a variable with a checkpoint."""
    for name, at in (("model", ""), ("other", "net/")):
        records = [placeholder(f"{at}x", FLOAT, (-1, 2)), const(f"{at}w", W), add(f"{at}unused", f"{at}y", f"{at}y")]
        product = typed("Mul", f"{at}y", f"{at}x", f"{at}w")
        desk.put(f"{name}.pb", graph_bytes(*records[:2], product, records[2]))
        ends = (f"--inputs=x={at}x", f"--outputs=y={at}y", "--unfreeze=w$")
        desk.done("to-savedmodel", f"{name}.pb", *ends, *QUICK, "-o", name)


@pytest.mark.parametrize(
    ("options", "key", "inputs", "output", "expected"),
    [
        (("--prefix", "o"), "o_serving_default", {"x": "o/net/x"}, "o/net/y", X * W),
        ((), "serving_default_1", {"x": "net/x"}, "net/y", X * W),
        (("--prefix", "a/b"), "a_b_serving_default", {"x": "a/b/net/x"}, "a/b/net/y", X * W),
        (("--prefix", "o", "--map", "y=net/x"), "o_serving_default", {"x": "x"}, "o/net/y", X * W * W),
        (("--prefix", "o", "--map", "unused=net/x"), "o_serving_default", {"x": "x"}, "o/net/y", 2 * X * W * W),
    ],
)
def test_signatures_and_values(
    desk: Desk, tf: Any, options: tuple[str, ...], key: str, inputs: dict[str, str], output: str, expected: np.ndarray
) -> None:
    desk.done("import", "model", "other", *options, "-o", "out")
    found = load(str(desk.folder / "out"))
    assert found.serving is not None
    assert found.serving.called.keys() == {"serving_default", key}
    assert (dict(found.serving.called[key].inputs), dict(found.serving.called[key].outputs)) == (inputs, {"y": output})
    assert sum(node.op == "VarHandleOp" for node in found.nodes()) == 1, "the other one is a constant"
    assert read(desk.folder / "out").meta_graphs[0].signature_def[key].method_name == "tensorflow/serving/predict"
    for way in loaders.ALL:
        assert way(tf, str(desk.folder / "out"), key, {"x": X}) == {"y": expected.tolist()}, way
        assert way(tf, str(desk.folder / "out"), "serving_default", {"x": X}) == {"y": (X * W).tolist()}, way


def test_tables_that_a_loader_initialises(desk: Desk, tf: Any, saved_models: Shipped) -> None:
    """A model with a table can be imported into a GraphDef that becomes a model, but not into a model."""
    other, recorded = saved_models.path("table1"), saved_models.recorded("table1")
    desk.refused(4, "not-initialized", "import", "model", other, "--prefix", "o", "-o", "out")
    desk.done("import", "model.pb", other, "--prefix", "o", *QUICK, "-o", "out.pb")
    notes = [note for note in import_graph(load("model.pb"), load(other), scope="o").notes if isinstance(note, Remark)]
    (note,) = [note for note in notes if note.code == "run-before"]
    (init,), ((tensor, path),) = note.facts["nodes"], note.facts["feeds"].items()  # type: ignore[union-attr, misc]
    run = ("--init", str(init), "--asset", f"{tensor}={path}")
    desk.done("to-savedmodel", "out.pb", "--inputs=words=o/words", "--outputs=e=o/out", *run, *QUICK, "-o", "out")
    for way in loaders.ALL:
        assert way(tf, "out", "serving_default", recorded.inputs)["e"] == recorded.outputs["e"].tolist()


@pytest.mark.parametrize("gone", [("sparse", "ragged"), ("sparse",)])
def test_signatures_that_cannot_be_given_are_named(desk: Desk, gone: tuple[str, ...]) -> None:
    """They return nothing, or a ragged tensor."""
    meta = meta_graph(lambda name: f"net/{name}")
    for key in {"sparse", "ragged"} - {*gone}:
        del meta.signature_def[key]
    put(desk.folder / "third", meta)
    found = load(str(desk.folder / "model"))
    result = import_graph(found, load(str(desk.folder / "third")), scope="o")
    left = [note for note in result.notes if isinstance(note, Remark) and note.code == "no-signature"]
    assert {note.facts["signature"] for note in left} == {*gone}
    assert found.serving is not None and "o_serving_default" in found.serving.called


@pytest.mark.tensorflow
def test_into_a_graph(desk: Desk) -> None:
    """A GraphDef has no place for signatures, and none for a checkpoint."""
    desk.put("m.pb", graph_bytes(placeholder("a", FLOAT, ()), identity("b", "a")))
    desk.done("import", "m.pb", "other", "--prefix", "o", "-o", "out.pb")
    found = load(str(desk.folder / "out.pb"))
    assert {"VarHandleOp", "RestoreV2"}.isdisjoint(node.op for node in found.nodes())
    desk.put("s.gds", b"import other --prefix o\nrename b=c\n")
    desk.done("apply", "m.pb", "s.gds", "-o", "again.pb")
