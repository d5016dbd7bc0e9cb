"""Sums of three and more: which inputs they may begin with, and what has to stay in order for that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from gdsurgeon.gradients.checkpointing.step import StepGraph
from gdsurgeon.graph.functions import closure
from gdsurgeon.ops.kinds import LOWERED, READS_SHAPE, SOURCES, may_have


def may_share(step: StepGraph, number: int) -> Iterator[int]:
    """The producers of inputs of a node whose buffers its outputs may have."""
    made = [size.nbytes for size in step.sizes[number]]
    is_alone = step.ops[number] == "AddN" and len(step.reads[number]) == 1  # which hands on what it gets
    for tensor in step.reads[number]:
        if is_alone or may_have(step.ops[number], step.size(tensor).nbytes, made):
            yield tensor[0]


class _Family(NamedTuple):
    """Nodes that share a buffer, the others that read it, and the sums that may begin with it."""

    sharing: set[int]
    readers: set[int]
    totals: list[int]


class Sums:
    """The sums of three and more of a step, whose last bits hang on who else reads what they add.

    AddN's kernel begins with the first input that it may overwrite, one whose buffer no other node needs. For inputs
    where this is not known, and which come before an input where it is known, the buffers must be needed by others at
    the time of the sum exactly as in the given step.

    Args:
        step: forward and backward pass.
        is_backward: for each node whether it belongs to the latter.
        seeds: the gradients of the targets.
    """

    def __init__(self, step: StepGraph, is_backward: Sequence[bool], seeds: Iterable[int]) -> None:
        self._step = step
        self.is_backward = is_backward
        self._carries_gradient = step.behind(dict.fromkeys(seeds, 1), step.order(), control=False)
        self._consumers: list[list[int]] = [[] for _ in range(len(step))]
        for number in range(len(step)):
            for producer, _ in step.reads[number]:
                self._consumers[producer].append(number)
        self._all = [number for number, op in enumerate(step.ops) if op == "AddN" and len(step.reads[number]) > 2]
        self._uncertain = {total: found for total in self._all if (found := self._uncertain_inputs(total))}

    def __bool__(self) -> bool:
        """Returns whether there are sums whose first input is not known."""
        return bool(self._uncertain)

    def computed_once(self) -> set[int]:
        """The forward nodes that must not be computed again: the sums, and what they hang on.

        A buffer that the backward pass is sure to read when the sum has been taken is needed until then, and has to
        be; of another one nothing that is computed again may be computed, and those who read it wait for nothing.
        """
        out = set(self._all)
        for family in self._families:
            out |= family.sharing
            if not self._is_needed_late(family):
                out |= family.readers
        pending = list(self.prompt())
        while pending:
            read = {producer for producer, _ in self._step.reads[pending.pop()]} - out
            out |= read
            pending += [producer for producer in read if self.is_backward[producer]]
        return {number for number in out if not self.is_backward[number]}

    def prompt(self) -> set[int]:
        """The backward nodes that must not be held back: they free what a sum of the forward pass may begin with."""
        found = {r for family in self._families if not self._is_needed_late(family) for r in family.readers}
        return {number for number in found if self.is_backward[number] and not self._carries_gradient[number]}

    def come_before_gradients(self) -> bool:
        """Whether all gradients that read what the forward pass adds come after its sums in any case."""
        return all(
            not self._carries_gradient[reader] or self._is_behind(reader, total)
            for family in self._families
            for total in family.totals
            if not self.is_backward[total]
            for reader in family.readers
        )

    @cached_property
    def _families(self) -> list[_Family]:
        out: list[_Family] = []
        known: dict[int, _Family] = {}
        for total, producers in self._uncertain.items():
            for producer in producers:
                if producer not in known:
                    sharing = self._sharing(producer)
                    readers = {reader for number in sharing for reader in self._consumers[number]} - sharing
                    out.append(_Family(sharing, readers, []))
                    known |= dict.fromkeys(sharing, out[-1])
                known[producer].totals.append(total)
        return out

    def _is_needed_late(self, family: _Family) -> bool:
        late = [r for r in family.readers if self._carries_gradient[r]]
        late = [r for r in late if self._step.ops[r] not in READS_SHAPE | LOWERED]
        return all(any(self._is_behind(reader, total) for reader in late) for total in family.totals)

    def _is_behind(self, number: int, total: int) -> bool:
        """Whether a node depends on a sum of the forward pass."""
        bit = self._bits.get(total)
        return bit is not None and bool(self._behind[number] >> bit & 1)

    @cached_property
    def _bits(self) -> dict[int, int]:
        totals = (total for total in self._uncertain if not self.is_backward[total])
        return {total: bit for bit, total in enumerate(totals)}

    @cached_property
    def _behind(self) -> list[int]:
        """For each node the sums of the forward pass that it is or depends on, bit by bit."""
        return self._step.behind({total: 1 << bit for total, bit in self._bits.items()}, self._step.order())

    def keep_order(self, order: Sequence[int]) -> list[int]:
        """Has sums of the backward pass, and the others that read what they add, come in ORDER.

        Others wait for a sum only if they are sums themselves: of a convolution and its bias TensorFlow makes one op,
        unless one of them waits for something.

        Args:
            order: in which the nodes of the step have been run; since all waits follow it, they close no cycle.

        Returns:
            The nodes that wait.
        """
        step = self._step
        position = {number: at for at, number in enumerate(order)}
        out: dict[int, None] = {}
        sharing_with: dict[int, set[int]] = {total: set() for total in self._uncertain if self.is_backward[total]}
        for family in self._families:
            for total in family.totals:
                if total in sharing_with:
                    sharing_with[total] |= family.sharing
        for total, sharing in sharing_with.items():
            readers = sharing.union(*(self._consumers[number] for number in sharing)) - {total}
            for reader in sorted(readers, key=lambda reader: position.get(reader, -1)):
                comes_first = position.get(reader, len(order)) < position.get(total, -1)
                if not self.is_backward[reader] or not (comes_first or step.ops[reader] == "AddN"):
                    continue
                awaited, waiting = (reader, total) if comes_first else (total, reader)
                known = (*step.waits[waiting], *(producer for producer, _ in step.reads[waiting]))
                if awaited not in known and step.is_live(awaited) and {awaited, waiting} <= position.keys():
                    step.waits[waiting].append(awaited)
                    out[waiting] = None
        return list(out)

    def _uncertain_inputs(self, total: int) -> list[int]:
        """The producers of the inputs of a sum that it may begin with or not."""
        step = self._step
        out: list[int] = []
        for producer, port in step.reads[total]:
            if step.ops[producer] in SOURCES or step.reads[total].count((producer, port)) > 1:
                continue
            if self._consumers[producer] == [total] and next(may_share(step, producer), None) is None:
                return out
            out.append(producer)
        return out

    def _sharing(self, start: int) -> set[int]:
        """The nodes whose outputs may have one buffer with those of START."""
        step = self._step

        def others(number: int) -> Iterator[int]:
            readers = (c for c in self._consumers[number] if number in may_share(step, c))
            return (other for other in (*may_share(step, number), *readers) if step.ops[other] not in SOURCES)

        return closure([start], others)
