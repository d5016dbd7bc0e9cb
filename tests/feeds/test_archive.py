"""Archives of feeds: every tensor comes back bit for bit, and what numpy writes is read as well."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdsurgeon.errors import OutputError, UsageError
from gdsurgeon.feeds.archive import key_of, load, save, split_key
from gdsurgeon.ops.dtypes import DTYPES, NUMBERS, dtype_name, element_size
from gdsurgeon.runtime.tensor import Tensor, from_numpy

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


def round_trip(path: Path, *samples: dict[str, Tensor]) -> list[dict[str, Any]]:
    save(str(path), samples)
    return load(str(path))


@pytest.mark.parametrize("dtype", NUMERIC, ids=dtype_name)
def test_numbers_come_back(dtype: int, tmp_path: Path) -> None:
    sample = {f"t{i}": tensor(dtype, shape) for i, shape in enumerate(SHAPES)}
    (found,) = round_trip(tmp_path / "a.npz", sample)
    assert {name: content(value) for name, value in found.items()} == {n: content(t) for n, t in sample.items()}


@pytest.mark.parametrize(
    "value",
    [
        texts(b"one", b"three"),
        texts(b"ends\0", b"", b"\0", b"\0\0\0"),
        texts(b"", b""),
        texts(b"\xff\xfe\n", "grün".encode()),
        texts(),
        Tensor(7, (), [b"scalar\0"]),
        Tensor(7, (), [b""]),
        Tensor(7, (2, 0), []),
        Tensor(7, (2, 2), [b"a\0", b"b", b"c", b"\0d"]),
    ],
    ids=repr,
)
def test_texts_come_back(value: Tensor, tmp_path: Path) -> None:
    (found,) = round_trip(tmp_path / "a.npz", {"x": value})
    assert content(found["x"]) == content(value)


def test_one_long_text_does_not_pad_the_short_ones(tmp_path: Path) -> None:
    value = Tensor(7, (50, 2), [b"long" * 50_000, *[b"short\0"] * 99])
    (found,) = round_trip(tmp_path / "a.npz", {"x": value})
    assert content(found["x"]) == content(value)
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
    samples = [{"x": texts(b"%d" % k), "a/b": tensor(1, (k,))} for k in range(12)]
    found = round_trip(tmp_path / "a.npz", *samples)
    assert [{n: content(v) for n, v in s.items()} for s in found] == [
        {n: content(v) for n, v in s.items()} for s in samples
    ]
    with np.load(tmp_path / "a.npz") as archive:
        assert {"x", "x@1", "x@11", "a/b@7"} <= set(archive.files)


def test_samples_may_have_different_inputs(tmp_path: Path) -> None:
    found = round_trip(tmp_path / "a.npz", {"x": tensor(1, (1,))}, {"y": tensor(3, (2,))})
    assert [sorted(sample) for sample in found] == [["x"], ["y"]]


def test_an_archive_of_nothing(tmp_path: Path) -> None:
    assert round_trip(tmp_path / "a.npz") == [{}]


@pytest.mark.parametrize("name", ["x.npy", "file", "a/b/c", "a>b", "..", "grün", "x" * 300, "x@", "length"])
def test_any_name_is_kept(name: str, tmp_path: Path) -> None:
    if "@" in name:
        with pytest.raises(OutputError):
            save(str(tmp_path / "a.npz"), [{name: tensor(1, (1,))}])
        return
    other = tensor(3, (3,))
    first, second = round_trip(tmp_path / "a.npz", {name: tensor(1, (1,)), "x": other}, {name: tensor(1, (2,))})
    assert content(first[name]) == content(tensor(1, (1,))) and content(second[name]) == content(tensor(1, (2,)))
    assert content(first["x"]) == content(other)


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


# -- what cannot be written --------------------------------------------------------------------------------


def not_written(path: Path, sample: dict[str, Tensor]) -> str:
    before = sorted(path.parent.rglob("*")) if path.parent.is_dir() else []
    with pytest.raises(OutputError) as caught:
        save(str(path), [sample])
    assert caught.value.exit_code == 6
    assert (sorted(path.parent.rglob("*")) if path.parent.is_dir() else []) == before
    return caught.value.message


@pytest.mark.parametrize("name", ["a@b", "x@1", "nul\0", "half \udcff", "x" * 70_000])
def test_a_name_that_no_archive_can_have(name: str, tmp_path: Path) -> None:
    said = not_written(tmp_path / "a.npz", {name: tensor(1, ())})
    assert said.startswith(f"{tmp_path / 'a.npz'} cannot be written: ") and said.isprintable()


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


def test_python_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{"a": 1}], object))
    assert unreadable(tmp_path / "a.npz").startswith(
        "'x' has the dtype object, and its values may be any Python object: np.array(texts, 'S') stores texts"
    )


def test_texts_that_a_caller_keeps_end_in_zeros_where_their_lengths_are_beside_them(tmp_path: Path) -> None:
    kept: dict[str, Any] = {"x": np.array([b"RIFF\0\0", b"a\0"], "S"), "x@length": np.array([6, 2])}
    np.savez(tmp_path / "a.npz", **kept)
    (found,) = load(str(tmp_path / "a.npz"))
    assert content(found["x"]) == content(texts(b"RIFF\0\0", b"a\0"))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 and then nothing", b"something else"])
def test_a_file_that_is_no_archive(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(data)
    assert unreadable(tmp_path / "a.npz") == "it is not a valid .npz archive"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert unreadable(tmp_path / "a.npz") == "no such file or directory"
    assert unreadable(tmp_path) == "is a directory"


def test_an_entry_that_is_cut_is_a_sentence(tmp_path: Path) -> None:
    entry = io.BytesIO()
    np.save(entry, np.arange(100))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", entry.getvalue()[:300])
    assert unreadable(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": np.array([b"abc"]), "x@length": np.array([9])},
        {"x": np.array([b"abc"]), "x@length": np.array([1, 2])},
        {"x": np.zeros(3, "u1"), "x@length": np.array([2]), "x@dtype": np.array("string")},
        {"x": np.zeros(3, "u1"), "x@length": np.array([5, -2]), "x@dtype": np.array("string")},
        {"x": np.zeros(3, "u1"), "x@dtype": np.array("bfloat16")},
        {"x": np.zeros(3, "u1"), "x@dtype": np.array("nothing")},
        {"x": np.zeros(3, "u1"), "x@dtype": np.array("resource")},
    ],
)
def test_an_archive_that_contradicts_itself(arrays: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    assert unreadable(tmp_path / "a.npz") == "'x' does not match its description"


def test_a_sample_far_from_all_others_does_not_fill_the_memory(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"x": np.zeros(1), "x@999999999": np.zeros(1)})
    assert unreadable(tmp_path / "a.npz") == "'x@999999999' is for sample 999999999, but earlier samples are missing"


def test_numpy_is_not_loaded_to_say_what_is_in_an_archive(tmp_path: Path) -> None:
    import subprocess

    save(str(tmp_path / "a.npz"), [{"x": tensor(1, (2,))}])
    program = (
        "import sys; from gdsurgeon.feeds.archive import Archive\n"
        f"with Archive({str(tmp_path / 'a.npz')!r}) as a: print(a.keys, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['x'] False"
