"""The file of a graph: finds nodes by name, and the nodes that mention a name.

If an edit names only a few nodes of a large file, the bytes of the file are searched for these names. For a million
nodes, an index of all nodes would take over a second, and some hundred bytes per node.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import chain, compress
from operator import itemgetter, ne
from re import finditer
from typing import Protocol

from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.graph.index import Table, colocated_names
from gdsurgeon.graph.names import parse_input
from gdsurgeon.graph.records import VERSIONS, Layout, Record, Run, is_node, record_at, records_with, scan
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.wire.fields import LEN, Field
from gdsurgeon.wire.protos import VersionDef, decode_error
from gdsurgeon.wire.source import Source


class Finder(Protocol):
    """Finds nodes of a file by name, without an index of all nodes."""

    @property
    def layout(self) -> Layout:
        """The data about the file outside its nodes."""

    def knows(self, name: str) -> bool:
        """Returns whether `record` has the answer for a name."""

    def record(self, name: str) -> Record | None:
        """Returns the record of the node `name`, or None. Raises InputError if several nodes have the name."""

    def mentions(self, name: str) -> Iterable[str] | None:
        """Returns the nodes that may have `name` as an input or colocation; None if this is not known."""


class Search:
    """The records that mention one of a few names, found by searching the bytes.

    Attributes:
        layout: see `Layout`.
    """

    layout: Layout

    MOST_HITS = 5000
    """If more records than this must be examined, because they contain a name or are large, the search stops."""

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        self._source = source
        self._mentions: dict[str, list[str]] = {name: [] for name in names}
        self._records: dict[str, Record] = {}  # records with these names, and records that mention them
        self._repeated: set[str] = set()

    @classmethod
    def run(cls, source: Source, names: Sequence[str]) -> Search | None:
        """Searches a source; returns None if there are more than `MOST_HITS` hits.

        Raises:
            InputError: the searched part of the source is corrupt.
        """
        found = cls(source, names)
        needles = [name.encode() for name in names]
        count = end_of_nodes = hits = 0
        others: list[Field] = []
        for item in scan(source):
            if isinstance(item, Run):
                count += len(item.sizes)
                end_of_nodes = item.base + item.size
                for start, end in records_with(item, needles):
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

    def _examine(self, record: Record) -> None:
        header = record.header()
        name = header.name
        mentioned = {ref.node for text in header.inputs if (ref := parse_input(text)) is not None}
        if COLOCATION_ATTR in header.attrs:
            mentioned.update(colocated_names(record.buffer()[slice(*header.attrs[COLOCATION_ATTR])]))
        mentioned &= self._mentions.keys()
        if (mentioned or name in self._mentions) and self._records.setdefault(name, record) is not record:
            self._repeated.add(name)
        for other in mentioned:
            self._mentions[other].append(name)

    def knows(self, name: str) -> bool:
        return name in self._mentions or name in self._records

    def record(self, name: str) -> Record | None:
        if name in self._repeated:
            raise _several(self._source, name)
        return self._records.get(name)

    def mentions(self, name: str) -> Iterable[str] | None:
        return self._mentions.get(name)


def _several(source: Source, name: str) -> InputError:
    return InputError(f"{quoted(source.name)} has several nodes named {quoted(name)}", code="ambiguous-name", node=name)


class Store:
    """A GraphDef in a file. Nodes are found by an index of all nodes, or in a big file by a search for a few names.

    Args:
        source: the bytes, a binary GraphDef.
        finder: finds some nodes without an index.
    """

    MOST_NAMES_TO_SEARCH = 24

    def __init__(self, source: Source, finder: Finder | None = None) -> None:
        self.source = source
        self._finder = finder

    @property
    def name(self) -> str:
        """The name of the file, for messages."""
        return self.source.name

    @cached_property
    def table(self) -> Table:
        """The index of all nodes."""
        return Table.read(self.source)

    @property
    def has_table(self) -> bool:
        """Whether the index has been made."""
        return "table" in self.__dict__

    def prefetch(self, names: Iterable[str]) -> None:
        """Searches for a few names that will be requested, so that a big file need not be indexed for them."""
        wanted = [name for name in dict.fromkeys(names) if name]
        if self._finder is None and not self.has_table and 0 < len(wanted) <= self.MOST_NAMES_TO_SEARCH:
            self._finder = Search.run(self.source, wanted)
            if self._finder is None:
                _ = self.table

    # -- nodes ---------------------------------------------------------------------------------------------

    @property
    def names(self) -> Sequence[str]:
        """The names of all nodes, in the order of the file."""
        return self.table.names

    def has(self, name: str) -> bool:
        """Returns whether a node has the name."""
        if self._finder is None or not self._finder.knows(name):
            return name in self.table.rows
        try:
            return self._finder.record(name) is not None
        except InputError:  # several nodes have the name
            return True

    def record(self, name: str) -> Record | None:
        """Returns the record of the node `name`, or None.

        Raises:
            InputError: several nodes have the name.
        """
        if self._finder is not None and self._finder.knows(name):
            return self._finder.record(name)
        row = self._row(name)
        return None if row is None else self.table.record(row)

    def extent(self, name: str) -> tuple[int, int] | None:
        """Returns the start and the end of the record of the node `name`, or None; see `record`."""
        if self._finder is not None and self._finder.knows(name):
            record = self._finder.record(name)
            return None if record is None else (record.start, record.end)
        row = self._row(name)
        return None if row is None else (self.table.starts[row], self.table.ends[row])

    def _row(self, name: str) -> int | None:
        row = self.table.rows.get(name)
        if row is not None and name in self._repeated:
            raise _several(self.source, name)
        return row

    @cached_property
    def _repeated(self) -> frozenset[str]:
        names = self.table.names
        counts = Counter(names) if len(self.table.rows) != len(names) else {}
        return frozenset(name for name, count in counts.items() if count > 1)

    def rows(self, names: Collection[str]) -> list[int]:
        """Returns the row in the index of each of the nodes `names` that exist, in any order; see `record`."""
        rows, all_names = self.table.rows, self.table.names
        if len(names) > len(all_names) // 8 and len(rows) == len(all_names):  # one pass is faster than lookups
            return [*compress(range(len(all_names)), map(names.__contains__, all_names))]
        for name in self._repeated.intersection(names) if names else ():  # `_repeated` reads all names of the file
            raise _several(self.source, name)
        rows.expect(len(names))
        return [row for row in map(rows.get, names) if row is not None]

    def first_missing(self, names: Collection[str]) -> str | None:
        """Returns the first of `names` that no node has, or None."""
        if self.has_table and len(self.rows(names)) == len(names):
            return None
        return next((name for name in names if not self.has(name)), None)

    def users(self, name: str) -> Iterable[str]:
        """Returns the nodes that have `name` as an input or control input, and perhaps other nodes."""
        found = self._finder.mentions(name) if self._finder is not None else None
        if found is None:
            table = self.table
            row = table.rows.get(name)
            rows = table.missing.get(name, ()) if row is None else table.users(row)
            found = [table.names[user] for user in rows]
        return found

    def users_besides(self, names: Collection[str]) -> Iterable[str]:
        """Returns the nodes other than `names` that have one of `names` as an input, and perhaps other nodes."""
        if self._finder is not None:
            return dict.fromkeys(user for name in names for user in self.users(name) if user not in names)
        return compress(self.names, self.user_flags(names, names))

    def user_flags(self, names: Collection[str], others: Collection[str] = ()) -> bytearray:
        """Returns for each row of the index, 1 if it mentions one of `names` as in `users` and is not in `others`."""
        table, rows = self.table, self.rows(names)
        flags = bytearray(len(table.names))
        users = [*map(table.colocated, names)]
        if len(rows) < len(flags) // 8:
            users += map(table.users, rows)
        else:  # one pass over all edges is faster than a search for each name
            is_one, bits = bytearray(flags), table.PORT_BITS
            for row in rows:
                is_one[row] = 1
            pairs = zip(table.edges, table.readers(), strict=True)
            users.append(row for code, row in pairs if code >= 0 and is_one[code >> bits])
        for row in chain.from_iterable(users):
            flags[row] = 1
        for row in self.rows(others):
            flags[row] = 0
        return flags

    def stretches_of_users(self, names: Collection[str], others: Collection[str]) -> Iterable[tuple[int, int]]:
        """Returns the `stretches` of the nodes that have one of `names` as an input or colocation, except `others`.

        Perhaps other nodes are included.
        """
        if self._finder is not None:
            users = {user for name in names for user in (*self.users(name), *self.colocated(name))}
            return self.stretches(users.difference(others))
        flags, table = self.user_flags(names, others), self.table
        for name in self._repeated.intersection(compress(table.names, flags)) if self._repeated else ():
            raise _several(self.source, name)
        return ((table.starts[at.start()], table.ends[at.end() - 1]) for at in finditer(b"\x01+", flags))

    def stretches(self, names: Collection[str]) -> list[tuple[int, int]]:
        """Returns the start and the end of the record of each of `names` that exists, in file order; adjacent ones as
        one.
        """
        if self.has_table:
            rows, table = sorted(self.rows(names)), self.table
            starts, ends = (array("Q", map(column.__getitem__, rows)) for column in (table.starts, table.ends))
        else:
            extents = sorted(found for name in names if (found := self.extent(name)) is not None)
            starts, ends = (array("Q", map(itemgetter(i), extents)) for i in range(2))
        firsts = compress(starts, map(ne, starts, chain([-1], ends)))
        lasts = compress(ends, map(ne, ends, chain(starts[1:], [-1])))
        return list(zip(firsts, lasts, strict=True))

    def colocated(self, name: str) -> Iterable[str]:
        """Returns the nodes that are colocated with `name`, and perhaps other nodes."""
        found = self._finder.mentions(name) if self._finder is not None else None
        return [self.table.names[row] for row in self.table.colocated(name)] if found is None else found

    # -- outside the nodes ---------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """The data about the file outside its nodes."""
        return self._finder.layout if self._finder is not None and not self.has_table else self.table.layout

    def fields(self, number: int) -> list[Field]:
        """Returns the top-level fields with `number` that hold messages; protobuf allows several, and merges them."""
        return [field for field in self.layout.others if field.number == number and field.wire_type == LEN]

    @cached_property
    def versions(self) -> VersionDef:
        """The GraphDef's versions, which limit the TensorFlow versions that may read it; zeros if the file has none.

        Raises InputError if the field is corrupt.
        """
        data = b"".join(self.source.read(field.value, field.end - field.value) for field in self.fields(VERSIONS))
        try:
            return VersionDef.FromString(data)  # this merges repeated fields
        except decode_error():
            raise InputError(f"the versions field of {printable(self.name)} is corrupt") from None

    @property
    def producer(self) -> int:
        """The version of the GraphDef's producer; 0 if the file has none."""
        return self.versions.producer
