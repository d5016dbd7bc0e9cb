"""Writes pieces, fresh bytes and spans of sources, to a descriptor; spans are copied inside the kernel."""

from __future__ import annotations

import errno
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from gdsurgeon.wire.source import BytesSource, Source, SourceSlice, changed

BUFFER = 1 << 20
LONGEST_COPY = 64 << 20
"""Bytes copied by one call: between two calls, written bytes can already go to the disk."""
_NOT_HERE = {errno.EXDEV, errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.ENOTSOCK}


class SourceSpan(NamedTuple):
    """The bytes of `source` from `start` to `end`."""

    source: Source
    start: int
    end: int


Chunk = bytes | SourceSpan


def size_of(chunks: Iterable[Chunk]) -> int:
    """Returns the size of `chunks` in bytes."""
    return sum(len(c) if isinstance(c, bytes) else c.end - c.start for c in chunks)


def read_chunks(chunks: Iterable[Chunk]) -> bytes:
    """Returns the bytes of `chunks`, joined in memory."""
    return b"".join(c if isinstance(c, bytes) else c.source.read(c.start, c.end - c.start) for c in chunks)


def write_chunks(fd: int, chunks: Iterable[Chunk]) -> int:
    """Writes `chunks` to `fd` in order and returns the bytes written.

    Raises:
        OSError: from the descriptor written to.
        InputError: a source became shorter.
    """
    writer = _Writer(fd)
    for chunk in chunks:
        if isinstance(chunk, bytes):
            writer.add(chunk)
        elif chunk.end - chunk.start < 4096 or isinstance(chunk.source, BytesSource):
            writer.add_short(chunk)
        else:
            writer.copy(chunk)
    writer.flush()
    return writer.written


class _Writer:
    """Gathers small pieces, and copies long spans by the first way that the two descriptors allow."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.written = 0
        self._held = bytearray()
        self._ways: list[Callable[[int, int, int], int]] = []
        if hasattr(os, "copy_file_range"):
            self._ways.append(lambda source, at, size: os.copy_file_range(source, fd, min(size, LONGEST_COPY), at))
        if hasattr(os, "sendfile"):
            self._ways.append(lambda source, at, size: os.sendfile(fd, source, at, min(size, 1 << 30)))

    def add(self, data: bytes) -> None:
        self._held += data
        if len(self._held) >= BUFFER:
            self.flush()

    def add_short(self, span: SourceSpan) -> None:
        for offset in range(span.start, span.end, BUFFER):
            self.add(span.source.read(offset, min(BUFFER, span.end - offset)))

    def flush(self) -> None:
        view = memoryview(self._held)
        try:
            while view:
                count = os.write(self.fd, view)
                view = view[count:]
                self.written += count
        finally:
            view.release()
            self._held = bytearray()

    def copy(self, span: SourceSpan) -> None:
        self.flush()
        source = span.source.fileno()
        offset = span.start
        while offset < span.end and source is not None and self._ways:
            try:
                count = self._ways[0](source, offset, span.end - offset)
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                self._ways.pop(0)  # not between these two; nothing was copied
                continue
            if count == 0:
                # No error and no bytes: the file ends here, unless the way does not work on its file system.
                if span.source.read(offset, 1):
                    self._ways.pop(0)
                    continue
                raise changed(span.source.name, "was cut short")
            offset += count
            self.written += count
        if offset < span.end:
            self.add_short(span._replace(start=offset))
            self.flush()


def spells(chunks: Sequence[Chunk], source: Source) -> bool:
    """Returns whether `chunks` are the bytes of `source`. Spans are compared by their places only, not read."""
    if size_of(chunks) != source.size:
        return False
    at = 0
    for chunk in resolved(chunks):
        size = size_of((chunk,))
        if isinstance(chunk, bytes):
            is_same = source.read(at, size) == chunk
        else:
            is_same = [chunk] == list(resolved([SourceSpan(source, at, at + size)]))
        if not is_same:
            return False
        at += size
    return True


def resolved(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yields `chunks` with spans of a `ChunkSource` replaced by the chunks of that source."""
    for chunk in chunks:
        if isinstance(chunk, bytes):
            yield chunk
        elif isinstance(chunk.source, SourceSlice):
            start = chunk.source.start
            yield from resolved([SourceSpan(chunk.source.source, start + chunk.start, start + chunk.end)])
        elif isinstance(chunk.source, ChunkSource):
            yield from resolved(chunk.source.spelt(chunk.start, chunk.end))
        else:
            yield chunk


