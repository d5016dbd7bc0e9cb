"""Makes the backward pass of a step recompute forward tensors instead of keeping them.

`forward_pass` finds the nodes that may be computed twice. "Training Deep Nets with Sublinear Memory Cost" (Chen et al.,
2016): the forward pass is cut into segments; tensors that cross a cut are kept, and the other tensors of a segment are
recomputed from them. TensorFlow's scheduler would run the recomputation at once, so the inputs of a segment pass
through gates. A gate opens when the backward pass reaches the segment and has finished the segment after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gdsurgeon.gradients.step_graph import TINY, StepGraph, TensorId
from gdsurgeon.graph.functions import closure
from gdsurgeon.ops.kinds import READS_SHAPE, SOURCES, is_random


@dataclass
class ForwardPass:
    """The nodes that may be computed twice, and their buffers.

    A buffer is identified by the tensor that it was allocated for; an Identity of this tensor shares the buffer.

    Attributes:
        step: forward and backward pass.
        is_backward: for each node whether it belongs to the backward pass.
        seeds: the backward nodes that are the gradients of the targets.
        order: the nodes that may be computed twice, producers first.
        position: the index of a node in `order`.
        buffer: for each tensor its buffer, if a node in `order` allocates it.
        nbytes: the size of each buffer.
        ends: the last position in the forward pass where a buffer is read.
        users: the backward nodes that read a buffer's value, with the tensors that they read.
        is_constant: for each node whether it depends only on constants, unless the targets do as well.
    """

    step: StepGraph
    is_backward: list[bool]
    seeds: list[int]
    order: list[int] = field(default_factory=list)
    position: dict[int, int] = field(default_factory=dict)
    buffer: dict[TensorId, TensorId] = field(default_factory=dict)
    nbytes: dict[TensorId, int] = field(default_factory=dict)
    ends: dict[TensorId, int] = field(default_factory=dict)
    users: dict[TensorId, dict[int, list[TensorId]]] = field(default_factory=dict)
    is_constant: list[bool] = field(default_factory=list)

    def start(self, buffer: TensorId) -> int:
        """Returns the position at which a buffer is written."""
        return self.position[buffer[0]]

    def needed(self) -> list[TensorId]:
        """Returns the buffers that the backward pass reads, without tiny ones."""
        return [buffer for buffer in self.users if self.nbytes[buffer] > TINY]

    @cached_property
    def backward(self) -> list[int]:
        """The backward nodes, producers first."""
        return [number for number in self.step.order() if self.is_backward[number]]

    @cached_property
    def carries_gradient(self) -> list[int]:
        """For each backward node whether it depends on the gradients of the targets."""
        return self.step.inherited(dict.fromkeys(self.seeds, 1), self.backward, control=False)

    @cached_property
    def backward_readers(self) -> list[list[int]]:
        """For each node, the backward nodes that read it or wait for it."""
        out: list[list[int]] = [[] for _ in range(len(self.step))]
        for number in self.backward:
            for producer in dict.fromkeys(self.step.producers(number)):
                out[producer].append(number)
        return out


def forward_pass(
    step: StepGraph,
    backward: Iterable[int],
    targets: Iterable[int],
    seeds: Iterable[int],
    constant: Iterable[int],
    is_fixed: Callable[[int], bool],
) -> ForwardPass:
    """Finds the nodes that may be computed twice.

    Args:
        step: forward and backward pass.
        backward: the nodes of the backward pass.
        targets: the nodes that are differentiated.
        seeds: the backward nodes that are their gradients.
        constant: nodes that count as constants, in addition to real constants.
        is_fixed: whether a node must not be computed twice: it is stateful, random, or does not run exactly once.
    """
    flags = [False] * len(step)
    for number in backward:
        flags[number] = True
    out = ForwardPass(step, flags, list(seeds))
    order = [number for number in step.order() if not flags[number]]
    targets = list(targets)
    varies = _varying(step, order, set(constant), chance=False)
    before = closure(targets, step.producers)
    if not any(varies[target] for target in targets):
        # The random values are the data, not a mask for other data.
        varies = _varying(step, order, set(constant), chance=True)
    if not any(varies[target] for target in targets):
        # Everything is computed from constants: they are the data, not weights.
        varies = [not flag and step.ops[number] not in SOURCES for number, flag in enumerate(flags)]
    out.is_constant = [not flag for flag in varies]
    for number in order:
        if varies[number] and number in before and step.ops[number] not in SOURCES and not is_fixed(number):
            out.position[number] = len(out.order)
            out.order.append(number)
    _find_buffers(out)
    return out


def _varying(step: StepGraph, order: Iterable[int], constant: set[int], *, chance: bool) -> list[bool]:
    """Returns for each node whether it depends on more than constants; `chance`: whether random ops count as well."""
    out = [False] * len(step)
    for number in order:
        if step.ops[number] in SOURCES:
            out[number] = step.ops[number] != "Const" and number not in constant
        else:
            stands_alone = not step.reads[number] or (chance and is_random(step.ops[number]))
            out[number] = stands_alone or any(out[producer] for producer, _ in step.reads[number])
    return out


def _find_buffers(found: ForwardPass) -> None:
    step = found.step
    for number in found.order:
        for index, size in enumerate(step.sizes[number]):
            tensor = (number, index)
            source = step.aliased(number, index)
            if source is None:
                found.buffer[tensor] = tensor
                found.nbytes[tensor] = size.nbytes
                found.ends[tensor] = found.position[number]
            elif source in found.buffer:  # otherwise it belongs to a constant or an input, which exist anyway
                found.buffer[tensor] = found.buffer[source]
    for number in range(len(step)):
        for tensor in step.reads[number]:
            buffer = found.buffer.get(tensor)
            if buffer is None:
                continue
            if number in found.position:
                found.ends[buffer] = max(found.ends[buffer], found.position[number])
            elif found.is_backward[number] and step.ops[number] not in READS_SHAPE:
                found.users.setdefault(buffer, {}).setdefault(number, []).append(tensor)


@dataclass
class Recomputation:
    """A step that computes some of its forward pass twice.

    Attributes:
        step: the new step; the nodes of the old step keep their numbers.
        originals: for each recomputing node, the node that it repeats.
        gates: the Identity nodes that wait.
        triggers: the NoOp nodes that they wait for, by segment, from the last segment down.
        rewired: the backward nodes with changed inputs.
        kept: the kept buffers, including tiny ones.
        cost: the cost of the recomputation, see `StepGraph.costs`.
    """

    step: StepGraph
    originals: dict[int, int] = field(default_factory=dict)
    gates: list[int] = field(default_factory=list)
    triggers: dict[int, int] = field(default_factory=dict)
    rewired: dict[int, None] = field(default_factory=dict)
    kept: frozenset[TensorId] = frozenset()
    cost: float = 0.0


def recomputed(found: ForwardPass, cuts: Sequence[int], kept_segments: Collection[int], scope: str) -> Recomputation:
    """Rewrites a step. Gates wait only for nodes that run for all values.

    Args:
        found: its forward pass.
        cuts: positions after which it is cut, ascending.
        kept_segments: numbers of the segments that are kept completely; the last segment always is.
        scope: the name scope of the new nodes.
    """
    return _Rewriting(found, cuts, kept_segments, scope).run()


class _Rewriting:
    def __init__(self, found: ForwardPass, cuts: Sequence[int], kept_segments: Collection[int], scope: str) -> None:
        self.found = found
        self.scope = scope
        self.segment = _segments(len(found.order), cuts)
        self.last = len(cuts)
        self.always = {*kept_segments, self.last}
        self.kept = self._kept()
        self.out = Recomputation(found.step.copy(), kept=self.kept)
        self.step = self.out.step
        self.users = self._users()
        marks: dict[int, int] = {}
        for segment, users in self.users.items():
            for user in users:
                marks[user] = marks.get(user, 0) | 1 << segment
        # For each backward node, bit by bit, the segments of the users that it is or depends on.
        self.depends_on = found.step.inherited(marks, found.backward)
        self.clones: dict[int, int] = {}
        self.gated: dict[tuple[TensorId, int], int] = {}

    def _kept(self) -> frozenset[TensorId]:
        found = self.found
        worth = set(found.needed())
        out: set[TensorId] = set()
        for buffer, end in found.ends.items():
            first = self.segment[found.start(buffer)]
            crosses = self.segment[end] != first
            stays = first in self.always if buffer in worth else buffer in found.users
            if crosses or stays:
                out.add(buffer)
        return frozenset(out | self._read_late(out))

    def _read_late(self, kept: Collection[TensorId]) -> set[TensorId]:
        """Returns buffers that a user reads together with buffers of a later segment, with which the user runs."""
        by_user: dict[int, list[TensorId]] = {}
        for buffer, users in self.found.users.items():
            if buffer not in kept:
                for user in users:
                    by_user.setdefault(user, []).append(buffer)
        out: set[TensorId] = set()
        for buffers in by_user.values():
            segments = [self.segment[self.found.start(buffer)] for buffer in buffers]
            out.update(b for b, segment in zip(buffers, segments, strict=True) if segment < max(segments))
        return out

    def _users(self) -> dict[int, dict[int, None]]:
        """Returns for each segment the backward nodes that read recomputed tensors."""
        out: dict[int, dict[int, None]] = {}
        for buffer, users in self.found.users.items():
            if buffer not in self.kept:
                out.setdefault(self.segment[self.found.start(buffer)], {}).update(dict.fromkeys(users))
        return out

    def run(self) -> Recomputation:
        for segment in sorted(self.users, reverse=True):
            trigger = self._trigger(segment)
            for user in self.users[segment]:
                self._rewire(user, segment, trigger)
        return self.out

    def _rewire(self, user: int, segment: int, trigger: int) -> None:
        reads = self.step.reads[user]
        for slot, tensor in enumerate(reads):
            buffer = self.found.buffer.get(tensor)
            if buffer is None or buffer in self.kept or self.segment[self.found.start(buffer)] != segment:
                continue
            reads[slot] = (self._clone(tensor[0], segment, trigger), tensor[1])
            self.out.rewired[user] = None

    def _clone(self, number: int, segment: int, trigger: int) -> int:
        """Returns the node that repeats a node; adds it and all nodes that it needs, inputs first."""
        pending = [number]
        while pending:
            current = pending[-1]
            if current in self.clones:
                pending.pop()
                continue
            missing = [p for p, port in self.step.reads[current] if self._again((p, port)) and p not in self.clones]
            if missing:
                pending += missing
                continue
            pending.pop()
            self._make(current, segment, trigger)
        return self.clones[number]

    def _again(self, tensor: TensorId) -> bool:
        """Returns whether a tensor is recomputed together with a node that reads it."""
        buffer = self.found.buffer.get(tensor)
        return buffer is not None and buffer not in self.kept

    def _make(self, number: int, segment: int, trigger: int) -> None:
        step = self.step
        reads: list[TensorId] = []
        for tensor in step.reads[number]:
            if self._again(tensor):
                reads.append((self.clones[tensor[0]], tensor[1]))
            elif self.found.is_constant[tensor[0]] and tensor[0] not in self.found.position:
                reads.append(tensor)
            else:
                reads.append((self._gate(tensor, segment, trigger), 0))
        name = f"{self.scope}/segment_{segment}/{step.names[number]}"
        clone = step.add(name, step.ops[number], reads, (), step.sizes[number], step.costs[number])
        self.clones[number] = clone
        self.out.originals[clone] = number
        self.out.cost += step.costs[number]

    def _gate(self, tensor: TensorId, segment: int, trigger: int) -> int:
        key = (tensor, segment)
        if key not in self.gated:
            sizes = self.step.sizes[tensor[0]]
            name = f"{self.scope}/segment_{segment}/gate_{len(self.gated)}"
            gate = self.step.add(name, "Identity", [tensor], [trigger], sizes[tensor[1] : tensor[1] + 1])
            self.gated[key] = gate
            self.out.gates.append(gate)
        return self.gated[key]

    def _trigger(self, segment: int) -> int:
        """Adds the node that gates wait for: it waits for gradients of the users, and for users of the next segment."""
        later = [other for other in self.users if other > segment]
        awaited = (*self._gradients_into(self.users[segment]), *(self.users[min(later)] if later else ()))
        waits = [n for n in awaited if self.step.is_live(n) and not self.depends_on[n] >> segment & 1]
        trigger = self.step.add(f"{self.scope}/segment_{segment}/trigger", "NoOp", (), dict.fromkeys(waits), ())
        self.out.triggers[segment] = trigger
        return trigger

    def _gradients_into(self, users: Iterable[int]) -> Iterable[int]:
        """Yields the backward nodes whose gradients users read, or readers of users without gradients."""
        step, carries_gradient = self.found.step, self.found.carries_gradient
        seen: set[int] = set()
        pending = list(users)
        while pending:
            user = pending.pop()
            if user in seen:
                continue
            seen.add(user)
            yield from (p for p, _ in step.reads[user] if carries_gradient[p])
            if not carries_gradient[user]:
                pending.extend(self.found.backward_readers[user])


def _segments(count: int, cuts: Sequence[int]) -> list[int]:
    """Returns for each position the number of its segment."""
    out: list[int] = []
    for segment, end in enumerate([*(cut + 1 for cut in cuts), count]):
        out += [segment] * (end - len(out))
    return out
