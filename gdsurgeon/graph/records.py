"""The records of nodes in a file: one where it lies, and many parsed by one call."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, NoReturn

from gdsurgeon.errors import InputError, printable
from gdsurgeon.wire.fields import Buffer, Field, WireError
from gdsurgeon.wire.messages import decode_error, message, unknown_fields
from gdsurgeon.wire.node_record import Header, read_header, record_body
from gdsurgeon.wire.protos import NodeDef
from gdsurgeon.wire.scan import LARGE, Run, is_node, scan
from gdsurgeon.wire.source import Source, Window


class Record(NamedTuple):
    """Where the record of a node lies: its tag at `start`, the NodeDef from `body` to `end` (`data`, if tiny)."""

    source: Source
    start: int
    body: int
    end: int
    data: bytes | None = None

    def buffer(self) -> Buffer:
        """The bytes of the NodeDef, counted from 0; in memory where they are few."""
        if self.data is not None:
            return self.data
        if self.end - self.body <= LARGE:
            return self.source.read(self.body, self.end - self.body)
        return Window(self.source, self.body, self.end)

    def header(self) -> Header:
        """The header. Raises InputError where the record is not a NodeDef."""
        try:
            return read_header(self.buffer(), 0, self.end - self.body)
        except WireError as error:
            _corrupt(self.source, error.reason, self.body + error.offset)


def _corrupt(source: Source, reason: str, offset: int) -> NoReturn:
    what = "truncated or corrupt" if "cut short" in reason else "corrupt"
    raise InputError(
        f"{printable(source.name)} is {what}: {reason} (at byte {offset:,} of {source.size:,})",
        hint="was the transfer complete, and in binary mode?",
    )


def scanned(source: Source, *, cut: bool = False) -> Iterator[Run | Field]:
    """`scan`, with what is wrong said of the file. Raises InputError."""
    try:
        yield from scan(source, cut=cut)
    except WireError as error:
        _corrupt(source, error.reason, error.offset)


def record_at(source: Source, start: int, end: int) -> Record:
    """The record from START to END of SOURCE."""
    if end - start <= _TINY:
        data = source.read(start, end - start)
        body = record_body(data, 0, len(data))
        return Record(source, start, start + body, end, data[body:])
    head = source.read(start, 22)
    return Record(source, start, start + record_body(head, 0, len(head)), end)


_TINY = 512
"""Bytes of a record that is kept in memory once it was asked for: it is needed again for each thing about it."""


class Batch(NamedTuple):
    """Consecutive nodes, column by column.

    Attributes:
        run: their records.
        names, ops: one for each node.
        inputs: those of all nodes as they are spelt.
        kinds: a character for each input, `DATA_INPUT` or `CONTROL_INPUT`, and `END_OF_NODE` after each node.
        attrs: the entries of the attr maps, serialised, with an empty one after each node; none at all where they were
            not asked for.
    """

    run: Run
    names: list[str]
    ops: list[str]
    inputs: list[str]
    kinds: str
    attrs: list[bytes]

    def records(self, source: Source) -> Iterator[Record]:
        """The records one by one."""
        return _records(source, self.run)


END_OF_NODE, DATA_INPUT, CONTROL_INPUT = "\0", "\1", "^"

Item = Batch | Record | Field
"""A batch, a node that is in none, or another top-level field."""


def batches(source: Source, *, attrs: bool = False) -> Iterator[Item]:
    """Everything in the file, in its order: nodes in batches as far as they are regular, and one by one where not.

    A regular node has one name, with which an input can name it, one op, and no empty input; with ATTRS also nothing
    outside its attrs that protobuf does not know or cannot read.

    Raises:
        InputError: the file is corrupt.
    """
    for item in scanned(source, cut=True):
        if isinstance(item, Run):
            batch = _batch(item, attrs=attrs)
            if batch is None:
                yield from _records(source, item)
            else:
                yield batch
        elif is_node(item):
            yield Record(source, item.start, item.value, item.end)
        else:
            yield item


def parsed_nodes(source: Source) -> Iterator[NodeDef | Record]:
    """All nodes in the order of the file: as messages, or as records where they are large or protobuf cannot read them.

    Raises:
        InputError: the file is corrupt.
    """
    for item in scanned(source):
        if isinstance(item, Run):
            try:
                yield from message("tensorflow.GraphDef").FromString(item.buf[: item.bounds[-1]]).node
            except decode_error():
                yield from _records(source, item)
        elif is_node(item):
            yield Record(source, item.start, item.value, item.end)


def _records(source: Source, run: Run) -> Iterator[Record]:
    for start, end in pairwise(run.bounds):
        yield record_at(source, run.base + start, run.base + end)


def _batch(run: Run, *, attrs: bool) -> Batch | None:
    """The nodes of RUN parsed by one call: their bodies concatenated, with an empty field of each kind after each."""
    count = len(run.bounds) - 1
    mark = _MARK + b"\x2a\x00" if attrs else _MARK
    columns = message("gdsurgeon.NodeRecords" if attrs else "gdsurgeon.NodeHeaders")
    try:
        parsed = columns.FromString(mark.join(run.bodies()) + mark)
    except decode_error():
        return None
    # Slices of what was parsed are lists; to iterate over it takes longer.
    names, ops, inputs = parsed.name[::2], parsed.op[::2], parsed.input[:]
    entries = parsed.attr[:] if attrs else []
    marks = [""] * count
    # Where a field is missing, empty or doubled anywhere the columns would shift.
    for column, own in ((parsed.name, names), (parsed.op, ops)):
        if len(column) != 2 * count or column[1::2] != marks or not all(own):
            return None
    joined = "".join(names)
    if ":" in joined or "^" in joined:
        return None
    if run.buf.find(b"^", 0, run.bounds[-1]) >= 0:
        kinds = "".join([input_kind(text) if text else END_OF_NODE for text in inputs])
    else:
        kinds = bytes(map(bool, inputs)).decode()
    if kinds.count(END_OF_NODE) != count:
        return None
    if attrs and (entries.count(b"") != count or len(unknown_fields(parsed))):
        return None
    return Batch(run, names, ops, list(filter(None, inputs)), kinds, entries)


def input_kind(text: str) -> str:
    """Of which kind the input is that is spelt so."""
    return CONTROL_INPUT if text[:1] == "^" else DATA_INPUT


_MARK = b"\x0a\x00\x12\x00\x1a\x00"
