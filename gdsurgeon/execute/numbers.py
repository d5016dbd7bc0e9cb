"""Made-up numbers of every dtype, as bytes: random by a seed, positive, below 1 where they are floats."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable

from gdsurgeon.graph import dtypes

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
SCALARS: dict[int, Callable[[float], bytes]] = {
    1: lambda v: array("f", [v]).tobytes(), 2: lambda v: array("d", [v]).tobytes(),
    3: lambda v: array("i", [max(int(v), 3)]).tobytes(), 9: lambda v: array("q", [max(int(v), 3)]).tobytes(),
    10: lambda _: b"\0",
}  # fmt: skip


def numbers(dtype: int, count: int, bound: int, seed: int, *, wide: bool = False) -> bytes:
    """COUNT elements of DTYPE, little-endian: floats between 0 and 1, bytes of any value, small integers.

    WIDE: floats of either sign, up to 32 (of float32) or 2.
    """
    chance = random.Random(seed)
    if dtype in _FLOAT_BITS:
        size, mask, fixed = _WIDE_BITS.get(dtype, _FLOAT_BITS[dtype]) if wide else _FLOAT_BITS[dtype]
        parts = count * (2 if dtype in (8, 18) else 1)
        return _patterned(chance, parts, size, mask, fixed)
    if dtype in (dtypes.UINT8, 12) and not bound:
        return chance.randbytes(count)
    if dtype == dtypes.BOOL:
        return bytes(b & 1 for b in chance.randbytes(count))
    if dtype in INTEGERS:
        most = min(bound or 10, 100_000)
        return array(INTEGERS[dtype], [chance.randrange(most) for _ in range(count)]).tobytes()
    return bytes(b % (bound or 4) for b in chance.randbytes(count * dtypes.SIZES[dtype]))


def _patterned(chance: random.Random, count: int, size: int, mask: int, fixed: int) -> bytes:
    """COUNT words of SIZE bytes, random under MASK; by arithmetic on one long integer, which is fast."""
    if not count:
        return b""
    bits = int.from_bytes(chance.randbytes(count * size), "little")
    masks = int.from_bytes(mask.to_bytes(size, "little") * count, "little")
    fixes = int.from_bytes(fixed.to_bytes(size, "little") * count, "little")
    return (bits & masks | fixes).to_bytes(count * size, "little")
