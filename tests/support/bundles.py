"""Random checkpoints: content sampled by hypothesis, writing by TensorFlow, tables in Snappy."""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from gdsurgeon.container.checkpoint.bundle import Entries, Item, header_of, index_path, items_of, shard_path
from gdsurgeon.container.checkpoint.slices import Slice, extents, spell
from gdsurgeon.container.checkpoint.stored import Checkpoint, new_tensor
from gdsurgeon.container.checkpoint.table import TABLE_END, Table, checksum
from gdsurgeon.ops.dtypes import NUMBERS, STRING, DType
from gdsurgeon.wire.fields import encode_varint
from gdsurgeon.wire.source import BytesSource
from gdsurgeon.wire.write import read_chunks

DTYPES = [
    NUMBERS[name]
    for name in (
        "float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128 "
        "float8_e5m2 float8_e4m3fn int4 uint4 string"
    ).split()
]
SLICED = [NUMBERS[name] for name in "float32 float64 int8 int16 int32 int64 uint8 bool complex64 complex128".split()]
"""TensorFlow stores slices of other dtypes as well, and does not read them."""
V1_DTYPES = [
    NUMBERS[name]
    for name in "float32 float64 float16 int8 int16 int32 int64 uint8 bool complex64 complex128 string".split()
]


class Drawn(NamedTuple):
    """A tensor: its elements row by row, or strings; the slices that it is stored in, each with its shard."""

    key: str
    dtype: DType
    shape: tuple[int, ...]
    data: bytes | list[bytes]
    parts: tuple[tuple[Slice | None, int], ...]

    def array(self) -> Any:
        """It as an array of numpy."""
        import ml_dtypes
        import numpy as np

        if isinstance(self.data, list):
            return np.array(self.data, object).reshape(self.shape)
        kind = getattr(ml_dtypes, self.dtype.numpy, None) or np.dtype(self.dtype.numpy)
        return np.frombuffer(self.data, kind).reshape(self.shape)

    def slots(self, part: Slice | None) -> tuple[slice, ...]:
        """PART as numpy takes it."""
        return tuple(slice(start, start + length) for start, length in extents(part, self.shape))


KEYS = st.lists(
    st.one_of(
        st.text("abcxyz/_0", min_size=1, max_size=12),
        st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), min_size=1, max_size=4),
        st.just("layer/" * 30),
    ),
    min_size=0,
    max_size=8,
    unique=True,
)


@st.composite
def contents(draw: st.DrawFn, *, dtypes: list[DType] = DTYPES, shards: int = 3) -> list[Drawn]:
    """Tensors for one checkpoint, sorted by key; shards are numbered from 0, and all have something."""
    chance = random.Random(draw(st.integers(0, 1 << 32)))
    count = draw(st.integers(1, shards))
    tensors = []
    for key in sorted(draw(KEYS)):
        dtype, shape = draw(st.sampled_from(dtypes)), tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
        grid = list(_grid(chance, shape)) if dtype in SLICED and chance.random() < 0.4 else [None]
        data = _data(chance, dtype, math.prod(shape))
        tensors.append(Drawn(key, dtype, shape, data, tuple((part, chance.randrange(count)) for part in grid)))
    return tensors


def _data(chance: random.Random, dtype: DType, count: int) -> bytes | list[bytes]:
    if dtype == STRING:
        return [chance.randbytes(chance.choice((0, 1, 5, 200))) for _ in range(count)]
    if dtype.name in ("bool", "int4", "uint4"):
        return bytes(chance.randrange(2) for _ in range(count))
    return chance.randbytes(count * dtype.size)


def _grid(chance: random.Random, shape: tuple[int, ...]) -> Iterator[Slice]:
    """Slices that are all of SHAPE together, in no order; none is empty, and a tensor that is gets one."""
    if 0 in shape or not shape:
        yield tuple((0, None) for _ in shape)
        return
    cuts = []
    for dim in shape:
        edges = sorted({0, dim, *(chance.randrange(dim + 1) for _ in range(chance.choice((0, 0, 1, 2))))})
        pairs: list[tuple[int, int | None]] = [(a, b - a) for a, b in itertools.pairwise(edges)]
        cuts.append([(0, None)] if len(pairs) == 1 and chance.random() < 0.5 else pairs)
    boxes = list(itertools.product(*cuts))
    chance.shuffle(boxes)
    yield from boxes


def save(tf: Any, prefix: Path, tensors: list[Drawn]) -> None:
    """Has TensorFlow write TENSORS as a TensorBundle: each shard for itself, then merged."""
    shards = sorted({shard for tensor in tensors for _, shard in tensor.parts})
    prefixes = [f"{prefix}_part_{shard}" for shard in shards] if len(shards) > 1 else [str(prefix)]
    for shard, path in zip(shards or [0], prefixes, strict=True):
        names, specs, values = _arguments(tf, [(t, p) for t in tensors for p, s in t.parts if s == shard])
        if names:
            tf.raw_ops.SaveV2(prefix=path, tensor_names=names, shape_and_slices=specs, tensors=values)
    if len(prefixes) > 1:
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=prefixes, destination_prefix=str(prefix), delete_old_dirs=False
        )


def save_v1(tf: Any, path: Path, tensors: list[Drawn]) -> None:
    """Has TensorFlow write TENSORS as a V1 checkpoint."""
    names, specs, values = _arguments(tf, [(t, p) for t in tensors for p, _ in t.parts])
    tf.raw_ops.SaveSlices(filename=str(path), tensor_names=names, shapes_and_slices=specs, data=values)


