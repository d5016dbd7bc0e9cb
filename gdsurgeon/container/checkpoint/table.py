"""LevelDB's tables: a sorted map of bytes to bytes in blocks, with checksums; the index of a checkpoint is a table.

Format: https://github.com/google/leveldb/blob/main/doc/table_format.md. TensorFlow writes tables without compression
and without filters, and reads blocks that are compressed by Snappy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gdsurgeon.errors import InputError
from gdsurgeon.wire.fields import Buffer, WireError, encode_varint, read_varint
from gdsurgeon.wire.sniff import HEAD, TABLE_END, foreign_format, wrong_format
from gdsurgeon.wire.source import BytesSource, Source, Window, corrupt_file
from gdsurgeon.wire.write import Chunk, SourceSpan

CHUNK = 1 << 20
"""Bytes of a file to read at a time."""
_FOOTER = 48
_TRAILER = 5
"""Bytes after each block: how it is compressed, and the checksum of both."""
_PLAIN, _SNAPPY = 0, 1
BLOCK_SIZE = 1 << 18
"""Bytes from which on a block is full."""
_RESTART_INTERVAL = 16
_LONGEST_KEY = 1 << 20
_MOST_SHARED = 128
"""Bytes of keys for each byte of a block: a key repeats its beginning without being stored with it."""
_LONGEST_INLINE = 60
"""Bytes of a literal of Snappy whose length is stored in its tag; the length of a longer one follows the tag."""


# -- checksums: CRC32C (Castagnoli) ----------------------------------------------------------------------------


def extend(crc: int, data: bytes) -> int:
    """Returns the CRC32C of bytes with the checksum `crc`, followed by `data`."""
    import google_crc32c  # only when a checksum is needed: commands start faster

    return int(google_crc32c.extend(crc, data))


def checksum(pieces: Iterable[bytes]) -> int:
    """Returns the masked CRC32C of `pieces` joined."""
    crc = 0
    for piece in pieces:
        crc = extend(crc, piece)
    return mask(crc)


def mask(crc: int) -> int:
    """Returns `crc` as LevelDB stores it; the plain checksum of data that contains checksums would be weaker."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def pieces_of(chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """Yields the bytes of `chunks`, at most `CHUNK` of a span at a time."""
    for chunk in chunks:
        if isinstance(chunk, bytes):
            yield chunk
        else:
            for start in range(chunk.start, chunk.end, CHUNK):
                yield chunk.source.read(start, min(CHUNK, chunk.end - start))


# -- reading -----------------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """The location of a block in the file; `size` is without its trailer."""

    offset: int
    size: int


def is_table(source: Source) -> bool:
    """Returns whether the bytes end with the end marker of a table."""
    return source.size >= _FOOTER and source.read(source.size - len(TABLE_END), len(TABLE_END)) == TABLE_END


class Table:
    """A table that is read block by block.

    Attributes:
        source: its bytes.
        blocks: the blocks that hold records, in order.

    Raises:
        InputError: the source is not a table, or its list of blocks is corrupt.
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
        """Yields all keys with their values, in order; the checksum of each block is checked.

        Raises:
            InputError: a block is cut short, or its checksum is wrong.
        """
        for block in self.blocks:
            try:
                yield from self._read(block)
            except WireError as error:
                raise self._broken(block, error) from error

    def located(self) -> Iterator[tuple[bytes, SourceSpan]]:
        """Yields all keys and the locations of their values; only compressed blocks are read as a whole.

        Raises:
            InputError: a block is cut short.
        """
        for block in self.blocks:
            try:
                self._check_bounds(block)
                source, start, size = self.source, block.offset, block.size
                if self._kind(block) != _PLAIN:
                    source = BytesSource(self.content(block), source.name)
                    start, size = 0, source.size
                for key, first, last in _entries(Window(source, start, start + size), block.size):
                    yield key, SourceSpan(source, start + first, start + last)
            except WireError as error:
                raise self._broken(block, error) from error

    def content(self, block: Block) -> bytes:
        """Returns the uncompressed content of `block`.

        Raises:
            InputError: its checksum is wrong.
            WireError: it is not a block that Snappy compressed.
        """
        self.check(block)
        data, kind = self.source.read(block.offset, block.size), self._kind(block)
        if kind == _SNAPPY:
            return uncompress(data)
        if kind != _PLAIN:
            raise WireError(f"compressed with an unknown method ({kind})", block.offset)
        return data

    def check(self, block: Block) -> None:
        """Checks the checksum of `block`, which is read in parts. Raises InputError: it is wrong."""
        self._check_bounds(block)
        end = block.offset + block.size + 1
        found = checksum(pieces_of([SourceSpan(self.source, block.offset, end)]))
        if found != int.from_bytes(self.source.read(end, 4), "little"):
            what = f"the checksum of its block at offset {block.offset:,} is wrong"
            raise self._corrupt(what, at=block.offset, reason="checksum")

    def check_frame(self) -> None:
        """Checks that the blocks fill the file, and that the footer is as a writer writes it.

        Raises:
            InputError: a byte outside the blocks of records is different.
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

    def _kind(self, block: Block) -> int:
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

    def _broken(self, block: Block, error: WireError) -> InputError:
        what = f"its block at offset {block.offset:,}: {error.reason}"
        return self._corrupt(what, at=block.offset, reason=error.reason)


def _entries(block: Buffer, size: int) -> Iterator[tuple[bytes, int, int]]:
    """Yields the keys of a block of `size` stored bytes, and where their values start and end. Raises WireError."""
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


def uncompress(data: bytes) -> bytes:
    """Returns `data` uncompressed by Snappy: literals, and copies of earlier bytes.

    Format: https://github.com/google/snappy/blob/main/format_description.txt

    Raises:
        WireError: Snappy does not write such data.
    """
    size, at = read_varint(data, 0, len(data))
    out = bytearray()
    try:
        while at < len(data):
            tag, at = data[at], at + 1
            kind, length = tag & 3, (tag >> 2) + 1
            if kind == 0:
                if length > _LONGEST_INLINE:
                    count = length - _LONGEST_INLINE
                    length, at = int.from_bytes(data[at : at + count], "little") + 1, at + count
                if at + length > len(data):
                    raise IndexError
                out += data[at : at + length]
                at += length
                continue
            if kind == 1:
                length, offset, at = (tag >> 2 & 7) + 4, tag >> 5 << 8 | data[at], at + 1
            else:
                end = at + 2 * (kind - 1)
                data[end - 1]  # must exist
                offset, at = int.from_bytes(data[at:end], "little"), end
            if not 0 < offset <= len(out):
                raise WireError("a copy refers to bytes that do not exist", at)
            start = len(out) - offset
            seen = out[start : start + length]
            out += (seen * -(-length // len(seen)))[:length]  # a copy may overlap its own result
    except IndexError:
        raise WireError("cut short", at) from None
    if len(out) != size:
        raise WireError(f"{len(out)} bytes instead of the expected {size}", at)
    return bytes(out)


# -- writing -----------------------------------------------------------------------------------------------------


def build_table(records: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns the bytes of a table with `records`, which are sorted by key, as TensorFlow's writer writes them."""
    out = bytearray()
    index, held, last = _BlockBuilder(1), _BlockBuilder(_RESTART_INTERVAL), b""
    handle: bytes | None = None  # of a full block: its key in the index depends on the next record
    for key, value in records:
        if handle is not None:
            index.add(_separator(last, key), handle)
            handle = None
        held.add(key, value)
        last = key
        if held.size >= BLOCK_SIZE:
            handle, held = held.append_to(out), _BlockBuilder(_RESTART_INTERVAL)
    if held.count:
        handle = held.append_to(out)
    filters = _BlockBuilder(_RESTART_INTERVAL).append_to(out)
    if handle is not None:
        at = next((at for at, byte in enumerate(last) if byte != 0xFF), None)
        index.add(last if at is None else last[:at] + bytes((last[at] + 1,)), handle)
    return bytes(out + _footer(filters, index.append_to(out)))


