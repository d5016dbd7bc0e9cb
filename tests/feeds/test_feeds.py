"""Feeds: for every dtype, for every kind of text that an op decodes, and from what a user gives."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.feeding import feed_of, identity, returned, spec_of
from support.tf_graphs import Builder, Shape, body_node, function_attr, refused

import gdsurgeon as gds
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.errors import NotValidatedError, UsageError
from gdsurgeon.feeds.input_spec import Jpeg, description, input_seed, make_feed, overridden
from gdsurgeon.feeds.make import encoded
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.proof.executor import Executor
from gdsurgeon.runtime.tensor import Tensor

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
    call = {"Tin": ["string"], "Tout": ["uint8"], "config": b"", "config_proto": b"", "executor_type": b""}
    body_node(outer, "call", "PartitionedCall", ["text"], f=function_attr("inner"), **call)
    outer.ret["out"] = "call:output:0"
    m.placeholder("x", "string", ())
    m.node("y", "PartitionedCall", ["x"], f=function_attr("outer"), **call)
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
    shapes = [Shape(shape) for _, _, shape in DENSE]
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
            sparse_keys=[b"words", b"ids"],
            dense_keys=[key.encode() for key in keys],
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


# -- what a user gives -------------------------------------------------------------------------------------


def given(m: Builder, text: str | None = None, archive: Path | None = None) -> Tensor:
    overrides = Overrides({} if text is None else {"x": text}, None if archive is None else str(archive))
    spec = overridden(spec_of(m.graph()), overrides)
    assert len(spec.given) == 1 and spec.shapes == (spec.given[0].shape,)
    return spec.given[0]


def given_wrong(m: Builder, text: str | None = None, archive: Path | None = None) -> UsageError:
    with pytest.raises(UsageError) as caught:
        given(m, text, archive)
    return caught.value


@pytest.mark.parametrize(
    ("dtype", "shape", "text", "expected"),
    [
        ("float32", (), "1.5", 1.5),
        ("float32", (1,), "1.5", [1.5]),
        ("float32", (1, 1), "-3", [[-3.0]]),
        ("float32", None, "[[1, 2], [3, 4.5]]", [[1.0, 2.0], [3.0, 4.5]]),
        ("float64", (-1, 2), "[[1, 2]]", [[1.0, 2.0]]),
        ("float32", (2,), "[1e3, -1E-3]", [1000.0, np.float32(-0.001)]),
        ("float32", (0,), "[]", []),
        ("int64", (), "9007199254740993", 9007199254740993),
        ("int8", (2,), "[-128, 127]", [-128, 127]),
        ("uint8", (2,), "[0, 255]", [0, 255]),
        ("bool", (), "true", True),
        ("bool", (2,), "[false, True]", [False, True]),
        ("uint64", (1,), "[18446744073709551615]", [18446744073709551615]),
        ("float16", (2,), "[1.5, -2]", [1.5, -2.0]),
        ("bfloat16", (), "0.5", 0.5),
        ("float8_e5m2", (), "0.5", 0.5),
        ("complex64", (), "1.5", 1.5 + 0j),
        ("quint8", (2,), "[3, 255]", [3, 255]),
        ("float32", (), "nan", np.nan),
        ("float32", (2,), "[NaN, -Infinity]", [np.nan, -np.inf]),
        ("float32", (), "inf", np.inf),
    ],
)
def test_numbers_as_text(dtype: str, shape: tuple[int, ...] | None, text: str, expected: object) -> None:
    tensor = given(identity(dtype, shape), text)
    assert tensor.dtype == NUMBERS[dtype]
    wanted = np.asarray(expected)
    assert tensor.shape == wanted.shape
    found = tensor.numpy()
    same = found.astype(np.float64) if found.dtype.kind not in "iubc" else found
    assert np.array_equal(same, wanted, equal_nan=wanted.dtype.kind == "f")


@pytest.mark.parametrize(
    ("shape", "text", "expected"),
    [
        ((), "hello", [b"hello"]),
        ((1,), "hello", [b"hello"]),
        ((), "", [b""]),
        ((2,), '["a", "b"]', [b"a", b"b"]),
        ((), "gr\u00fc\u00df", ["gr\u00fc\u00df".encode()]),
        ((), "raw \udcff byte", [b"raw \xff byte"]),
        ((), "{not json}", [b"{not json}"]),
        ((), "UPPER", [b"UPPER"]),
    ],
)
def test_texts_as_text(shape: tuple[int, ...], text: str, expected: list[bytes]) -> None:
    tensor = given(identity("string", shape), text)
    assert tensor.data == expected and tensor.shape == ((2,) if len(expected) == 2 else shape)


@pytest.mark.parametrize(
    ("dtype", "text", "said"),
    [
        ("float32", "hello", "the feed 'hello' for 'x' is not a number, or a list such as [0.6, 0.7]"),
        ("float32", "", "the feed '' for 'x' is not a number, or a list such as [0.6, 0.7]"),
        ("float32", "[1, [2]]", "the feed '[1, [2]]' for 'x' is a ragged list"),
        ("float32", "[[1, 2], [3]]", "the feed '[[1, 2], [3]]' for 'x' is a ragged list"),
        ("float32", "[1, 2]", "the feed for 'x' is float32 [2], and it takes float32 [2,3]"),
        ("float32", "null", "the feed 'null' for 'x' is not float32"),
        ("float32", '"1"', "the feed '\"1\"' for 'x' is not float32"),
        ("int32", "1.5", "the feed '1.5' for 'x' is not int32"),
        ("int8", "128", "the feed '128' for 'x' is not int8"),
        ("uint8", "-1", "the feed '-1' for 'x' is not uint8"),
        ("uint8", "256", "the feed '256' for 'x' is not uint8"),
        ("string", "[1, 2]", "the feed '[1, 2]' for 'x' is not string"),
    ],
)
def test_a_text_that_does_not_fit(dtype: str, text: str, said: str) -> None:
    error = given_wrong(identity(dtype), text)
    assert (error.exit_code, error.message) == (2, said)


def test_a_broken_list_of_texts_is_not_said_to_want_numbers() -> None:
    error = given_wrong(identity("string"), "[broken")
    assert error.message.startswith("the feed '[broken' for 'x' is not ") and "number" not in error.message


def test_brackets_without_end_are_refused_in_a_sentence() -> None:
    error = given_wrong(identity("float32"), "[" * 100_000)
    assert error.exit_code == 2


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8", "float16", "bfloat16", "quint8", "complex64"])
def test_an_array_file(dtype: str, tmp_path: Path) -> None:
    wanted = feed_of(identity(dtype))
    if dtype == "bfloat16":
        pytest.skip("numpy files cannot hold bfloat16")
    np.save(tmp_path / "x.npy", wanted.numpy())
    found = given(identity(dtype), f"@{tmp_path / 'x.npy'}")
    assert (found.dtype, found.shape, bytes(found.data)) == (wanted.dtype, wanted.shape, bytes(wanted.data))


def test_an_array_file_of_texts(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([b"one", b"three"]))
    found = given(identity("string", (2,)), f"@{tmp_path / 'x.npy'}")
    assert (found.dtype, found.shape, found.data) == (7, (2,), [b"one", b"three"])


def test_an_array_in_another_order_or_byte_order_means_the_same(tmp_path: Path) -> None:
    values = np.arange(6, dtype="float32").reshape(2, 3)
    for array in (np.asfortranarray(values), values.astype(">f4")):
        np.save(tmp_path / "x.npy", array)
        assert (given(identity("float32"), f"@{tmp_path / 'x.npy'}").numpy() == values).all()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_raw_bytes_are_one_text(shape: tuple[int, ...], tmp_path: Path) -> None:
    content = base64.b85encode(b"x") + b"\x00\xff\n"
    (tmp_path / "photo.jpg").write_bytes(content)
    found = given(identity("string", shape), f"@{tmp_path / 'photo.jpg'}")
    assert (found.shape, found.data) == (shape, [content])


def test_an_archive_feeds_by_name(tmp_path: Path) -> None:
    values = np.arange(6, dtype="float32").reshape(2, 3)
    np.savez(tmp_path / "feeds.npz", x=values)
    assert (given(identity("float32"), archive=tmp_path / "feeds.npz").numpy() == values).all()


def test_a_feed_of_its_own_comes_before_the_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "feeds.npz", x=np.zeros((1,), "float32"))
    assert float(given(identity("float32", (1,)), "7", tmp_path / "feeds.npz").numpy()[0]) == 7.0


def test_an_input_that_the_archive_lacks_is_made_up(tmp_path: Path) -> None:
    np.savez(tmp_path / "feeds.npz", other=np.zeros((1,), "float32"))
    spec = overridden(spec_of(identity("float32").graph()), Overrides(archive=str(tmp_path / "feeds.npz")))
    assert spec.given == ()


def test_an_archive_has_a_value_for_each_sample(tmp_path: Path) -> None:
    """Of the sample that is left out, and of those beyond the last, the first one's is taken."""
    arrays = [np.full((1, 3), k, "float32") for k in range(4)]
    np.savez(tmp_path / "feeds.npz", **{"x": arrays[0], "x@1": arrays[1], "x@3": arrays[3]})
    spec = overridden(spec_of(identity("float32", (-1, 3)).graph()), Overrides(archive=str(tmp_path / "feeds.npz")))
    assert len(spec.given) == 4 and spec.shapes == ((1, 3),)
    fed = [make_feed(spec, (1, 3), 0, sample=sample) for sample in range(6)]
    assert [float(tensor.numpy()[0, 0]) for tensor in fed if isinstance(tensor, Tensor)] == [0, 1, 0, 3, 0, 0]
    assert description(spec) == "given"


