"""How many bytes constants take, without reading them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.graph.attrs import Shape, shape_of
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.writing import encoded
from gdsurgeon.ops.dtypes import element_size
from gdsurgeon.wire.protos import NodeDef
from gdsurgeon.wire.write import size_of


class ConstantSize(NamedTuple):
    """A constant.

    Attributes:
        name: of the node.
        function: the function that it is in, or ''.
        bytes: of the node in the file, its name and the like included.
        dtype: the DataType; 0 where it cannot be read.
        shape: the dims; None where they cannot be read.
        loaded_bytes: of the tensor in memory; 0 where the dtype has no fixed size. More than `bytes` where one value
            stands for many.
    """

    name: str
    function: str
    bytes: int
    dtype: int
    shape: Shape
    loaded_bytes: int


@dataclass(frozen=True)
class ConstantSizes:
    """The constants of a graph: how many, their bytes in the file, and the largest of them, largest first."""

    count: int
    bytes: int
    largest: tuple[ConstantSize, ...]


def constant_sizes(graph: Graph, most: int = 10) -> ConstantSizes:
    """The constants of GRAPH as it is now, those inside functions included; MOST of them are described.

    Only the headers of these constants are read.
    """
    topology = topology_of(graph)
    count = total = 0
    largest: list[tuple[int, int, int | NodeDef, str]] = []
    for place, (size, what, function) in enumerate(_sizes(graph, topology)):
        count += 1
        total += size
        # Of equal ones the first counts as larger.
        entry = (size, -place, what, function)
        if len(largest) < most:
            heapq.heappush(largest, entry)
        elif entry[:2] > largest[0][:2]:
            heapq.heapreplace(largest, entry)
    found = [_described(topology, size, what, function) for size, _, what, function in sorted(largest, reverse=True)]
    return ConstantSizes(count, total, tuple(found))


def _sizes(graph: Graph, topology: Topology) -> Iterator[tuple[int, int | NodeDef, str]]:
    """(bytes, number of the node or a NodeDef of a function, that function or '') of each constant."""
    touched = {topology.id_of(node) for node in graph.touched()}
    table = topology.table
    for number in topology.with_ops(("Const",)):
        if number in touched:
            yield size_of(encoded(topology.node(number))), number, ""
        else:
            yield table.ends[number] - table.starts[number], number, ""
    for function in graph.functions:
        for node in function.node_def:
            if node.op == "Const":
                yield node.ByteSize(), node, function.signature.name


def _described(topology: Topology, size: int, what: int | NodeDef, function: str) -> ConstantSize:
    if not isinstance(what, int):
        tensor = what.attr["value"].tensor if "value" in what.attr else None
        dtype = tensor.dtype if tensor is not None else 0
        shape = shape_of(tensor.tensor_shape) if tensor is not None else None
        return ConstantSize(what.name, function, size, dtype, shape, _loaded(dtype, shape))
    node = topology.node(what)
    header = constant_header(node)
    if header is None:
        return ConstantSize(node.name, "", size, 0, None, 0)
    return ConstantSize(node.name, "", size, header.dtype, header.dims, _loaded(header.dtype, header.dims))


def _loaded(dtype: int, shape: Shape) -> int:
    return element_size(dtype) * prod(max(dim, 0) for dim in shape) if shape is not None else 0