class Places:
    """The places of the bytes of other sources in a source that consists of them.

    Args:
        source: the source; a source that does not consist of others has its own bytes.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    @cached_property
    def _held(self) -> dict[Source, list[tuple[int, int, int]]]:
        """The parts of each other source: start and end there, and the place in this source."""
        out: dict[Source, list[tuple[int, int, int]]] = {}
        at = 0
        for chunk in resolved([SourceSpan(self._source, 0, self._source.size)]):
            if not isinstance(chunk, bytes):
                out.setdefault(chunk.source, []).append((chunk.start, chunk.end, at))
            at += size_of((chunk,))
        return {source: list(_apart(stretches)) for source, stretches in out.items()}

    def of(self, span: SourceSpan, position: int) -> Iterator[tuple[int, int, int]]:
        """Yields the parts of the source that are bytes of `span`.

        Each part is its start and end in the source, and its place if `span` is at `position`.
        """
        if span.source is self._source:
            yield span.start, span.end, position
            return
        for chunk in resolved([span]):
            if not isinstance(chunk, bytes):
                yield from self._within(chunk, position)
            position += size_of((chunk,))

    def _within(self, span: SourceSpan, position: int) -> Iterator[tuple[int, int, int]]:
        held = self._held.get(span.source, [])
        i = max(bisect_right(held, span.start, key=itemgetter(0)) - 1, 0)
        while i < len(held) and held[i][0] < span.end:
            start, end, at = held[i]
            first, last = max(start, span.start), min(end, span.end)
            if first < last:
                yield at + first - start, at + last - start, position + first - span.start
            i += 1


def _apart(stretches: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yields sorted parts without overlaps: of overlapping parts, the first one has the common bytes."""
    reached = 0
    for start, end, at in sorted(stretches):
        if end > reached:
            first = max(start, reached)
            yield first, end, at + first - start
            reached = end


class ChunkSource(Source):
    """Chunks as a source: the content of a file before it is written.

    Args:
        chunks: bytes, and spans of sources.
        name: how messages call it.
    """

    def __init__(self, chunks: Iterable[Chunk], name: str) -> None:
        self.name = name
        self.pieces: list[Chunk] = []
        """The chunks, neighbours joined: spans that follow each other in their source, and bytes up to some size."""
        held: list[bytes] = []
        count = 0
        for chunk in chunks:
            if isinstance(chunk, bytes):
                held.append(chunk)
                count += len(chunk)
                if count < BUFFER:
                    continue
            if held:
                self.pieces.append(b"".join(held))
                held, count = [], 0
            if not isinstance(chunk, bytes):
                self._add_span(chunk)
        if held:
            self.pieces.append(b"".join(held))
        sizes = (len(c) if isinstance(c, bytes) else c.end - c.start for c in self.pieces)
        self.starts = array("Q", accumulate(sizes, initial=0))
        """The offset of each piece; and of the end."""
        self.size = self.starts[-1]

    def _add_span(self, span: SourceSpan) -> None:
        last = self.pieces[-1] if self.pieces else b""
        if isinstance(last, SourceSpan) and last.source is span.source and last.end == span.start:
            self.pieces[-1] = last._replace(end=span.end)
        elif span.end > span.start:
            self.pieces.append(span)

    def read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self.size)
        at = bisect_right(self.starts, offset) - 1
        out: list[bytes] = []
        while offset < end:
            piece, start = self.pieces[at], self.starts[at]
            stop = min(end, self.starts[at + 1])
            if isinstance(piece, bytes):
                out.append(piece[offset - start : stop - start])
            else:
                out.append(piece.source.read(piece.start + offset - start, stop - offset))
            offset, at = stop, at + 1
        return out[0] if len(out) == 1 else b"".join(out)

    def spelt(self, start: int, end: int) -> Iterator[Chunk]:
        """Yields the chunks from offset `start` to offset `end`."""
        at = bisect_right(self.starts, start) - 1
        while start < end:
            piece, base = self.pieces[at], self.starts[at]
            stop = min(end, self.starts[at + 1])
            if isinstance(piece, bytes):
                yield piece[start - base : stop - base]
            else:
                yield piece._replace(start=piece.start + start - base, end=piece.start + stop - base)
            start, at = stop, at + 1

    def check_unchanged(self) -> None:
        for source in {id(p.source): p.source for p in self.pieces if isinstance(p, SourceSpan)}.values():
            source.check_unchanged()
