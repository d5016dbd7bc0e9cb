"""Large constants in text: set aside, for protobuf takes some hundred bytes of memory for each byte of a literal.

Its tokenizer matches a literal with a regular expression that remembers every escape of it. What is set aside are the
literals of `tensor_content`; a short one takes the place of each, and theirs in turn what it stands for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from gdsurgeon.wire.protos import TensorProto

LARGE = 1 << 16
"""Bytes from which on a literal, or a content, is set aside."""

_OPENING = re.compile(rb'\btensor_content\s*:\s*"')
_GOES_ON = re.compile(rb"\s*[\"']")  # literals that follow each other are one
_NAME = re.compile(rb"set aside [0-9]+ [0-9a-f]{16}")
_PIECE = 1 << 20


def literals_aside(text: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """TEXT with short literals in the place of long ones, and the long ones, as they are escaped, by the short ones."""
    aside: dict[bytes, bytes] = {}
    out: list[bytes] = []
    done = 0
    for found in _OPENING.finditer(text) if len(text) >= LARGE else ():
        start = found.end()
        if start < done:
            continue  # inside of one
        end = _end_of_literal(text, start)
        is_whole = end >= 0 and text.find(b"\n", start, end) < 0 and not _GOES_ON.match(text, end + 1)
        if is_whole and end - start >= LARGE:
            name = _name(len(aside))
            aside[name] = text[start:end]
            out += [text[done:start], name]
            done = end
    return (b"".join([*out, text[done:]]), aside) if aside else (text, aside)


def _end_of_literal(text: bytes, start: int) -> int:
    """Where the quote is that ends the literal from START on; -1 where there is none."""
    end = text.find(b'"', start)
    while end >= 0:
        first = end
        while first > start and text[first - 1] == 0x5C:
            first -= 1
        if (end - first) % 2 == 0:
            return end
        end = text.find(b'"', end + 1)
    return -1


def _name(number: int) -> bytes:
    return f"set aside {number} {os.urandom(8).hex()}".encode()


def put_contents(found: Message, aside: Mapping[bytes, bytes]) -> bool:
    """Has tensors of FOUND hold what was set ASIDE, literals; whether each of them is one, and had its place."""
    from google.protobuf.text_encoding import CUnescape

    places = [tensor for tensor in _tensors(found) if tensor.tensor_content in aside]
    if len(places) != len(aside):
        return False
    try:
        for tensor in places:
            tensor.tensor_content = CUnescape(aside[tensor.tensor_content].decode())
    except ValueError:
        return False
    return True


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
