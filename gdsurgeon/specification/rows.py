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
from gdsurgeon.ops.dtypes import RESOURCE, VARIANT, base_dtype
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

    def has_value(self, row: int) -> bool:
        """Returns whether a row may have outputs that can be fetched."""
        dtypes = self.graph[self.names[row]].output_dtypes
        return dtypes is None or not all(base_dtype(dtype) in (RESOURCE, VARIANT) for dtype in dtypes)

    def of_op(self, ops: Container[str]) -> list[int]:
        """Returns the rows with one of the `ops`."""
        numbers = {number for number, op in enumerate(self.table.op_names) if op in ops}
        return [row for row, number in enumerate(self.table.ops) if number in numbers] if numbers else []

    def above(self, rows: Iterable[int], given: Iterable[Tensor] = ()) -> set[int]:
        """Returns `rows` and all rows that they depend on, if the tensors `given` are known."""
        bits, inputs = Table.PORT_BITS, self.table.inputs
        known = {row << bits | port for row, port in given}
        return closure(rows, lambda row: [code >> bits for code in inputs(row) if code >= 0 and code not in known])


def kept_names(graph: Graph, outputs: Iterable[str]) -> set[str]:
    """Returns the nodes of `outputs`, and those that signatures, savers and loaders of the model name."""
    return {*(graph.serving.nodes if graph.serving is not None else ()), *(parse_tensor(text).node for text in outputs)}


def named_nodes(graph: Graph) -> set[str]:
    """Returns the nodes whose names are used: by the model, or (without signatures) to fetch their values."""
    serving, rows = graph.serving, Rows(graph)
    out = {node.name for node in graph.ends}
    if serving is not None:
        out |= {name for name in serving.nodes if name in graph}
    if serving is None or not serving.called:
        out |= {
            rows.names[row]
            for row in rows.table.unread
            if rows.op(row) not in ("Const", "NoOp") and rows.has_value(row)
        }
    return out


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
    rows = Rows(graph)
    names = rows.names
    producers = rows.producers if what.control else rows.reads
    readers: dict[int, list[int]] = {}
    for row in range(len(names)) if what.forward or what.between else ():
        for producer in producers(row):
            readers.setdefault(producer, []).append(row)

    def consumers(row: int) -> Iterable[int]:
        return readers.get(row, ())

    if not any((what.nodes, what.regexes, what.ops, what.scopes, what.between, what.forward, what.backward)):
        found = set(range(len(names)))
    else:
        found = {row for row, name in enumerate(names) if _is_named(name, rows.op(row), what)}
        found |= closure(map(rows.row, what.forward), consumers)
        found |= closure(map(rows.row, what.backward), producers)
        for start, end in what.between:
            heads = {rows.row(user) for text in start for user, _ in rows.uses(rows.tensor(text))}
            above, below = closure(map(rows.row, end), producers), closure(heads, consumers)
            found |= above & below
    if what.constants:  # with rows that depend only on constants; all users of a row must be found
        first = {*rows.of_op(("Const",))}
        constants = _grown(first, rows.users, rows.producers, lambda row: is_pure(graph, rows.op(row)))
        _grown(found, rows.producers, rows.users, constants.__contains__)
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


def is_pure(graph: Graph, op: str) -> bool:
    """Returns whether nodes with `op` have no effects, and compute the same value in each run."""
    definition = graph.op_def(op)
    return definition is not None and not definition.is_stateful and op not in CONTROL_FLOW | PLACEHOLDERS
