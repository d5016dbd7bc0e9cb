"""Strings as a TensorBundle stores them: the lengths, their checksum, then all of the bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gdsurgeon.checkpoint.crc32c import extend, mask
from gdsurgeon.wire.fields import WireError, encode_varint, read_varint

_AT_ONCE = 1 << 12
"""Lengths that are packed at a time."""


def encode_strings(strings: Sequence[bytes]) -> tuple[bytes, int]:
    """STRINGS as they are stored, and the masked checksum that goes into the index."""
    head, crc = b"".join(encode_varint(len(string)) for string in strings), _crc_of_lengths(list(map(len, strings)))
    middle, body = struct.pack("<I", mask(crc)), b"".join(strings)
    return head + middle + body, mask(extend(extend(crc, middle), body))


def decode_strings(data: bytes, count: int) -> list[bytes]:
    """The COUNT strings in DATA.

    Raises:
        WireError: the number of strings differs from the expected one, or the checksum of their lengths is wrong.
    """
    return _decoded(data, count)[0]


def checksum_of_strings(data: bytes, count: int) -> int:
    """The masked checksum of the COUNT strings in DATA. Raises WireError: see `decode_strings`."""
    return _decoded(data, count)[1]


def _decoded(data: bytes, count: int) -> tuple[list[bytes], int]:
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
    """The checksum of lengths, of 4 bytes each, or 8 if that is not enough."""
    crc = 0
    for at in range(0, len(lengths), _AT_ONCE):
        some = lengths[at : at + _AT_ONCE]
        sizes = "".join("I" if length < 1 << 32 else "Q" for length in some)
        crc = extend(crc, struct.pack(f"<{sizes}", *some))
    return crc


def checksum_of_variants(data: bytes, count: int) -> int:
    """The masked checksum of COUNT variants: each is its length, that many bytes, and the checksum so far.

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
