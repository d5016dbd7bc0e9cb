"""A checkpoint as what it holds: tensors by key, each in one part or in slices, as spans of files."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gdsurgeon.checkpoint.slices import Extents, Slice, extents, sizes, whole
from gdsurgeon.checkpoint.stretch import Piece, stretched
from gdsurgeon.checkpoint.strings import decode_strings
from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.ops.dtypes import STRING, DType
from gdsurgeon.text import near_miss
from gdsurgeon.values import Closing
from gdsurgeon.wire.fields import WireError
from gdsurgeon.wire.source import Source, changed, corrupt_file
from gdsurgeon.wire.write import Chunk, SourceSpan, read_chunks


class Part(NamedTuple):
    """What is stored of a tensor in one piece.

    Attributes:
        slice: which part of the tensor it is; None: all of it.
        shape: its own.
        span: its bytes as a TensorBundle stores them: little-endian, row by row; strings behind their lengths.
        crc: the masked CRC32C of a TensorBundle's index; None in a V1 checkpoint, which has none for each tensor.
    """

    slice: Slice | None
    shape: tuple[int, ...]
    span: SourceSpan
    crc: int | None

    def data(self) -> bytes:
        """The bytes of the span."""
        return self.span.source.read(self.span.start, self.span.end - self.span.start)

    def strings(self) -> list[bytes]:
        """The elements, where they are strings.

        Raises:
            InputError: they are not what their checksums say.
        """
        try:
            return decode_strings(self.data(), math.prod(self.shape))
        except WireError as error:
            raise corrupt_file(self.span.source.name, error.reason, reason=error.reason) from error


class Stretch(NamedTuple):
    """A tensor, or a part of one, put together from what is stored."""

    dtype: DType
    shape: tuple[int, ...]
    chunks: list[Chunk]
    """Its bytes in order: spans, to be copied from file to file."""

    def data(self) -> bytes:
        """Its bytes."""
        return read_chunks(self.chunks)


class StoredTensor(ABC):
    """A tensor of a checkpoint, as described by the index; its values are read only on demand.

    Attributes:
        key: its name in the checkpoint.
        dtype: of its elements.
        shape: of the whole, also where slices of it are stored.
        slices: those that are stored; none where it is stored in one part.
    """

    def __init__(self, key: str, dtype: DType, shape: tuple[int, ...], slices: tuple[Slice, ...]) -> None:
        self.key, self.dtype, self.shape, self.slices = key, dtype, shape, slices

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """What is stored of it: one part without a slice, or one for each of `slices`.

        Raises:
            InputError: a part is not in the index, or its file is missing or cut short.
        """

    def strings(self) -> list[bytes]:
        """The elements, where they are strings (which are not stored in slices).

        Raises:
            InputError: they are not what their checksums say.
        """
        if self.dtype != STRING or self.slices:
            line = f"{quoted(self.key)} is not a tensor of strings stored in one part"
            raise InputError(line, code="dtype-mismatch", facts={"key": self.key, "dtype": self.dtype.name})
        return self.parts[0].strings()


class Checkpoint(Closing, ABC):
    """An opened checkpoint. Use as a context manager, or `close` it.

    Attributes:
        prefix: the name of the checkpoint; the names of its files begin with it.
        keys: of its tensors, sorted.
        form: ``V2``, a TensorBundle, or ``V1``.
    """

    form: str
    prefix: str
    keys: Sequence[str]

    @abstractmethod
    def tensor(self, key: str) -> StoredTensor:
        """The tensor KEY.

        Raises:
            InputError: there is no such tensor, or its entry is corrupt.
        """

    @abstractmethod
    def close(self) -> None:
        """Lets go of the files."""

    @abstractmethod
    def sources(self) -> Iterable[Source]:
        """The files that are open."""

    def check_unchanged(self) -> None:
        """Raises InputError where a file was written to, or another has its name, since it was opened."""
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
        """The tensor KEY, or a slice of it, as one, however it is stored.

        Raises:
            InputError: there is no such tensor or slice, or the slices that are stored leave some of it out.
        """
        tensor = self.tensor(key)
        target: Extents = whole(tensor.shape)
        if part is not None:
            if len(part) != len(tensor.shape):
                line = f"{quoted(key)} has {len(tensor.shape)} dimensions, but the slice has {len(part)}"
                raise InputError(line, code="shape-mismatch", facts={"key": key, "shape": tensor.shape})
            target = extents(part, tensor.shape)
            if any(
                start < 0 or length < 0 or start + length > dim
                for (start, length), dim in zip(target, tensor.shape, strict=True)
            ):
                line = f"{quoted(key)} has the shape {list(tensor.shape)}; the slice is outside of it"
                raise InputError(line, code="shape-mismatch", facts={"key": key, "shape": tensor.shape})
        if len(tensor.parts) == 1 and extents(tensor.parts[0].slice, tensor.shape) == target:
            return Stretch(tensor.dtype, sizes(target), [tensor.parts[0].span])
        if not tensor.dtype.size:
            line = f"{quoted(key)} is {tensor.dtype.name}; slices of this dtype cannot be joined"
            raise InputError(line, code="dtype-mismatch", facts={"key": key, "dtype": tensor.dtype.name})
        pieces = [Piece(extents(p.slice, tensor.shape), p.span) for p in tensor.parts]
        try:
            chunks = stretched(pieces, target, tensor.dtype.size)
        except LookupError:
            line = f"{printable(self.prefix)} has slices of {quoted(key)} that do not cover all of it"
            raise InputError(line, code="corrupt", facts={"file": self.prefix, "key": key}) from None
        except OverflowError:
            line = f"{printable(self.prefix)} has too many overlapping slices of {quoted(key)}"
            raise InputError(line, code="too-large", facts={"file": self.prefix, "key": key}) from None
        return Stretch(tensor.dtype, sizes(target), chunks)

    def no_such_key(self, key: str) -> InputError:
        """Returns the error that there is no tensor `key`."""
        count = f"{len(self.keys):,} tensor{'s' if len(self.keys) != 1 else ''}"
        line = f"{printable(self.prefix)} has no tensor {quoted(key)} ({count}).{near_miss(key, self.keys)}"
        return InputError(line, code="no-such-tensor", facts={"file": self.prefix, "key": key})

    def __contains__(self, key: str) -> bool:
        """Whether it has a tensor KEY."""
        at = bisect_left(self.keys, key)
        return at < len(self.keys) and self.keys[at] == key
