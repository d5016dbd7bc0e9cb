"""Writes a TensorBundle: the bytes of its index, and the chunks of its shard, which are copied from file to file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.checkpoint.bundle import HEADER_KEY, encode_key
from gdsurgeon.checkpoint.crc32c import CHUNK, checksum_of, mask
from gdsurgeon.checkpoint.slices import Slice, into_proto, slice_key
from gdsurgeon.checkpoint.stored import Part, StoredTensor
from gdsurgeon.checkpoint.strings import checksum_of_strings, encode_strings
from gdsurgeon.checkpoint.table import build_table
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.ops.dtypes import STRING, DType
from gdsurgeon.wire import protos
from gdsurgeon.wire.protos import BundleEntryProto, BundleHeaderProto
from gdsurgeon.wire.write import Chunk, read_chunks, size_of

_VERSION = 1


class Item(NamedTuple):
    """A tensor to store, or a slice of one.

    Attributes:
        key: its name in the checkpoint.
        dtype: of its elements.
        shape: of what is stored here.
        data: its bytes as a TensorBundle has them (see `Part.span`).
        crc: their masked CRC32C, where it is known; None: it is computed, for which the bytes are read.
        slice: which part of the tensor this is; None: all of it.
        whole: with a slice, the shape of the whole.
    """

    key: str
    dtype: DType
    shape: tuple[int, ...]
    data: Sequence[Chunk]
    crc: int | None = None
    slice: Slice | None = None
    whole: tuple[int, ...] = ()


def item_of(tensor: StoredTensor, part: Part, key: str) -> Item:
    """What is stored of TENSOR as PART, to be stored as it is under KEY."""
    return Item(key, tensor.dtype, part.shape, (part.span,), part.crc, part.slice, tensor.shape)


def item_of_strings(key: str, shape: tuple[int, ...], strings: Sequence[bytes]) -> Item:
    """STRINGS, row by row, to be stored under KEY."""
    data, crc = encode_strings(strings)
    return Item(key, STRING, shape, (data,), crc)


class Built(NamedTuple):
    """A TensorBundle of one shard: the bytes of ``PREFIX.index``, and the chunks of its one data file."""

    table: bytes
    data: list[Chunk]


class Entries:
    """The entries of an index in the making.

    Attributes:
        records: those that are encoded already, by key.
    """

    def __init__(self, records: Mapping[bytes, bytes] | None = None) -> None:
        self.records = dict(records or {})
        self._wholes: dict[bytes, protos.BundleEntryProto] = {}
        self._entry_type = BundleEntryProto

    def add(self, item: Item, shard: int, offset: int) -> int:
        """Adds what says that ITEM is in SHARD from OFFSET on; returns its bytes.

        Raises:
            EditError: there is something of that name already.
        """
        size = size_of(item.data)
        entry = self._entry_type(dtype=int(item.dtype), shard_id=shard, offset=offset, size=size, crc32c=_crc(item))
        _set_shape(entry, item.shape)
        key = encode_key(item.key)
        if item.slice is not None:
            key = self._add_slice(key, item, item.slice)
        if key in self.records or key in self._wholes:
            raise EditError(f"two tensors would have the key {quoted(item.key)}")
        self.records[key] = entry.SerializeToString()
        return size

    def _add_slice(self, key: bytes, item: Item, part: Slice) -> bytes:
        """Has the entry of the whole name the slice PART; returns the key of the slice."""
        whole = self._wholes.get(key)
        if whole is None:
            whole = self._wholes[key] = self._entry_type(dtype=int(item.dtype))
            _set_shape(whole, item.whole)
        into_proto(part, whole.slices.add())
        return slice_key(key, part)

    def index(self, header: bytes) -> bytes:
        """The bytes of the index, which begins with HEADER."""
        wholes = {key: entry.SerializeToString() for key, entry in self._wholes.items()}
        return build_table(sorted({HEADER_KEY: header, **self.records, **wholes}.items()))


def build_bundle(items: Iterable[Item]) -> Built:
    """A TensorBundle of one shard that holds ITEMS, in that order.

    Raises:
        EditError: two of them are one tensor.
    """
    entries, chunks, at = Entries(), list[Chunk](), 0
    for item in items:
        at += entries.add(item, 0, at)
        chunks += item.data
    return Built(entries.index(header_of(1)), chunks)


def header_of(shards: int) -> bytes:
    """The header of a TensorBundle with SHARDS, little-endian."""
    header = BundleHeaderProto(num_shards=shards)
    header.version.producer = _VERSION
    return header.SerializeToString()


def _set_shape(entry: protos.BundleEntryProto, shape: Sequence[int]) -> None:
    entry.shape.SetInParent()
    for dim in shape:
        entry.shape.dim.add(size=dim)


def _crc(item: Item) -> int:
    if item.crc is not None:
        return item.crc
    if item.dtype == STRING:
        return checksum_of_strings(read_chunks(item.data), math.prod(item.shape))
    return mask(checksum_of(stretches(item.data)))


def stretches(chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """The bytes of CHUNKS, some at a time."""
    for chunk in chunks:
        if isinstance(chunk, bytes):
            yield chunk
            continue
        for start in range(chunk.start, chunk.end, CHUNK):
            yield chunk.source.read(start, min(CHUNK, chunk.end - start))
