"""Feeds that a user gives: texts, arrays, archives, and what does not fit."""

from __future__ import annotations

import base64
import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.failing import renaming
from support.feeding import fed, feed_of, identity, returned, spec_of
from support.graphs import Builder, const, neg, node, placeholder, typed
from support.operating import refused

from gdsurgeon.errors import OutputError, UsageError
from gdsurgeon.feeds.archive import key_of, load, save, split_key
from gdsurgeon.feeds.input_spec import description, make_feed, overridden
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.ops.dtypes import DTYPES, NUMBERS, dtype_name, element_size
from gdsurgeon.proof.executor import Executor
from gdsurgeon.runtime.tensor import Tensor, from_numpy


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


def feeds_in(folder: Path, *arrays: Any, **named: Any) -> Path:
    """Writes an archive: ARRAYS, where they are not None, are samples of x."""
    path = folder / "feeds.npz"
    samples = {f"x@{k}" if k else "x": array for k, array in enumerate(arrays) if array is not None}
    np.savez(path, **samples, **named)
    return path


@pytest.mark.parametrize(
    ("dtype", "text", "said"),
    [
        ("float32", "hello", "the feed 'hello' for 'x' is not a number, or a list such as [0.6, 0.7]"),
        ("float32", "", "the feed '' for 'x' is not a number, or a list such as [0.6, 0.7]"),
        ("float32", "[1, [2]]", "the feed '[1, [2]]' for 'x' is a ragged list"),
        ("float32", "[[1, 2], [3]]", "the feed '[[1, 2], [3]]' for 'x' is a ragged list"),
        ("float32", "[1, 2]", "the feed for 'x' is float32 [2], but float32 [2,3] is expected"),
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


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8", "float16", "quint8", "complex64", "string"])
def test_an_array_file(dtype: str, tmp_path: Path) -> None:
    wanted = feed_of(identity(dtype)) if dtype != "string" else Tensor(7, (2, 3), [*b"one two three".split()] * 2)
    np.save(tmp_path / "x.npy", wanted.numpy().astype("S") if dtype == "string" else wanted.numpy())
    found = given(identity(dtype), f"@{tmp_path / 'x.npy'}")
    assert content(found) == content(wanted)


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


def test_a_feed_of_its_own_comes_before_the_archive(tmp_path: Path) -> None:
    archive = feeds_in(tmp_path, np.zeros((1,), "float32"))
    assert float(given(identity("float32", (1,)), "7", archive).numpy()[0]) == 7.0


def test_an_input_that_the_archive_lacks_is_made_up(tmp_path: Path) -> None:
    archive = feeds_in(tmp_path, other=np.zeros((1,), "float32"))
    assert overridden(spec_of(identity("float32").graph()), Overrides(archive=str(archive))).given == ()


def test_an_archive_has_a_value_for_each_sample(tmp_path: Path) -> None:
    """A sample without a value, and samples after the last value, use the first value."""
    arrays = [np.full((1, 3), k, "float32") for k in range(4)]
    archive = feeds_in(tmp_path, *arrays[:2], None, arrays[3])
    spec = overridden(spec_of(identity("float32", (-1, 3)).graph()), Overrides(archive=str(archive)))
    assert len(spec.given) == 4 and spec.shapes == ((1, 3),)
    fed = [make_feed(spec, (1, 3), 0, sample=sample) for sample in range(6)]
    assert [float(tensor.numpy()[0, 0]) for tensor in fed if isinstance(tensor, Tensor)] == [0, 1, 0, 3, 0, 0]
    assert description(spec) == "given"


def test_a_later_sample_without_the_first_is_refused(tmp_path: Path) -> None:
    archive = feeds_in(tmp_path, None, np.zeros((2, 3), "float32"))
    error = given_wrong(identity("float32"), archive=archive)
    assert error.message == f"archive {archive} has 'x@1', but no 'x' for the first sample"


def test_a_feed_on_the_command_line_is_for_all_samples() -> None:
    spec = overridden(spec_of(identity("float32", ()).graph()), Overrides({"x": "2.5"}))
    fed = [make_feed(spec, (), seed, wide=seed == 1, sample=seed) for seed in range(2)]
    assert [float(tensor.numpy()) for tensor in fed if isinstance(tensor, Tensor)] == [2.5, 2.5]


def test_an_array_that_no_tensor_can_be(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3, "datetime64[s]"))
    error = given_wrong(identity("float32"), f"@{tmp_path / 'x.npy'}")
    assert error.exit_code == 2 and error.message.startswith("the feed for 'x' does not fit: ")


def test_an_array_file_that_cannot_be_read(tmp_path: Path) -> None:
    """It is cut, another kind, not there, or holds objects, which would be unpickled."""
    file = tmp_path / "x.npy"
    np.save(file, np.array([{"a": 1}], object), allow_pickle=True)
    for data in (file.read_bytes(), b"", b"PK\x03\x04 and then nothing", b"something else", None):
        file.unlink() if data is None else file.write_bytes(data)
        error = given_wrong(identity("float32"), f"@{file}")
        assert error.exit_code == 2 and error.message.startswith(f"the feed {file} for 'x' cannot be read: ")


def test_raw_bytes_are_for_texts_only(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(24))
    error = given_wrong(identity("float32"), f"@{tmp_path / 'x.bin'}")
    assert error.message == "'x' is float32: a feed from a file must be .npy; raw bytes are only for strings"


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "overrides", [Overrides({"nobody": "1"}), Overrides(shapes={"nobody": (1,)}), Overrides({"y": "1"})]
)
def test_a_name_that_is_no_input_is_refused(overrides: Overrides, tmp_path: Path) -> None:
    error = refused(tmp_path, identity("float32"), renaming, overrides=overrides)
    name = next(iter({**overrides.values, **overrides.shapes}))
    assert (error.exit_code, error.message) == (2, f"no placeholder '{name}' exists to feed")


