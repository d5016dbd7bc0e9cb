"""TensorBundles, the checkpoints of TensorFlow since 1.0: a table of entries, and the tensors' bytes in shards.

Source: tensorflow/core/util/tensor_bundle/tensor_bundle.cc, tensorflow/core/protobuf/tensor_bundle.proto.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property

from gdsurgeon.checkpoint.slices import Slice, extents, from_proto, is_slice_key, sizes, slice_key, spell
from gdsurgeon.checkpoint.stored import Checkpoint, Part, StoredTensor
from gdsurgeon.checkpoint.table import Table
from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.ops.dtypes import DTYPES, MOST_DIMS, DType, dtype_name
from gdsurgeon.wire import protos
from gdsurgeon.wire.folder import State, identity
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.protos import BundleEntryProto, BundleHeaderProto
from gdsurgeon.wire.sniff import HEAD, foreign_format, is_text
from gdsurgeon.wire.source import FileSource, Source, corrupt_file, open_source
from gdsurgeon.wire.write import SourceSpan

HEADER_KEY = b""
_NEWEST = 1
"""The version of the format that is read here."""


def dims(shape: protos.TensorShapeProto) -> tuple[int, ...]:
    """The dimensions of what is stored."""
    return tuple(dim.size for dim in shape.dim)


def index_path(prefix: str) -> str:
    """The file with the entries."""
    return f"{prefix}.index"


def shard_path(prefix: str, shard: int, shards: int) -> str:
    """The file with the bytes of shard SHARD of SHARDS."""
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


class Bundle(Checkpoint):
    """A TensorBundle.

    Attributes:
        table: of the index.
        records: the records of the index: encoded keys, the header, and entries of tensors and of slices.
        header: the first of them.

    Args:
        prefix: the name of the checkpoint.
        index: the file with the entries; it is closed with this.
        opener: opens shard SHARD of SHARDS; by default, the files next to the index are opened.

    Raises:
        InputError: the index is no table or is corrupt; it was written by a machine of the other byte order, or by a
            newer TensorFlow.
    """

    form = "V2"

    def __init__(self, prefix: str, index: Source, opener: Callable[[int, int], Source] | None = None) -> None:
        self.prefix = prefix
        self._name = index.name
        self._opener = opener
        self._shards: dict[int, Source] = {}
        self._entry_type = BundleEntryProto
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
            raise corrupt_file(self._name, "it has no checkpoint header", reason="header") from error
        if self.header.endianness:
            line = f"{printable(self.prefix)} was written on a big-endian machine and cannot be read here"
            facts = {"file": self.prefix, "found": "big-endian"}
            raise InputError(line, code="wrong-format", advice="big-endian", facts=facts)
        newest = self.header.version.min_consumer
        if newest > _NEWEST:
            line = f"{printable(self.prefix)} has format version {newest}; the newest supported version is {_NEWEST}"
            raise InputError(line, code="wrong-format", facts={"file": self.prefix, "found": newest})

    @property
    def state(self) -> State:
        """The state of the index when it was opened."""
        return {"": identity(self._index.found)} if isinstance(self._index, FileSource) else {}

    def tensor(self, key: str) -> BundleTensor:
        data = self.records.get(encode_key(key)) if key else None
        if data is None:
            raise self.no_such_key(key)
        entry = self._entry(key, data)
        return BundleTensor(self, key, entry, self._dtype(key, entry))

    def sources(self) -> Iterable[Source]:
        return (self._index, *self._shards.values())

    def close(self) -> None:
        for source in self.sources():
            source.close()
        self._shards.clear()

    def shard(self, number: int) -> Source:
        """The bytes of shard NUMBER.

        Raises:
            InputError: its file is missing, or cannot be read.
        """
        source = self._shards.get(number)
        if source is None:
            opened = self._opener or (lambda shard, shards: open_source(shard_path(self.prefix, shard, shards)))
            source = self._shards[number] = opened(number, self.header.num_shards)
        return source

    def shards_of(self, tensor: StoredTensor) -> set[int]:
        """The shards that the parts of TENSOR, which has all of them, are in."""
        own = encode_key(tensor.key)
        names = [slice_key(own, part) for part in tensor.slices] or [own]
        return {self._entry_type.FromString(self.records[name]).shard_id for name in names}

    def part(self, key: str, whole: protos.BundleEntryProto, part: Slice | None) -> Part:
        """What is stored of the tensor KEY with the entry WHOLE: PART of it, or everything.

        Raises:
            InputError: the slice has no entry, or one that does not fit; its file is missing or cut short.
        """
        entry = whole if part is None else self._entry_of_slice(key, whole, part)
        shape, dtype, end = dims(entry.shape), self._dtype(key, entry), entry.offset + entry.size
        if min(entry.offset, entry.size, *shape) < 0:
            raise self._bad(f"{_called(key, part)} has a negative size", key, "size")
        if dtype.size and entry.size != dtype.size * math.prod(shape):
            what = f"{_called(key, part)} has {entry.size:,} bytes, which do not fit {dtype.name} {list(shape)}"
            raise self._bad(what, key, "size")
        if not 0 <= entry.shard_id < self.header.num_shards:
            what = f"{_called(key, part)} is in shard {entry.shard_id}, but there are {self.header.num_shards} shards"
            raise self._bad(what, key, "shard")
        source = self.shard(entry.shard_id)
        if end > source.size:
            line = f"{printable(source.name)} is {_too_short(source)}; {_called(key, part)} ends at byte {end:,}"
            raise InputError(line, code="corrupt", facts={"file": source.name, "key": key, "reason": "cut short"})
        return Part(part, shape, SourceSpan(source, entry.offset, end), entry.crc32c)

    def _entry_of_slice(self, key: str, whole: protos.BundleEntryProto, part: Slice) -> protos.BundleEntryProto:
        data = self.records.get(slice_key(encode_key(key), part))
        if data is None:
            raise self._bad(f"{_called(key, part)} has no entry", key, "no entry")
        entry = self._entry(key, data)
        if entry.dtype != whole.dtype or not _fits(part, dims(entry.shape), dims(whole.shape)):
            what = f"{_called(key, part)} does not fit {dtype_name(whole.dtype)} {list(dims(whole.shape))}"
            raise self._bad(what, key, "slice")
        return entry

    def _entry(self, key: str, data: bytes) -> protos.BundleEntryProto:
        try:
            entry = self._entry_type.FromString(data)
        except decode_error() as error:
            raise self._bad(f"the entry of {quoted(key)} cannot be parsed", key, "message") from error
        if len(entry.shape.dim) > MOST_DIMS:
            raise self._bad(
                f"{quoted(key)} has {len(entry.shape.dim):,} dimensions, more than are supported", key, "dimensions"
            )
        return entry

    def _dtype(self, key: str, entry: protos.BundleEntryProto) -> DType:
        dtype = DTYPES.get(entry.dtype)
        if dtype is None:
            raise self._bad(f"{quoted(key)} has {dtype_name(entry.dtype)}, which is unknown", key, "dtype")
        return dtype

    def _bad(self, what: str, key: str, reason: str) -> InputError:
        facts = {"file": self._name, "key": key, "reason": reason}
        return InputError(f"{printable(self._name)} has a bad entry: {what}", code="corrupt", facts=facts)


class BundleTensor(StoredTensor):
    """A tensor of a TensorBundle, with its `entry`; if there are slices, the place in the entry has no meaning."""

    def __init__(self, bundle: Bundle, key: str, entry: protos.BundleEntryProto, dtype: DType) -> None:
        super().__init__(key, dtype, dims(entry.shape), tuple(map(from_proto, entry.slices)))
        self.entry = entry
        self._bundle = bundle

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        wanted: tuple[Slice | None, ...] = self.slices or (None,)
        return tuple(self._bundle.part(self.key, self.entry, part) for part in wanted)


def _too_short(source: Source) -> str:
    """What a shard is that lacks bytes: perhaps something else altogether."""
    head = source.read(0, min(HEAD, source.size))
    foreign = foreign_format(head) if is_text(head) else None
    return foreign.what if foreign is not None else f"cut short: it has {source.size:,} bytes"


def _called(key: str, part: Slice | None) -> str:
    return quoted(key) if part is None else f"the slice {spell(part)} of {quoted(key)}"


def _fits(part: Slice, shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    if len(part) != len(whole):
        return False
    box = extents(part, whole)
    inside = all(start >= 0 and start + length <= dim for (start, length), dim in zip(box, whole, strict=True))
    return inside and sizes(box) == shape


def encode_key(key: str) -> bytes:
    """Encodes `key` as in a table; a key may hold bytes that are not text."""
    return key.encode("utf-8", "surrogateescape")


def decode_key(key: bytes) -> str:
    """The key that a table holds as KEY."""
    return key.decode("utf-8", "surrogateescape")
