"""Finds nodes by name, and what mentions them: by an index of all headers, or by searching the bytes for a few.

A table of a million nodes takes over a second and some hundred bytes a node. An edit that names a handful of nodes
needs none of it: the bytes are searched for the names, at the speed of memory, and only the records that hold one
are parsed. A graph starts with a search where the names are few and long enough, and falls back on the table.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, compress, islice, repeat
from operator import ge, sub
from sys import byteorder
from typing import NamedTuple

from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.graph.records import END_OF_NODE, Batch, Item, Record, batches, record_at, scanned
from gdsurgeon.wire.fields import Field
from gdsurgeon.wire.messages import decode_error, message
from gdsurgeon.wire.node_record import Header
from gdsurgeon.wire.scan import Run, is_node
from gdsurgeon.wire.source import Source

COLOCATION = b"loc:@"
COLOCATION_ATTR = "_class"


class Layout(NamedTuple):
    """What a pass over the file has seen beside the nodes' content.

    Attributes:
        node_count: node records.
        end_of_nodes: the offset after the last node record; 0 where there is none.
        others: the top-level fields that are not nodes.
    """

    node_count: int
    end_of_nodes: int
    others: tuple[Field, ...]


class Search:
    """The records that mention one of a few names, found by searching the bytes.

    Attributes:
        layout: see `Layout`.
        records: the first node of each name that was found.
        duplicates: those of the names that several nodes have.
        mentions: for each name, the nodes that have it as input, control input or colocation.
        others: the records of those nodes.
    """

    MOST_HITS = 5000
    """A name that is part of more records than this is not worth searching for."""

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        self.source = source
        self.records: dict[str, Record] = {}
        self.duplicates: set[str] = set()
        self.mentions: dict[str, list[str]] = {name: [] for name in names}
        self.others: dict[str, Record] = {}

    @classmethod
    def run(cls, source: Source, names: Sequence[str]) -> Search | None:
        """Searches SOURCE for NAMES; None where the names are not worth it.

        Raises:
            InputError: the source is corrupt where the search has looked.
        """
        found = cls(source, names)
        needles = [name.encode() for name in names]
        count = end_of_nodes = hits = 0
        others: list[Field] = []
        for item in scanned(source):
            if isinstance(item, Run):
                count += len(item.bounds) - 1
                end_of_nodes = item.base + item.bounds[-1]
                for start, end in _records_with(item, needles):
                    hits += 1
                    found._examine(record_at(source, item.base + start, item.base + end))
            elif is_node(item):
                count += 1
                end_of_nodes = item.end
                hits += 1
                found._examine(Record(source, item.start, item.value, item.end))
            else:
                others.append(item)
            if hits > cls.MOST_HITS:
                return None
        found.layout = Layout(count, end_of_nodes, tuple(others))
        return found

    layout: Layout

    def _examine(self, record: Record) -> None:
        header = record.header()
        name = header.name
        if name in self.mentions:
            if name in self.records:
                self.duplicates.add(name)
            self.records.setdefault(name, record)
        for mentioned in _mentioned(header, record):
            if mentioned in self.mentions:
                self.mentions[mentioned].append(name)
                if self.others.setdefault(name, record) is not record:
                    self.duplicates.add(name)


def _records_with(run: Run, needles: Sequence[bytes]) -> list[tuple[int, int]]:
    """The bounds of the records of RUN that hold one of NEEDLES, in file order."""
    rows: set[int] = set()
    buf, bounds = run.buf, run.bounds
    limit = bounds[-1]
    for needle in needles:
        pos = buf.find(needle, 0, limit)
        while pos >= 0:
            row = bisect_right(bounds, pos) - 1
            rows.add(row)
            pos = buf.find(needle, bounds[row + 1], limit)
    return [(bounds[row], bounds[row + 1]) for row in sorted(rows)]


def _mentioned(header: Header, record: Record) -> set[str]:
    """The names of other nodes that a node's record holds."""
    out = {ref.node for text in header.inputs if (ref := parse_input(text)) is not None}
    if COLOCATION_ATTR in header.attrs:
        start, end = header.attrs[COLOCATION_ATTR]
        out.update(colocated_names(record.buffer()[start:end]))
    return out


