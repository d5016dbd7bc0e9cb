"""Long strings in text: set aside, for protobuf needs some hundred bytes of memory for each byte of a literal.

Its tokenizer matches a literal with a regular expression that stores every escape, and blanks with one that stores
every blank. The time for an escape grows with the number of backslashes after it. So before the tokenizer reads the
text, short literals replace long ones, and one blank replaces many.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from gdsurgeon.wire.protos import TensorProto

LARGE = 1 << 16
"""Bytes from which on a content is set aside where text is written; and blanks where it is read."""
LONG = 1 << 10
"""Characters from which on a literal is set aside."""

_MARK = re.compile(r"[#\"']")
_BLANKS = re.compile(r"[^\S\n]{256,}")
_ANY = "google.protobuf.Any"
_NAME = re.compile(rb"set aside [0-9]+ [0-9a-f]{16}")
_PIECE = 1 << 20
_ESCAPED_AT_ONCE = 1 << 6


def literals_aside(text: str) -> tuple[str, dict[bytes, str]]:
    """TEXT with short literals instead of long ones, and the long ones, as they are escaped, by the short ones.

    Raises:
        ValueError: a long literal does not end in its line.
    """
    aside: dict[bytes, str] = {}
    out: list[str] = []
    done = at = 0
    while found := _MARK.search(text, at):
        if found.start() - at >= LARGE:
            out += [text[done:at], _BLANKS.sub(" ", text[at : found.start()])]
            done = found.start()
        start = found.end()
        end = _end_of_line(text, start) if found[0] == "#" else _end_of_literal(text, start, found[0])
        if found[0] != "#" and text[end : end + 1] != found[0]:
            if end - start < LONG:
                return "".join([*out, text[done:]]), aside  # protobuf says so, and reads no further
            raise ValueError(f"line {text.count(chr(10), 0, start) + 1}: a string is not terminated")
        if found[0] != "#" and end - start >= LONG:
            name = _name(len(aside))
            aside[name] = text[start:end]
            out += [text[done:start], name.decode()]
            done = end
        at = end + 1
    if len(text) - at >= LARGE:
        out += [text[done:at], _BLANKS.sub(" ", text[at:])]
        done = len(text)
    return ("".join([*out, text[done:]]), aside) if done else (text, aside)


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)


def _end_of_literal(text: str, start: int, quote: str) -> int:
    """Where the QUOTE is that ends the literal from START on; if its line has none, where the line ends."""
    at = start
    while True:
        end = text.find(quote, at)
        line = text.find("\n", at, end if end >= 0 else len(text))
        if line >= 0 or end < 0:
            return line if line >= 0 else len(text)
        first = end
        while first > start and text[first - 1] == "\\":
            first -= 1
        if (end - first) % 2 == 0:
            return end
        at = end + 1


def _name(number: int) -> bytes:
    return f"set aside {number} {os.urandom(8).hex()}".encode()


def put_literals(found: Message, aside: Mapping[bytes, str]) -> bool:
    """Puts the literals that were set ASIDE into the strings of FOUND; returns whether each of them had a place.

    The keys of maps, and what is packed in an Any, are no places.

    Raises:
        ValueError: a literal has a wrong escape, or is not UTF-8 in a field of text.
    """
    left = set(aside)

    def replaced(value: Any) -> Any:
        data = value if isinstance(value, bytes) else value.encode()
        names = _NAME.findall(data)
        if not left.intersection(names):
            return value
        left.difference_update(names)
        data = _NAME.sub(lambda name: _unescaped(aside[name[0]]) if name[0] in aside else name[0], data)
        try:
            return data if isinstance(value, bytes) else data.decode()
        except UnicodeDecodeError:
            raise ValueError(f"a string of {len(data):,} bytes is not UTF-8") from None

    pending = [found] if aside else []
    while pending:
        item = pending.pop()
        for field, value in item.ListFields() if item.DESCRIPTOR.full_name != _ANY else ():
            if isinstance(value, (str, bytes)):
                setattr(item, field.name, replaced(value))
            elif hasattr(value, "ListFields"):
                pending.append(value)
            elif isinstance(value, Mapping):
                for key, held in value.items():
                    if hasattr(held, "ListFields"):
                        pending.append(held)
                    elif isinstance(held, (str, bytes)):
                        value[key] = replaced(held)  # type: ignore[index]
            elif field.message_type is not None:
                pending += value
            elif field.cpp_type == field.CPPTYPE_STRING:
                value[:] = map(replaced, value)
    return not left


def _unescaped(literal: str) -> bytes:
    """Yields the bytes of `literal` in parts, none of which begins within an escape."""
    from google.protobuf.text_encoding import CUnescape

    out: list[bytes] = []
    start = 0
    while start < len(literal):
        end = literal.find("\\", start + _ESCAPED_AT_ONCE)
        piece = literal[start:end] if end >= 0 else literal[start:]
        if end >= 0 and (len(piece) - len(piece.rstrip("\\"))) % 2:
            piece += "\\"  # it is what the backslash before it escapes
        try:
            out.append(CUnescape(piece))
        except ValueError:
            raise ValueError("a string has an invalid escape sequence") from None
        start += len(piece)
    return b"".join(out)


def contents_aside(found: Message) -> dict[bytes, bytes]:
    """Takes large contents out of FOUND, and returns them by the short ones that take their places."""
    aside: dict[bytes, bytes] = {}
    for tensor in _tensors(found):
        if len(tensor.tensor_content) >= LARGE:
            name = _name(len(aside))
            aside[name] = tensor.tensor_content
            tensor.tensor_content = name
    return aside


def with_contents(text: bytes, aside: Mapping[bytes, bytes]) -> bytes:
    """TEXT with the contents that were set ASIDE, as literals."""
    out: list[bytes] = []
    done = 0
    for found in _NAME.finditer(text) if aside else ():
        content = aside.get(found[0])
        if content is not None:
            out.append(text[done : found.start()])
            out += (_escaped(content[i : i + _PIECE]) for i in range(0, len(content), _PIECE))
            done = found.end()
    return b"".join([*out, text[done:]])


def _escaped(data: bytes) -> bytes:
    return data.decode("latin-1").translate(_escapes()).encode()


@cache
def _escapes() -> dict[int, str]:
    """How protobuf spells each byte in a literal."""
    from google.protobuf.text_encoding import CEscape

    return {byte: CEscape(bytes([byte]), False) for byte in range(256)}


def _tensors(found: Message) -> Iterator[TensorProto]:
    """The tensors in a message, but for those that are in an Any."""
    pending = [found]
    while pending:
        item = pending.pop()
        if item.DESCRIPTOR.name == "TensorProto":
            yield item  # type: ignore[misc]
            continue
        for field, value in item.ListFields():
            if field.message_type is None:
                continue
            if hasattr(value, "ListFields"):
                pending.append(value)
            elif isinstance(value, Mapping):
                pending += (held for held in value.values() if hasattr(held, "ListFields"))
            else:
                pending += value
