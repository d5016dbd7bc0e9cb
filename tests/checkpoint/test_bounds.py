"""Bounds of memory and time for small checkpoints, and checkpoints that TensorFlow writes and reads."""

from __future__ import annotations

import hashlib
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from support.bundles import SMALL, V1_DTYPES, Drawn, compressed, contents, restored, save, save_v1
from support.desk import check_error, check_raised
from support.patience import LONG_ENOUGH, within
from support.system import within_memory

from gdsurgeon.container.checkpoint.bundle import HEADER_KEY, Bundle, header_of, index_path, shard_path
from gdsurgeon.container.checkpoint.edit import Files, edit, relinked, rewritten
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.slices import into_proto, parse_slice_spec, slice_key
from gdsurgeon.container.checkpoint.stored import Checkpoint, decode_strings, encode_strings
from gdsurgeon.container.checkpoint.table import TABLE_END, build_table, checksum, uncompress
from gdsurgeon.errors import InputError
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.wire.fields import WireError, encode_len, encode_varint
from gdsurgeon.wire.protos import BundleEntryProto, SavedTensorSlices
from gdsurgeon.wire.source import BytesSource
from gdsurgeon.wire.write import read_chunks

ENTRY = BundleEntryProto
MUCH = 256 << 20
"""Bytes that a reader may take for some MB of input."""


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    with within(LONG_ENOUGH):
        yield


def block(entries: bytes) -> bytes:
    """A block of encoded ENTRIES without compression, and what stands behind it."""
    content = entries + struct.pack("<II", 0, 1) + b"\0"
    return content + struct.pack("<I", checksum([content]))


def entry(shared: int, own: bytes, value: bytes) -> bytes:
    return encode_varint(shared) + encode_varint(len(own)) + encode_varint(len(value)) + own + value


def table(only: bytes, times: int = 1) -> bytes:
    """A table of ONLY a block, which is listed for that many TIMES."""
    places, out = [], only
    listed = entry(0, b"k", encode_varint(0) + encode_varint(len(only) - 5)) * times
    for data in (block(b""), block(listed)):
        places.append(encode_varint(len(out)) + encode_varint(len(data) - 5))
        out += data
    return out + b"".join(places).ljust(40, b"\0") + TABLE_END


def refused(work: Callable[[], object], **facts: object) -> None:
    check_raised(InputError, "corrupt", work, file="m.index", **facts)


def opened(data: bytes) -> Bundle:
    return Bundle("m", BytesSource(data, "m.index"))


def test_keys_that_share_a_long_beginning() -> None:
    length = 200_000
    entries = entry(0, b"k" * length, b"") + b"".join(entry(length, b"%05d" % n, b"") for n in range(20_000))
    data = table(block(entries))
    within_memory(MUCH, lambda: refused(lambda: opened(data)))


def test_keys_may_share_their_beginnings() -> None:
    """As a writer has them that spells a key whole once in 16."""
    keys = sorted(b"layer/" * 200 + b"%d" % n for n in range(2000))
    held = {HEADER_KEY: header_of(1), **dict.fromkeys(keys, ENTRY(dtype=1, size=4).SerializeToString())}
    assert len(opened(build_table(sorted(held.items()))).keys) == 2000


def test_a_block_that_is_listed_often() -> None:
    entries = b"".join(entry(0, b"%06d" % n, b"") for n in range(100_000))
    data = table(block(entries), 20_000)
    refused(lambda: opened(data))


def test_copies_from_far_back_take_no_longer() -> None:
    far, copies = 32 << 20, 500_000
    literal = bytes([63 << 2]) + struct.pack("<I", far - 1) + bytes(far)
    data = encode_varint(far + 64 * copies) + literal + (bytes([63 << 2 | 3]) + struct.pack("<I", far)) * copies
    assert len(uncompress(data)) == far + 64 * copies


def bundle_of(tmp_path: Path, records: dict[bytes, bytes], shard: bytes) -> str:
    prefix = str(tmp_path / "m")
    Path(f"{prefix}.index").write_bytes(build_table(sorted({HEADER_KEY: header_of(1), **records}.items())))
    Path(f"{prefix}.data-00000-of-00001").write_bytes(shard)
    return prefix


def test_a_shape_of_many_dimensions(tmp_path: Path) -> None:
    dims = encode_len(2, encode_varint(8) + encode_varint((1 << 62) + 1)) * 1_000_000
    record = ENTRY(dtype=1, size=4).SerializeToString() + encode_len(2, dims)
    with (
        open_checkpoint(bundle_of(tmp_path, {b"a": record}, bytes(4))) as checkpoint,
        pytest.raises(InputError) as caught,
    ):
        _ = checkpoint.tensor("a").parts
    check_error(caught.value, "corrupt", {"key": "a"})


