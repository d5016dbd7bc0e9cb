"""The outputs that a graph has after an edit, paired with what they were before."""

from __future__ import annotations

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.graph.graph import Graph


def unrenamed_outputs(graph: Graph) -> tuple[tuple[str, str], ...]:
    """The outputs of the edited GRAPH that the graph before had as tensors of the same names."""
    kept = (node for node in output_nodes(graph) if node.base_name == node.name)
    return tuple((output.name, output.name) for node in kept for output in node.outputs)
