"""Text GraphDefs: to binary when they are read, to text when one is written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gdsurgeon.errors import InputError, OutputError, printable
from gdsurgeon.text import shortened
from gdsurgeon.wire.messages import decode_error, message

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool

MOST_SAID = 500
"""Characters of what protobuf says of a text: it quotes what it cannot read."""
_SUFFIXES = frozenset((".pbtxt", ".txt", ".prototxt", ".textproto"))


def is_text_name(path: str, otherwise: bool = False) -> bool:
    """Returns whether the suffix of `path` stands for the text form of a graph; `otherwise` for an unknown suffix."""
    suffix = os.path.splitext(path)[1].lower()
    return suffix in _SUFFIXES or (otherwise and suffix != ".pb")


def to_binary(text: bytes, name: str, kind: str = "GraphDef") -> bytes:
    """The binary form of the text TEXT, a GraphDef or a message of another KIND; NAME is the file's for the message.

    Raises:
        InputError: it is not one as text; the line and what protobuf says are in the message.
    """
    from google.protobuf import text_format

    from gdsurgeon.wire.large_text import LONG, literals_aside, put_literals

    graph = message(f"tensorflow.{kind}")()
    try:
        pool: DescriptorPool = graph.DESCRIPTOR.file.pool  # type: ignore[assignment]  # by which what an Any holds is known
        short, aside = literals_aside(text.decode())
        text_format.Parse(short, graph, descriptor_pool=pool)
        has_places = put_literals(graph, aside)
        data = bytes(graph.SerializeToString(deterministic=True))
    except UnicodeDecodeError as error:
        line = f"{printable(name)} is not a {kind}: neither binary nor UTF-8 text"
        raise InputError(line, code="not-text", file=name) from error
    except (text_format.ParseError, ValueError) as error:
        said = f"line {error}" if isinstance(error, text_format.ParseError) else str(error)
        line = f"{printable(name)} is not a text {kind}: {printable(shortened(said, MOST_SAID))}"
        raise InputError(line, code="wrong-format", facts={"file": name, "found": "text"}) from error
    except RecursionError:
        line = f"{printable(name)} is too deeply nested"
        raise InputError(line, code="too-large", facts={"file": name, "reason": "nesting"}) from None
    if not has_places:
        line = f"{printable(name)} has a map key or an Any message with a string of {LONG:,} characters or more"
        raise InputError(line, code="too-large", facts={"file": name, "reason": "string"})
    return data


def to_text(data: bytes, kind: str = "GraphDef") -> bytes:
    """The text form of the binary GraphDef DATA, or of a message of another KIND.

    Raises:
        OutputError: `data` is not such a message, or has fields that the text form cannot name.
    """
    from google.protobuf import text_format

    from gdsurgeon.wire.large_text import contents_aside, with_contents

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
    aside = contents_aside(graph)
    return with_contents(text_format.MessageToString(graph).encode(), aside)
