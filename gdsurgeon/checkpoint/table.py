"""LevelDB's tables: a sorted map of bytes to bytes in blocks, as checkpoints are indexed by, or (V1) are.

Format: https://github.com/google/leveldb/blob/main/doc/table_format.md; TensorFlow writes it without compression and
without filters, and reads blocks that are compressed by Snappy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gdsurgeon.checkpoint.crc32c import CHUNK, checksum_of, extend, mask
from gdsurgeon.checkpoint.snappy import uncompress
from gdsurgeon.errors import InputError
from gdsurgeon.wire.fields import Buffer, WireError, encode_varint, read_varint
from gdsurgeon.wire.sniff import HEAD, TABLE_END, foreign_format, wrong_format
from gdsurgeon.wire.source import BytesSource, Source, Window, corrupt_file
from gdsurgeon.wire.write import SourceSpan

_FOOTER = 48
_TRAILER = 5
"""Bytes behind each block: how it is compressed, and the checksum of both."""
_PLAIN, _SNAPPY = 0, 1
BLOCK_SIZE = 1 << 18
"""Bytes from which on a block is full."""
_RESTART_INTERVAL = 16
_LONGEST_KEY = 1 << 20
_MOST_SHARED = 128
"""Bytes of keys for each byte of a block: a key repeats its beginning without being stored with it."""


class Block(NamedTuple):
    """Where a block is: OFFSET and SIZE without its trailer."""

    offset: int
    size: int


class Record(NamedTuple):
    """A key, and where its value is."""

    key: bytes
    value: SourceSpan


def is_table(source: Source) -> bool:
    """Whether the bytes end as those of a table do."""
    return source.size >= _FOOTER and source.read(source.size - len(TABLE_END), len(TABLE_END)) == TABLE_END


class Table:
    """A table that is read block by block.

    Attributes:
        source: its bytes.
        blocks: those that hold records, in order.

    Raises:
        InputError: the source is no table, or its list of blocks is broken.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        if not is_table(source):
            foreign = foreign_format(source.read(0, min(HEAD, source.size)))
            if foreign is not None:
                raise wrong_format(source.name, foreign)
            raise self._corrupt("it does not end like a table of tensors; was it cut short?", reason="end")
        footer = source.read(source.size - _FOOTER, _FOOTER)
        try:
            self._filters, at = self._handle(footer, 0)
            self._index, _ = self._handle(footer, at)
            self.blocks = [self._handle(value, 0)[0] for _, value in self._read(self._index)]
        except WireError as error:
            raise self._corrupt(f"its list of blocks: {error.reason}", reason=error.reason) from error
        end = 0
        for block in self.blocks:
            if block.offset < end:
                raise self._corrupt(f"its block at offset {block.offset:,} overlaps an earlier one", at=block.offset)
            end = block.offset + block.size + _TRAILER

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys with their values, in order; each block's checksum is checked.

        Raises:
            InputError: a block is cut short, or is not what its checksum says.
        """
        for block in self.blocks:
            try:
                yield from self._read(block)
            except WireError as error:
                raise self._broken(block, error) from error

    def located(self) -> Iterator[Record]:
        """All keys, and where their values are, which are not read: only blocks that are compressed are.

        Raises:
            InputError: a block is cut short.
        """
        for block in self.blocks:
            try:
                source, start = self.source, block.offset
                if self._compression(block) != _PLAIN:
                    source, start = BytesSource(self.content(block), self.source.name), 0
                end = start + (block.size if source is self.source else source.size)
                for key, first, last in _entries(Window(source, start, end), block.size):
                    yield Record(key, SourceSpan(source, start + first, start + last))
            except WireError as error:
                raise self._broken(block, error) from error

    def content(self, block: Block) -> bytes:
        """What a block holds, uncompressed.

        Raises:
            InputError: its checksum is wrong.
            WireError: it is not what Snappy writes.
        """
        self._check_bounds(block)
        data = self.source.read(block.offset, block.size + _TRAILER)
        if mask(extend(0, data[:-4])) != int.from_bytes(data[-4:], "little"):
            raise self._wrong_checksum(block)
        kind, data = data[-_TRAILER], data[: block.size]
        if kind == _SNAPPY:
            return uncompress(data)
        if kind != _PLAIN:
            raise WireError(f"compressed with an unknown method ({kind})", block.offset)
        return data

    def check(self, block: Block) -> None:
        """Checks a block, a stretch at a time.

        Raises:
            InputError: it is not what its checksum says.
        """
        self._check_bounds(block)
        end = block.offset + block.size + 1
        starts = range(block.offset, end, CHUNK)
        pieces = (self.source.read(start, min(CHUNK, end - start)) for start in starts)
        if mask(checksum_of(pieces)) != int.from_bytes(self.source.read(end, 4), "little"):
            raise self._wrong_checksum(block)

    def check_frame(self) -> None:
        """Checks what is around the blocks of records: that blocks fill the file, and the footer is as it is written.

        Raises:
            InputError: a byte there is not what a writer writes.
        """
        at = 0
        for block in (*self.blocks, self._filters, self._index):
            if block.offset != at:
                raise self._corrupt(f"its bytes from offset {at:,} belong to no block")
            at += block.size + _TRAILER
        self.check(self._filters)
        footer = _footer(_encode(self._filters), _encode(self._index))
        if self.source.size != at + _FOOTER or self.source.read(at, _FOOTER) != footer:
            raise self._corrupt(f"its last bytes, from offset {at:,} on, are not the end of a table")

    def _compression(self, block: Block) -> int:
        self._check_bounds(block)
        return self.source.read(block.offset + block.size, 1)[0]

    def _check_bounds(self, block: Block) -> None:
        if block.offset + block.size + _TRAILER > self.source.size - _FOOTER:
            raise self._corrupt(f"its block at offset {block.offset:,} ends after the end of the file")

    @staticmethod
    def _handle(data: bytes, at: int) -> tuple[Block, int]:
        offset, at = read_varint(data, at, len(data))
        size, at = read_varint(data, at, len(data))
        return Block(offset, size), at

    def _read(self, block: Block) -> Iterator[tuple[bytes, bytes]]:
        content = self.content(block)
        return ((key, content[start:end]) for key, start, end in _entries(content, block.size))

    def _corrupt(self, what: str, **facts: str | int) -> InputError:
        return corrupt_file(self.source.name, what, **facts)

    def _wrong_checksum(self, block: Block) -> InputError:
        what = f"the checksum of its block at offset {block.offset:,} is wrong"
        return self._corrupt(what, at=block.offset, reason="checksum")

    def _broken(self, block: Block, error: WireError) -> InputError:
        what = f"its block at offset {block.offset:,}: {error.reason}"
        return self._corrupt(what, at=block.offset, reason=error.reason)


def _entries(block: Buffer, size: int) -> Iterator[tuple[bytes, int, int]]:
    """The keys of a block of SIZE stored bytes, and where their values start and end. Raises WireError."""
    if len(block) < 4:
        raise WireError("cut short", 0)
    restarts = int.from_bytes(block[len(block) - 4 : len(block)], "little")
    end, at, key = len(block) - 4 - 4 * restarts, 0, b""
    if end < 0:
        raise WireError("cut short", 0)
    spare = _MOST_SHARED * size
    while at < end:
        shared, at = read_varint(block, at, end)
        own, at = read_varint(block, at, end)
        length, at = read_varint(block, at, end)
        spare -= shared
        if shared > len(key) or at + own + length > end:
            raise WireError("an entry runs past the end of the block", at)
        if shared + own > _LONGEST_KEY or spare < 0:
            raise WireError("the keys are much longer than the block", at)
        key = key[:shared] + block[at : at + own]
        at += own
        yield key, at, at + length
        at += length


def build_table(records: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The bytes of a table with RECORDS, which are sorted by key: those that TensorFlow's writer writes."""
    out = bytearray()
    index, held, last = _BlockBuilder(1), _BlockBuilder(_RESTART_INTERVAL), b""
    handle: bytes | None = None  # of a full block: its key in the index depends on the record behind it
    for key, value in records:
        if handle is not None:
            index.add(_separator(last, key), handle)
            handle = None
        held.add(key, value)
        last = key
        if held.size >= BLOCK_SIZE:
            handle, held = _append(out, held), _BlockBuilder(_RESTART_INTERVAL)
    if held.count:
        handle = _append(out, held)
    filters = _append(out, _BlockBuilder(_RESTART_INTERVAL))
    if handle is not None:
        index.add(_successor(last), handle)
    return bytes(out + _footer(filters, _append(out, index)))


