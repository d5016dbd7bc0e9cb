"""freeze-input: inputs of a graph become constants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.desk import Desk
from support.expecting import expect, refused, sound
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    RESOURCE,
    STRING,
    UINT8,
    X,
    const,
    graph,
    identity,
    node,
    placeholder,
    scalar,
    typed,
)
from support.running import run

from gdsurgeon.analysis.checks.check import check_edited
from gdsurgeon.edits.claims import SameGiven
from gdsurgeon.edits.freeze_input import freeze_input
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.ops.dtypes import DTYPES
from gdsurgeon.wire.protos import TensorProto, TensorShapeProto


def frozen(kind: bytes, shape: tuple[int, ...] | None, value: Any) -> Graph:
    """A graph in which `p`, a placeholder of KIND and SHAPE, is VALUE."""
    found = graph(placeholder("p", kind, shape), identity("y", "p", kind=kind))
    freeze_input(found, {"p": value})
    assert sound(found)
    assert check_edited(found) == []
    return found


def value_of(found: Graph, name: str = "p") -> Any:
    """The value of a constant in the graph as it would be read again: (shape, elements)."""
    read = constant(from_bytes(graphs.written(found))[name])
    assert read is not None
    return read.shape, read.values


def constant_of(name: str, kind: bytes, shape: Sequence[int], **elements: Sequence[Any]) -> bytes:
    """A constant of typed ELEMENTS, such as float_val, as a frozen input has them."""
    dims = TensorShapeProto.FromString(graphs.shape_proto(shape))
    value = TensorProto(dtype=kind[1], tensor_shape=dims, **elements)
    return node(name, "Const", dtype=kind, value=graphs.encode_len(8, value.SerializeToString()))


# -- the node ------------------------------------------------------------------------------------------------


def test_placeholders_become_constants_of_their_names_where_they_were() -> None:
    records = [
        placeholder("x", FLOAT, (-1, 2)), placeholder("keep_prob", FLOAT, ()), placeholder("train", BOOL, ()),
        typed("Mul", "scaled", "x", "keep_prob"), node("n", "NoOp", ["^train"]),
        identity("y", "scaled", "^n"), identity("t", "train", kind=BOOL),
    ]  # fmt: skip
    found = graph(*records)
    values = [constant_of("keep_prob", FLOAT, (), float_val=[0.5]), constant_of("train", BOOL, (), bool_val=[False])]
    after, command = [records[0], *values, *records[3:]], "freeze-input keep_prob=0.5 train=false"
    result = expect(found, lambda g: freeze_input(g, {"keep_prob": "0.5", "train": "false"}), after, command=command)
    (claim,) = result.claims
    assert isinstance(claim, SameGiven)
    assert claim.given == {"keep_prob": "keep_prob", "train": "train"}
    assert sorted(claim.outputs) == [("t", "t"), ("y", "y")]
    assert claim.statement == "edited(x) == original(x, keep_prob := its value, train := its value)"
    assert run(found, "y", "t", x=[[2.0, 4.0]]) == [[[1, 2]], False]


def test_a_stale_output_shape_goes() -> None:
    stale = node("p", "Placeholder", dtype=FLOAT, shape=(-1,), _output_shapes=[(-1,)])
    after = [constant_of("p", FLOAT, (3,), float_val=[1, 2, 3]), identity("y", "p")]
    expect([stale, identity("y", "p")], lambda g: freeze_input(g, {"p": "[1, 2, 3]"}), after)


def test_a_placeholder_with_a_default() -> None:
    default = node("keep", "PlaceholderWithDefault", ["one"], dtype=FLOAT, shape=())
    product = typed("Mul", "y", "x", "keep")
    found = graph(X, scalar("one", 1), default, product)
    after = [X, constant_of("keep", FLOAT, (), float_val=[0.5]), product]
    expect(found, lambda g: freeze_input(g, {"keep": "0.5"}), after)
    assert run(found, "y", x=[2.0, 4.0]) == [[1, 2]]


# -- values ---------------------------------------------------------------------------------------------------


INT8, UINT16, HALF = (graphs.dtype(n) for n in (6, 17, 19))
UINT32, UINT64, COMPLEX64, BFLOAT16 = (graphs.dtype(n) for n in (22, 23, 8, 14))
TEXTS: list[tuple[str, bytes, tuple[int, ...] | None, Any, tuple[int, ...], list[Any]]] = [
    ("bools", BOOL, (2,), "True, fALSE", (2,), [True, False]),
    ("bool-python", BOOL, (), True, (), [True]),
    ("int32", INT32, (), "-7", (), [-7]),
    ("int32-lowest", INT32, (), str(-(1 << 31)), (), [-(1 << 31)]),
    ("int64-lowest", INT64, (), str(-(1 << 63)), (), [-(1 << 63)]),
    ("int64-beyond-double", INT64, (), str((1 << 53) + 1), (), [(1 << 53) + 1]),
    ("uint64-highest", UINT64, (), str((1 << 64) - 1), (), [(1 << 64) - 1]),
    ("spellings", FLOAT, (3,), "[.5, INF, -Infinity]", (3,), [0.5, float("inf"), float("-inf")]),
    ("float-negative-zero", FLOAT, (), "-0.0", (), [-0.0]),
    ("double", DOUBLE, (), "0.1", (), [0.1]),
    ("half", HALF, (), "0.1", (), [float(np.float16(0.1))]),
    ("list", FLOAT, (3,), "[1, 2, 3]", (3,), [1, 2, 3]),
    ("rows", INT32, (-1, 2), "[[1, 2], [3, 4], [5, 6]]", (3, 2), [1, 2, 3, 4, 5, 6]),
    ("empty", FLOAT, (0,), "[]", (0,), []),
    ("unknown-rank-list", INT32, None, "[[1], [2]]", (2, 1), [1, 2]),
    ("scalar-for-rank-3", FLOAT, (1, -1, 1), "0.5", (1, 1, 1), [0.5]),
    ("string-like-a-number", STRING, (), "1.50", (), [b"1.50"]),
    ("string-not-utf8", STRING, (), b"\xff\xfe".decode("utf-8", "surrogateescape"), (), [b"\xff\xfe"]),
    ("strings", STRING, (2,), '["a", "bé"]', (2,), [b"a", "bé".encode()]),
    ("strings-like-numbers", STRING, (2,), '["nan", ".5"]', (2,), [b"nan", b".5"]),
    ("strings-not-utf8", STRING, None, '["a", "\udcff"]', (2,), [b"a", b"\xff"]),
    ("bytes", STRING, (), b"abc", (), [b"abc"]),
    ("number-of-numpy", FLOAT, (-1,), np.float32(0.5), (1,), [0.5]),
    ("list-of-python", FLOAT, None, [1.5, 2], (2,), [1.5, 2]),
    ("bools-of-python", BOOL, None, [True, False], (2,), [True, False]),
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


ARRAYS: list[tuple[str, bytes, tuple[int, ...] | None, Any]] = [
    ("float16", HALF, (1,), np.array([0.1], np.float16)),
    ("texts", STRING, (2,), np.array([b"a\xff", b"b\0"], object)),
    ("complex64", COMPLEX64, (1,), np.array([1 + 2j], np.complex64)),
    ("empty", FLOAT, (0, 3), np.zeros((0, 3), np.float32)),
    ("fortran", FLOAT, (2, 2), np.asfortranarray(np.array([[1, 2], [3, 4]], np.float32))),
    ("big-endian", FLOAT, (2,), np.array([1, 2], ">f4")),
    ("read-only", FLOAT, (2,), np.broadcast_to(np.float32(3), (2,))),
    ("bool-of-numpy", BOOL, (), np.bool_(True)),
]


RUN: list[tuple[str, bytes, tuple[int, ...] | None, Any, Any]] = [
    ("half", HALF, None, "[0.1, -inf, 65504]", [float(np.float16(0.1)), float("-inf"), 65504.0]),
    ("uint8", UINT8, None, "[0, 255]", [0, 255]),
    ("int8", INT8, None, "[-128, 127]", [-128, 127]),
    ("uint16", UINT16, None, "[65535]", [65535]),
    ("uint64", UINT64, None, f"[{(1 << 64) - 1}]", [(1 << 64) - 1]),
    ("string", STRING, None, '["a", "b"]', [b"a", b"b"]),
    ("bool", BOOL, None, "[true, false]", [True, False]),
    ("int64", INT64, None, "[-1]", [-1]),
    *((name, kind, shape, array, array.tolist()) for name, kind, shape, array in ARRAYS),
]


@pytest.mark.parametrize(("kind", "stated", "value", "expected"), [r[1:] for r in RUN], ids=[r[0] for r in RUN])
def test_tensorflow_reads_the_same(kind: bytes, stated: tuple[int, ...] | None, value: Any, expected: Any) -> None:
    (got,) = run(frozen(kind, stated, value), "y")
    assert got == expected


def test_a_big_array_is_kept_as_bytes() -> None:
    found = frozen(FLOAT, None, np.arange(300_000, dtype=np.float32))
    assert graphs.attrs(found, "p")["value"].tensor.tensor_content == np.arange(300_000, dtype=np.float32).tobytes()


TOO_LONG = "1" + "0" * 400


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (INT32, [str(1 << 31), str(-(1 << 31) - 1), "0.5", "true", "1e2"]),
        (INT64, [str(1 << 63)]),
        (UINT8, ["256", "-1"]),
        (INT8, ["128"]),
        (UINT16, ["-1"]),
        (UINT32, [str(1 << 32)]),
        (UINT64, ["-1"]),
        (HALF, ["65520", "1e9"]),
        (FLOAT, ["1e39", "-1e39", TOO_LONG, "true", "null", '"1"', "{}"]),
        (DOUBLE, [TOO_LONG, "1e400", "-1e400"]),
        (BOOL, ["2", "0.5"]),
    ],
)
def test_texts_that_are_not_of_the_dtype(kind: bytes, texts: list[str]) -> None:
    found = graph(placeholder("p", kind, ()), identity("y", "p", kind=kind), placeholder("q", FLOAT, ()))
    for text in texts:
        facts = {"node": "p", "expected": DTYPES[kind[1]].name}
        for values in ({"p": text}, {"q": "1", "p": text}):
            refused(found, "bad-value", partial(freeze_input, values=values), **facts)


P = {"node": "p"}


@pytest.mark.parametrize(
    ("kind", "shape", "value", "code", "facts"),
    [
        (BOOL, (), "yes", "not-a-literal", P),
        *((FLOAT, (), text, "not-a-literal", P) for text in ("", "abc", "[1", "1 2", "[" * 100_000, "\x1b[31m")),
        (STRING, (1,), '["a', "not-a-literal", P),
        (FLOAT, None, "[[1], [2, 3]]", "ragged-list", P),
        (FLOAT, None, "[1, [2]]", "ragged-list", P),
        (STRING, (1,), "[1]", "bad-value", P),
        (FLOAT, (3,), "[1, 2]", "shape-mismatch", {"found": (2,), "expected": (3,)}),
        (FLOAT, (), "[1]", "shape-mismatch", {"found": (1,), "expected": ()}),
        (FLOAT, (3,), "1", "shape-mismatch", {"found": (1,), "expected": (3,)}),
        (FLOAT, (2, -1), "[[1, 2]]", "shape-mismatch", {"found": (1, 2), "expected": (2, -1)}),
        (STRING, (2,), "a", "shape-mismatch", {"found": (1,), "expected": (2,)}),
        (FLOAT, (2,), np.zeros(2), "dtype-mismatch", {"found": "float64", "expected": "float32"}),
        (FLOAT, (2,), np.zeros(2, np.int32), "dtype-mismatch", {"found": "int32", "expected": "float32"}),
        (FLOAT, (3,), np.zeros(2, np.float32), "shape-mismatch", {"found": (2,), "expected": (3,)}),
        (STRING, (1,), np.array(["a"]), "dtype-mismatch", {"expected": "string"}),
        (FLOAT, (1,), np.array([{}], object), "dtype-mismatch", {"found": "object", "expected": "float32"}),
        (COMPLEX64, (), "1", "unsupported-dtype", {"expected": "complex64"}),
        (BFLOAT16, (), "1", "unsupported-dtype", {"expected": "bfloat16"}),
        (RESOURCE, (), "1", "unsupported-dtype", {"expected": "resource"}),
        (STRING, None, '["\\ud800"]', "not-text", P),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(
    kind: bytes, shape: tuple[int, ...] | None, value: Any, code: str, facts: dict[str, Any]
) -> None:
    found = graph(placeholder("p", kind, shape), identity("y", "p", kind=kind))
    error = refused(found, code, partial(freeze_input, values={"p": value}), **{"node": "p", **facts})
    assert "\x1b" not in error.message and len(error.message) < 2000


@pytest.mark.parametrize(
    ("values", "code", "facts"),
    [
        ({}, "missing-argument", {}),
        ({"nope": "1"}, "no-such-node", {"node": "nope"}),
        ({"k": "[1, 2]"}, "shape-mismatch", {"node": "k", "found": (2,), "expected": (1,)}),
        ({"k": np.ones((1, 1), np.float32)}, "shape-mismatch", {"node": "k", "found": (1, 1)}),
        ({"y": "1"}, "not-a-placeholder", {"node": "y", "op": "Identity"}),
        ({"is_training:1": "1"}, "no-such-node", {"node": "is_training:1"}),
        ({"^is_training": "1"}, "no-such-node", {"node": "^is_training"}),
        ({"is_training": "false", "nope": "1"}, "no-such-node", {"node": "nope"}),
        ({"is_training": "1", "is_training:0": "0"}, "given-twice", {"node": "is_training"}),
    ],
)
def test_names_that_are_no_inputs(values: dict[str, Any], code: str, facts: dict[str, Any]) -> None:
    found = graph(placeholder("is_training", BOOL, ()), identity("y", "is_training", kind=BOOL), const("k", [1]))
    refused(found, code, partial(freeze_input, values=values), **facts)


# -- the command line ----------------------------------------------------------------------------------------


@pytest.fixture
def arrays(desk: Desk) -> Desk:
    """A folder with a model and files of arrays."""
    desk.put("model.pb", graphs.graph_bytes(X, placeholder("scale", FLOAT, ()), typed("Mul", "y", "x", "scale")))
    np.save(desk.folder / "value.npy", np.float32(3))
    np.save(desk.folder / "double.npy", np.float64(3))
    np.save(desk.folder / "pickled.npy", np.array([{}], object))
    np.savez(desk.folder / "archive.npz", scale=np.float32(3))
    desk.put("empty.npy", b"")
    desk.put("cut.npy", (desk.folder / "value.npy").read_bytes()[:-2])
    return desk


OUT = ("-o", "out.pb", "--validate", "structure")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code", "facts"),
    [
        (["=3"], 2, "not-a-pair", {"value": "=3"}),
        (["scale=@gone.npy"], 2, "unreadable", {"file": "gone.npy"}),
        (["scale=@."], 2, "unreadable", {"file": "."}),
        *(([f"scale=@{name}"], 2, "wrong-format", {"file": name}) for name in
          ("model.pb", "empty.npy", "cut.npy", "pickled.npy", "archive.npz")),
        (["scale=@double.npy"], 4, "dtype-mismatch", {"found": "float64", "expected": "float32"}),
        (["scale=3", "--values", "archive.npz"], 2, "given-twice", {"node": "scale"}),
        (["--values", "value.npy"], 2, "unreadable", {"file": "value.npy"}),
        (["--values", "model.pb"], 2, "unreadable", {"file": "model.pb"}),
        (["--values", "gone.npz"], 2, "unreadable", {"file": "gone.npz"}),
    ],
)  # fmt: skip
def test_the_command_refuses(
    arguments: list[str], exit_code: int, code: str, facts: dict[str, Any], arrays: Desk
) -> None:
    arrays.refused(exit_code, code, "freeze-input", "model.pb", *arguments, *OUT, **facts)


@pytest.mark.parametrize(
    "arguments",
    [["scale=@value.npy"], ["scale=-3", "x=1,2"], ["--values", "archive.npz"],
     ["x=1,2", "--values", "archive.npz"]],
)  # fmt: skip
def test_the_command(arguments: list[str], arrays: Desk) -> None:
    before = arrays.files()
    arrays.done("freeze-input", "model.pb", *arguments, *OUT)
    after = arrays.files()
    assert after.pop("out.pb") and after == before
