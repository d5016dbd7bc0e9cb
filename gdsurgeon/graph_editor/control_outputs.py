"""Control edges seen from where they start."""

from __future__ import annotations

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph_editor.refusal import WrongType


class ControlOutputs:
    """For each node those that wait for it. It reads the graph as it is when it is asked, and is never out of date.

    Raises:
        TypeError: it is not made of a graph.
    """

    def __init__(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise WrongType("Graph", graph)
        self._graph = graph

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    def update(self) -> ControlOutputs:
        """Itself: there is nothing to bring up to date."""
        return self

    def get(self, op: Node) -> list[Node]:
        """The nodes that wait for OP, each once."""
        return [user for user in self._graph.users(op) if op in user.controls]

    def get_all(self) -> dict[Node, list[Node]]:
        """All control edges: the nodes that are waited for, each with those that wait. Linear in the graph."""
        out: dict[Node, list[Node]] = {}
        for node in self._graph.nodes():
            for control in dict.fromkeys(node.controls):
                out.setdefault(control, []).append(node)
        return out
