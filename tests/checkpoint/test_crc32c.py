"""The checksum, compared with a calculation bit by bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsurgeon.container.checkpoint.table import checksum, extend, mask


def bit_by_bit(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)  # RFC 3720, B.4
def test_published_values(data: bytes, crc: int) -> None:
    assert extend(0, data) == crc


@given(st.binary(max_size=4000), st.binary(max_size=4000))
def test_a_checksum_continues_where_it_ended(one: bytes, other: bytes) -> None:
    assert extend(extend(0, one), other) == bit_by_bit(one + other)
    assert checksum([one, other]) == mask(bit_by_bit(one + other))


def test_masked_as_leveldb_does() -> None:
    assert mask(0) == 0xA282EAD8
    assert mask(0xE3069283) == ((0xE3069283 >> 15 | 0xE3069283 << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
