"""The tensors of a checkpoint by key, each in one part or in slices, as spans of files."""

from __future__ import annotations

import math
import os
import struct
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from gdsurgeon.container.checkpoint.slices import Piece, Slice, extents, sizes, stretched
from gdsurgeon.container.checkpoint.table import extend, mask
from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.ops.dtypes import STRING, DType
from gdsurgeon.text import counted, near_miss
from gdsurgeon.values import Closing
from gdsurgeon.wire.fields import WireError, encode_varint, read_varint
from gdsurgeon.wire.protos import TrackableObjectGraph, decode_error
from gdsurgeon.wire.source import BytesSource, Source, changed, corrupt_file
from gdsurgeon.wire.write import Chunk, SourceSpan, read_chunks

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The key of the object graph in the checkpoints of `tf.train.Checkpoint`: a string with a TrackableObjectGraph.

It lists the objects, and the keys under which their values are stored.
"""
_VALUE = "VARIABLE_VALUE"
"""The name of the attribute that is the value of a variable."""


# -- strings and variants ----------------------------------------------------------------------------------------


def encode_strings(strings: Sequence[bytes]) -> tuple[bytes, int]:
    """Returns `strings` as a TensorBundle stores them, and their masked checksum.

    The lengths are stored first, then their checksum, then all of the bytes.
    """
    head, crc = b"".join(encode_varint(len(string)) for string in strings), _crc_of_lengths(list(map(len, strings)))
    middle, body = struct.pack("<I", mask(crc)), b"".join(strings)
    return head + middle + body, mask(extend(extend(crc, middle), body))


def decode_strings(data: bytes, count: int) -> tuple[list[bytes], int]:
    """Returns the `count` strings in `data`, and their masked checksum.

    Raises:
        WireError: the number of strings differs from the expected one, or the checksum of their lengths is wrong.
    """
    at, lengths = 0, []
    for _ in range(count):
        length, at = read_varint(data, at, len(data))
        lengths.append(length)
    crc, middle = _crc_of_lengths(lengths), data[at : at + 4]
    at += 4
    if at + sum(lengths) != len(data):
        raise WireError("the size of the strings differs from the size of their tensor", at)
    if middle != struct.pack("<I", mask(crc)):
        raise WireError("the checksum of the string lengths is wrong", at)
    masked = mask(extend(extend(crc, middle), data[at:]))
    strings = []
    for length in lengths:
        strings.append(data[at : at + length])
        at += length
    return strings, masked


def _crc_of_lengths(lengths: Sequence[int]) -> int:
    """Returns the checksum of lengths, each encoded in 4 bytes, or in 8 if it does not fit."""
    crc = 0
    for length in lengths:
        crc = extend(crc, length.to_bytes(4 if length < 1 << 32 else 8, "little"))
    return crc


def checksum_of_variants(data: bytes, count: int) -> int:
    """Returns the masked checksum of `count` variants: each is its length, that many bytes, and the checksum so far.

    Raises:
        WireError: the number of variants differs from the expected one, or a checksum is wrong.
    """
    at = crc = 0
    for _ in range(count):
        length, at = read_varint(data, at, len(data))
        end = at + length
        crc = extend(extend(crc, struct.pack("<Q", length)), data[at:end])
        at = end + 4
        if data[end:at] != struct.pack("<I", mask(crc)):
            raise WireError("the checksum of a variant is wrong", end)
        crc = extend(crc, data[end:at])
    if at != len(data):
        raise WireError("the size of the variants differs from the size of their tensor", at)
    return mask(crc)


# -- tensors -----------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A part of a tensor that is stored in one piece.

    Attributes:
        slice: which part of the tensor it is; None: all of it.
        shape: the shape of the part.
        span: its bytes as a TensorBundle stores them: little-endian, row by row; strings follow their lengths.
        crc: the masked CRC32C of a TensorBundle's index; None in a V1 checkpoint, which has no checksums of tensors.
    """

    slice: Slice | None
    shape: tuple[int, ...]
    span: SourceSpan
    crc: int | None

    def data(self) -> bytes:
        """Returns the bytes of the span."""
        return read_chunks([self.span])


