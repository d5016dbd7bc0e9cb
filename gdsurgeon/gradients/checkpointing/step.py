"""One run of a graph as numbers: what computes what, how many bytes that is, and how long it takes, roughly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod, sqrt
from typing import NamedTuple

from gdsurgeon.analysis.traversal.order import producers_first
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.ops.dtypes import element_size
from gdsurgeon.ops.kinds import ALIASES, MERGE, NEXT_ITERATION, PRODUCTS, SOURCES
from gdsurgeon.wire.protos import GraphDef

FLOPS_PER_BYTE = 20.0
"""How many floating-point operations of a contraction take as long as moving a byte does in an elementwise op."""


class TensorSize(NamedTuple):
    """The shape of a tensor, None where it is unknown, and its bytes; 0 bytes where they are not known."""

    shape: tuple[int, ...] | None
    nbytes: int


UNKNOWN = TensorSize(None, 0)


def tensor_size(dtype: int, shape: tuple[int, ...] | None) -> TensorSize:
    """The size of a tensor of a DataType; of one with unknown dimensions the bytes are unknown."""
    if shape is None or min(shape, default=0) < 0 or not element_size(dtype):
        return TensorSize(shape, 0)
    return TensorSize(shape, prod(shape) * element_size(dtype))


@dataclass
class StepGraph:
    """A graph that is run, all of it. A node is a number; every list has an entry for each.

    Attributes:
        names: of the nodes.
        ops: their ops.
        reads: data inputs, pairs of a node and the index of its output.
        waits: the nodes of the control inputs.
        sizes: of the outputs.
        costs: the time that a node takes, as the bytes that could be moved meanwhile.
        index: the number of a name.
        live: for each of the first nodes whether it runs whatever the values are; None: all do, as all others do.
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
        """A copy that can be changed apart."""
        return StepGraph(
            list(self.names), list(self.ops), [list(r) for r in self.reads], [list(w) for w in self.waits],
            [list(s) for s in self.sizes], list(self.costs), dict(self.index), self.live,
        )  # fmt: skip

    def tensor(self, text: str) -> tuple[int, int]:
        """The node and the index that ``node`` or ``node:1`` names."""
        name, colon, port = text.rpartition(":")
        return (self.index[name], int(port)) if colon else (self.index[text], 0)

    def size(self, tensor: tuple[int, int]) -> TensorSize:
        """The size of an output of a node."""
        sizes = self.sizes[tensor[0]]
        return sizes[tensor[1]] if tensor[1] < len(sizes) else UNKNOWN

    def is_live(self, number: int) -> bool:
        """Whether a node runs whatever the values are, so that it can be waited for."""
        return self.live is None or number >= len(self.live) or self.live[number]

    def aliased(self, number: int, index: int) -> tuple[int, int] | None:
        """The tensor whose buffer an output has; None where that is its own."""
        op, reads = self.ops[number], self.reads[number]
        if reads and op == "IdentityN":
            return reads[min(index, len(reads) - 1)]
        return reads[0] if reads and op in ALIASES and index == 0 else None

    def order(self) -> list[int]:
        """The nodes, producers first; what lies on a cycle or behind one is missing."""
        return producers_first(range(len(self)), len(self), self.producers)

    def producers(self, number: int) -> list[int]:
        """The nodes that a node reads or waits for, as often as it does."""
        return [producer for producer, _ in self.reads[number]] + self.waits[number]

    def behind(self, marks: Mapping[int, int], order: Iterable[int], *, control: bool = True) -> list[int]:
        """For each node its own marks and those of all that it depends on.

        Args:
            marks: bits, by node.
            order: the nodes that may depend on marked ones, producers first.
            control: whether a control input makes a node depend on another.
        """
        out = [0] * len(self)
        for number, mark in marks.items():
            out[number] = mark
        for number in order:
            for producer in self.producers(number) if control else (p for p, _ in self.reads[number]):
                out[number] |= out[producer]
        return out


def step_of(definitions: Sequence[GraphDef], sizes: Mapping[str, Sequence[TensorSize]]) -> StepGraph:
    """The run of all nodes of some GraphDefs; a node of a later one takes the place of its namesake.

    Args:
        definitions: the GraphDef messages.
        sizes: for each node the sizes of its outputs.
    """
    nodes = {node.name: node for definition in definitions for node in definition.node}
    out = StepGraph()
    out.index = {name: number for number, name in enumerate(nodes)}
    for name, node in nodes.items():
        refs = [ref for text in node.input if (ref := parse_input(text)) is not None]
        if node.op in MERGE:  # the edge that closes a loop
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
    """Returns the time of a node, in bytes that could be moved meanwhile: its inputs and outputs, and its flops."""
    op = step.ops[number]
    if op in SOURCES or op in ALIASES:
        return 0.0
    given = [step.size(read) for read in step.reads[number]]
    moved = sum(size.nbytes for size in (*given, *step.sizes[number]))
    return moved + _flops(op, [size.shape for size in given], [s.shape for s in step.sizes[number]]) / FLOPS_PER_BYTE


# Convolutions and the like: which input or output (-1) has as many elements as there are sums, and which is the filter.
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
    """The elements of a tensor; unknown dimensions count as 1."""
    return prod(1 if dim < 0 else dim for dim in shape)
