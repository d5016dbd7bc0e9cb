"""One run of a graph as numbers: its nodes with their sizes and costs, its peak memory, and the waits that limit it.

`peak` simulates TensorFlow's executor. It starts a node as soon as its inputs are ready and a thread is free. A tensor
is freed when its last consumer has run. An elementwise op overwrites an input that no other node needs.

A simulated run is one of many: threads race, and a tensor whose last reader comes late still exists when the next
tensor is allocated. If that would need more memory than planned, the reader is made to run first, as in the simulation.
The waits follow the order of the simulation, so they never close a cycle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain
from math import prod, sqrt
from typing import NamedTuple

from gdsurgeon.analysis.traversal.order import producers_first
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.ops.dtypes import element_size
from gdsurgeon.ops.kinds import ALIASES, MERGE, NEXT_ITERATION, PRODUCTS, REUSES_INPUT, SOURCES
from gdsurgeon.wire.protos import GraphDef

FLOPS_PER_BYTE = 20.0
"""The number of floating-point operations of a contraction in the time that an elementwise op moves a byte."""


class TensorSize(NamedTuple):
    """The shape of a tensor, None if unknown, and its bytes, 0 if unknown."""

    shape: tuple[int, ...] | None
    nbytes: int


UNKNOWN = TensorSize(None, 0)


def tensor_size(dtype: int, shape: tuple[int, ...] | None) -> TensorSize:
    """Returns the size of a tensor; with unknown dimensions the number of bytes is unknown."""
    if shape is None or min(shape, default=0) < 0 or not element_size(dtype):
        return TensorSize(shape, 0)
    return TensorSize(shape, prod(shape) * element_size(dtype))


@dataclass
class StepGraph:
    """A graph that runs completely. A node is a number; every list has an entry for each node.

    Attributes:
        names: the names of the nodes.
        ops: their ops.
        reads: data inputs, pairs of a node and the index of its output.
        waits: the nodes of the control inputs.
        sizes: the sizes of the outputs.
        costs: the time of each node, as the number of bytes that could be moved in that time.
        index: the number of each name.
        live: for each of the first nodes whether it runs for all values; None: all nodes do. Later nodes always run.
    """

    names: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    reads: list[list[tuple[int, int]]] = field(default_factory=list)
    waits: list[list[int]] = field(default_factory=list)
    sizes: list[list[TensorSize]] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)
    live: list[bool] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def add(
        self,
        name: str,
        op: str,
        reads: Iterable[tuple[int, int]],
        waits: Iterable[int],
        sizes: Iterable[TensorSize],
        cost: float = 0.0,
    ) -> int:
        """Adds a node; returns its number."""
        number = len(self.names)
        self.names.append(name)
        self.ops.append(op)
        self.reads.append(list(reads))
        self.waits.append(list(waits))
        self.sizes.append(list(sizes))
        self.costs.append(cost)
        self.index[name] = number
        return number

    def copy(self) -> StepGraph:
        """Returns an independent copy."""
        return StepGraph(
            list(self.names), list(self.ops), [list(r) for r in self.reads], [list(w) for w in self.waits],
            [list(s) for s in self.sizes], list(self.costs), dict(self.index), self.live,
        )  # fmt: skip

    def tensor(self, text: str) -> tuple[int, int]:
        """Returns the node and the index of an output, from ``node`` or ``node:1``."""
        name, colon, port = text.rpartition(":")
        return (self.index[name], int(port)) if colon else (self.index[text], 0)

    def size(self, tensor: tuple[int, int]) -> TensorSize:
        """Returns the size of an output of a node."""
        sizes = self.sizes[tensor[0]]
        return sizes[tensor[1]] if tensor[1] < len(sizes) else UNKNOWN

    def is_live(self, number: int) -> bool:
        """Returns whether a node runs for all values, so that other nodes can wait for it."""
        return self.live is None or number >= len(self.live) or self.live[number]

    def aliased(self, number: int, index: int) -> tuple[int, int] | None:
        """Returns the tensor whose buffer an output shares; None if the output has its own buffer."""
        op, reads = self.ops[number], self.reads[number]
        if reads and op == "IdentityN":
            return reads[min(index, len(reads) - 1)]
        return reads[0] if reads and op in ALIASES and index == 0 else None

    def order(self) -> list[int]:
        """Returns the nodes, producers first, without nodes on a cycle or after a cycle."""
        return producers_first(range(len(self)), len(self), self.producers)

    def producers(self, number: int, *, control: bool = True) -> list[int]:
        """Returns the nodes that a node reads or (with `control`) waits for, once for each input."""
        return [producer for producer, _ in self.reads[number]] + (self.waits[number] if control else [])

    def consumers(self, *, control: bool = True) -> list[list[int]]:
        """Returns for each node the nodes that read it or (with `control`) wait for it, once for each input."""
        out: list[list[int]] = [[] for _ in range(len(self))]
        for number in range(len(self)):
            for producer in self.producers(number, control=control):
                out[producer].append(number)
        return out

    def inherited(self, marks: Mapping[int, int], order: Iterable[int], *, control: bool = True) -> list[int]:
        """Returns for each node its own marks and the marks of all nodes that it depends on.

        Args:
            marks: bits, by node.
            order: the nodes that may depend on marked nodes, producers first.
            control: whether control inputs count.
        """
        out = [0] * len(self)
        for number, mark in marks.items():
            out[number] = mark
        for number in order:
            for producer in self.producers(number, control=control):
                out[number] |= out[producer]
        return out


def step_of(definitions: Sequence[GraphDef], sizes: Mapping[str, Sequence[TensorSize]]) -> StepGraph:
    """Returns the run of all nodes of some GraphDefs; a node replaces a node with the same name in an earlier GraphDef.

    Args:
        definitions: the GraphDef messages.
        sizes: for each node the sizes of its outputs.
    """
    nodes = {node.name: node for definition in definitions for node in definition.node}
    out = StepGraph()
    out.index = {name: number for number, name in enumerate(nodes)}
    for name, node in nodes.items():
        refs = [ref for text in node.input if (ref := parse_input(text)) is not None]
        if node.op in MERGE:  # without the edge that closes a loop
            refs = [ref for ref in refs if nodes[ref.node].op not in NEXT_ITERATION]
        out.names.append(name)
        out.ops.append(node.op)
        out.reads.append([(out.index[ref.node], ref.port) for ref in refs if ref.port != CONTROL])
        out.waits.append([out.index[ref.node] for ref in refs if ref.port == CONTROL])
        out.sizes.append(list(sizes.get(name, ())))
    for number in range(len(out)):
        out.costs.append(cost_of(out, number))
    return out


def cost_of(step: StepGraph, number: int) -> float:
    """Returns the time of a node as a number of bytes: the bytes of its inputs and outputs, and its flops."""
    op = step.ops[number]
    if op in SOURCES or op in ALIASES:
        return 0.0
    given = [step.size(read) for read in step.reads[number]]
    moved = sum(size.nbytes for size in (*given, *step.sizes[number]))
    return moved + _flops(op, [size.shape for size in given], [s.shape for s in step.sizes[number]]) / FLOPS_PER_BYTE


# For convolutions, the input or output (-1) with one element for each sum, and the filter.
_CONVOLUTIONS: dict[str, tuple[int, int]] = {
    "Conv2D": (-1, 1), "Conv3D": (-1, 1), "DepthwiseConv2dNative": (-1, 1),
    "Conv2DBackpropInput": (2, 1), "Conv3DBackpropInputV2": (2, 1), "DepthwiseConv2dNativeBackpropInput": (2, 1),
    "Conv2DBackpropFilter": (2, -1), "Conv3DBackpropFilterV2": (2, -1),
    "DepthwiseConv2dNativeBackpropFilter": (2, -1),
}  # fmt: skip


def _flops(op: str, given: Sequence[tuple[int, ...] | None], made: Sequence[tuple[int, ...] | None]) -> float:
    if op in _CONVOLUTIONS and made and made[0] is not None and len(given) > 1:
        sums, kernel = (made[0] if at < 0 else given[at] for at in _CONVOLUTIONS[op])
        if sums is None or kernel is None or len(kernel) < 2:
            return 0.0
        per_sum = _elements(kernel[:-2] if "Depthwise" in op else kernel[:-1])
        return 2.0 * _elements(sums) * per_sum
    if op in PRODUCTS and len(given) > 1 and made and None not in (given[0], given[1], made[0]):
        a, b, c = (_elements(shape or ()) for shape in (given[0], given[1], made[0]))
        return 2.0 * sqrt(float(a) * b * c)
    return 0.0


def _elements(shape: Sequence[int]) -> int:
    """Returns the number of elements of a tensor; unknown dimensions count as 1."""
    return prod(1 if dim < 0 else dim for dim in shape)


TINY = 4096
"""Tensors up to this number of bytes are always kept."""

TensorId = tuple[int, int]


CHEAP = 50_000.0
"""Nodes with lower costs (see `StepGraph.costs`) run at once, in the same thread."""


class Release(NamedTuple):
    """A buffer that became free.

    Attributes:
        at: the number of nodes that had begun before.
        nbytes: its size.
        readers: the nodes that have read it.
        to: the node that overwrites it; None if there is no such node.
    """

    at: int
    nbytes: int
    readers: tuple[int, ...]
    to: int | None = None


class Peak(NamedTuple):
    """The memory of a run.

    Attributes:
        nbytes: the most bytes in use at a time.
        order: the nodes in the order in which they began, without nodes that never began.
        live: the bytes in use after each node began.
        releases: the buffers as they became free.
    """

    nbytes: int
    order: list[int]
    live: list[int]
    releases: list[Release]


def peak(step: StepGraph, kept: Iterable[int], threads: int = 2) -> Peak:
    """Simulates a run. Linear in nodes and edges.

    After a node, a thread runs cheap nodes that are ready. Without cheap nodes, it runs the last expensive node that is
    ready; all other expensive nodes are put on top of its pile. Idle threads take nodes from the top of their own pile,
    then from the bottom of other piles.

    Args:
        step: the graph that runs.
        kept: the nodes whose outputs exist until the end, because they are fetched.
        threads: the number of nodes that run at the same time.
    """
    consumers = step.consumers()
    waiting = [len(step.producers(number)) for number in range(len(step))]
    readers = [[0] * max(len(sizes), 1) for sizes in step.sizes]  # the number of readers of each output
    for producer, port in chain.from_iterable(step.reads):
        counts = readers[producer]
        counts += [0] * (port + 1 - len(counts))
        counts[port] += 1
    for number in kept:
        readers[number] = [count + 1 for count in readers[number]]
    buffers: list[list[int]] = [[] for _ in step.names]  # of each output; -1: not allocated in this run
    bytes_of: list[int] = []
    users: list[int] = []  # the number of readers of a buffer that have not run
    readers_of: list[list[int]] = []
    live, order, history, releases = 0, list[int](), list[int](), list[Release]()

    def release(buffer: int, to: int | None) -> None:
        """Records that a buffer is free, or that the node `to` overwrites it."""
        releases.append(Release(len(order), bytes_of[buffer], tuple(readers_of[buffer]), to))

    def buffer_of(number: int, index: int) -> int:
        """Returns the buffer of an output: a new buffer, or the buffer of an input."""
        nonlocal live
        source, nbytes = step.aliased(number, index), step.size((number, index)).nbytes
        if source is not None:
            return buffers[source[0]][source[1]]
        for producer, port in step.reads[number] if step.ops[number] in REUSES_INPUT else ():
            buffer = buffers[producer][port]
            if buffer >= 0 and users[buffer] == 1 and bytes_of[buffer] == nbytes:
                release(buffer, number)
                return buffer
        bytes_of.append(nbytes)
        users.append(0)
        readers_of.append([number])
        live += nbytes
        return len(users) - 1

    piles: list[deque[int]] = [deque() for _ in range(threads)]
    inline: list[deque[int]] = [deque() for _ in range(threads)]
    inline[0].extend(number for number, count in enumerate(waiting) if not count)
    running: list[tuple[float, int, int]] = []
    idle = list(range(threads))
    now = 0.0
    while True:
        for thread in list(idle):
            ready = next(filter(None, (inline[thread], piles[thread], *piles)), None)
            if ready is not None:
                is_own = ready is inline[thread] or ready is piles[thread]
                number = ready.popleft() if is_own else ready.pop()
                idle.remove(thread)
                for index, count in enumerate(readers[number]):
                    buffers[number].append(-1 if step.ops[number] in SOURCES else buffer_of(number, index))
                    if buffers[number][-1] >= 0:
                        users[buffers[number][-1]] += count
                order.append(number)
                history.append(live)
                heappush(running, (now + step.costs[number], thread, number))
        if not running:
            break
        now, thread, number = heappop(running)
        unread = [buffer for count, buffer in zip(readers[number], buffers[number], strict=True) if not count]
        read = [buffers[producer][port] for producer, port in step.reads[number]]
        for place, buffer in enumerate((*unread, *read)):
            if buffer >= 0 and place >= len(unread):
                readers_of[buffer].append(number)
                users[buffer] -= 1
            if buffer >= 0 and not users[buffer] and bytes_of[buffer]:
                live -= bytes_of[buffer]
                release(buffer, None)
                bytes_of[buffer] = 0
        dear: list[int] = []
        for consumer in consumers[number]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                (inline[thread] if step.costs[consumer] < CHEAP else dear).append(consumer)
        if dear and not inline[thread]:
            inline[thread].append(dear.pop())
        piles[thread].extendleft(dear)
        idle.append(thread)
    return Peak(max(history, default=0), order, history, releases)


WINDOW = 128
"""The number of nodes that may begin between a reader and a node that needs its memory: longer races are ignored."""
WORTH = 256
"""Buffers smaller than the bound by this factor are ignored."""


JOINED = frozenset(("Pad", "Transpose"))
"""Ops that TensorFlow fuses with the convolution that reads them, so no node may be inserted between them."""


class Wait(NamedTuple):
    """A node begins only after a reader has run."""

    node: int
    reader: int


def slots_to_hold(step: StepGraph, nodes: Iterable[int], constants: Container[int]) -> dict[int, int]:
    """Returns for each node that can wait the input that is held back: the first large input."""
    out: dict[int, int] = {}
    for node in nodes:
        for slot, tensor in enumerate(step.reads[node]):
            if tensor[0] not in constants and step.size(tensor).nbytes > TINY:
                if step.ops[tensor[0]] not in JOINED:
                    out[node] = slot
                break
    return out


def hold(step: StepGraph, waits: Iterable[Wait], slots: Mapping[int, int], scope: str) -> dict[int, int]:
    """Makes nodes wait: each reads one of its inputs through an Identity with control inputs.

    A control input of the node itself would prevent fusion with its neighbors: oneDNN has one op for a convolution and
    its bias, and one for the gradients of both, with different rounding.

    Args:
        step: is changed.
        waits: the waits.
        slots: see `slots_to_hold`.
        scope: the name scope of the new nodes.

    Returns:
        For each new node, the node that reads it.
    """
    readers: dict[int, list[int]] = {}
    for node, reader in waits:
        readers.setdefault(node, []).append(reader)
    out: dict[int, int] = {}
    for node, awaited in readers.items():
        tensor = step.reads[node][slots[node]]
        gate = step.add(f"{scope}/hold_{len(out)}", "Identity", [tensor], awaited, [step.size(tensor)])
        step.reads[node][slots[node]] = (gate, 0)
        out[gate] = node
    return out


def waits_for_releases(
    step: StepGraph, played: Peak, may_wait: Container[int], runs: Sequence[bool], bound: int
) -> list[Wait]:
    """Returns the waits that keep a run below a bound. Linear in nodes and edges.

    Args:
        step: the simulated graph.
        played: its simulation.
        may_wait: the nodes that may wait.
        runs: for each node whether it runs for all values, so that other nodes can wait for it.
        bound: the largest number of bytes.
    """
    out: list[Wait] = []
    least = bound // WORTH
    freed = deque(release for release in played.releases if release.nbytes > least)
    recent: deque[Release] = deque()
    taken = {release.to for release in played.releases}
    begins = {number: at for at, number in enumerate(played.order)}
    # For each node, the nodes that have finished before it, however threads are scheduled. A set of nodes is a number:
    # bit K stands for the node that began K nodes earlier. Nodes that began more than `WINDOW` nodes earlier have
    # finished.
    done: dict[int, int] = {}
    readers = 0  # the recent readers of free buffers, as such a set

    def wait(number: int, producer: int) -> None:
        """Adds a wait of a node for a producer, and so for all nodes that finished before the producer."""
        ago = begins[number] - begins[producer]
        if ago <= WINDOW:
            done[number] |= done[producer] << ago & _ALL

    def racing(number: int, nodes: Iterable[int]) -> list[int]:
        """Returns the nodes that may still run when a node begins; latest first."""
        found = {ago: node for node in nodes if (ago := begins[number] - begins[node]) <= WINDOW}
        return [found[ago] for ago in sorted(found) if not done[number] >> ago & 1]

    for at, number in enumerate(played.order):
        readers = readers << 1 & _ALL
        done[number] = 1
        for producer in step.producers(number):
            wait(number, producer)
        while freed and freed[0].at <= at:
            recent.append(freed.popleft())
            for reader in recent[-1].readers:
                if at - begins[reader] <= WINDOW:
                    readers |= 1 << at - begins[reader]
        while recent and recent[0].at < at - WINDOW:
            recent.popleft()
        is_allocated = step.ops[number] not in ALIASES and step.ops[number] not in SOURCES
        written = sum(size.nbytes for size in step.sizes[number]) if is_allocated else 0
        if number not in may_wait or not runs[number] or written <= least or not readers & ~done[number]:
            continue
        # The node waits for the readers whose buffers do not fit into the room, latest first.
        room = bound - played.live[at]
        over = number if number in taken else None
        counted_on = [release for release in recent if release.to == over]
        if sum(release.nbytes for release in counted_on) <= room:
            continue
        late: list[int] = []
        for release in sorted(counted_on, key=lambda release: release.nbytes):
            if not (found := racing(number, release.readers)):
                continue
            if release.nbytes <= room:
                room -= release.nbytes
            else:
                late += found
        for reader in racing(number, late):
            # Otherwise a reader that the node already waits for comes after it.
            if racing(number, (reader,)) and runs[reader]:
                wait(number, reader)
                out.append(Wait(number, reader))
    return out


_ALL = (2 << WINDOW) - 1
