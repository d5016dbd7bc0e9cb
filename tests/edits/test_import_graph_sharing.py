"""import: loops, tables, variables and functions of one name in both graphs."""

from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.expecting import expect
from support.graph_editor_running import float32, int32, run
from support.graphs import (
    FLOAT,
    INT32,
    STRING,
    const,
    define,
    graph,
    graph_bytes,
    identity,
    node,
    placeholder,
    scalar,
)
from support.importing import other_loop, ours

from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.runtime.client import Worker

# -- loops ---------------------------------------------------------------------------------------------------


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
    kinds = {"Tin": INT32, "Tout": INT32}
    return define(
        f"look_up_{number}",
        {},
        {"out": (INT32, "found:values:0")},
        node("table", "HashTableV2", key_dtype=INT32, value_dtype=INT32, shared_name="inside", container=""),
        const("key", [1], INT32),
        const("value", [number], INT32),
        scalar("default", -1, INT32),
        node("put", "LookupTableInsertV2", ["table:table_handle:0", "key:output:0", "value:output:0"], **kinds),
        node(
            "found", "LookupTableFindV2", ["table:table_handle:0", "key:output:0", "default:output:0", "^put"], **kinds
        ),
        stateful=True,
    )  # fmt: skip


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