def test_slices_that_cross_each_other(tmp_path: Path) -> None:
    """Each lies across all dimensions, and the places where their edges meet are far more than they."""
    axes, count = 6, 60
    whole = ENTRY(dtype=1)
    records = {}
    for _ in range(axes):
        whole.shape.dim.add(size=2 * count)
    for n in range(count):
        part = tuple((n, count) for _ in range(axes))
        into_proto(part, whole.slices.add())
        stored = ENTRY(dtype=1)
        for _, length in part:
            stored.shape.dim.add(size=length)
        stored.size = 4 * count**axes
        records[slice_key(b"a", part)] = stored.SerializeToString()
    prefix = bundle_of(tmp_path, records | {b"a": whole.SerializeToString()}, b"")
    with open(f"{prefix}.data-00000-of-00001", "r+b") as file:
        file.truncate(4 * count**axes)
    with open_checkpoint(prefix) as checkpoint:

        def stretched() -> None:
            check_raised(InputError, "too-large", lambda: checkpoint.stretch("a"), key="a")

        within_memory(MUCH, stretched)


def test_tensors_with_the_same_bytes_are_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 16
    found = ENTRY(dtype=1, size=len(data), crc32c=checksum([data]))
    found.shape.dim.add(size=len(data) // 4)
    record = found.SerializeToString()
    prefix = bundle_of(tmp_path, {b"%d" % n: record for n in range(50)}, data)
    read = []
    with open_checkpoint(prefix) as checkpoint:
        result = checkpoint.verify(read.append)
    assert (result.faults, result.tensors, sum(read)) == ((), 50, len(data))


def test_many_short_strings() -> None:
    data, _ = encode_strings([b""] * 1_000_000)
    within_memory(48 << 20, lambda: decode_strings(data, 1_000_000))


def test_a_count_of_strings_that_lies() -> None:
    def short() -> None:
        with pytest.raises(WireError):
            decode_strings(bytes(1000), 1 << 40)

    within_memory(MUCH, short)


def v1(tmp_path: Path, name: str, count: int) -> str:
    """A V1 checkpoint that lists a slice of the tensor NAME for COUNT times."""
    saved = SavedTensorSlices()
    tensor = saved.meta.tensor.add(name=name, type=1)
    tensor.shape.dim.add(size=1 << 20)
    tensor.slice.add().extent.add(start=1, length=1)
    entry = saved.meta.SerializeToString()
    (tmp_path / "v1").write_bytes(build_table([(b"", encode_len(1, entry * count))]))
    return str(tmp_path / "v1")


@pytest.mark.slow
def test_a_v1_checkpoint_that_lists_a_tensor_often(tmp_path: Path) -> None:
    with open_checkpoint(v1(tmp_path, "a", 1_000_000)) as checkpoint:
        assert len(checkpoint.tensor("a").slices) == 1_000_000


def test_a_v1_checkpoint_in_which_a_long_name_has_many_slices(tmp_path: Path) -> None:
    """Each slice has a key that holds the name."""
    saved = SavedTensorSlices()
    tensor = saved.meta.tensor.add(name="a" * 1_000_000, type=1)
    tensor.shape.dim.add(size=1 << 20)
    slices = encode_len(4, encode_len(1, encode_varint(8) + encode_varint(1))) * 300_000
    data = encode_len(1, encode_len(1, tensor.SerializeToString() + slices))
    (tmp_path / "v1").write_bytes(build_table([(b"", data)]))
    with pytest.raises(InputError) as caught:
        open_checkpoint(str(tmp_path / "v1"))
    check_error(caught.value, "corrupt", {"file": str(tmp_path / "v1"), "reason": "slices"})


def check(checkpoint: Checkpoint, tensors: list[Drawn]) -> None:
    """That CHECKPOINT holds TENSORS, in the slices that they are stored in."""
    assert list(checkpoint.keys) == [tensor.key for tensor in tensors]
    for drawn in tensors:
        tensor = checkpoint.tensor(drawn.key)
        assert (tensor.dtype, tensor.shape) == (drawn.dtype, drawn.shape)
        if drawn.dtype == STRING:
            assert tensor.strings() == drawn.data
        else:
            assert checkpoint.stretch(drawn.key).data() == drawn.data
    assert checkpoint.verify().faults == ()


def write(prefix: Path, files: Files) -> None:
    """The FILES, without the care that is taken of what a user keeps."""
    Path(index_path(str(prefix))).write_bytes(files.table)
    for number, shard in enumerate(files.shards):
        path = Path(shard_path(str(prefix), number, len(files.shards)))
        if isinstance(shard, str):
            path.hardlink_to(shard)
        else:
            path.write_bytes(read_chunks(shard))


def check_read(tf: Any, prefix: Path, tensors: list[Drawn], key: Any = lambda key: key) -> None:
    """That TensorFlow finds TENSORS there, under their KEYs."""
    found = restored(tf, prefix, [(key(tensor.key), tensor.dtype) for tensor in tensors])
    assert found == [tensor.data for tensor in tensors]


@pytest.mark.tensorflow
@given(tensors=contents())
def test_bundles(tf: Any, tensors: list[Drawn]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours, linked = (Path(folder) / name for name in ("theirs", "ours", "linked"))
        save(tf, theirs, tensors)
        if not tensors:
            return
        with open_checkpoint(str(theirs)) as checkpoint:
            check(checkpoint, tensors)
            write(ours, rewritten(edit(checkpoint, {}, [], {})))
            new = {tensor.key: f"new/{tensor.key}" for tensor in tensors}
            write(linked, relinked(checkpoint, edit(checkpoint, new, [], {})))
            if len({shard for tensor in tensors for _, shard in tensor.parts}) == 1:
                assert index(ours) == index(theirs)
        check_read(tf, ours, tensors)
        check_read(tf, linked, tensors, new.__getitem__)
        Path(f"{theirs}.index").write_bytes(compressed(index(ours)))
        with open_checkpoint(str(theirs)) as checkpoint:
            assert checkpoint.keys == [tensor.key for tensor in tensors]


def index(prefix: Path) -> bytes:
    return Path(f"{prefix}.index").read_bytes()


@pytest.mark.tensorflow
@settings(max_examples=40)
@given(tensors=contents(dtypes=V1_DTYPES, shards=1))
def test_v1_checkpoints(tf: Any, tensors: list[Drawn]) -> None:
    if not tensors:
        return
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = Path(folder) / "model.ckpt", Path(folder) / "ours"
        save_v1(tf, theirs, tensors)
        with open_checkpoint(str(theirs)) as checkpoint:
            check(checkpoint, tensors)
            write(ours, rewritten(edit(checkpoint, {}, [], {})))
        check_read(tf, ours, tensors)


@pytest.mark.tensorflow
def test_an_index_of_many_blocks(tf: Any, tmp_path: Path) -> None:
    keys = sorted(f"{hashlib.sha512(bytes((i >> 8, i & 255))).hexdigest() * 4}/{i}" for i in range(1200))
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "theirs"),
        tensor_names=keys,
        shape_and_slices=[""] * len(keys),
        tensors=list(tf.unstack(tf.range(len(keys)))),
    )
    with open_checkpoint(str(tmp_path / "theirs")) as checkpoint:
        assert checkpoint.keys == sorted(keys)
        assert all(checkpoint.stretch(key).data() == i.to_bytes(4, "little") for i, key in enumerate(keys))
        write(tmp_path / "ours", rewritten(edit(checkpoint, {}, [], {})))
    assert index(tmp_path / "ours") == index(tmp_path / "theirs")
    reader = tf.train.load_checkpoint(str(tmp_path / "ours"))
    assert sorted(reader.get_variable_to_shape_map()) == sorted(keys)
    assert all(reader.get_tensor(key) == i for i, key in list(enumerate(keys))[::7])
    Path(f"{tmp_path / 'ours'}.index").write_bytes(compressed(index(tmp_path / "ours")))
    assert tf.train.load_checkpoint(str(tmp_path / "ours")).get_tensor(keys[77]) == 77
    with open_checkpoint(str(tmp_path / "ours")) as checkpoint:
        assert checkpoint.keys == sorted(keys) and checkpoint.verify().faults == ()


