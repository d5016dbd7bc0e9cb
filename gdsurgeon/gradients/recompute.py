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
    segment_of: list[int] = []
    for number, end in enumerate([*(cut + 1 for cut in cuts), len(found.order)]):
        segment_of += [number] * (end - len(segment_of))

    def segment(buffer: TensorId) -> int:
        return segment_of[found.start(buffer)]

    kept = _kept(found, segment, {*kept_segments, len(cuts)}, segment_of)
    out = Recomputation(found.step.copy(), kept=kept)
    step, clones = out.step, dict[int, int]()
    users: dict[int, dict[int, None]] = {}  # for each segment the backward nodes that read recomputed tensors
    marks: dict[int, int] = {}
    for buffer, readers in found.users.items():
        if buffer not in kept:
            users.setdefault(segment(buffer), {}).update(dict.fromkeys(readers))
            marks |= {user: marks.get(user, 0) | 1 << segment(buffer) for user in readers}
    # For each backward node, bit by bit, the segments of the users that it is or depends on.
    depends_on = found.step.inherited(marks, found.backward)

    def is_repeated(tensor: TensorId) -> bool:
        """Returns whether a tensor is recomputed together with a node that reads it."""
        buffer = found.buffer.get(tensor)
        return buffer is not None and buffer not in kept

    for number in sorted(users, reverse=True):
        # Gates wait for gradients of the users, and for the users of the next segment.
        later = [other for other in users if other > number]
        awaited = (*_gradients_into(found, users[number]), *(users[min(later)] if later else ()))
        waits = [n for n in awaited if step.is_live(n) and not depends_on[n] >> number & 1]
        trigger = step.add(f"{scope}/segment_{number}/trigger", "NoOp", (), dict.fromkeys(waits), ())
        out.triggers[number] = trigger
        # The tensors of the segment that backward nodes read, and all nodes that must be repeated for them.
        slots = [
            (user, slot, tensor)
            for user in users[number]
            for slot, tensor in enumerate(step.reads[user])
            if is_repeated(tensor) and segment(found.buffer[tensor]) == number
        ]
        repeated = closure(
            {tensor[0] for _, _, tensor in slots},
            lambda node: [tensor[0] for tensor in step.reads[node] if is_repeated(tensor)],
        )
        gated: dict[TensorId, int] = {}
        for node in sorted(repeated, key=found.position.__getitem__):
            reads: list[TensorId] = []
            for tensor in step.reads[node]:
                if is_repeated(tensor):
                    reads.append((clones[tensor[0]], tensor[1]))
                elif found.is_constant[tensor[0]] and tensor[0] not in found.position:
                    reads.append(tensor)
                else:
                    if tensor not in gated:
                        name = f"{scope}/segment_{number}/gate_{len(out.gates)}"
                        gated[tensor] = step.add(name, "Identity", [tensor], [trigger], [step.size(tensor)])
                        out.gates.append(gated[tensor])
                    reads.append((gated[tensor], 0))
            name, cost = f"{scope}/segment_{number}/{step.names[node]}", step.costs[node]
            clones[node] = step.add(name, step.ops[node], reads, (), step.sizes[node], cost)
            out.originals[clones[node]] = node
            out.cost += cost
        for user, slot, tensor in slots:
            step.reads[user][slot] = (clones[tensor[0]], tensor[1])
            out.rewired[user] = None
    return out


def _kept(
    found: ForwardPass, segment: Callable[[TensorId], int], always: Collection[int], segment_of: Sequence[int]
) -> frozenset[TensorId]:
    """Returns the buffers that are kept. `segment` returns the segment of a buffer; `always` are kept completely."""
    worth = set(found.needed())
    out: set[TensorId] = set()
    for buffer, end in found.ends.items():
        stays = segment(buffer) in always if buffer in worth else buffer in found.users
        if stays or segment_of[end] != segment(buffer):
            out.add(buffer)
    # A user runs with the latest segment whose buffers it reads; its buffers of earlier segments are kept.
    by_user: dict[int, list[TensorId]] = {}
    for buffer, users in found.users.items():
        for user in users if buffer not in out else ():
            by_user.setdefault(user, []).append(buffer)
    for buffers in by_user.values():
        last = max(map(segment, buffers))
        out.update(buffer for buffer in buffers if segment(buffer) < last)
    return frozenset(out)


def _gradients_into(found: ForwardPass, users: Iterable[int]) -> Iterable[int]:
    """Yields the backward nodes whose gradients users read, or readers of users without gradients."""
    seen: set[int] = set()
    pending = list(users)
    while pending:
        user = pending.pop()
        if user not in seen:
            seen.add(user)
            yield from (p for p, _ in found.step.reads[user] if found.carries_gradient[p])
            if not found.carries_gradient[user]:
                pending.extend(found.backward_readers[user])
