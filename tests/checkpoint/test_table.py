"""Tables: written entries are read back, and a changed byte is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bundles import compressed, snappy

from gdsurgeon.container.checkpoint import table as tables
from gdsurgeon.container.checkpoint.table import Table, build_table, checksum, extend, mask, uncompress
from gdsurgeon.errors import InputError
from gdsurgeon.wire.fields import WireError
from gdsurgeon.wire.source import BytesSource

RECORDS = st.dictionaries(st.binary(max_size=9), st.binary(max_size=60), max_size=70).map(lambda d: sorted(d.items()))


def opened(data: bytes) -> Table:
    return Table(BytesSource(data, "t.index"))


def check_all(data: bytes) -> list[tuple[bytes, bytes]]:
    table = opened(data)
    for block in table.blocks:
        table.check(block)
    table.check_frame()
    return list(table.records())


@pytest.mark.parametrize("size", [30, 300, 1 << 18])
@settings(max_examples=40)
@given(records=RECORDS)
def test_what_is_built_is_read(size: int, records: list[tuple[bytes, bytes]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BLOCK_SIZE", size)
        data = build_table(records)
    for table in (data, compressed(data)):
        assert check_all(table) == records
        assert [
            (key, span.source.read(span.start, span.end - span.start)) for key, span in opened(table).located()
        ] == records
    if size == 30 and len(records) > 9:
        assert len(opened(data).blocks) > 1


def test_a_byte_that_is_another_is_noticed_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_SIZE", 60)
    records = [(f"key_{i:02d}".encode(), bytes([i] * (i % 7))) for i in range(20)]
    for data in (build_table(records), compressed(build_table(records))):
        for at in range(len(data)):
            for bit in (1, 128):
                with pytest.raises(InputError, match=r"t\.index is corrupt"):
                    check_all(data[:at] + bytes((data[at] ^ bit,)) + data[at + 1 :])


def test_a_table_that_is_cut_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_SIZE", 60)
    data = build_table([(f"key_{i:02d}".encode(), b"value") for i in range(20)])
    for end in range(1, len(data)):
        with pytest.raises(InputError, match=r"t\.index is corrupt: it does not end like a table of tensors"):
            opened(data[:end])


def test_a_wrong_checksum_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_SIZE", 60)
    data = bytearray(build_table([(f"key_{i:02d}".encode(), b"value") for i in range(20)]))
    block = opened(bytes(data)).blocks[1]
    data[block.offset + 3] ^= 1
    with pytest.raises(InputError, match=f"the checksum of its block at offset {block.offset} is wrong"):
        list(opened(bytes(data)).records())


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"abcabcabc", b"x" * 300]), max_size=12).map(b"".join))
def test_snappy(data: bytes) -> None:
    assert uncompress(snappy(data)) == data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "cut short"),
        (b"\x05\x10ab", "cut short"),
        (b"\x05\x04ab", "2 bytes instead of the expected 5"),
        (b"\x05\x04ab\x01\x03", "a copy refers to bytes that do not exist"),
        (b"\x05\x04ab\x01", "cut short"),
        (b"\x05\x04ab\x02\x01", "cut short"),
        (b"\x05\xf0", "cut short"),
    ],
)
def test_what_snappy_does_not_write(data: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        uncompress(data)


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
