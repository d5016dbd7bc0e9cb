"""The nodes of a selection, computed from its definition with the names and edges of the file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.kinds import CONTROL_FLOW, PLACEHOLDERS
from gdsurgeon.specification.rows import CONTROL, Rows

Boundary = tuple[tuple[str, ...], tuple[str, ...]]


class Selecting(Protocol):
    """The fields of a `gdsurgeon.select.Selection`."""

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
    """Returns the names of the selected nodes, in file order.

    Args:
        graph: as it is in its file.
        what: a selection, or names.
    """
    if isinstance(what, (tuple, list)):
        return list(dict.fromkeys(str(name) for name in what))
    assert not isinstance(what, Iterable)
    edges = _Edges(graph, control=what.control)
    names, row = edges.rows.names, edges.rows.row
    if not any((what.nodes, what.regexes, what.ops, what.scopes, what.between, what.forward, what.backward)):
        found = set(range(len(names)))
    else:
        found = {number for number, name in enumerate(names) if _is_named(name, edges.rows.op(number), what)}
        found |= closure(map(row, what.forward), edges.readers)
        found |= closure(map(row, what.backward), edges.producers)
        for start, end in what.between:
            heads = {edges.rows.row(user) for text in start for user, _ in edges.rows.uses(edges.rows.tensor(text))}
            above, below = closure(map(row, end), edges.producers), closure(heads, edges.readers)
            found |= above & below
    if what.constants:
        _Edges(graph, control=True).add_constants(found)
    ends = {node.name for node in graph.ends}
    return [
        name
        for number, name in enumerate(names)
        if number in found
        and not any(re.search(pattern, name) for pattern in what.exclude)
        and (name not in ends or name in what.nodes)
    ]


def _is_named(name: str, op: str, what: Selecting) -> bool:
    path = name.split("/") if what.scopes else []
    scopes = (scope.strip("/").split("/") for scope in what.scopes)
    return (
        name in what.nodes
        or op in what.ops
        or any(re.search(pattern, name) for pattern in what.regexes)
        or any(not scope[0] or path[: len(scope)] == scope for scope in scopes)
    )


class _Edges:
    """The edges of a file, with or without its control edges."""

    def __init__(self, graph: Graph, *, control: bool) -> None:
        self.rows = Rows(graph)
        self._control = control
        self._readers: dict[int, list[int]] = {}

    def producers(self, row: int) -> Iterable[int]:
        return [producer for producer, port in self.rows.edges(row) if self._control or port != CONTROL]

    def readers(self, row: int) -> Iterable[int]:
        if not self._readers:
            for reader in range(len(self.rows.names)):
                for producer in self.producers(reader):
                    self._readers.setdefault(producer, []).append(reader)
        return self._readers.get(row, ())

    def add_constants(self, found: set[int]) -> None:
        """Adds to `found` the rows that depend only on constants, and all of whose users are found."""
        constant = self._grown({*self.rows.of_op(("Const",))}, self.readers, self.producers, self._is_pure)
        self._grown(found, self.producers, self.readers, constant.__contains__)

    @staticmethod
    def _grown(
        rows: set[int],
        step: Callable[[int], Iterable[int]],
        back: Callable[[int], Iterable[int]],
        may_join: Callable[[int], bool],
    ) -> set[int]:
        """Adds to `rows` each row that a `step` leads to, if it `may_join` and all steps `back` lead to `rows`."""
        counts = Counter[int]()
        pending = list(rows)
        while pending:
            for row in {*step(pending.pop())} - rows:
                counts[row] += 1
                if counts[row] == len({*back(row)}) and may_join(row):
                    rows.add(row)
                    pending.append(row)
        return rows

    def _is_pure(self, row: int) -> bool:
        op = self.rows.op(row)
        definition = self.rows.graph.op_def(op)
        return definition is not None and not definition.is_stateful and op not in CONTROL_FLOW | PLACEHOLDERS
