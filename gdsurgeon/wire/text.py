"""Text GraphDefs: to binary when they are read, to text when one is written.

protobuf needs some hundred bytes of memory for each byte of a literal: its tokenizer matches a literal with a regular
expression that stores every escape, and blanks with one that stores every blank. The time for an escape grows with the
number of backslashes after it. So before the tokenizer reads the text, short literals replace long ones, and one blank
replaces many.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from gdsurgeon.errors import InputError, OutputError, printable
from gdsurgeon.text import shortened
from gdsurgeon.wire.protos import decode_error, message

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

LARGE = 1 << 16
"""The minimum size of a tensor content that is written separately, and the minimum run of blanks that is replaced."""
LONG = 1 << 10
"""The minimum length of a literal that is read separately, in characters."""
_LONGEST_QUOTE = 500
"""The maximum length of a quoted protobuf error, which quotes the invalid text."""
_SUFFIXES = frozenset((".pbtxt", ".txt", ".prototxt", ".textproto"))
_MARK = re.compile(r"[#\"']")
_BLANKS = re.compile(r"[^\S\n]{256,}")
_ANY = "google.protobuf.Any"
_NAME = re.compile(rb"set aside [0-9]+ [0-9a-f]{16}")
_PIECE = 1 << 20
_ESCAPED_AT_ONCE = 1 << 6


def is_text_name(path: str, otherwise: bool = False) -> bool:
    """Returns whether the suffix of `path` stands for the text form of a graph; `otherwise` for an unknown suffix."""
    suffix = os.path.splitext(path)[1].lower()
    return suffix in _SUFFIXES or (otherwise and suffix != ".pb")


# -- reading -----------------------------------------------------------------------------------------------------


def to_binary(text: bytes, name: str, kind: str = "GraphDef") -> bytes:
    """Returns the binary form of the text of a `kind` message; `name` is the name of the file in messages.

    Raises:
        InputError: `text` is not the text of such a message; the error quotes the line and error of protobuf.
    """
    from google.protobuf import text_format

    graph = message(f"tensorflow.{kind}")()
    try:
        pool: DescriptorPool = graph.DESCRIPTOR.file.pool  # type: ignore[assignment]  # has the messages of an Any
        short, literals = literals_aside(text.decode())
        text_format.Parse(short, graph, descriptor_pool=pool)
        has_places = _put_literals(graph, literals)
        data = bytes(graph.SerializeToString(deterministic=True))
    except UnicodeDecodeError as error:
        line = f"{printable(name)} is not a {kind}: neither binary nor UTF-8 text"
        raise InputError(line, code="not-text", file=name) from error
    except (text_format.ParseError, ValueError) as error:
        reason = f"line {error}" if isinstance(error, text_format.ParseError) else str(error)
        line = f"{printable(name)} is not a text {kind}: {printable(shortened(reason, _LONGEST_QUOTE))}"
        raise InputError(line, code="wrong-format", file=name, found="text") from error
    except RecursionError:
        line = f"{printable(name)} is too deeply nested"
        raise InputError(line, code="too-large", file=name, reason="nesting") from None
    if not has_places:
        line = f"{printable(name)} has a map key or an Any message with a string of {LONG:,} characters or more"
        raise InputError(line, code="too-large", file=name, reason="string")
    return data


def literals_aside(text: str) -> tuple[str, dict[bytes, str]]:
    """Returns `text` with short literals instead of long ones, and the escaped long ones by the short ones.

    Raises:
        ValueError: a long literal does not end in its line.
    """
    literals: dict[bytes, str] = {}
    out: list[str] = []
    done = at = 0
    while found := _MARK.search(text, at):
        if found.start() - at >= LARGE:
            out += [text[done:at], _BLANKS.sub(" ", text[at : found.start()])]
            done = found.start()
        start = found.end()
        if found[0] == "#":
            end = text.find("\n", start)
            end = end if end >= 0 else len(text)
        else:
            end = _end_of_literal(text, start, found[0])
        if found[0] != "#" and text[end : end + 1] != found[0]:
            if end - start < LONG:
                return "".join([*out, text[done:]]), literals  # protobuf reports the error and stops here
            raise ValueError(f"line {text.count(chr(10), 0, start) + 1}: a string is not terminated")
        if found[0] != "#" and end - start >= LONG:
            name = _name(len(literals))
            literals[name] = text[start:end]
            out += [text[done:start], name.decode()]
            done = end
        at = end + 1
    if len(text) - at >= LARGE:
        out += [text[done:at], _BLANKS.sub(" ", text[at:])]
        done = len(text)
    return ("".join([*out, text[done:]]), literals) if done else (text, literals)


def _end_of_literal(text: str, start: int, quote: str) -> int:
    """Returns the place of the `quote` that ends the literal at `start`; without a quote, the end of the line."""
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


def _messages(found: Message) -> Iterator[Message]:
    """Yields a message and all messages in it, but for those that are packed in an Any."""
    pending = [found]
    while pending:
        item = pending.pop()
        yield item
        for field, value in item.ListFields():
            if field.message_type is None:
                continue
            if hasattr(value, "ListFields"):
                pending.append(value)
            elif isinstance(value, Mapping):
                pending += (held for held in value.values() if hasattr(held, "ListFields"))
            else:
                pending += value


def _put_literals(found: Message, literals: Mapping[bytes, str]) -> bool:
    """Puts the long `literals` into the strings of a message; returns whether all of them were placed.

    The keys of maps, and messages that are packed in an Any, have no places.

    Raises:
        ValueError: a literal has a wrong escape, or is not UTF-8 in a field of text.
    """
    left = set(literals)

    def replaced(value: Any) -> Any:
        data = value if isinstance(value, bytes) else value.encode()
        names = _NAME.findall(data)
        if not left.intersection(names):
            return value
        left.difference_update(names)
        data = _NAME.sub(lambda name: _unescaped(literals[name[0]]) if name[0] in literals else name[0], data)
        try:
            return data if isinstance(value, bytes) else data.decode()
        except UnicodeDecodeError:
            raise ValueError(f"a string of {len(data):,} bytes is not UTF-8") from None

    for item in _messages(found) if literals else ():
        for field, value in item.ListFields() if item.DESCRIPTOR.full_name != _ANY else ():
            if isinstance(value, (str, bytes)):
                setattr(item, field.name, replaced(value))
            elif isinstance(value, Mapping):
                for key, held in value.items():
                    if isinstance(held, (str, bytes)):
                        value[key] = replaced(held)  # type: ignore[index]
            elif field.message_type is None and field.cpp_type == field.CPPTYPE_STRING:
                value[:] = map(replaced, value)
    return not left


def _unescaped(literal: str) -> bytes:
    """Returns the bytes of `literal`, which is read in parts that do not begin within an escape."""
    from google.protobuf.text_encoding import CUnescape

    out: list[bytes] = []
    start = 0
    while start < len(literal):
        end = literal.find("\\", start + _ESCAPED_AT_ONCE)
        piece = literal[start:end] if end >= 0 else literal[start:]
        if end >= 0 and (len(piece) - len(piece.rstrip("\\"))) % 2:
            piece += "\\"  # the preceding backslash escapes this one
        try:
            out.append(CUnescape(piece))
        except ValueError:
            raise ValueError("a string has an invalid escape sequence") from None
        start += len(piece)
    return b"".join(out)


# -- writing -----------------------------------------------------------------------------------------------------


def to_text(data: bytes, kind: str = "GraphDef") -> bytes:
    """Returns the text form of a binary `kind` message.

    Raises:
        OutputError: `data` is not such a message, or has fields that the text form cannot name.
    """
    from google.protobuf import text_format

    try:
        graph = message(f"tensorflow.{kind}").FromString(data)
    except decode_error():
        line = "the graph has no text form, because parts of it are corrupt"
        raise OutputError(line, code="corrupt", advice="binary-form") from None
    known = type(graph)()
    known.CopyFrom(graph)
    known.DiscardUnknownFields()
    if known.ByteSize() != graph.ByteSize():
        line = "the graph has fields that this version of gdsurgeon does not know; the text form would lose them"
        raise OutputError(line, code="unknown-fields", advice="binary-form")
    contents = contents_aside(graph)
    text = text_format.MessageToString(graph).encode()
    out: list[bytes] = []
    done = 0
    for found in _NAME.finditer(text) if contents else ():
        content = contents.get(found[0])
        if content is not None:
            out.append(text[done : found.start()])
            pieces = (content[i : i + _PIECE] for i in range(0, len(content), _PIECE))
            out += (piece.decode("latin-1").translate(_escapes()).encode() for piece in pieces)
            done = found.end()
    return b"".join([*out, text[done:]])


def contents_aside(found: Message) -> dict[bytes, bytes]:
    """Replaces large tensor contents in a message by short names; returns the large contents by those names."""
    contents: dict[bytes, bytes] = {}
    for item in _messages(found):
        tensor: Any = item
        if item.DESCRIPTOR.name == "TensorProto" and len(tensor.tensor_content) >= LARGE:
            name = _name(len(contents))
            contents[name] = tensor.tensor_content
            tensor.tensor_content = name
    return contents


@cache
def _escapes() -> dict[int, str]:
    """Returns the escaped form of each byte in a protobuf string literal."""
    from google.protobuf.text_encoding import CEscape

    return {byte: CEscape(bytes([byte]), False) for byte in range(256)}
