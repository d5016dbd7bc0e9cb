"""Tensors of strings as releases before 2.4 have them in memory: where each begins, then lengths and bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gdsurgeon.runtime.base import varint


def packed_strings(texts: Sequence[bytes]) -> bytes:
    """The memory of a tensor of TEXTS."""
    places, parts, at = [], [], 0
    for text in texts:
        part = varint(len(text)) + text
        places.append(at)
        parts.append(part)
        at += len(part)
    return struct.pack(f"={len(places)}Q", *places) + b"".join(parts)


def unpacked_strings(data: bytes, count: int) -> list[bytes]:
    """The COUNT strings of a tensor with the memory DATA."""
    out, begin = [], 8 * count
    for place in struct.unpack_from(f"={count}Q", data):
        at, length, shift = begin + place, 0, 0
        while data[at] & 128:
            length |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
        length |= data[at] << shift
        out.append(data[at + 1 : at + 1 + length])
    return out
