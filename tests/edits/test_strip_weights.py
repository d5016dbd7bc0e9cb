"""strip-weights: which constants go and which stay, in functions too; the result runs, and has every shape."""

from __future__ import annotations

import json

import pytest
from support.desk import Desk
from support.expecting import expect, refused
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    STRING,
    Value,
    add,
    attr,
    const,
    dtypes,
    function,
    graph,
    graph_bytes,
    identity,
    library,
    node,
    placeholder,
    scalar,
    shape_proto,
    typed,
)

from gdsurgeon.edits.strip_weights import strip_weights
from gdsurgeon.errors import NothingToDo, UsageError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.fields import encode_len

X = placeholder("x", shape=(2, 3))
TABLE = {"key_dtype": STRING, "value_dtype": INT64}


def zeros(name: str, shape: tuple[int, ...], **more: Value) -> bytes:
    """A constant of zeros, stored as one element."""
    value = encode_len(8, b"\x08\x01" + encode_len(2, shape_proto(shape)) + b"\x2a\x04\0\0\0\0")
    return node(name, "Const", dtype=FLOAT, value=value, **more)


def test_weights_go_and_axes_stay() -> None:
    expect(
        [
            X,
            const("w", [1.0] * 6, shape=(3, 2), _note="a"),
            typed("MatMul", "y", "x", "w"),
            const("axis", [1], INT32, ()),
            typed("Sum", "z", "y", "axis", Tidx=INT32),
            scalar("half", 0.5),
            typed("Mul", "out", "z", "half"),
        ],
        strip_weights,
        [
            X,
            zeros("w", (3, 2), _note="a"),
            typed("MatMul", "y", "x", "w"),
            const("axis", [1], INT32, ()),
            typed("Sum", "z", "y", "axis", Tidx=INT32),
            zeros("half", ()),
            typed("Mul", "out", "z", "half"),
        ],
        command="strip-weights",
    )


def stripped(found: Graph, **options: object) -> set[str]:
    """The constants that go."""
    try:
        return {*strip_weights(found, **options).intent.changed}  # type: ignore[arg-type]
    except NothingToDo:
        return set()


STAYS = {
    "a bound of a range": [scalar("c", 3), node("y", "Range", ["c", "c", "c"], Tidx=FLOAT)],
    "a divisor": [scalar("c", 3, INT32), placeholder("i", INT32), typed("FloorMod", "y", "i", "c", kind=INT32)],
    "a branch": [X, const("c", [], BOOL, ()), typed("Switch", "y", "x", "c")],
    "what is asserted": [node("c", "Const", dtype=BOOL, value=attr(b"\x42\x07\x08\x0a\x12\x00\x5a\x01\x01")),
                         node("y", "Assert", ["c", "c"], T=dtypes(BOOL))],
    "names in a checkpoint": [const("c", ["a"], STRING), node("y", "RestoreV2", ["c", "c", "c"], dtypes=dtypes(FLOAT))],
    "names of features": [
        placeholder("e", STRING), const("n", [], STRING), const("c", ["age"], STRING), const("d", [0.5]),
        node("y", "ParseExample", ["e", "n", "c", "d"], Nsparse=0, Ndense=1, sparse_types=dtypes(),
             Tdense=dtypes(FLOAT), dense_shapes=b"\x0a\x06\x3a\x04\x12\x02\x08\x01")],
    "what an unknown op reads": [scalar("c", 3), node("y", "NoSuchOp", ["c"])],
}  # fmt: skip


@pytest.mark.parametrize("what", STAYS)
def test_what_a_run_needs_stays(what: str) -> None:
    gone = stripped(graph(*STAYS[what]))
    assert "c" not in gone and (("d" in gone) == (what == "names of features"))


def test_large_constants_go_whatever_reads_them() -> None:
    found = graph(
        X,
        const("i", [0] * 1025, INT32),
        const("few", [0, 1], INT32),
        const("f", [1.0] * 9, shape=(3, 3)),
        node("a", "GatherV2", ["x", "i", "few"], Tparams=FLOAT, Tindices=INT32, Taxis=INT32),
        node("c", "Cast", ["f"], SrcT=FLOAT, DstT=INT32),
        typed("Reshape", "b", "x", "c", Tshape=INT32),
    )
    assert stripped(found) == {"i", "f"}


