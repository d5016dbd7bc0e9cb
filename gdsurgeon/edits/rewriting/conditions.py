"""Conditions for a replacement: consumers, loops and branches, names, shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from gdsurgeon.analysis.queries.effects import in_written_memory
from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.arithmetic import RULES, Value, count
from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.analysis.traversal.control_flow import ControlFlow, control_flow_of, while_frames
from gdsurgeon.analysis.traversal.order import levels, places_in, topological_order
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.edits.rewriting.matching import Found, NodeFacts
from gdsurgeon.edits.rewriting.planning import New, NewOutput, Replacement
from gdsurgeon.edits.simplifying.passes import served_nodes
from gdsurgeon.errors import Remark, printable, quoted
from gdsurgeon.graph.attrs import Shape, format_shape, type_value
from gdsurgeon.graph.constants import constant_header, header_of, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import REF, base_dtype
from gdsurgeon.ops.kinds import CONTROL_FLOW
from gdsurgeon.patterns.terms import InputOf, Match, Op, Ref, Rule, Term, Variable, walk
from gdsurgeon.wire.source import BytesSource

BITS, CONTROL = Table.PORT_BITS, Table.CONTROL_PORT


class Affected(NamedTuple):
    """The nodes that a replacement affects.

    Attributes:
        found: the match.
        roots: for each result, its node and output.
        going: the nodes without other consumers, except the roots.
        kept: the nodes that the replacement reads.
    """

    found: Found
    roots: tuple[tuple[int, int], ...]
    going: tuple[int, ...]
    kept: frozenset[int]


class RewriteContext:
    """The graph while matches are searched.

    Attributes:
        topology: its nodes.
        ends: the arguments and results of a function, which no pattern matches.
        named: the nodes whose names are used: outputs, and nodes that signatures and savers name.
    """

    def __init__(self, graph: Graph, topology: Topology) -> None:
        self.topology = topology
        self.ends = frozenset(map(topology.id_of, graph.ends))
        self.named = frozenset(topology.id_of(node) for node in (*output_nodes(graph), *served_nodes(graph)))
        self._written = in_written_memory(graph, topology)
        self._flows = bool(topology.ops() & CONTROL_FLOW)
        self._flow: ControlFlow | None = control_flow_of(graph) if self._flows else None
        self._frames = while_frames(topology).of if self._flows else []
        self._levels: dict[int, int] | None = None

    def affected(self, rule: Rule, found: Found, kept_terms: Iterable[Op]) -> Affected:
        """Returns the nodes that a replacement affects; the nodes of `kept_terms` stay."""
        kept = {found.placed[term] for term in kept_terms if term in found.placed}
        roots = tuple((found.root(term), term.port) for term in rule.pattern)
        ends = {number for number, _ in roots}
        members = dict.fromkeys(found.placed.values())
        going = tuple(number for number in members if number not in ends and number not in kept)
        return Affected(found, roots, going, frozenset(kept - ends))

    def level(self, number: int) -> int:
        """Returns the length of the longest path to a node; loops are cut at their back edges."""
        if self._levels is None:
            self._levels = {n: depth for depth, level in enumerate(levels(self.topology)) for n in level}
        return self._levels[number]

    def place_in_order(self, number: int) -> tuple[int, int]:
        """The sort key for topological order; nodes of equal level are in file order."""
        return self.level(number), number

    # -- reasons against it ------------------------------------------------------------------------------

    def why_not(self, affected: Affected, read: Sequence[int]) -> Remark | None:
        """Returns the reason why a match cannot be replaced; None if it can.

        Args:
            affected: the affected nodes.
            read: the codes of the tensors that the replacement reads.
        """
        members = affected.found.members()
        return (
            self._why_read(affected, members, read)
            or self._why_elsewhere(affected, members)
            or self._why_other_branch(affected, read)
            or self._why_circle(affected, read)
        )

    def _why_read(self, affected: Affected, members: set[int], read: Sequence[int]) -> Remark | None:
        top = self.topology
        changing = members - affected.kept
        both = next((code >> BITS for code in read if code >> BITS in affected.going), None)
        if both is not None:
            text = f"{quoted(top.name(both))} would be removed, but the replacement reads it"
            return Remark(text, "still-read", node=top.name(both))
        for number in affected.going:
            name = top.name(number)
            if number in self.named:
                text = f"{quoted(name)} is an output, or its name is used by the model"
                return Remark(text, "is-output", node=name)
            outside = next((user for user in top.each_user(number) if user not in changing), None)
            if outside is not None:
                text = f"{quoted(name)} is used by {quoted(top.name(outside))}, outside the match"
                return Remark(text, "outside-uses", node=name, user=top.name(outside))
            if any(port < 0 for _, port in top.reads(number)):
                return Remark(f"{quoted(name)} has a control dependency", "has-controls", node=name)
        ports: dict[int, set[int]] = {}
        for number, port in affected.roots:
            ports.setdefault(number, set()).add(port)
        for number, results in ports.items():
            for user in top.users(number):
                for source, port in top.reads(user):
                    if source == number and port >= 0 and port not in results and user not in changing:
                        tensor = f"{top.name(number)}:{port}"
                        text = f"{quoted(tensor)} is used by {quoted(top.name(user))}, but the rule does not return it"
                        return Remark(text, "no-result", tensor=tensor, user=top.name(user))
        shared = next((n for n in changing if (top.node(n).output_dtypes or [0])[0] > REF), None)
        if shared is not None:
            return Remark(f"{quoted(top.name(shared))} is a reference", "is-reference", node=top.name(shared))
        ends = (*(number for number, _ in affected.roots), *(code >> BITS for code in read)) if self._written else ()
        written = next((number for number in ends if number in self._written), None)
        if written is None:
            return None
        name = top.name(written)
        return Remark(f"an op can change the value of {quoted(name)} in place", "written-in-place", node=name)

    def _why_elsewhere(self, affected: Affected, members: set[int]) -> Remark | None:
        if self._flow is None:
            return None
        root = affected.roots[0][0]
        here = (self._frames[root], self._flow.sides[root])
        for number in members:
            if (self._frames[number], self._flow.sides[number]) != here:
                names = [self.topology.name(number), self.topology.name(root)]
                text = f"{' and '.join(map(quoted, names))} are not in the same loop or branch"
                return Remark(text, "crosses-branch", nodes=names)
        return None

    def _why_other_branch(self, affected: Affected, read: Sequence[int]) -> Remark | None:
        """The replacement must run in the same frame and branch as the match: that of the tensors that it reads."""
        flow = self._flow
        if flow is None:
            return None
        for root, _ in affected.roots:
            waits = [(producer, port) for producer, port in self.topology.reads(root) if port < 0]
            tensors = [(code >> BITS, code & CONTROL) for code in read] + waits
            sides = frozenset().union(*(flow.of_tensor(number, port) for number, port in tensors))
            in_frame = self._frames[root] < 0 or any(self._frames[n] == self._frames[root] for n, _ in tensors)
            if sides != flow.sides[root] or not in_frame:
                name = self.topology.name(root)
                text = f"no remaining input determines when {quoted(name)} runs"
                return Remark(text, "leaves-branch", node=name)
        return None

    def _why_circle(self, affected: Affected, read: Sequence[int]) -> Remark | None:
        """With several results, none may be upstream of a tensor that the replacement reads; each edge leads to a
        higher level.
        """
        nodes = dict.fromkeys(number for number, _ in affected.roots)
        if len(nodes) < 2:
            return None
        first = min(nodes, key=self.level)
        for code in read:
            if self.level(code >> BITS) >= self.level(first):
                names = [self.topology.name(first), self.topology.name(code >> BITS)]
                text = f"{' may be needed to compute '.join(map(quoted, names))}, which the replacement reads"
                return Remark(text, "would-cycle", nodes=names)
        return None

    def anchor(self, affected: Affected, read: Sequence[int]) -> int | None:
        """Returns the control input of a new constant, so that it runs in the loop of the match; None outside
        of loops.
        """
        root = affected.roots[0][0]
        if self._flow is None or self._frames[root] < 0:
            return None
        waits = [producer for producer, port in self.topology.reads(root) if port < 0]
        return next(n for n in (*(code >> BITS for code in read), *waits) if self._frames[n] == self._frames[root])

    def runs_once(self, number: int) -> bool:
        """Returns whether a node is in no loop and no branch."""
        return self._flow is None or self._flow.runs_once(number)

    def is_free(self, number: int) -> bool:
        """Returns whether the node of a result can be removed: its name is not used, and it has no control edges."""
        top = self.topology
        if number in self.named or any(port < 0 for _, port in top.reads(number)):
            return False
        if any((number, -1) in top.reads(user) for user in top.users(number)):
            return False
        return not top.graph.colocated_with(top.node(number))


def kept_terms(rule: Rule, replacement: Sequence[Term]) -> list[Op]:
    """Returns the terms of the pattern whose nodes the replacement reads, and all terms below them."""
    labels = {term.label for root in replacement for term in walk(root) if isinstance(term, Ref)}
    out: list[Op] = []
    for root in rule.pattern:
        for term in walk(root):
            if isinstance(term, Op) and term.label in labels and term.label:
                out += [below for below in walk(term) if isinstance(below, Op)]
    return out


def codes_read(topology: Topology, found: Found, replacement: Sequence[Term]) -> list[int]:
    """Returns the codes of the tensors of the graph that a replacement reads."""
    out: dict[int, None] = {}
    for root in replacement:
        for term in walk(root):
            if isinstance(term, Variable):
                out[found.tensors[term.name]] = None
            elif isinstance(term, Ref) and term.label in found.nodes:
                out[found.nodes[term.label] << BITS | term.port] = None
            elif isinstance(term, InputOf):
                codes = [c for c in topology.inputs(found.nodes[term.label]) if c & CONTROL != CONTROL]
                out |= dict.fromkeys(codes[term.first :] if term.rest else codes[term.first : term.first + 1])
    return list(out)


_ELEMENTWISE = frozenset(op for op, rule in RULES.items() if rule in (RULES["Neg"], RULES["AddV2"]))
"""Ops whose result has the shape of the input, or the broadcast shape of both inputs."""

Known = tuple[Shape, Value]
"""The shape of a tensor, and the elements of a small integer tensor."""


class ReplacedShapes:
    """The shapes of a graph while matches are searched, inferred on demand.

    Args:
        facts: of the constants of the graph.
    """

    def __init__(self, facts: NodeFacts) -> None:
        self._facts, self._topology = facts, facts.topology
        self._inferred: dict[object, tuple[list[Shape], Remark | None]] = {}

    def why_not(self, rule: Rule, found: Found, match: Match, replacement: Replacement) -> Remark | None:
        """Returns the reason why the shape of a replacement is wrong; None if no reason is known.

        Unknown shapes are left to the proof, except for rules that require known shapes; see `Rule`.
        """
        why = self._why_unlike(rule, match)
        if why or self._keep_one_shape(found, replacement):
            return why
        shapes, conflict = self._given(replacement)
        if conflict:
            return conflict
        pairs = [*zip(match.roots, shapes, strict=True)]
        for root, new in pairs:
            old = self._shape(root)
            if _differ(old, new):
                text = (
                    f"{quoted(root.name)} has the shape {format_shape(old)}, but the replacement has "
                    f"{format_shape(new)}"
                )
                return Remark(text, "shape-mismatch", tensor=root.name, expected=old, found=new)
        is_known = all(new is not None and new == self._shape(root) for root, new in pairs)
        return self._why_larger(found, match, replacement) if rule.keeps_shapes and not is_known else None

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

    def _why_larger(self, found: Found, match: Match, replacement: Replacement) -> Remark | None:
        """Returns a reason if a constant that is not read any more may have enlarged a result by broadcasting."""
        still = self._codes(replacement)
        for code in self._read_by(found):
            number = self._facts.constant_node(code)
            header = None if number is None else constant_header(self._topology.node(number))
            if header is not None and header.dims != () and code not in still:
                name, root = self._topology.name(code >> BITS), match.roots[0].name
                dims = format_shape(header.dims)
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

    def _keep_one_shape(self, found: Found, replacement: Replacement) -> bool:
        """Returns whether a match and its replacement both have the shape of the only tensor that both read.

        This is the common case of elementwise ops, for which no shape needs to be inferred.
        """
        read, still = (
            {c for c in codes if not self._is_scalar(c)} for codes in (self._read_by(found), self._codes(replacement))
        )
        ops = {self._topology.op(number) for number in found.members()}
        new = {each.op for each in replacement.nodes if not _is_new_scalar(each)}
        is_one = len(replacement.results) == len(read) == 1
        return is_one and still == read and ops <= _ELEMENTWISE and new <= _ELEMENTWISE

    def _read_by(self, found: Found) -> set[int]:
        """Returns the codes of the tensors that a match reads from outside of it."""
        inside = found.members()
        codes = (code for number in inside for code in self._topology.inputs(number) if code & CONTROL != CONTROL)
        return {code for code in codes if code >> BITS not in inside}

    def _codes(self, replacement: Replacement) -> set[int]:
        """Returns the codes of the tensors of the graph that a replacement reads or returns."""
        return {self._topology.id_of(tensor.node) << BITS | tensor.index for tensor in _outer(replacement)}

    def _is_scalar(self, code: int) -> bool:
        number = self._facts.constant_node(code)
        header = None if number is None else constant_header(self._topology.node(number))
        return header is not None and header.dims == ()

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
        made.append(_stand_in(graph, f"read{len(made)}", shape, value, dtype))
        given |= {made[-1].output: shape} if made[-1].op != "Const" else {}
    for op, attrs, reads in nodes:
        inputs = [Output(made[number], index) for number, index in reads]
        made.append(graph.add(f"new{len(made)}", op, inputs, attrs=dict(attrs)))
    found = infer_shapes(graph, given)
    conflict = None
    for each in found.conflicts[:1]:
        shapes = [found.shape(read) for read in each.node.inputs]
        text = f"{printable(each.node.op)}: {each.text}"
        conflict = Remark(text, "shape-mismatch", op=each.node.op, shapes=shapes)
    return [found.shape(Output(made[number], index)) for number, index in results], conflict


def _stand_in(graph: Graph, name: str, shape: Shape, value: Value, dtype: int) -> Node:
    """Adds a node for a known tensor: a constant if its value is known, otherwise a placeholder."""
    attrs = {"dtype": type_value(dtype)}
    is_whole = shape is not None and value is not None and None not in value and count(shape) == len(value)
    if is_whole and shape is not None and value is not None:
        attrs["value"] = tensor_value(dtype, shape, value)
    data = {key: each.SerializeToString(deterministic=True) for key, each in attrs.items()}
    return graph.add(name, "Const" if is_whole else "Slotholder", attrs=data)


def _is_new_scalar(new: New) -> bool:
    header = header_of(new.attrs.get("value", b"")) if new.op == "Const" else None
    return header is not None and header.dims == ()


def _differ(a: Shape, b: Shape) -> bool:
    """Returns whether no tensor has both shapes."""
    if a is None or b is None:
        return False
    return len(a) != len(b) or any(x >= 0 and y >= 0 and x != y for x, y in zip(a, b, strict=True))


def _size(shape: Shape, axis: int) -> int | None:
    """Returns a dim of a shape; None if it is unknown."""
    return shape[axis] if shape is not None and axis < len(shape) and shape[axis] >= 0 else None
