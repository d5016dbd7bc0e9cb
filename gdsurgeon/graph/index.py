"""The index of all nodes of a file: their headers, column by column."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, compress, islice, repeat
from operator import ge, itemgetter, sub
from re import finditer
from struct import pack
from sys import byteorder
from typing import NamedTuple, TypeVar, overload

from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.graph.records import (
    CONTROL_INPUT,
    DATA_INPUT,
    Batch,
    Item,
    Layout,
    Record,
    Run,
    batches,
    input_kind,
    is_node,
    record_at,
    records_with,
    scan,
)
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.wire.fields import Field
from gdsurgeon.wire.protos import decode_error
from gdsurgeon.wire.source import Source

_Value = TypeVar("_Value")

END_OF_NODE = b"\0"
"""Marks the end of a node in a column of input kinds."""


class Rows:
    """The row of each name that an input can spell; the last row if several have the name.

    Building one dictionary of a million names is the slowest step of indexing, and few names are looked up. So each
    batch has its own dictionary. They are merged after enough lookups to make that worthwhile.
    """

    _PAYS = 1 / 4
    """Dictionaries searched per name in separate dictionaries; above this ratio they are merged."""

    def __init__(self) -> None:
        self._parts: list[dict[str, int]] = [{}]
        self._apart = self._looked = 0
        self._distinct: int | None = None

    def add(self, names: dict[str, int]) -> None:
        """Adds the rows of a batch; the caller must not use `names` afterwards."""
        self._parts.append(names)
        self._apart += len(names)
        self._distinct = None
        vars(self).pop("get", None)

    @overload
    def get(self, name: str) -> int | None: ...
    @overload
    def get(self, name: str, default: int) -> int: ...
    def get(self, name: str, default: int | None = None) -> int | None:
        """Returns the row of `name`, or `default` if no row has the name."""
        self.expect(1)
        return next((row for names in reversed(self._parts) if (row := names.get(name)) is not None), default)

    def expect(self, count: int) -> None:
        """Prepares for `count` lookups."""
        self._looked += count * len(self._parts)
        if self._looked > self._PAYS * self._apart:
            first, *others = self._parts
            for names in others:
                first.update(names)
            self._parts, self._apart, self._looked = [first], 0, 0
            self.get = first.get  # type: ignore[assignment]  # with one dictionary, no search is needed

    def __getitem__(self, name: str) -> int:
        row = self.get(name)
        if row is None:
            raise KeyError(name)
        return row

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __len__(self) -> int:
        """Returns the number of distinct names."""
        if self._distinct is None:
            self._distinct = len(set().union(*self._parts))
        return self._distinct


class Near(dict[str, int]):
    """Maps the inputs of a batch to rows; inputs that are not plainly a known name to numbers; the end mark to END.

    Args:
        rows: the rows of all names so far, including this batch.
        names: the rows of the names of the batch.
        end: the mark after the inputs of each node.

    Attributes:
        odd: the inputs that are not plainly a known name. The k-th has the number ``_ODD + k``, or ``_ODD_CONTROL + k``
            for a control input. The highest byte distinguishes both from each other, from a row and from `END`.
    """

    def __init__(self, rows: Rows, names: dict[str, int], end: str) -> None:
        super().__init__(names)
        self[end] = END
        self._rows = rows
        self.odd: list[str] = []

    def __missing__(self, text: str) -> int:
        row = self._rows.get(text)
        if row is None:
            row = len(self.odd) + (_ODD_CONTROL if input_kind(text) == CONTROL_INPUT else _ODD)
            self.odd.append(text)
        self[text] = row
        return row


END, _ODD_CONTROL, _ODD = -1, -1 << 29, -1 << 30
_HIGHEST_BYTES = {0: DATA_INPUT, _ODD >> 24 & 255: DATA_INPUT, _ODD_CONTROL >> 24 & 255: CONTROL_INPUT}
KINDS = b"".join(_HIGHEST_BYTES.get(byte, END_OF_NODE) for byte in range(256))
"""The kind of an input for each highest byte of its number in `Near`."""


IS_END = bytes(kind == ord(END_OF_NODE) for kind in range(256))
"""0 for each kind of input, and 1 for the end of a node."""


def little_endian(column: array[int]) -> array[int]:
    """Returns `column`, converted in place between the byte order of the machine and little-endian order."""
    if byteorder == "big":
        column.byteswap()
    return column


def picked(values: Sequence[_Value], places: Sequence[int]) -> tuple[_Value, ...]:
    """Returns the elements of `values` at `places`; faster than one by one, but holds all of them in memory."""
    return itemgetter(0, 0, *places)(values)[2:] if places else ()


def places(column: array[int], value: int) -> Iterator[int]:
    """Yields the positions of `value` in `column`, ascending."""
    data, size = column.tobytes(), column.itemsize
    needle = array(column.typecode, [value]).tobytes()
    at = data.find(needle)  # many times faster than comparing number by number
    while at >= 0:
        place, apart = divmod(at, size)
        if not apart:
            yield place
        at = data.find(needle, (place + 1) * size)


COLOCATION = b"loc:@"


def colocated_names(attr: bytes) -> list[str]:
    """Returns the node names in a serialized ``_class`` attr, from the entries that begin with ``loc:@``."""
    try:
        value = attr_value(attr)
    except decode_error():
        return []
    return [
        s.removeprefix(COLOCATION).decode("utf-8", "surrogateescape") for s in value.list.s if s.startswith(COLOCATION)
    ]


class Copied(NamedTuple):
    """Rows of a table, from `first` to `last`, that are copied to a different place, `shift` bytes further on.

    If names in them have changed, `bounds` are those of the new records, and the end of the last is `shift` further on.
    """

    first: int
    last: int
    shift: int
    bounds: array[int] | None = None


class Table:
    """All headers, column by column. Create it with `read`, or empty: then `add` the items of the source and `close`.

    Attributes:
        source: the bytes.
        names: the name of each row, in file order.
        rows: see `Rows`.
        op_names: the distinct ops; `ops` holds an index into them for each row.
        starts, ends: the bounds of each row's record in the source.
        edges: for each input of each row ``row of the producer << PORT_BITS | output index``. A control input has the
            index CONTROL_PORT. An unresolved input is ``UNRESOLVED - k``, k being its index in `unresolved`.
        offsets: the index in `edges` of each row's first edge; one more at the end.
        odd_edges: the indices in `edges` of all inputs except plain reads of an output 0, ascending.
        unresolved: the inputs that name no node, as spelled in the file.
        unread: for each row, 1 if no data input reads its outputs, else 0.
        layout: see `Layout`.
        dtypes: for each row the dtype of output 0, 0 if it is unknown; empty if the structure was not checked.
    """

    PORT_BITS = 24  # whole bytes, so that a whole column can be shifted at once
    CONTROL_PORT = (1 << 20) - 1
    UNRESOLVED = -2
    _MANY = 5000
    """If a node has more uses than this, they are found by comparing all edges one by one."""

    layout: Layout

    def __init__(self, source: Source) -> None:
        self.source = source
        self.names: list[str] = []
        self.rows = Rows()
        self.op_names: list[str] = []
        self.ops = array("I")
        self.starts, self.ends = array("Q"), array("Q")
        self.edges = array("q")
        self.offsets = array("I", [0])
        self.odd_edges = array("I")
        self.unresolved: list[str] = []
        self.unread = bytearray()
        self.dtypes = bytearray()
        self._kinds = bytearray()
        self._op_ids: dict[str, int] = {}
        self._pending: list[tuple[int, str]] = []
        self._others: list[Field] = []
        self._searched = 0  # what the searches in `users` cost, in edges
        self._has_forward = False

    @classmethod
    def read(cls, source: Source) -> Table:
        """Returns the table of all nodes in `source`. Raises InputError if the source is corrupt."""
        table = cls(source)
        for item in batches(source):
            table.add(item)
        table.close()
        return table

    def add(self, item: Item) -> None:
        """Adds the next item of the source."""
        if isinstance(item, Field):
            self._others.append(item)
        elif isinstance(item, Batch):
            self._add_batch(item)
        else:
            header = item.header()
            self.add_node(header.name, header.op, header.inputs, Run(item.start, b"", [item.end - item.start]))

    def add_node(self, name: str, op: str, inputs: Sequence[str], run: Run) -> None:
        """Adds a node, whose record is `run`; an input cannot spell its name, or an input is empty, or it is large."""
        self._add_batch(Batch(run, [name], [*inputs, None], [], [op], [0]))  # type: ignore[list-item]  # marks the end

    def close(self) -> None:
        """Resolves the inputs that name later nodes, after everything was added."""
        for at, text in self._pending:
            code = self.code(text)
            if code is None:
                code = self.UNRESOLVED - len(self.unresolved)
                self.unresolved.append(text)
            self.edges[at] = code
        self._pending = []
        for code in map(self.edges.__getitem__, self.odd_edges):
            if code >= 0 and code & self.CONTROL_PORT != self.CONTROL_PORT:
                self.unread[code >> self.PORT_BITS] = 0
        self.layout = Layout(len(self.names), self.ends[-1] if self.ends else 0, tuple(self._others))

    def _add_batch(self, batch: Batch) -> None:
        first, names, end = len(self.names), batch.names, batch.inputs[-1]
        # Most inputs name a node nearby, and lookups in a small dictionary are faster than in that of all names.
        own = dict(zip(names, range(first, first + len(names)), strict=True))
        if len(names) == 1 and not _is_plain(names[0]):
            own = {}
        near = Near(self.rows, own, end)
        found = itemgetter(end, end, *batch.inputs)(near)[2:]
        data = pack(f"<{len(found)}i", *found)
        kinds = data[3::4].translate(KINDS)
        if kinds.count(END_OF_NODE) != len(names):  # a node has an empty input
            for record in batch.run.records(self.source):
                self.add(record)
            return
        self.rows.add(own)
        self.names += names
        bounds = array("Q", accumulate(batch.run.sizes, initial=batch.run.base))
        self.starts.extend(bounds[:-1])
        self.ends.extend(bounds[1:])
        self.ops.extend(picked(self._ids(batch.ops), batch.form_of))
        ends = accumulate(map(len, kinds.split(END_OF_NODE)[:-1]), initial=self.offsets.pop())
        self.offsets.frombytes(pack(f"={len(names) + 1}I", *ends))
        self._kinds += kinds
        readers = accumulate(kinds.translate(IS_END), initial=first)
        self._has_forward = self._has_forward or any(map(ge, found, readers))
        self.unread += b"\1" * len(names)
        for row in set(found):
            if row >= 0:
                self.unread[row] = 0
        self._add_edges(data.replace(END.to_bytes(4, "little", signed=True), b""), near.odd)

    def _add_edges(self, data: bytes, odd: list[str]) -> None:
        """Adds edges from `data`, four bytes for each: its row, or the number from `Near` of its spelling in `odd`."""
        at, room = len(self.edges), self.PORT_BITS // 8
        shifted = bytearray(2 * len(data))
        for i in range(room):  # a row number has no more bytes than this
            shifted[room + i :: 8] = data[i::4]
        self.edges += little_endian(array("q", bytes(shifted)))
        codes = list(map(self.code, odd))
        for place in finditer(rb"[^\0]", data[3::4]):
            i = place.start()
            k = int.from_bytes(data[4 * i : 4 * i + 3], "little")
            self.odd_edges.append(at + i)
            code = codes[k]
            if code is None:  # it is resolved at the end
                self._pending.append((at + i, odd[k]))
            else:
                self.edges[at + i] = code

    def _ids(self, ops: Iterable[str]) -> list[int]:
        """Returns the index of each of `ops` in `op_names`; adds new ops."""
        known = self._op_ids
        ids = [known.setdefault(op, len(known)) for op in ops]
        if len(self.op_names) < len(known):
            self.op_names = list(known)
        return ids

    def code(self, text: str) -> int | None:
        """Returns the code of the edge spelled `text`; None if no node so far has the name or the index is too high."""
        if text[:1] == "^" and (row := self.rows.get(text[1:])) is not None:
            return row << self.PORT_BITS | self.CONTROL_PORT
        ref = parse_input(text)
        row = self.rows.get(ref.node) if ref is not None else None
        if ref is None or row is None or ref.port >= self.CONTROL_PORT:
            return None
        return row << self.PORT_BITS | (self.CONTROL_PORT if ref.port == CONTROL else ref.port)

    # -- looking things up -------------------------------------------------------------------------------

    def record(self, row: int) -> Record:
        """Returns the record of `row`."""
        return record_at(self.source, self.starts[row], self.ends[row])

    def op(self, row: int) -> str:
        """Returns the op of `row`."""
        return self.op_names[self.ops[row]]

    @cached_property
    def op_counts(self) -> dict[str, int]:
        """The number of rows of each op."""
        counts = Counter(self.ops)
        return {op: counts[i] for i, op in enumerate(self.op_names)}

    def inputs(self, row: int) -> array[int]:
        """Returns the edge codes of the inputs of `row`."""
        return self.edges[self.offsets[row] : self.offsets[row + 1]]

    @cached_property
    def with_controls(self) -> set[int]:
        """The rows with control inputs."""
        port = self.CONTROL_PORT
        return {self.reader(at) for at in self.odd_edges if self.edges[at] >= 0 and self.edges[at] & port == port}

    def reader(self, at: int) -> int:
        """Returns the row that has the edge at index `at` of `edges`."""
        return bisect_right(self.offsets, at) - 1

    def forward_edges(self) -> Iterator[tuple[int, int]]:
        """Yields (producer, consumer) of inputs from a later row or the row itself; without any, there is no cycle."""
        bits = self.PORT_BITS
        if self._has_forward or any(self.edges[at] >> bits >= self.reader(at) for at in self.odd_edges):
            pairs = zip(self.edges, self.readers(), strict=True)
            yield from ((code >> bits, row) for code, row in pairs if code >> bits >= row)

    def readers(self) -> Iterator[int]:
        """Yields the consumer row of each edge, in the order of `edges`."""
        counts = map(sub, islice(self.offsets, 1, None), self.offsets)
        return chain.from_iterable(map(repeat, range(len(self.names)), counts))

    def kinds(self, first: int, last: int) -> bytes:
        """Returns the `input_kind` of each input of rows `first` to `last` (exclusive); END_OF_NODE ends each row."""
        return bytes(self._kinds[self.offsets[first] + first : self.offsets[last] + last])

    def plain_reads(self) -> array[int]:
        """Returns for each edge the row whose output 0 it reads plainly; 0 for the edges in `odd_edges`."""
        edges = little_endian(self.edges[:]) if byteorder == "big" else self.edges  # a copy would fragment the memory
        data, room = edges.tobytes(), self.PORT_BITS // 8
        rows = bytearray(len(data) // 2)
        for i in range(room):
            rows[i::4] = data[room + i :: 8]
        reads = little_endian(array("I", bytes(rows)))
        for at in self.odd_edges:
            reads[at] = 0
        return reads

    @cached_property
    def missing(self) -> dict[str, list[int]]:
        """The rows with inputs from missing nodes, by the name of the missing node."""
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
        """Returns the rows that have `row` as an input or control input, each once, ascending."""
        self._searched += len(self.odd_edges) + len(self.edges) // 16
        if self._searched <= len(self.edges) + 16 and "_users" not in self.__dict__:
            bits = self.PORT_BITS
            odd = [at for at in self.odd_edges if self.edges[at] >> bits == row]
            plain = [*islice(places(self.edges, row << bits), self._MANY)]
            if len(plain) < self._MANY:
                return sorted({self.reader(at) for at in (*plain, *odd)})
            flags = bytearray(len(self.names))
            for user in chain(compress(self.readers(), map((row << bits).__eq__, self.edges)), map(self.reader, odd)):
                flags[user] = 1
            return array("I", compress(range(len(flags)), flags))
        offsets, users = self._users
        return memoryview(users)[offsets[row] : offsets[row + 1]]  # no copy: a node can have very many

    @cached_property
    def _users(self) -> tuple[array[int], array[int]]:
        """The transposed edges (offsets, users), by counting sort; several edges between two nodes count once."""
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
        """Returns the rows that are colocated with the node `name`."""
        return self.colocations.get(name, ())

    @cached_property
    def colocations(self) -> dict[str, list[int]]:
        """The rows that are colocated with each name; code that reads all attrs anyway may set this."""
        out: dict[str, list[int]] = {}
        row = 0
        for item in scan(self.source):
            if isinstance(item, Run):
                if item.buf.find(COLOCATION, 0, item.size) >= 0:
                    for start, end in records_with(item, [COLOCATION]):
                        at = row + bisect_right(item.bounds, start) - 1
                        self._note_colocation(out, at, record_at(self.source, item.base + start, item.base + end))
                row += len(item.sizes)
            elif is_node(item):
                self._note_colocation(out, row, Record(self.source, item.start, item.value, item.end))
                row += 1
        return out

    @staticmethod
    def _note_colocation(out: dict[str, list[int]], row: int, record: Record) -> None:
        header = record.header()
        if COLOCATION_ATTR in header.attrs:
            attr = record.buffer()[slice(*header.attrs[COLOCATION_ATTR])]
            for name in dict.fromkeys(colocated_names(attr)):
                out.setdefault(name, []).append(row)


def _is_plain(name: str) -> bool:
    """Returns whether an input can name the node: False if `name` contains ``:``, begins with ``^`` or is empty."""
    return ":" not in name and name[:1] not in ("^", "")