@pytest.mark.tensorflow
def test_an_archive_of_which_no_name_is_an_input_is_refused(tmp_path: Path) -> None:
    overrides = Overrides(archive=str(feeds_in(tmp_path, X=np.zeros((2, 3), "float32"))))
    error = refused(tmp_path, identity("float32"), renaming, overrides=overrides)
    assert error.exit_code == 2 and "'X'" in error.message


def with_default() -> Builder:
    x = node("x", "PlaceholderWithDefault", ["usual"], dtype="float32", shape=(2,))
    return Builder(const("usual", [1.0, 2.0]), x, neg("y", "x"))


@pytest.mark.tensorflow
def test_a_placeholder_with_a_default_is_fed_and_takes_the_default_on_one_more_sample(executor: Executor) -> None:
    found = [fed(executor, with_default(), "y", sample).tolist() for sample in range(3)]
    assert found[0] != found[1] and found[2] == [-1.0, -2.0] not in found[:2]


@pytest.mark.tensorflow
def test_the_made_up_feeds_of_two_inputs_differ(executor: Executor) -> None:
    inputs = [placeholder(name, "float32", (8,)) for name in "ab"]
    found = returned(executor, Builder(*inputs, *(typed("Identity", f"{name}_out", name) for name in "ab")))
    assert bytes(found["a_out"].data) != bytes(found["b_out"].data)


NUMERIC = [number for number in DTYPES if element_size(number)]
SHAPES = [(), (1,), (0,), (2, 3), (0, 4), (2, 0, 3)]


def tensor(dtype: int, shape: tuple[int, ...]) -> Tensor:
    """Elements of any bits: nothing has to make sense."""
    count = int(np.prod(shape)) * element_size(dtype)
    data = bytes(i * 37 % 251 for i in range(count))
    return Tensor(dtype, shape, bytes(b & 1 for b in data) if dtype == NUMBERS["bool"] else data)


def texts(*items: bytes) -> Tensor:
    return Tensor(7, (len(items),), list(items))


def content(value: Any) -> tuple[int, tuple[int, ...], bytes]:
    assert isinstance(value, Tensor)
    return value.dtype, value.shape, value.tobytes()


def contents(sample: dict[str, Any]) -> dict[str, Any]:
    return {name: content(value) for name, value in sample.items()}


def check_round_trip(path: Path, *samples: dict[str, Tensor]) -> None:
    save(str(path), samples)
    assert [contents(sample) for sample in load(str(path))] == [contents(sample) for sample in samples]