def look_up() -> Graph:
    return graph(
        const("keys", ["secret", "other"], STRING),
        node("values", "Const", dtype=INT64, value=encode_len(8, b"\x08\x09\x12\x04\x12\x02\x08\x02\x52\x02\x05\x06")),
        node("table", "HashTableV2", **TABLE),
        node("init", "InitializeTableV2", ["table", "keys", "values"], Tkey=STRING, Tval=INT64),
        const("word", ["hello"], STRING), identity("said", "word", kind=STRING),
    )  # fmt: skip


def test_strings_and_what_fills_a_table_go_unless_they_are_to_stay() -> None:
    assert stripped(look_up()) == {"keys", "values", "word"}
    assert stripped(look_up(), keep_strings=True) == set()
    assert stripped(look_up(), keep="^wo") == {"keys", "values"}
    assert stripped(graph(zeros("w", (3, 2)), identity("y", "w"))) == set(), "it is once more"
    refused(look_up(), "bad-pattern", lambda found: strip_weights(found, keep="("), error=UsageError, value="(")
    refused(look_up(), "nothing-matched", lambda found: strip_weights(found, keep="wrd"), value="wrd", near="word")


def test_functions_are_looked_into() -> None:
    body = function(
        "F",
        const("w", [1.0, 2.0]),
        const("axis", [0], INT32),
        add("s", "x", "w:output:0"),
        typed("Sum", "y", "s:z:0", "axis:output:0", Tidx=INT32),
    )
    found = graph(X, node("call", "F", ["x"]), trailer=library(body))
    result = strip_weights(found)
    assert result.intent.functions.changed == ["F"] and result.intent.changed == []
    inner = {each.name: each for each in found.functions["F"].node_def}
    assert inner["w"].attr["value"].tensor.float_val[:] == [0.0] and not inner["w"].attr["value"].tensor.tensor_content
    assert inner["axis"].attr["value"].tensor.tensor_content
    assert stripped(graph(X, node("call", "F", ["x"]), trailer=library(body)), keep="^F/w$") == set()


@pytest.mark.tensorflow
def test_the_result_runs_and_has_every_shape(desk: Desk) -> None:
    desk.put(
        "model.pb",
        graph_bytes(
            X,
            const("w", [1.0] * 300, shape=(3, 100)),
            typed("MatMul", "y", "x", "w"),
            scalar("zero", 0),
            typed("Greater", "above", "y", "zero"),
            typed("Where", "where", "above", kind=BOOL),
            scalar("one", 1, INT32),
            typed("FloorDiv", "n", "count", "one", kind=INT32),
            typed("Size", "count", "y", out_type=INT32),
        ),
    )
    desk.done("strip-weights", "model.pb", "-o", "out.pb", "--report", "report.json")
    outputs = json.loads(desk.files()["report.json"])["proof"]["outputs"]
    assert [(each["original"], each["dtype"], each["compared"]) for each in outputs] == [
        ("where", "int64", False), ("n", "int32", False)
    ]  # fmt: skip
    assert len({each["reason"] for each in outputs}) == 2, "of one the shape depends on values"
    assert len(desk.files()["out.pb"]) < 700


@pytest.mark.tensorflow
def test_what_does_not_run_without_its_values_is_a_failure(desk: Desk) -> None:
    """A matrix that has an inverse, and zeros, which have none."""
    eye = const("m", [1.0, 0.0, 0.0, 1.0], shape=(2, 2))
    desk.put("model.pb", graph_bytes(X, eye, typed("MatrixInverse", "y", "m")))
    ran = desk.refused(5, "does-not-run", "strip-weights", "model.pb", "-o", "out.pb")
    assert "--keep" in ran.err
    desk.refused(4, "nothing-to-do", "strip-weights", "model.pb", "--keep", "m", "--require-change")
