"""The outputs that a graph has after an edit, paired with what they were before."""

from __future__ import annotations

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output


def output_names(graph: Graph) -> list[str]:
    """The tensors that GRAPH gives."""
    return [Output(n, i).name for n in output_nodes(graph) for i in range(len(n.output_dtypes or (0,)))]


def unrenamed_outputs(graph: Graph) -> tuple[tuple[str, str], ...]:
    """The outputs of the edited GRAPH that the graph before had as tensors of the same names."""
    return tuple(
        (name, name)
        for node in output_nodes(graph)
        if node.base_name == node.name
        for name in (Output(node, i).name for i in range(len(node.output_dtypes or (0,))))
    )
