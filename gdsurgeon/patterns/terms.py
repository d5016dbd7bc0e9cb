"""The terms of a rule. Each term stands for a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.node import Node, Output

MOST_EQUAL = 64
"""Elements of constants up to which two with the same values are one tensor to a pattern."""
HANDING_ON = frozenset(("Identity", "Enter"))
"""Ops that hand a constant on, so that what they give is one."""

Scalar: TypeAlias = "bool | int | float | str"
AttrLiteral: TypeAlias = "Scalar | DTypeName | list[Scalar | DTypeName]"
"""The value of an attr as it is written."""


@dataclass(frozen=True)
class DTypeName:
    """A dtype, as the value of an attr."""

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
    """``key = value`` in a pattern or a replacement; in a pattern the relation may be another one."""

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
    """``$name``: any tensor, and the same one wherever the name stands.

    Attributes:
        name: without the dollar.
        kind: '' for any tensor, ``const`` for a constant, ``scalar`` for a constant of one element.
        bounds: of the elements of the constant, the lowest and the highest; None: any.
        dims: the shape of the constant, -1 where it may be anything; None: any.
        column: where it stands in the rule, from 1.
    """

    name: str
    kind: str
    bounds: tuple[float, float] | None
    dims: tuple[int, ...] | None
    column: int


@dataclass(frozen=True, eq=False)
class Value:
    """A number, or lists of them: a constant.

    Attributes:
        shape: of the lists; () for a number, which in a pattern stands for constants of any shape that hold nothing
            else.
        values: in row-major order.
        column: where it stands.
    """

    shape: tuple[int, ...]
    values: tuple[float | int | bool, ...]
    column: int


@dataclass(frozen=True, eq=False)
class Ref:
    """``label`` or ``label:1``: an output of a node that has been described before."""

    label: str
    port: int
    column: int


@dataclass(frozen=True, eq=False)
class InputOf:
    """``label.2``: an input of a matched node; ``label.2*``: its data inputs from that one on, ``label.*``: all.

    Attributes:
        label: the label of the node in the pattern.
        first: the index of the (first) input.
        rest: whether the inputs after it are meant, too.
        column: the position in the rule, from 1.
    """

    label: str
    first: int
    rest: bool
    column: int


@dataclass(frozen=True, eq=False)
class Op:
    """A node, and which of its outputs is meant.

    Attributes:
        ops: the ops that match; () for any op.
        label: a name for it, or ''.
        attrs: in a pattern the required attrs, in a replacement the attrs of the new node.
        like: in a replacement the label of a node whose attrs it takes over, or ''.
        same: in a replacement the label of a node whose op and attrs it takes over, or ''; then there are no `ops`.
        inputs: its data inputs; None: whichever.
        rest: whether there may be more.
        optional: whether the node may be missing; its first input then replaces it.
        port: the output.
        column: where it stands.
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
"""A dim of a tensor: the name of its variable, and which it is, from 0."""


@dataclass(frozen=True, eq=False)
class Rule:
    """A pattern, and what takes its place.

    Attributes:
        name: the name of the rule.
        pattern: a term for each result; the first is an `Op`.
        replacement: a term for each result; None for a rule that only finds.
        text: the rule as it is written.
        place: where that is, in front of a column: ``FILE:LINE:``, or ``column ``.
        make: where there is no replacement: says for a match what takes its place, or None to leave it.
        keeps_shapes: whether a match is kept if broadcasting with a constant could have enlarged a result and the
            known shapes do not rule that out.
        alike: dims that have to be known, and to be the same.
    """

    name: str
    pattern: tuple[Op | Ref, ...]
    replacement: tuple[Term, ...] | None
    text: str
    place: str
    make: Maker | None = None
    keeps_shapes: bool = False
    alike: tuple[tuple[Dim, Dim], ...] = ()


@dataclass(frozen=True, eq=False)
class Match:
    """What a pattern has matched.

    Attributes:
        tensors: by the names of variables.
        nodes: by labels.
        attrs: serialised AttrValues by the names of variables that stand for attrs.
        roots: the results.
    """

    tensors: Mapping[str, Output]
    nodes: Mapping[str, Node]
    attrs: Mapping[str, bytes]
    roots: tuple[Output, ...] = ()

    def value(self, name: str) -> Constant | None:
        """The value of the small constant that a variable stands for; None: it stands for none, or for a big one."""
        node = self.tensors[name].node
        while node.op in HANDING_ON and len(node.inputs) == 1:
            node = node.inputs[0].node
        return constant(node)


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
"""Says for a match what takes its place, as the text of a replacement; None: nothing does."""


def walk(term: Term) -> Iterator[Term]:
    """TERM and all below it, from left to right."""
    pending = [term]
    while pending:
        each = pending.pop()
        yield each
        if isinstance(each, Op) and each.inputs:
            pending += reversed(each.inputs)
