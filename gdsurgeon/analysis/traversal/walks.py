"""Walks along the edges of a graph: upstream or downstream of nodes, between tensors, and across a boundary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import public
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node, Output, Use
from gdsurgeon.ops.kinds import NEXT_ITERATION
from gdsurgeon.values import Data


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
    has_one_output: dict[str, bool] = {}  # by op, for any attrs
    for number, node in zip(numbers, members, strict=True):
        op = topology.op(number)
        if op not in has_one_output:
            args = node.op_def.outputs if node.op_def is not None else ()
            has_one_output[op] = len(args) == 1 and not args[0].number_attr and not args[0].list_attr
        users = topology.users(number)
        outer = [user for user in users if not inside[user]]
        inner = {i for u in users if inside[u] for p, i in topology.reads(u) if p == number and i >= 0}
        if has_one_output[op] and not outer and 0 in inner:
            out.inside.append(node.output)
            continue
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
