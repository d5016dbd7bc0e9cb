"""Small checkpoints that ask for much: memory and time are bounded by the size of the file."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.desk import check_error
from support.patience import LONG_ENOUGH, within
from support.system import within_memory

from gdsurgeon.container.checkpoint.bundle import HEADER_KEY, Bundle, header_of
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.slices import into_proto, slice_key
from gdsurgeon.container.checkpoint.stored import decode_strings, encode_strings
from gdsurgeon.container.checkpoint.table import TABLE_END, build_table, checksum, uncompress
from gdsurgeon.errors import InputError
from gdsurgeon.wire.fields import WireError, encode_len, encode_varint
from gdsurgeon.wire.protos import BundleEntryProto, SavedTensorSlices
from gdsurgeon.wire.source import BytesSource

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
    with pytest.raises(InputError) as caught:
        work()
    check_error(caught.value, "corrupt", {"file": "m.index", **facts})


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
            with pytest.raises(InputError) as caught:
                checkpoint.stretch("a")
            check_error(caught.value, "too-large", {"key": "a"})

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