@pytest.mark.parametrize("dtype", NUMERIC, ids=dtype_name)
def test_numbers_come_back(dtype: int, tmp_path: Path) -> None:
    check_round_trip(tmp_path / "a.npz", {f"t{i}": tensor(dtype, shape) for i, shape in enumerate(SHAPES)})


def test_one_long_text_does_not_pad_the_short_ones(tmp_path: Path) -> None:
    check_round_trip(tmp_path / "a.npz", {"x": Tensor(7, (50, 2), [b"long" * 50_000, *[b"short\0"] * 99])})
    assert (tmp_path / "a.npz").stat().st_size < 300_000


def test_texts_are_plain_to_numpy_unless_that_would_lose_something(tmp_path: Path) -> None:
    save(str(tmp_path / "a.npz"), [{"plain": texts(b"one", b"two"), "nul": texts(b"one\0", b"two")}])
    with np.load(tmp_path / "a.npz") as found:
        assert sorted(found.files) == ["nul", "nul@length", "plain"]
        assert found["plain"].tolist() == [b"one", b"two"]
        assert found["nul@length"].tolist() == [4, 3]


def test_numpy_reads_what_it_has_a_type_for(tmp_path: Path) -> None:
    sample = {"f": from_numpy(np.float32([1.5, 2.5])), "s/q": from_numpy(np.int64(7)), "b": tensor(14, (2,))}
    save(str(tmp_path / "a.npz"), [sample])
    with np.load(tmp_path / "a.npz") as found:
        assert found["f"].tolist() == [1.5, 2.5] and found["s/q"] == 7
        assert found["b"].dtype == np.uint16 and str(found["b@dtype"]) == "bfloat16"


def test_samples_come_back_in_order(tmp_path: Path) -> None:
    check_round_trip(tmp_path / "a.npz", *({"x": texts(b"%d" % k), "a/b": tensor(1, (k,))} for k in range(12)))
    with np.load(tmp_path / "a.npz") as archive:
        assert {"x", "x@1", "x@11", "a/b@7"} <= set(archive.files)


def test_samples_may_have_different_inputs(tmp_path: Path) -> None:
    check_round_trip(tmp_path / "a.npz", {"x": tensor(1, (1,))}, {"y": tensor(3, (2,))})


def test_an_archive_of_nothing(tmp_path: Path) -> None:
    save(str(tmp_path / "a.npz"), [])
    assert load(str(tmp_path / "a.npz")) == [{}]


@pytest.mark.parametrize("name", ["x.npy", "file", "a/b/c", "a>b", "..", "grün", "x" * 300, "length"])
def test_any_name_is_kept(name: str, tmp_path: Path) -> None:
    check_round_trip(tmp_path / "a.npz", {name: tensor(1, (1,)), "x": tensor(3, (3,))}, {name: tensor(1, (2,))})


KEYS = [("x", "x", 0), ("x@1", "x", 1), ("a/b@20", "a/b", 20), ("x@0", "x@0", 0), ("x@01", "x@01", 0), ("@1", "@1", 0)]


@pytest.mark.parametrize(("key", "name", "sample"), KEYS)
def test_keys_are_names_and_samples(key: str, name: str, sample: int) -> None:
    assert split_key(key) == (name, sample)
    assert key_of(name, sample) == key


