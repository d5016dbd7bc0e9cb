"""Loads a graph: finds out what the file is by its content, and says so where it is something else."""

from __future__ import annotations

from gdsurgeon.arguments import public
from gdsurgeon.errors import InputError, printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire import sniff
from gdsurgeon.wire.source import STANDARD_INPUT_NAME, BytesSource, Source, Window, open_source

LARGEST_TEXT = 2 << 30
"""Bytes of a text graph: protobuf's limit, and all of it is parsed at once."""


def load(path: str) -> Graph:
    """The graph in the file PATH (``-``: standard input), a frozen GraphDef in binary or text form.

    Raises:
        InputError: it cannot be read, or is something else; the message says what.
    """
    return from_source(open_source(path))


@public
def from_bytes(data: bytes, name: str = "<bytes>") -> Graph:
    """The graph in DATA. Raises InputError."""
    return from_source(BytesSource(data, name))


def from_source(source: Source) -> Graph:
    """The graph in SOURCE. Raises InputError."""
    window = Window(source, 0, source.size)
    if sniff.is_binary_graph(window):
        return Graph(source)
    head = source.read(0, min(sniff.HEAD, source.size))
    foreign = sniff.foreign_format(head)
    if foreign is None and sniff.is_text(head):
        return _from_text(source, head)
    if foreign is None and sniff.is_data_of_checkpoint(source.name):
        foreign = sniff.DATA
    if foreign is None:
        foreign = sniff.container_format(window)
    if foreign is not None:
        is_starved = not head and source.name == STANDARD_INPUT_NAME
        raise sniff.wrong_format(source.name, foreign, "front-of-pipe" if is_starved else "")
    return Graph(source)


def _from_text(source: Source, head: bytes) -> Graph:
    from gdsurgeon.wire.text import to_binary

    if not sniff.is_text_graph(head) or source.size > LARGEST_TEXT:
        line = f"{printable(source.name)} is a text file, but not a GraphDef in text form"
        raise InputError(line, code="wrong-format", facts={"file": source.name, "found": "text"})
    data = to_binary(source.read(0, source.size), source.name)
    return Graph(BytesSource(data, source.name), text=source, file_bytes=source.size)
