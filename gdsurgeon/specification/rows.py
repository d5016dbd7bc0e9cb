"""The nodes of a file as rows of its index, the edges between them, and selections of nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator

from gdsurgeon.arguments import Selection
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import CONTROL_FLOW, PLACEHOLDERS
from gdsurgeon.specification.sharing import named_by_node

Tensor = tuple[int, int]
"""A row, and the index of its output; `CONTROL` for a control edge."""
CONTROL = Table.CONTROL_PORT


class Rows:
    """The rows of a graph as it is in its file."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.table = graph.store.table
        self.names = self.table.names
        self.op = self.table.op
        self.users = self.table.users

    def row(self, tensor: str) -> int:
        """Returns the row of a node or of the producer of a tensor."""
        return self.table.rows[parse_tensor(tensor).node]

    def tensor(self, text: str) -> Tensor:
        """Returns the tensor with a name."""
        return self.row(text), parse_tensor(text).port

    def name(self, tensor: Tensor) -> str:
        """Returns the name of a tensor."""
        return format_input(self.names[tensor[0]], tensor[1])

    def edges(self, row: int) -> list[Tensor]:
        """Returns the inputs of a row, data and control."""
        bits = Table.PORT_BITS
        return [(code >> bits, code & CONTROL) for code in self.table.inputs(row) if code >= 0]

    def producers(self, row: int) -> list[int]:
        """Returns the producers of all inputs."""
        return [code >> Table.PORT_BITS for code in self.table.inputs(row) if code >= 0]

    def reads(self, row: int) -> list[int]:
        """Returns the producers of the data inputs, in order."""
        return [producer for producer, port in self.edges(row) if port != CONTROL]

    def controls(self, row: int) -> list[int]:
        """Returns the control inputs."""
        return [producer for producer, port in self.edges(row) if port == CONTROL]

    def consumers(self, row: int) -> list[int]:
        """Returns the rows that read an output of a row."""
        return [user for user in self.users(row) if row in self.reads(user)]

    def uses(self, tensor: Tensor) -> Iterator[tuple[str, int]]:
        """Yields the consumers of a tensor, each with the slot."""
        for user in self.users(tensor[0]):
            for slot, read in enumerate(self.edges(user)):
                if read == tensor:
                    yield self.names[user], slot

    def of_op(self, ops: Container[str]) -> list[int]:
        """Returns the rows with one of the `ops`."""
        numbers = {number for number, op in enumerate(self.table.op_names) if op in ops}
        return [row for row, number in enumerate(self.table.ops) if number in numbers] if numbers else []

    def above(self, rows: Iterable[int], given: Iterable[Tensor] = ()) -> set[int]:
        """Returns `rows` and all rows that they depend on, if the tensors `given` are known."""
        bits, inputs = Table.PORT_BITS, self.table.inputs
        known = {row << bits | port for row, port in given}
        return closure(rows, lambda row: [code >> bits for code in inputs(row) if code >= 0 and code not in known])


def lost_functions(graph: Graph, called: Iterable[str], left: Iterable[Node]) -> list[str]:
    """Returns the functions of `graph` that nodes call only by the functions `called`, directly or indirectly.

    Functions that the nodes `left` call, or that no node calls, are not among them.
    """
    library = graph.functions
    lost = set(library.reachable(called, gradients=True))
    others = [name for function in library if (name := function.signature.name) not in lost]
    named = (name for node in left for name in named_by_node(node))
    return sorted(lost.difference(library.reachable([*named, *others], gradients=True)))


# -- selections -------------------------------------------------------------------------------------------


def selected(graph: Graph, what: Selection | Iterable[str]) -> list[str]:
    """Returns the names of the selected nodes, in file order.

    Args:
        graph: as it is in its file.
        what: a selection, or names.
    """
    if not isinstance(what, Selection):
        return list(dict.fromkeys(map(str, what)))
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


def _is_named(name: str, op: str, what: Selection) -> bool:
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