def test_samples_may_have_shapes_of_their_own_and_all_must_fit(tmp_path: Path) -> None:
    m = identity("float32", (-1, 3))
    np.savez(tmp_path / "feeds.npz", **{"x": np.zeros((1, 3), "float32"), "x@1": np.zeros((5, 3), "float32")})
    spec = overridden(spec_of(m.graph()), Overrides(archive=str(tmp_path / "feeds.npz")))
    assert [tensor.shape for tensor in spec.given] == [(1, 3), (5, 3)] and spec.shapes == ((1, 3),)
    np.savez(tmp_path / "feeds.npz", **{"x": np.zeros((1, 3), "float32"), "x@1": np.zeros((5, 2), "float32")})
    error = given_wrong(m, archive=tmp_path / "feeds.npz")
    assert error.message == "the feed for 'x', sample 1, is float32 [5,2], and it takes float32 [?,3]"


def test_a_later_sample_without_the_first_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "feeds.npz", **{"x@1": np.zeros((2, 3), "float32")})
    error = given_wrong(identity("float32"), archive=tmp_path / "feeds.npz")
    assert error.message == f"archive {tmp_path / 'feeds.npz'} has 'x@1', and no 'x' for the first sample"


def test_a_feed_on_the_command_line_is_for_all_samples() -> None:
    spec = overridden(spec_of(identity("float32", ()).graph()), Overrides({"x": "2.5"}))
    fed = [make_feed(spec, (), seed, wide=seed == 1, sample=seed) for seed in range(2)]
    assert [float(tensor.numpy()) for tensor in fed if isinstance(tensor, Tensor)] == [2.5, 2.5]


