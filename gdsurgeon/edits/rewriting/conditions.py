"""Conditions for a replacement: consumers, loops and branches, names, shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from gdsurgeon.analysis.queries.effects import in_written_memory
from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.arithmetic import Value, count
from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.analysis.traversal.control_flow import ControlFlow, control_flow_of
from gdsurgeon.analysis.traversal.order import levels, places_in, topological_order
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.edits.rewriting.matching import ConstantFacts
from gdsurgeon.edits.rewriting.planning import New, NewOutput, Replacement
from gdsurgeon.edits.simplifying.passes import served_nodes
from gdsurgeon.errors import Remark, printable, quoted
from gdsurgeon.graph.attrs import Shape, format_shape, type_value
from gdsurgeon.graph.constants import constant_header, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import RESOURCE, VARIANT, base_dtype
from gdsurgeon.ops.kinds import CONTROL_FLOW
from gdsurgeon.patterns.terms import Match, Op, Ref, Rule, Term, walk
from gdsurgeon.wire.source import BytesSource


class Affected(NamedTuple):
    """The nodes that a replacement affects.

    Attributes:
        match: the match.
        ends: the nodes of its results.
        going: its other nodes, except those that the replacement reads.
        changing: both, the nodes that are replaced or removed.
        read: the tensors of the graph that the replacement reads.
    """

    match: Match
    ends: list[Node]
    going: list[Node]
    changing: list[Node]
    read: list[Output]

    @classmethod
    def of(cls, match: Match, replacement: Sequence[Term]) -> Affected:
        """Returns the nodes that the replacement of a match affects. Nodes upstream of a node that it reads stay."""
        terms = [term for root in replacement for term in walk(root)]
        labels = {term.label for term in terms if isinstance(term, Ref)}
        kept = {match.placed.get(below) for op in match.placed if op.label in labels for below in walk(op)
                if isinstance(below, Op)}  # fmt: skip
        ends = list(dict.fromkeys(root.node for root in match.roots))
        going = [node for node in dict.fromkeys(match.placed.values()) if node not in kept and node not in ends]
        return cls(match, ends, going, [*ends, *going], list(dict.fromkeys(chain(*map(match.bound, terms)))))


class RewriteContext:
    """The graph while matches are searched.

    Attributes:
        topology: its nodes.
        named: the nodes whose names are used: outputs, the results of a function, and nodes that signatures and savers
            name.
    """

    def __init__(self, graph: Graph, topology: Topology) -> None:
        self.topology = topology
        self.named = {*output_nodes(graph), *served_nodes(graph), *graph.ends}
        if graph.serving is None or not graph.serving.called:
            for node in map(topology.node, topology.unread()):  # also a node that runs only in one branch
                dtypes = {base_dtype(dtype) for dtype in node.output_dtypes or (0,)}
                if node.op not in ("Const", "NoOp") and not dtypes <= {RESOURCE, VARIANT}:
                    self.named.add(node)
        self._written = in_written_memory(graph, topology)
        flows = bool(topology.ops() & CONTROL_FLOW)
        self._flow: ControlFlow | None = control_flow_of(graph) if flows else None
        self._frames = self._flow.loops.of if self._flow is not None else []

    @cached_property
    def levels(self) -> dict[int, int]:
        """The length of the longest path to each node; loops are cut at their back edges."""
        return {number: depth for depth, level in enumerate(levels(self.topology)) for number in level}

    # -- reasons against it ------------------------------------------------------------------------------

    def why_not(self, affected: Affected) -> Remark | None:
        """Returns the reason why a match cannot be replaced; None if it can."""
        reasons = [self._used(affected), self._shared(affected)]
        if self._flow is not None:
            reasons.append(self._elsewhere(affected, self._flow))
        return next(chain(*reasons, self._in_circles(affected)), None)

    def _used(self, affected: Affected) -> Iterator[Remark]:
        """Yields the nodes that cannot be removed, and the tensors without replacement."""
        top = self.topology
        inside = {*map(top.id_of, affected.changing)}
        for node in (read.node for read in affected.read if read.node in affected.going):
            text = f"{quoted(node.name)} would be removed, but the replacement reads it"
            yield Remark(text, "still-read", node=node.name)
        for node in affected.going:
            if node in self.named:
                text = f"{quoted(node.name)} is an output, or its name is used by the model"
                yield Remark(text, "is-output", node=node.name)
            for user in (user for user in top.each_user(top.id_of(node)) if user not in inside):
                text = f"{quoted(node.name)} is used by {quoted(top.name(user))}, outside the match"
                yield Remark(text, "outside-uses", node=node.name, user=top.name(user))
            if node.controls:
                yield Remark(f"{quoted(node.name)} has a control dependency", "has-controls", node=node.name)
        for node in affected.ends:
            own = top.id_of(node)
            results = {root.index for root in affected.match.roots if root.node is node}
            for user in (user for user in top.each_user(own) if user not in inside):
                for port in (port for source, port in top.reads(user) if source == own and port >= 0):
                    if port not in results:
                        tensor, name = Output(node, port).name, top.name(user)
                        text = f"{quoted(tensor)} is used by {quoted(name)}, but the rule does not return it"
                        yield Remark(text, "no-result", tensor=tensor, user=name)

    def _shared(self, affected: Affected) -> Iterator[Remark]:
        """Yields the nodes whose memory other nodes may change."""
        for node in affected.changing:
            if node.op_def is not None and any(arg.is_ref for arg in node.op_def.outputs):
                yield Remark(f"{quoted(node.name)} is a reference", "is-reference", node=node.name)
        for node in [*affected.ends, *(read.node for read in affected.read)] if self._written else ():
            if self.topology.id_of(node) in self._written:
                text = f"an op can change the value of {quoted(node.name)} in place"
                yield Remark(text, "written-in-place", node=node.name)

    def _elsewhere(self, affected: Affected, flow: ControlFlow) -> Iterator[Remark]:
        """Yields the nodes of other loops and branches.

        The replacement must run in the same frame and branch as the match: that of the tensors that it reads.
        """
        top, root = self.topology, affected.ends[0]
        here = self._runs_in(root, flow)
        for node in affected.match.placed.values():
            if self._runs_in(node, flow) != here:
                text = f"{quoted(node.name)} and {quoted(root.name)} are not in the same loop or branch"
                yield Remark(text, "crosses-branch", nodes=[node.name, root.name])
        for end in affected.ends:
            waits = [(top.id_of(control), -1) for control in end.controls if control.exists]
            tensors = [*((top.id_of(read.node), read.index) for read in affected.read), *waits]
            sides = frozenset().union(*(flow.of_tensor(number, port) for number, port in tensors))
            frame, own = self._runs_in(end, flow)
            if sides != own or not (frame < 0 or any(self._frames[number] == frame for number, _ in tensors)):
                text = f"no remaining input determines when {quoted(end.name)} runs"
                yield Remark(text, "leaves-branch", node=end.name)

    def _runs_in(self, node: Node, flow: ControlFlow) -> tuple[int, object]:
        number = self.topology.id_of(node)
        return self._frames[number], flow.sides[number]

    def _in_circles(self, affected: Affected) -> Iterator[Remark]:
        """With several results, none may be upstream of a tensor that the replacement reads; each edge leads to a
        higher level.
        """

        def level(node: Node) -> int:
            return self.levels[self.topology.id_of(node)]

        if len(affected.ends) > 1:
            first = min(affected.ends, key=level)
            for node in (read.node for read in affected.read if level(read.node) >= level(first)):
                text = f"{quoted(first.name)} may be needed to compute {quoted(node.name)}, which the replacement reads"
                yield Remark(text, "would-cycle", nodes=[first.name, node.name])

    # -- where it runs -----------------------------------------------------------------------------------

    def anchor(self, affected: Affected) -> list[Node]:
        """Returns the control input of a new constant in the loop of the match; an empty list outside of loops."""
        if self._flow is None:
            return []
        frame, _ = self._runs_in(affected.ends[0], self._flow)
        waits = (control for control in affected.ends[0].controls if control.exists)
        nodes = chain((read.node for read in affected.read), waits) if frame >= 0 else ()
        return [node for node in nodes if self._runs_in(node, self._flow)[0] == frame][:1]

    def runs_once(self, node: Node) -> bool:
        """Returns whether a node is in no loop and no branch."""
        return self._flow is None or self._flow.runs_once(self.topology.id_of(node))

    def is_free(self, node: Node) -> bool:
        """Returns whether the node of a result can be removed: its name is not used, and it has no control edges."""
        top, number = self.topology, self.topology.id_of(node)
        if node in self.named or any(control.exists for control in node.controls):
            return False
        is_awaited = any((number, -1) in top.reads(user) for user in top.each_user(number))
        return not (is_awaited or top.graph.colocated_with(node))


class ReplacedShapes:
    """The shapes of a graph while matches are searched, inferred on demand.

    Args:
        facts: of the constants of the graph.
    """

    def __init__(self, facts: ConstantFacts) -> None:
        self._facts, self._topology = facts, facts.topology
        self._inferred: dict[object, tuple[list[Shape], Remark | None]] = {}

    def why_not(self, rule: Rule, match: Match, replacement: Replacement) -> Remark | None:
        """Returns the reason why the shape of a replacement is wrong; None if no reason is known.

        Unknown shapes are left to the proof, except for rules that require known shapes; see `Rule`.
        """
        why = self._why_unlike(rule, match)
        if why:
            return why
        shapes, conflict = self._given(replacement)
        if conflict:
            return conflict
        pairs = [(root, self._shape(root), new) for root, new in zip(match.roots, shapes, strict=True)]
        for root, old, new in pairs:
            if _differ(old, new):
                text = (
                    f"{quoted(root.name)} has the shape {format_shape(old)}, but the replacement has "
                    f"{format_shape(new)}"
                )
                return Remark(text, "shape-mismatch", tensor=root.name, expected=old, found=new)
        is_known = all(new is not None and new == old for _, old, new in pairs)
        return self._why_larger(match, replacement) if rule.keeps_shapes and not is_known else None

    # -- required shapes -------------------------------------------------------------------------------------

    def _why_unlike(self, rule: Rule, match: Match) -> Remark | None:
        """Returns a reason if dims that must be equal are not known to be equal."""
        for (one, axis), (other, its) in rule.alike:
            a, b = self._shape(match.tensors[one]), self._shape(match.tensors[other])
            if _size(a, axis) is None or _size(a, axis) != _size(b, its):
                names = [
                    f"{quoted(match.tensors[n].name)} has the shape {format_shape(s)}"
                    for n, s in ((one, a), (other, b))
                ]
                text = f"{names[0]}, {names[1]}: dim {axis} of the first is not known to equal dim {its} of the second"
                tensors = [match.tensors[name].name for name in (one, other)]
                return Remark(text, "size-unknown", tensors=tensors, shapes=[a, b], axes=[axis, its])
        return None

    def _why_larger(self, match: Match, replacement: Replacement) -> Remark | None:
        """Returns a reason if a constant that is not read any more may have enlarged a result by broadcasting."""
        inside, still = match.placed.values(), _outer(replacement)
        for read in (read for node in inside for read in node.inputs if read.node not in inside):
            number = self._facts.constant_node(self._topology.code(read))
            header = None if number is None else constant_header(self._topology.node(number))
            if header is not None and header.dims != () and read not in still:
                name, root, dims = read.node.name, match.roots[0].name, format_shape(header.dims)
                text = f"{quoted(name)} has the shape {dims}: without it {quoted(root)} might have a different shape"
                return Remark(text, "shape-unknown", tensor=root, constant=name, shape=header.dims)
        return None

    # -- shapes ----------------------------------------------------------------------------------------------

    @cached_property
    def _kept(self) -> Shapes:
        order = topological_order(self._topology)
        return Shapes(self._topology, order, places_in(order, self._topology.size))

    def _shape(self, tensor: Output) -> Shape:
        return self._kept.shape(tensor)

    def _given(self, replacement: Replacement) -> tuple[list[Shape], Remark | None]:
        """Returns the shapes of a replacement's results, and a conflict in it, or None; computed once for equal
        replacements.
        """
        outer = _outer(replacement)
        known = [(self._shape(tensor), self._kept.value(tensor), base_dtype(tensor.dtype)) for tensor in outer]
        every: list[New | Output] = [*outer, *replacement.nodes]
        numbers = {each: at for at, each in enumerate(every)}

        def places(tensors: Iterable[Output | NewOutput]) -> tuple[tuple[int, int], ...]:
            return tuple((numbers[t.node], t.index) if isinstance(t, NewOutput) else (numbers[t], 0) for t in tensors)

        nodes = tuple((new.op, tuple(sorted(new.attrs.items())), places(new.inputs)) for new in replacement.nodes)
        results = places(replacement.results)
        key = (tuple(known), nodes, results)
        if key not in self._inferred:
            self._inferred[key] = _infer(known, nodes, results)
        return self._inferred[key]


def _outer(replacement: Replacement) -> list[Output]:
    """Returns the tensors of the graph that a replacement reads or returns."""
    reads = (tensor for new in replacement.nodes for tensor in new.inputs)
    return list(dict.fromkeys(t for t in (*reads, *replacement.results) if isinstance(t, Output)))


Slot = tuple[int, int]
"""A node, by its index in a small graph, and an output."""


def _infer(
    known: Sequence[tuple[Shape, Value, int]],
    nodes: Sequence[tuple[str, Sequence[tuple[str, bytes]], Sequence[Slot]]],
    results: Sequence[Slot],
) -> tuple[list[Shape], Remark | None]:
    """Returns the shapes of `results`, computed by `nodes` from `known` tensors, and the first conflict, or None."""
    graph = Graph(BytesSource(b"", "a replacement"))
    made: list[Node] = []
    given: dict[Output, Shape] = {}
    for shape, value, dtype in known:
        attrs, op = {"dtype": type_value(dtype)}, "Slotholder"
        if shape is not None and value is not None and None not in value and count(shape) == len(value):
            attrs["value"], op = tensor_value(dtype, shape, value), "Const"
        made.append(graph.add(f"read{len(made)}", op, attrs=attrs))
        given |= {made[-1].output: shape} if op != "Const" else {}
    for op, its, reads in nodes:
        inputs = [Output(made[number], index) for number, index in reads]
        made.append(graph.add(f"new{len(made)}", op, inputs, attrs=dict(its)))
    found = infer_shapes(graph, given)
    conflict = None
    for each in found.conflicts[:1]:
        shapes = [found.shape(read) for read in each.node.inputs]
        text = f"{printable(each.node.op)}: {each.text}"
        conflict = Remark(text, "shape-mismatch", op=each.node.op, shapes=shapes)
    return [found.shape(Output(made[number], index)) for number, index in results], conflict


def _differ(a: Shape, b: Shape) -> bool:
    """Returns whether no tensor has both shapes."""
    if a is None or b is None:
        return False
    return len(a) != len(b) or any(x >= 0 and y >= 0 and x != y for x, y in zip(a, b, strict=True))


def _size(shape: Shape, axis: int) -> int | None:
    """Returns a dim of a shape; None if it is unknown."""
    return shape[axis] if shape is not None and axis < len(shape) and shape[axis] >= 0 else None
