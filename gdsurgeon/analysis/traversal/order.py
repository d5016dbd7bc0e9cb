"""Topological order, and the cycle where there is none."""

from __future__ import annotations

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.errors import InputError, printable, quoted


def topological_order(topology: Topology) -> list[int]:
    """The nodes, producers first, edges that close a loop left out.

    What lies on an illegal cycle or behind one is missing. Kahn's algorithm (Kahn, 1962), linear in nodes and edges.
    """
    waiting = [0] * topology.size
    consumers: list[list[int]] = [[] for _ in range(topology.size)]
    order: list[int] = []
    for number in topology.numbers():
        for producer in topology.producers(number):
            if not topology.is_loop_back(producer, number):
                waiting[number] += 1
                consumers[producer].append(number)
        if not waiting[number]:
            order.append(number)
    for number in order:  # grows while it is walked
        for consumer in consumers[number]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                order.append(consumer)
    return order


def levels(topology: Topology, inside: bytearray | None = None) -> list[list[int]]:
    """The nodes in levels: those of one can run together as soon as those before it have run.

    INSIDE: the nodes that count, all by default; an edge that closes a loop is left out. Linear in nodes and edges.

    Raises:
        InputError: the graph has a cycle that is no v1 while loop, and with it no such order.
    """
    cycle = find_cycle(topology)
    if cycle and (inside is None or all(inside[number] for number in cycle)):
        path = " -> ".join(quoted(topology.name(number)) for number in [*cycle, cycle[0]][:12])
        raise InputError(f"{printable(topology.graph.source_name)} has a cycle: {path}")
    waiting = [0] * topology.size
    consumers: dict[int, list[int]] = {}
    level: list[int] = []
    for number in topology.numbers():
        if inside is not None and not inside[number]:
            continue
        for producer in topology.producers(number):
            if (inside is None or inside[producer]) and not topology.is_loop_back(producer, number):
                waiting[number] += 1
                consumers.setdefault(producer, []).append(number)
        if not waiting[number]:
            level.append(number)
    out: list[list[int]] = []
    while level:
        out.append(level)
        following: list[int] = []
        for number in level:
            for consumer in consumers.get(number, ()):
                waiting[consumer] -= 1
                if not waiting[consumer]:
                    following.append(consumer)
        level = sorted(following)
    return out


def find_cycle(topology: Topology) -> list[int]:
    """A cycle outside v1 while loops as node numbers, each reading the one before; [] where there is none."""
    order = topological_order(topology)
    if len(order) == topology.size - len(topology.gone):
        return []
    unordered = bytearray(b"\1") * topology.size
    for number in order:
        unordered[number] = 0
    return _walk_back(topology, unordered)


def _walk_back(topology: Topology, unordered: bytearray) -> list[int]:
    """Follows inputs that have no place in the order from any such node until one comes again."""
    number = next(n for n in topology.numbers() if unordered[n])
    place: dict[int, int] = {}
    path: list[int] = []
    while number not in place:
        place[number] = len(path)
        path.append(number)
        number = next(p for p in topology.producers(number) if unordered[p] and not topology.is_loop_back(p, number))
    return path[place[number] :][::-1]


def has_forward_edges(topology: Topology) -> bool:
    """Whether an input comes from a later row of the file, loops aside: without that there is no cycle.

    Only for a graph that has not been edited.
    """
    return any(not topology.is_loop_back(p, c) for p, c in topology.table.forward_edges())
