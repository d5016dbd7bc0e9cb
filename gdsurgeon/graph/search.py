"""Finds the nodes that mention one of a few names, by searching the bytes.

An edit that names a handful of nodes needs no index of all of them, which takes over a second and some hundred bytes a
node for a million: the bytes are searched for the names, at the speed of memory, and only the records that hold one are
parsed.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.graph.index import colocated_names
from gdsurgeon.graph.names import parse_input
from gdsurgeon.graph.records import Layout, Record, record_at, records_with, scanned
from gdsurgeon.ops.attr_names import COLOCATION_ATTR
from gdsurgeon.wire.fields import Field
from gdsurgeon.wire.node_record import Header
from gdsurgeon.wire.scan import Run, is_node
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
