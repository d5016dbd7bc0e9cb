"""A box of a tensor put together from boxes that are stored, row by row, without holding any of it."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdsurgeon.checkpoint.slices import Extents
from gdsurgeon.wire.write import Chunk, SourceSpan

MOST_RUNS = 4096
"""The maximum number of listed spans; a tensor with more of them is read run by run, on demand."""
MOST_CELLS = 1 << 18
"""Cells that the pieces have, in the grid that their edges cut the target into."""


class Piece(NamedTuple):
    """A box of a tensor that is stored: where it lies in the tensor, and its bytes, row by row."""

    extents: Extents
    span: SourceSpan


def stretched(pieces: Sequence[Piece], target: Extents, size: int) -> list[Chunk]:
    """The bytes of the box TARGET in order.

    Args:
        pieces: boxes that are stored.
        target: the box that is wanted.
        size: bytes of an element.

    Raises:
        LookupError: no piece has some of it.
        OverflowError: the pieces have more than `MOST_CELLS`.
    """
    runs = _Runs(pieces, target, size)
    runs.check()
    if runs.count <= MOST_RUNS:
        return list(runs.spans(0, runs.nbytes))
    source = _Assembled(runs)
    return [SourceSpan(source, 0, source.size)]


class _Runs:
    """The runs of bytes that `target` consists of; each run lies within one piece.

    Behind the last dimension in which a piece does not have all that the target has, both are equal: a run ends where
    the target or the piece ends in that dimension.
    """

    def __init__(self, pieces: Sequence[Piece], target: Extents, size: int) -> None:
        self._pieces = [piece for piece in pieces if _overlap(piece.extents, target)]
        self._target = target
        lengths = [length for _, length in target]
        differing = [axis for axis in range(len(target)) if any(p.extents[axis] != target[axis] for p in self._pieces)]
        self._axis = max(differing, default=-1)
        self._row = size * math.prod(lengths[max(self._axis, 0) :])  # bytes of a stretch along the axis
        self.nbytes = size * math.prod(lengths)
        self.sources = [piece.span.source for piece in self._pieces]
        self._edges = list(self._grid())
        ranges = [list(self._ranges(piece)) for piece in self._pieces]
        if sum(math.prod(map(len, axes)) for axes in ranges) > MOST_CELLS:
            raise OverflowError
        self._cells = {
            cell: piece for piece, axes in zip(self._pieces, ranges, strict=True) for cell in itertools.product(*axes)
        }
        """The cells, by their numbers along each axis, with the piece that each is in."""
        self.count = math.prod(lengths[: max(self._axis, 0)]) * len(self._pieces)

    def check(self) -> None:
        """Raises LookupError where the pieces do not have all of the target."""
        if self.nbytes and len(self._cells) < math.prod(len(edges) - 1 for edges in self._edges):
            raise LookupError(self._target)

    def spans(self, start: int, end: int) -> Iterator[SourceSpan]:
        """The spans of the bytes from START to END of the target."""
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
        piece = self._at((*coordinates, *(start for start, _ in self._target[axis + 1 :])))
        position = 0
        for coordinate, (start, extent) in zip(coordinates, piece.extents, strict=False):
            position = position * extent + coordinate - start
        last = min(begin + length, sum(piece.extents[axis]))
        first = piece.span.start + position * inner + rest
        return SourceSpan(piece.span.source, first, first + (last - begin - at) * inner - rest)

    def _at(self, coordinates: Sequence[int]) -> Piece:
        cell = tuple(bisect_right(edges, at) - 1 for edges, at in zip(self._edges, coordinates, strict=True))
        return self._cells[cell]

    def _grid(self) -> Iterator[list[int]]:
        """For each axis where in the target a piece begins or ends."""
        for axis, (start, length) in enumerate(self._target):
            edges = {start, start + length}
            edges.update(edge for p in self._pieces for edge in (p.extents[axis][0], sum(p.extents[axis])))
            yield sorted(edge for edge in edges if start <= edge <= start + length)

    def _ranges(self, piece: Piece) -> Iterator[range]:
        """For each axis the numbers of the cells that PIECE has."""
        for edges, (start, length) in zip(self._edges, piece.extents, strict=True):
            yield range(bisect_left(edges, start), min(bisect_left(edges, start + length), len(edges) - 1))


def _overlap(one: Extents, other: Extents) -> bool:
    return all(max(a, b) < min(a + m, b + n) for (a, m), (b, n) in zip(one, other, strict=True))


class _Assembled:
    """Many short runs as a source: they are joined when they are read."""

    def __init__(self, runs: _Runs) -> None:
        self._runs = runs
        self.name = runs.sources[0].name
        self.size = runs.nbytes

    def read(self, offset: int, size: int) -> bytes:
        spans = self._runs.spans(offset, min(offset + size, self.size))
        return b"".join(span.source.read(span.start, span.end - span.start) for span in spans)

    def fileno(self) -> int | None:
        return None

    def check_unchanged(self) -> None:
        for source in self._runs.sources:
            source.check_unchanged()

    def close(self) -> None:
        """The files are closed by who opened them."""
