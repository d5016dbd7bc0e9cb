"""Walks along the edges of a graph: what lies before a node, behind it, or between two."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.ops.kinds import NEXT_ITERATION


def forward_walk(topology: Topology, seeds: Iterable[int], *, control: bool = False) -> bytearray:
    """For each node whether it is one of SEEDS or reads what depends on one; CONTROL follows control edges too."""
    return topology.downstream(seeds, topology.consumers(control=control))


def depending_on(graph: Graph, names: Iterable[str]) -> frozenset[str]:
    """The names of the nodes NAMES that the graph has, and of all that reads or waits for what depends on one."""
    topology = topology_of(graph)
    seeds = [topology.id_of(node) for name in names if (node := graph.find(name)) is not None]
    return frozenset(topology.name(number) for number in members(forward_walk(topology, seeds, control=True)))


def readers(topology: Topology, tensors: Iterable[tuple[int, int]]) -> list[int]:
    """The nodes that read one of TENSORS, pairs of a node and the index of its output; each once, ascending."""
    codes = {number << Table.PORT_BITS | index for number, index in tensors}
    out: set[int] = set()
    for number in {number for number, _ in tensors}:
        out.update(n for n in topology.users(number) if not codes.isdisjoint(topology.inputs(n)))
    return sorted(out)


def between(
    topology: Topology, sources: Iterable[tuple[int, int]], targets: Iterable[int], *, control: bool = False
) -> bytearray:
    """For each node whether a path from one of the tensors SOURCES to one of the nodes TARGETS leads through it.

    The targets are part of the answer where a path leads to them; what gives the sources is not, unless a path from
    another source leads through it.
    """
    before = topology.upstream(targets, control=control)
    behind = forward_walk(topology, readers(topology, list(sources)), control=control)
    return bytearray(a & b for a, b in zip(before, behind, strict=True))


def serving_alone(
    topology: Topology, starts: Iterable[int], may_serve: Callable[[int], bool], counts: Callable[[int], bool]
) -> list[int]:
    """STARTS, and what is read or waited for by nothing but them and what serves them so, in the order of finding.

    Args:
        topology: of the graph.
        starts: nodes.
        may_serve: whether a node can be part of the answer.
        counts: whether a reader does, so that what it reads is not for these alone.
    """
    found = dict.fromkeys(starts)
    pending = list(found)
    waiting: dict[int, int] = {}
    for number in pending:  # grows while it is walked
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
    """The indices that are set, ascending."""
    out: list[int] = []
    pos = flags.find(1)
    while pos >= 0:
        out.append(pos)
        pos = flags.find(1, pos + 1)
    return out


def escape(topology: Topology, inside: bytearray) -> list[int]:
    """Returns a path that leaves the nodes `inside` and comes back, its ends included; [] if there is none.

    Without one the nodes can be computed as one: nothing outside waits for some of them and is waited for by others.
    Control edges count; an edge that closes a v1 while loop does not. Linear in what lies behind the nodes.
    """
    parent: dict[int, int] = {}
    pending: list[int] = []

    def visit(number: int) -> int | None:
        """Goes on from NUMBER; returns the member that one of its consumers is, coming from outside."""
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
    for number in pending:  # grows while it is walked
        back = visit(number)
        if back is not None:
            path = [back, number]
            while not inside[path[-1]]:
                path.append(parent[path[-1]])
            return path[::-1]
    return []
