"""Texts for an input by what consumes it: bytes, lines, tables, and texts inside texts."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest
from support.feeding import CALL, feed_of, made, returned, spec_of
from support.graphs import Builder, body_node, func
from support.inferring_texts import (
    LINES,
    inside,
    parse_single,
    reshaped,
    sequences,
    table_of,
    text_input,
    texts,
)
from support.paths import ROOT, TESTS

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.feeds.input_spec import input_seed, make_feed, overridden
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.feeds.texts import gzip_stream, zlib_stream
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.proof.executor import Executor
from gdsurgeon.runtime.tensor import Tensor

# -- bytes -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("dims", [[3, 4], [-1, 5, 2]])
def test_bytes_fill_the_shape_that_is_wanted(dtype: str, dims: list[int], executor: Executor) -> None:
    m = text_input()
    m.node("raw", "DecodeRaw", ["x"], out_type=dtype, little_endian=True)
    reshaped(m, "raw", dims, dtype)
    found = returned(executor, m)["y"].numpy()
    count = 12 if dims == [3, 4] else 10
    assert found.size == count and len(set(found.reshape(-1))) > 1
    if dtype.startswith("float"):
        assert (found >= 0).all() and (found <= 1).all()
    assert made(m) == f"{count * found.itemsize} bytes of {dtype}, for DecodeRaw 'raw'"


@pytest.mark.tensorflow
def test_bytes_the_other_way_round_are_the_same_numbers(executor: Executor) -> None:
    found = []
    for little in (True, False):
        m = text_input()
        m.node("raw", "DecodeRaw", ["x"], out_type="float32", little_endian=little)
        reshaped(m, "raw", [7], "float32")
        found.append(returned(executor, m)["y"].numpy().tolist())
    assert found[0] == found[1] and 0 <= min(found[0]) < max(found[0]) <= 1


def sliced(m: Builder, name: str, begin: int, end: int, *, to_end: bool = False) -> str:
    for what, value in (("begin", begin), ("end", end), ("step", 1)):
        m.const(f"{name}_{what}", [value], "int32")
    masks = {"begin_mask": 0, "end_mask": int(to_end), "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
    parts = [f"{name}_{what}" for what in ("begin", "end", "step")]
    return m.node(name, "StridedSlice", ["raw", *parts], T="uint8", Index="int32", **masks)


@pytest.mark.tensorflow
@pytest.mark.parametrize("to_end", [False, True])
def test_a_record_of_a_label_and_an_image(to_end: bool, executor: Executor) -> None:
    m = text_input()
    m.node("raw", "DecodeRaw", ["x"], out_type="uint8", little_endian=True)
    sliced(m, "label", 0, 1)
    reshaped(m, sliced(m, "image", 1, 0 if to_end else 301, to_end=to_end), [3, 10, 10], "uint8")
    assert returned(executor, m)["y"].shape == (3, 10, 10)
    assert len(texts(m)[0]) == 301


@pytest.mark.tensorflow
def test_bytes_that_are_pixels_or_indices_are_such(executor: Executor) -> None:
    m = text_input()
    m.node("raw", "DecodeRaw", ["x"], out_type="int32", little_endian=True)
    m.const("rows", [[1.0], [2.0]])
    m.const("axis", 0, "int32")
    m.node("emb", "GatherV2", ["rows", "raw", "axis"], Tparams="float32", Tindices="int32", Taxis="int32")
    assert set(returned(executor, m)["emb"].numpy().reshape(-1)) == {1.0, 2.0}
    m = text_input()
    m.node("raw", "DecodeRaw", ["x"], out_type="float32", little_endian=True)
    m.const("c", 255.0)
    m.node("y", "RealDiv", ["raw", "c"], T="float32")
    assert 0.2 < returned(executor, m)["y"].numpy().max() <= 1


@pytest.mark.tensorflow
def test_bytes_of_a_fixed_length(executor: Executor) -> None:
    m = text_input((2,))
    m.const("length", 24, "int32")
    m.node("y", "DecodePaddedRaw", ["x", "length"], out_type="float32", little_endian=True)
    found = returned(executor, m)["y"].numpy()
    assert found.shape == (2, 6) and (found > 0).sum() > 6


# -- tensors -----------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool", "string", "float16"])
def test_a_serialised_tensor(dtype: str, executor: Executor) -> None:
    m = text_input()
    m.node("parsed", "ParseTensor", ["x"], out_type=dtype)
    reshaped(m, "parsed", [2, 5], dtype)
    found = returned(executor, m)["y"]
    assert (found.dtype, found.shape) == (NUMBERS[dtype], (2, 5))
    assert len({str(item) for item in found.numpy().reshape(-1)}) > 1
    assert made(m) == f"serialised tensors of {dtype}, for ParseTensor 'parsed'"


@pytest.mark.tensorflow
def test_a_serialised_tensor_of_the_shape_that_is_made_sure_of(executor: Executor) -> None:
    m = text_input()
    m.node("parsed", "ParseTensor", ["x"], out_type="float32")
    m.node("y", "EnsureShape", ["parsed"], T="float32", shape=(-1, 7))
    assert returned(executor, m)["y"].shape == (1, 7)


# -- lines -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize("how", sorted(LINES))
def test_a_line_has_the_fields_that_are_asked_for(how: str, executor: Executor) -> None:
    """None of the fields has a default."""
    m = LINES[how]
    found = returned(executor, m)
    types = [node.attr["T"].type for node in m.graph_def.node if node.name.startswith("y")]
    assert [found[f"y{i}"].dtype for i in range(len(types))] == types
    assert all(tensor.shape == (3,) for tensor in found.values())
    assert len({str(item) for item in found["y0"].numpy()}) > 1
    fields = 5 if how == "columns" else len(types)
    assert made(m) == f"lines of {fields} fields, for DecodeCSV 'csv'"


@pytest.mark.tensorflow
def test_digits_that_become_an_index(executor: Executor) -> None:
    m = text_input((40,))
    m.node("number", "StringToNumber", ["x"], out_type="int32")
    m.const("rows", np.arange(20.0))
    m.const("axis", 0, "int32")
    m.node("y", "GatherV2", ["rows", "number", "axis"], Tparams="float32", Tindices="int32", Taxis="int32")
    assert returned(executor, m)["y"].numpy().max() > 9


# -- texts inside texts ------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize("method", ["ZLIB", "GZIP", ""])
def test_what_is_compressed_comes_out(method: str, executor: Executor) -> None:
    m = inside("DecodeCompressed", compression_type=method)
    found = returned(executor, m)["y"].numpy()
    assert found.shape == (2, 3) and 0 <= found.min() < found.max() <= 1
    how = f" compressed by {method}" if method else ""
    assert made(m) == f"24 bytes of float32{how}, for DecodeCompressed 'opened'"


@pytest.mark.tensorflow
def test_what_is_in_base64_comes_out(executor: Executor) -> None:
    m = inside("DecodeBase64")
    found = returned(executor, m)["y"].numpy()
    assert found.shape == (2, 3) and 0 <= found.min() < found.max() <= 1


def test_streams_are_what_python_opens() -> None:
    for data in (b"", b"abc", bytes(range(256)) * 600):
        assert zlib.decompress(zlib_stream(data)) == data
        assert gzip.decompress(gzip_stream(data)) == data


@pytest.mark.tensorflow
@pytest.mark.parametrize("op", ["DecodeWebP", "DecodeImage", "DecodeJpeg", "DecodePng", "DecodeGif", "DecodeBmp"])
def test_an_image_inside_another_text(op: str, executor: Executor) -> None:
    m = text_input()
    m.node("opened", "DecodeBase64", ["x"])
    attrs: dict[str, Any] = {} if op == "DecodeGif" else {"channels": 3}
    if op in ("DecodeWebP", "DecodeImage", "DecodePng"):
        attrs["dtype"] = "uint8"
    m.node("y", op, ["opened"], **attrs)
    assert returned(executor, m)["y"].numpy().std() > 20


# -- tables ------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize("in_function", [False, True])
def test_keys_of_a_table_are_found_in_it(in_function: bool, executor: Executor) -> None:
    m = text_input((6,))
    table_of(m, ["cat", "dog"], f"labels_{in_function}")
    m.const("unknown", -1, "int64")
    attrs = {"Tin": "string", "Tout": "int64"}
    if in_function:
        args = {"table": "resource", "text": "string", "unknown": "int64"}
        f = m.function("look_up", args, {"out": "int64"})
        body_node(f, "found", "LookupTableFindV2", ["table", "text", "unknown"], **attrs)
        f.ret["out"] = "found:values:0"
        types = {"Tin": list(args.values()), "Tout": ["int64"]}
        m.node("y", "StatefulPartitionedCall", ["labels_True", "x", "unknown"], f=func("look_up"), **types, **CALL)
    else:
        m.node("y", "LookupTableFindV2", ["labels_False", "x", "unknown"], **attrs)
    assert set(texts(m)) == {b"cat", b"dog"}
    assert made(m) == f"keys of the table 'labels_{in_function}'"
    assert set(returned(executor, m)["y"].numpy()) == {0, 1}


# -- what cannot be made -----------------------------------------------------------------------------------


def unmakeable(op: str) -> Builder:
    m = text_input()
    if op == "ReadFile":
        m.node("read", op, ["x"])
        m.node("y", "DecodeJpeg", ["read"], channels=3)
    elif op == "DeserializeSparse":
        m.node("read", op, ["x"], dtype="float32", Tserialized="string")
    else:
        m.node("opened", "DecodeBase64", ["x"])
        m.node("read", op, ["opened"], output_type="int32")
    return m


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ("ReadFile", "the name of a file, for ReadFile 'read', cannot be generated"),
        ("DeserializeSparse", "serialised sparse tensors, for DeserializeSparse 'read', cannot be generated"),
        ("ExtractJpegShape", "JPEG images inside another text, for ExtractJpegShape 'read', cannot be generated"),
    ],
)
def test_what_cannot_be_made_is_named_with_the_option_that_supplies_it(op: str, said: str) -> None:
    m = unmakeable(op)
    spec = spec_of(m.graph())
    with pytest.raises(NotValidatedError) as caught:
        make_feed(spec, (), 0)
    assert caught.value.message == f"no feed can be generated for 'x': {said}"
    assert hint_of(caught.value) is not None and hint_of(caught.value).startswith("--feed NAME=VALUE, --feeds FILE.npz")
    given = make_feed(overridden(spec, Overrides({"x": "photo.jpg"})), (), 0)
    assert isinstance(given, Tensor) and given.data == [b"photo.jpg"]


# -- the same bytes everywhere -----------------------------------------------------------------------------


def every_kind() -> dict[str, Builder]:
    jpeg_in_zlib = text_input()
    jpeg_in_zlib.node("opened", "DecodeCompressed", ["x"], compression_type="ZLIB")
    jpeg_in_zlib.node("y", "DecodeJpeg", ["opened"], channels=3)
    pixels = Builder()
    pixels.placeholder("x", "float16", (500,))
    pixels.const("c", 255.0)
    pixels.node("cast", "Cast", ["x"], SrcT="float16", DstT="float32")
    pixels.node("y", "RealDiv", ["cast", "c"], T="float32")
    return {
        "csv": LINES["plain"],
        "gzip": inside("DecodeCompressed", compression_type="GZIP"),
        "image": jpeg_in_zlib,
        "pixels": pixels,
        "sequence": sequences("ParseSequenceExample"),
        "table": parse_single(("image", "string", ()), ("id", "int64", (9,)), ("raw", "float32", (3,))),
    }


DIGESTS = {
    "csv": "dfb7f58c5a620541",
    "gzip": "841c60f607c7c9c6",
    "image": "89b79463821fd0f6",
    "pixels": "c6d41f872d59209c",
    "sequence": "7744a66c905dc9c9",
    "table": "cdbcec624f7ea22e",
}


def digests() -> dict[str, str]:
    return {kind: hashlib.sha256(feed_of(m, 3).tobytes()).hexdigest()[:16] for kind, m in every_kind().items()}


def test_feeds_are_the_same_bytes_in_every_process() -> None:
    """As they were when this was written: neither the process, nor Python, nor zlib has a say in them."""
    program = "from tests.feeds.test_strings import digests; print(digests())"
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(digests())
    assert digests() == DIGESTS


def test_a_seed_makes_one_text_and_another_makes_another() -> None:
    for kind, m in every_kind().items():
        assert feed_of(m, 1).tobytes() == feed_of(m, 1).tobytes(), kind
        assert feed_of(m, 1).tobytes() != feed_of(m, 2).tobytes(), kind
        assert input_seed(1, "x") != input_seed(2, "x")
