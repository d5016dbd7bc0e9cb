"""The weights of a graph: the floating constants of more than one element on which tensors depend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from gdsurgeon.analysis.queries.usage import calling_nodes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import DTYPES, FLOATING
from gdsurgeon.ops.kinds import RESOURCE_VARIABLES, VARIABLES
from gdsurgeon.text import counted


class Weights(NamedTuple):
    """What tensors depend on and could learn.

    Attributes:
        constants: the weights, in the order of the file.
        others: counts of other nodes that might be taken for weights, by kind.
        in_functions: how many weights there are inside the functions that are called, by the function's name.
    """

    constants: tuple[Output, ...]
    others: dict[str, int]
    in_functions: dict[str, int]


def weights_of(graph: Graph, targets: Sequence[Output]) -> Weights:
    """The weights on which TARGETS depend."""
    topology = topology_of(graph)
    before = topology.upstream([topology.id_of(tensor.node) for tensor in targets], control=False)
    found = topology.with_ops({"Const"} | VARIABLES | RESOURCE_VARIABLES)
    kinds = {node: _kind(node) for number in found if before[number] for node in (topology.node(number),)}
    others = Counter(kind for kind in kinds.values() if kind not in ("", _WEIGHT))
    called = [name for node, names in calling_nodes(graph) if before[topology.id_of(node)] for name in names]
    inside = graph.functions.reachable(called, gradients=True)
    return Weights(
        tuple(node.output for node, kind in kinds.items() if kind == _WEIGHT),
        dict(others),
        {name: count for name in sorted(inside) if (count := _weights_inside(graph, name))},
    )


def counted_others(weights: Weights) -> str:
    """Returns the counts of nodes other than weights as text: ``2 scalars and 137 variables``; '' if there are none."""
    parts = [counted(count, kind) for kind, count in weights.others.items()]
    if weights.in_functions:
        parts.append(f"{counted(sum(weights.in_functions.values()), 'weight')} inside functions")
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


_WEIGHT = "weight"


def _kind(node: Node) -> str:
    if node.op != "Const":
        return "variable"
    header = constant_header(node)
    if header is None:
        return ""
    if header.dtype in FLOATING:
        return _WEIGHT if header.elements > 1 else "single-element constant" if header.elements == 1 else ""
    return "quantised constant" if header.dtype in DTYPES and DTYPES[header.dtype].is_quantized else ""


def _weights_inside(graph: Graph, name: str) -> int:
    tensors = (node.attr["value"].tensor for node in graph.functions[name].node_def if node.op == "Const")
    return sum(tensor.dtype in FLOATING and prod(dim.size for dim in tensor.tensor_shape.dim) > 1 for tensor in tensors)
