"""Has what allocates wait for the releases that a plan counts on.

A run that was played through is one of many: threads race, and a tensor whose last reader comes late is still there
when the next one is allocated. Where that would take more memory than the plan has foreseen, the reader is made to
come first, as it did when the run was played through; since the waits follow the order of that run, they never close
a cycle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.gradients.checkpointing.forward_pass import TINY
from gdsurgeon.gradients.checkpointing.peak import Peak, Release
from gdsurgeon.gradients.checkpointing.step import StepGraph
from gdsurgeon.ops.kinds import ALIASES, SOURCES

WINDOW = 128
"""How many nodes may begin between a reader and what counts on its having run: races are no longer than that."""
WORTH = 256
"""What is smaller than the bound by this is left to chance."""


JOINED = frozenset(("Pad", "Transpose"))
"""Ops that TensorFlow makes one op of with the convolution that reads them: nothing may come between."""


class Wait(NamedTuple):
    """NODE is to begin when READER has run."""

    node: int
    reader: int


def slots_to_hold(step: StepGraph, nodes: Iterable[int], constants: Container[int]) -> dict[int, int]:
    """For each of NODES that can be made to wait, the input that is held back for that: the first one that matters."""
    out: dict[int, int] = {}
    for node in nodes:
        for slot, tensor in enumerate(step.reads[node]):
            if tensor[0] not in constants and step.size(tensor).nbytes > TINY:
                if step.ops[tensor[0]] not in JOINED:
                    out[node] = slot
                break
    return out


def hold(step: StepGraph, waits: Iterable[Wait], slots: Mapping[int, int], scope: str) -> dict[int, int]:
    """Has nodes of STEP wait: each reads one of its inputs through an Identity that does.

    A control input of the node itself would keep TensorFlow from making one op of it and its neighbours: oneDNN has
    one for a convolution and its bias, and one for the gradients of both, with other rounding.

    Args:
        step: gets the nodes.
        waits: what waits for what.
        slots: see `slots_to_hold`.
        scope: the name scope of the new nodes.

    Returns:
        For each new node the one that reads it.
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
    """Finds out what has to wait for what. Linear in nodes and edges.

    Args:
        step: the simulated graph.
        played: how that went.
        may_wait: the nodes that may be made to wait.
        runs: for each node whether it runs whatever the values are, so that it can be waited for.
        bound: the bytes that races must not take the run beyond.
    """
    out: list[Wait] = []
    least = bound // WORTH
    past = _Past(step, played.order)
    freed = deque(release for release in played.releases if release.nbytes > least)
    recent: deque[Release] = deque()
    taken = {release.to for release in played.releases}
    for at, number in enumerate(played.order):
        past.begin(number)
        while freed and freed[0].at <= at:
            recent.append(freed.popleft())
            past.has_read(recent[-1].readers)
        while recent and recent[0].at < at - WINDOW:
            recent.popleft()
        if number in may_wait and runs[number] and _written(step, number) > least and past.races(number):
            over = number if number in taken else None
            counted_on = [release for release in recent if release.to == over]
            for reader in _too_late(past, number, counted_on, bound - played.live[at]):
                if runs[reader]:
                    past.wait(number, reader)
                    out.append(Wait(number, reader))
    return out


def _written(step: StepGraph, number: int) -> int:
    if step.ops[number] in ALIASES or step.ops[number] in SOURCES:
        return 0
    return sum(size.nbytes for size in step.sizes[number])


def _too_late(past: _Past, number: int, releases: Sequence[Release], room: int) -> Iterator[int]:
    """The readers that NUMBER has to wait for, so that what races with it fits into ROOM bytes; the latest first."""
    if sum(release.nbytes for release in releases) <= room:
        return
    racing = [(r.nbytes, readers) for r in releases if (readers := past.racing(number, r.readers))]
    late: list[int] = []
    for nbytes, readers in sorted(racing, key=lambda item: item[0]):
        if nbytes <= room:
            room -= nbytes
        else:
            late += readers
    for reader in past.racing(number, late):
        if past.racing(number, (reader,)):  # else one that has been waited for comes after it
            yield reader


class _Past:
    """For each node, the nodes started shortly before it that have finished by then, however threads are scheduled.

    Sets of nodes are numbers: bit K of one stands for the node that began K earlier. What began more than `WINDOW`
    earlier is taken for done.
    """

    def __init__(self, step: StepGraph, order: Iterable[int]) -> None:
        self._step = step
        self._begins = {number: at for at, number in enumerate(order)}
        self._done: dict[int, int] = {}
        self._readers = 0
        self._now = -1

    def begin(self, number: int) -> None:
        """NUMBER begins; nodes do so in the order that was given."""
        self._now += 1
        self._readers = self._readers << 1 & _ALL
        self._done[number] = 1
        for producer in self._step.producers(number):
            self.wait(number, producer)

    def wait(self, number: int, producer: int) -> None:
        """NUMBER waits for PRODUCER, and so for its past."""
        ago = self._begins[number] - self._begins[producer]
        if ago <= WINDOW:
            self._done[number] |= self._done[producer] << ago & _ALL

    def has_read(self, readers: Iterable[int]) -> None:
        """READERS are those of something that is free now."""
        for reader in readers:
            if self._now - self._begins[reader] <= WINDOW:
                self._readers |= 1 << self._now - self._begins[reader]

    def races(self, number: int) -> bool:
        """Whether any reader of what is free may still run when NUMBER, the last that began, does."""
        return bool(self._readers & ~self._done[number])

    def racing(self, number: int, readers: Iterable[int]) -> list[int]:
        """Those of READERS that may still run when NUMBER begins; the latest first."""
        done = self._done[number]
        found = {ago: reader for reader in readers if (ago := self._begins[number] - self._begins[reader]) <= WINDOW}
        return [found[ago] for ago in sorted(found) if not done >> ago & 1]


_ALL = (2 << WINDOW) - 1
