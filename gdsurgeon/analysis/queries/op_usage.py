"""Which ops a graph uses, in itself and inside its functions, and whether TensorFlow's table knows them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.op_defs import op_def


class OpUsage(NamedTuple):
    """An op.

    Attributes:
        op: its name.
        nodes: nodes of the graph.
        inner_nodes: nodes inside functions.
        is_known: whether TensorFlow's table has it.
        is_function: whether it is a function of the graph.
    """

    op: str
    nodes: int
    inner_nodes: int
    is_known: bool
    is_function: bool


def op_counts(graph: Graph) -> dict[str, int]:
    """How many nodes of each op there are, the most frequent first."""
    table = graph.store.table
    out = dict(table.op_counts)
    for node in graph.touched():
        if node.base_name is None or node.op != node.header.op:
            out[node.op] = out.get(node.op, 0) + 1
            if node.base_name is not None:
                out[node.header.op] -= 1
    for node in graph.removed():
        out[node.header.op] -= 1
    return dict(sorted(((op, n) for op, n in out.items() if n), key=lambda item: (-item[1], item[0])))


def op_usage(graph: Graph) -> list[OpUsage]:
    """The ops of GRAPH as it is now, the most frequent first."""
    outer = op_counts(graph)
    inner = Counter(node.op for function in graph.functions for node in function.node_def)
    counts = Counter(outer) + inner
    found = [OpUsage(op, outer.get(op, 0), inner[op], op_def(op) is not None, op in graph.functions) for op in counts]
    return sorted(found, key=lambda usage: (-usage.nodes - usage.inner_nodes, usage.op))
