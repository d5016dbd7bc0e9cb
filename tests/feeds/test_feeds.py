"""Feeds that are made up: of every dtype, and texts that ops decode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.feeding import fed, feed_of, identity, made, returned, spec_of
from support.graphs import INT32, STRING, Builder, const, node, placeholder, typed

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.feeds.input_spec import description, make_feed
from gdsurgeon.feeds.numbers import input_seed
from gdsurgeon.feeds.texts import image
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


def test_an_unfeedable_dtype_is_said() -> None:
    with pytest.raises(NotValidatedError) as caught:
        spec_of(identity("resource", ()).graph())
    assert caught.value.message == "no feed can be generated for 'x': its dtype is resource"
    assert hint_of(caught.value) == "no option can supply such a value; use --validate load or structure"


def test_a_feed_of_many_gigabytes_is_not_made() -> None:
    m = identity("float32", (100_000, 100_000))
    spec = spec_of(m.graph())
    with pytest.raises(NotValidatedError) as caught:
        make_feed(spec, spec.shapes[0], 0)
    assert caught.value.message == "a feed for 'x' [100000,100000] would be too large"
    assert hint_of(caught.value) is not None and "--shape NAME=1,2,3" in hint_of(caught.value)


def test_an_empty_tensor_is_a_feed() -> None:
    for dtype in FED:
        feed = feed_of(identity(dtype, (0, 3)))
        assert feed.shape == (0, 3) and feed.nbytes == 0


# -- texts that ops decode ---------------------------------------------------------------------------------


def decoding(op: str, *records: bytes, **attrs: Any) -> Builder:
    return Builder(placeholder("x", STRING, ()), node("y", op, ["x"], **attrs), *records)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("m", "what", "shape"),
    [
        (decoding("DecodeJpeg", channels=3), "JPEG images", (96, 128, 3)),
        (decoding("DecodeJpeg", channels=1), "JPEG images", (96, 128, 1)),
        (decoding("DecodeImage", channels=3, dtype="uint8", expand_animations=False), "JPEG images", (96, 128, 3)),
        (decoding("ExtractJpegShape", output_type="int32"), "JPEG images", (3,)),
        (decoding("DecodePng", channels=3, dtype="uint8"), "PNG images", (96, 128, 3)),
        (decoding("DecodePng", channels=3, dtype="uint16"), "PNG images", (96, 128, 3)),
        (decoding("DecodeBmp", channels=3), "BMP images", (96, 128, 3)),
        (decoding("DecodeGif"), "PNG images", (1, 96, 128, 3)),
        (decoding("DecodeWav", desired_channels=1, desired_samples=16000), "WAV recordings", (16000, 1)),
        (decoding("StringToNumber", out_type="float32"), "digits", ()),
    ],
    ids=lambda p: "-".join(n.op for n in p.graph_def.node[1:]) if isinstance(p, Builder) else None,
)
def test_what_is_decoded_is_fed_so_that_it_can_be(
    m: Builder, what: str, shape: tuple[int, ...], executor: Executor
) -> None:
    assert made(m).startswith(f"{what}, for ")
    assert returned(executor, m)["y"].shape == shape


@pytest.mark.tensorflow
def test_a_recording_has_the_rate_that_is_asked_for(executor: Executor) -> None:
    for rate, difference in ((44100, 0), (-5, 16005)):
        off = typed("Sub", "off", "y:1", "rate", kind=INT32)
        m = decoding("DecodeWav", const("rate", rate, INT32), off, desired_channels=1)
        assert fed(executor, m, "off") == difference


@pytest.mark.tensorflow
def test_the_picture_arrives_as_it_was_made(executor: Executor) -> None:
    """PNG and BMP lose nothing."""
    pixels = np.frombuffer(b"".join(image(input_seed(0, "x"))), "u1").reshape(96, 128, 3)
    for m in (decoding("DecodeBmp", channels=3), decoding("DecodePng", channels=3, dtype="uint8")):
        assert (fed(executor, m, "y") == pixels).all()


@pytest.mark.tensorflow
@pytest.mark.parametrize("attrs", [{"dct_method": "INTEGER_ACCURATE"}, {"fancy_upscaling": False}])
def test_a_jpeg_shows_how_it_is_decoded(executor: Executor, attrs: dict[str, object]) -> None:
    usual, other = (fed(executor, decoding("DecodeJpeg", channels=3, **how), "y").astype(int) for how in ({}, attrs))
    assert usual.std() > 20 and usual.shape == other.shape
    assert 0 < np.abs(usual - other).mean() < 10


@pytest.mark.tensorflow
@pytest.mark.parametrize("size", [(1, 1), (17, 33), (299, 300)])
def test_a_jpeg_has_the_size_that_is_asked_for(executor: Executor, size: tuple[int, int]) -> None:
    m = decoding("DecodeJpeg", channels=3)
    feed = make_feed(spec_of(m.graph()), (), 0, size)
    executor.load_graph("jpeg", m.graph())
    executor.run("jpeg", "pixels", {"x": feed}, ["y"])
    assert executor.tensor("pixels", 0).shape == (*size, 3)


@pytest.mark.tensorflow
def test_several_pictures_in_one_input_differ(executor: Executor) -> None:
    types = {"Tparams": "string", "Tindices": "int32", "Taxis": "int32"}
    m = identity("string", (3,))
    m.const("zero", 0, "int32")
    m.node("one", "GatherV2", ["x", "zero", "zero"], **types)
    m.node("picture", "DecodeJpeg", ["one"], channels=3)
    data = returned(executor, m)["y"].data
    assert data == feed_of(m).data and isinstance(data, list) and len(set(data)) == 3
    assert all(text.startswith(b"\xff\xd8\xff") for text in data)


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        ("float32", "numbers from 0 to 1, also negative on every second sample"),
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
