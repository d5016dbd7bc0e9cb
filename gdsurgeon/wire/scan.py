"""Finds the records of a serialised GraphDef without reading its weights."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

from gdsurgeon.wire.fields import LEN, Field, WireError, read_field, read_varint
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.protos import NodeBodies
from gdsurgeon.wire.source import Source, Window

NODE, LIBRARY, VERSION, VERSIONS, DEBUG_INFO = 1, 2, 3, 4, 5
"""Field numbers of GraphDef."""

SMALLEST_CHUNK, LARGEST_CHUNK = 1 << 14, 1 << 20
"""Bytes read at a time: few after a large node (a second may follow), then more and more while nodes are small."""

LARGE = 1 << 16
"""A node record of more bytes than this is not read at once, but field by field."""


AT_ONCE = 1 << 16
"""The minimum size in bytes of a chunk that protobuf cuts into records; for less it is not worthwhile."""

_GUESSES = 1000


class Run:
    """Consecutive small node records that are in memory.

    Attributes:
        base: where `buf` begins in the source.
        buf: bytes of the source that begin with the records.
        sizes: bytes of each record, its tag and length included.
        size: bytes of all.
        cut: the NodeDefs, if they were already separated; else None.
    """

    __slots__ = ("_bounds", "base", "buf", "cut", "size", "sizes")

    def __init__(self, base: int, buf: bytes, sizes: list[int], cut: list[bytes] | None = None) -> None:
        self.base, self.buf, self.sizes, self.cut = base, buf, sizes, cut
        self.size = sum(sizes)
        self._bounds: list[int] = []

    @property
    def bounds(self) -> list[int]:
        """Where the records begin in `buf`, and the end of the last."""
        if not self._bounds:
            self._bounds = list(accumulate(self.sizes, initial=0))
        return self._bounds

    def bodies(self) -> list[bytes]:
        """Returns the NodeDefs, each without its tag and length."""
        if self.cut is not None:
            return self.cut
        buf = self.buf
        # The length has one byte, two bytes, or any other encoding.
        return [
            buf[a + (2 if buf[a + 1] < 128 else 3 if buf[a + 2] < 128 else read_varint(buf, a + 1, b)[1] - a) : b]
            for a, b in pairwise(self.bounds)
        ]


def scan(source: Source, *, cut: bool = False) -> Iterator[Run | Field]:
    """Yields the top-level fields of the GraphDef in `source`, in file order, in one pass.

    Small nodes are yielded in runs. With `cut`, long runs already hold the separate NodeDefs (a search does not need
    them). Large nodes and all other fields are yielded one by one, as offsets into the source.

    Raises:
        WireError: the bytes are not a sequence of protobuf fields; its offset is that of the invalid field.
    """
    offset, size, chunk = 0, source.size, SMALLEST_CHUNK
    while offset < size:
        buf = source.read(offset, min(chunk, size - offset))
        bodies, sizes = _cut_at_once(buf) if cut and len(buf) >= AT_ONCE else (None, [])
        stop = False
        if bodies is None:
            sizes, stop = _small_nodes(buf, at_end=offset + len(buf) == size)
        if sizes:
            run = Run(offset, buf, sizes, bodies)
            yield run
            offset += run.size
        if stop:
            try:
                found = read_field(Window(source, offset, size), 0, size - offset)
            except WireError as error:
                raise WireError(error.reason, offset + error.offset) from None
            field = Field(found.number, found.wire_type, offset, offset + found.value, offset + found.end)
            yield field
            offset = field.end
        chunk = SMALLEST_CHUNK if stop else min(2 * chunk, LARGEST_CHUNK)


def _small_nodes(buf: bytes, *, at_end: bool) -> tuple[list[int], bool]:
    """Returns the sizes of the complete small nodes at the beginning of `buf`, and whether a different field follows.

    If the chunk ends inside a node, the second result is False, and a new chunk must begin at that node. It is True if
    this chunk began at that node or is the last.
    """
    pos, size = 0, len(buf)
    sizes: list[int] = []
    append = sizes.append
    try:
        while pos < size:
            if buf[pos] != 10:
                return sizes, True
            length = buf[pos + 1]
            if length < 128:
                end = pos + 2 + length
            else:
                second = buf[pos + 2]
                if second < 128:
                    end = pos + 3 + (length & 127 | second << 7)
                else:
                    length, value = read_varint(buf, pos + 1, size)
                    end = value + length
            if end - pos > LARGE:
                return sizes, True
            if end > size:
                return sizes, at_end or pos == 0
            append(end - pos)
            pos = end
    except (IndexError, WireError):
        # A header cut by the chunk's end: begin a new chunk there, unless this chunk began there or was the last.
        return sizes, at_end or pos == 0
    return sizes, False


def _cut_at_once(buf: bytes) -> tuple[list[bytes] | None, list[int]]:
    """Returns the NodeDefs of the complete small nodes at the beginning of `buf`, and the record sizes; uses protobuf.

    Returns None if `buf` holds anything but nodes. The end of the last complete record is guessed; after a wrong guess
    protobuf cannot parse the bytes before it.
    """
    end = _likely_record(buf)
    try:
        cut = NodeBodies.FromString(buf[:end]).node[:]
    except decode_error():
        return None, []
    bodies = list(map(len, cut))
    if max(bodies, default=LARGE) > LARGE - 4:
        return None, []
    sizes = [n + (2 if n < 1 << 7 else 3 if n < 1 << 14 else 4) for n in bodies]
    # Other fields, and lengths that are not encoded in the fewest bytes, would need more space.
    return (cut, sizes) if sum(sizes) == end else (None, [])


def _likely_record(buf: bytes) -> int:
    """Returns the last offset that looks like a node record (tag, length, name, tag of an op); 0 if not found."""
    pos = len(buf)
    for _ in range(_GUESSES):
        pos = buf.rfind(b"\n", 0, pos)
        if pos < 0:
            break
        head = buf[pos : pos + 4]
        name = pos + (2 if head[1:2] < b"\x80" else 3)
        if buf[name : name + 1] == b"\n" and name + 1 < len(buf):
            op = name + 2 + buf[name + 1]
            if buf[op : op + 1] == b"\x12":
                return pos
    return 0


def is_node(field: Field) -> bool:
    """Returns whether a top-level `field` is a node record (a field 1 of another wire type is unknown data)."""
    return field.number == NODE and field.wire_type == LEN
