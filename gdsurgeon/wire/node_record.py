"""The record of one node: where its fields lie, and the record again with some of them changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gdsurgeon.wire.fields import LEN, Buffer, Field, WireError, encode_len, encode_varint, fields, read_varint

NAME, OP, INPUT, DEVICE, ATTR = 1, 2, 3, 4, 5
"""Field numbers of NodeDef."""
KEY, VALUE = 1, 2
"""Field numbers of an entry of its attr map."""

KNOWN_FIELDS = frozenset((1, 2, 3, 4, 5, 6, 7))


class Header(NamedTuple):
    """The fields that are read for every node. `attrs` maps a key to the start and end of its AttrValue."""

    name: str
    op: str
    inputs: tuple[str, ...]
    device: str
    attrs: dict[str, tuple[int, int]]
    unknown_fields: bool


class Span(NamedTuple):
    """A range of the buffer that is copied unchanged."""

    start: int
    end: int


Piece = bytes | Span


def read_header(buf: Buffer) -> Header:
    """Returns the header of the NodeDef in `buf`.

    Raises:
        WireError: it is not a NodeDef, or a text in it is not UTF-8.
    """
    if isinstance(buf, bytes):
        quick = _plain_header(buf)
        if quick is not None:
            return quick
    name = op = device = ""
    inputs: list[str] = []
    attrs: dict[str, tuple[int, int]] = {}
    unknown = False
    for field in fields(buf, 0, len(buf)):
        number, wire_type = field.number, field.wire_type
        if wire_type != LEN:
            unknown = True
        elif number == ATTR:
            key, value_start, value_end = read_attr(buf, field)
            attrs[key] = (value_start, value_end)
        elif number == INPUT:
            inputs.append(_text(buf, field, "input"))
        elif number == NAME:
            name = _text(buf, field, "name")
        elif number == OP:
            op = _text(buf, field, "op")
        elif number == DEVICE:
            device = _text(buf, field, "device")
        elif number not in KNOWN_FIELDS:
            unknown = True
    return Header(name, op, tuple(inputs), device, attrs, unknown)


def other_fields(buf: Buffer) -> bytes:
    """Returns the fields of the NodeDef in `buf` that its header does not describe, concatenated."""
    told = range(NAME, ATTR + 1)
    others = (f for f in fields(buf, 0, len(buf)) if f.wire_type != LEN or f.number not in told)
    return b"".join(bytes(buf[f.start : f.end]) for f in others)


def _plain_header(buf: bytes) -> Header | None:
    """Returns the header of a record in the usual form (known fields, lengths of one or two bytes); else None."""
    name = op = device = ""
    inputs: list[str] = []
    attrs: dict[str, tuple[int, int]] = {}
    pos, end = 0, len(buf)
    try:
        while pos < end:
            tag, size, value = buf[pos], buf[pos + 1], pos + 2
            if size > 127:
                if buf[value] > 127:
                    return None
                size, value = size & 127 | buf[value] << 7, value + 1
            pos = value + size
            if pos > end:
                return None
            if tag == 0x1A:
                inputs.append(buf[value:pos].decode())
            elif tag == 0x2A:
                key_end = value + 2 + buf[value + 1]
                at = key_end + 2
                if buf[value] != 0x0A or key_end >= pos or buf[key_end] != 0x12:
                    return None
                size = buf[key_end + 1]
                if size > 127:
                    if buf[at] > 127:
                        return None
                    size, at = size & 127 | buf[at] << 7, at + 1
                if at + size != pos:
                    return None
                attrs[buf[value + 2 : key_end].decode()] = (at, pos)
            elif tag == 0x0A:
                name = buf[value:pos].decode()
            elif tag == 0x12:
                op = buf[value:pos].decode()
            elif tag == 0x22:
                device = buf[value:pos].decode()
            else:
                return None
    except (IndexError, UnicodeDecodeError):
        return None  # `read_header` continues with the general reader, which reports errors
    return Header(name, op, tuple(inputs), device, attrs, False)


def read_attr(buf: Buffer, entry: Field) -> tuple[str, int, int]:
    """Returns the key of an attr map `entry`, and the start and end of its value.

    Raises:
        WireError: the entry is not an attr map entry, or the key is not UTF-8.
    """
    key, start, end = "", entry.end, entry.end
    for field in fields(buf, entry.value, entry.end):
        if field.wire_type == LEN:
            if field.number == KEY:
                key = _text(buf, field, "attr key")
            elif field.number == VALUE:
                start, end = field.value, field.end
    return key, start, end


class Changes(NamedTuple):
    """The new values that `patched` puts into the record; None: unchanged.

    Attributes:
        name, op, device: the new text.
        inputs: the new inputs, which replace all existing inputs.
        rename_input: called for each existing input if `inputs` is None.
        attrs: serialised AttrValues by key; None removes the key; new keys are appended.
    """

    name: str | None = None
    op: str | None = None
    device: str | None = None
    inputs: tuple[str, ...] | None = None
    rename_input: Callable[[str], str] | None = None
    attrs: Mapping[str, bytes | None] | None = None


def patched(buf: Buffer, changes: Changes) -> list[Piece]:
    """Returns the NodeDef in `buf` with `changes`, in pieces; unchanged parts are spans.

    Fields keep their order. New inputs replace the old ones at the first input, or follow the op. Text with an
    unchanged value keeps its bytes.
    """
    if isinstance(buf, bytes) and changes.op is None and changes.device is None and not changes.attrs:
        quick = _plain_patched(buf, changes)
        if quick is not None:
            return [quick]
    return list(_merged(_patched(buf, changes)))


def _plain_patched(buf: bytes, changes: Changes) -> bytes | None:
    """Returns the record with a new name and new inputs; None unless its fields are in the usual order.

    The usual order is name, op, inputs, then other fields. The result is byte for byte equal to that of `_patched`.
    """
    pos, end, texts = 0, len(buf), list[bytes]()
    try:
        if buf[pos] != 0x0A or buf[pos + 1] > 127:
            return None
        op = pos = pos + 2 + buf[pos + 1]
        if buf[pos] != 0x12 or buf[pos + 1] > 127:
            return None
        inputs = pos = pos + 2 + buf[pos + 1]
        while pos < end and buf[pos] == 0x1A:
            if buf[pos + 1] > 127:
                return None
            texts.append(buf[pos + 2 : pos + 2 + buf[pos + 1]])
            pos += 2 + buf[pos + 1]
        rest = pos
        while pos < end:
            if buf[pos] < 0x20 or buf[pos] & 0x87 != LEN:  # a second name, op or input, or not length-delimited
                return None
            size = buf[pos + 1]
            if size > 127:
                if buf[pos + 2] > 127:
                    return None
                pos += 1
                size = size & 127 | buf[pos + 1] << 7
            pos += 2 + size
        new = changes.inputs
        if new is None and changes.rename_input is not None:
            new = tuple(changes.rename_input(text.decode()) for text in texts)
    except (IndexError, UnicodeDecodeError):
        return None  # `_patched` reports errors
    if pos != end:
        return None
    name = buf[:op] if changes.name is None else encode_len(NAME, changes.name.encode())
    reads = [buf[inputs:rest]] if new is None else _encoded_inputs(new)
    return b"".join((name, buf[op:inputs], *reads, buf[rest:]))


def _patched(buf: Buffer, changes: Changes) -> Iterator[Piece]:
    texts = {NAME: changes.name, OP: changes.op, DEVICE: changes.device}
    attrs = dict(changes.attrs or {})
    done: set[str] = set()
    inputs = changes.inputs
    if inputs is not None and tuple(_inputs(buf)) == inputs:
        inputs = None
    anchor = _input_anchor(buf) if inputs is not None else -1
    if inputs is not None and anchor == 0:
        yield from _encoded_inputs(inputs)
    last = {f.number: f.start for f in fields(buf, 0, len(buf)) if f.number in texts and f.wire_type == LEN}
    for field in fields(buf, 0, len(buf)):
        number = field.number
        span = Span(field.start, field.end)
        if field.wire_type != LEN:
            yield span
        elif number == INPUT:
            if inputs is None:
                rename = changes.rename_input
                yield span if rename is None else _text_field(buf, field, rename(_text(buf, field, "input")))
        elif number in texts:
            # If a text field occurs twice, the last one counts.
            text = texts[number] if last[number] == field.start else None
            if text is not None:
                texts[number] = None
                if text or number != DEVICE:  # an empty device is written as no field, as protobuf does
                    yield _text_field(buf, field, text)
            else:
                yield span
        elif number == ATTR and (attrs or done):
            yield from _patched_attr(buf, field, attrs, done)
        else:
            yield span
        if inputs is not None and field.end == anchor:
            yield from _encoded_inputs(inputs)
    for number, text in texts.items():
        if text:  # the record has no such field
            yield encode_len(number, text.encode())
    for key, value in attrs.items():
        if value is not None:
            yield encode_attr(key, value)


def encode_node(name: str, op: str, inputs: Iterable[str], device: str, attrs: Mapping[str, bytes]) -> bytes:
    """Returns a serialised NodeDef, with attrs sorted by key."""
    out = [encode_len(NAME, name.encode()), encode_len(OP, op.encode()), *_encoded_inputs(inputs)]
    if device:
        out.append(encode_len(DEVICE, device.encode()))
    out.extend(encode_attr(key, attrs[key]) for key in sorted(attrs))
    return b"".join(out)


def encode_attr(key: str, value: bytes) -> bytes:
    """Returns an entry of the attr map; `value` is a serialised AttrValue."""
    return encode_len(ATTR, encode_len(KEY, key.encode()) + encode_len(VALUE, value))


def _encoded_inputs(inputs: Iterable[str]) -> Iterator[bytes]:
    for text in inputs:
        yield encode_len(INPUT, text.encode())


def _input_anchor(buf: Buffer) -> int:
    """Returns the offset for inputs: the end of the first input, else of the op, else of the name, else 0."""
    after: dict[int, int] = {}
    for field in fields(buf, 0, len(buf)):
        if field.number == INPUT and field.wire_type == LEN:
            # The end of a field, so that exactly one field in the loop of `_patched` matches.
            return field.end
        if field.number in (NAME, OP) and field.wire_type == LEN:
            after[field.number] = field.end
    return after.get(OP, after.get(NAME, 0))


def _inputs(buf: Buffer) -> Iterator[str]:
    for field in fields(buf, 0, len(buf)):
        if field.number == INPUT and field.wire_type == LEN:
            yield _text(buf, field, "input")


def _text_field(buf: Buffer, field: Field, text: str) -> Piece:
    data = text.encode()
    if buf[field.value : field.end] == data:
        return Span(field.start, field.end)
    return encode_len(field.number, data)


def _patched_attr(buf: Buffer, field: Field, attrs: dict[str, bytes | None], done: set[str]) -> Iterator[Piece]:
    key, start, end = read_attr(buf, field)
    if key not in attrs:
        if key not in done:  # if a key occurs twice, the last entry would count
            yield Span(field.start, field.end)
        return
    value = attrs.pop(key)
    done.add(key)
    if value is None:
        return
    if end - start == len(value) and buf[start:end] == value:
        yield Span(field.start, field.end)
    else:
        yield encode_attr(key, value)


def _merged(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yields the pieces, with adjacent spans and adjacent bytes joined."""
    held: Piece | None = None
    for piece in pieces:
        if held is None:
            held = piece
        elif isinstance(held, Span) and isinstance(piece, Span) and held.end == piece.start:
            held = Span(held.start, piece.end)
        elif isinstance(held, bytes) and isinstance(piece, bytes):
            held += piece
        else:
            yield held
            held = piece
    if held is not None:
        yield held


def record_tag(size: int) -> bytes:
    """Returns the tag and the length of a node record with a NodeDef of `size` bytes."""
    return b"\x0a" + encode_varint(size)


def record_body(buf: Buffer) -> int:
    """Returns the offset at which the NodeDef begins in a record that begins with `buf`."""
    if len(buf) > 2 and buf[0] < 128 and buf[1] < 128:
        return 2  # the tag and the length have one byte each
    _, pos = read_varint(buf, 0, len(buf))
    return read_varint(buf, pos, len(buf))[1]


def _text(buf: Buffer, field: Field, what: str) -> str:
    try:
        return buf[field.value : field.end].decode()
    except UnicodeDecodeError:
        raise WireError(f"a node's {what} is not UTF-8", field.value) from None