def colocated_names(attr: bytes) -> list[str]:
    """The node names in a serialised ``_class`` attr, those of its entries that begin with ``loc:@``."""
    try:
        value = message("tensorflow.AttrValue").FromString(attr)
    except decode_error():
        return []
    prefix = len(COLOCATION)
    return [s[prefix:].decode("utf-8", "surrogateescape") for s in value.list.s if s.startswith(COLOCATION)]


class Table:
    """All headers, column by column.

    Args:
        source: the bytes.
        items: what `batches` finds in them, for whoever looks at it as well; by default it is read here.

    Attributes:
        names: the name of each row, in file order.
        rows: the row of each name; of a name that is there twice, the last.
        op_names: the distinct ops; `ops` holds an index into them for each row.
        starts, ends: where the row's record lies.
        edges: for each input of each row ``row of the producer << PORT_BITS | output index``, a control input has the
            index CONTROL_PORT. What cannot be resolved is ``UNRESOLVED - k``, k being its place in `unresolved`.
        offsets: where each row's edges begin; one more at the end.
        odd_edges: the places in `edges` of all but what plainly reads an output 0, ascending.
        unresolved: the inputs that name no node, as they are spelt.
    """

    PORT_BITS = 24  # whole bytes, so that a column is shifted at once
    CONTROL_PORT = (1 << 20) - 1
    UNRESOLVED = -2

    def __init__(self, source: Source, items: Iterable[Item] | None = None) -> None:
        self.source = source
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.op_names: list[str] = []
        self.ops = array("I")
        self.starts, self.ends = array("Q"), array("Q")
        self.edges = array("q")
        self.offsets = array("I", [0])
        self.odd_edges = array("I")
        self.unresolved: list[str] = []
        self._op_ids: dict[str, int] = {}
        self._pending: list[tuple[int, str]] = []
        self._asked = 0
        self._has_forward = False
        self._build(batches(source) if items is None else items)

    def _build(self, items: Iterable[Item]) -> None:
        others: list[Field] = []
        for item in items:
            if isinstance(item, Batch):
                self._add_batch(item)
            elif isinstance(item, Record):
                self._add_header(item.header(), item)
            else:
                others.append(item)
        for at, text in self._pending:
            if not self._resolve(at, text):
                self.edges[at] = self.UNRESOLVED - len(self.unresolved)
                self.unresolved.append(text)
        self._pending = []
        self.layout = Layout(len(self.names), self.ends[-1] if self.ends else 0, tuple(others))

    def _add_batch(self, batch: Batch) -> None:
        run, names, inputs = batch.run, batch.names, batch.inputs
        first = len(self.names)
        bounds = array("Q", [run.base + bound for bound in run.bounds])
        self.starts.extend(bounds[:-1])
        self.ends.extend(bounds[1:])
        self.names += names
        self._add_ops(batch.ops)
        # Most inputs name a node that is near, and a small dictionary is quicker to look into than that of all names.
        near = dict(zip(names, range(first, first + len(names)), strict=True))
        self.rows.update(near)
        producers = list(map(near.get, inputs, repeat(-1)))
        at = len(self.edges)
        ends = accumulate(map(len, batch.kinds.split(END_OF_NODE)[:-1]), initial=at)
        self.offsets.extend(array("I", list(islice(ends, 1, None))))
        kinds = batch.kinds.encode()
        readers = compress(accumulate(kinds.translate(_IS_END), initial=first), kinds)
        self._has_forward = self._has_forward or any(map(ge, producers, readers))
        elsewhere = list(places(producers, -1))
        for i in elsewhere:
            producers[i] = 0  # until it is known
        self.edges.extend(self._shifted(array("q", producers)))
        for i in elsewhere:
            self._add_edge(at + i, inputs[i])

    @classmethod
    def _shifted(cls, rows: array[int]) -> array[int]:
        """The edges to the outputs 0 of ROWS: each number, which is not negative, shifted by PORT_BITS."""
        room, data = bytes(cls.PORT_BITS // 8), rows.tobytes()
        return array("q", (room + data)[: len(data)] if byteorder == "little" else (data + room)[len(room) :])

    def _add_ops(self, ops: list[str]) -> None:
        ids = list(map(self._op_ids.get, ops, repeat(-1)))
        if -1 in ids:
            ids = [self._op_ids.setdefault(op, len(self._op_ids)) for op in ops]
            self.op_names = list(self._op_ids)
        self.ops.extend(array("I", ids))

    def _add_header(self, header: Header, record: Record) -> None:
        self.starts.append(record.start)
        self.ends.append(record.end)
        if header.name and _is_plain(header.name):
            self.rows[header.name] = len(self.names)
        self.names.append(header.name)
        self._add_ops([header.op])
        for text in header.inputs:
            self.edges.append(-1)
            self._add_edge(len(self.edges) - 1, text)
        self.offsets.append(len(self.edges))

    def _add_edge(self, at: int, text: str) -> None:
        """Sets the edge at AT from its spelling, or leaves it for the end of the pass."""
        row = self.rows.get(text)
        if row is not None:
            self._set_edge(at, row, 0)
            return
        self.odd_edges.append(at)
        if not self._resolve(at, text):
            self._pending.append((at, text))

    def _resolve(self, at: int, text: str) -> bool:
        """Sets the edge at AT from its spelling, if there is such a node by now."""
        ref = parse_input(text)
        row = self.rows.get(ref.node) if ref is not None else None
        if ref is None or row is None or ref.port >= self.CONTROL_PORT:
            return False
        self._set_edge(at, row, self.CONTROL_PORT if ref.port == CONTROL else ref.port)
        return True

    def _set_edge(self, at: int, row: int, port: int) -> None:
        self.edges[at] = row << self.PORT_BITS | port
        self._has_forward = self._has_forward or row >= self.reader(at)

    # -- looking things up -------------------------------------------------------------------------------

    def record(self, row: int) -> Record:
        """The record of ROW."""
        return record_at(self.source, self.starts[row], self.ends[row])

    def op(self, row: int) -> str:
        """The op of ROW."""
        return self.op_names[self.ops[row]]

    def inputs(self, row: int) -> array[int]:
        """The edge codes of ROW."""
        return self.edges[self.offsets[row] : self.offsets[row + 1]]

    def reader(self, at: int) -> int:
        """The row that has the edge at AT of `edges`."""
        return bisect_right(self.offsets, at) - 1

    def forward_edges(self) -> Iterator[tuple[int, int]]:
        """(producer, consumer) of the inputs that come from a later row or the row itself; without any, no cycle."""
        bits = self.PORT_BITS
        for code, row in zip(self.edges, self.readers(), strict=True) if self._has_forward else ():
            if code >> bits >= row:
                yield code >> bits, row

    def readers(self) -> Iterator[int]:
        """For each edge the row that reads it."""
        counts = map(sub, islice(self.offsets, 1, None), self.offsets)
        return chain.from_iterable(map(repeat, range(len(self.names)), counts))

    @cached_property
    def data_readers(self) -> array[int]:
        """For each row, how many data inputs read it."""
        counts = [0] * (len(self.names) + 1)  # what cannot be resolved is counted in the last
        bits, control = self.PORT_BITS, self.CONTROL_PORT
        for code in self.edges:
            counts[code >> bits] += 1
        for at in self.odd_edges:
            code = self.edges[at]
            if code & control == control:
                counts[code >> bits] -= 1
        return array("I", counts[:-1])

    @cached_property
    def missing(self) -> dict[str, list[int]]:
        """The rows whose inputs name a node that there is not, by that name."""
        out: dict[str, list[int]] = {}
        for at in self.odd_edges if self.unresolved else ():
            code = self.edges[at]
            ref = parse_input(self.unresolved[self.UNRESOLVED - code]) if code < 0 else None
            if ref is not None:
                rows = out.setdefault(ref.node, [])
                if (row := self.reader(at)) not in rows[-1:]:
                    rows.append(row)
        return out

    def users(self, row: int) -> Iterable[int]:
        """The rows that have ROW as an input or control input, each once, ascending."""
        self._asked += 1
        if self._asked <= _FEW and "_users" not in self.__dict__:
            bits = self.PORT_BITS
            odd = [at for at in self.odd_edges if self.edges[at] >> bits == row]
            return sorted({self.reader(at) for at in (*places(self.edges, row << bits), *odd)})
        offsets, users = self._users
        return users[offsets[row] : offsets[row + 1]]

    @cached_property
    def _users(self) -> tuple[array[int], array[int]]:
        """The transposed edges, one of several between the same two nodes, by counting sort."""
        count = len(self.names)
        sizes = array("I", bytes(4 * (count + 1)))
        pairs = array("I")
        last_user = array("i", [-1]) * count
        bits = self.PORT_BITS
        for code, row in zip(self.edges, self.readers(), strict=True):
            producer = code >> bits
            if producer >= 0 and last_user[producer] != row:
                last_user[producer] = row
                sizes[producer + 1] += 1
                pairs.append(producer)
                pairs.append(row)
        offsets = array("I", accumulate(sizes))
        at = array("I", offsets)
        users = array("I", bytes(4 * offsets[-1]))
        pair = iter(pairs)
        for producer, row in zip(pair, pair):  # noqa: B905 (pairs by intent)
            users[at[producer]] = row
            at[producer] += 1
        return offsets, users

    def colocated(self, name: str) -> Iterable[int]:
        """The rows that are colocated with the node NAME."""
        return self.colocations.get(name, ())

    @cached_property
    def colocations(self) -> dict[str, list[int]]:
        """For each name the rows that are colocated with it; whoever has read all attrs anyway may set this."""
        out: dict[str, list[int]] = {}
        row = 0
        for item in scanned(self.source):
            if isinstance(item, Run):
                if item.buf.find(COLOCATION, 0, item.bounds[-1]) >= 0:
                    for start, end in _records_with(item, [COLOCATION]):
                        at = row + bisect_right(item.bounds, start) - 1
                        self._note_colocation(out, at, record_at(self.source, item.base + start, item.base + end))
                row += len(item.bounds) - 1
            elif is_node(item):
                self._note_colocation(out, row, Record(self.source, item.start, item.value, item.end))
                row += 1
        return out

    @staticmethod
    def _note_colocation(out: dict[str, list[int]], row: int, record: Record) -> None:
        header = record.header()
        if COLOCATION_ATTR in header.attrs:
            start, end = header.attrs[COLOCATION_ATTR]
            for name in dict.fromkeys(colocated_names(record.buffer()[start:end])):
                out.setdefault(name, []).append(row)


_IS_END = bytes(kind == ord(END_OF_NODE) for kind in range(256))
"""For each kind of input 0, and 1 for the end of a node."""

_FEW = 3
"""Rows whose users are looked for one by one, before those of all are found at once."""


def places(column: array[int] | list[int], value: int) -> Iterator[int]:
    """Where VALUE stands in COLUMN, ascending."""
    at = -1
    for _ in range(column.count(value)):
        at = column.index(value, at + 1)
        yield at


def _is_plain(name: str) -> bool:
    """Whether an input can name the node: not where it holds what makes an index or a control input."""
    return ":" not in name and name[0] != "^"
