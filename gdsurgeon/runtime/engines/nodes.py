"""What an engine has to be told of a GraphDef's nodes, read off its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class NodeFacts(NamedTuple):
    """A node: its op, its inputs, and its attr ``data_format``, '' if it has none."""

    op: str
    inputs: tuple[str, ...]
    data_format: str


def nodes_of(graph_def: bytes) -> dict[str, NodeFacts]:
    """The nodes of a serialised GraphDef by name. O(n) in its bytes; tensors are not looked into.

    Raises:
        ValueError: GRAPH_DEF is not a GraphDef.
    """
    return dict(_node(data) for number, data in _fields(memoryview(graph_def)) if number == 1)


def _node(data: memoryview) -> tuple[str, NodeFacts]:
    texts: dict[int, str] = {1: "", 2: ""}
    inputs: list[str] = []
    data_format = ""
    for number, value in _fields(data):
        if number == 3:
            inputs.append(_text(value))
        elif number == 5:
            entry = dict(_fields(value))
            if _text(entry.get(1, memoryview(b""))) == "data_format":
                data_format = _text(dict(_fields(entry.get(2, memoryview(b"")))).get(2, memoryview(b"")))
        elif number in texts:
            texts[number] = _text(value)
    return texts[1], NodeFacts(texts[2], tuple(inputs), data_format)


def _text(value: memoryview) -> str:
    return bytes(value).decode("utf-8", "surrogateescape")


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The fields of a message that have a length, with their numbers; others are skipped."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == 0:
            _, place = _varint(data, place)
        elif kind in (1, 5):
            place += 8 if kind == 1 else 4
        elif kind == 2:
            size, place = _varint(data, place)
            if size > len(data) - place:
                raise ValueError("a field is longer than the message that contains it")
            yield tag >> 3, data[place : place + size]
            place += size
        else:
            raise ValueError(f"a field of wire type {kind}")


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if place >= len(data):
            raise ValueError("the data ends inside a number")
        byte = data[place]
        number |= (byte & 127) << shift
        place += 1
        shift += 7
        if byte < 128:
            return number, place
