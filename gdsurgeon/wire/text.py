"""Text GraphDefs: to binary when they are read, to text when one is written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gdsurgeon.errors import InputError, OutputError, printable
from gdsurgeon.wire.messages import decode_error, message

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool

_SUFFIXES = frozenset((".pbtxt", ".txt", ".prototxt", ".textproto"))


def is_text_name(path: str, otherwise: bool = False) -> bool:
    """Whether the suffix of PATH says that a graph is to be written as text; OTHERWISE where it says neither."""
    suffix = os.path.splitext(path)[1].lower()
    return suffix in _SUFFIXES or (otherwise and suffix != ".pb")


def to_binary(text: bytes, name: str, kind: str = "GraphDef") -> bytes:
    """The binary form of the text TEXT, a GraphDef or a message of another KIND; NAME is the file's for the message.

    Raises:
        InputError: it is not one as text; the line and what protobuf says are in the message.
    """
    from google.protobuf import text_format

    from gdsurgeon.wire.large_text import literals_aside, put_contents

    graph = message(f"tensorflow.{kind}")()
    short, aside = literals_aside(text)
    try:
        pool: DescriptorPool = graph.DESCRIPTOR.file.pool  # type: ignore[assignment]  # by which what an Any holds is known
        text_format.Parse(short.decode(), graph, descriptor_pool=pool)
        if not put_contents(graph, aside):  # what looked like such a literal is none
            graph.Clear()
            text_format.Parse(text.decode(), graph, descriptor_pool=pool)
    except UnicodeDecodeError as error:
        raise InputError(f"{printable(name)} is not a {kind}: neither binary nor UTF-8 text") from error
    except (text_format.ParseError, ValueError) as error:
        raise InputError(f"{printable(name)} is not a text {kind}: line {printable(str(error))}") from error
    except RecursionError:
        raise InputError(f"{printable(name)} is too deeply nested") from None
    return bytes(graph.SerializeToString(deterministic=True))


def to_text(data: bytes, kind: str = "GraphDef") -> bytes:
    """The text form of the binary GraphDef DATA, or of a message of another KIND.

    Raises:
        OutputError: there is none, for DATA is not one, or has fields that no text can name.
    """
    from google.protobuf import text_format

    from gdsurgeon.wire.large_text import contents_aside, with_contents

    try:
        graph = message(f"tensorflow.{kind}").FromString(data)
    except decode_error():
        raise OutputError("the graph has no text form: parts of it are corrupt", advice="binary-form") from None
    known = type(graph)()
    known.CopyFrom(graph)
    known.DiscardUnknownFields()
    if known.ByteSize() != graph.ByteSize():
        raise OutputError("the graph has fields that are not known here and that text would lose", advice="binary-form")
    aside = contents_aside(graph)
    return with_contents(text_format.MessageToString(graph).encode(), aside)
