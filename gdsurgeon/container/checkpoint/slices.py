"""Slices of tensors: how TensorFlow spells, stores and sorts them, and how tensors are joined from them."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdsurgeon.errors import InputError, quoted
from gdsurgeon.wire.protos import TensorSliceProto
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.write import Chunk, SourceSpan, read_chunks

Slice = tuple[tuple[int, "int | None"], ...]
"""The start and the length in each dimension; None: the whole dimension."""
Extents = tuple[tuple[int, int], ...]
"""The start and the length of a part of a tensor in each dimension."""
MOST_RUNS = 4096
"""The maximum number of listed spans; a tensor with more of them is read run by run, on demand."""
MOST_CELLS = 1 << 18
"""The maximum number of cells of all pieces, in the grid of the edges of the pieces."""


def parse_slice_spec(text: str) -> tuple[tuple[int, ...], Slice | None]:
    """Parses a slice as graphs name it (an element of RestoreV2's `shape_and_slices`).

    ``4 6 0,2:0,6`` is the first two rows of a tensor of shape [4, 6], and so is ``4 6 0,2:-``.

    Returns:
        The shape of the whole tensor, and the slice; None if the slice is the whole tensor. For the empty text, which
        has no shape: ``()`` and None.

    Raises:
        InputError: `text` is not a shape with a slice.
    """
    if not text:
        return (), None
    *dims, last = text.split(" ")
    try:
        shape = tuple(int(dim) for dim in dims)
        part = tuple(_parse_extent(extent) for extent in last.split(":")) if last else ()
        is_fit = len(shape) == len(part) and all(
            start >= 0 and (length is None or (length >= 0 and start + length <= dim))
            for (start, length), dim in zip(part, shape, strict=True)
        )
    except ValueError:
        is_fit = False
    if not is_fit:
        raise InputError(f"{quoted(text)} is not a shape with a slice, such as '4 6 0,2:0,6'")
    return shape, None if extents(part, shape) == whole(shape) else part


def _parse_extent(text: str) -> tuple[int, int | None]:
    if text == "-":
        return 0, None
    start, length = text.split(",")
    return int(start), int(length)


def spell(part: Slice) -> str:
    """Returns a slice in the spelling of graphs: ``0,2:-``."""
    return ":".join("-" if length is None else f"{start},{length}" for start, length in part)


def whole(shape: Sequence[int]) -> Extents:
    """Returns the extents of a whole tensor of the given `shape`."""
    return tuple((0, dim) for dim in shape)


def extents(part: Slice | None, shape: Sequence[int]) -> Extents:
    """Returns the extents of `part` (None: the whole tensor) in a tensor of the given `shape`."""
    if part is None:
        return whole(shape)
    return tuple(
        (start, dim - start if length is None else length) for (start, length), dim in zip(part, shape, strict=True)
    )


def sizes(part: Extents) -> tuple[int, ...]:
    """Returns the shape of a part."""
    return tuple(length for _, length in part)


def from_proto(proto: TensorSliceProto) -> Slice:
    """Returns the slice in a TensorSliceProto."""
    return tuple((extent.start, extent.length if extent.HasField("length") else None) for extent in proto.extent)


def into_proto(part: Slice, proto: TensorSliceProto) -> None:
    """Stores `part` in an empty message."""
    for start, length in part:
        extent = proto.extent.add(start=start)
        if length is not None:
            extent.length = length


def slice_key(key: bytes, part: Slice) -> bytes:
    """Returns the key under which a slice of `key` is stored, in an encoding that keeps the order of numbers and text.

    Source: tensorflow/core/util/saved_tensor_slice_util.cc (EncodeTensorNameSlice) and
    tensorflow/core/lib/strings/ordered_code.cc.
    """
    # In the text, byte 0 is escaped as 0 255 and byte 255 as 255 0, because 0 1 marks its end.
    text = b"".join({0: b"\0\xff", 255: b"\xff\0"}.get(byte, bytes((byte,))) for byte in key)
    count = len(part).to_bytes((len(part).bit_length() + 7) // 8, "big")
    out = b"\0" + text + b"\0\1" + bytes((len(count),)) + count
    for start, length in part:
        out += _ordered_number(start) + _ordered_number(-1 if length is None else length)
    return out


def is_slice_key(key: bytes) -> bool:
    """Returns whether `key` is the key of a slice: such a key begins with the number 0 in the ordered encoding."""
    return key[:1] == b"\0"


def _ordered_number(number: int) -> bytes:
    """Returns a signed number in n bytes: n ones (zeros if negative), then the sign and 7 n - 1 bits."""
    magnitude = number if number >= 0 else ~number
    count = magnitude.bit_length() // 7 + 1
    value = number & (1 << 8 * count) - 1
    ones = (1 << 8 * count) - (1 << 7 * count)
    return (value ^ ones).to_bytes(count, "big")


# -- joining -----------------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """A stored box of a tensor: its place in the tensor, and its bytes, row by row."""

    extents: Extents
    span: SourceSpan


def stretched(pieces: Sequence[Piece], target: Extents, size: int) -> list[Chunk]:
    """Returns the bytes of the box `target` of a tensor in order.

    Args:
        pieces: the stored boxes.
        target: the requested box.
        size: bytes of an element.

    Raises:
        LookupError: no piece has some of it.
        OverflowError: the pieces have more than `MOST_CELLS`.
    """
    runs = _Runs(pieces, target, size)
    if runs.count <= MOST_RUNS:
        return list(runs.spans(0, runs.size))
    return [SourceSpan(runs, 0, runs.size)]


class _Runs(Source):
    """The runs of bytes that `target` consists of, as a source; each run lies within one piece.

    After the last dimension in which a piece does not have the whole extent of the target, both are equal: a run ends
    where the target or the piece ends in that dimension.
    """

    def __init__(self, pieces: Sequence[Piece], target: Extents, size: int) -> None:
        self._pieces = [piece for piece in pieces if _overlap(piece.extents, target)]
        self._target = target
        lengths = [length for _, length in target]
        differing = [axis for axis in range(len(target)) if any(p.extents[axis] != target[axis] for p in self._pieces)]
        self._axis = max(differing, default=-1)
        self._row = size * math.prod(lengths[max(self._axis, 0) :])  # bytes of a stretch along the axis
        self.size = size * math.prod(lengths)
        self.name = self._pieces[0].span.source.name if self._pieces else ""
        self._edges = [self._edges_of(axis) for axis in range(len(target))]
        ranges = [[self._cells_of(piece, axis) for axis in range(len(target))] for piece in self._pieces]
        if sum(math.prod(map(len, axes)) for axes in ranges) > MOST_CELLS:
            raise OverflowError
        self._cells = {
            cell: piece for piece, axes in zip(self._pieces, ranges, strict=True) for cell in itertools.product(*axes)
        }
        """The cells by their numbers along each axis, with the piece that contains them."""
        if self.size and len(self._cells) < math.prod(len(edges) - 1 for edges in self._edges):
            raise LookupError(target)  # the pieces do not cover it
        self.count = math.prod(lengths[: max(self._axis, 0)]) * len(self._pieces)

    def _edges_of(self, axis: int) -> list[int]:
        """Returns the sorted positions along `axis` of the target at which a piece begins or ends."""
        start, length = self._target[axis]
        edges = {start, start + length}
        edges.update(edge for p in self._pieces for edge in (p.extents[axis][0], sum(p.extents[axis])))
        return sorted(edge for edge in edges if start <= edge <= start + length)

    def _cells_of(self, piece: Piece, axis: int) -> range:
        """Returns the numbers of the cells that `piece` covers along `axis`."""
        edges, (start, length) = self._edges[axis], piece.extents[axis]
        return range(bisect_left(edges, start), min(bisect_left(edges, start + length), len(edges) - 1))

    def spans(self, start: int, end: int) -> Iterator[SourceSpan]:
        """Yields the spans of the bytes from `start` to `end` of the target."""
        while start < end:
            if self._axis < 0:
                span = self._pieces[0].span
                yield span._replace(start=span.start + start, end=span.start + end)
                return
            span = self._run(start)
            stop = min(span.end, span.start + end - start)
            yield span._replace(end=stop)
            start += stop - span.start

    def _run(self, offset: int) -> SourceSpan:
        """Returns the longest run from `offset` of the target that is contiguous in a piece."""
        axis = self._axis
        row, within = divmod(offset, self._row)
        coordinates = []
        for start, length in reversed(self._target[:axis]):
            row, at = divmod(row, length)
            coordinates.append(start + at)
        begin, length = self._target[axis]
        inner = self._row // length
        at, rest = divmod(within, inner)
        coordinates = [*reversed(coordinates), begin + at]
        corner = (*coordinates, *(start for start, _ in self._target[axis + 1 :]))
        piece = self._cells[tuple(bisect_right(*pair) - 1 for pair in zip(self._edges, corner, strict=True))]
        position = 0
        for coordinate, (start, extent) in zip(coordinates, piece.extents, strict=False):
            position = position * extent + coordinate - start
        last = min(begin + length, sum(piece.extents[axis]))
        first = piece.span.start + position * inner + rest
        return SourceSpan(piece.span.source, first, first + (last - begin - at) * inner - rest)

    def read(self, offset: int, size: int) -> bytes:
        return read_chunks(self.spans(offset, min(offset + size, self.size)))

    def check_unchanged(self) -> None:
        for piece in self._pieces:
            piece.span.source.check_unchanged()


def _overlap(one: Extents, other: Extents) -> bool:
    return all(max(a, b) < min(a + m, b + n) for (a, m), (b, n) in zip(one, other, strict=True))
