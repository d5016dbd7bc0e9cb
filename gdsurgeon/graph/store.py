"""The file of a graph: finds nodes by name, and the nodes that mention a name.

If an edit names only a few nodes of a large file, its bytes are searched for these names. An index of all nodes would
take over a second and some hundred bytes a node for a million nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Protocol

from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.graph.index import Table, colocated_names
from gdsurgeon.graph.names import parse_input
from gdsurgeon.graph.records import Layout, Record, record_at, records_with, scanned
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.wire.fields import LEN, Field
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.node_record import Header
from gdsurgeon.wire.protos import VersionDef
from gdsurgeon.wire.scan import LIBRARY, VERSIONS, Run, is_node
from gdsurgeon.wire.source import Source


class Search:
    """The records that mention one of a few names, found by searching the bytes.

    Attributes:
        layout: see `Layout`.
        records: the first node of each name that was found.
        duplicates: those of the names that several nodes have.
        mentions: for each name, the nodes that have it as input, control input or colocation.
        others: the records of those nodes.
    """

    layout: Layout

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
        if name in self.mentions:
            if name in self.records:
                self.duplicates.add(name)
            self.records.setdefault(name, record)
        for mentioned in _mentioned(header, record):
            if mentioned in self.mentions:
                self.mentions[mentioned].append(name)
                if self.others.setdefault(name, record) is not record:
                    self.duplicates.add(name)


def _mentioned(header: Header, record: Record) -> set[str]:
    """The names of other nodes that a node's record holds."""
    out = {ref.node for text in header.inputs if (ref := parse_input(text)) is not None}
    if COLOCATION_ATTR in header.attrs:
        start, end = header.attrs[COLOCATION_ATTR]
        out.update(colocated_names(record.buffer()[start:end]))
    return out


class Finder(Protocol):
    """Finds the nodes of a file by their names."""

    @property
    def layout(self) -> Layout:
        """Where things are in the file."""

    def has_record(self, name: str) -> bool:
        """Whether `record` can tell."""

    def has_users(self, name: str) -> bool:
        """Whether `users` and `colocated` can tell."""

    def is_ambiguous(self, name: str) -> bool:
        """Whether several nodes have the name."""

    def has(self, name: str) -> bool:
        """Whether there is a node NAME, where `record` can tell."""

    def record(self, name: str) -> Record | None:
        """Returns the record of the node `name`, or None if there is none."""

    def users(self, name: str) -> Iterable[str]:
        """The nodes that may have NAME as input or control input, whether or not there is a node of that name."""

    def colocated(self, name: str) -> Iterable[str]:
        """The nodes that may be colocated with NAME."""


class SearchFinder:
    """Answers for the few names that the bytes were searched for."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.layout = search.layout

    def has_record(self, name: str) -> bool:
        return name in self._search.mentions or name in self._search.others

    def has_users(self, name: str) -> bool:
        return name in self._search.mentions

    def is_ambiguous(self, name: str) -> bool:
        return name in self._search.duplicates

    def has(self, name: str) -> bool:
        return self.record(name) is not None

    def record(self, name: str) -> Record | None:
        return self._search.records.get(name) if name in self._search.mentions else self._search.others[name]

    def users(self, name: str) -> Iterable[str]:
        return self._search.mentions[name]

    def colocated(self, name: str) -> Iterable[str]:
        return self._search.mentions[name]


class IndexFinder:
    """Answers for all names."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.layout = table.layout

    def has_record(self, name: str) -> bool:
        del name
        return True

    has_users = has_record

    @cached_property
    def _ambiguous(self) -> frozenset[str]:
        names = self._table.names
        if len(self._table.rows) == len(names):
            return frozenset()
        seen: set[str] = set()
        return frozenset(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]

    def is_ambiguous(self, name: str) -> bool:
        return name in self._ambiguous

    def has(self, name: str) -> bool:
        return name in self._table.rows

    def record(self, name: str) -> Record | None:
        row = self._table.rows.get(name)
        return None if row is None else self._table.record(row)

    def users(self, name: str) -> Iterable[str]:
        table = self._table
        row = table.rows.get(name)
        rows = table.missing.get(name, ()) if row is None else table.users(row)
        return [table.names[user] for user in rows]

    def colocated(self, name: str) -> Iterable[str]:
        names = self._table.names
        return [names[row] for row in self._table.colocated(name)]


