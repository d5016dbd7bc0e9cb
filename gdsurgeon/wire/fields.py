"""The protobuf wire format: varints, and the fields of a message as offsets into its buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, overload

VARINT, FIXED64, LEN, GROUP, END_GROUP, FIXED32 = 0, 1, 2, 3, 4, 5


class WireError(Exception):
    """The bytes are not a protobuf message; `offset` is the position of the error."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


class Buffer(Protocol):
    """A buffer to read from: `bytes`, or a window on a source that is not in memory."""

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...
    def __len__(self) -> int: ...


class Field(NamedTuple):
    """One field of a message, as offsets: the tag at `start`, the value from `value` to `end`."""

    number: int
    wire_type: int
    start: int
    value: int
    end: int


def encode_varint(number: int) -> bytes:
    """Returns `number` as a varint of minimal length; a negative number is encoded as 64-bit two's complement."""
    if 0 <= number < 128:
        return bytes((number,))
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_len(number: int, value: bytes) -> bytes:
    """Returns the length-delimited field `number` with `value`: tag, length and value."""
    return encode_varint(number << 3 | LEN) + encode_varint(len(value)) + value


def read_varint(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Returns the value of the varint at `pos`, and the offset after the varint.

    Raises:
        WireError: the varint extends beyond `end`, or has more than ten bytes (the maximum for 64 bits).
    """
    if pos < end and (byte := buf[pos]) < 128:  # most are of one byte
        return byte, pos + 1
    start = pos
    shift = value = 0
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, pos
        shift += 7
        if shift > 63:
            raise WireError("a varint of more than ten bytes", start)
    raise WireError("cut short", start)


def read_field(buf: Buffer, pos: int, end: int) -> Field:
    """Returns the field whose tag is at `pos`.

    Raises:
        WireError: field number 0, an unknown wire type, an unclosed group, or a value that extends beyond `end`.
    """
    tag, value = read_varint(buf, pos, end)
    number, wire_type = tag >> 3, tag & 7
    if not number or tag >> 32:
        raise WireError(f"field number {number}", pos)
    if wire_type == LEN:
        size, value = read_varint(buf, value, end)
        stop = value + size
    elif wire_type == VARINT:
        _, stop = read_varint(buf, value, end)
    elif wire_type == FIXED32:
        stop = value + 4
    elif wire_type == FIXED64:
        stop = value + 8
    elif wire_type == GROUP:
        stop = _end_of_group(buf, value, end, number)
    else:
        raise WireError(f"wire type {wire_type}" if wire_type > 5 else "a group ends that never began", pos)
    if stop > end:
        raise WireError(f"cut short: field {number} needs {stop - value} bytes, {end - value} are left", pos)
    return Field(number, wire_type, pos, value, stop)


def _end_of_group(buf: Buffer, pos: int, end: int, number: int) -> int:
    """Returns the offset after the end tag of group `number`; nested groups are kept in a list, without recursion."""
    open_groups = [number]
    start = pos
    while open_groups:
        if pos >= end:
            raise WireError(f"group {open_groups[-1]} is never closed", start)
        tag, after = read_varint(buf, pos, end)
        if tag & 7 == GROUP:
            open_groups.append(tag >> 3)
            pos = after
        elif tag & 7 == END_GROUP:
            if open_groups.pop() != tag >> 3:
                raise WireError(f"group {tag >> 3} ends but never began", pos)
            pos = after
        else:
            pos = read_field(buf, pos, end).end
    return pos


def fields(buf: Buffer, pos: int, end: int) -> Iterator[Field]:
    """Yields the fields of the message from `pos` to `end`, in order.

    Raises:
        WireError: see `read_field`.
    """
    while pos < end:
        field = read_field(buf, pos, end)
        yield field
        pos = field.end
