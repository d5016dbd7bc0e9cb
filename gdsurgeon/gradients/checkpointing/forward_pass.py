"""The forward part of a step for the choice of checkpoints: tensors that are needed again, and their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from gdsurgeon.gradients.checkpointing.step import StepGraph
from gdsurgeon.graph.functions import closure
from gdsurgeon.ops.kinds import READS_SHAPE, SOURCES, is_random

TINY = 4096
"""Bytes up to which a tensor is kept without asking."""

TensorId = tuple[int, int]


@dataclass
class ForwardPass:
    """What may be computed twice.

    A buffer is named by the tensor that was there first; an Identity of it has the same one.

    Attributes:
        step: forward and backward pass.
        is_backward: for each node whether it belongs to the backward pass.
        seeds: the backward nodes that are the gradients of the targets.
        order: the nodes that may be computed twice, producers first.
        position: where in `order` a node is.
        buffer: for each tensor of these nodes its buffer, if that belongs to one of them.
        nbytes: of each buffer.
        ends: the last position in the forward pass where a buffer is read.
        users: the backward nodes that read a buffer's value, with the tensors that they read.
        is_constant: for each node whether it depends on constants alone, and the targets do not.
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
        """The position at which a buffer is written."""
        return self.position[buffer[0]]

    def needed(self) -> list[TensorId]:
        """The buffers that the backward pass reads and that are worth asking about."""
        return [buffer for buffer in self.users if self.nbytes[buffer] > TINY]

    @cached_property
    def backward(self) -> list[int]:
        """The backward nodes, producers first."""
        return [number for number in self.step.order() if self.is_backward[number]]

    @cached_property
    def carries_gradient(self) -> list[int]:
        """For each backward node whether it depends on the targets' gradients, and not on the forward pass alone."""
        return self.step.behind(dict.fromkeys(self.seeds, 1), self.backward, control=False)

    @cached_property
    def backward_readers(self) -> list[list[int]]:
        """For each node the backward nodes that read it or wait for it."""
        out: list[list[int]] = [[] for _ in range(len(self.step))]
        for number in self.backward:
            for producer in dict.fromkeys(self.step.producers(number)):
                out[producer].append(number)
        return out

    def crossing(self, cut: int) -> list[TensorId]:
        """The buffers that are written up to position CUT and read behind it."""
        return [buffer for buffer, end in self.ends.items() if self.start(buffer) <= cut < end]


def forward_pass(
    step: StepGraph,
    backward: Iterable[int],
    targets: Iterable[int],
    seeds: Iterable[int],
    constant: Iterable[int],
    is_fixed: Callable[[int], bool],
) -> ForwardPass:
    """Finds out what of STEP may be computed twice.

    Args:
        step: forward and backward pass.
        backward: the nodes of the latter.
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
            elif source in found.buffer:  # else it is the buffer of a constant or an input, which is there in any case
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