def _arguments(tf: Any, parts: list[tuple[Drawn, Slice | None]]) -> tuple[list[str], list[str], list[Any]]:
    specs = ["" if part is None else " ".join((*map(str, tensor.shape), spell(part))) for tensor, part in parts]
    dtypes = [tf.dtypes.as_dtype(int(tensor.dtype)) for tensor, _ in parts]
    values = [tf.constant(t.array()[t.slots(part)], dtype) for (t, part), dtype in zip(parts, dtypes, strict=True)]
    return [tensor.key for tensor, _ in parts], specs, values


def restored(tf: Any, prefix: Path, tensors: list[tuple[str, DType]], specs: list[str] | None = None) -> list[Any]:
    """What TensorFlow reads: bytes, or a list of strings, for each (key, dtype)."""
    if not tensors:
        return []
    read = tf.raw_ops.RestoreV2(
        prefix=str(prefix),
        tensor_names=[key for key, _ in tensors],
        shape_and_slices=specs or [""] * len(tensors),
        dtypes=[int(dtype) for _, dtype in tensors],
    )
    return [
        tf.reshape(value, [-1]).numpy().tolist() if dtype == STRING else value.numpy().tobytes()
        for value, (_, dtype) in zip(read, tensors, strict=True)
    ]


def compressed(table: bytes) -> bytes:
    """A table with its blocks in Snappy: literals, and copies where something is there again."""
    source = BytesSource(table)
    read = Table(source)
    out = bytearray()

    def put(content: bytes) -> bytes:
        handle = encode_varint(len(out)) + encode_varint(len(packed := snappy(content)))
        out.extend(packed + b"\1")
        out.extend(struct.pack("<I", checksum([packed + b"\1"])))
        return handle

    handles = [put(read.content(block)) for block in read.blocks]
    filters = put(struct.pack("<II", 0, 1))
    keys = [key for key, _ in read._read(read._index)]
    body, restarts = bytearray(), []
    for key, handle in zip(keys, handles, strict=True):
        restarts.append(len(body))
        body += b"\0" + encode_varint(len(key)) + encode_varint(len(handle)) + key + handle
    index = put(bytes(body) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts)))
    return bytes(out) + (filters + index).ljust(40, b"\0") + TABLE_END


def snappy(data: bytes) -> bytes:
    """DATA in Snappy, by all kinds of its elements."""
    out, at, literal, seen = bytearray(encode_varint(len(data))), 0, bytearray(), dict[bytes, int]()

    def flush() -> None:
        for start in range(0, len(literal), 70_000):
            piece = literal[start : start + 70_000]
            size = len(piece) - 1
            if size < 60:
                out.append(size << 2)
            else:
                count = (size.bit_length() + 7) // 8
                out.append(59 + count << 2)
                out.extend(size.to_bytes(count, "little"))
            out.extend(piece)
        literal.clear()

    while at < len(data):
        found, four = seen.get(data[at : at + 4]), data[at : at + 4]
        seen[four] = at
        length = 0
        while (
            found is not None and length < 64 and at + length < len(data) and data[found + length] == data[at + length]
        ):
            length += 1
        if found is None or length < 4:
            literal.append(data[at])
            at += 1
            continue
        flush()
        offset = at - found
        if length < 12 and offset < 2048:
            out += bytes((1 | length - 4 << 2 | offset >> 8 << 5, offset & 255))
        elif offset < 1 << 16 and length % 2:
            out += bytes((2 | length - 1 << 2,)) + offset.to_bytes(2, "little")
        else:
            out += bytes((3 | length - 1 << 2,)) + offset.to_bytes(4, "little")
        at += length
    flush()
    return bytes(out)


_HALVES = tuple(((((start, 2), (0, None))), shard) for start, shard in ((0, 0), (2, 1)))
SMALL = (
    Drawn("bias", NUMBERS["float32"], (3,), struct.pack("<3f", 0.5, 0.25, 1), ((None, 0),)),
    Drawn("kernel", NUMBERS["float32"], (4, 3), struct.pack("<12f", *range(12)), _HALVES),
    Drawn("names", STRING, (2,), [b"ant", b"bee"], ((None, 1),)),
    Drawn("step", NUMBERS["int64"], (), struct.pack("<q", 100), ((None, 1),)),
)
"""A checkpoint of two shards, one tensor of it in slices."""


def files_of(tensors: Sequence[Drawn], prefix: str) -> dict[str, bytes]:
    """The files of a TensorBundle with TENSORS, by their names."""
    shards = [bytearray() for _ in range(1 + max((shard for t in tensors for _, shard in t.parts), default=0))]
    entries = Entries()
    for tensor in tensors:
        for part, shard in tensor.parts:
            (item,) = items_of(tensor.key, new_tensor(tensor.dtype, tensor.shape, tensor.data))
            if part is not None:
                data = tensor.array()[tensor.slots(part)]
                item = Item(tensor.key, tensor.dtype, data.shape, (data.tobytes(),), None, part, tensor.shape)
            entries.add(item, shard, len(shards[shard]))
            shards[shard] += read_chunks(item.data)
    files = {shard_path(prefix, n, len(shards)): bytes(shard) for n, shard in enumerate(shards)}
    return {index_path(prefix): entries.index(header_of(len(shards))), **files}


def values(checkpoint: Checkpoint) -> dict[str, bytes | list[bytes]]:
    """The content of a checkpoint, by key."""
    return {
        key: tensor.strings() if tensor.dtype == STRING else checkpoint.stretch(key).data()
        for key in checkpoint.keys
        for tensor in [checkpoint.tensor(key)]
    }
