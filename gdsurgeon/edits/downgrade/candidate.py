"""A node that a release does not support: the known facts about its inputs, and its replacement by a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.analysis.traversal.control_flow import ControlFlow, control_flow
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.rewriting.planning import New, Planner
from gdsurgeon.graph.attrs import Shape, type_value
from gdsurgeon.graph.constants import Constant, constant, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import STRING, base_dtype
from gdsurgeon.ops.kinds import IDENTITY
from gdsurgeon.ops.releases import Release
from gdsurgeon.patterns.parse import parse_replacement
from gdsurgeon.patterns.terms import Match, Term

ROUNDING = 1e-5
"""The tolerance if a different kernel may run: oneDNN has some ops only, and adds in an order of its own."""


class Rule(NamedTuple):
    """The older form of an op.

    Attributes:
        op: the op that a release lacks, or supports with fewer attrs.
        to: the older form, for people.
        where: the precondition, for people; '' if the rule always applies.
        apply: replaces a candidate and returns ''; or returns the reason why that is impossible, with a hint; or
            returns None if the node is an older form already.
        tolerance: the largest relative and absolute difference, if other kernels compute the values.
        finite: the input that must be finite for equal results, or None.
    """

    op: str
    to: str
    where: str
    apply: Callable[[Candidate], str | None]
    tolerance: float = 0.0
    finite: int | None = None


class Analysis:
    """Facts about a graph before its nodes are replaced, computed once; `given` has known shapes."""

    def __init__(self, graph: Graph, release: Release, given: Mapping[Output, Shape] | None = None) -> None:
        self.graph = graph
        self.release = release
        self._given = given
        self.unique = graph.unique_names()
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

    def returned(self, node: Node) -> set[int]:
        """Returns which outputs of a node are outputs of the graph or of a signature."""
        serving = serving_of(self.graph)
        if serving is not None and serving.called:
            served = (parse_tensor(text) for each in serving.called.values() for text in each.outputs.values())
            return {ref.port for ref in served if ref.node == node.name}
        if self._outputs is None:
            self._outputs = frozenset(output_nodes(self.graph))
        return {output.index for output in node.outputs} if node in self._outputs else set()

    def is_in_loop(self, node: Node) -> bool:
        """Returns whether a node of the original graph is in a frame of a v1 while loop."""
        if self._flow is None:
            self._flow = control_flow(topology_of(self.graph))
        topology = self._flow.topology
        return topology.knows(node) and self._flow.frames[topology.id_of(node)] > 0


class Candidate:
    """A node to replace.

    Replacements are texts in the language of rules, where ``n`` is the node: ``Sub(n.0, 1)``.

    Attributes:
        node: the node.
        graph: the graph or function body that contains it.
        release: the release that must support the replacement.
    """

    def __init__(self, analysis: Analysis, node: Node) -> None:
        self._analysis = analysis
        self.node = node
        self.graph = analysis.graph
        self.release = analysis.release
        self._first = node.inputs[0].node if node.inputs else None

    def shape(self, slot: int) -> Shape:
        """Returns the known shape of an input."""
        return self.known(self.node.inputs[slot])

    def known(self, read: Output) -> Shape:
        """Returns the known shape of a tensor."""
        return self._analysis.shape(read)

    def dtype(self, slot: int) -> int:
        """Returns the DataType of an input; 0 if it is unknown."""
        return base_dtype(self.node.inputs[slot].dtype)

    def value(self, slot: int) -> Constant | None:
        """Returns the value of an input that is a small constant, also behind Identity nodes; otherwise None."""
        node = self.node.inputs[slot].node
        while node.op in IDENTITY and node.inputs:
            node = node.inputs[0].node
        return constant(node)

    def used_outputs(self) -> set[int]:
        """Returns the indices of the outputs that other nodes read."""
        users = self.graph.users(self.node)
        return {read.index for user in users for read in user.inputs if read.node is self.node}

    def returned_outputs(self) -> set[int]:
        """Returns the indices of the outputs that are outputs of the graph."""
        return self._analysis.returned(self.node)

    def note(self, text: str) -> None:
        """Adds a note about the replacement for the user."""
        self._analysis.notes.setdefault(text)

    # -- changes -------------------------------------------------------------------------------------------

    def drop(self, keys: Iterable[str]) -> str:
        """Removes attrs; returns ''."""
        for key in keys:
            if self.node.has_attr(key):
                self.graph.set_attr(self.node, key, None)
        return ""

    def become(
        self, text: str, tensors: Mapping[str, Output] = MappingProxyType({}), *, drop: Iterable[str] = ()
    ) -> str:
        """Makes the node the last node of the replacement `text`; returns ''.

        Args:
            text: a node with inputs; ``{=n}`` copies the attrs of the node.
            tensors: the tensors of the variables in `text`.
            drop: attrs that the node must not have then.
        """
        *new, last = self._planned(text, tensors)
        nodes = self._added(new)
        node = self.node
        for user in self.graph.users(node) if self.graph.is_body else ():
            self.graph.touch(user)  # its input names the output argument of the op
        for key in node.attr_keys:
            if key not in last.attrs and not key.startswith("_"):
                self.graph.set_attr(node, key, None)
        if last.op != node.op:
            self.graph.set_op(node, last.op)
        for key, data in last.attrs.items():
            self.graph.set_attr(node, key, data)
        self.graph.set_inputs(node, self._inputs(last, nodes))
        return self.drop(drop)

    def add(self, text: str, tensors: Mapping[str, Output] = MappingProxyType({})) -> Output:
        """Adds the nodes of the replacement `text`; returns output 0 of the last one."""
        new = self._planned(text, tensors)
        return self._added(new)[new[-1]].output

    def text(self, data: bytes) -> Output:
        """Adds a scalar constant of strings."""
        value = tensor_value(STRING, (), [data]).SerializeToString(deterministic=True)
        return self._node("Const", (), {"dtype": type_value(STRING).SerializeToString(), "value": value}).output

    def _planned(self, text: str, tensors: Mapping[str, Output]) -> list[New]:
        terms = _terms(text)
        return Planner(self.graph, text, "").plan(terms, Match(tensors, {"n": self.node}, {}), ()).nodes

    def _added(self, new: Iterable[New]) -> dict[New, Node]:
        nodes: dict[New, Node] = {}
        for each in new:
            nodes[each] = self._node(each.op, self._inputs(each, nodes), each.attrs)
        return nodes

    def _inputs(self, new: New, nodes: Mapping[New, Node]) -> list[Output]:
        return [read if isinstance(read, Output) else Output(nodes[read.node], read.index) for read in new.inputs]

    def _node(self, op: str, inputs: Iterable[Output], attrs: Mapping[str, bytes]) -> Node:
        """Adds a node in the scope of the candidate; a constant in a loop has a control dependency on an input."""
        inputs = list(inputs)
        controls = [self._first] if not inputs and self._first and self._analysis.is_in_loop(self.node) else []
        name = self._analysis.unique(f"{self.node.name}/{op}")
        return self.graph.add(name, op, inputs, controls, attrs=attrs, device=self.node.device, after=self.node)


@cache
def _terms(text: str) -> tuple[Term, ...]:
    return parse_replacement(text, ["n"])
