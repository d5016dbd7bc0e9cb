"""CRC32C (Castagnoli), which guards every block and tensor of a checkpoint, some 300 MB/s in plain Python.

A checksum is the remainder of the message, taken as a polynomial over GF(2), by the generator P. Long messages are
folded first: Q = x^6777 + x^484 + x^100 + 1 is a multiple of P, and so is Q(x^m) for every power of two m, because
squaring over GF(2) is Q(x)^2 = Q(x^2). Modulo Q(x^m) the leading 6293 m bits are three copies of themselves further
down, and that is shifts and exclusive ors of a long integer, which Python does at the speed of memory.
(Q was found among the multiples of four terms: pairs x^484 + x^100 + 1 sorted by remainder, and looked up.)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

_POLYNOMIAL = 0x82F63B78  # bit 31 is the coefficient of x^0
_DEGREE, _MIDDLE, _LOW = 6777, 484, 100
_STEP = _DEGREE - _MIDDLE
"""Bits that one fold takes away, for each bit of the stride m."""

_STRIDE = 32
"""The stride for long messages: blocks of 25,172 bytes, which stay in the processor's cache."""

CHUNK = 1 << 20
"""Bytes of a file to take at a time."""


def checksum(data: bytes) -> int:
    """The CRC32C of DATA."""
    return extend(0, data)


def checksum_of(pieces: Iterable[bytes]) -> int:
    """The CRC32C of PIECES joined."""
    crc = 0
    for piece in pieces:
        crc = extend(crc, piece)
    return crc


def extend(crc: int, data: bytes) -> int:
    """The CRC32C of something that has CRC, with DATA behind it."""
    register = crc ^ 0xFFFFFFFF
    if 8 * len(data) >= 2 * _STEP + _MIDDLE:
        data, register = _folded(data, register), 0
    table = _table()
    for byte in data:
        register = table[(register ^ byte) & 255] ^ register >> 8
    return register ^ 0xFFFFFFFF


def mask(crc: int) -> int:
    """CRC as LevelDB stores it: data that holds checksums of its own would weaken a plain one."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _folded(data: bytes, register: int) -> bytes:
    """A short message with the remainder of DATA, of which the first bits are changed by REGISTER.

    In an integer that stands for bits of a message bit 0 is the first, which is the coefficient of the highest power.
    """
    rest, carry = memoryview(data), register
    step, middle, low = (bits * _STRIDE for bits in (_STEP, _MIDDLE, _LOW))
    while 8 * len(rest) >= 2 * step + middle:  # the copies end within the message
        block = int.from_bytes(rest[: step // 8], "little") ^ carry
        leading = block & (1 << step) - 1
        carry = block >> step ^ leading ^ leading << middle - low ^ leading << middle
        rest = rest[step // 8 :]
    return _reduced(int.from_bytes(rest, "little") ^ carry, 8 * len(rest))


def _reduced(message: int, bits: int) -> bytes:
    """A short message with the remainder of MESSAGE, of so many BITS: the same with ever smaller strides."""
    stride = _STRIDE
    while stride:
        step, middle, low = _STEP * stride, _MIDDLE * stride, _LOW * stride
        while bits >= 2 * step + middle:
            leading = message & (1 << step) - 1
            message = message >> step ^ leading ^ leading << middle - low ^ leading << middle
            bits -= step
        stride >>= 1
    padding = -bits % 8  # leading coefficients that are 0
    return (message << padding).to_bytes((bits + padding) // 8, "little")


@cache
def _table() -> tuple[int, ...]:
    """What a byte does to the register."""
    table = []
    for register in range(256):
        for _ in range(8):
            register = register >> 1 ^ (_POLYNOMIAL if register & 1 else 0)
        table.append(register)
    return tuple(table)
