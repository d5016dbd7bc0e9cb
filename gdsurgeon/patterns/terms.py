"""The terms of a rule. Each term is a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.node import Node, Output

MOST_EQUAL = 64
"""The number of elements up to which constants with equal values are the same tensor in a pattern."""
HANDING_ON = frozenset(("Identity", "Enter"))
"""Ops that forward constants."""

Scalar: TypeAlias = "bool | int | float | str"
AttrLiteral: TypeAlias = "Scalar | DTypeName | list[Scalar | DTypeName]"
"""The value of an attr in a rule."""


@dataclass(frozen=True)
class DTypeName:
    """A dtype as the value of an attr."""

    number: int


@dataclass(frozen=True)
class AttrVariable:
    """``$name`` as the value of an attr."""

    name: str


@dataclass(frozen=True)
class AttrOf:
    """``label.key`` as the value of an attr: the value of the labelled node."""

    label: str
    key: str


AttrTerm: TypeAlias = "AttrLiteral | AttrVariable | AttrOf"


@dataclass(frozen=True)
class AttrTest:
    """``key = value`` in a pattern or a replacement; a pattern also allows other relations."""

    key: str
    relation: str
    value: AttrTerm
    column: int


@dataclass(frozen=True, eq=False)
class Anything:
    """``_``: any tensor."""

    column: int


@dataclass(frozen=True, eq=False)
class Variable:
    """``$name``: any tensor; the same tensor at each occurrence of the name.

    Attributes:
        name: without the dollar sign.
        kind: '' for any tensor, ``const`` for a constant, ``scalar`` for a constant with one element.
        bounds: the smallest and largest element of the constant, or None.
        dims: the shape of the constant, -1 for any dim; or None.
        column: the position in the rule, from 1.
    """

    name: str
    kind: str
    bounds: tuple[float, float] | None
    dims: tuple[int, ...] | None
    column: int


@dataclass(frozen=True, eq=False)
class Value:
    """A number, nested lists, or in a replacement a text: a constant.

    Attributes:
        shape: the shape of the lists; () for a number, which in a pattern matches constants of any shape with only that
            number.
        values: the elements in row-major order: numbers, booleans, or one text.
        column: the position in the rule, from 1.
    """

    shape: tuple[int, ...]
    values: tuple[Any, ...]
    column: int

    @property
    def is_text(self) -> bool:
        """Whether it is a text, whose dtype is string; the dtype of numbers depends on the other inputs."""
        return isinstance(self.values[0] if self.values else 0, bytes)


@dataclass(frozen=True, eq=False)
class Ref:
    """``label`` or ``label:1``: an output of a node that appears earlier."""

    label: str
    port: int
    column: int


@dataclass(frozen=True, eq=False)
class InputOf:
    """``label.2``: an input of a matched node; ``label.2*``: its data inputs from that one on, ``label.*``: all.

    Attributes:
        label: the label of the node in the pattern.
        first: the index of the (first) input.
        rest: whether all inputs after it are included.
        column: the position in the rule, from 1.
    """

    label: str
    first: int
    rest: bool
    column: int


@dataclass(frozen=True, eq=False)
class Op:
    """An output of a node.

    Attributes:
        ops: the ops that match; () for any op.
        label: the name of the node, or ''.
        attrs: in a pattern the required attrs, in a replacement the attrs of the new node.
        like: in a replacement the label of a node whose attrs are copied, or ''.
        same: in a replacement the label of a node whose op and attrs are copied, or ''; `ops` is empty then.
        inputs: the data inputs; None for any inputs.
        rest: whether more inputs are allowed.
        optional: whether the node may be missing; its first input then replaces it.
        port: the index of the output.
        column: the position in the rule, from 1.
    """

    ops: tuple[str, ...]
    label: str
    attrs: tuple[AttrTest, ...]
    like: str
    same: str
    inputs: tuple[Term, ...] | None
    rest: bool
    optional: bool
    port: int
    column: int


Term: TypeAlias = "Anything | Variable | Value | Ref | InputOf | Op"


Dim: TypeAlias = "tuple[str, int]"
"""A dim of a tensor: the name of its variable, and the axis."""


@dataclass(frozen=True, eq=False)
class Rule:
    """A pattern and its replacement.

    Attributes:
        name: the name of the rule.
        pattern: a term for each result; the first is an `Op`.
        replacement: a term for each result; None for a rule without replacement.
        text: the text of the rule.
        place: the text before a column in errors: ``FILE:LINE:``, or ``column ``.
        make: without replacement: a function that returns the replacement of a match, or None to skip it.
        keeps_shapes: whether a match is skipped if broadcasting with a constant may have enlarged a result.
        alike: dims that must be known and equal.
    """

    name: str
    pattern: tuple[Op | Ref, ...]
    replacement: tuple[Term, ...] | None
    text: str
    place: str
    make: Maker | None = None
    keeps_shapes: bool = False
    alike: tuple[tuple[Dim, Dim], ...] = ()


def constant_node(tensor: Output) -> Node | None:
    """Returns the Const whose value a tensor has, also if other nodes forward it; otherwise None."""
    node = tensor.node
    while node.op in HANDING_ON and len(node.inputs) == 1:
        node = node.inputs[0].node
    return node if node.op == "Const" else None


@dataclass(frozen=True, eq=False)
class Match:
    """A match of a pattern.

    Attributes:
        tensors: the tensors of variables.
        nodes: the nodes by label.
        attrs: the serialized AttrValues of attr variables.
        roots: the results.
        placed: the node of each `Op` of the pattern, except missing optional ones.
    """

    tensors: Mapping[str, Output]
    nodes: Mapping[str, Node]
    attrs: Mapping[str, bytes]
    roots: tuple[Output, ...] = ()
    placed: Mapping[Op, Node] = field(default_factory=dict, repr=False)

    def bound(self, term: Term) -> Sequence[Output]:
        """Returns the tensors of the graph that a term of a replacement stands for."""
        if isinstance(term, Variable):
            return [self.tensors[term.name]]
        if isinstance(term, InputOf):
            return self.nodes[term.label].inputs[term.first : None if term.rest else term.first + 1]
        return [Output(self.nodes[term.label], term.port)] if isinstance(term, Ref) and term.label in self.nodes else []

    def value(self, name: str) -> Constant | None:
        """Returns the value of the small constant that a variable is bound to; otherwise None."""
        node = constant_node(self.tensors[name])
        return None if node is None else constant(node)


@dataclass(frozen=True, eq=False)
class Replaced:
    """The record of a replaced match, by which a checker can verify it without a search.

    Attributes:
        rule, round: the index of the rule, and of its round.
        placed: the node of each `Op` of the pattern, in the order of `walk`; '' if an optional node is missing.
        tensors: the tensor of each variable.
        text: the replacement that `Rule.make` has returned; '' if the rule has a replacement.
        made: the node that each node of the replacement became.
    """

    rule: int
    round: int
    placed: tuple[str, ...]
    tensors: Mapping[str, str]
    text: str
    made: tuple[str, ...]


Maker: TypeAlias = Callable[[Match], "str | None"]
"""Returns the replacement of a match as a text; None skips the match."""


def walk(term: Term) -> Iterator[Term]:
    """Yields a term and all terms below it, from left to right."""
    pending = [term]
    while pending:
        each = pending.pop()
        yield each
        if isinstance(each, Op) and each.inputs:
            pending += reversed(each.inputs)
