"""Made-up numbers of every dtype, as bytes: random by a seed, positive, below 1 where they are floats."""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache

from gdsurgeon.ops import dtypes

# Floats by their bits: random ones under the mask, the rest fixed, so that all are positive and below 1.
_FLOAT_BITS = {
    1: (4, 0x017FFFFF, 0x3E000000), 2: (8, 0x000FFFFFFFFFFFFF, 0x3FE0000000000000), 19: (2, 0x03FF, 0x3800),
    14: (2, 0x007F, 0x3F00), 24: (1, 0x03, 0x38), 25: (1, 0x07, 0x30), 26: (1, 0x07, 0x30), 27: (1, 0x07, 0x30),
    28: (1, 0x03, 0x38), 8: (4, 0x017FFFFF, 0x3E000000), 18: (8, 0x000FFFFFFFFFFFFF, 0x3FE0000000000000),
}  # fmt: skip
# The same for the usual ones of either sign, some above 1: what is cut off below 0 or above 6 shows.
_WIDE_BITS = {
    1: (4, 0x81FFFFFF, 0x40000000), 2: (8, 0x801FFFFFFFFFFFFF, 0x3FE0000000000000), 19: (2, 0x87FF, 0x3800),
    14: (2, 0x80FF, 0x3F00),
}  # fmt: skip
INTEGERS = {3: "i", 5: "h", 6: "b", 9: "q", 17: "H", 22: "I", 23: "Q", 11: "b", 13: "i", 15: "h", 16: "H"}
_LARGEST = {"b": 127, "h": 32767, "H": 65535}
FLOATS = frozenset((1, 2, 14, 19))
"""The floats that single values can be written in: float32, float64, bfloat16 and float16."""


_MOST = 100_000
"""Indices stay below this, however many there are to choose from."""


def numbers(dtype: int, count: int, bound: int, seed: int, *, wide: bool = False) -> bytes:
    """COUNT elements of DTYPE, little-endian: floats between 0 and 1, bytes of any value, small integers.

    BOUND: where it is not 0, whole numbers below it, also as floats. WIDE: floats of either sign, up to 32 (of float32)
    or 2.
    """
    chance = random.Random(seed)
    if bound and dtype in FLOATS:
        return packed_floats(dtype, [chance.randrange(min(bound, _MOST)) for _ in range(count)])
    if dtype in _FLOAT_BITS:
        size, mask, fixed = _WIDE_BITS.get(dtype, _FLOAT_BITS[dtype]) if wide else _FLOAT_BITS[dtype]
        parts = count * (2 if dtype in (8, 18) else 1)
        return _patterned(chance, parts, size, mask, fixed)
    if dtype in (dtypes.UINT8, 12) and not bound:
        return chance.randbytes(count)
    if dtype == dtypes.BOOL:
        return bytes(b & 1 for b in chance.randbytes(count))
    if dtype in INTEGERS:
        code = INTEGERS[dtype]
        most = min(bound or 10, _LARGEST.get(code, _MOST), _MOST)
        return array(code, [chance.randrange(most) for _ in range(count)]).tobytes()
    return bytes(b % (bound or 4) for b in chance.randbytes(count * dtypes.SIZES[dtype]))


def _patterned(chance: random.Random, count: int, size: int, mask: int, fixed: int) -> bytes:
    """COUNT words of SIZE bytes, random under MASK; by arithmetic on one long integer, which is fast."""
    if not count:
        return b""
    bits = int.from_bytes(chance.randbytes(count * size), "little")
    masks = int.from_bytes(mask.to_bytes(size, "little") * count, "little")
    fixes = int.from_bytes(fixed.to_bytes(size, "little") * count, "little")
    return (bits & masks | fixes).to_bytes(count * size, "little")


def packed_floats(dtype: int, values: Iterable[float]) -> bytes:
    """VALUES as elements of DTYPE, which is one of `FLOATS`, little-endian."""
    if dtype == dtypes.FLOAT16:
        fitting = [min(max(value, -_LARGEST_HALF), _LARGEST_HALF) for value in values]
        return struct.pack(f"<{len(fitting)}e", *fitting)
    data = array("d" if dtype == dtypes.FLOAT64 else "f", values).tobytes()
    if dtype != _BFLOAT16:
        return data
    out = bytearray(len(data) // 2)
    out[0::2], out[1::2] = data[2::4], data[3::4]  # the upper half of a float32
    return bytes(out)


_BFLOAT16 = 14
_LARGEST_HALF = 65504.0
_STEPS = 65536


def scaled(dtype: int, count: int, highest: int, seed: int) -> bytes:
    """COUNT floats of DTYPE (one of `FLOATS`) from 0 to HIGHEST, all equally likely, little-endian."""
    words = array("H", random.Random(seed).randbytes(2 * count))
    table = _table(dtype, highest)
    return array(table.typecode, map(table.__getitem__, words)).tobytes()


@lru_cache(maxsize=8)
def _table(dtype: int, highest: int) -> array[float] | array[int]:
    """The floats from 0 to HIGHEST in equal steps; those of two bytes as the words that they are."""
    data = packed_floats(dtype, [step * highest / (_STEPS - 1) for step in range(_STEPS)])
    code = {dtypes.FLOAT32: "f", dtypes.FLOAT64: "d"}.get(dtype, "H")
    out: array[float] | array[int] = array(code)
    out.frombytes(data)
    return out


def listed(dtype: int, data: bytes) -> Sequence[float]:
    """The elements of DTYPE (float32, float64 or an integer) in DATA."""
    code = {dtypes.FLOAT32: "f", dtypes.FLOAT64: "d", dtypes.UINT8: "B", dtypes.BOOL: "B", **INTEGERS}[dtype]
    out: array[float] | array[int] = array(code)
    out.frombytes(data)
    return out
