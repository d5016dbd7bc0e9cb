"""One run of a graph as numbers: its nodes with their sizes and costs, and the part that can be recomputed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod, sqrt
from typing import NamedTuple

from gdsurgeon.analysis.traversal.order import producers_first
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.ops.dtypes import element_size
from gdsurgeon.ops.kinds import ALIASES, MERGE, NEXT_ITERATION, PRODUCTS, READS_SHAPE, SOURCES, is_random
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

    def producers(self, number: int) -> list[int]:
        """Returns the nodes that a node reads or waits for, once for each input."""
        return [producer for producer, _ in self.reads[number]] + self.waits[number]

    def consumers(self, *, control: bool = True) -> list[list[int]]:
        """Returns for each node the nodes that read it or (with `control`) wait for it, once for each input."""
        out: list[list[int]] = [[] for _ in range(len(self))]
        for number in range(len(self)):
            for producer in self.producers(number) if control else (p for p, _ in self.reads[number]):
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
            for producer in self.producers(number) if control else (p for p, _ in self.reads[number]):
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