WRONG_CONTENT = {"empty": b"", "cut": b"PK\x03\x04 and then nothing", "something else": b"something else"}


@pytest.mark.parametrize("content", sorted(WRONG_CONTENT))
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_broken_file_of_arrays_is_a_sentence(suffix: str, content: str, tmp_path: Path) -> None:
    file = tmp_path / f"feeds.{suffix}"
    file.write_bytes(WRONG_CONTENT[content])
    error = given_wrong(identity("float32"), f"@{file}") if suffix == "npy" else (
        given_wrong(identity("float32"), archive=file)
    )  # fmt: skip
    what = f"the feed {file} for 'x'" if suffix == "npy" else f"the feeds {file}"
    assert error.exit_code == 2 and error.message.startswith(f"{what} cannot be read: ")


@pytest.mark.parametrize("suffix", ["npy", "npz", "jpg"])
def test_a_file_that_is_not_there(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"nowhere.{suffix}"
    error = given_wrong(identity("string"), archive=file) if suffix == "npz" else (
        given_wrong(identity("string"), f"@{file}")
    )  # fmt: skip
    assert error.exit_code == 2 and "cannot be read: " in error.message and str(file) in error.message


def test_an_array_file_in_the_place_of_an_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), "float32"))
    error = given_wrong(identity("float32"), archive=tmp_path / "x.npy")
    assert error.exit_code == 2 and "x.npy" in error.message


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((2, 3), "float64"), "the feed for 'x' is float64 [2,3], and it takes float32 [2,3]"),
        (np.zeros((3, 2), "float32"), "the feed for 'x' is float32 [3,2], and it takes float32 [2,3]"),
    ],
)
def test_an_array_that_does_not_fit(array: Any, said: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    assert given_wrong(identity("float32"), f"@{tmp_path / 'x.npy'}").message == said
    np.savez(tmp_path / "feeds.npz", x=array)
    assert given_wrong(identity("float32"), archive=tmp_path / "feeds.npz").message == said


def test_an_array_that_no_tensor_can_be(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3, "datetime64[s]"))
    error = given_wrong(identity("float32"), f"@{tmp_path / 'x.npy'}")
    assert error.exit_code == 2 and error.message.startswith("the feed for 'x' does not fit: ")