def test_an_archive_is_the_same_bytes_whenever_it_is_made(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(str(tmp_path / f"{name}.npz"), [{"x": tensor(14, (2, 2)), "y": texts(b"t\0")}])
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize("name", ["x@", "a@b", "x@1", "nul\0", "half \udcff", "x" * 70_000])
def test_a_name_that_no_archive_can_have(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.raises(OutputError) as caught:
        save(str(path), [{name: tensor(1, ())}])
    said = caught.value.message
    assert caught.value.exit_code == 6 and not [*tmp_path.iterdir()]
    assert said.startswith(f"{path} cannot be written: ") and said.isprintable()


# -- what others have written ------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [False, True])
def test_an_archive_of_numpy_is_read(compressed: bool, tmp_path: Path) -> None:
    arrays = {
        "a/b": np.arange(6, dtype=">f4").reshape(2, 3),
        "order": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "text": np.array(["grün", "b"]),
        "bytes": np.array([b"x", b""]),
        "flag": np.bool_(True),
        "x@1": np.float32(2),
        "x": np.float32(1),
    }
    (np.savez_compressed if compressed else np.savez)(tmp_path / "a.npz", **arrays)
    first, second = load(str(tmp_path / "a.npz"))
    assert first["a/b"].dtype == 1 and first["a/b"].numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert first["order"].numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert first["text"].data == ["grün".encode(), b"b"] and first["bytes"].data == [b"x", b""]
    assert (first["flag"].dtype, first["flag"].shape) == (10, ())
    assert float(first["x"].numpy()) == 1 and float(second["x"].numpy()) == 2


def test_what_no_tensor_can_be_stays_an_array_and_the_rest_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", when=np.zeros(2, "datetime64[s]"), x=np.float32(1))
    (found,) = load(str(tmp_path / "a.npz"))
    assert found["when"].dtype == np.dtype("datetime64[s]") and float(found["x"].numpy()) == 1


def unreadable(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        load(str(path))
    assert caught.value.message.startswith(f"the feeds {path} cannot be read: ")
    return caught.value.message.partition("cannot be read: ")[2]


def test_texts_that_a_caller_keeps_end_in_zeros_where_their_lengths_are_beside_them(tmp_path: Path) -> None:
    kept: dict[str, Any] = {"x": np.array([b"RIFF\0\0", b"a\0"], "S"), "x@length": np.array([6, 2])}
    np.savez(tmp_path / "a.npz", **kept)
    (found,) = load(str(tmp_path / "a.npz"))
    assert content(found["x"]) == content(texts(b"RIFF\0\0", b"a\0"))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 and then nothing", b"something else", None])
def test_a_file_that_is_no_archive(data: bytes | None, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "a.npz").write_bytes(data)
    said = "no such file or directory" if data is None else "it is not a valid .npz archive"
    assert (unreadable(tmp_path / "a.npz"), unreadable(tmp_path)) == (said, "is a directory")


def test_an_entry_that_is_cut_is_a_sentence(tmp_path: Path) -> None:
    entry = io.BytesIO()
    np.save(entry, np.arange(100))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", entry.getvalue()[:300])
    assert unreadable(tmp_path / "a.npz")


UNREADABLE: list[tuple[dict[str, Any], str]] = [
    *(
        (arrays, "'x' does not match its description")
        for arrays in (
            {"x": np.array([b"abc"]), "x@length": np.array([9])},
            {"x": np.array([b"abc"]), "x@length": np.array([1, 2])},
            {"x": np.zeros(3, "u1"), "x@length": np.array([2]), "x@dtype": np.array("string")},
            {"x": np.zeros(3, "u1"), "x@length": np.array([5, -2]), "x@dtype": np.array("string")},
            {"x": np.zeros(3, "u1"), "x@dtype": np.array("bfloat16")},
            {"x": np.zeros(3, "u1"), "x@dtype": np.array("nothing")},
            {"x": np.zeros(3, "u1"), "x@dtype": np.array("resource")},
        )
    ),
    (
        {"x": np.zeros(1), "x@999999999": np.zeros(1)},  # does not fill the memory
        "'x@999999999' is for sample 999999999, but earlier samples are missing",
    ),
    (
        {"x": np.array([{"a": 1}], object)},  # is not unpickled
        "'x' has the dtype object, and its values may be any Python object: np.array(texts, 'S') stores texts; "
        "if they may end with zeros, also store their lengths as NAME@length",
    ),
]


@pytest.mark.parametrize(("arrays", "said"), UNREADABLE)
def test_an_archive_that_contradicts_itself(arrays: dict[str, Any], said: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    assert unreadable(tmp_path / "a.npz") == said


def test_numpy_is_not_loaded_to_say_what_is_in_an_archive(tmp_path: Path) -> None:
    import subprocess

    save(str(tmp_path / "a.npz"), [{"x": tensor(1, (2,))}])
    program = (
        "import sys; from gdsurgeon.feeds.archive import Archive\n"
        f"with Archive({str(tmp_path / 'a.npz')!r}) as a: print(a.keys, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['x'] False"
