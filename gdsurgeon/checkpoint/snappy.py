"""Snappy, the compression that LevelDB's tables may have: read only."""

from __future__ import annotations

from gdsurgeon.wire.fields import WireError, read_varint

_LITERAL = 0
_LONGEST_INLINE = 60
"""Bytes of a literal whose length stands in its tag; longer ones have it in the bytes behind."""


def uncompress(data: bytes) -> bytes:
    """DATA uncompressed: literals, and copies of what came before.

    Format: https://github.com/google/snappy/blob/main/format_description.txt

    Raises:
        WireError: it is not what Snappy writes.
    """
    size, at = read_varint(data, 0, len(data))
    out = bytearray()
    try:
        while at < len(data):
            tag = data[at]
            if tag & 3 == _LITERAL:
                start, at = _literal(data, at)
                out += data[start:at]
                continue
            length, offset, at = _copy(data, at)
            if not 0 < offset <= len(out):
                raise WireError("a copy refers to bytes that do not exist", at)
            start = len(out) - offset
            seen = out[start : start + length]
            out += (seen * -(-length // len(seen)))[:length]  # a copy may overlap what it writes
    except IndexError:
        raise WireError("cut short", at) from None
    if len(out) != size:
        raise WireError(f"{len(out)} bytes instead of the expected {size}", at)
    return bytes(out)


def _literal(data: bytes, at: int) -> tuple[int, int]:
    """Where the literal with its tag at AT starts and ends."""
    length, start = (data[at] >> 2) + 1, at + 1
    if length > _LONGEST_INLINE:
        count = length - _LONGEST_INLINE
        length, start = int.from_bytes(data[start : start + count], "little") + 1, start + count
    if start + length > len(data):
        raise WireError("cut short", at)
    return start, start + length


def _copy(data: bytes, at: int) -> tuple[int, int, int]:
    """The length of the copy with its tag at AT, how far back it begins, and where the next tag is."""
    tag = data[at]
    if tag & 3 == 1:
        return (tag >> 2 & 7) + 4, tag >> 5 << 8 | data[at + 1], at + 2
    end = at + (3 if tag & 3 == 2 else 5)
    data[end - 1]  # must be there
    return (tag >> 2) + 1, int.from_bytes(data[at + 1 : end], "little"), end
