"""How much memory a run takes at most, found by playing it through as TensorFlow's executor goes about it.

The executor starts a node as soon as its inputs are ready and a thread is free. A tensor is freed when its last
consumer has run. An elementwise op overwrites an input that no other node needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from gdsurgeon.gradients.checkpointing.step import StepGraph
from gdsurgeon.ops.kinds import REUSES_INPUT, SOURCES

CHEAP = 50_000.0
"""Costs (see `StepGraph.costs`) below which the executor runs a node at once, and leaves it to no other thread."""


class Release(NamedTuple):
    """A buffer that is free.

    Attributes:
        at: how many nodes had begun when it was.
        nbytes: its bytes.
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
        order: the nodes in the order in which they began; those that never did are missing.
        live: the bytes in use after each of these nodes began.
        releases: the buffers as they became free.
    """

    nbytes: int
    order: list[int]
    live: list[int]
    releases: list[Release]


def peak(step: StepGraph, kept: Iterable[int], threads: int = 2) -> Peak:
    """Plays STEP through. Linear in nodes and edges.

    Args:
        step: the graph that runs.
        kept: the nodes whose outputs are there until the end: those that are fetched.
        threads: how many nodes run at a time.
    """
    return _Run(step, kept, threads).play()


class _Run:
    """The executor's threads and its buffers.

    A thread that has run a node goes on with what has become ready and is cheap; of the rest it takes the last node
    itself where it has nothing else to do, and lays the others on top of its pile. Idle threads take from the top of
    their own pile, then from the bottom of another's.
    """

    def __init__(self, step: StepGraph, kept: Iterable[int], threads: int) -> None:
        self.step = step
        self.threads = threads
        size = len(step)
        self.consumers: list[list[int]] = [[] for _ in range(size)]
        self.waiting = [0] * size
        self.readers: list[list[int]] = [[0] * max(len(sizes), 1) for sizes in step.sizes]
        for number in range(size):
            reads, waits = step.reads[number], step.waits[number]
            self.waiting[number] = len(reads) + len(waits)
            for producer, port in reads:
                self.consumers[producer].append(number)
                if port >= len(self.readers[producer]):
                    self.readers[producer] += [0] * (port + 1 - len(self.readers[producer]))
                self.readers[producer][port] += 1
            for producer in waits:
                self.consumers[producer].append(number)
        for number in kept:
            self.readers[number] = [count + 1 for count in self.readers[number]]
        self.buffers: list[list[int]] = [[] for _ in range(size)]  # of each output; -1: none of this run
        self.bytes_of: list[int] = []
        self.users: list[int] = []
        self.readers_of: list[list[int]] = []
        self.releases: list[Release] = []
        self.live = 0
        self.order: list[int] = []
        self.history: list[int] = []

    def play(self) -> Peak:
        """Runs everything that can run."""
        piles: list[deque[int]] = [deque() for _ in range(self.threads)]
        inline: list[deque[int]] = [deque() for _ in range(self.threads)]
        inline[0].extend(number for number, count in enumerate(self.waiting) if not count)
        running: list[tuple[float, int, int]] = []
        idle = list(range(self.threads))
        now = 0.0
        while True:
            for thread in list(idle):
                number = self._next(thread, piles, inline)
                if number is not None:
                    idle.remove(thread)
                    self._begin(number)
                    heappush(running, (now + self.step.costs[number], thread, number))
            if not running:
                break
            now, thread, number = heappop(running)
            self._end(number)
            self._schedule(number, piles[thread], inline[thread])
            idle.append(thread)
        return Peak(max(self.history, default=0), self.order, self.history, self.releases)

    @staticmethod
    def _next(thread: int, piles: list[deque[int]], inline: list[deque[int]]) -> int | None:
        if inline[thread]:
            return inline[thread].popleft()
        if piles[thread]:
            return piles[thread].popleft()
        for other in piles:
            if other:
                return other.pop()
        return None

    def _schedule(self, number: int, pile: deque[int], inline: deque[int]) -> None:
        """What has become ready because NUMBER has run."""
        dear = -1
        for consumer in self.consumers[number]:
            self.waiting[consumer] -= 1
            if self.waiting[consumer]:
                continue
            if self.step.costs[consumer] < CHEAP:
                inline.append(consumer)
            else:
                if dear >= 0:
                    pile.appendleft(dear)
                dear = consumer
        if dear >= 0:
            if inline:
                pile.appendleft(dear)
            else:
                inline.append(dear)

    def _begin(self, number: int) -> None:
        """Its outputs are allocated."""
        step = self.step
        made = self.buffers[number]
        if step.ops[number] in SOURCES:
            made.extend([-1] * len(self.readers[number]))
        else:
            for index, count in enumerate(self.readers[number]):
                nbytes = step.sizes[number][index].nbytes if index < len(step.sizes[number]) else 0
                made.append(self._buffer(number, index, nbytes))
                if made[-1] >= 0:
                    self.users[made[-1]] += count
        self.order.append(number)
        self.history.append(self.live)

    def _end(self, number: int) -> None:
        """Frees the buffers that no node needs any more."""
        for index, count in enumerate(self.readers[number]):
            buffer = self.buffers[number][index]
            if not count and buffer >= 0:
                self._drop(buffer, 0)
        for producer, port in self.step.reads[number]:
            buffer = self.buffers[producer][port]
            if buffer >= 0:
                self.readers_of[buffer].append(number)
                self._drop(buffer, 1)

    def _buffer(self, number: int, index: int, nbytes: int) -> int:
        """The buffer of an output: a new one, or that of an input."""
        source = self.step.aliased(number, index)
        if source is not None:
            return self.buffers[source[0]][source[1]]
        if self.step.ops[number] in REUSES_INPUT:
            for producer, port in self.step.reads[number]:
                buffer = self.buffers[producer][port]
                if buffer >= 0 and self.users[buffer] == 1 and self.bytes_of[buffer] == nbytes:
                    self._note(buffer, number)
                    return buffer
        self.bytes_of.append(nbytes)
        self.users.append(0)
        self.readers_of.append([number])
        self.live += nbytes
        return len(self.users) - 1

    def _drop(self, buffer: int, count: int) -> None:
        self.users[buffer] -= count
        if not self.users[buffer] and self.bytes_of[buffer]:
            self.live -= self.bytes_of[buffer]
            self._note(buffer, None)
            self.bytes_of[buffer] = 0

    def _note(self, buffer: int, to: int | None) -> None:
        """BUFFER is free, or is written over by the node TO."""
        self.releases.append(Release(len(self.order), self.bytes_of[buffer], tuple(self.readers_of[buffer]), to))
