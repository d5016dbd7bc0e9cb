"""The records of nodes in a file: found by a scan, read in place, or parsed many at once."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from itertools import count as counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gdsurgeon.wire.fields import LEN, Buffer, Field, WireError, read_field, read_varint
from gdsurgeon.wire.node_record import Header, read_header, record_body
from gdsurgeon.wire.protos import (
    GraphDef,
    NodeBodies,
    NodeColumns,
    NodeDef,
    NodeHeaders,
    NodeLinks,
    decode_error,
    unknown_fields,
)
from gdsurgeon.wire.source import Source, Window, corrupt

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars

_Value = TypeVar("_Value")


class Record(NamedTuple):
    """The location of a node's record: tag at `start`, NodeDef from `body` to `end` (`data`: its bytes, if tiny)."""

    source: Source
    start: int
    body: int
    end: int
    data: bytes | None = None

    def buffer(self) -> Buffer:
        """Returns the bytes of the NodeDef, with offsets from 0; in memory unless there are more than `LARGE` bytes."""
        if self.data is not None:
            return self.data
        if self.end - self.body <= LARGE:
            return self.source.read(self.body, self.end - self.body)
        return Window(self.source, self.body, self.end)

    def header(self) -> Header:
        """Returns the header. Raises InputError if the record is not a NodeDef."""
        try:
            return read_header(self.buffer())
        except WireError as error:
            raise corrupt(self.source, error, self.body) from error


class Layout(NamedTuple):
    """Data about the file outside the content of its nodes, collected in one pass.

    Attributes:
        node_count: the number of node records.
        end_of_nodes: the offset after the last node record; 0 if there are no nodes.
        others: the top-level fields that are not nodes.
    """

    node_count: int
    end_of_nodes: int
    others: tuple[Field, ...]


def record_at(source: Source, start: int, end: int, data: bytes | None = None) -> Record:
    """Returns the record from `start` to `end` of `source`; `data` are its bytes, if already read."""
    if data is None:
        data = source.read(start, end - start if end - start <= _TINY else 22)
    body = record_body(data)
    return Record(source, start, start + body, end, data[body:] if end - start <= _TINY else None)


_TINY = 512
"""Most bytes of a record that is kept in memory after the first read, because later queries read it again."""


class Batch(NamedTuple):
    """Consecutive nodes, column by column.

    Attributes:
        run: the records of the nodes.
        names: one for each node.
        inputs: the inputs of all nodes as spelled, with an empty string after each node (a node's own input may also be
            empty).
        forms: the serialized fields of nodes other than names and inputs, each once; empty if not requested.
        ops: the op of each form; if forms were not requested, the distinct ops.
        form_of: for each node the index of its form (or of its op).
    """

    run: Run
    names: list[str]
    inputs: list[str]
    forms: list[bytes]
    ops: list[str]
    form_of: list[int]


DATA_INPUT, CONTROL_INPUT = b"\1", b"^"

Item = Batch | Record | Field
"""A batch, a single node, or a top-level field that is not a node."""


def batches(source: Source, *, forms: bool = False) -> Iterator[Item]:
    """Yields the whole file in order: regular nodes in batches, irregular ones one by one.

    A regular node has one name, which an input can spell, and one op. With `forms`, protobuf must also be able to parse
    the node, and the node has no unknown fields outside its attrs.

    Raises:
        InputError: the file is corrupt.
    """
    for item in scan(source, cut=True):
        if isinstance(item, Run):
            batch = batch_of(item, forms=forms)
            if batch is None:
                yield from item.records(source)
            else:
                yield batch
        elif is_node(item):
            yield Record(source, item.start, item.value, item.end)
        else:
            yield item


def forms_of(source: Source) -> Iterator[bytes | Record]:
    """Yields the form of each node, see `Batch`, and irregular nodes as records. Raises InputError as `batches`."""
    for item in batches(source, forms=True):
        if isinstance(item, Batch):
            yield from map(item.forms.__getitem__, item.form_of)
        elif isinstance(item, Record):
            yield item


def records_with(run: Run, needles: Sequence[bytes]) -> list[tuple[int, int]]:
    """Returns the bounds of the records of `run` that contain one of `needles`, in file order."""
    rows: set[int] = set()
    buf, limit = run.buf, run.size
    for needle in needles:
        pos = buf.find(needle, 0, limit)
        while pos >= 0:
            row = bisect_right(run.bounds, pos) - 1
            rows.add(row)
            pos = buf.find(needle, run.bounds[row + 1], limit)
    return [(run.bounds[row], run.bounds[row + 1]) for row in sorted(rows)]