class _BlockBuilder:
    """A block that is being built.

    Every `interval` records a key is stored whole. The end of the block lists their locations.
    """

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._body = bytearray()
        self._restarts = [0]
        self._last = b""
        self.count = 0

    @property
    def size(self) -> int:
        """The size of the block in bytes."""
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

    def append_to(self, out: bytearray) -> bytes:
        """Appends the block with its trailer to `out`, and returns its handle."""
        count = len(self._restarts)
        content = bytes(self._body) + struct.pack(f"<{count + 1}I", *self._restarts, count)
        handle = _encode(Block(len(out), len(content)))
        content += bytes((_PLAIN,))
        out += content + struct.pack("<I", checksum([content]))
        return handle


def _footer(filters: bytes, index: bytes) -> bytes:
    return (filters + index).ljust(_FOOTER - len(TABLE_END), b"\0") + TABLE_END


def _encode(block: Block) -> bytes:
    return encode_varint(block.offset) + encode_varint(block.size)


def _separator(key: bytes, following: bytes) -> bytes:
    """Returns a short key that is not before `key`, and is before `following`."""
    at = _common_prefix(key, following)
    if at < min(len(key), len(following)) and key[at] < 0xFF and key[at] + 1 < following[at]:
        return key[:at] + bytes((key[at] + 1,))
    return key


def _common_prefix(a: bytes, b: bytes) -> int:
    differing = (at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(differing, min(len(a), len(b)))
