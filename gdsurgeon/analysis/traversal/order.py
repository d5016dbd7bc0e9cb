"""Topological order, cycles, strongly connected components, and a worklist in topological order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.ops.kinds import MERGE


def topological_order(topology: Topology) -> list[int]:
    """Returns the nodes, producers first, without regard to edges that close a loop.

    Nodes on an illegal cycle, and nodes after it, are missing. Linear in nodes and edges.
    """
    consumers = topology.consumers()  # `producers_first` would make these lists again
    heads = frozenset(topology.with_ops(MERGE))
    waiting = [0] * topology.size
    for readers in consumers:
        for reader in readers:
            waiting[reader] += 1
    for head in heads:
        waiting[head] -= sum(topology.is_loop_back(producer, head) for producer in set(topology.producers(head)))
    order = [number for number in topology.numbers() if not waiting[number]]
    for number in order:  # `order` grows during the loop
        for consumer in consumers[number]:
            if consumer in heads and topology.is_loop_back(number, consumer):
                continue
            waiting[consumer] -= 1
            if not waiting[consumer]:
                order.append(consumer)
    return order


def _forward_producers(topology: Topology) -> Callable[[int], list[int]]:
    """Returns a function from a node to its producers, without edges that close a loop."""
    heads = frozenset(topology.with_ops(MERGE))
    return lambda number: topology.producers(number, through_loops=number not in heads)


def any_order(topology: Topology) -> Sequence[int]:
    """Returns a topological order. If the order of the file is one, it is returned without a search."""
    is_of_file = not topology.is_edited and not has_forward_edges(topology)
    return range(topology.size) if is_of_file else topological_order(topology)


def places_in(order: Sequence[int], size: int) -> Sequence[int]:
    """Returns for each of `size` nodes its place in `order`; -1 if it has none."""
    if isinstance(order, range):
        return order  # each node has its number as its place
    out = [-1] * size
    for place, number in enumerate(order):
        out[number] = place
    return out


def producers_first(numbers: Iterable[int], size: int, producers: Callable[[int], Iterable[int]]) -> list[int]:
    """Returns `numbers`, each after its `producers`, by Kahn's algorithm (Kahn, 1962).

    All numbers are below `size`, and all producers are in `numbers`. Nodes on a cycle, and nodes after it, are missing.
    """
    waiting = [0] * size
    consumers: list[list[int]] = [[] for _ in range(size)]
    order: list[int] = []
    for number in numbers:
        for producer in producers(number):
            waiting[number] += 1
            consumers[producer].append(number)
        if not waiting[number]:
            order.append(number)
    for number in order:  # `order` grows during the loop
        for consumer in consumers[number]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                order.append(consumer)
    return order


def depth_first(roots: Iterable[int], size: int, producers: Callable[[int], Iterable[int]]) -> list[int]:
    """Returns `roots` and all nodes that they depend on, in depth-first order: each node after its `producers`.

    All numbers are below `size`. Of a cycle, one edge is ignored.
    """
    seen = bytearray(size)
    out: list[int] = []
    for root in roots:
        path = [] if seen[root] else [(root, iter(producers(root)))]
        seen[root] = 1
        while path:
            node, pending = path[-1]
            for producer in pending:
                if not seen[producer]:
                    seen[producer] = 1
                    path.append((producer, iter(producers(producer))))
                    break
            else:
                out.append(node)
                path.pop()
    return out


def sorted_numbers(topology: Topology) -> list[int]:
    """Returns the nodes in topological order; nodes keep their order where that is possible.

    Edges that close a loop are ignored, and one edge of each other cycle.
    """
    return depth_first(topology.numbers(), topology.size, _forward_producers(topology))


def levels(topology: Topology, inside: bytearray | None = None) -> list[list[int]]:
    """Returns the nodes in levels: the nodes of a level can run at the same time, after all earlier levels.

    Only nodes in `inside` count, by default all. Edges that close a loop are ignored. Linear in nodes and edges.

    Raises:
        InputError: the nodes have no such order, because of a cycle that is not a v1 while loop.
    """
    inside = topology.flags(topology.numbers()) if inside is None else inside
    numbers = [number for number in topology.numbers() if inside[number]]
    forward = _forward_producers(topology)

    def producers(number: int) -> list[int]:
        return [producer for producer in forward(number) if inside[producer]]

    level: dict[int, int] = {}
    for number in producers_first(numbers, topology.size, producers):
        level[number] = 1 + max((level[producer] for producer in producers(number)), default=-1)
    if len(level) < len(numbers):
        cycle = _cycle_among([number for number in numbers if number not in level], producers)
        raise InputError(f"{printable(topology.graph.source_name)} has a cycle: {spelt_cycle(topology, cycle)}")
    out: list[list[int]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for number in sorted(level):
        out[level[number]].append(number)
    return out


def find_cycle(topology: Topology) -> list[int]:
    """Returns a cycle outside v1 while loops as node numbers, each reading the one before; [] if there is no cycle."""
    ordered = topology.flags(topological_order(topology))
    unordered = [number for number in topology.numbers() if not ordered[number]]
    return _cycle_among(unordered, _forward_producers(topology)) if unordered else []


def _cycle_among(unordered: Sequence[int], producers: Callable[[int], Iterable[int]]) -> list[int]:
    """Returns a cycle among nodes that `producers_first` left out: it follows such producers until a node repeats."""
    rest = frozenset(unordered)
    place: dict[int, int] = {}
    number = unordered[0]
    while number not in place:
        place[number] = len(place)
        number = next(producer for producer in producers(number) if producer in rest)
    return [*place][place[number] :][::-1]


def spelt_cycle(topology: Topology, cycle: Sequence[int]) -> str:
    """Returns the names of the nodes of a cycle, with the first repeated at the end; shortened if over 12 names."""
    names = [quoted(topology.name(number)) for number in [*cycle, cycle[0]]]
    return " -> ".join(names if len(names) <= 12 else [*names[:6], "...", *names[-5:]])


def has_forward_edges(topology: Topology) -> bool:
    """Returns whether an input comes from a later row of the file, except in loops: without such inputs there is no
    cycle.

    Only for a graph that has not been edited.
    """
    return any(not topology.is_loop_back(p, c) for p, c in topology.table.forward_edges())


def components(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Returns the strongly connected components; linear in nodes and edges (Kosaraju and Sharir, 1981).

    Args:
        successors: for each node the nodes that its edges lead to.
    """
    count = len(successors)
    predecessors: list[list[int]] = [[] for _ in successors]
    for node, following in enumerate(successors):
        for other in following:
            predecessors[other].append(node)
    seen = bytearray(count)
    out: list[list[int]] = []
    for root in reversed(depth_first(range(count), count, successors.__getitem__)):
        group = [] if seen[root] else [root]
        seen[root] = 1
        for node in group:  # grows while it is walked
            new = [other for other in dict.fromkeys(predecessors[node]) if not seen[other]]
            for other in new:
                seen[other] = 1
            group += new
        out += [group] if group else []
    return out


class Worklist:
    """Iterates over nodes in the order of a sequence; nodes can be added after the current one during iteration.

    Args:
        order: the nodes.
        places: for each node its place in that order, or -1: it is never yielded.
    """

    def __init__(self, order: Sequence[int], places: Sequence[int]) -> None:
        self._order, self._places = order, places
        self._heap: list[int] = []
        self._waiting: set[int] = set()
        self._at = -1

    def add(self, numbers: Iterable[int]) -> None:
        """Adds nodes, each once. Nodes at or before the current place are ignored."""
        for number in numbers:
            place = self._places[number]
            if place > self._at and place not in self._waiting:
                self._waiting.add(place)
                heappush(self._heap, place)

    def __iter__(self) -> Iterator[int]:
        while self._heap:
            self._at = heappop(self._heap)
            self._waiting.discard(self._at)
            yield self._order[self._at]
