"""Whether what takes the place of a match has the shape of what was there, as far as that is known without running."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from gdsurgeon.analysis.shapes.arithmetic import RULES, Value, count
from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.analysis.traversal.order import places_in, topological_order
from gdsurgeon.edits.rewriting.facts import NodeFacts
from gdsurgeon.edits.rewriting.ground import BITS, CONTROL
from gdsurgeon.edits.rewriting.planning import New, NewOutput, Replacement
from gdsurgeon.edits.rewriting.searching import Found
from gdsurgeon.errors import Remark, printable, quoted
from gdsurgeon.graph.attrs import Shape, format_shape, type_value
from gdsurgeon.graph.constants import constant_header, header_of, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.patterns.terms import Match, Rule
from gdsurgeon.wire.source import BytesSource

_ELEMENTWISE = frozenset(op for op, rule in RULES.items() if rule in (RULES["Neg"], RULES["AddV2"]))
"""Ops that give the shape of their first input, or what both are broadcast to."""

Known = tuple[Shape, Value]
"""The shape of a tensor, and the elements of a small one of whole numbers."""


class ReplacedShapes:
    """The shapes of a graph as it is while matches are looked for, found where somebody asks.

    Args:
        facts: what is known of its constants.
    """

    def __init__(self, facts: NodeFacts) -> None:
        self._facts, self._topology = facts, facts.topology
        self._inferred: dict[object, tuple[list[Shape], Remark | None]] = {}

    def why_not(self, rule: Rule, found: Found, match: Match, replacement: Replacement) -> Remark | None:
        """Why a match stays as it is, None where no shape speaks against it.

        What is only not known is left to the proof, but for rules that ask for more: see `Rule`.
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

    # -- what rules ask for ----------------------------------------------------------------------------------

    def _why_unlike(self, rule: Rule, match: Match) -> Remark | None:
        """That sizes are not known to be the same, which have to be."""
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
        """That a constant which is read no longer may have given a result more dims, or longer ones."""
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
        """Whether a match, and what takes its place, have the shape of the one tensor that both read, whatever it is.

        So it is with most of what is written element by element, for which no shape has to be inferred.
        """
        read, still = (
            {c for c in codes if not self._is_scalar(c)} for codes in (self._read_by(found), self._codes(replacement))
        )
        ops = {self._topology.op(number) for number in found.members()}
        new = {each.op for each in replacement.nodes if not _is_new_scalar(each)}
        is_one = len(replacement.results) == len(read) == 1
        return is_one and still == read and ops <= _ELEMENTWISE and new <= _ELEMENTWISE

    def _read_by(self, found: Found) -> set[int]:
        """The codes of the tensors that a match reads from outside of it."""
        inside = found.members()
        codes = (code for number in inside for code in self._topology.inputs(number) if code & CONTROL != CONTROL)
        return {code for code in codes if code >> BITS not in inside}

    def _codes(self, replacement: Replacement) -> set[int]:
        """The codes of the tensors of the graph that a replacement reads, or consists of."""
        return {self._topology.id_of(tensor.node) << BITS | tensor.index for tensor in _outer(replacement)}

    def _is_scalar(self, code: int) -> bool:
        number = self._facts.constant_node(code)
        header = None if number is None else constant_header(self._topology.node(number))
        return header is not None and header.dims == ()

    def _given(self, replacement: Replacement) -> tuple[list[Shape], Remark | None]:
        """The shapes of the results of a replacement, and what does not fit in it; inferred once for those alike."""
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
    """The tensors of the graph that a replacement reads, or consists of."""
    reads = (tensor for new in replacement.nodes for tensor in new.inputs)
    return list(dict.fromkeys(t for t in (*reads, *replacement.results) if isinstance(t, Output)))


Place = tuple[int, int]
"""A node, by its number among those of a small graph, and an output."""


def _infer(
    known: Sequence[tuple[Shape, Value, int]],
    nodes: Sequence[tuple[str, Sequence[tuple[str, bytes]], Sequence[Place]]],
    results: Sequence[Place],
) -> tuple[list[Shape], Remark | None]:
    """The shapes of RESULTS of NODES, which read what is KNOWN, and why one of these cannot be, or None."""
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
    """A node that gives what is known of a tensor: a constant where that is all of it."""
    attrs = {"dtype": type_value(dtype)}
    is_whole = shape is not None and value is not None and None not in value and count(shape) == len(value)
    if is_whole and shape is not None and value is not None:
        attrs["value"] = tensor_value(dtype, shape, value)
    data = {key: each.SerializeToString(deterministic=True) for key, each in attrs.items()}
    return graph.add(name, "Const" if is_whole else "Placeholder", attrs=data)


def _is_new_scalar(new: New) -> bool:
    header = header_of(new.attrs.get("value", b"")) if new.op == "Const" else None
    return header is not None and header.dims == ()


def _differ(a: Shape, b: Shape) -> bool:
    """Whether no tensor has both shapes."""
    if a is None or b is None:
        return False
    return len(a) != len(b) or any(x >= 0 and y >= 0 and x != y for x, y in zip(a, b, strict=True))


def _size(shape: Shape, axis: int) -> int | None:
    """A dim of a shape; None where it is not known."""
    return shape[axis] if shape is not None and axis < len(shape) and shape[axis] >= 0 else None
