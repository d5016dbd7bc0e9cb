"""Texts for an input by what consumes it: bytes, lines, tables, and texts inside texts."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support.feeding import fed, feed_of, gather, made, returned, spec_of
from support.graphs import (
    FLOAT,
    INT32,
    INT64,
    RESOURCE,
    STRING,
    Builder,
    call,
    const,
    define,
    identity,
    library,
    node,
    ops,
    placeholder,
    proto,
    typed,
)
from support.paths import ROOT, TESTS

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.parts import add_preprocessing
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.feeds.input_spec import make_feed, overridden
from gdsurgeon.feeds.numbers import input_seed
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.feeds.texts import wrapped
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.proof.executor import Executor
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.steps.build import preprocessing
from gdsurgeon.wire.protos import message


def texts(m: Builder, seed: int = 0) -> list[bytes]:
    data = feed_of(m, seed).data
    assert isinstance(data, list)
    return data


def example_of(m: Builder) -> dict[str, list[Any]]:
    """Returns the values of the features of the tf.Example that is fed."""
    found = message("tensorflow.Example").FromString(texts(m)[0]).features.feature
    return {key: [*getattr(feature, feature.WhichOneof("kind")).value] for key, feature in found.items()}


def text_input(*records: bytes, shape: tuple[int, ...] = ()) -> Builder:
    return Builder(placeholder("x", STRING, shape), *records)


def raw(source: str = "x", dtype: str = "float32", *, little: bool = True) -> bytes:
    return node("raw", "DecodeRaw", [source], out_type=dtype, little_endian=little)


def reshaped(source: str, dims: list[int], dtype: str = "float32") -> list[bytes]:
    return [const("dims", dims, INT32), typed("Reshape", "y", source, "dims", kind=dtype, Tshape="int32")]


TABLE = [const("rows", [[1.0], [2.0]]), const("axis", 0, INT32)]


def line(types: list[str], **attrs: Any) -> Builder:
    defaults = [f"default_{i}" for i in range(len(types))]
    listed: dict[str, Any] = {"OUT_TYPE": types, "field_delim": ",", "use_quote_delim": True, "na_value": ""}
    return text_input(
        *(const(name, [], dtype) for name, dtype in zip(defaults, types, strict=True)),
        node("csv", "DecodeCSV", ["x", *defaults], **{**listed, "select_cols": [], **attrs}),
        *(identity(f"y{i}", f"csv:{i}", kind=dtype) for i, dtype in enumerate(types)),
        shape=(3,),
    )


LINES: dict[str, Builder] = {
    "plain": line(["float32", "int32", "string", "int64", "float64"]),
    "semicolons": line(["float32", "string"], field_delim=";"),
    "spaces": line(["int32", "string", "float32"], field_delim=" "),
    "columns": line(["float32", "int32"], select_cols=[1, 4]),
}


def inside(op: str, **attrs: Any) -> Builder:
    """What OP takes out of a text is a float32 [2,3] of raw bytes."""
    return text_input(node("opened", op, ["x"], **attrs), raw("opened"), *reshaped("raw", [2, 3]))


def parse_single(*dense: tuple[str, str, tuple[int, ...]], batch: int | None = None) -> Builder:
    """A ParseExample (of a BATCH) or ParseSingleExample of dense features (key, dtype, shape) without defaults."""
    keys = [key for key, _, _ in dense]
    defaults = [f"no_{key}" for key in keys]
    absent = [const(f"no_{key}", [], dtype) for key, dtype, _ in dense]
    attrs: dict[str, Any] = {"num_sparse": 0, "sparse_types": [], "Tdense": [dtype for _, dtype, _ in dense]}
    attrs["dense_shapes"] = [shape for _, _, shape in dense]
    if batch is None:
        attrs |= {"sparse_keys": [], "dense_keys": keys}
        return text_input(*absent, node("parsed", "ParseSingleExample", ["x", *defaults], **attrs))
    attrs |= {"ragged_value_types": [], "ragged_split_types": []}
    listed = [const("none", [], STRING), const("keys", keys, STRING)]
    inputs = ["x", "none", "none", "keys", "none", *defaults]
    return text_input(*absent, *listed, node("parsed", "ParseExampleV2", inputs, **attrs), shape=(batch,))


DENSE = [("width", "float32", (2,)), ("label", "string", ())]


LISTS = [("frames", "float32", (4,)), ("words", "int64", ())]


def sequences(op: str) -> Builder:
    """Asks for two dense features, two feature lists, and one sparse of both sorts; none has a default."""
    single, second = op == "ParseSingleSequenceExample", op == "ParseSequenceExampleV2"
    m = text_input(shape=() if single else (2,))
    defaults = [m.const(f"no_{key}", [], dtype) for key, dtype, _ in DENSE]
    m.const("name", "" if single else [], "string")
    keys = {
        "context_sparse": ["tags"],
        "context_dense": [key for key, _, _ in DENSE],
        "feature_list_sparse": ["marks"],
        "feature_list_dense": [key for key, _, _ in LISTS],
    }
    attrs: dict[str, Any] = {
        "context_sparse_types": ["string"],
        "Tcontext_dense": [dtype for _, dtype, _ in DENSE],
        "context_dense_shapes": [shape for _, _, shape in DENSE],
        "feature_list_sparse_types": ["int64"],
        "feature_list_dense_types": [dtype for _, dtype, _ in LISTS],
        "feature_list_dense_shapes": [shape for _, _, shape in LISTS],
        **{f"N{kind}": len(found) for kind, found in keys.items() if not second or kind != "context_dense"},
    }
    if second:
        keys |= {"context_ragged": [], "feature_list_ragged": ["parts"]}
        kinds = [f"{where}_{how}" for where in ("context", "feature_list") for how in ("sparse", "dense", "ragged")]
        inputs = ["name", *(m.const(kind, keys[kind], "string") for kind in kinds)]
        inputs += [m.const("missing", [False, False], "bool"), *defaults]
        for where, dtypes in (("context", []), ("feature_list", ["int64"])):
            attrs |= {f"{where}_ragged_value_types": dtypes, f"{where}_ragged_split_types": dtypes}
    elif single:
        parts = [m.const(f"key_{kind}_{key}", key, "string") for kind, found in keys.items() for key in found]
        inputs = [m.const("none", [], "string"), *parts, *defaults, "name"]
    else:
        attrs |= {f"{kind}_keys": found for kind, found in keys.items()}
        attrs["feature_list_dense_missing_assumed_empty"] = []
        inputs = ["name", *defaults]
    m.node("parsed", op, ["x", *inputs], **attrs)
    for name, i, dtype in (("tags", 1, STRING), ("width", 3, FLOAT), ("label", 4, STRING), ("marks", 6, INT64)):
        m.add(name, identity(name, f"parsed:{i}", kind=dtype))
    m.add("frames", identity("frames", "parsed:8"))
    for record in (*TABLE, gather("emb", "rows", "parsed:9", kind="int64")):
        m.add("", record)
    if second:
        m.add("parts", gather("parts", "rows", "parsed:12", kind="int64"))
    return m


def table_of(m: Builder, keys: list[str], name: str = "labels") -> str:
    attrs: dict[str, Any] = {
        "key_dtype": "string",
        "value_dtype": "int64",
        "container": "",
        "use_node_name_sharing": False,
    }
    m.node(name, "HashTableV2", shared_name=f"{name} {len(keys)}", **attrs)
    parts = [m.const(f"{name}_keys", keys, "string"), m.const(f"{name}_values", list(range(len(keys))), "int64")]
    m.node(f"{name}_init", "InitializeTableV2", [name, *parts], Tkey="string", Tval="int64")
    return name


# -- bytes -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("dims", [[3, 4], [-1, 5, 2]])
def test_bytes_fill_the_shape_that_is_wanted(dtype: str, dims: list[int], executor: Executor) -> None:
    m = text_input(raw(dtype=dtype), *reshaped("raw", dims, dtype))
    found = returned(executor, m)["y"].numpy()
    count = 12 if dims == [3, 4] else 10
    assert found.size == count and len(set(found.reshape(-1))) > 1
    if dtype.startswith("float"):
        assert (found >= 0).all() and (found <= 1).all()
    assert made(m) == f"{count * found.itemsize} bytes of {dtype}, for DecodeRaw 'raw'"


@pytest.mark.tensorflow
def test_bytes_the_other_way_round_are_the_same_numbers(executor: Executor) -> None:
    graphs = [text_input(raw(little=little), *reshaped("raw", [7])) for little in (True, False)]
    found, other = (fed(executor, m, "y").tolist() for m in graphs)
    assert found == other and 0 <= min(found) < max(found) <= 1


def sliced(name: str, begin: int, end: int, *, to_end: bool = False) -> list[bytes]:
    """Bytes BEGIN to END of the raw bytes."""
    bounds = {f"{name}_begin": begin, f"{name}_end": end, f"{name}_step": 1}
    masks = {"begin_mask": 0, "end_mask": int(to_end), "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
    attrs: dict[str, Any] = {"T": "uint8", "Index": "int32", **masks}
    return [*(const(n, [at], INT32) for n, at in bounds.items()), node(name, "StridedSlice", ["raw", *bounds], **attrs)]


@pytest.mark.tensorflow
@pytest.mark.parametrize("to_end", [False, True])
def test_a_record_of_a_label_and_an_image(to_end: bool, executor: Executor) -> None:
    image = sliced("image", 1, 0 if to_end else 301, to_end=to_end)
    m = text_input(raw(dtype="uint8"), *sliced("label", 0, 1), *image, *reshaped("image", [3, 10, 10], "uint8"))
    assert returned(executor, m)["y"].shape == (3, 10, 10)
    assert len(texts(m)[0]) == 301


@pytest.mark.tensorflow
def test_bytes_that_are_pixels_or_indices_are_such(executor: Executor) -> None:
    m = text_input(raw(dtype="int32"), *TABLE, gather("emb", "rows", "raw"))
    assert set(fed(executor, m, "emb").reshape(-1)) == {1.0, 2.0}
    m = text_input(raw(), const("c", 255.0), typed("RealDiv", "y", "raw", "c"))
    assert 0.2 < fed(executor, m, "y").max() <= 1


@pytest.mark.tensorflow
def test_bytes_of_a_fixed_length(executor: Executor) -> None:
    padded = node("y", "DecodePaddedRaw", ["x", "length"], out_type="float32", little_endian=True)
    found = fed(executor, text_input(const("length", 24, INT32), padded, shape=(2,)), "y")
    assert found.shape == (2, 6) and (found > 0).sum() > 6


# -- tensors -----------------------------------------------------------------------------------------------


def serialised(dtype: str, *records: bytes) -> Builder:
    return text_input(node("parsed", "ParseTensor", ["x"], out_type=dtype), *records)


@pytest.mark.tensorflow
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool", "string", "float16"])
def test_a_serialised_tensor(dtype: str, executor: Executor) -> None:
    m = serialised(dtype, *reshaped("parsed", [2, 5], dtype))
    found = returned(executor, m)["y"]
    assert (found.dtype, found.shape) == (NUMBERS[dtype], (2, 5))
    assert len({str(item) for item in found.numpy().reshape(-1)}) > 1
    assert made(m) == f"serialised tensors of {dtype}, for ParseTensor 'parsed'"


@pytest.mark.tensorflow
def test_a_serialised_tensor_of_the_shape_that_is_made_sure_of(executor: Executor) -> None:
    m = serialised("float32", typed("EnsureShape", "y", "parsed", shape=(-1, 7)))
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
    number = node("number", "StringToNumber", ["x"], out_type="int32")
    table = [const("rows", np.arange(20.0)), const("axis", 0, INT32), gather("y", "rows", "number")]
    assert fed(executor, text_input(number, *table, shape=(40,)), "y").max() > 9


# -- texts inside texts ------------------------------------------------------------------------------------


def test_streams_are_what_python_opens() -> None:
    for data in (b"", b"abc", bytes(range(256)) * 600):
        assert zlib.decompress(wrapped("ZLIB", data)) == data
        assert gzip.decompress(wrapped("GZIP", data)) == data


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("op", "attrs", "how"),
    [
        ("DecodeCompressed", {"compression_type": "ZLIB"}, " compressed by ZLIB"),
        ("DecodeCompressed", {"compression_type": "GZIP"}, " compressed by GZIP"),
        ("DecodeCompressed", {"compression_type": ""}, ""),
        ("DecodeBase64", {}, " in base64"),
    ],
)
def test_what_is_wrapped_comes_out(op: str, attrs: dict[str, Any], how: str, executor: Executor) -> None:
    m = inside(op, **attrs)
    found = fed(executor, m, "y")
    assert found.shape == (2, 3) and 0 <= found.min() < found.max() <= 1
    assert made(m) == f"24 bytes of float32{how}, for {op} 'opened'"


@pytest.mark.tensorflow
@pytest.mark.parametrize("op", ["DecodeWebP", "DecodeImage", "DecodeJpeg", "DecodePng", "DecodeGif", "DecodeBmp"])
def test_an_image_inside_another_text(op: str, executor: Executor) -> None:
    attrs: dict[str, Any] = {} if op == "DecodeGif" else {"channels": 3}
    if op in ("DecodeWebP", "DecodeImage", "DecodePng"):
        attrs["dtype"] = "uint8"
    m = text_input(node("opened", "DecodeBase64", ["x"]), node("y", op, ["opened"], **attrs))
    assert fed(executor, m, "y").std() > 20


# -- tables ------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize("in_function", [False, True])
def test_keys_of_a_table_are_found_in_it(in_function: bool, executor: Executor) -> None:
    m = text_input(const("unknown", -1, INT64), shape=(6,))
    table = table_of(m, ["cat", "dog"], f"labels_{in_function}")
    attrs = {"Tin": "string", "Tout": "int64"}
    if in_function:
        args = {"table": RESOURCE, "text": STRING, "unknown": INT64}
        found = node("found", "LookupTableFindV2", [*args], **attrs)
        m.add("", library(define("look_up", args, {"out": (INT64, "found:values:0")}, found)))
        m.add("y", call("y", "look_up", [table, "x", "unknown"], [*args.values()], [INT64], stateful=True))
    else:
        m.node("y", "LookupTableFindV2", [table, "x", "unknown"], **attrs)
    assert set(texts(m)) == {b"cat", b"dog"}
    assert made(m) == f"keys of the table '{table}'"
    assert set(returned(executor, m)["y"].numpy()) == {0, 1}


# -- what cannot be made -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (node("read", "ReadFile", ["x"]), "the name of a file, for ReadFile 'read', cannot be generated"),
        (
            node("read", "DeserializeSparse", ["x"], dtype="float32", Tserialized="string"),
            "serialised sparse tensors, for DeserializeSparse 'read', cannot be generated",
        ),
    ],
)
def test_what_cannot_be_made_is_named_with_the_option_that_supplies_it(read: bytes, said: str) -> None:
    spec = spec_of(text_input(read, node("y", "DecodeJpeg", ["read"], channels=3)).graph())
    with pytest.raises(NotValidatedError) as caught:
        make_feed(spec, (), 0)
    assert caught.value.message == f"no feed can be generated for 'x': {said}"
    assert (hint_of(caught.value) or "").startswith("--feed NAME=VALUE, --feeds FILE.npz")
    given = make_feed(overridden(spec, Overrides({"x": "photo.jpg"})), (), 0)
    assert isinstance(given, Tensor) and given.data == [b"photo.jpg"]


def test_deeply_nested_encodings_need_a_value_of_the_user() -> None:
    chain = ["x", *(f"opened_{depth}" for depth in range(4))]
    m = text_input(*(node(name, "DecodeBase64", [source]) for source, name in pairwise(chain)))
    with pytest.raises(NotValidatedError) as caught:
        make_feed(spec_of(m.graph()), (), 0)
    assert caught.value.exit_code == 7
    assert "for DecodeBase64 'opened_3', cannot be generated" in caught.value.message
    assert (hint_of(caught.value) or "").startswith("--feed NAME=VALUE")


# -- the same bytes everywhere -----------------------------------------------------------------------------


def every_kind() -> dict[str, Builder]:
    opened = node("opened", "DecodeCompressed", ["x"], compression_type="ZLIB")
    cast = node("cast", "Cast", ["x"], SrcT="float16", DstT="float32")
    pixels = [placeholder("x", "float16", (500,)), const("c", 255.0), cast, typed("RealDiv", "y", "cast", "c")]
    return {
        "csv": LINES["plain"],
        "gzip": inside("DecodeCompressed", compression_type="GZIP"),
        "image": text_input(opened, node("y", "DecodeJpeg", ["opened"], channels=3)),
        "pixels": Builder(*pixels),
        "sequence": sequences("ParseSequenceExample"),
        "table": parse_single(("image", "string", ()), ("id", "int64", (9,)), ("raw", "float32", (3,))),
    }


DIGESTS = {
    "csv": "4136a2afe5d69217",
    "gzip": "9a200e1b11dca9bc",
    "image": "79007ddf73053d65",
    "pixels": "c6d41f872d59209c",
    "sequence": "816ceaab3b198b26",
    "table": "0c3b18f69032833f",
}


def digests() -> dict[str, str]:
    return {kind: hashlib.sha256(feed_of(m, 3).tobytes()).hexdigest()[:16] for kind, m in every_kind().items()}


def test_feeds_are_the_same_bytes_in_every_process() -> None:
    """As they were when this was written: neither the process nor Python has a say in them."""
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


@pytest.mark.tensorflow
def test_features_of_an_example_are_what_they_are_used_for(executor: Executor) -> None:
    """An image that is decoded, an index into a table, pixels, and the key of another table."""
    features = [("image", "string", ()), ("id", "int64", (9,)), ("raw", "float32", (300,)), ("label", "string", ())]
    m = parse_single(*features)
    m.node("decoded", "DecodeJpeg", ["parsed"], channels=3)
    for record in (*TABLE, gather("emb", "rows", "parsed:1", kind="int64"), const("c", 255.0)):
        m.add("", record)
    m.typed("RealDiv", "scaled", "parsed:2", "c")
    m.const("unknown", -1, "int64")
    table = table_of(m, ["cat", "dog"])
    m.node("found", "LookupTableFindV2", [table, "parsed:3", "unknown"], Tin="string", Tout="int64")
    found = returned(executor, m)
    assert found["decoded"].shape == (96, 128, 3)
    assert set(found["emb"].numpy().reshape(-1)) == {1.0, 2.0}
    assert 0.5 < found["scaled"].numpy().max() <= 1
    assert {*example_of(m)["label"]} <= {b"cat", b"dog"}
    assert made(m) == "tf.Example with image, id, raw, label, for ParseSingleExample 'parsed'"


@pytest.mark.tensorflow
def test_features_inside_a_function_are_what_they_are_used_for_there(executor: Executor) -> None:
    """Outputs have names in a body: the second dense feature is an index, and so are the values of the sparse one."""
    attrs: dict[str, Any] = {"num_sparse": 2, "sparse_keys": ["r", "s"], "sparse_types": ["float32", "int64"]}
    attrs |= {"dense_keys": ["a", "b"], "Tdense": ["float32", "int64"], "dense_shapes": [(), (20,)]}
    body = [
        *TABLE,
        const("no_a", []),
        const("no_b", [], INT64),
        node("parsed", "ParseSingleExample", ["text", "no_a:output:0", "no_b:output:0"], **attrs),
    ]
    outputs = {}
    for out in ("dense", "sparse"):
        index = f"parsed:{out}_values:1"
        body.append(gather(out, "rows:output:0", index, "axis:output:0", kind="int64"))
        outputs[out] = FLOAT, f"{out}:output:0"
    serve = library(define("serve", {"text": STRING}, outputs, *body))
    m = text_input(serve, call("y", "serve", ["x"], [STRING], [FLOAT, FLOAT]))
    assert set(returned(executor, m)["y"].numpy().reshape(-1)) == {1.0, 2.0}
    values = example_of(m)
    assert {*values["b"]} == {0, 1} >= {*values["s"]}
    assert 0 <= values["a"][0] <= 1


def test_a_text_is_an_image_that_a_mapped_function_decodes() -> None:
    """MapDefun is no call: it passes one row of its inputs at a time."""
    m = Builder()
    m.placeholder("x", "float32", (-1, 8, 8, 3))
    m.typed("Neg", "y", "x")
    graph = m.graph()
    add_preprocessing(graph, preprocessing("decode-image | resize(8, 8, like=pillow) | cast(float32)", graph))
    assert "MapDefun" in ops(graph).values()
    (text,) = make_feed(spec_of(graph), (1,), seed=0).data
    assert text[:3] in (b"\x89PN", b"\xff\xd8\xff", b"GIF")


def test_only_the_first_keys_are_listed() -> None:
    m = parse_single(*((f"k{i}", "float32", ()) for i in range(8)))
    assert made(m) == "tf.Example with k0, k1, k2, k3, k4 and 3 more, for ParseSingleExample 'parsed'"


@pytest.mark.tensorflow
def test_a_dense_feature_of_a_length_of_its_own(executor: Executor) -> None:
    m = parse_single(("rows", "float32", (-1, 3)), ("one", "int64", ()), batch=2)
    m.graph_def.node[1].CopyFrom(proto(const("no_rows", 0.0)).node[0])  # the padding: one number
    m.typed("Identity", "y", "parsed")
    found = returned(executor, m)["y"].numpy()
    assert found.shape == (2, 1, 3) and (found > 0).all()
    assert len(set(found.reshape(-1))) == 6


@pytest.mark.tensorflow
def test_two_features_of_one_dtype_differ(executor: Executor) -> None:
    m = parse_single(("a", "float32", (4,)), ("b", "float32", (4,)))
    first, second = (m.typed("Identity", f"y{i}", f"parsed:{i}") for i in range(2))
    found = returned(executor, m)
    assert found[first].numpy().tolist() != found[second].numpy().tolist()


@pytest.mark.tensorflow
def test_ragged_features_have_values(executor: Executor) -> None:
    attrs: dict[str, Any] = {"num_sparse": 0, "sparse_types": [], "Tdense": [], "dense_shapes": []}
    attrs |= {"ragged_value_types": ["string", "int64"], "ragged_split_types": ["int64", "int32"]}
    m = text_input(
        const("none", [], STRING),
        const("keys", ["words", "ids"], STRING),
        node("parsed", "ParseExampleV2", ["x", "none", "none", "none", "keys"], **attrs),
        *TABLE,
        gather("emb", "rows", "parsed:1", kind="int64"),
        identity("words", "parsed:0", kind=STRING),
        identity("splits", "parsed:2", kind=INT64),
        shape=(2,),
    )
    found = returned(executor, m)
    assert found["words"].shape == (4,) and found["emb"].shape == (4, 1)
    assert found["splits"].numpy().tolist() == [0, 2, 4]


@pytest.mark.tensorflow
@pytest.mark.parametrize("op", ["ParseExample", "ParseExampleV2"])
def test_dense_and_sparse_features(op: str, executor: Executor) -> None:
    keys = {"sparse": ["words", "ids"], "dense": ["width", "label"]}
    m = text_input(const("default0", [], FLOAT), const("default1", [], STRING), const("no", [], STRING), shape=(1,))
    attrs: dict[str, Any] = {"sparse_types": ["string", "int64"], "Tdense": ["float32", "string"]}
    if op == "ParseExample":
        parts = [m.const(key, key, "string") for listed in keys.values() for key in listed]
        attrs |= {"Nsparse": 2, "Ndense": 2}
    else:
        parts = [*(m.const(kind, listed, "string") for kind, listed in keys.items()), "no"]
        attrs |= {"num_sparse": 2, "ragged_value_types": [], "ragged_split_types": []}
    m.node("parsed", op, ["x", "no", *parts, "default0", "default1"], dense_shapes=[(2,), (3,)], **attrs)
    read = {2: "string", 3: "int64", 6: "float32", 7: "string"}
    names = [m.typed("Identity", f"y{i}", f"parsed:{i}", kind=dtype) for i, dtype in read.items()]
    found = returned(executor, m)
    assert [found[name].shape for name in names] == [(1,), (1,), (1, 2), (1, 3)]
    kinds = {key: [type(value) for value in values] for key, values in example_of(m).items()}
    assert kinds == {"words": [bytes], "ids": [int], "width": [float] * 2, "label": [bytes] * 3}


@pytest.mark.tensorflow
def test_an_example_as_json(executor: Executor) -> None:
    m = parse_single(("weight", "float32", (2,)), ("count", "int64", (3,)), ("label", "string", ()), batch=2)
    m.graph_def.node[-1].input[0] = "binary"
    m.node("binary", "DecodeJSONExample", ["x"])
    for i, dtype in enumerate(("float32", "int64", "string")):
        m.node(f"y{i}", "Identity", [f"parsed:{i}"], T=dtype)
    found = returned(executor, m)
    assert [found[f"y{i}"].shape for i in range(3)] == [(2, 2), (2, 3), (2,)]
    assert (found["y0"].numpy() > 0).all()
    assert all(text.startswith(b"text ") for text in found["y2"].numpy())
    assert made(m) == "tf.Example with weight, count, label, as JSON, for DecodeJSONExample 'binary'"


@pytest.mark.tensorflow
@pytest.mark.parametrize("op", ["ParseSequenceExample", "ParseSequenceExampleV2", "ParseSingleSequenceExample"])
def test_a_sequence_has_the_features_and_the_lists_that_are_asked_for(op: str, executor: Executor) -> None:
    found = returned(executor, sequences(op))
    batch = () if op == "ParseSingleSequenceExample" else (2,)
    assert found["width"].shape == (*batch, 2) and found["label"].shape == batch
    assert found["frames"].shape == (*batch, 3, 4)
    assert len(set(found["frames"].numpy().reshape(-1))) > 11  # the steps differ
    assert found["emb"].shape == (*batch, 3, 1)
    assert found["tags"].shape == (batch or (1,)) and found["marks"].shape[0] == 3 * (batch or (1,))[0]
    if op == "ParseSequenceExampleV2":
        assert found["parts"].shape == (2 * 3 * 2, 1)
    assert made(sequences(op)).startswith("tf.SequenceExample with tags, width, label, marks, frames and ")
