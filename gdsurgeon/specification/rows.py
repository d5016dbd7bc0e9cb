"""The nodes of a file as rows of its index, and the edges between them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import format_input, parse_tensor

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
