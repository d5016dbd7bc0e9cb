"""freeze-input: inputs of a graph become constants."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.graph_editor_running import float32, run
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    STRING,
    UINT8,
    add,
    const,
    graph,
    identity,
    node,
    placeholder,
    scalar,
)
from support.tf_graphs import Builder, Shape, operated, refused

from gdsurgeon.analysis.checks.check import check, check_edited
from gdsurgeon.edits.claims import SameGiven
from gdsurgeon.edits.freeze_input import freeze_input
from gdsurgeon.errors import EditError, GdsurgeonError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.runtime.client import Worker

INT8, INT16, UINT16, HALF = (graphs.dtype(n) for n in (6, 5, 17, 19))
UINT32, UINT64, COMPLEX64, BFLOAT16 = (graphs.dtype(n) for n in (22, 23, 8, 14))


pytestmark = pytest.mark.usefixtures("one_worker")


def not_frozen(found: Graph, values: dict[str, Any], words: str) -> EditError:
    """The error of a freeze, after which the graph is as it was."""
    before = graphs.written(found)
    with pytest.raises(EditError, match=words) as caught:
        freeze_input(found, values)
    assert graphs.written(found) == before
    assert not found.is_changed
    return caught.value


def frozen(kind: bytes, shape: tuple[int, ...] | None, value: Any) -> Graph:
    """A graph in which `p`, a placeholder of KIND and SHAPE, is VALUE."""
    found = graph(placeholder("p", kind, shape), identity("y", "p", kind=kind))
    freeze_input(found, {"p": value})
    assert check(from_bytes(graphs.written(found))).faults == []
    assert check_edited(found) == []
    return found


def value_of(found: Graph, name: str = "p") -> Any:
    """The value of a constant in the graph as it would be read again: (shape, elements)."""
    read = constant(from_bytes(graphs.written(found))[name])
    assert read is not None
    return read.shape, read.values


# -- the node ------------------------------------------------------------------------------------------------


def dropout() -> list[bytes]:
    return [
        placeholder("x", FLOAT, (-1, 2)), placeholder("keep_prob", FLOAT, ()), placeholder("train", BOOL, ()),
        node("scaled", "Mul", ["x", "keep_prob"], T=FLOAT), node("n", "NoOp", ["^train"]),
        identity("y", "scaled", "^n"), identity("t", "train", kind=BOOL),
    ]  # fmt: skip


@pytest.mark.tensorflow
def test_placeholders_become_constants_of_their_names_where_they_were(worker: Worker) -> None:
    found = graph(*dropout())
    result = freeze_input(found, {"keep_prob": "0.5", "train": "false"})
    assert graphs.names(found) == ["x", "keep_prob", "train", "scaled", "n", "y", "t"]
    wanted = graphs.proto(*dropout())
    got = graphs.parsed(found)
    assert [got.node[i] for i in (0, 3, 4, 5, 6)] == [wanted.node[i] for i in (0, 3, 4, 5, 6)]
    for i, number in ((1, 1), (2, 10)):
        made = got.node[i]
        assert (made.op, made.attr["dtype"].type, sorted(made.attr)) == ("Const", number, ["dtype", "value"])
    assert (value_of(found, "keep_prob"), value_of(found, "train")) == (((), [0.5]), ((), [False]))
    assert result.intent.changed == ["keep_prob", "train"]
    assert result.intent.added == result.intent.removed == result.intent.rewired == []
    (claim,) = result.claims
    assert isinstance(claim, SameGiven)
    assert claim.given == {"keep_prob": "keep_prob", "train": "train"}
    assert sorted(claim.outputs) == [("t", "t"), ("y", "y")]
    assert claim.statement == "edited(x) = original(x, keep_prob := its value, train := its value)"
    assert run(worker, found, "y", "t", fed={"x": float32([[2, 4]])}) == [[[1, 2]], False]


def test_others_keep_their_bytes() -> None:
    found = graph(*dropout())
    before = graphs.bodies(found)
    freeze_input(found, {"train": False})
    after = graphs.bodies(found)
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False, True, True, True, True]


def test_attrs_colocations_device_and_control_inputs_stay() -> None:
    found = graph(const("k", [1]), node("p", "Placeholder", ["^k"], dtype=FLOAT, shape=(), device="/cpu:0",
                  _class=["loc:@k"], _user=5, _output_shapes=graphs.encode_len(1, graphs.encode_len(7, b""))),
                  identity("y", "p", _class=["loc:@p"]))  # fmt: skip
    freeze_input(found, {"p": 3})
    got = graphs.parsed(found).node[1]
    assert (got.op, got.device, list(got.input), got.attr["_user"].i) == ("Const", "/cpu:0", ["^k"], 5)
    assert graphs.colocations(found) == {"p": [b"loc:@k"], "y": [b"loc:@p"]}
    assert "shape" not in got.attr
    shapes = got.attr["_output_shapes"].list.shape
    assert not shapes or not shapes[0].dim


def test_a_stale_output_shape_goes() -> None:
    shapes = graphs.encode_len(1, graphs.encode_len(7, graphs.shape_proto([-1])))
    found = graph(placeholder("x"), node("p", "Placeholder", dtype=FLOAT, shape=(-1,), _output_shapes=shapes),
                  identity("y", "p"))  # fmt: skip
    freeze_input(found, {"p": "[1, 2, 3]"})
    assert "_output_shapes" not in graphs.attrs(found, "p")


@pytest.mark.tensorflow
def test_a_placeholder_with_a_default(worker: Worker) -> None:
    records = [placeholder("x", FLOAT, (2,)), scalar("one", 1), node("keep", "PlaceholderWithDefault", ["one"],
               dtype=FLOAT, shape=()), node("y", "Mul", ["x", "keep"], T=FLOAT)]  # fmt: skip
    found = graph(*records)
    freeze_input(found, {"keep": "0.5"})
    got = graphs.parsed(found)
    assert [n.name for n in got.node] == ["x", "one", "keep", "y"] or [n.name for n in got.node] == ["x", "keep", "y"]
    assert (graphs.ops(found)["keep"], graphs.inputs(found)["keep"]) == ("Const", [])
    assert check(from_bytes(graphs.written(found))).faults == []
    assert run(worker, found, "y", fed={"x": float32([2, 4])}) == [[1, 2]]


def test_a_computed_default_that_nobody_needs_any_more_is_no_output() -> None:
    """What fed the default alone would be served where nothing was served before."""
    from gdsurgeon.analysis.queries.signature import signature

    found = graph(placeholder("x"), scalar("one", 1), identity("default", "one"),
                  node("keep", "PlaceholderWithDefault", ["default"], dtype=FLOAT, shape=()),
                  add("y", "x", "keep"))  # fmt: skip
    freeze_input(found, {"keep": 0.5})
    assert [o.name for o in signature(from_bytes(graphs.written(found))).outputs] == ["y"]


def test_placeholder_v2() -> None:
    found = graph(node("p", "PlaceholderV2", dtype=INT32, shape=(2,)), identity("y", "p", kind=INT32))
    freeze_input(found, {"p": "[1, 2]"})
    assert (graphs.ops(found)["p"], value_of(found)) == ("Const", ((2,), [1, 2]))
    assert check(from_bytes(graphs.written(found))).faults == []


def test_a_name_with_its_index() -> None:
    found = graph(placeholder("p", INT32, ()), identity("y", "p", kind=INT32))
    freeze_input(found, {"p:0": 4})
    assert value_of(found) == ((), [4])


# -- values --------------------------------------------------------------------------------------------------

TEXTS: list[tuple[str, bytes, tuple[int, ...] | None, Any, tuple[int, ...], list[Any]]] = [
    ("bool", BOOL, (), "true", (), [True]),
    ("bool-capital", BOOL, (), "False", (), [False]),
    ("bool-digit", BOOL, (), "1", (), [True]),
    ("bool-python", BOOL, (), True, (), [True]),
    ("bools", BOOL, (2,), "[true, False]", (2,), [True, False]),
    ("int32", INT32, (), "-7", (), [-7]),
    ("int32-lowest", INT32, (), str(-(1 << 31)), (), [-(1 << 31)]),
    ("int32-highest", INT32, (), str((1 << 31) - 1), (), [(1 << 31) - 1]),
    ("int64-lowest", INT64, (), str(-(1 << 63)), (), [-(1 << 63)]),
    ("int64-beyond-double", INT64, (), str((1 << 53) + 1), (), [(1 << 53) + 1]),
    ("uint64-highest", UINT64, (), str((1 << 64) - 1), (), [(1 << 64) - 1]),
    ("uint32-highest", UINT32, (), str((1 << 32) - 1), (), [(1 << 32) - 1]),
    ("uint8", UINT8, (), "255", (), [255]),
    ("int8", INT8, (), "-128", (), [-128]),
    ("int16", INT16, (), "-32768", (), [-32768]),
    ("uint16", UINT16, (), "65535", (), [65535]),
    ("python-int", INT32, (), 3, (), [3]),
    ("float", FLOAT, (), "0.5", (), [0.5]),
    ("float-of-int", FLOAT, (), "3", (), [3.0]),
    ("float-point-first", FLOAT, (), ".5", (), [0.5]),
    ("float-exponent", FLOAT, (), "1e-3", (), [np.float32(1e-3)]),
    ("float-python", FLOAT, (), 1e-07, (), [np.float32(1e-7)]),
    ("float-negative-zero", FLOAT, (), "-0.0", (), [-0.0]),
    ("double", DOUBLE, (), "0.1", (), [0.1]),
    ("half", HALF, (), "0.1", (), [float(np.float16(0.1))]),
    ("half-largest", HALF, (), "65504", (), [65504.0]),
    ("infinity", FLOAT, (), "inf", (), [float("inf")]),
    ("negative-infinity", FLOAT, (), "-inf", (), [float("-inf")]),
    ("negative-infinity-double", DOUBLE, (), "-Infinity", (), [float("-inf")]),
    ("half-infinity", HALF, (), "inf", (), [float("inf")]),
    ("python-infinity", FLOAT, (), float("-inf"), (), [float("-inf")]),
    ("list", FLOAT, (3,), "[1, 2, 3]", (3,), [1, 2, 3]),
    ("commas", INT32, (3,), "1,2,3", (3,), [1, 2, 3]),
    ("rows", INT32, (-1, 2), "[[1, 2], [3, 4], [5, 6]]", (3, 2), [1, 2, 3, 4, 5, 6]),
    ("empty", FLOAT, (0,), "[]", (0,), []),
    ("empty-rows", FLOAT, (2, 0), "[[], []]", (2, 0), []),
    ("list-of-one", FLOAT, (1,), "[7]", (1,), [7]),
    ("unknown-rank-list", INT32, None, "[[1], [2]]", (2, 1), [1, 2]),
    ("unknown-rank-scalar", INT32, None, "5", (), [5]),
    ("scalar-for-rank-1", FLOAT, (-1,), "0.5", (1,), [0.5]),
    ("scalar-for-rank-3", FLOAT, (1, -1, 1), "0.5", (1, 1, 1), [0.5]),
    ("string", STRING, (), "hello, [world", (), [b"hello, [world"]),
    ("string-empty", STRING, (), "", (), [b""]),
    ("string-like-a-number", STRING, (), "1.50", (), [b"1.50"]),
    ("string-not-ascii", STRING, (), "é\U0001f600", (), ["é\U0001f600".encode()]),
    ("string-not-utf8", STRING, (), b"\xff\xfe".decode("utf-8", "surrogateescape"), (), [b"\xff\xfe"]),
    ("strings", STRING, (2,), '["a", "bé"]', (2,), [b"a", "bé".encode()]),
    ("string-scalar-for-rank-1", STRING, (-1,), "a", (1,), [b"a"]),
    ("strings-empty", STRING, (0,), "[]", (0,), []),
]


@pytest.mark.parametrize(
    ("kind", "stated", "text", "shape", "values"), [t[1:] for t in TEXTS], ids=[t[0] for t in TEXTS]
)
def test_values_as_they_are_written(
    kind: bytes, stated: tuple[int, ...] | None, text: Any, shape: tuple[int, ...], values: Any
) -> None:
    found_shape, found = value_of(frozen(kind, stated, text))
    assert found_shape == shape
    assert found == values
    assert [str(v).startswith("-") for v in found] == [str(v).startswith("-") for v in values]


@pytest.mark.parametrize("kind", [FLOAT, DOUBLE, HALF])
@pytest.mark.parametrize("text", ["nan", "NaN", "[nan, NAN]", float("nan")])
def test_nan(kind: bytes, text: Any) -> None:
    shape, values = value_of(frozen(kind, None, text))
    assert values and all(v != v for v in values)
    assert shape == ((2,) if str(text).startswith("[") else ())


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [(HALF, "[0.1, -inf, 65504]", [float(np.float16(0.1)), float("-inf"), 65504.0]), (UINT8, "[0, 255]", [0, 255]),
     (INT8, "[-128, 127]", [-128, 127]), (UINT16, "[65535]", [65535]), (UINT64, f"[{(1 << 64) - 1}]", [(1 << 64) - 1]),
     (STRING, '["a", "b"]', [b"a", b"b"]), (BOOL, "[true, false]", [True, False]), (INT64, "[-1]", [-1])],
)  # fmt: skip
def test_tensorflow_reads_the_same(kind: bytes, text: str, expected: list[Any], worker: Worker) -> None:
    (got,) = run(worker, frozen(kind, None, text), "y")
    assert got == expected


ARRAYS: list[tuple[str, bytes, tuple[int, ...] | None, Any]] = [
    ("float32", FLOAT, (2, 2), np.array([[1, 2], [3, 4]], np.float32)),
    ("float64", DOUBLE, (-1,), np.array([0.1, 0.2])),
    ("float16", HALF, (1,), np.array([0.1], np.float16)),
    ("int64", INT64, (), np.array(5)),
    ("uint8", UINT8, (-1, 2), np.array([[1, 2]], np.uint8)),
    ("bool", BOOL, (2,), np.array([True, False])),
    ("complex64", COMPLEX64, (1,), np.array([1 + 2j], np.complex64)),
    ("empty", FLOAT, (0, 3), np.zeros((0, 3), np.float32)),
    ("strided", FLOAT, (2,), np.array([1, 2, 3, 4], np.float32)[::2]),
    ("fortran", FLOAT, (2, 2), np.asfortranarray(np.array([[1, 2], [3, 4]], np.float32))),
    ("big-endian", FLOAT, (2,), np.array([1, 2], ">f4")),
    ("big-endian-ints", INT32, (2,), np.array([1, 2], ">i4")),
    ("read-only", FLOAT, (2,), np.broadcast_to(np.float32(3), (2,))),
    ("number-of-numpy", FLOAT, (), np.float32(0.25)),
    ("bool-of-numpy", BOOL, (), np.bool_(True)),
]


@pytest.mark.tensorflow
@pytest.mark.parametrize(("kind", "stated", "array"), [a[1:] for a in ARRAYS], ids=[a[0] for a in ARRAYS])
def test_arrays(kind: bytes, stated: tuple[int, ...] | None, array: Any, worker: Worker) -> None:
    (got,) = run(worker, frozen(kind, stated, array), "y")
    assert got == array.tolist()


def test_a_number_of_numpy_fills_a_known_rank_like_a_number() -> None:
    assert value_of(frozen(FLOAT, (-1,), np.float32(0.5))) == ((1,), [0.5])


def test_bytes_are_a_text() -> None:
    """They are refused, or taken for what they are: never for what Python writes them as."""
    found = graph(placeholder("p", STRING, ()), identity("y", "p", kind=STRING))
    try:
        freeze_input(found, {"p": b"abc"})
    except EditError:
        return
    assert value_of(found) == ((), [b"abc"])


def test_lists_of_python() -> None:
    """They are refused, or taken for what they are."""
    for kind, value, expected in ((FLOAT, [1.5, 2], [1.5, 2]), (BOOL, [True, False], [True, False]),
                                  (STRING, ["a", "b"], [b"a", b"b"]), (STRING, ["[a"], [b"[a"])):  # fmt: skip
        found = graph(placeholder("p", kind, None), identity("y", "p", kind=kind))
        try:
            freeze_input(found, {"p": value})
        except EditError:
            continue
        assert value_of(found)[1] == expected


def test_a_big_array_is_kept_as_bytes() -> None:
    found = frozen(FLOAT, None, np.arange(300_000, dtype=np.float32))
    assert graphs.attrs(found, "p")["value"].tensor.tensor_content == np.arange(300_000, dtype=np.float32).tobytes()


@pytest.mark.parametrize(
    ("kind", "shape", "value", "words"),
    [
        (INT32, (), str(1 << 31), "is not int32"),
        (INT32, (), str(-(1 << 31) - 1), "is not int32"),
        (INT64, (), str(1 << 63), "is not int64"),
        (UINT8, (), "256", "is not uint8"),
        (UINT8, (), "-1", "is not uint8"),
        (INT8, (), "128", "is not int8"),
        (UINT16, (), "-1", "is not uint16"),
        (UINT32, (), str(1 << 32), "is not uint32"),
        (UINT64, (), "-1", "is not uint64"),
        (HALF, (), "65520", "is not float16"),
        (HALF, (), "1e9", "is not float16"),
        (FLOAT, (), "1e39", "is not float32"),
        (FLOAT, (), "-1e39", "is not float32"),
        (FLOAT, (), "1" + "0" * 400, "is not float32"),
        (DOUBLE, (), "1" + "0" * 400, "is not float64"),
        (DOUBLE, (), "1e400", "is not float64"),
        (INT32, (), "0.5", "is not int32"),
        (INT32, (), "true", "is not int32"),
        (INT32, (), "1e2", "is not int32"),
        (FLOAT, (), "true", "is not float32"),
        (FLOAT, (), "null", "is not"),
        (FLOAT, (), '"1"', "is not"),
        (FLOAT, (), "{}", "is not"),
        (BOOL, (), "2", "is not bool"),
        (BOOL, (), "0.5", "is not bool"),
        (BOOL, (), "yes", "is not"),
        (FLOAT, (), "", "is not"),
        (FLOAT, (), "abc", "is not a number"),
        (FLOAT, (), "[1", "is not a number"),
        (FLOAT, (), "1 2", "is not a number"),
        (FLOAT, (), "[" * 100_000, "is not"),
        (FLOAT, None, "[[1], [2, 3]]", "is a ragged list"),
        (FLOAT, None, "[1, [2]]", "is a ragged list"),
        (STRING, (1,), "[1]", "is not string"),
        (STRING, (1,), '["a', "is not a text"),
        (FLOAT, (3,), "[1, 2]", r"the value for 'p' has the shape \[2\]: it takes float32 \[3\]"),
        (FLOAT, (), "[1]", r"the value for 'p' has the shape \[1\]"),
        (FLOAT, (3,), "1", r"the value for 'p' has the shape \[1\]"),
        (FLOAT, (2, -1), "[[1, 2]]", r"has the shape \[1,2\]: it takes float32 \[2,\?\]"),
        (STRING, (2,), "a", r"has the shape \[1\]"),
        (FLOAT, (2,), np.zeros(2), "the array for 'p' is float64, not float32"),
        (FLOAT, (2,), np.zeros(2, np.int32), "the array for 'p' is int32, not float32"),
        (FLOAT, (3,), np.zeros(2, np.float32), r"has the shape \[2\]"),
        (STRING, (1,), np.array(["a"]), "not string"),
        (FLOAT, (1,), np.array([{}], object), "not float32"),
        (COMPLEX64, (), "1", "complex64"),
        (BFLOAT16, (), "1", "bfloat16"),
        (graphs.dtype(20), (), "1", "resource"),
        (FLOAT, (), "\x1b[31m", "is not a number"),
    ],
)
def test_values_that_do_not_fit(kind: bytes, shape: tuple[int, ...] | None, value: Any, words: str) -> None:
    found = graph(placeholder("p", kind, shape), identity("y", "p", kind=kind), placeholder("q", FLOAT, ()))
    error = not_frozen(found, {"p": value}, words)
    assert "'p'" in error.message
    assert "\x1b" not in error.message
    not_frozen(found, {"q": "1", "p": value}, words)


@pytest.mark.parametrize("text", ['["\\ud800"]', '["\udcff"]', '["a", "\udcff"]'])
def test_texts_in_lists_that_are_no_utf8(text: str) -> None:
    """A command line holds any bytes, and JSON half of a pair: taken as bytes, or refused."""
    found = graph(placeholder("p", STRING, None), identity("y", "p", kind=STRING))
    try:
        freeze_input(found, {"p": text})
    except EditError:
        assert not found.is_changed
    else:
        assert b"\xff" in value_of(found)[1]


def test_a_message_does_not_repeat_a_long_value() -> None:
    found = graph(placeholder("p", FLOAT, (2,)), identity("y", "p"))
    error = not_frozen(found, {"p": "[" + "1, " * 100_000 + "x]"}, "is not")
    assert len(error.message) < 2000


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "nothing to freeze"),
        ({"is_trainig": "false"}, "Did you mean 'is_training'"),
        ({"nope": "1"}, "has no node 'nope'"),
        ({"k": "[1, 2]"}, "it takes "),
        ({"k": "one"}, "'k'"),
        ({"y": "1"}, "'y' is a Identity, not a Placeholder or a Const"),
        ({"is_training:1": "1"}, "is_training:1"),
        ({"^is_training": "1"}, "is_training"),
        ({"is_training": "false", "nope": "1"}, "has no node 'nope'"),
    ],
)
def test_names_that_are_no_inputs(values: dict[str, Any], words: str) -> None:
    found = graph(placeholder("is_training", BOOL, ()), identity("y", "is_training", kind=BOOL), const("k", [1]))
    not_frozen(found, values, words)


def test_one_input_twice() -> None:
    """By two spellings of its name, with two values."""
    found = graph(placeholder("p", FLOAT, ()), identity("y", "p"))
    not_frozen(found, {"p": "1", "p:0": "2"}, "'p'")


def test_scalars_of_an_old_producer() -> None:
    """Its shape says nothing: any value fits."""
    found = graph(placeholder("p", FLOAT, ()), identity("y", "p"), trailer=graphs.versions(20))
    freeze_input(found, {"p": "[1, 2]"})
    assert value_of(found) == ((2,), [1, 2])


# -- proven --------------------------------------------------------------------------------------------------


def built() -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.placeholder("scale", "float32", ())
    m.node("y", "Mul", ["x", "scale"], T="float32")
    return m


@pytest.mark.tensorflow
def test_a_freeze_is_proven(tmp_path: Path) -> None:
    overrides = Overrides({"x": "[1, 2]"})
    outcome = operated(tmp_path, built(), lambda g: freeze_input(g, {"scale": "3"}), overrides=overrides)
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("y", "[3, 6]")]
    assert outcome.proof.feeds == {"x": "float32 [2]"}
    assert [i.name for i in outcome.after.inputs] == ["x"]  # type: ignore[union-attr]


@pytest.mark.tensorflow
def test_constants_get_other_values(tmp_path: Path) -> None:
    m = built()
    m.const("w", [1.0, 2.0])
    m.const("shift", 1.0)
    m.node("scaled", "Mul", ["y", "w"], T="float32")
    m.node("z", "Add", ["scaled", "shift"], T="float32")
    outcome = operated(
        tmp_path,
        m,
        lambda g: freeze_input(g, {"w": np.array([3, 4], np.float32), "shift": "10", "scale": "2"}),
        overrides=Overrides({"x": "[1, 2]"}),
    )
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("z", "[16, 26]")]
    assert set(outcome.result.intent.changed) == {"w", "shift", "scale"}
    error = not_frozen(load(str(tmp_path / "out.pb")), {"w": np.ones((1, 2), np.float32)}, "it takes")
    assert "float32 [2]" in error.message


@pytest.mark.tensorflow
def test_all_inputs_may_be_frozen(tmp_path: Path) -> None:
    outcome = operated(tmp_path, built(), lambda g: freeze_input(g, {"scale": "3", "x": "[1, 2]"}))
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("y", "[3, 6]")]
    assert outcome.proof.samples == 1


@pytest.mark.tensorflow
def test_a_value_on_which_the_model_does_not_run_is_refused(tmp_path: Path) -> None:
    m = Builder()
    m.placeholder("x", "float32", (4,))
    m.placeholder("size", "int32", (1,))
    m.node("y", "Reshape", ["x", "size"], T="float32", Tshape="int32")
    error = refused(tmp_path, m, lambda g: freeze_input(g, {"size": "[3]"}))
    assert error.exit_code == 5


@pytest.mark.tensorflow
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_no_number_is_proven(value: str, tmp_path: Path) -> None:
    outcome = operated(tmp_path, built(), lambda g: freeze_input(g, {"scale": value}))
    assert [o.after for o in outcome.proof.compared] == ["y"]


@pytest.mark.tensorflow
def test_a_frozen_default_is_proven(tmp_path: Path) -> None:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("one", 1.0)
    m.node("scale", "PlaceholderWithDefault", ["one"], dtype="float32", shape=Shape(()))
    m.node("y", "Mul", ["x", "scale"], T="float32")
    outcome = operated(tmp_path, m, lambda g: freeze_input(g, {"scale": "3"}), overrides=Overrides({"x": "[1, 2]"}))
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("y", "[3, 6]")]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "overrides", [Overrides({"scale": "2"}), Overrides(shapes={"scale": ()})], ids=["feed", "shape"]
)
def test_a_feed_for_a_frozen_input_is_refused(overrides: Overrides, tmp_path: Path) -> None:
    """It would be ignored in silence: the result has no such input."""
    with pytest.raises(GdsurgeonError) as caught:
        operated(tmp_path, built(), lambda g: freeze_input(g, {"scale": "3"}), overrides=overrides)
    assert caught.value.exit_code == 2
    assert "'scale'" in caught.value.message


# -- the command line ----------------------------------------------------------------------------------------


def command(folder: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "gdsurgeon", "freeze-input", "model.pb", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr and "internal fault" not in done.stderr, done.stderr
    return done.returncode, done.stderr


@pytest.mark.tensorflow
def test_feed_of_a_frozen_input_is_refused_by_the_command(tmp_path: Path) -> None:
    built().write(tmp_path / "model.pb")
    code, said = command(tmp_path, "scale=3", "--feed", "scale=2", "-o", "out.pb")
    assert code == 2, said
    assert "scale" in said.splitlines()[0] and "frozen" in said
    assert not (tmp_path / "out.pb").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["scale=3"], 0, ""),
        (["scale=@value.npy"], 0, ""),
        (["scale=-3", "x=1,2"], 0, ""),
        (["scale=3", "scale=4"], 2, "two values"),
        (["scale=3", "scale:0=4"], 2, "two values"),
        (["scale"], 2, "is not a pair"),
        (["=3"], 2, "is not a pair"),
        ([], 2, "NAME=VALUE"),
        (["scale="], 4, "is not a number"),
        (["scale=@gone.npy"], 2, "no such file"),
        (["scale=@model.pb"], 2, "no .npy file"),
        (["scale=@empty.npy"], 2, "no .npy file"),
        (["scale=@cut.npy"], 2, "no .npy file"),
        (["scale=@pickled.npy"], 2, "no .npy file"),
        (["scale=@archive.npz"], 2, "no .npy file"),
        (["scale=@."], 2, "is a directory"),
        (["scale=@double.npy"], 4, "float64"),
        (["scal=3"], 4, "Did you mean 'scale'"),
        (["--values", "archive.npz"], 0, ""),
        (["x=1,2", "--values", "archive.npz"], 0, ""),
        (["scale=3", "--values", "archive.npz"], 2, "two values"),
        (["--values", "value.npy"], 2, "no .npz archive"),
        (["--values", "model.pb"], 2, "no .npz archive"),
        (["--values", "gone.npz"], 2, "no such file"),
    ],
)
def test_command(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    built().write(tmp_path / "model.pb")
    np.save(tmp_path / "value.npy", np.float32(3))
    np.save(tmp_path / "double.npy", np.float64(3))
    np.save(tmp_path / "pickled.npy", np.array([{}], object))
    np.savez(tmp_path / "archive.npz", scale=np.float32(3))
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "cut.npy").write_bytes((tmp_path / "value.npy").read_bytes()[:-2])
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    got, said = command(tmp_path, *arguments, "-o", "out.pb", "--validate", "structure", "--report", "report.json")
    assert got == code, said
    assert words in said
    after = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert {k: after[k] for k in before} == before
    written = set(after) - set(before)
    assert written == {"out.pb", "report.json"} if not code else written <= {"report.json"}
    if "report.json" in written:
        assert json.loads(after["report.json"])["passed"] == (not code)
