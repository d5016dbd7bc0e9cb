"""freeze-input: the values, as they are written, in arrays and in lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import graphs
from support.freezing import frozen, not_frozen, value_of
from support.graph_editor_running import run
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    STRING,
    UINT8,
    const,
    graph,
    identity,
    placeholder,
)

from gdsurgeon.edits.freeze_input import freeze_input
from gdsurgeon.errors import EditError
from gdsurgeon.runtime.client import Worker

INT8, INT16, UINT16, HALF = (graphs.dtype(n) for n in (6, 5, 17, 19))


UINT32, UINT64, COMPLEX64, BFLOAT16 = (graphs.dtype(n) for n in (22, 23, 8, 14))


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
    ("texts", STRING, (2,), np.array([b"a\xff", b"b\0"], object)),
    ("text", STRING, (), np.array(b"a")),
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
        ({"y": "1"}, "'y' is an Identity, not a Placeholder or a Const"),
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
