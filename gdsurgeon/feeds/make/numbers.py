"""Made-up numbers of every dtype, as bytes: random by a seed, positive, below 1 where they are floats."""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache

from gdsurgeon.ops import dtypes

# Floats by the bits of a word, two for a complex number: random ones under the mask, the rest fixed, so that
# all are positive and below 1.
_FLOAT_BITS: dict[int, tuple[int, int]] = {
    **dict.fromkeys((dtypes.FLOAT32, dtypes.COMPLEX64), (0x017FFFFF, 0x3E000000)),
    **dict.fromkeys((dtypes.FLOAT64, dtypes.COMPLEX128), (0x000FFFFFFFFFFFFF, 0x3FE0000000000000)),
    dtypes.FLOAT16: (0x03FF, 0x3800), dtypes.BFLOAT16: (0x007F, 0x3F00),
    **dict.fromkeys((dtypes.FLOAT8_E5M2, dtypes.FLOAT8_E5M2FNUZ), (0x03, 0x38)),
    **dict.fromkeys((dtypes.FLOAT8_E4M3FN, dtypes.FLOAT8_E4M3FNUZ, dtypes.FLOAT8_E4M3B11FNUZ), (0x07, 0x30)),
}  # fmt: skip
# The same for common positive and negative ones, some above 1, which shows a cut below 0 or above 6.
_WIDE_BITS: dict[int, tuple[int, int]] = {
    dtypes.FLOAT32: (0x81FFFFFF, 0x40000000), dtypes.FLOAT64: (0x801FFFFFFFFFFFFF, 0x3FE0000000000000),
    dtypes.FLOAT16: (0x87FF, 0x3800), dtypes.BFLOAT16: (0x80FF, 0x3F00),
}  # fmt: skip
# The same of either sign, between 2 and 32, and between 1/8 and 2.
_SIZES: dict[int, tuple[int, tuple[int, int]]] = {
    dtypes.FLOAT32: (0x81FFFFFF, (0x40000000, 0x3E000000)),
    dtypes.FLOAT64: (0x803FFFFFFFFFFFFF, (0x4000000000000000, 0x3FC0000000000000)),
    dtypes.FLOAT16: (0x8FFF, (0x4000, 0x3000)),
}
_LARGE: dict[int, int] = {dtypes.FLOAT32: 20 << 23, dtypes.FLOAT64: 20 << 52}
"""What is added to the bits of a number to have it 2 to the power of 20 times as large."""
BYTES = (dtypes.UINT8, dtypes.QUINT8)
INTEGERS: dict[int, str] = {
    dtype: code
    for dtype in dtypes.DTYPES.values()
    if dtype.is_integer and dtype not in BYTES and (code := dtypes.NUMBERS[dtype.numpy].code)
}
"""How `array` spells the integers that are more than a byte or have a sign, quantised ones included."""
_BLOCK = 1 << 16
"""Bytes that are made at a time; a multiple of every element's."""
_MOST = 100_000
"""Indices stay below this, however many there are to choose from."""