class _BlockBuilder:
    """A block in the making; after each INTERVAL records a key is spelt whole, and where that is stands at its end."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._body = bytearray()
        self._restarts = [0]
        self._last = b""
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes that it has come to."""
        return len(self._body) + 4 * len(self._restarts) + 4

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self.count % self._interval:
            shared = _common_prefix(self._last, key)
        elif self.count:
            self._restarts.append(len(self._body))
        self._body += encode_varint(shared) + encode_varint(len(key) - shared) + encode_varint(len(value))
        self._body += key[shared:] + value
        self._last = key
        self.count += 1

    def finished(self) -> bytes:
        """All of it."""
        count = len(self._restarts)
        return bytes(self._body) + struct.pack(f"<{count + 1}I", *self._restarts, count)


def _append(out: bytearray, block: _BlockBuilder) -> bytes:
    """Appends a block with its trailer to OUT and returns its handle."""
    content = block.finished()
    handle = _encode(Block(len(out), len(content)))
    content += bytes((_PLAIN,))
    out += content + struct.pack("<I", mask(extend(0, content)))
    return handle


def _footer(filters: bytes, index: bytes) -> bytes:
    return (filters + index).ljust(_FOOTER - len(TABLE_END), b"\0") + TABLE_END


def _encode(block: Block) -> bytes:
    return encode_varint(block.offset) + encode_varint(block.size)


def _separator(key: bytes, following: bytes) -> bytes:
    """A short key that is KEY or behind it, and before the one FOLLOWING."""
    at = _common_prefix(key, following)
    if at < min(len(key), len(following)) and key[at] < 0xFF and key[at] + 1 < following[at]:
        return key[:at] + bytes((key[at] + 1,))
    return key


def _successor(key: bytes) -> bytes:
    """A short key that is KEY or behind it."""
    for at, byte in enumerate(key):
        if byte != 0xFF:
            return key[:at] + bytes((byte + 1,))
    return key


def _common_prefix(a: bytes, b: bytes) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count