class Store:
    """A GraphDef in a file: found by an index of all nodes, or, of a big file, by a search for a few names.

    Args:
        source: the bytes, a binary GraphDef.
        finder: finds nodes without an index, as far as it can.
        index: makes the index of all nodes; or None, where they have to be read for it.
    """

    MOST_NAMES_TO_SEARCH = 24

    def __init__(
        self, source: Source, finder: Finder | None = None, index: Callable[[], Table | None] = lambda: None
    ) -> None:
        self.source = source
        self._search = finder
        self._make_index = index

    @property
    def name(self) -> str:
        """The name of the file, for messages."""
        return self.source.name

    @cached_property
    def table(self) -> Table:
        """The index of all nodes."""
        return self._make_index() or Table.read(self.source)

    @property
    def has_table(self) -> bool:
        """Whether the index has been made."""
        return "table" in self.__dict__

    @cached_property
    def _index(self) -> IndexFinder:
        return IndexFinder(self.table)

    def prefetch(self, names: Iterable[str]) -> None:
        """Says which few names will be asked for, so that a big file need not be indexed for them."""
        if self._search is not None or self.has_table:
            return
        wanted = [name for name in dict.fromkeys(names) if name]
        if 0 < len(wanted) <= self.MOST_NAMES_TO_SEARCH:
            found = Search.run(self.source, wanted)
            if found is None:
                _ = self.table
            else:
                self._search = SearchFinder(found)

    # -- nodes ---------------------------------------------------------------------------------------------

    @property
    def names(self) -> Sequence[str]:
        """The names of all nodes, in the order of the file."""
        return self.table.names

    def has(self, name: str) -> bool:
        """Whether a node has the name."""
        if self._search is not None and self._search.has_record(name):
            return self._search.has(name)
        return name in self.table.rows

    def record(self, name: str) -> Record | None:
        """The record of the node NAME, or None.

        Raises:
            InputError: several nodes have the name.
        """
        search = self._search
        finder = search if search is not None and search.has_record(name) else self._index
        record = finder.record(name)
        if record is not None and finder.is_ambiguous(name):
            raise InputError(
                f"{quoted(self.name)} has several nodes named {quoted(name)}", code="ambiguous-name", node=name
            )
        return record

    def records(self, names: Iterable[str]) -> list[Record | None]:
        """Returns the result of `record` for each of `names`; efficient if many are close together.

        Raises:
            InputError: several nodes have one of the names.
        """
        wanted = list(names)
        if self._search is not None or len(self.table.rows) != len(self.table.names):
            return [self.record(name) for name in wanted]
        rows = list(map(self.table.rows.get, wanted))
        found = self.table.records(row for row in rows if row is not None)
        return [None if row is None else next(found) for row in rows]

    def users(self, name: str) -> Iterable[str]:
        """The nodes that have NAME as input or control input, each once or so, and perhaps some that have not."""
        return self._knowing(name).users(name)

    def colocated(self, name: str) -> Iterable[str]:
        """The nodes that are colocated with NAME, and perhaps some that are not."""
        return self._knowing(name).colocated(name)

    def _knowing(self, name: str) -> Finder:
        search = self._search
        return search if search is not None and search.has_users(name) else self._index

    # -- outside the nodes ---------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """Where things are in the file."""
        finder = self._search if self._search is not None and not self.has_table else self._index
        return finder.layout

    def fields(self, number: int) -> list[Field]:
        """The top-level fields NUMBER that hold messages; protobuf allows several, which add up."""
        return [field for field in self.layout.others if field.number == number and field.wire_type == LEN]

    @property
    def library_fields(self) -> list[Field]:
        """The fields of the function library."""
        return self.fields(LIBRARY)

    @cached_property
    def versions(self) -> VersionDef:
        """Which versions of TensorFlow may read the graph; zeros where the file does not say."""
        data = b"".join(self.source.read(field.value, field.end - field.value) for field in self.fields(VERSIONS))
        try:
            return VersionDef.FromString(data)  # fields that are there twice add up so
        except decode_error():
            raise InputError(f"the versions field of {printable(self.name)} is corrupt") from None

    @property
    def producer(self) -> int:
        """The version of the GraphDef's producer; 0 where the file does not say."""
        return self.versions.producer