class Stretch(NamedTuple):
    """A tensor, or a slice of one, joined from the stored parts.

    Attributes:
        dtype: of its elements.
        shape: its shape.
        chunks: its bytes in order, as spans of the files.
    """

    dtype: DType
    shape: tuple[int, ...]
    chunks: list[Chunk]

    def data(self) -> bytes:
        """Its bytes."""
        return read_chunks(self.chunks)


class StoredTensor:
    """A tensor of a checkpoint, as described by the index; its values are read only on demand.

    Args:
        key: its name in the checkpoint; '' if it is new.
        dtype: of its elements.
        shape: the shape of the whole tensor.
        slices: the stored slices; empty if it is stored in one part.
        read: returns the part for a slice; for None, the whole tensor.
    """

    def __init__(
        self,
        key: str,
        dtype: DType,
        shape: tuple[int, ...],
        slices: tuple[Slice, ...],
        read: Callable[[Slice | None], Part],
    ) -> None:
        self.key, self.dtype, self.shape, self.slices, self._read = key, dtype, shape, slices, read

    @property
    def is_new(self) -> bool:
        """Whether it is in no checkpoint yet; see `new_tensor`."""
        return not self.key

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The stored parts: one without a slice, or one for each of `slices`.

        Raises:
            InputError: a part is not in the index, or its file is missing or cut short.
        """
        return tuple(map(self._read, self.slices or (None,)))

    def strings(self) -> list[bytes]:
        """Returns the elements of a string tensor that is not stored in slices.

        Raises:
            InputError: the dtype is different, or the strings do not match their checksum.
        """
        if self.dtype != STRING or self.slices:
            line = f"{quoted(self.key)} is not a tensor of strings stored in one part"
            raise InputError(line, code="dtype-mismatch", key=self.key, dtype=self.dtype.name)
        part = self.parts[0]
        try:
            return decode_strings(part.data(), math.prod(part.shape))[0]
        except WireError as error:
            raise corrupt_file(part.span.source.name, error.reason, reason=error.reason) from error


def new_tensor(dtype: DType, shape: tuple[int, ...], value: bytes | list[bytes]) -> StoredTensor:
    """Returns a tensor that is in no checkpoint yet.

    Args:
        dtype: of its elements.
        shape: its shape.
        value: its elements row by row, little-endian, or strings.
    """
    data, crc = encode_strings(value) if isinstance(value, list) else (value, None)
    span = SourceSpan(BytesSource(data), 0, len(data))
    return StoredTensor("", dtype, shape, (), lambda part: Part(part, shape, span, crc))


# -- the object graph -------------------------------------------------------------------------------------------


def variable_keys(data: bytes) -> dict[int, str]:
    """Returns the checkpoint keys of the variables in the object graph `data`, by object number.

    The objects of a SavedModel have the same numbers. Raises InputError: `data` is not an object graph.
    """
    return {
        number: attribute.checkpoint_key
        for number, node in enumerate(object_graph(data).nodes)
        for attribute in node.attributes
        if attribute.name == _VALUE
    }


def object_graph(data: bytes) -> TrackableObjectGraph:
    """Returns the object graph in `data`. Raises InputError: `data` is not an object graph."""
    try:
        return TrackableObjectGraph.FromString(data)
    except decode_error() as error:
        raise InputError(f"{quoted(OBJECT_GRAPH)} does not hold an object graph") from error


# -- checkpoints -------------------------------------------------------------------------------------------------


class Verified(NamedTuple):
    """The result: numbers of tensors, of bytes that were read, and of bytes that belong to no tensor; all faults."""

    tensors: int
    nbytes: int
    unused: int
    faults: tuple[str, ...]


class Checkpoint(Closing, ABC):
    """An opened checkpoint. Use as a context manager, or `close` it.

    Attributes:
        prefix: the name of the checkpoint; the names of its files begin with it.
        keys: the keys of its tensors, sorted.
        form: ``V2``, a TensorBundle, or ``V1``.
    """

    form: str
    prefix: str
    keys: Sequence[str]

    @abstractmethod
    def tensor(self, key: str) -> StoredTensor:
        """Returns the tensor with the key `key`.

        Raises:
            InputError: there is no such tensor, or its entry is corrupt.
        """

    @abstractmethod
    def verify(self, progress: Callable[[int], None] = lambda _nbytes: None) -> Verified:
        """Compares tensors, and their entries in the index, with their checksums.

        Bytes of a shard that belong to no tensor have no checksum: they are counted.

        Args:
            progress: called with the number of bytes that were read since the last call.
        """

    @abstractmethod
    def sources(self) -> Iterable[Source]:
        """Returns the open files."""

    def close(self) -> None:
        """Closes the files."""
        for source in self.sources():
            source.close()

    def check_unchanged(self) -> None:
        """Raises InputError if a file was changed or replaced since it was opened."""
        for source in self.sources():
            source.check_unchanged()
            fd = source.fileno()
            try:
                is_same = fd is None or os.path.samestat(os.fstat(fd), os.stat(source.name))
            except OSError:
                is_same = False
            if not is_same:
                raise changed(source.name, "was replaced")

    def stretch(self, key: str, part: Slice | None = None) -> Stretch:
        """Returns the tensor `key`, or a slice of it, joined from its stored parts.

        Raises:
            InputError: there is no such tensor or slice, or the stored slices do not cover all of it.
        """
        tensor = self.tensor(key)
        if part is not None and len(part) != len(tensor.shape):
            line = f"{quoted(key)} has {len(tensor.shape)} dimensions, but the slice has {len(part)}"
            raise InputError(line, code="shape-mismatch", key=key, shape=tensor.shape)
        target = extents(part, tensor.shape)
        edges = zip(target, tensor.shape, strict=True)
        if part is not None and any(min(start, length, dim - start - length) < 0 for (start, length), dim in edges):
            line = f"{quoted(key)} has the shape {list(tensor.shape)}; the slice is outside of it"
            raise InputError(line, code="shape-mismatch", key=key, shape=tensor.shape)
        if len(tensor.parts) == 1 and extents(tensor.parts[0].slice, tensor.shape) == target:
            return Stretch(tensor.dtype, sizes(target), [tensor.parts[0].span])
        if not tensor.dtype.size:
            line = f"{quoted(key)} is {tensor.dtype.name}; slices of this dtype cannot be joined"
            raise InputError(line, code="dtype-mismatch", key=key, dtype=tensor.dtype.name)
        pieces = [Piece(extents(p.slice, tensor.shape), p.span) for p in tensor.parts]
        try:
            chunks = stretched(pieces, target, tensor.dtype.size)
        except (LookupError, OverflowError) as error:
            is_missing = isinstance(error, LookupError)
            what = f"slices of {quoted(key)} that do not cover all of it"
            what = what if is_missing else f"too many overlapping slices of {quoted(key)}"
            code = "corrupt" if is_missing else "too-large"
            line = f"{printable(self.prefix)} has {what}"
            raise InputError(line, code=code, file=self.prefix, key=key) from None
        return Stretch(tensor.dtype, sizes(target), chunks)

    def no_such_key(self, key: str) -> InputError:
        """Returns the error that the tensor `key` does not exist."""
        count = counted(len(self.keys), "tensor")
        line = f"{printable(self.prefix)} has no tensor {quoted(key)} ({count}).{near_miss(key, self.keys)}"
        return InputError(line, code="no-such-tensor", file=self.prefix, key=key)

    def __contains__(self, key: str) -> bool:
        at = bisect_left(self.keys, key)
        return at < len(self.keys) and self.keys[at] == key
