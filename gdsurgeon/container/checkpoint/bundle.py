"""TensorBundles, the checkpoints of TensorFlow since 1.0: a table of entries, and the tensors' bytes in shards.

Source: tensorflow/core/util/tensor_bundle/tensor_bundle.cc, tensorflow/core/protobuf/tensor_bundle.proto.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import NamedTuple

from gdsurgeon.container.checkpoint.slices import (
    Slice,
    extents,
    from_proto,
    into_proto,
    is_slice_key,
    sizes,
    slice_key,
    spell,
)
from gdsurgeon.container.checkpoint.stored import (
    Checkpoint,
    Part,
    StoredTensor,
    Verified,
    checksum_of_variants,
    decode_strings,
)
from gdsurgeon.container.checkpoint.table import Table, build_table, checksum, pieces_of
from gdsurgeon.errors import EditError, InputError, printable, quoted
from gdsurgeon.ops.dtypes import DTYPES, MOST_DIMS, STRING, VARIANT, DType, dtype_name
from gdsurgeon.wire.fields import WireError
from gdsurgeon.wire.folder import State, identity
from gdsurgeon.wire.protos import BundleEntryProto, BundleHeaderProto, TensorShapeProto, decode_error
from gdsurgeon.wire.sniff import HEAD, foreign_format, is_text
from gdsurgeon.wire.source import FileSource, Source, corrupt_file, open_source
from gdsurgeon.wire.write import Chunk, SourceSpan, read_chunks, size_of

HEADER_KEY = b""
_VERSION = 1
"""The version of the format that is read and written."""


def dims(shape: TensorShapeProto) -> tuple[int, ...]:
    """Returns the dimensions of `shape`."""
    return tuple(dim.size for dim in shape.dim)


def index_path(prefix: str) -> str:
    """Returns the path of the index file, which holds the entries."""
    return f"{prefix}.index"


def shard_path(prefix: str, shard: int, shards: int) -> str:
    """Returns the path of the data file of shard number `shard` of `shards`."""
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


def encode_key(key: str) -> bytes:
    """Encodes `key` as in a table; a key may hold bytes that are not text."""
    return key.encode("utf-8", "surrogateescape")


def decode_key(key: bytes) -> str:
    """Decodes a key of a table."""
    return key.decode("utf-8", "surrogateescape")


class Bundle(Checkpoint):
    """A TensorBundle.

    Attributes:
        table: the table in the index.
        records: the records of the index by encoded key: the header, and entries of tensors and of slices.
        header: the header of the index.

    Args:
        prefix: the name of the checkpoint.
        index: the file with the entries; it is closed with this object.
        opener: opens a shard, from its number and the number of shards; by default, the files next to the index are
            opened.

    Raises:
        InputError: the index is corrupt, or not a table; it was written by a machine of the other byte order, or by a
            newer TensorFlow.
    """

    form = "V2"

    def __init__(self, prefix: str, index: Source, opener: Callable[[int, int], Source] | None = None) -> None:
        self.prefix = prefix
        self._opener = opener or (lambda shard, shards: open_source(shard_path(prefix, shard, shards)))
        self._shards: dict[int, Source] = {}
        self._index = index
        try:
            self.table = Table(index)
            self.records = dict(self.table.records())
            self._check_header()
        except BaseException:
            index.close()
            raise
        self.keys = sorted(decode_key(key) for key in self.records if key and not is_slice_key(key))

    def _check_header(self) -> None:
        try:
            self.header = BundleHeaderProto.FromString(self.records[HEADER_KEY])
        except (KeyError, decode_error()) as error:
            raise corrupt_file(self._index.name, "it has no checkpoint header", reason="header") from error
        if self.header.endianness:
            line = f"{printable(self.prefix)} was written on a big-endian machine and cannot be read here"
            raise InputError(line, code="wrong-format", advice="big-endian", file=self.prefix, found="big-endian")
        newest = self.header.version.min_consumer
        if newest > _VERSION:
            line = f"{printable(self.prefix)} has format version {newest}; the newest supported version is {_VERSION}"
            raise InputError(line, code="wrong-format", file=self.prefix, found=newest)

    @property
    def state(self) -> State:
        """The state of the index when it was opened."""
        return {"": identity(self._index.found)} if isinstance(self._index, FileSource) else {}

    def tensor(self, key: str) -> StoredTensor:
        data = self.records.get(encode_key(key)) if key else None
        if data is None:
            raise self.no_such_key(key)
        entry = self._entry(key, data)
        slices = tuple(map(from_proto, entry.slices))
        return StoredTensor(key, self._dtype(key, entry), dims(entry.shape), slices, partial(self._part, key, entry))

    def sources(self) -> Iterable[Source]:
        return (self._index, *self._shards.values())

    def verify(self, progress: Callable[[int], None] = lambda _nbytes: None) -> Verified:
        faults: list[str] = []
        try:
            self.table.check_frame()
        except InputError as error:
            faults.append(error.message)
        parts: list[tuple[str, DType, Part]] = []
        for key in self.keys:
            try:
                tensor = self.tensor(key)
                parts += ((key, tensor.dtype, part) for part in tensor.parts)
            except InputError as error:
                faults.append(error.message)

        @cache
        def found(kind: DType | None, span: SourceSpan, count: int) -> int:
            if kind == STRING:
                return decode_strings(read_chunks([span]), count)[1]
            return checksum(_reported(span)) if kind is None else checksum_of_variants(read_chunks([span]), count)

        def _reported(span: SourceSpan) -> Iterator[bytes]:
            for piece in pieces_of([span]):
                yield piece
                progress(len(piece))

        spans: dict[int, list[SourceSpan]] = {}
        for span in sorted({part.span for _, _, part in parts}, key=attrgetter("start", "end")):
            spans.setdefault(id(span.source), []).append(span)
        crossing: set[SourceSpan] = set()
        unused = 0
        for of_shard in spans.values():
            end = 0
            for span in of_shard:
                if span.start < end and span.end > span.start:
                    crossing.add(span)  # the span begins before the end of an earlier span
                unused += max(span.start - end, 0)
                end = max(end, span.end)
            unused += of_shard[0].source.size - end
        for key, dtype, part in parts:
            span = part.span
            what = "its bytes overlap those of a different tensor" if span in crossing else "its checksum is wrong"
            kind = dtype if dtype in (STRING, VARIANT) else None
            try:
                is_right = span not in crossing and found(kind, span, math.prod(part.shape)) == part.crc
            except WireError as error:
                is_right, what = False, error.reason
            if not is_right:
                place = f"{printable(span.source.name)}, offsets {span.start:,} to {span.end:,}"
                faults.append(f"{quoted(key)} ({place}): {what}")
        nbytes = sum(size_of(span for span in of_shard if span not in crossing) for of_shard in spans.values())
        return Verified(len(self.keys), nbytes, unused, tuple(dict.fromkeys(faults)))

    def _part(self, key: str, whole: BundleEntryProto, part: Slice | None) -> Part:
        """Returns the stored slice `part` of the tensor `key`; the whole tensor if it is None.

        Raises:
            InputError: the slice has no entry, or its entry does not fit; its file is missing or cut short.
        """
        called = quoted(key) if part is None else f"the slice {spell(part)} of {quoted(key)}"
        entry = whole if part is None else self._entry_of_slice(key, whole, part, called)
        shape, dtype, end = dims(entry.shape), self._dtype(key, entry), entry.offset + entry.size
        if min(entry.offset, entry.size, *shape) < 0:
            raise self._bad(f"{called} has a negative size", key, "size")
        if dtype.size and entry.size != dtype.size * math.prod(shape):
            what = f"{called} has {entry.size:,} bytes, which do not fit {dtype.name} {list(shape)}"
            raise self._bad(what, key, "size")
        number, count = entry.shard_id, self.header.num_shards
        if not 0 <= number < count:
            raise self._bad(f"{called} is in shard {number}, but there are {count} shards", key, "shard")
        if number not in self._shards:
            self._shards[number] = self._opener(number, count)
        source = self._shards[number]
        if end > source.size:
            head = source.read(0, min(HEAD, source.size))
            foreign = foreign_format(head) if is_text(head) else None
            what = foreign.what if foreign is not None else f"cut short: it has {source.size:,} bytes"
            line = f"{printable(source.name)} is {what}; {called} ends at byte {end:,}"
            raise InputError(line, code="corrupt", file=source.name, key=key, reason="cut short")
        return Part(part, shape, SourceSpan(source, entry.offset, end), entry.crc32c)

    def _entry_of_slice(self, key: str, whole: BundleEntryProto, part: Slice, called: str) -> BundleEntryProto:
        data = self.records.get(slice_key(encode_key(key), part))
        if data is None:
            raise self._bad(f"{called} has no entry", key, "no entry")
        entry, shape = self._entry(key, data), dims(whole.shape)
        is_fit = entry.dtype == whole.dtype and len(part) == len(shape)
        if is_fit:
            box = extents(part, shape)
            inside = all(start >= 0 and start + length <= dim for (start, length), dim in zip(box, shape, strict=True))
            is_fit = inside and sizes(box) == dims(entry.shape)
        if not is_fit:
            raise self._bad(f"{called} does not fit {dtype_name(whole.dtype)} {list(shape)}", key, "slice")
        return entry

    def _entry(self, key: str, data: bytes) -> BundleEntryProto:
        try:
            entry = BundleEntryProto.FromString(data)
        except decode_error() as error:
            raise self._bad(f"the entry of {quoted(key)} cannot be parsed", key, "message") from error
        count = len(entry.shape.dim)
        if count > MOST_DIMS:
            raise self._bad(f"{quoted(key)} has {count:,} dimensions, more than are supported", key, "dimensions")
        return entry

    def _dtype(self, key: str, entry: BundleEntryProto) -> DType:
        dtype = DTYPES.get(entry.dtype)
        if dtype is None:
            raise self._bad(f"{quoted(key)} has {dtype_name(entry.dtype)}, which is unknown", key, "dtype")
        return dtype

    def _bad(self, what: str, key: str, reason: str) -> InputError:
        line = f"{printable(self._index.name)} has a bad entry: {what}"
        return InputError(line, code="corrupt", file=self._index.name, key=key, reason=reason)


# -- writing -----------------------------------------------------------------------------------------------------


class Item(NamedTuple):
    """A tensor to store, or a slice of one.

    Attributes:
        key: its name in the checkpoint.
        dtype: of its elements.
        shape: the shape of the stored part.
        data: its bytes as in a TensorBundle (see `Part.span`).
        crc: their masked CRC32C; if None, it is computed from the bytes.
        slice: which part of the tensor this is; None: all of it.
        whole: the shape of the whole tensor, if `slice` is a part.
    """

    key: str
    dtype: DType
    shape: tuple[int, ...]
    data: Sequence[Chunk]
    crc: int | None = None
    slice: Slice | None = None
    whole: tuple[int, ...] = ()


Shard = str | Sequence[Chunk]
"""A shard to write: an existing file, or its content."""


class Files(NamedTuple):
    """The files of a TensorBundle: the bytes of its index, and its shards."""

    table: bytes
    shards: list[Shard]

    def at(self, prefix: str) -> dict[str, Shard]:
        """Returns the files of a checkpoint with the prefix `prefix`, by their paths."""
        count = len(self.shards)
        return {index_path(prefix): [self.table]} | {shard_path(prefix, n, count): self.shards[n] for n in range(count)}


class Entries:
    """The entries of a new index.

    Args:
        records: encoded entries by key.
    """

    def __init__(self, records: Mapping[bytes, bytes] | None = None) -> None:
        self._records = dict(records or {})
        self._wholes: dict[bytes, BundleEntryProto] = {}

    def add(self, item: Item, shard: int, offset: int) -> int:
        """Adds the entry of `item`, which begins at `offset` of the shard number `shard`; returns its size in bytes.

        Raises:
            EditError: there is already an entry of that name.
        """
        size = size_of(item.data)
        crc = item.crc
        if crc is None and item.dtype == STRING:
            _, crc = decode_strings(read_chunks(item.data), math.prod(item.shape))
        elif crc is None:
            crc = checksum(pieces_of(item.data))
        entry = BundleEntryProto(dtype=int(item.dtype), shard_id=shard, offset=offset, size=size, crc32c=crc)
        _set_shape(entry, item.shape)
        key = encode_key(item.key)
        if item.slice is not None:
            if key not in self._wholes:
                self._wholes[key] = BundleEntryProto(dtype=int(item.dtype))
                _set_shape(self._wholes[key], item.whole)
            into_proto(item.slice, self._wholes[key].slices.add())
            key = slice_key(key, item.slice)
        if key in self._records or key in self._wholes:
            raise EditError(f"two tensors would have the key {quoted(item.key)}")
        self._records[key] = entry.SerializeToString()
        return size

    def index(self, header: bytes) -> bytes:
        """Returns the bytes of the index, which begins with `header`."""
        wholes = {key: entry.SerializeToString() for key, entry in self._wholes.items()}
        return build_table(sorted({HEADER_KEY: header, **self._records, **wholes}.items()))


def items_of(key: str, tensor: StoredTensor) -> Iterator[Item]:
    """Yields the parts of `tensor`, to be stored under `key`."""
    for part in tensor.parts:
        yield Item(key, tensor.dtype, part.shape, (part.span,), part.crc, part.slice, tensor.shape)


def build_bundle(items: Iterable[Item]) -> Files:
    """Returns a TensorBundle of one shard with `items`, in that order.

    Raises:
        EditError: two items have the same key.
    """
    entries, chunks, at = Entries(), list[Chunk](), 0
    for item in items:
        at += entries.add(item, 0, at)
        chunks += item.data
    return Files(entries.index(header_of(1)), [chunks])


def header_of(shards: int) -> bytes:
    """Returns the serialised header of a little-endian TensorBundle with the given number of `shards`."""
    header = BundleHeaderProto(num_shards=shards)
    header.version.producer = _VERSION
    return header.SerializeToString()


def _set_shape(entry: BundleEntryProto, shape: Sequence[int]) -> None:
    entry.shape.SetInParent()
    for dim in shape:
        entry.shape.dim.add(size=dim)
