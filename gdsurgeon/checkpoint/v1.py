"""Checkpoints of TensorFlow before 1.0 (V1): tables in which the tensors stand as protocol buffers.

Source: tensorflow/core/util/saved_tensor_slice.proto, tensorflow/core/util/tensor_slice_writer.cc.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from gdsurgeon.checkpoint.bundle import dims, encode_key
from gdsurgeon.checkpoint.slices import Slice, extents, from_proto, sizes, slice_key, spell, whole
from gdsurgeon.checkpoint.stored import Checkpoint, Part, StoredTensor
from gdsurgeon.checkpoint.strings import encode_strings
from gdsurgeon.checkpoint.table import Table
from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.ops.dtypes import DTYPES, ELEMENT_FIELDS, MOST_DIMS, STRING, DType, dtype_name
from gdsurgeon.ops.elements import numbers_in
from gdsurgeon.wire.fields import LEN, Buffer, Field, WireError, fields
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.protos import SavedTensorSlices
from gdsurgeon.wire.source import BytesSource, Source, Window, corrupt_file, open_source
from gdsurgeon.wire.write import SourceSpan, read_chunks

_DATA, _TENSOR = 2, 3
"""Fields: the SavedSlice of a SavedTensorSlices, and the TensorProto of that."""
_MOST_NAMED = 128
"""Bytes of keys of slices for each byte of a file: each key holds the name of the tensor."""


class _Meta(NamedTuple):
    """The description of a tensor in the file."""

    dtype: int
    shape: tuple[int, ...]
    slices: tuple[Slice, ...]


class V1Checkpoint(Checkpoint):
    """A V1 checkpoint.

    Attributes:
        tables: one for each file.

    Args:
        prefix: the name of the checkpoint.
        paths: its files.

    Raises:
        InputError: a file is no table, or says nothing of tensors.
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
            raise self.bad(f"{quoted(key)} has {dtype_name(meta.dtype)}, which is unknown", key, "dtype")
        for part in meta.slices:
            if len(part) != len(meta.shape):
                raise self.bad(f"a slice of {quoted(key)} does not fit the shape {list(meta.shape)}", key, "slice")
        return _V1Tensor(self, key, dtype, meta)

    def sources(self) -> Iterable[Source]:
        return self._sources

    def close(self) -> None:
        for source in self._sources:
            source.close()

    def _read_metas(self) -> dict[str, _Meta]:
        """What the files say of their tensors: each has slices of its own."""
        stated: dict[str, tuple[int, tuple[int, ...]]] = {}
        slices: dict[str, list[Slice]] = {}
        for table, source in zip(self.tables, self._sources, strict=True):
            first = next(table.located(), None)
            if first is None or first.key:
                line = f"{printable(source.name)} is not a checkpoint: it does not list any tensors"
                raise InputError(line, code="wrong-format", facts={"file": source.name})
            span = first.value
            try:
                saved = SavedTensorSlices.FromString(span.source.read(span.start, span.end - span.start))
            except decode_error() as error:
                raise corrupt_file(source.name, "its list of tensors cannot be parsed", reason="message") from error
            spare = _MOST_NAMED * source.size
            for tensor in saved.meta.tensor:
                name, spare = tensor.name, spare - len(tensor.name) * len(tensor.slice)
                if spare < 0:
                    raise self.bad(f"{quoted(name)} has too many slices", name, "slices")
                if len(tensor.shape.dim) > MOST_DIMS:
                    raise self.bad(
                        f"{quoted(name)} has {len(tensor.shape.dim):,} dimensions, more than are supported",
                        name,
                        "dimensions",
                    )
                stated[name] = (tensor.type, dims(tensor.shape))
                slices.setdefault(name, []).extend(map(from_proto, tensor.slice))
        return {name: _Meta(*stated[name], tuple(slices[name])) for name in stated}

    @cached_property
    def records(self) -> dict[bytes, SourceSpan]:
        """Where the slices are, by their keys.

        Raises:
            InputError: a block is broken.
        """
        return {record.key: record.value for table in self.tables for record in table.located()}

    def where(self, key: str) -> list[SourceSpan]:
        """Where the slices of the tensor KEY are. Raises InputError where a block is broken."""
        wanted = (slice_key(encode_key(key), part) for part in self._metas[key].slices)
        return [self.records[name] for name in wanted if name in self.records]

    def part(self, key: str, dtype: DType, meta: _Meta, part: Slice) -> Part:
        """What is stored of the tensor KEY as the slice PART.

        Raises:
            InputError: it is not there, or not what it should be.
        """
        box = extents(part, meta.shape)
        shape, name = sizes(box), f"the slice {spell(part)} of {quoted(key)}"
        span = self.records.get(slice_key(encode_key(key), part))
        if span is None:
            raise self.bad(f"{name} is missing", key, "no entry")
        try:
            elements = _elements(span, dtype, math.prod(shape))
        except WireError as error:
            raise self.bad(f"{name}: {error.reason}", key, error.reason) from error
        return Part(None if box == whole(meta.shape) else part, shape, elements, None)

    def bad(self, what: str, key: str, reason: str) -> InputError:
        """The error that WHAT is wrong with the tensor KEY, in short REASON."""
        return corrupt_file(self.prefix, what, key=key, reason=reason)


class _V1Tensor(StoredTensor):
    def __init__(self, checkpoint: V1Checkpoint, key: str, dtype: DType, meta: _Meta) -> None:
        everything = len(meta.slices) == 1 and extents(meta.slices[0], meta.shape) == whole(meta.shape)
        super().__init__(key, dtype, meta.shape, () if everything else meta.slices)
        self._checkpoint = checkpoint
        self._meta = meta

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return tuple(self._checkpoint.part(self.key, self.dtype, self._meta, part) for part in self._meta.slices)


def _elements(record: SourceSpan, dtype: DType, count: int) -> SourceSpan:
    """Returns the `count` elements in `record`, a SavedTensorSlices, in the form of a TensorBundle; decodes if needed.

    Raises:
        WireError: it is no such message, or has other elements.
    """
    window = Window(record.source, record.start, record.end)
    slot = _find(window, 0, len(window), _DATA)
    tensor = _find(window, slot.value, slot.end, _TENSOR)
    if dtype == STRING:
        found = fields(window, tensor.value, tensor.end)
        strings = [window[f.value : f.end] for f in found if f.number == ELEMENT_FIELDS[STRING.field]]
        if len(strings) != count:
            raise WireError(f"{len(strings):,} strings instead of the expected {count:,}", record.start)
        return _decoded(encode_strings(strings)[0], record.source)
    chunks = numbers_in(SourceSpan(record.source, record.start + tensor.value, record.start + tensor.end), dtype)
    span = chunks[0] if len(chunks) == 1 else read_chunks(chunks)
    if isinstance(span, bytes):
        span = _decoded(span, record.source)
    if span.end - span.start != count * dtype.size:
        raise WireError(f"{span.end - span.start:,} bytes instead of the expected {count * dtype.size:,}", record.start)
    return span


def _find(window: Buffer, start: int, end: int, number: int) -> Field:
    for field in fields(window, start, end):
        if field.number == number and field.wire_type == LEN:
            return field
    raise WireError("no tensor found", start)


def _decoded(data: bytes, source: Source) -> SourceSpan:
    return SourceSpan(BytesSource(data, source.name), 0, len(data))
