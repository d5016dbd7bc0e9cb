"""Finds nodes by name, and what mentions them: by an index of all headers, or by searching the bytes for a few.

A table of a million nodes takes over a second and some hundred bytes a node. An edit that names a handful of nodes
needs none of it: the bytes are searched for the names, at the speed of memory, and only the records that hold one
are parsed. A graph starts with a search where the names are few and long enough, and falls back on the table.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from typing import NamedTuple, NoReturn

from gdsurgeon.errors import InputError, printable
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.wire.fields import Buffer, Field, WireError
from gdsurgeon.wire.messages import decode_error, message
from gdsurgeon.wire.node_record import Header, read_header, record_body
from gdsurgeon.wire.scan import LARGE, Run, is_node, scan
from gdsurgeon.wire.source import Source, Window

COLOCATION = b"loc:@"
COLOCATION_ATTR = "_class"


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


def _corrupt(source: Source, reason: str, offset: int) -> NoReturn:
    what = "truncated or corrupt" if "cut short" in reason else "corrupt"
    raise InputError(
        f"{printable(source.name)} is {what}: {reason} (at byte {offset:,} of {source.size:,})",
        hint="was the transfer complete, and in binary mode?",
    )


def scanned(source: Source) -> Iterator[Run | Field]:
    """`scan`, with what is wrong said of the file. Raises InputError."""
    try:
        yield from scan(source)
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

    Attributes:
        names: the name of each row, in file order.
        rows: the row of each name; of a name that is there twice, the last.
        op_names: the distinct ops; `ops` holds an index into them for each row.
        starts, ends: where the row's record lies.
        edges: for each input of each row ``row of the producer << PORT_BITS | output index``, a control input has the
            index CONTROL_PORT; a row ends with END_OF_ROW. What cannot be resolved is ``UNRESOLVED - k``, k being its
            place in `unresolved`.
        unresolved: the inputs that name no node, as they are spelt.
    """

    PORT_BITS = 20
    CONTROL_PORT = (1 << PORT_BITS) - 1
    END_OF_ROW = -1
    UNRESOLVED = -2

    def __init__(self, source: Source) -> None:
        self.source = source
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.op_names: list[str] = []
        self.ops = array("I")
        self.starts, self.ends = array("Q"), array("Q")
        self.edges = array("q")
        self.unresolved: list[str] = []
        self._op_ids: dict[str, int] = {}
        self._pending: list[tuple[int, str]] = []
        self._offsets: array[int] | None = None
        self._data_readers: array[int] | None = None
        self._users: tuple[array[int], array[int]] | None = None
        self._colocations: dict[str, list[int]] | None = None
        self._missing: dict[str, list[int]] | None = None
        self._build()

    def _build(self) -> None:
        others: list[Field] = []
        # Codes during the build: the producer's row already shifted, so that output 0 needs no arithmetic.
        codes: dict[str, int] = {"": self.END_OF_ROW}
        for item in scanned(self.source):
            if isinstance(item, Run):
                self._add_run(item, codes)
            elif is_node(item):
                record = Record(self.source, item.start, item.value, item.end)
                self._add_header(record.header(), item.start, item.end, codes)
            else:
                others.append(item)
        del codes[""]
        self._resolve_pending(codes)
        bits = self.PORT_BITS
        for name in codes:
            codes[name] >>= bits
        self.rows = codes
        self.layout = Layout(len(self.names), self.ends[-1] if self.ends else 0, tuple(others))

    def _add_run(self, run: Run, codes: dict[str, int]) -> None:
        """Parses a whole run by one call: the bodies concatenated, with an empty name, op and input after each."""
        base, buf, bounds = run
        count = len(bounds) - 1
        bodies = [
            buf[a + (2 if buf[a + 1] < 128 else 3 if buf[a + 2] < 128 else _body_offset(buf, a)) : b]
            for a, b in pairwise(bounds)
        ]
        mark = b"\x0a\x00\x12\x00\x1a\x00"
        try:
            parsed = message("gdsurgeon.NodeHeaders").FromString(mark.join(bodies) + mark)
            names, ops, inputs = list(parsed.name), list(parsed.op), list(parsed.input)
        except decode_error():
            names, ops, inputs = [], [], []
        marks = [""] * count
        regular = len(names) == len(ops) == 2 * count and names[1::2] == ops[1::2] == marks
        regular = regular and inputs.count("") == count
        names, ops = names[::2], ops[::2]
        if not regular or "" in names or not _are_plain(names):
            # A field is missing, doubled, corrupt or odd somewhere: one by one, which also says where.
            for row in range(count):
                start, end = base + bounds[row], base + bounds[row + 1]
                self._add_header(record_at(self.source, start, end).header(), start, end, codes)
            return
        first = len(self.names)
        self.starts.extend([base + a for a in bounds[:-1]])
        self.ends.extend([base + b for b in bounds[1:]])
        self.names += names
        op_id = self._op_ids.setdefault
        ids = list(map(self._op_ids.get, ops, repeat(-1)))
        self.ops.extend(ids if -1 not in ids else [op_id(op, len(self._op_ids)) for op in ops])
        if len(self._op_ids) > len(self.op_names):
            self.op_names = list(self._op_ids)
        # A node sees the names of its own run as if they came before it; `forward` finds those that do not.
        bits = self.PORT_BITS
        codes.update(zip(names, range(first << bits, (first + count) << bits, 1 << bits)))  # noqa: B905
        resolved = list(map(codes.get, inputs, repeat(-2)))
        at = len(self.edges)
        self.edges.extend(resolved)
        if -2 in resolved:
            for i, code in enumerate(resolved):
                if code == -2:
                    self._resolve(at + i, inputs[i], codes)

    def _add_header(self, header: Header, start: int, end: int, codes: dict[str, int]) -> None:
        row = len(self.names)
        self.starts.append(start)
        self.ends.append(end)
        self.names.append(header.name)
        self.ops.append(self._op_ids.setdefault(header.op, len(self._op_ids)))
        if len(self._op_ids) > len(self.op_names):
            self.op_names = list(self._op_ids)
        if header.name and _is_plain(header.name):
            codes[header.name] = row << self.PORT_BITS
        for text in header.inputs:
            self.edges.append(-2)
            self._resolve(len(self.edges) - 1, text, codes)
        self.edges.append(self.END_OF_ROW)

    def _resolve(self, at: int, text: str, codes: dict[str, int]) -> None:
        """Sets the edge at AT from its spelling, or leaves it for the end of the pass."""
        ref = parse_input(text)
        code = codes.get(ref.node) if ref is not None and ref.node else None
        if ref is None or code is None or ref.port >= self.CONTROL_PORT:
            self._pending.append((at, text))
        else:
            self.edges[at] = code | (self.CONTROL_PORT if ref.port == CONTROL else ref.port)

    def _resolve_pending(self, codes: dict[str, int]) -> None:
        for at, text in self._pending:
            ref = parse_input(text)
            code = codes.get(ref.node) if ref is not None else None
            if ref is None or code is None or ref.port >= self.CONTROL_PORT:
                self.edges[at] = self.UNRESOLVED - len(self.unresolved)
                self.unresolved.append(text)
            else:
                self.edges[at] = code | (self.CONTROL_PORT if ref.port == CONTROL else ref.port)
        self._pending = []

    # -- looking things up -------------------------------------------------------------------------------

    def record(self, row: int) -> Record:
        """The record of ROW."""
        return record_at(self.source, self.starts[row], self.ends[row])

    def op(self, row: int) -> str:
        """The op of ROW."""
        return self.op_names[self.ops[row]]

    def forward_edges(self) -> Iterator[tuple[int, int]]:
        """(producer, consumer) of the inputs that come from a later row or the row itself; without any, no cycle."""
        row, limit, bits = 0, 0, self.PORT_BITS
        step = 1 << bits
        for code in self.edges:
            if code == -1:
                row += 1
                limit += step
            elif code >= limit:
                yield code >> bits, row

    @property
    def data_readers(self) -> array[int]:
        """For each row, how many data inputs read it."""
        if self._data_readers is None:
            counts = array("I", bytes(4 * len(self.names)))
            bits, control = self.PORT_BITS, self.CONTROL_PORT
            for code in self.edges:
                if code >= 0 and code & control != control:
                    counts[code >> bits] += 1
            self._data_readers = counts
        return self._data_readers

    @property
    def missing(self) -> dict[str, list[int]]:
        """The rows whose inputs name a node that there is not, by that name."""
        if self._missing is None:
            self._missing = {}
            row = 0
            for code in self.edges if self.unresolved else ():
                if code == -1:
                    row += 1
                elif code <= self.UNRESOLVED:
                    ref = parse_input(self.unresolved[self.UNRESOLVED - code])
                    if ref is not None:
                        rows = self._missing.setdefault(ref.node, [])
                        if row not in rows[-1:]:
                            rows.append(row)
        return self._missing

    @property
    def offsets(self) -> array[int]:
        """Where each row's edges begin; one more at the end."""
        if self._offsets is None:
            offsets = array("I", [0])
            offsets.extend([i + 1 for i, code in enumerate(self.edges) if code == -1])
            self._offsets = offsets
        return self._offsets

    def inputs(self, row: int) -> array[int]:
        """The edge codes of ROW."""
        offsets = self.offsets
        return self.edges[offsets[row] : offsets[row + 1] - 1]

    def users(self, row: int) -> array[int]:
        """The rows that have ROW as an input or control input, each once, ascending."""
        if self._users is None:
            self._users = self._count_users()
        offsets, users = self._users
        return users[offsets[row] : offsets[row + 1]]

    def _count_users(self) -> tuple[array[int], array[int]]:
        """The transposed edges, one of several between the same two nodes, by counting sort."""
        count = len(self.names)
        sizes = array("I", bytes(4 * (count + 1)))
        pairs = array("I")
        last_user = array("i", [-1]) * count
        bits, row = self.PORT_BITS, 0
        for code in self.edges:
            if code == -1:
                row += 1
            elif code >= 0:
                producer = code >> bits
                if last_user[producer] != row:
                    last_user[producer] = row
                    sizes[producer + 1] += 1
                    pairs.append(producer)
                    pairs.append(row)
        total = 0
        for i, size in enumerate(sizes):
            total += size
            sizes[i] = total
        offsets = array("I", sizes)
        users = array("I", bytes(4 * total))
        pair = iter(pairs)
        for producer, row in zip(pair, pair):  # noqa: B905 (pairs by intent)
            users[sizes[producer]] = row
            sizes[producer] += 1
        return offsets, users

    def colocated(self, name: str) -> Iterable[int]:
        """The rows that are colocated with the node NAME."""
        if self._colocations is None:
            self._colocations = self._find_colocations()
        return self._colocations.get(name, ())

    def _find_colocations(self) -> dict[str, list[int]]:
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


def _is_plain(name: str) -> bool:
    """Whether an input can name the node: not where it holds what makes an index or a control input."""
    return ":" not in name and name[0] != "^"


def _are_plain(names: list[str]) -> bool:
    joined = "".join(names)
    return ":" not in joined and "^" not in joined


def _body_offset(buf: bytes, start: int) -> int:
    return record_body(buf, start, len(buf)) - start
