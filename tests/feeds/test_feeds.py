"""Feeds that are made up: of every dtype, and texts that ops decode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.feeding import feed_of, identity, returned, spec_of
from support.graphs import Builder, body_node, func

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.feeds.input_spec import Jpeg, description, input_seed, make_feed
from gdsurgeon.feeds.make import encoded
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.proof.executor import Executor

FED = [name for name in NUMBERS if name not in ("resource", "variant")]


FLOATS = [n for n in FED if n.startswith(("float", "bfloat")) and n != "float4_e2m1fn"]


# -- dtypes ------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize("dtype", FED)
def test_every_dtype_can_be_fed(dtype: str, executor: Executor) -> None:
    m = identity(dtype)
    value = returned(executor, m)["y"]
    fed = feed_of(m)
    assert (value.dtype, value.shape) == (NUMBERS[dtype], (2, 3))
    assert value.data == fed.data if dtype == "string" else bytes(value.data) == bytes(fed.data)


@pytest.mark.parametrize("dtype", [n for n in FED if n not in ("bool", "string")])
def test_feeds_vary_with_the_seed_and_only_with_it(dtype: str) -> None:
    m = identity(dtype, (64,))
    assert bytes(feed_of(m, 1).data) == bytes(feed_of(m, 1).data)
    assert bytes(feed_of(m, 1).data) != bytes(feed_of(m, 2).data)
    data = bytes(feed_of(m, 1).data)
    size = len(data) // 64
    assert len({data[i : i + size] for i in range(0, len(data), size)}) > 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_lie_between_0_and_1(dtype: str) -> None:
    values = feed_of(identity(dtype, (500,))).numpy().astype(np.float64)
    assert np.isfinite(values).all()
    assert (values >= 0).all() and (values <= 1).all()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "qint8", "qint32"])
def test_integers_are_small_and_not_negative(dtype: str) -> None:
    values = feed_of(identity(dtype, (500,))).numpy()
    assert values.min() == 0 and values.max() == 9


def test_bytes_take_any_value_and_bools_both() -> None:
    assert feed_of(identity("uint8", (4000,))).numpy().max() > 250
    assert set(feed_of(identity("bool", (50,))).numpy().tolist()) == {False, True}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("through", [(), ("Identity", "Cast")])
def test_an_index_stays_below_the_rows_that_it_chooses_from(dtype: str, through: tuple[str, ...]) -> None:
    m = Builder()
    m.placeholder("x", dtype, (200,))
    last = "x"
    for op in through:
        attrs = {"T": dtype} if op == "Identity" else {"SrcT": dtype, "DstT": "int64"}
        last = m.node(op, op, [last], **attrs)
    m.const("rows", [[1.0], [2.0], [3.0]])
    m.const("axis", 0, "int32")
    m.node("y", "GatherV2", ["rows", last, "axis"], Tparams="float32", Tindices="int64", Taxis="int32")
    assert set(feed_of(m).numpy().tolist()) == {0, 1, 2}


@pytest.mark.tensorflow
def test_the_index_of_a_gather_with_another_axis_stays_below_that_axis(executor: Executor) -> None:
    """The constant has more rows than columns, and columns are chosen."""
    m = Builder()
    m.placeholder("x", "int32", (50,))
    m.const("table", np.ones((9, 2), "float32"))
    m.const("axis", 1, "int32")
    m.node("y", "GatherV2", ["table", "x", "axis"], Tparams="float32", Tindices="int32", Taxis="int32")
    assert returned(executor, m)["y"].shape == (9, 50)


@pytest.mark.parametrize(
    ("name", "value"),
    [("min_size", 40.0), ("keep_prob", 1.0), ("dropout_rate", 0.0), ("is_training", 0.0), ("scale_factor", 0.7)],
)
def test_a_scalar_is_a_setting_by_its_name(name: str, value: float) -> None:
    m = Builder()
    m.placeholder(name, "float32", ())
    m.node("y", "Neg", [name], T="float32")
    for seed in (1, 2):
        assert float(feed_of(m, seed, name).numpy()) == pytest.approx(value)


def test_an_unfeedable_dtype_is_said() -> None:
    m = Builder()
    m.placeholder("x", "resource", ())
    with pytest.raises(NotValidatedError) as caught:
        spec_of(m.graph())
    assert caught.value.message == "no feed can be made for 'x': its dtype is resource"
    assert hint_of(caught.value) == "no option supplies such a value; --validate load or structure do without"


def test_a_feed_of_many_gigabytes_is_not_made() -> None:
    m = identity("float32", (100_000, 100_000))
    spec = spec_of(m.graph())
    with pytest.raises(NotValidatedError) as caught:
        make_feed(spec, spec.shapes[0], 0)
    assert caught.value.message == "a feed for 'x' [100000,100000] would be too big"
    assert hint_of(caught.value) is not None and "--shape NAME=1,2,3" in hint_of(caught.value)


def test_an_empty_tensor_is_a_feed() -> None:
    for dtype in FED:
        feed = feed_of(identity(dtype, (0, 3)))
        assert feed.shape == (0, 3) and feed.nbytes == 0


# -- texts that ops decode ---------------------------------------------------------------------------------


def decoding(op: str, **attrs: Any) -> Builder:
    m = Builder()
    m.placeholder("x", "string", ())
    m.node("y", op, ["x"], **attrs)
    return m


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("m", "kind", "shape"),
    [
        (decoding("DecodeJpeg", channels=3), "jpeg", (96, 128, 3)),
        (decoding("DecodeJpeg", channels=1), "jpeg", (96, 128, 1)),
        (decoding("DecodeImage", channels=3, dtype="uint8", expand_animations=False), "jpeg", (96, 128, 3)),
        (decoding("ExtractJpegShape", output_type="int32"), "jpeg", (3,)),
        (decoding("DecodePng", channels=3, dtype="uint8"), "png", (96, 128, 3)),
        (decoding("DecodePng", channels=3, dtype="uint16"), "png", (96, 128, 3)),
        (decoding("DecodeBmp", channels=3), "bmp", (96, 128, 3)),
        (decoding("DecodeGif"), "png", (1, 96, 128, 3)),
        (decoding("DecodeWav", desired_channels=1, desired_samples=16000), "wav", (16000, 1)),
        (decoding("StringToNumber", out_type="float32"), "digits", ()),
    ],
    ids=lambda p: "-".join(n.op for n in p.graph_def.node[1:]) if isinstance(p, Builder) else None,
)
def test_what_is_decoded_is_fed_so_that_it_can_be(
    m: Builder, kind: str, shape: tuple[int, ...], executor: Executor
) -> None:
    assert spec_of(m.graph()).content.kind == kind
    assert returned(executor, m)["y"].shape == shape


@pytest.mark.tensorflow
def test_a_recording_has_the_rate_that_is_asked_for(executor: Executor) -> None:
    assert spec_of(decoding("DecodeWav", desired_channels=1).graph()).content.shape == ()
    for rate, found in ((44100, (44100,)), (-5, ())):
        m = decoding("DecodeWav", desired_channels=1)
        m.const("rate", rate, "int32")
        m.node("off", "Sub", ["y:1", "rate"], T="int32")
        assert spec_of(m.graph()).content.shape == found
        assert returned(executor, m)["off"].numpy() == (0 if found else 16005)


@pytest.mark.tensorflow
def test_the_picture_arrives_as_it_was_made(executor: Executor) -> None:
    """PNG and BMP lose nothing; JPEG comes close."""
    made = encoded.picture(input_seed(0, "x"))
    pixels = np.frombuffer(made.data, "u1").reshape(made.height, made.width, made.channels)
    for op in ("DecodePng", "DecodeBmp"):
        m = decoding(op, channels=3) if op == "DecodeBmp" else decoding(op, channels=3, dtype="uint8")
        assert (returned(executor, m)["y"].numpy() == pixels).all()
    jpeg = returned(executor, decoding("DecodeJpeg", channels=3))["y"].numpy()
    assert np.abs(jpeg.astype(int) - pixels).mean() < 20
    assert jpeg.std() > 20


@pytest.mark.tensorflow
def test_web_safe_base64_is_decoded_too(executor: Executor) -> None:
    m = Builder()
    m.placeholder("x", "string", (1,))
    m.node("text", "DecodeBase64", ["x"])
    m.const("zero", 0, "int32")
    m.node("one", "GatherV2", ["text", "zero", "zero"], Tparams="string", Tindices="int32", Taxis="int32")
    m.node("y", "DecodeImage", ["one"], channels=3, dtype="uint8", expand_animations=False)
    assert spec_of(m.graph()).content.kind == "base64"
    assert returned(executor, m)["y"].shape == (96, 128, 3)


@pytest.mark.tensorflow
def test_several_pictures_in_one_input_differ(executor: Executor) -> None:
    m = Builder()
    m.placeholder("x", "string", (3,))
    m.node("y", "Identity", ["x"], T="string")
    m.const("zero", 0, "int32")
    m.node("one", "GatherV2", ["x", "zero", "zero"], Tparams="string", Tindices="int32", Taxis="int32")
    m.node("picture", "DecodeJpeg", ["one"], channels=3)
    spec = spec_of(m.graph())
    feed = make_feed(spec, (3,), 0)
    assert isinstance(feed, Jpeg) and len(set(feed.pictures)) == 3
    data = returned(executor, m)["y"].data
    assert isinstance(data, list) and len(set(data)) == 3
    assert all(text.startswith(b"\xff\xd8\xff") for text in data)


@pytest.mark.tensorflow
def test_the_decoder_is_found_inside_functions(executor: Executor) -> None:
    m = Builder()
    inner = m.function("inner", {"text": "string"}, {"out": "uint8"})
    body_node(inner, "decode", "DecodeJpeg", ["text"], channels=3)
    inner.ret["out"] = "decode:image:0"
    outer = m.function("outer", {"text": "string"}, {"out": "uint8"})
    call = {"Tin": ["string"], "Tout": ["uint8"], "config": "", "config_proto": "", "executor_type": ""}
    body_node(outer, "call", "PartitionedCall", ["text"], f=func("inner"), **call)
    outer.ret["out"] = "call:output:0"
    m.placeholder("x", "string", ())
    m.node("y", "PartitionedCall", ["x"], f=func("outer"), **call)
    assert spec_of(m.graph()).content.kind == "jpeg"
    assert returned(executor, m)["y"].shape == (96, 128, 3)


DENSE = [("width", "float32", (2,)), ("count", "int64", ()), ("label", "string", (3,))]


EXAMPLE_OUTPUTS = {"width": (1, (2,)), "count": (9, ()), "label": (7, (3,))}


def parse_example(op: str) -> Builder:
    """Asks a tf.Example for three dense features and two sparse ones; none has a default."""
    m = Builder()
    m.placeholder("x", "string", () if op == "ParseSingleExample" else (-1,))
    keys = [name for name, _, _ in DENSE]
    types = [dtype for _, dtype, _ in DENSE]
    shapes = [tuple(shape) for _, _, shape in DENSE]
    for name, dtype, _ in DENSE:
        m.const(f"no_{name}", np.zeros((0,)) if dtype != "string" else [], dtype)
    defaults = [f"no_{name}" for name in keys]
    if op == "ParseExample":
        m.const("names", [], "string")
        parts = []
        for kind, listed in (("sparse", ["words", "ids"]), ("dense", keys)):
            parts += [m.const(f"{kind}_{name}", name, "string") for name in listed]
        m.node(
            "parsed",
            op,
            ["x", "names", *parts, *defaults],
            Nsparse=2,
            Ndense=3,
            sparse_types=["string", "int64"],
            Tdense=types,
            dense_shapes=shapes,
        )
    elif op == "ParseExampleV2":
        for name, listed in (("names", []), ("sparse_keys", ["words", "ids"]), ("dense_keys", keys), ("ragged", [])):
            m.const(name, listed, "string")
        m.node(
            "parsed",
            op,
            ["x", "names", "sparse_keys", "dense_keys", "ragged", *defaults],
            num_sparse=2,
            sparse_types=["string", "int64"],
            ragged_value_types=[],
            ragged_split_types=[],
            Tdense=types,
            dense_shapes=shapes,
        )
    else:
        m.node(
            "parsed",
            op,
            ["x", *defaults],
            num_sparse=2,
            sparse_keys=["words", "ids"],
            dense_keys=keys,
            sparse_types=["string", "int64"],
            Tdense=types,
            dense_shapes=shapes,
        )
    for i, (name, dtype, _) in enumerate(DENSE):
        m.node(name, "Identity", [f"parsed:{6 + i}"], T=dtype)
    for i, (name, dtype) in enumerate((("words", "string"), ("ids", "int64"))):
        m.node(name, "Identity", [f"parsed:{2 + i}"], T=dtype)
    return m


@pytest.mark.tensorflow
@pytest.mark.parametrize("op", ["ParseExample", "ParseExampleV2", "ParseSingleExample"])
def test_an_example_has_the_features_that_are_asked_for(op: str, executor: Executor) -> None:
    m = parse_example(op)
    features = {f.key: (f.dtype, f.length) for f in spec_of(m.graph()).content.features}
    assert features == {"width": (1, 2), "count": (9, 1), "label": (7, 3), "words": (7, 1), "ids": (9, 1)}
    batch = () if op == "ParseSingleExample" else (1,)
    found = returned(executor, m)
    for name, (dtype, shape) in EXAMPLE_OUTPUTS.items():
        assert (found[name].dtype, found[name].shape) == (dtype, (*batch, *shape))
    assert [(found[n].dtype, found[n].shape) for n in ("words", "ids")] == [(7, (1,)), (9, (1,))]


def test_an_example_spells_numbers_as_varints() -> None:
    from gdsurgeon.wire.fields import fields, read_varint

    data = encoded.example({"n": [1, 300]})
    assert b"n" in data and data.endswith(b"\x01\xac\x02")
    first = next(iter(fields(data, 0, len(data))))
    assert (first.number, first.end) == (1, len(data))
    assert read_varint(data, 1, len(data))[0] == len(data) - 2


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        ("float32", "numbers from 0 to 1, and on every second sample of either sign"),
        ("complex64", "numbers from 0 to 1"),
        ("int64", "small whole numbers"),
        ("qint8", "small whole numbers"),
        ("uint8", "bytes of any value"),
        ("bool", "false and true"),
        ("string", "plain texts"),
    ],
)
def test_what_is_made_is_said(dtype: str, said: str) -> None:
    assert description(spec_of(identity(dtype).graph())) == said


def test_what_is_made_is_said_of_the_shape_that_is_used() -> None:
    spec = spec_of(identity("float32", None).graph())
    assert description(spec, ()) == "a number between 0.25 and 0.75"
    assert description(spec, (1, 3)).startswith("numbers from 0 to 1")


def test_a_text_that_nobody_decodes_is_plain() -> None:
    m = identity("string", (2,))
    seed = input_seed(5, "x")
    assert feed_of(m, 5).data == [b"text %d" % seed, b"text %d" % (seed + 1)]