def numbers(dtype: int, count: int, bound: int, seed: int, *, wide: bool = False) -> bytes:
    """COUNT elements of DTYPE, little-endian: floats between 0 and 1, bytes of any value, small integers.

    BOUND: where it is not 0, whole numbers below it, also as floats. WIDE: floats of either sign, up to 32 (of float32)
    or 2.
    """
    chance = random.Random(seed)
    if bound and dtype in dtypes.FLOATING:
        return packed_floats(dtype, [chance.randrange(min(bound, _MOST)) for _ in range(count)])
    if dtype in _FLOAT_BITS:
        mask, fixed = _WIDE_BITS.get(dtype, _FLOAT_BITS[dtype]) if wide else _FLOAT_BITS[dtype]
        parts = 2 if dtypes.DTYPES[dtype].is_complex else 1
        return _patterned(chance, count * parts, dtypes.element_size(dtype) // parts, mask, fixed)
    if dtype in BYTES and not bound:
        return chance.randbytes(count)
    if dtype == dtypes.BOOL:
        return bytes(b & 1 for b in chance.randbytes(count))
    if dtype in INTEGERS:
        most = min(bound or 10, dtypes.DTYPES[dtype].bounds[1], _MOST)
        return array(INTEGERS[dtype], [chance.randrange(most) for _ in range(count)]).tobytes()
    return bytes(b % (bound or 4) for b in chance.randbytes(count * dtypes.element_size(dtype)))


def numbers_of_all_sizes(dtype: int, count: int, seed: int, *, large: bool = False) -> bytes:
    """COUNT floats of DTYPE (float16, 32 or 64) of either sign, alternately between 2 and 32 and between 1/8 and 2.

    LARGE: these times 2 to the power of 20, but for float16.
    """
    mask, fixed = _SIZES[dtype]
    more = _LARGE.get(dtype, 0) if large else 0
    size = dtypes.element_size(dtype)
    return _patterned(random.Random(seed), count, size, mask, *(bits + more for bits in fixed))


def _patterned(chance: random.Random, count: int, size: int, mask: int, *fixed: int) -> bytes:
    """COUNT words of SIZE bytes: random bits under MASK, combined with each of FIXED in turn.

    By arithmetic on long integers, which is fast.
    """
    out = bytearray()
    for start in range(0, count * size, _BLOCK):
        length = min(_BLOCK, count * size - start)
        bits = chance.getrandbits(8 * length) & _repeated(size, mask) | _repeated(size, *fixed)
        out += bits.to_bytes(_BLOCK, "little")[:length]
    return bytes(out)


@lru_cache(maxsize=32)
def _repeated(size: int, *words: int) -> int:
    """WORDS of SIZE bytes, in turn, for the length of a block."""
    pattern = b"".join(word.to_bytes(size, "little") for word in words)
    return int.from_bytes(pattern * (_BLOCK // len(pattern)), "little")


def packed_floats(dtype: int, values: Iterable[float]) -> bytes:
    """VALUES as elements of DTYPE, which is one of `FLOATING`, little-endian."""
    if dtype == dtypes.FLOAT16:
        fitting = [min(max(value, -_LARGEST_HALF), _LARGEST_HALF) for value in values]
        return struct.pack(f"<{len(fitting)}e", *fitting)
    data = array("d" if dtype == dtypes.FLOAT64 else "f", values).tobytes()
    if dtype != dtypes.BFLOAT16:
        return data
    out = bytearray(len(data) // 2)
    out[0::2], out[1::2] = data[2::4], data[3::4]  # the upper half of a float32
    return bytes(out)


_LARGEST_HALF = 65504.0
_STEPS = 65536


def scaled(dtype: int, count: int, highest: int, seed: int) -> bytes:
    """COUNT floats of DTYPE (one of `FLOATING`) from 0 to HIGHEST, all equally likely, little-endian."""
    words = array("H", random.Random(seed).randbytes(2 * count))
    table = _table(dtype, highest)
    return array(table.typecode, map(table.__getitem__, words)).tobytes()


@lru_cache(maxsize=8)
def _table(dtype: int, highest: int) -> array[float] | array[int]:
    """The floats from 0 to HIGHEST in equal steps; those of two bytes as the words that they are."""
    data = packed_floats(dtype, [step * highest / (_STEPS - 1) for step in range(_STEPS)])
    code = dtypes.DTYPES[dtype].code if dtypes.element_size(dtype) > 2 else "H"
    out: array[float] | array[int] = array(code)
    out.frombytes(data)
    return out


def listed(dtype: int, data: bytes) -> Sequence[float]:
    """The elements of DTYPE (float32, float64 or an integer) in DATA."""
    code = {dtypes.FLOAT32: "f", dtypes.FLOAT64: "d", dtypes.UINT8: "B", dtypes.BOOL: "B", **INTEGERS}[dtype]
    out: array[float] | array[int] = array(code)
    out.frombytes(data)
    return out
