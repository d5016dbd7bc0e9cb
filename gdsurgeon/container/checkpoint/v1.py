"""Checkpoints of TensorFlow before 1.0 (V1): tables in which the tensors are stored as protocol buffers.

Source: tensorflow/core/util/saved_tensor_slice.proto, tensorflow/core/util/tensor_slice_writer.cc.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from operator import attrgetter
from typing import NamedTuple

from gdsurgeon.container.checkpoint.bundle import dims, encode_key
from gdsurgeon.container.checkpoint.slices import Slice, extents, from_proto, sizes, slice_key, spell, whole
from gdsurgeon.container.checkpoint.stored import Checkpoint, Part, StoredTensor, Verified, encode_strings
from gdsurgeon.container.checkpoint.table import Block, Table
from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.ops.dtypes import DTYPES, ELEMENT_FIELDS, MOST_DIMS, STRING, DType, dtype_name
from gdsurgeon.ops.elements import numbers_in
from gdsurgeon.text import named
from gdsurgeon.wire.fields import LEN, Buffer, Field, WireError, fields
from gdsurgeon.wire.protos import SavedTensorSlices, decode_error
from gdsurgeon.wire.source import BytesSource, Source, Window, corrupt_file, open_source
from gdsurgeon.wire.write import SourceSpan, read_chunks, size_of

_DATA, _TENSOR = 2, 3
"""Fields: the SavedSlice of a SavedTensorSlices, and the TensorProto of that."""
_MOST_NAMED = 128
"""Bytes of keys of slices for each byte of a file: each key holds the name of the tensor."""


class _Meta(NamedTuple):
    """The description of a tensor in the file."""

    dtype: int
    shape: tuple[int, ...]
    slices: list[Slice]


class V1Checkpoint(Checkpoint):
    """A V1 checkpoint.

    Attributes:
        tables: one for each file.

    Args:
        prefix: the name of the checkpoint.
        paths: its files.

    Raises:
        InputError: a file is not a table, or does not list tensors.
    """

    form = "V1"

    def __init__(self, prefix: str, paths: Sequence[str]) -> None:
        self.prefix = prefix
        self._sources: list[Source] = []
        try:
            for path in paths:
                self._sources.append(open_source(path))
            self.tables = [Table(source) for source in self._sources]
            self._metas = self._read_metas()
        except BaseException:
            self.close()
            raise
        self.keys = sorted(self._metas)

    def tensor(self, key: str) -> StoredTensor:
        meta = self._metas.get(key)
        if meta is None:
            raise self.no_such_key(key)
        dtype = DTYPES.get(meta.dtype)
        if dtype is None or not dtype.kind:
            raise self._bad(f"{quoted(key)} has {dtype_name(meta.dtype)}, which is unknown", key, "dtype")
        if any(len(part) != len(meta.shape) for part in meta.slices):
            raise self._bad(f"a slice of {quoted(key)} does not fit the shape {list(meta.shape)}", key, "slice")
        is_whole = len(meta.slices) == 1 and extents(meta.slices[0], meta.shape) == whole(meta.shape)
        slices = () if is_whole else tuple(meta.slices)
        return StoredTensor(key, dtype, meta.shape, slices, partial(self._part, key, dtype, meta))

    def sources(self) -> Iterable[Source]:
        return self._sources

    def _read_metas(self) -> dict[str, _Meta]:
        """Returns the descriptions of the tensors; each file lists its own slices."""
        out: dict[str, _Meta] = {}
        for table, source in zip(self.tables, self._sources, strict=True):
            key, value = next(table.located(), (b"-", None))
            if key or value is None:
                line = f"{printable(source.name)} is not a checkpoint: it does not list any tensors"
                raise InputError(line, code="wrong-format", file=source.name)
            try:
                saved = SavedTensorSlices.FromString(read_chunks([value]))
            except decode_error() as error:
                raise corrupt_file(source.name, "its list of tensors cannot be parsed", reason="message") from error
            spare = _MOST_NAMED * source.size
            for tensor in saved.meta.tensor:
                name, count = tensor.name, len(tensor.shape.dim)
                spare -= len(name) * len(tensor.slice)
                if spare < 0:
                    raise self._bad(f"{quoted(name)} has too many slices", name, "slices")
                if count > MOST_DIMS:
                    what = f"{quoted(name)} has {count:,} dimensions, more than are supported"
                    raise self._bad(what, name, "dimensions")
                slices = out[name].slices if name in out else []
                slices.extend(map(from_proto, tensor.slice))
                out[name] = _Meta(tensor.type, dims(tensor.shape), slices)
        return out

    @cached_property
    def records(self) -> dict[bytes, SourceSpan]:
        """The locations of the slices by their keys.

        Raises:
            InputError: a block is corrupt.
        """
        return {key: span for table in self.tables for key, span in table.located()}

    def verify(self, progress: Callable[[int], None] = lambda _nbytes: None) -> Verified:
        faults: list[str] = []
        nbytes = 0
        for table in self.tables:
            for block in table.blocks:
                try:
                    table.check(block)
                except InputError as error:
                    found = self._keys_by_block.get((table.source, block))
                    faults.append(
                        error.message + (f" (the block contains {named(found, show=quoted)})" if found else "")
                    )
                nbytes += block.size
                progress(block.size)
            try:
                table.check_frame()
            except InputError as error:
                faults.append(error.message)
        return Verified(len(self.keys), nbytes, 0, tuple(faults))

    @cached_property
    def _keys_by_block(self) -> Mapping[tuple[Source, Block], list[str]]:
        """The keys of the tensors in each uncompressed block; an empty mapping if a block cannot be read."""
        blocks = {table.source: table.blocks for table in self.tables}
        out: dict[tuple[Source, Block], list[str]] = {}
        try:
            for key in self.keys:
                for span in self._where(key):
                    if span.source in blocks:
                        of_table = blocks[span.source]
                        block = of_table[bisect_right(of_table, span.start, key=attrgetter("offset")) - 1]
                        held = out.setdefault((span.source, block), [])
                        if key not in held[-1:]:
                            held.append(key)
        except InputError:
            return {}
        return out

    def _where(self, key: str) -> list[SourceSpan]:
        """Returns the locations of the slices of the tensor `key`. Raises InputError: a block is corrupt."""
        wanted = (slice_key(encode_key(key), part) for part in self._metas[key].slices)
        return [self.records[name] for name in wanted if name in self.records]

    def _part(self, key: str, dtype: DType, meta: _Meta, part: Slice | None) -> Part:
        """Returns the stored slice `part` of the tensor `key`.

        Raises:
            InputError: it does not exist, or is corrupt.
        """
        stored = part if part is not None else meta.slices[0]
        box = extents(stored, meta.shape)
        shape, name = sizes(box), f"the slice {spell(stored)} of {quoted(key)}"
        span = self.records.get(slice_key(encode_key(key), stored))
        if span is None:
            raise self._bad(f"{name} is missing", key, "no entry")
        try:
            elements = _elements(span, dtype, math.prod(shape))
        except WireError as error:
            raise self._bad(f"{name}: {error.reason}", key, error.reason) from error
        return Part(None if box == whole(meta.shape) else stored, shape, elements, None)

    def _bad(self, what: str, key: str, reason: str) -> InputError:
        return corrupt_file(self.prefix, what, key=key, reason=reason)


def _elements(record: SourceSpan, dtype: DType, count: int) -> SourceSpan:
    """Returns the `count` elements in `record`, a SavedTensorSlices, in the form of a TensorBundle; decodes if needed.

    Raises:
        WireError: it is not such a message, or has other elements.
    """
    window = Window(record.source, record.start, record.end)
    slot = _find(window, 0, len(window), _DATA)
    tensor = _find(window, slot.value, slot.end, _TENSOR)
    if dtype == STRING:
        found = fields(window, tensor.value, tensor.end)
        strings = [window[f.value : f.end] for f in found if f.number == ELEMENT_FIELDS[STRING.field]]
        if len(strings) != count:
            raise WireError(f"{len(strings):,} strings instead of the expected {count:,}", record.start)
        data = encode_strings(strings)[0]
    else:
        chunks = numbers_in(SourceSpan(record.source, record.start + tensor.value, record.start + tensor.end), dtype)
        size = size_of(chunks)
        if size != count * dtype.size:
            raise WireError(f"{size:,} bytes instead of the expected {count * dtype.size:,}", record.start)
        if len(chunks) == 1 and isinstance(chunks[0], SourceSpan):
            return chunks[0]
        data = read_chunks(chunks)
    return SourceSpan(BytesSource(data, record.source.name), 0, len(data))


def _find(window: Buffer, start: int, end: int, number: int) -> Field:
    for field in fields(window, start, end):
        if field.number == number and field.wire_type == LEN:
            return field
    raise WireError("no tensor found", start)
