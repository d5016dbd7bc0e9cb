"""repair: ops of variables that read values, dangling colocations, duplicate names, empty tables."""

from __future__ import annotations

import json
from functools import partial

import pytest
from support.desk import Desk, check_error
from support.expecting import check_graph, refused
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    STRING,
    add,
    attr,
    call,
    const,
    function,
    graph,
    graph_bytes,
    identity,
    inputs,
    library,
    names,
    node,
    placeholder,
    typed,
)
from support.running import run

from gdsurgeon.analysis.queries.compatibility import legacy_problems
from gdsurgeon.edits.repair import repair
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.load import from_bytes, uniquely_named
from gdsurgeon.proof.accounting import check_accounted

X = placeholder("x", shape=(2,))
V = const("v", [1.0, 2.0])
P = placeholder("p", BOOL, ())

MENDED = {
    "RefSwitch": ([typed("RefSwitch", "y", "x", "p")], [typed("Switch", "y", "x", "p")]),
    "RefEnter": (
        [typed("RefEnter", "y", "x", frame_name="f"), typed("RefExit", "z", "y")],
        [typed("Enter", "y", "x", frame_name="f"), typed("Exit", "z", "y")],
    ),
    "RefMerge": ([typed("RefMerge", "y", "x", "v", N=2)], [typed("Merge", "y", "x", "v", N=2)]),
    "Assign": (
        [typed("Assign", "y", "v", "x", use_locking=True, validate_shape=True, _note="a")],
        [identity("y", "x", _note="a")],
    ),
    "AssignAdd": (
        [typed("AssignAdd", "y", "v", "x", "^p", use_locking=False)],
        [typed("Add", "y", "v", "x", "^p")],
    ),
    "AssignSub": ([typed("AssignSub", "y", "v", "x")], [typed("Sub", "y", "v", "x")]),
    "ReadVariableOp": ([node("y", "ReadVariableOp", ["v"], dtype=FLOAT)], [identity("y", "v")]),
    "IsVariableInitialized": (
        [node("y", "IsVariableInitialized", ["v"], dtype=FLOAT)],
        [node("y", "Const", dtype=BOOL, value=attr(b"\x42\x07\x08\x0a\x12\x00\x5a\x01\x01"))],
    ),
    "ResourceGather": (
        [placeholder("i", INT32, ()),
         node("y", "ResourceGather", ["v", "i"], dtype=FLOAT, Tindices=INT32, batch_dims=0)],
        [placeholder("i", INT32, ()), node("y", "Gather", ["v", "i"], Tparams=FLOAT, Tindices=INT32)],
    ),
    "AssignVariableOp": (
        [node("y", "AssignVariableOp", ["v", "x"], dtype=FLOAT)],
        [node("y", "NoOp", ["^v", "^x"])],
    ),
    "VariableShape": (
        [node("y", "VariableShape", ["v"], out_type=INT64)],
        [typed("Shape", "y", "v", out_type=INT64)],
    ),
    "ResourceGatherNd": (
        [placeholder("i", INT32, (1,)), node("y", "ResourceGatherNd", ["v", "i"], dtype=FLOAT, Tindices=INT32)],
        [placeholder("i", INT32, (1,)), node("y", "GatherNd", ["v", "i"], Tparams=FLOAT, Tindices=INT32)],
    ),
    "training without consumers": (
        [const("rate", [0.1], shape=()), typed("ApplyGradientDescent", "y", "v", "rate", "x", "^p"),
         typed("ResourceApplyGradientDescent", "z", "v", "rate", "x"), node("all", "NoOp", ["^y", "^z"]),
         placeholder("i", INT32), typed("ScatterUpdate", "u", "v", "i", "x", Tindices=INT32)],
        [const("rate", [0.1], shape=()), node("y", "NoOp", ["^v", "^rate", "^x", "^p"]),
         node("z", "NoOp", ["^v", "^rate", "^x"]), node("all", "NoOp", ["^y", "^z"]),
         placeholder("i", INT32), node("u", "NoOp", ["^v", "^i", "^x"])],
    ),
    "ScatterNdUpdate after Assign": (
        [placeholder("i", INT32, (1, 1)), typed("Assign", "a", "v", "x"),
         typed("ScatterNdUpdate", "y", "a", "i", "u", Tindices=INT32, use_locking=True), const("u", [9.0])],
        [placeholder("i", INT32, (1, 1)), identity("a", "x"),
         typed("TensorScatterUpdate", "y", "a", "i", "u", Tindices=INT32), const("u", [9.0])],
    ),
    "colocation": (
        [add("y", "x", "v", _class=["loc:@gone", "loc:@v"])],
        [add("y", "x", "v", _class=["loc:@v"])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MENDED)
def test_what_wanted_a_variable_gives_the_same_of_a_value(what: str) -> None:
    before, after = MENDED[what]
    found = graph(X, P, V, *before)
    result = repair(found)
    check_accounted(found, result, found.chunks())
    check_graph(found, X, P, V, *after)


def test_variables_are_left_alone() -> None:
    found = graph(
        X, P, node("r", "VariableV2", dtype=FLOAT, shape=(2,)), node("h", "VarHandleOp", dtype=FLOAT, shape=(2,)),
        typed("Assign", "a", "r", "x"), typed("RefSwitch", "s", "a", "p"),
        node("b", "AssignVariableOp", ["h", "x"], dtype=FLOAT), node("c", "ReadVariableOp", ["h"], dtype=FLOAT),
    )  # fmt: skip
    assert legacy_problems(found) == []
    refused(found, "nothing-to-do", repair, error=NothingToDo)


def test_what_cannot_be_mended_is_told_and_nothing_is_changed() -> None:
    found = graph(
        X, V, P, typed("Assign", "a", "v", "x"), placeholder("i", INT32),
        typed("ScatterUpdate", "y", "v", "i", "x", Tindices=INT32), identity("z", "y"),
        node("g", "ResourceGather", ["v", "i"], dtype=FLOAT, Tindices=INT32, batch_dims=1),
    )  # fmt: skip
    error = refused(found, "not-mendable", repair, nodes=["y", "g"])
    assert len(error.details) == 2


def test_what_no_longer_changes_what_others_read_is_told() -> None:
    found = graph(
        X, V, node("a", "AssignVariableOp", ["v", "x"], dtype=FLOAT),
        node("r", "ReadVariableOp", ["v", "^a"], dtype=FLOAT),
        const("w", [1.0, 2.0]), typed("AssignSub", "b", "w", "x"), identity("c", "b"),
    )  # fmt: skip
    (warning,) = repair(found).warnings
    check_error(warning, "no-longer-changed", {"node": "a", "tensor": "v"})


def table(*more: bytes) -> list[bytes]:
    return [
        node("t", "HashTableV2", key_dtype=STRING, value_dtype=INT64),
        placeholder("k", STRING),
        placeholder("d", INT64),
        node("y", "LookupTableFindV2", ["t", "k", "d"], Tin=STRING, Tout=INT64),
        *more,
    ]


def test_tables_that_nothing_fills_are_named() -> None:
    empty = graph(*table())
    full = graph(*table(node("i", "InitializeTableV2", ["t", "k", "d"], Tkey=STRING, Tval=INT64)))
    assert [(each.kind, each.node, each.is_mendable) for each in legacy_problems(empty)] == [("table", "t", False)]
    assert legacy_problems(full) == []
    refused(empty, "not-mendable", repair, error=NothingToDo, nodes=["t"])


@pytest.mark.tensorflow
def test_an_op_that_is_not_known_is_a_fault(desk: Desk) -> None:
    custom = [X, typed("MyRelu", "y", "x")]
    refused(graph(*custom), "not-mendable", repair)
    refused(graph(*custom), "nothing-to-do", partial(repair, custom_ops=True), error=NothingToDo)
    called = library(function("F", node("y", "MyRelu", ["x"])))
    refused(graph(X, call("c", "F", ["x"], [FLOAT], [FLOAT]), called), "not-mendable", repair)
    desk.put("model.pb", graph_bytes(*custom))
    desk.refused(4, "not-mendable", "repair", "model.pb", "-o", "out.pb")
    ran = desk.run("repair", "model.pb", "--check", "--json")
    check_error(ran.error, "not-mendable", {"nodes": []})
    assert ran.code == 4 and [each["mendable"] for each in json.loads(ran.out)["faults"]] == [False]


# -- names that several nodes have ------------------------------------------------------------------------------


def doubled() -> bytes:
    return graph_bytes(
        X, const("c", [1.0, 2.0]), add("y", "x", "c"), const("c", [3.0, 4.0]), add("z", "x", "c", "^c"),
        const("c", [1.0, 2.0]), add("w", "x", "c"), node("c_1", "NoOp"),
    )  # fmt: skip


def test_each_of_several_nodes_of_a_name_gets_its_own() -> None:
    found = uniquely_named(from_bytes(doubled()))
    assert names(found) == ["x", "c", "y", "c_2", "z", "w", "c_1"]
    assert inputs(found)["y"] == ["x", "c"] and inputs(found)["w"] == ["x", "c"]
    assert inputs(found)["z"] == ["x", "c_2", "^c_2"]
    renamed, gone = found.repairs
    check_error(renamed, "renamed", {"node": "c", "name": "c_2"})
    check_error(gone, "duplicate-removed", {"node": "c"})
    plain = graph(X)
    assert uniquely_named(plain) is plain


def test_the_result_is_proven_as_far_as_the_original_goes(desk: Desk) -> None:
    desk.put("doubled.pb", doubled())
    ran = desk.done("repair", "doubled.pb", "-o", "out.pb", "--report", "report.json")
    assert "'c_2'" in ran.err, ran.err
    assert run(desk.files()["out.pb"], "y", "z", "w", x=[0.0, 0.0]) == [[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]  # type: ignore[arg-type]
    kinds = [each["kind"] for each in json.loads(desk.files()["report.json"])["edit"]["faults"]]
    assert kinds == ["name", "name"]


def test_what_is_wrong_is_listed(desk: Desk) -> None:
    desk.put("old.pb", graph_bytes(X, V, typed("AssignAdd", "a", "v", "x"), add("b", "x", "nobody"), *table()))
    ran = desk.run("repair", "old.pb", "--check")
    check_error(ran.error, "not-mendable", {"nodes": ["t"]})
    assert ran.code == 4 and len(ran.out.splitlines()) == 4
    ran = desk.run("repair", "old.pb", "--check", "--json")
    found = json.loads(ran.out)
    assert [(each["node"], each["mendable"]) for each in found["faults"]] == [("a", True), ("t", False), ("", False)]
    assert [name in each["text"] for name, each in zip("atb", found["faults"], strict=True)] == [True] * 3
    assert ran.code == found["exit_code"] == found["error"]["exit"] == 4
    desk.put("sound.pb", graph_bytes(X))
    ran = desk.run("repair", "sound.pb", "--check")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(desk.run("repair", "sound.pb", "--check", "--json").out)["faults"] == []
    desk.refused(2, "missing-option", "repair", "sound.pb", "--json")
    desk.refused(2, "conflicting-options", "repair", "sound.pb", "--check", "-o", "out.pb")