@pytest.mark.tensorflow
def test_slices_as_tensorflow_restores_them(tf: Any, tmp_path: Path) -> None:
    whole = tf.reshape(tf.range(6 * 5 * 4), (6, 5, 4))
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "m"),
        tensor_names=["w", "w", "w"],
        shape_and_slices=["6 5 4 0,2:-:-", "6 5 4 2,4:0,3:-", "6 5 4 2,4:3,2:-"],
        tensors=[whole[:2], whole[2:, :3], whole[2:, 3:]],
    )
    with open_checkpoint(str(tmp_path / "m")) as checkpoint:
        for text in ("-:-:-", "1,3:-:-", "2,2:0,2:1,2", "0,6:4,1:3,1", "5,1:4,1:-"):
            _, part = parse_slice_spec(f"6 5 4 {text}")
            (wanted,) = restored(tf, tmp_path / "m", [("w", checkpoint.tensor("w").dtype)], [f"6 5 4 {text}"])
            assert checkpoint.stretch("w", part).data() == wanted


@pytest.mark.tensorflow
def test_every_byte_of_a_v1_checkpoint_is_verified(tf: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.ckpt"
    save_v1(tf, path, [drawn for drawn in SMALL if drawn.key != "names"])
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes((data[at] ^ 16,)) + data[at + 1 :])
        try:
            with open_checkpoint(str(path)) as checkpoint:
                faults = checkpoint.verify().faults
        except InputError as error:
            faults = (error.message,)
        assert faults and "m.ckpt" in faults[0], at
    at = data.index(SMALL[0].data)
    path.write_bytes(data[:at] + b"!" + data[at + 1 :])
    with open_checkpoint(str(path)) as checkpoint:
        (fault,) = checkpoint.verify().faults
    said = "is corrupt: the checksum of its block at offset 0 is wrong (the block contains 'bias', 'kernel', 'step')"
    assert fault == f"{path} {said}"
    path.write_bytes(data[:-60])
    with pytest.raises(InputError, match="is not a checkpoint"):
        open_checkpoint(str(path))
