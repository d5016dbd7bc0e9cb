"""Text GraphDefs: to binary when they are read, to text when one is written."""

from __future__ import annotations

import os

from gdsurgeon.errors import InputError, OutputError, printable
from gdsurgeon.wire.messages import decode_error, message

_SUFFIXES = frozenset((".pbtxt", ".txt", ".prototxt", ".textproto"))


def is_text_name(path: str, otherwise: bool = False) -> bool:
    """Whether the suffix of PATH says that a graph is to be written as text; OTHERWISE where it says neither."""
    suffix = os.path.splitext(path)[1].lower()
    return suffix in _SUFFIXES or (otherwise and suffix != ".pb")


def to_binary(text: bytes, name: str) -> bytes:
    """The binary form of the text GraphDef TEXT; NAME is the file's for the message.

    Raises:
        InputError: it is not a text GraphDef; the line and what protobuf says are in the message.
    """
    from google.protobuf import text_format

    graph = message("tensorflow.GraphDef")()
    try:
        text_format.Parse(text.decode(), graph)
    except UnicodeDecodeError as error:
        raise InputError(f"{printable(name)} is not a GraphDef: neither binary nor UTF-8 text") from error
    except (text_format.ParseError, ValueError) as error:
        raise InputError(f"{printable(name)} is not a text GraphDef: line {printable(str(error))}") from error
    except RecursionError:
        raise InputError(f"{printable(name)} is too deeply nested") from None
    return bytes(graph.SerializeToString(deterministic=True))


def to_text(data: bytes) -> bytes:
    """The text form of the binary GraphDef DATA.

    Raises:
        OutputError: there is none, for DATA is not one, or has fields that no text can name.
    """
    from google.protobuf import text_format

    try:
        graph = message("tensorflow.GraphDef").FromString(data)
    except decode_error():
        raise OutputError("the graph has no text form: parts of it are corrupt", advice="binary-form") from None
    known = type(graph)()
    known.CopyFrom(graph)
    known.DiscardUnknownFields()
    if known.ByteSize() != graph.ByteSize():
        raise OutputError("the graph has fields that are not known here and that text would lose", advice="binary-form")
    return bytes(text_format.MessageToString(graph).encode())
