"""The graph as integers: for walks over all of it, which need no node objects."""

from __future__ import annotations

from bisect import insort
from collections.abc import Container, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table, places
from gdsurgeon.graph.node import Node, Output, check_reads
from gdsurgeon.ops.kinds import MERGE, NEXT_ITERATION


class Topology:
    """The edges of a graph as they are when this is made.

    A node is its row in the graph's table; the nodes that an edit has added follow. An edge is a code
    ``producer << Table.PORT_BITS | output index``, with `Table.CONTROL_PORT` for a control input; an input that names
    no node is below -1.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.table = graph.store.table
        self.rows = len(self.table.names)
        self._added = [node for node in graph.touched() if node.base_name is None]
        self._ids = {node: self.rows + i for i, node in enumerate(self._added)}
        self.gone = frozenset(self.table.rows[n.base_name] for n in graph.removed() if n.base_name is not None)
        self._codes: dict[int, tuple[int, ...]] = {}
        self._consumers: dict[bool, list[list[int]]] = {}
        self._ops: dict[int, str] = {}  # of the nodes that an edit has made another op
        self._all_ops: frozenset[str] | None = None
        for node in graph.touched():
            if node.has_resolved_inputs:
                self._codes[self.id_of(node)] = tuple(self._resolved(node))
            if node.op_override is not None and node.base_name is not None:
                self._ops[self.id_of(node)] = node.op_override
        self.size = self.rows + len(self._added)

    def _resolved(self, node: Node) -> Iterator[int]:
        bits = Table.PORT_BITS
        for output in node.inputs:
            yield self.code(output) if output.node.exists else Table.UNRESOLVED
        for control in node.controls:
            yield self.id_of(control) << bits | Table.CONTROL_PORT if control.exists else Table.UNRESOLVED

    def id_of(self, node: Node) -> int:
        """The number of NODE."""
        return self._ids[node] if node.base_name is None else self.table.rows[node.base_name]

    def knows(self, node: Node) -> bool:
        """Whether NODE was there when this was made."""
        return node.base_name is not None or node in self._ids

    def node(self, number: int) -> Node:
        """The node with that number."""
        if number >= self.rows:
            return self._added[number - self.rows]
        return self.graph.base_node(self.table.names[number])

    def name(self, number: int) -> str:
        """Its name now."""
        if number >= self.rows:
            return self._added[number - self.rows].name
        return self.graph.spell_base_name(self.table.names[number])

    def op(self, number: int) -> str:
        """Its op."""
        if number >= self.rows:
            return self._added[number - self.rows].op
        return self._ops.get(number) or self.table.op(number)

    def op_of_each(self) -> list[str]:
        """Returns the op of each node, including removed nodes."""
        names = self.table.op_names
        out = [names[i] for i in self.table.ops] + [node.op for node in self._added]
        for number, op in self._ops.items():
            out[number] = op
        return out

    def ops(self) -> frozenset[str]:
        """The ops of the nodes; some of nodes that were removed may be among them."""
        if self._all_ops is None:  # it is asked for each output of a graph
            added = {self.op(number) for number in range(self.rows, self.size)}
            self._all_ops = frozenset((*self.table.op_names, *self._ops.values(), *added))
        return self._all_ops

    def with_ops(self, ops: Iterable[str]) -> list[int]:
        """The numbers of the nodes of OPS, ascending."""
        names = set(ops)
        wanted = {i for i, op in enumerate(self.table.op_names) if op in names}
        found = {row for op in wanted for row in places(self.table.ops, op)}
        found -= self._ops.keys()
        found.update(number for number, op in self._ops.items() if op in names)
        found.update(number for number in range(self.rows, self.size) if self.op(number) in names)
        return sorted(found - self.gone)

    def numbers(self) -> Iterator[int]:
        """The numbers of all nodes that are there."""
        if not self.gone:
            return iter(range(self.size))
        return (n for n in range(self.size) if n not in self.gone)

    def inputs(self, number: int) -> Sequence[int]:
        """The codes of a node's inputs."""
        codes = self._codes.get(number)
        if codes is not None:
            return codes
        return self.table.inputs(number) if number < self.rows else ()

    def draft(self) -> Topology:
        """A copy in which `set_inputs`, `set_op` and `leave_out` try an edit out."""
        out = copy(self)
        out._codes, out._consumers, out._ops = dict(self._codes), dict(self._consumers), dict(self._ops)
        out.__dict__.pop("_new_users", None)
        return out

    def is_now_the_graph(self, changed: Iterable[int]) -> None:
        """Says that the graph has become what this draft of it is, CHANGED being the nodes that read something else."""
        control = Table.CONTROL_PORT
        for number in changed:  # a node has its control inputs behind the others, each once
            codes = self._codes[number]
            waits = dict.fromkeys(code for code in codes if code & control == control)
            if waits:
                self._codes[number] = (*(code for code in codes if code not in waits), *waits)
        for known in (self._codes, self._ops):
            for number in known.keys() & self.gone:
                del known[number]
        self.__dict__.pop("_new_users", None)
        self.graph.know(Topology, self)

    def set_inputs(self, number: int, codes: Iterable[int]) -> tuple[set[int], set[int]]:
        """Has the node read something else, in this draft and not in the graph.

        Returns:
            The nodes that it reads, or waits for, no longer, and those that it has not before.
        """
        is_new, before = number not in self._codes, set(self.producers(number))
        new = self._codes[number] = tuple(codes)
        now = set(self._producers(new))
        lost, found = before - now, now - before
        self._consumers.clear()
        users = self.__dict__.get("_new_users")
        if users is not None:
            for producer in () if is_new else lost:
                users[producer].pop(number)
            for producer in now if is_new else found:
                users.setdefault(producer, {})[number] = None
        return lost, found

    def set_op(self, number: int, op: str) -> None:
        """Has the node be another op, in this draft."""
        self._ops[number] = op
        self._all_ops = None

    def leave_out(self, numbers: Iterable[int]) -> None:
        """Has nodes be gone, in this draft."""
        self.gone = self.gone.union(numbers)
        self._consumers.clear()

    def reads_missing(self, number: int) -> bool:
        """Returns whether an input of a node names a missing node."""
        return min(self.inputs(number), default=0) < 0

    def producers(self, number: int) -> list[int]:
        """The numbers of the nodes that a node reads or waits for."""
        return self._producers(self.inputs(number))

    @staticmethod
    def _producers(codes: Iterable[int]) -> list[int]:
        bits = Table.PORT_BITS
        return [code >> bits for code in codes if code >= 0]

    def data_producers(self, number: int) -> list[int]:
        """The numbers of the nodes whose outputs a node reads."""
        return list(self._data(self.inputs(number)))

    def reads(self, number: int) -> list[tuple[int, int]]:
        """Returns the inputs of a node as pairs (node, index of its output); the index is -1 for control inputs."""
        bits, control = Table.PORT_BITS, Table.CONTROL_PORT
        codes = [code for code in self.inputs(number) if code >= 0]
        return [(code >> bits, -1 if code & control == control else code & control) for code in codes]

    def consumers(self, *, control: bool = True) -> list[list[int]]:
        """For each node the numbers of the nodes that read it or (with CONTROL) wait for it; not to be changed."""
        if control in self._consumers:
            return self._consumers[control]
        out: list[list[int]] = [[] for _ in range(self.size)]
        bits, mask = Table.PORT_BITS, 0 if control else Table.CONTROL_PORT
        other = self._codes.keys() | self.gone
        for code, row in zip(self.table.edges, self.table.readers(), strict=True):  # a loop over all edges of the graph
            if code >= 0 and row not in other and (not mask or code & mask != mask):
                readers = out[code >> bits]
                if not readers or readers[-1] != row:
                    readers.append(row)
        producers = self.producers if control else self.data_producers
        for number in self._codes.keys() - self.gone:
            for producer in set(producers(number)):
                insort(out[producer], number)
        self._consumers[control] = out
        return out

    def users(self, number: int) -> list[int]:
        """The numbers of the nodes that read a node or wait for it: for a few nodes; of all, `consumers` knows."""
        found = list(self.table.users(number)) if number < self.rows else []
        if self._codes or self.gone:
            found = [n for n in found if n not in self._codes and n not in self.gone]
            found += self._new_users.get(number, ())
        return found

    @cached_property
    def _new_users(self) -> dict[int, dict[int, None]]:
        """The users of each node among those whose inputs the table does not know."""
        out: dict[int, dict[int, None]] = {}
        for number in self._codes:
            for producer in self.producers(number):
                out.setdefault(producer, {})[number] = None
        return out

    def unread(self) -> list[int]:
        """Returns the nodes whose outputs no node reads as data."""
        table = self.table
        others = self.gone | self._codes.keys()
        before = {row for number in others if number < self.rows for row in self._data(table.inputs(number))}
        now = {row for codes in self._codes.values() for row in self._data(codes)}
        perhaps = before - now - table.unread
        if perhaps:
            perhaps -= self._read_by_rest(perhaps, others)
        return sorted((table.unread | perhaps | set(range(self.rows, self.size))) - now - self.gone)

    def _read_by_rest(self, rows: set[int], others: Container[int]) -> set[int]:
        """Returns the `rows` that are read by a row of the table which is not in `others`."""
        bits, control = Table.PORT_BITS, Table.CONTROL_PORT
        pairs = zip(self.table.edges, self.table.readers(), strict=True)
        return {
            code >> bits
            for code, row in pairs
            if code >> bits in rows and row not in others and code & control != control
        }

    @staticmethod
    def _data(codes: Iterable[int]) -> Iterator[int]:
        """Yields the numbers of the nodes whose outputs `codes` stand for."""
        bits, control = Table.PORT_BITS, Table.CONTROL_PORT
        return (code >> bits for code in codes if code >= 0 and code & control != control)

    def is_loop_back(self, producer: int, consumer: int) -> bool:
        """Whether the edge closes a v1 while loop, legally."""
        return self.op(producer) in NEXT_ITERATION and self.op(consumer) in MERGE

    def flags(self, numbers: Iterable[int]) -> bytearray:
        """For each node whether it is one of NUMBERS."""
        out = bytearray(self.size)
        for number in numbers:
            out[number] = 1
        return out

    def code(self, output: Output) -> int:
        """The code of the edges that read OUTPUT."""
        return self.id_of(output.node) << Table.PORT_BITS | output.index

    def upstream(
        self,
        numbers: Iterable[int],
        *,
        through_loops: bool = True,
        control: bool = True,
        given: Container[int] = (),
    ) -> bytearray:
        """For each node whether one of NUMBERS depends on it; they are part of the answer.

        Without `through_loops` the edges that close a v1 while loop are not followed, without `control`
        no control edges, and none of the codes GIVEN in any case.
        """
        pending = list(numbers)
        seen = self.flags(pending)
        bits, mask, rows = Table.PORT_BITS, 0 if control else Table.CONTROL_PORT, self.rows
        edges, offsets, changed = self.table.edges, self.table.offsets, self._codes
        while pending:
            number = pending.pop()
            known = number < rows and number not in changed
            for code in edges[offsets[number] : offsets[number + 1]] if known else self.inputs(number):
                producer = code >> bits
                if code < 0 or seen[producer] or (mask and code & mask == mask) or code in given:
                    continue
                if through_loops or not self.is_loop_back(producer, number):
                    seen[producer] = 1
                    pending.append(producer)
        return seen

    def check_reads(self, numbers: Iterable[int]) -> None:
        """Raises EditError where one of the nodes NUMBERS reads, or waits for, a node that is not there."""
        for number in numbers:
            if self.reads_missing(number):
                check_reads(self.node(number))

    def downstream(self, numbers: Iterable[int], consumers: list[list[int]]) -> bytearray:
        """For each node whether it depends on one of NUMBERS; they are part of the answer."""
        pending = list(numbers)
        seen = self.flags(pending)
        while pending:
            for consumer in consumers[pending.pop()]:
                if not seen[consumer]:
                    seen[consumer] = 1
                    pending.append(consumer)
        return seen


def topology_of(graph: Graph) -> Topology:
    """The topology of GRAPH as it is now: one for all who look at it."""
    return graph.derived(Topology)