def parsed_nodes(source: Source) -> Iterator[NodeDef | Record]:
    """Yields all nodes in file order: as messages, or as records if they are large or protobuf cannot parse their run.

    Raises:
        InputError: the file is corrupt.
    """
    for item in scan(source):
        if isinstance(item, Run):
            try:
                yield from GraphDef.FromString(item.buf[: item.size]).node
            except decode_error():
                yield from item.records(source)
        elif is_node(item):
            yield Record(source, item.start, item.value, item.end)


def batch_of(run: Run, *, forms: bool) -> Batch | None:
    """Returns the nodes of `run`; None if a node is not regular. For `forms` and regular nodes, see `batches`.

    One call parses all nodes: their bodies, each followed by an empty field of each kind.
    """
    count = len(run.sizes)
    mark = _APART + _MARK if forms else _MARK + _OP_MARK
    columns: type[NodeColumns] = NodeLinks if forms else NodeHeaders
    try:
        parsed = columns.FromString(mark.join(run.bodies()) + mark)
    except decode_error():
        return None
    names, inputs = _own(parsed.name, count), parsed.input[:]
    if names is None or ":" in (joined := "".join(names)) or "^" in joined:
        return None
    if not forms:
        found = _own(parsed.op, count)
        return None if found is None else Batch(run, names, inputs, [], *distinct(found))
    # The remaining data are fields that the message type does not declare, in the order of the file.
    parsed.ClearField("name")
    parsed.ClearField("input")
    rest = parsed.SerializeToString().split(_APART)
    if rest.pop() or len(rest) != count:
        return None
    all_forms, form_of = distinct(rest)
    ops = _ops_of(all_forms)
    return None if ops is None else Batch(run, names, inputs, all_forms, ops, form_of)


def distinct(values: list[_Value]) -> tuple[list[_Value], list[int]]:
    """Returns the distinct `values`, and for each of `values` its index among them."""
    places: dict[_Value, int] = defaultdict(counter().__next__)
    place_of = list(map(places.__getitem__, values))
    return list(places), place_of


def _ops_of(forms: list[bytes]) -> list[str] | None:
    """Returns the op of each of `forms`; None if one is not regular, for example if it ends within a field."""
    try:
        ops = [node.op for node in map(NodeDef.FromString, forms)]
        whole = NodeDef.FromString(b"".join(forms))
    except decode_error():
        return None
    return ops if all(ops) and not len(unknown_fields(whole)) else None


def _own(column: Scalars[str], count: int) -> list[str] | None:
    """Returns the `count` values in `column`, each before an empty one; None if one is missing, empty or doubled."""
    own = column[::2]  # slices of a repeated field are lists, which are faster to iterate over
    return own if len(column) == 2 * count and not any(column[1::2]) and all(own) else None


def input_kind(text: str) -> bytes:
    """Returns the kind of the input spelled `text`: `DATA_INPUT` or `CONTROL_INPUT`."""
    return CONTROL_INPUT if text[:1] == "^" else DATA_INPUT


_MARK, _OP_MARK = b"\x0a\x00\x1a\x00", b"\x12\x00"
_APART = b"\xfa\xff\xff\xff\x0f\x0bend of node"
"""A field with the highest number, put between nodes as a separator. It occurs once for each node, unless a node also
contains it.
"""


NODE, LIBRARY, VERSION, VERSIONS, DEBUG_INFO = 1, 2, 3, 4, 5
"""Field numbers of GraphDef."""

SMALLEST_CHUNK, LARGEST_CHUNK = 1 << 14, 1 << 20
"""Bytes read at a time: few after a large node (a second may follow), then more and more while nodes are small."""

LARGE = 1 << 16
"""A node record of more bytes than this is not read at once, but field by field."""


AT_ONCE = 1 << 16
"""The minimum size in bytes of a chunk that protobuf cuts into records; for less it is not worthwhile."""

_GUESSES = 1000


class Run:
    """Consecutive small node records that are in memory.

    Attributes:
        base: where `buf` begins in the source.
        buf: bytes of the source that begin with the records.
        sizes: bytes of each record, its tag and length included.
        size: bytes of all.
        cut: the NodeDefs, if they were already separated; else None.
    """

    __slots__ = ("_bounds", "base", "buf", "cut", "size", "sizes")

    def __init__(self, base: int, buf: bytes, sizes: list[int], cut: list[bytes] | None = None) -> None:
        self.base, self.buf, self.sizes, self.cut = base, buf, sizes, cut
        self.size = sum(sizes)
        self._bounds: list[int] = []

    @property
    def bounds(self) -> list[int]:
        """Where the records begin in `buf`, and the end of the last."""
        if not self._bounds:
            self._bounds = list(accumulate(self.sizes, initial=0))
        return self._bounds

    def records(self, source: Source) -> Iterator[Record]:
        """Yields the records."""
        for start, end in pairwise(self.bounds):
            yield record_at(source, self.base + start, self.base + end)

    def bodies(self) -> list[bytes]:
        """Returns the NodeDefs, each without its tag and length."""
        if self.cut is not None:
            return self.cut
        buf = self.buf
        # The length has one byte, two bytes, or any other encoding.
        return [
            buf[a + (2 if buf[a + 1] < 128 else 3 if buf[a + 2] < 128 else read_varint(buf, a + 1, b)[1] - a) : b]
            for a, b in pairwise(self.bounds)
        ]


