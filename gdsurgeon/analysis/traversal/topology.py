"""The graph as integers, and walks along its edges, without node objects."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from gdsurgeon.arguments import public
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.index import Table, places
from gdsurgeon.graph.node import Node, Output, Use, check_reads
from gdsurgeon.ops.kinds import MERGE, NEXT_ITERATION
from gdsurgeon.values import Data


class Topology:
    """The edges of a graph at the time of construction.

    The number of a node is its row in the table of the graph; nodes that an edit added have the following numbers. An
    edge is a code ``producer << Table.PORT_BITS | output index``, with `Table.CONTROL_PORT` for a control input. The
    code of an input that names a missing node is below -1.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.table = graph.store.table
        self.rows = len(self.table.names)
        self._added = [node for node in graph.touched() if node.base_name is None]
        self._ids = {node: self.rows + i for i, node in enumerate(self._added)}
        self.gone = frozenset(graph.store.rows(graph.removed()))
        self._codes: dict[int, tuple[int, ...]] = {}
        self._consumers: dict[bool, list[list[int]]] = {}
        self._ops: dict[int, str] = {}  # of nodes whose op was changed by an edit
        self._all_ops: frozenset[str] | None = None
        for node in graph.touched():
            if node.has_resolved_inputs:
                self._codes[self.id_of(node)] = tuple(self._resolved(node))
            if node.op_override is not None and node.base_name is not None:
                self._ops[self.id_of(node)] = node.op_override
        self.size = self.rows + len(self._added)

    @property
    def is_edited(self) -> bool:
        """Whether an edge or a node differs from those of the file."""
        return bool(self._codes or self.gone or self._added)

    def _resolved(self, node: Node) -> Iterator[int]:
        bits = Table.PORT_BITS
        for output in node.inputs:
            yield self.code(output) if output.node.exists else Table.UNRESOLVED
        for control in node.controls:
            yield self.id_of(control) << bits | Table.CONTROL_PORT if control.exists else Table.UNRESOLVED

    def id_of(self, node: Node) -> int:
        """Returns the number of `node`."""
        return self._ids[node] if node.base_name is None else self.table.rows[node.base_name]

    def knows(self, node: Node) -> bool:
        """Returns whether `node` existed when this topology was constructed."""
        return node.base_name is not None or node in self._ids

    def node(self, number: int) -> Node:
        """Returns the node with this number."""
        if number >= self.rows:
            return self._added[number - self.rows]
        return self.graph.base_node(self.table.names[number])

    def name(self, number: int) -> str:
        """Returns the current name of a node."""
        if number >= self.rows:
            return self._added[number - self.rows].name
        return self.graph.spell_base_name(self.table.names[number])

    def names(self) -> list[str]:
        """Returns the current name of each node, including removed nodes."""
        return [*map(self.graph.spell_base_name, self.table.names), *(node.name for node in self._added)]

    def op(self, number: int) -> str:
        """Returns the op of a node."""
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

    def op_counts(self) -> Counter[str]:
        """Returns the number of nodes of each op."""
        counts = Counter(self.table.op_counts)
        counts.update(node.op for node in self._added)
        changed = [number for number in self._ops if number < self.rows]
        counts.update(map(self.op, changed))
        counts.subtract(map(self.table.op, changed))
        counts.subtract(map(self.op, self.gone))
        return +counts

    def ops(self) -> frozenset[str]:
        """Returns the ops of the nodes, perhaps including ops of removed nodes."""
        if self._all_ops is None:  # called for each output of a graph
            added = {self.op(number) for number in range(self.rows, self.size)}
            self._all_ops = frozenset((*self.table.op_names, *self._ops.values(), *added))
        return self._all_ops

    def with_ops(self, ops: Iterable[str]) -> list[int]:
        """Returns the numbers of the nodes with one of `ops`, ascending."""
        names = set(ops)
        wanted = {i for i, op in enumerate(self.table.op_names) if op in names}
        found = {row for op in wanted for row in places(self.table.ops, op)}
        found -= self._ops.keys()
        found.update(number for number, op in self._ops.items() if op in names)
        found.update(number for number in range(self.rows, self.size) if self.op(number) in names)
        return sorted(found - self.gone)

    def numbers(self) -> Iterator[int]:
        """Returns the numbers of all nodes that are not removed."""
        if not self.gone:
            return iter(range(self.size))
        return (n for n in range(self.size) if n not in self.gone)

    def inputs(self, number: int) -> Sequence[int]:
        """Returns the codes of the inputs of a node."""
        codes = self._codes.get(number)
        if codes is not None:
            return codes
        return self.table.inputs(number) if number < self.rows else ()

    def draft(self) -> Topology:
        """Returns a copy in which `set_inputs`, `set_op` and `leave_out` try an edit without changing the graph."""
        out = copy(self)
        out._codes, out._consumers, out._ops = dict(self._codes), dict(self._consumers), dict(self._ops)
        out.__dict__.pop("_new_users", None)
        return out

    def is_now_the_graph(self, changed: Iterable[int]) -> None:
        """Makes this draft the topology of its graph, after the same edit of the graph.

        `changed` are the nodes with changed inputs.
        """
        control = Table.CONTROL_PORT
        for number in changed:  # a node lists its control inputs last, each once
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
        """Sets the inputs of a node in this draft, not in the graph.

        Returns:
            The producers, control inputs included, that the node lost, and its new producers.
        """
        bits = Table.PORT_BITS
        is_new, before = number not in self._codes, {code >> bits for code in self.inputs(number) if code >= 0}
        new = self._codes[number] = tuple(codes)
        now = {code >> bits for code in new if code >= 0}
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
        """Sets the op of a node in this draft."""
        self._ops[number] = op
        self._all_ops = None

    def leave_out(self, numbers: Iterable[int]) -> None:
        """Removes nodes in this draft."""
        self.gone = self.gone.union(numbers)
        self._consumers.clear()

    def with_controls(self) -> set[int]:
        """Returns the nodes with control inputs."""
        control = Table.CONTROL_PORT
        changed = {n for n, codes in self._codes.items() if any(code & control == control for code in codes)}
        return self.table.with_controls - self._codes.keys() - self.gone | changed

    def reads_missing(self, number: int) -> bool:
        """Returns whether an input of a node names a missing node."""
        return min(self.inputs(number), default=0) < 0

    def producers(self, number: int, *, through_loops: bool = True) -> list[int]:
        """Returns the numbers of the producers of a node, control inputs included; for `through_loops` see `reads`."""
        bits = Table.PORT_BITS
        found = [code >> bits for code in self.inputs(number) if code >= 0]
        return found if through_loops else [p for p in found if not self.is_loop_back(p, number)]

    def data_producers(self, number: int) -> list[int]:
        """Returns the numbers of the producers of the data inputs of a node."""
        bits, control = Table.PORT_BITS, Table.CONTROL_PORT
        return [code >> bits for code in self.inputs(number) if code >= 0 and code & control != control]

    def reads(self, number: int, *, through_loops: bool = True) -> list[tuple[int, int]]:
        """Returns the inputs of a node as pairs (node, index of its output); the index is -1 for control inputs.

        With `through_loops` false, without the edge that closes a v1 while loop.
        """
        bits, control = Table.PORT_BITS, Table.CONTROL_PORT
        codes = [code for code in self.inputs(number) if code >= 0]
        found = [(code >> bits, -1 if code & control == control else code & control) for code in codes]
        return found if through_loops else [read for read in found if not self.is_loop_back(read[0], number)]

    def consumers(self, *, control: bool = True) -> list[list[int]]:
        """Returns for each node the numbers of its consumers; with `control` also those with a control input from it.

        The caller must not change the result.
        """
        if control in self._consumers:
            return self._consumers[control]
        out: list[list[int]] = [[] for _ in range(self.size)]
        bits, mask = Table.PORT_BITS, 0 if control else Table.CONTROL_PORT
        other = self._codes.keys() | self.gone
        for code, row in zip(self.table.edges, self.table.readers(), strict=True):  # all edges of the graph
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
        """Returns the numbers of the nodes with a data or control input from a node.

        This is for a few nodes; for all nodes, use `consumers`.
        """
        return list(self.each_user(number))

    def each_user(self, number: int) -> Iterator[int]:
        """Yields the numbers that `users` returns, for callers that need only the first ones."""
        found = self.table.users(number) if number < self.rows else ()
        if not (self._codes or self.gone):
            return iter(found)
        known, gone = self._codes, self.gone
        return chain((n for n in found if n not in known and n not in gone), self._new_users.get(number, ()))

    @cached_property
    def _new_users(self) -> dict[int, dict[int, None]]:
        """For each node its users with inputs that are not those in the table."""
        out: dict[int, dict[int, None]] = {}
        for number in self._codes:
            for producer in self.producers(number):
                out.setdefault(producer, {})[number] = None
        return out

    def unread(self) -> list[int]:
        """Returns the nodes whose outputs no node reads as data."""
        table = self.table
        if len(self.gone) > self.size // 2:  # few nodes remain
            read = set(self._data(chain.from_iterable(map(self.inputs, self.numbers()))))
            return [number for number in self.numbers() if number not in read]
        others = self.gone | self._codes.keys()
        old = chain.from_iterable(table.inputs(number) for number in others if number < self.rows)
        before, now = set(self._data(old)), set(self._data(chain.from_iterable(self._codes.values())))
        perhaps = before - now - self.gone
        if perhaps:
            perhaps -= self._read_by_rest(perhaps, others)
        flags = table.unread + b"\1" * len(self._added)
        for numbers, flag in ((perhaps, 1), (now, 0), (self.gone, 0)):
            for number in numbers:
                flags[number] = flag
        return members(flags)

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
        """Returns whether the edge closes a v1 while loop: from a NextIteration to a Merge."""
        return self.op(producer) in NEXT_ITERATION and self.op(consumer) in MERGE

    def flags(self, numbers: Iterable[int]) -> bytearray:
        """Returns for each node whether it is one of `numbers`."""
        out = bytearray(self.size)
        for number in numbers:
            out[number] = 1
        return out

    def tensor(self, code: int) -> Output:
        """Returns the tensor with a code."""
        return Output(self.node(code >> Table.PORT_BITS), code & Table.CONTROL_PORT)

    def code(self, output: Output) -> int:
        """Returns the code of the edges from `output`."""
        return self.id_of(output.node) << Table.PORT_BITS | output.index

    def upstream(
        self,
        numbers: Iterable[int],
        *,
        through_loops: bool = True,
        control: bool = True,
        given: Container[int] = (),
    ) -> bytearray:
        """Returns for each node whether it is one of `numbers` or one of them depends on it.

        Without `through_loops`, edges that close a v1 while loop are not followed; without `control`, control edges are
        not followed. Edges with a code in `given` are never followed.
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
        """Raises EditError if an input or control input of one of the nodes `numbers` names a missing node."""
        for number in numbers if self.table.unresolved or self._codes else ():
            if self.reads_missing(number):
                check_reads(self.node(number))

    def downstream(self, numbers: Iterable[int], consumers: list[list[int]]) -> bytearray:
        """Returns for each node whether it is one of `numbers` or depends on one, by the edges in `consumers`."""
        pending = list(numbers)
        seen = self.flags(pending)
        while pending:
            for consumer in consumers[pending.pop()]:
                if not seen[consumer]:
                    seen[consumer] = 1
                    pending.append(consumer)
        return seen


def topology_of(graph: Graph) -> Topology:
    """Returns the current topology of `graph`; callers share one result."""
    return graph.derived(Topology)


def forward_walk(topology: Topology, seeds: Iterable[int], *, control: bool = False) -> bytearray:
    """Returns for each node whether it is one of `seeds` or depends on one; `control` also follows control edges."""
    return topology.downstream(seeds, topology.consumers(control=control))


def depending_on(graph: Graph, names: Iterable[str]) -> frozenset[str]:
    """Returns those of `names` that are nodes of the graph, and the names of all nodes that depend on one of them.

    Control edges count.
    """
    topology = topology_of(graph)
    seeds = [topology.id_of(node) for name in names if (node := graph.find(name)) is not None]
    return frozenset(topology.name(number) for number in members(forward_walk(topology, seeds, control=True)))


def readers(topology: Topology, tensors: Iterable[tuple[int, int]]) -> list[int]:
    """Returns the consumers of `tensors`, pairs of a node and the index of its output; each once, ascending."""
    codes = {number << Table.PORT_BITS | index for number, index in tensors}
    out: set[int] = set()
    for number in {number for number, _ in tensors}:
        out.update(n for n in topology.users(number) if not codes.isdisjoint(topology.inputs(n)))
    return sorted(out)


def between(
    topology: Topology, sources: Iterable[tuple[int, int]], targets: Iterable[int], *, control: bool = False
) -> bytearray:
    """Returns for each node whether it is on a path from one of the tensors `sources` to one of the nodes `targets`.

    A target is included if a path leads to it. The producer of a source is included only if it is on a path from a
    different source.
    """
    before = topology.upstream(targets, control=control)
    behind = forward_walk(topology, readers(topology, list(sources)), control=control)
    return bytearray(a & b for a, b in zip(before, behind, strict=True))


def serving_alone(
    topology: Topology, starts: Iterable[int], may_serve: Callable[[int], bool], counts: Callable[[int], bool]
) -> list[int]:
    """Returns `starts` and the upstream nodes that are used only by returned nodes, in the order of discovery.

    Args:
        topology: of the graph.
        starts: nodes.
        may_serve: whether a node may be added to the result.
        counts: whether a user of a node counts; a node with other users that count is not added.
    """
    found = dict.fromkeys(starts)
    pending = list(found)
    waiting: dict[int, int] = {}
    for number in pending:  # `pending` grows during the loop
        for producer in dict.fromkeys(topology.producers(number)):
            if producer in found or not may_serve(producer):
                continue
            if producer not in waiting:
                waiting[producer] = sum(map(counts, topology.users(producer)))
            waiting[producer] -= 1
            if not waiting[producer]:
                found[producer] = None
                pending.append(producer)
    return pending


def members(flags: bytearray) -> list[int]:
    """Returns the indices of the flags that are set, ascending."""
    out: list[int] = []
    pos = flags.find(1)
    while pos >= 0:
        out.append(pos)
        pos = flags.find(1, pos + 1)
    return out


def escape(topology: Topology, inside: bytearray) -> list[int]:
    """Returns a path that leaves the nodes `inside` and returns to them, with its ends; [] without such a path.

    Without such a path, one node could replace the nodes: no outside node depends on some of them while others depend
    on it. Control edges count; an edge that closes a v1 while loop does not. Linear in the graph downstream of them.
    """
    parent: dict[int, int] = {}
    pending: list[int] = []

    def visit(number: int) -> int | None:
        """Visits the users of `number`; if `number` is outside and a user is inside, returns that user."""
        for consumer in topology.users(number):
            if inside[consumer]:
                if not inside[number] and not topology.is_loop_back(number, consumer):
                    return consumer
            elif consumer not in parent:
                parent[consumer] = number
                if topology.op(consumer) not in NEXT_ITERATION:
                    pending.append(consumer)
        return None

    for number in members(inside):
        visit(number)
    for number in pending:  # `pending` grows during the loop
        back = visit(number)
        if back is not None:
            path = [back, number]
            while not inside[path[-1]]:
                path.append(parent[path[-1]])
            return path[::-1]
    return []


@dataclass(eq=False, repr=False)
class Boundary(Data):
    """The edges between a set of nodes and the rest of their graph.

    Attributes:
        inputs: tensors from outside that the nodes read, in the order of first use.
        outputs: tensors of the nodes that outside nodes read, or that have no consumers.
        inside: tensors of the nodes that the nodes themselves read.
        outer_uses: for each of `outputs`, the inputs outside that read it.
        controls_in: nodes outside that are control inputs of the nodes.
        controls_out: nodes of the set that are control inputs of nodes outside, with those outside nodes.
    """

    inputs: list[Output] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    inside: list[Output] = field(default_factory=list)
    outer_uses: dict[Output, list[Use]] = field(default_factory=dict)
    controls_in: list[Node] = field(default_factory=list)
    controls_out: dict[Node, list[Node]] = field(default_factory=dict)


@public
def boundary(nodes: Iterable[Node], topology: Topology | None = None) -> Boundary:
    """Returns the boundary of `nodes`, which must be of one graph, in their order.

    Linear in the edges of the nodes and of their users.

    For an unknown op, an output counts as existing if it has a consumer. `topology` is that of the current graph, if
    the caller has it.
    """
    members = list(dict.fromkeys(nodes))
    if not members:
        return Boundary()
    topology = topology or topology_of(graph_of(members[0]))
    numbers = list(map(topology.id_of, members))
    inside, out = topology.flags(numbers), Boundary()
    reads = dict.fromkeys(pair for number in numbers for pair in topology.reads(number) if not inside[pair[0]])
    out.inputs = [Output(topology.node(number), index) for number, index in reads if index >= 0]
    out.controls_in = [topology.node(number) for number, index in reads if index < 0]
    for number, node in zip(numbers, members, strict=True):
        users = topology.users(number)
        outer = [user for user in users if not inside[user]]
        inner = {i for u in users if inside[u] for p, i in topology.reads(u) if p == number and i >= 0}
        count = node.output_count
        uses: dict[int, list[Use]] = {index: [] for index in range(1 if count is None else count)}
        for user in map(topology.node, outer):
            for slot, read in enumerate(user.inputs):
                if read.node is node:
                    uses.setdefault(read.index, []).append(Use(user, slot))
            if node in user.controls:
                out.controls_out.setdefault(node, []).append(user)
        for index in sorted(uses.keys() | inner):
            output = Output(node, index)
            if index in inner:
                out.inside.append(output)
            if uses.get(index) or index not in inner:
                out.outputs.append(output)
                out.outer_uses[output] = uses.get(index, [])
    return out
