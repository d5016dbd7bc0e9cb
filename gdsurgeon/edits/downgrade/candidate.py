"""A node that a release does not support: the known facts about it, and the plan of its replacement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.analysis.traversal.control_flow import ControlFlow, control_flow
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.rewriting.planning import NewOutput, Planner
from gdsurgeon.edits.rewriting.rounds import IN_PLACE, PlannedRewrite
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.releases import Release
from gdsurgeon.patterns.parse import parse_replacement
from gdsurgeon.patterns.terms import Match, Term, constant_node

ROUNDING = 1e-5
"""The tolerance if a different kernel may run: oneDNN has some ops only, and adds in an order of its own."""


class Rule(NamedTuple):
    """The older form of an op.

    Attributes:
        op: the op that a release lacks, or supports with fewer attrs.
        to: the older form, for people.
        where: the precondition, for people; '' if the rule always applies.
        form: the replacement in the language of rules, or a function that returns it. ``n`` is the node, and ``{=n}``
            copies its attrs: ``Sub{=n}(n.0, 1)``. The function returns a `Remark` with the reason and a hint if the
            node has no older form, and None if it is an older form already.
        tolerance: the largest relative and absolute difference, if other kernels compute the values.
        finite: the input that must be finite for equal results, or None.
    """

    op: str
    to: str
    where: str
    form: str | Callable[[Candidate], str | None]
    tolerance: float = 0.0
    finite: int | None = None


class Analysis:
    """Facts about a graph before its nodes are replaced, computed once; `given` has known shapes."""

    def __init__(self, graph: Graph, release: Release, given: Mapping[Output, Shape] | None = None) -> None:
        self.graph = graph
        self.release = release
        self._given = given
        self.notes: dict[str, None] = {}
        self._shapes: Shapes | None = None
        self._flow: ControlFlow | None = None
        self._outputs: frozenset[Node] | None = None

    def shape(self, read: Output) -> Shape:
        """Returns the known shape of a tensor; None for tensors of new nodes."""
        if self._shapes is None:
            self._shapes = infer_shapes(self.graph, self._given)
        try:
            return self._shapes.shape(read)
        except KeyError:
            return None

    def note(self, text: str) -> None:
        """Adds a note about a replacement for the user."""
        self.notes.setdefault(text)

    def returned(self, node: Node) -> set[int]:
        """Returns which outputs of a node are outputs of the graph or of a signature."""
        serving = serving_of(self.graph)
        if serving is not None and serving.called:
            served = (parse_tensor(text) for each in serving.called.values() for text in each.outputs.values())
            return {ref.port for ref in served if ref.node == node.name}
        if self._outputs is None:
            self._outputs = frozenset(output_nodes(self.graph))
        return {output.index for output in node.outputs} if node in self._outputs else set()

    def _is_in_loop(self, node: Node) -> bool:
        """Returns whether a node of the original graph is in a frame of a v1 while loop."""
        if self._flow is None:
            self._flow = control_flow(topology_of(self.graph))
        topology = self._flow.topology
        return topology.knows(node) and self._flow.frames[topology.id_of(node)] > 0

    def planned(self, node: Node, text: str, tensors: Mapping[str, Output] = MappingProxyType({})) -> PlannedRewrite:
        """Returns the plan that makes `node` the last node of the replacement `text`.

        Args:
            node: the node, which is ``n`` in the text.
            text: the replacement.
            tensors: the tensors of the variables in `text`.
        """
        replacement = Planner(self.graph, text, "").plan(_terms(text), Match(tensors, {"n": node}, {}))
        replacement.results.append(NewOutput(replacement.nodes[-1], 0))
        anchor = [read.node for read in node.inputs[:1]] if self._is_in_loop(node) else []
        outcomes, names = {node: IN_PLACE}, (node.name,)
        return PlannedRewrite(node.op, (node.output,), outcomes, anchor, replacement, names, text, {node})


class Candidate:
    """A node to replace.

    Attributes:
        analysis: facts about its graph.
        node: the node.
    """

    def __init__(self, analysis: Analysis, node: Node) -> None:
        self.analysis, self.node = analysis, node

    def shape(self, slot: int) -> Shape:
        """Returns the known shape of an input."""
        return self.analysis.shape(self.node.inputs[slot])

    def dtype(self, slot: int) -> int:
        """Returns the DataType of an input; 0 if it is unknown."""
        return base_dtype(self.node.inputs[slot].dtype)

    def value(self, slot: int) -> Constant | None:
        """Returns the value of an input that is a small constant, also if other nodes forward it; otherwise None."""
        node = constant_node(self.node.inputs[slot])
        return None if node is None else constant(node)

    def used_outputs(self) -> set[int]:
        """Returns the indices of the outputs that other nodes read."""
        users = self.node.graph.users(self.node)
        return {read.index for user in users for read in user.inputs if read.node is self.node}


@cache
def _terms(text: str) -> tuple[Term, ...]:
    return parse_replacement(text, ["n"])