def test_an_array_of_python_objects_is_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], object), allow_pickle=True)
    error = given_wrong(identity("float32"), f"@{tmp_path / 'x.npy'}")
    assert error.exit_code == 2 and "cannot be read: " in error.message


def test_raw_bytes_are_for_texts_only(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(24))
    error = given_wrong(identity("float32"), f"@{tmp_path / 'x.bin'}")
    assert error.message == "'x' takes float32: a feed from a file must be .npy, raw bytes are for string inputs"


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "overrides", [Overrides({"nobody": "1"}), Overrides(shapes={"nobody": (1,)}), Overrides({"y": "1"})]
)
def test_a_name_that_is_no_input_is_refused(overrides: Overrides, tmp_path: Path) -> None:
    error = refused(tmp_path, identity("float32"), lambda g: gds.rename(g, [("y", "z")]), overrides=overrides)
    name = next(iter({**overrides.values, **overrides.shapes}))
    assert (error.exit_code, error.message) == (2, f"there is no placeholder '{name}' to feed")


@pytest.mark.tensorflow
def test_an_archive_of_which_no_name_is_an_input_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "feeds.npz", X=np.zeros((2, 3), "float32"))
    overrides = Overrides(archive=str(tmp_path / "feeds.npz"))
    error = refused(tmp_path, identity("float32"), lambda g: gds.rename(g, [("y", "z")]), overrides=overrides)
    assert error.exit_code == 2 and "'X'" in error.message


def with_default() -> Builder:
    m = Builder()
    m.const("usual", [1.0, 2.0])
    m.node("x", "PlaceholderWithDefault", ["usual"], dtype="float32", shape=Shape((2,)))
    m.node("y", "Neg", ["x"], T="float32")
    return m


@pytest.mark.tensorflow
def test_a_placeholder_with_a_default_takes_it(executor: Executor) -> None:
    assert returned(executor, with_default())["y"].numpy().tolist() == [-1.0, -2.0]


@pytest.mark.tensorflow
def test_a_placeholder_with_a_default_takes_a_feed_that_is_given(executor: Executor) -> None:
    found = returned(executor, with_default(), Overrides({"x": "[7, 8]"}))
    assert found["y"].numpy().tolist() == [-7.0, -8.0]


@pytest.mark.tensorflow
def test_a_feed_that_is_given_is_what_is_fed(executor: Executor) -> None:
    found = returned(executor, identity("float32"), Overrides({"x": "[[1, 2, 3], [4, 5, 6]]"}))
    assert found["y"].numpy().tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.tensorflow
def test_the_made_up_feeds_of_two_inputs_differ(executor: Executor) -> None:
    m = Builder()
    for name in ("a", "b"):
        m.placeholder(name, "float32", (8,))
        m.node(f"{name}_out", "Identity", [name], T="float32")
    found = returned(executor, m)
    assert bytes(found["a_out"].data) != bytes(found["b_out"].data)
