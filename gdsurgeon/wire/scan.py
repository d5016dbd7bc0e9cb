"""Finds the records of a serialised GraphDef without reading its weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gdsurgeon.wire.fields import LEN, Field, WireError, read_field, read_varint
from gdsurgeon.wire.source import Source, Window

NODE, LIBRARY, VERSION, VERSIONS, DEBUG_INFO = 1, 2, 3, 4, 5
"""Field numbers of GraphDef."""

SMALLEST_CHUNK, LARGEST_CHUNK = 1 << 14, 1 << 20
"""Bytes read at a time: little after a large node (another may follow), ever more while nodes are small."""

LARGE = 1 << 16
"""A node record of more bytes than this is not read whole: it is walked field by field."""


class Run(NamedTuple):
    """Consecutive small node records that are in memory.

    `buf` holds the bytes of the source from `base` on; record i lies, tag included, from `bounds[i]` to
    `bounds[i + 1]` of it.
    """

    base: int
    buf: bytes
    bounds: list[int]


def scan(source: Source) -> Iterator[Run | Field]:
    """The top-level fields of the GraphDef in SOURCE, in file order, in one pass.

    Small nodes come in runs; large nodes and all other fields one by one, as offsets into the source.

    Raises:
        WireError: the bytes are not a sequence of protobuf fields; its offset is that of the field at fault.
    """
    offset, size, chunk = 0, source.size, SMALLEST_CHUNK
    while offset < size:
        buf = source.read(offset, min(chunk, size - offset))
        bounds, stop = _small_nodes(buf, at_end=offset + len(buf) == size)
        if len(bounds) > 1:
            yield Run(offset, buf, bounds)
        offset += bounds[-1]
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
    """The bounds of the whole small nodes that BUF begins with, and whether something else follows them.

    What follows may also be a node that the chunk cuts: then a new chunk begins there, and the answer is False.
    """
    pos, size = 0, len(buf)
    bounds = [0]
    append = bounds.append
    try:
        while pos < size:
            if buf[pos] != 10:
                return bounds, True
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
                return bounds, True
            if end > size:
                return bounds, at_end or pos == 0
            append(end)
            pos = end
    except (IndexError, WireError):
        # A header cut by the chunk's end: begin a new chunk there, unless this chunk began there or was the last.
        return bounds, at_end or pos == 0
    return bounds, False


def is_node(field: Field) -> bool:
    """Whether a top-level FIELD is a node record (a field 1 of another wire type is unknown data)."""
    return field.number == NODE and field.wire_type == LEN
