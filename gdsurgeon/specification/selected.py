"""Which nodes a selection means, read off its definition over the names and edges of the file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.ops.kinds import CONTROL_FLOW, PLACEHOLDERS

Boundary = tuple[tuple[str, ...], tuple[str, ...]]


class Selecting(Protocol):
    """What a selection says; see `gdsurgeon.select.Selection`."""

    @property
    def nodes(self) -> tuple[str, ...]: ...
    @property
    def regexes(self) -> tuple[str, ...]: ...
    @property
    def ops(self) -> tuple[str, ...]: ...
    @property
    def scopes(self) -> tuple[str, ...]: ...
    @property
    def between(self) -> tuple[Boundary, ...]: ...
    @property
    def forward(self) -> tuple[str, ...]: ...
    @property
    def backward(self) -> tuple[str, ...]: ...
    @property
    def exclude(self) -> tuple[str, ...]: ...
    @property
    def control(self) -> bool: ...
    @property
    def constants(self) -> bool: ...


def selected(graph: Graph, what: Selecting | Iterable[str]) -> list[str]:
    """The names of the nodes that are meant, in the order of the file.

    Args:
        graph: as it is in its file.
        what: a selection, or names.
    """
    if isinstance(what, (tuple, list)):
        return list(dict.fromkeys(str(name) for name in what))
    assert not isinstance(what, Iterable)
    edges = _Edges(graph.store.table, control=what.control)
    if not any((what.nodes, what.regexes, what.ops, what.scopes, what.between, what.forward, what.backward)):
        meant = set(range(len(edges.names)))
    else:
        meant = {row for row in range(len(edges.names)) if edges.is_named(row, what)}
        meant |= closure(map(edges.row, what.forward), edges.readers)
        meant |= closure(map(edges.row, what.backward), edges.producers)
        for start, end in what.between:
            heads = {reader for tensor in start for reader in edges.readers_of(tensor)}
            above, below = closure(map(edges.row, end), edges.producers), closure(heads, edges.readers)
            meant |= above & below
    if what.constants:
        _Edges(graph.store.table, control=True).add_constants(meant, graph)
    ends = {node.name for node in graph.ends}
    return [
        name
        for row, name in enumerate(edges.names)
        if row in meant
        and not any(re.search(pattern, name) for pattern in what.exclude)
        and (name not in ends or name in what.nodes)
    ]


class _Edges:
    """The edges of a file, with or without its control edges."""

    def __init__(self, table: Table, *, control: bool) -> None:
        self.names = table.names
        self._table = table
        self._control = control
        self._readers: dict[int, list[int]] | None = None

    def is_named(self, row: int, what: Selecting) -> bool:
        name = self.names[row]
        path = name.split("/") if what.scopes else []
        return (
            name in what.nodes
            or self._table.op(row) in what.ops
            or any(re.search(pattern, name) for pattern in what.regexes)
            or any(path[: len(scope)] == scope for scope in (s.strip("/").split("/") for s in what.scopes) if scope[0])
            or any(not scope.strip("/") for scope in what.scopes)
        )

    def row(self, tensor: str) -> int:
        return self._table.rows[parse_tensor(tensor).node]

    def _codes(self, row: int) -> Iterator[tuple[int, int]]:
        for code in self._table.inputs(row):
            port = code & Table.CONTROL_PORT
            if code >= 0 and (self._control or port != Table.CONTROL_PORT):
                yield code >> Table.PORT_BITS, port

    def producers(self, row: int) -> Iterable[int]:
        return [producer for producer, _ in self._codes(row)]

    def readers(self, row: int) -> Iterable[int]:
        if self._readers is None:
            self._readers = {}
            for reader in range(len(self.names)):
                for producer, _ in self._codes(reader):
                    self._readers.setdefault(producer, []).append(reader)
        return self._readers.get(row, ())

    def readers_of(self, tensor: str) -> Iterator[int]:
        port = parse_tensor(tensor).port
        row = self.row(tensor)
        for reader in self.readers(row):
            if (row, port) in self._codes(reader):
                yield reader

    def add_constants(self, meant: set[int], graph: Graph) -> None:
        """Adds to MEANT what follows from constants alone, where all that reads it or waits for it is meant."""
        constant, left = self._constant(graph), Counter[int]()
        pending = list(meant)
        while pending:
            for producer in {*self.producers(pending.pop())} & constant - meant:
                left[producer] += 1
                if left[producer] == len({*self.readers(producer)}):
                    meant.add(producer)
                    pending.append(producer)

    def _constant(self, graph: Graph) -> set[int]:
        """What follows from constants alone, and from nothing that changes or is fed."""
        settled = Counter[int]()
        out = {row for row in range(len(self.names)) if self._table.op(row) == "Const"}
        pending = list(out)
        while pending:
            for reader in {*self.readers(pending.pop())} - out:
                settled[reader] += 1
                if settled[reader] == len({*self.producers(reader)}) and _is_pure(graph, self._table.op(reader)):
                    out.add(reader)
                    pending.append(reader)
        return out


def _is_pure(graph: Graph, op: str) -> bool:
    definition = graph.op_def(op)
    return definition is not None and not definition.is_stateful and op not in CONTROL_FLOW | PLACEHOLDERS
