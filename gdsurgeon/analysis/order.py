"""Topological order, and the cycle where there is none."""

from __future__ import annotations

from gdsurgeon.analysis.topology import Topology


def find_cycle(topology: Topology) -> list[int]:
    """A cycle outside v1 while loops as node numbers, each reading the one before; [] where there is none.

    Kahn's algorithm (Kahn, 1962): what is left when nothing is free of inputs lies on or behind a cycle.
    Linear in nodes and edges.
    """
    waiting = [0] * topology.size
    consumers: list[list[int]] = [[] for _ in range(topology.size)]
    free: list[int] = []
    for number in topology.numbers():
        for producer in topology.producers(number):
            if not topology.is_loop_back(producer, number):
                waiting[number] += 1
                consumers[producer].append(number)
        if not waiting[number]:
            free.append(number)
    left = topology.size - len(topology.gone)
    while free:
        left -= 1
        for consumer in consumers[free.pop()]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                free.append(consumer)
    return _walk_back(topology, waiting) if left else []


def _walk_back(topology: Topology, waiting: list[int]) -> list[int]:
    """Follows unfree inputs from any unfree node until one comes again."""
    number = next(n for n in topology.numbers() if waiting[n])
    place: dict[int, int] = {}
    path: list[int] = []
    while number not in place:
        place[number] = len(path)
        path.append(number)
        number = next(p for p in topology.producers(number) if waiting[p] and not topology.is_loop_back(p, number))
    return path[place[number] :][::-1]


def has_forward_edges(topology: Topology) -> bool:
    """Whether an input comes from a later row of the file, loops aside: without that there is no cycle.

    Only for a graph that has not been edited.
    """
    return any(not topology.is_loop_back(p, c) for p, c in topology.table.forward_edges())
