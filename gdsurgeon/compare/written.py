"""Reads the graph that a writer has written, without any information from the writer.

Most of the output consists of stretches of the edited file. Their nodes are known without reading: a stretch of whole
records of the file contains the same nodes. All other bytes are read as by a reader of the output. If such a record
equals the record of that name in the file, byte for byte, it is also the same node. Consecutive nodes of the file are
compared column by column, many at once: their fields must be equal, with the new names of renamed nodes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter, sub
from typing import NamedTuple

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Copied, Table
from gdsurgeon.graph.names import renaming
from gdsurgeon.graph.records import Batch, Layout, Record, Run, batch_of, batches, record_at
from gdsurgeon.graph.store import Store
from gdsurgeon.wire.fields import Field
from gdsurgeon.wire.source import SourceSlice
from gdsurgeon.wire.write import Chunk, ChunkSource, Places, SourceSpan, resolved


class Written:
    """The graph that an edit of a file has written. For the store of this graph, it finds the records of the nodes.

    Args:
        before: the file.
        chunks: the written chunks.
        renamed: the names before and after of renamed nodes.

    Attributes:
        graph: the graph.
        renamed: the nodes of `renamed` that are the same with their new name, as a comparison of columns has shown.
        order: its nodes in their order: rows of the file, and the names of other nodes.
        has_same_fields: whether all fields of the file outside its nodes were copied once, without additions.

    Raises:
        InputError: the chunks are not a GraphDef.
    """

    def __init__(self, before: Graph, chunks: Sequence[Chunk], renamed: Mapping[str, str]) -> None:
        self._table = before.store.table
        self.source = ChunkSource(chunks, before.source_name)
        # The other name of each renamed node; None: a different node may have the name.
        self._now: dict[str, str | None] = {**dict.fromkeys(renamed.values()), **renamed}
        self._was: dict[str, str | None] = {**dict.fromkeys(renamed), **{new: old for old, new in renamed.items()}}
        self._spelt = renaming(renamed)
        self.renamed: dict[str, str] = {}
        self._fresh: dict[str, Record] = {}
        self._again: list[str] = []
        self.order: list[Copied | str] = []
        self._others: list[Field] = []
        self._read()
        kept = [part for part in self.order if isinstance(part, Copied)]
        self.kept = sorted(kept, key=itemgetter(0, 1))
        count = sum(part.last - part.first for part in kept) + len(self._fresh) + len(self._again)
        ends = [self._table.ends[part.last - 1] + part.shift for part in kept]
        ends += [record.end for record in self._fresh.values()]
        self.layout = Layout(count, max(ends, default=0), tuple(sorted(self._others, key=lambda field: field.start)))
        self.graph = Graph(self.source, text=before.text)
        self.graph.store = Store(self.source, self)

    @property
    def fresh(self) -> list[str]:
        """The names of the new and the changed nodes; a name occurs twice if two nodes have it."""
        return [part for part in self.order if isinstance(part, str)]

    def _read(self) -> None:
        """Reads the bytes between the copied pieces."""
        position = fresh = 0
        kept: list[Field] = []
        for piece in _copied(self._table, self.source):
            fresh += self._read_between(position, piece.start + piece.shift)
            if piece.rows[0] < piece.rows[1]:
                self._keep(Copied(*piece.rows, piece.shift))
            kept += piece.others
            self._others += [_shifted(field, piece.shift) for field in piece.others]
            position = piece.end + piece.shift
        fresh += self._read_between(position, self.source.size)
        self.has_same_fields = not fresh and kept == [*self._table.layout.others]

    def _read_between(self, start: int, end: int) -> int:
        """Reads the records from `start` to `end`, and returns the number of other fields."""
        count, forms = 0, bool(self._now) and end - start > _SHORT
        for item in batches(SourceSlice(self.source, start, end), forms=forms) if end > start else ():
            if isinstance(item, Batch):
                self._take_all(item, start + item.run.base)
            elif isinstance(item, Record):
                self._take(item.header().name, start + item.start, start + item.end)
            else:
                count += 1
                self._others.append(_shifted(item, start))
        return count

    def _take_all(self, batch: Batch, base: int) -> None:
        """Records the nodes of a batch, which begins at `base` in the source."""
        names, row, buf = batch.names, self._row(batch.names[0]), batch.run.buf
        bounds = array("Q", (base + bound for bound in batch.run.bounds))
        olds = self._table.names[row : row + len(names)] if batch.forms and row >= 0 else []
        if [self._now.get(old, old) for old in olds] == names and self._is_alike(batch, row):
            self.renamed |= {old: new for old, new in zip(olds, names, strict=True) if old != new}
            end = row + len(names)
            self._keep(Copied(row, end, bounds[-1] - self._table.ends[end - 1], bounds))
        else:
            for name, (first, last) in zip(names, pairwise(bounds), strict=True):
                self._take(name, first, last, buf[first - base : last - base])

    def _is_alike(self, its: Batch, row: int) -> bool:
        """Returns whether a batch has the nodes of the file from `row` on, with new names."""
        stop = row + len(its.names)
        starts, ends = self._table.starts[row:stop], self._table.ends[row:stop]
        run = Run(0, self._table.source.read(starts[0], ends[-1] - starts[0]), [*map(sub, ends, starts)])
        mine = batch_of(run, forms=True) if run.size == len(run.buf) else None  # else other fields are between
        if mine is None or its.inputs.count("") != stop - row:
            return False
        spelt = {text: self._spelt(text) for text in set(mine.inputs)}
        forms = (mine.forms, mine.form_of) == (its.forms, its.form_of)
        return forms and [*map(spelt.__getitem__, mine.inputs)] == its.inputs

    def _row(self, name: str) -> int:
        """Returns the row in the file of the node that is now called `name`; -1 if the file has no such node."""
        old = self._was.get(name, name)
        return -1 if old is None else self._table.rows.get(old, -1)

    def _take(self, name: str, start: int, end: int, data: bytes | None = None) -> None:
        """Records the node `name` with its record from `start` to `end`, and its bytes `data` if available."""
        row = self._table.rows.get(name, -1)
        if row >= 0 and name not in self._was and name not in self._now and self._is_that_of(row, start, end, data):
            self._keep(Copied(row, row + 1, start - self._table.starts[row]))
            return
        record = record_at(self.source, start, end, data)
        if self._fresh.setdefault(name, record) is not record:
            self._again.append(name)
        self.order.append(name)

    def _is_that_of(self, row: int, start: int, end: int, data: bytes | None) -> bool:
        """Returns whether a record has the bytes of the record of `row` in the file."""
        first, last = self._table.starts[row], self._table.ends[row]
        if last - first != end - start:
            return False
        if data is not None:
            return self._table.source.read(first, last - first) == data
        mine, its = SourceSpan(self._table.source, first, last), SourceSpan(self.source, start, end)
        return [*resolved([mine])] == [*resolved([its])]  # of large ones nothing is read

    def _keep(self, part: Copied) -> None:
        """Adds rows of the file; consecutive rows in both places are one part."""
        before = self.order[-1] if self.order else ""
        if (
            isinstance(before, Copied)
            and before.bounds is part.bounds is None
            and (before.last, before.shift) == (part.first, part.shift)
        ):
            self.order[-1] = before._replace(last=part.last)
        else:
            self.order.append(part)

    def doubled(self) -> Iterator[str]:
        """Yields the nodes that are written more often than the file has them, once for each surplus copy."""
        yield from self._again
        for name in self._fresh:
            if self._part_of(self._row(name)) is not None:
                yield name
        at = 0
        for first, last, *_ in self.kept:
            yield from self._table.names[first : min(at, last)]
            at = max(at, last)

    def lost(self) -> Iterator[str]:
        """Yields the nodes of the file whose records were not copied unchanged, in the order of the file."""
        at = 0
        for first, last, *_ in [*self.kept, Copied(len(self._table.names), 0, 0)]:
            for row in range(at, first):
                yield self._table.names[row]
            at = max(at, last)

    # -- a finder for the store ----------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        del name
        return True

    def mentions(self, name: str) -> None:
        """Returns None: the store makes a table of all that is written."""

    def record(self, name: str) -> Record | None:
        fresh = self._fresh.get(name)
        if fresh is not None:
            return fresh
        row = self._row(name)
        part = self._part_of(row)
        if part is None or part.bounds is None:
            return part and self._table.record(row)
        return record_at(self.source, part.bounds[row - part.first], part.bounds[row - part.first + 1])

    def _part_of(self, row: int) -> Copied | None:
        """Returns the part with the node at `row` of the file; None if the node was not copied."""
        at = bisect_right(self.kept, row, key=itemgetter(0)) - 1
        return self.kept[at] if at >= 0 and row < self.kept[at].last else None


_SHORT = 1 << 12
"""Bytes that are compared record by record, not column by column."""


class _Copied(NamedTuple):
    """A stretch of the file that was copied: whole records and other fields.

    Attributes:
        start, end: its place in the file.
        shift: the distance of its place in the output from its place in the file.
        rows: the rows of its nodes, from and to.
        others: the fields outside the nodes.
    """

    start: int
    end: int
    shift: int
    rows: tuple[int, int]
    others: list[Field]


def _copied(table: Table, source: ChunkSource) -> Iterator[_Copied]:
    """Yields the parts of the file that were copied, in the order in which they are written."""
    fields = sorted(table.layout.others, key=lambda field: field.start)
    field_starts, field_ends = [field.start for field in fields], [field.end for field in fields]
    places = Places(table.source)
    spans = (
        (piece, at) for piece, at in zip(source.pieces, source.starts, strict=False) if isinstance(piece, SourceSpan)
    )
    for start, end, position in (stretch for piece, at in spans for stretch in places.of(piece, at)):
        first = bisect_left(table.starts, start)
        has_rows = first < len(table.ends) and table.ends[first] <= end  # as a part of a record has none
        rows = first, bisect_right(table.ends, end, first) if has_rows else first
        outside = bisect_left(field_starts, start), bisect_right(field_ends, end)
        firsts, lasts = [], []
        if rows[0] < rows[1]:
            firsts.append(table.starts[rows[0]])
            lasts.append(table.ends[rows[1] - 1])
        if outside[0] < outside[1]:
            firsts.append(field_starts[outside[0]])
            lasts.append(field_ends[outside[1] - 1])
        if firsts:
            yield _Copied(min(firsts), max(lasts), position - start, rows, fields[outside[0] : outside[1]])


def _shifted(field: Field, by: int) -> Field:
    return field._replace(start=field.start + by, value=field.value + by, end=field.end + by)