def scan(source: Source, *, cut: bool = False) -> Iterator[Run | Field]:
    """Yields the top-level fields of the GraphDef in `source`, in file order, in one pass.

    Small nodes are yielded in runs. With `cut`, long runs already hold the separate NodeDefs (a search does not need
    them). Large nodes and all other fields are yielded one by one, as offsets into the source.

    Raises:
        InputError: the bytes are not a sequence of protobuf fields; the error has the offset of the invalid field.
    """
    offset, size, chunk = 0, source.size, SMALLEST_CHUNK
    while offset < size:
        buf = source.read(offset, min(chunk, size - offset))
        bodies, sizes = _cut_at_once(buf) if cut and len(buf) >= AT_ONCE else (None, [])
        stop = False
        if bodies is None:
            sizes, stop = _small_nodes(buf, at_end=offset + len(buf) == size)
        if sizes:
            run = Run(offset, buf, sizes, bodies)
            yield run
            offset += run.size
        if stop:
            try:
                found = read_field(Window(source, offset, size), 0, size - offset)
            except WireError as error:
                raise corrupt(source, error, offset) from error
            field = Field(found.number, found.wire_type, offset, offset + found.value, offset + found.end)
            yield field
            offset = field.end
        chunk = SMALLEST_CHUNK if stop else min(2 * chunk, LARGEST_CHUNK)


def _small_nodes(buf: bytes, *, at_end: bool) -> tuple[list[int], bool]:
    """Returns the sizes of the complete small nodes at the beginning of `buf`, and whether a different field follows.

    If the chunk ends inside a node, the second result is False, and a new chunk must begin at that node. It is True if
    this chunk began at that node or is the last.
    """
    pos, size = 0, len(buf)
    sizes: list[int] = []
    append = sizes.append
    try:
        while pos < size:
            if buf[pos] != 10:
                return sizes, True
            length = buf[pos + 1]
            if length < 128:
                end = pos + 2 + length
            else:
                second = buf[pos + 2]
                if second < 128:
                    end = pos + 3 + (length & 127 | second << 7)
                else:
                    length, value = read_varint(buf, pos + 1, size)
                    end = value + length
            if end - pos > LARGE:
                return sizes, True
            if end > size:
                return sizes, at_end or pos == 0
            append(end - pos)
            pos = end
    except (IndexError, WireError):
        # A header cut by the chunk's end: begin a new chunk there, unless this chunk began there or was the last.
        return sizes, at_end or pos == 0
    return sizes, False


def _cut_at_once(buf: bytes) -> tuple[list[bytes] | None, list[int]]:
    """Returns the NodeDefs of the complete small nodes at the beginning of `buf`, and the record sizes; uses protobuf.

    Returns None if `buf` holds anything but nodes. The end of the last complete record is guessed; after a wrong guess
    protobuf cannot parse the bytes before it.
    """
    end = _likely_record(buf)
    try:
        cut = NodeBodies.FromString(buf[:end]).node[:]
    except decode_error():
        return None, []
    bodies = list(map(len, cut))
    if max(bodies, default=LARGE) > LARGE - 4:
        return None, []
    sizes = [n + (2 if n < 1 << 7 else 3 if n < 1 << 14 else 4) for n in bodies]
    # Other fields, and lengths that are not encoded in the fewest bytes, would need more space.
    return (cut, sizes) if sum(sizes) == end else (None, [])


def _likely_record(buf: bytes) -> int:
    """Returns the last offset that looks like a node record (tag, length, name, tag of an op); 0 if not found."""
    pos = len(buf)
    for _ in range(_GUESSES):
        pos = buf.rfind(b"\n", 0, pos)
        if pos < 0:
            break
        head = buf[pos : pos + 4]
        name = pos + (2 if head[1:2] < b"\x80" else 3)
        if buf[name : name + 1] == b"\n" and name + 1 < len(buf):
            op = name + 2 + buf[name + 1]
            if buf[op : op + 1] == b"\x12":
                return pos
    return 0


def is_node(field: Field) -> bool:
    """Returns whether a top-level `field` is a node record (a field 1 of another wire type is unknown data)."""
    return field.number == NODE and field.wire_type == LEN
