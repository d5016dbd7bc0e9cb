"""Matches that stay although nothing speaks against them that is worked out here: where they run, and their shapes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.graph.constants import header_of
from gdsurgeon.graph.names import format_input
from gdsurgeon.ops.kinds import CONTROL_FLOW
from gdsurgeon.specification.plain_match import Cell, Cells, Env, Tensor

Planned = tuple["str | int", int]
"""An output of a node of the graph, by its name, or of a new one, by its place among these."""

Way = tuple[int, int, frozenset[str], frozenset[tuple[str, str]]]
"""A match: which rule, in which of its rounds, the nodes, and the variables with the tensors that they stand for."""

_ELEMENTWISE = frozenset(
    """
    Abs Add AddV2 Ceil Cos Div Elu Erf Erfc Exp Expm1 Floor FloorDiv Identity LeakyRelu Log Log1p Maximum Minimum Mul
    Neg Pow RealDiv Relu Relu6 Round Rsqrt Selu Sigmoid Sign Sin Softplus Softsign Sqrt Square SquaredDifference Sub
    Tanh
    """.split()
)
"""Ops of which each element of the result is made of one of each input; far from all, and no more is claimed."""


class Site(Protocol):
    """A match with what would take its place.

    Attributes:
        cells: the graph as it is before that.
        env: the match.
        roots: the tensors that are its results.
        results: what takes the place of each.
        news: the new nodes.
    """

    cells: Cells
    env: Env
    roots: list[Tensor]
    results: list[Planned]
    news: list[Cell]


@dataclass
class Chosen:
    """What was left of what matches.

    Attributes:
        comparison: of the file and what is written: where loops and branches are, what is as it was counts as left.
        by_shape: what the edit says that it has left since shapes would be others.
    """

    comparison: Comparison
    by_shape: Collection[Way]

    def is_left(self, env: Env) -> bool:
        """Whether a match stays as it is: in graphs with control flow, where that depends on loops and branches."""
        return self.flows and self._touched.isdisjoint(env.placed.values())

    @cached_property
    def flows(self) -> bool:
        """Whether there is control flow."""
        return any(op in CONTROL_FLOW for op in self.comparison.before.store.table.op_names)

    @cached_property
    def _touched(self) -> set[str]:
        facts = self.comparison.facts
        return {*facts.altered, *facts.removed, *(slot.node for slot in facts.rewired)}

    def keeps_shape(self, rule: int, round_: int, site: Site) -> bool:
        """Whether nobody says that SITE was left for its shape; where that cannot be, nobody is heard who says so."""
        env = site.env
        bound = frozenset((name, format_input(*tensor)) for name, tensor in env.tensors.items())
        way: Way = (rule, round_, frozenset(env.placed.values()), bound)
        return way not in self.by_shape or _has_one_shape(site)


def _has_one_shape(site: Site) -> bool:
    """Whether a match, and what takes its place, have the shape of the one tensor that both read, whatever it is."""
    cells, inside = site.cells, {*site.env.placed.values()}
    outer = {tensor for name in inside for tensor in cells.node(name).reads if tensor[0] not in inside}
    given = [*site.results, *(tensor for new in site.news for tensor in new.reads)]
    named = {tensor for tensor in given if isinstance(tensor[0], str)}
    read, still = _without_scalars(cells, outer), _without_scalars(cells, named)
    ops = {cells.op(name) for name in inside} | {new.op for new in site.news if not _is_scalar(new)}
    return len(site.roots) == len(read) == 1 and read == still and ops <= _ELEMENTWISE


def _without_scalars(cells: Cells, tensors: Iterable[Planned]) -> set[Planned]:
    out: set[Planned] = set()
    for name, port in tensors:
        header = cells.header(name) if isinstance(name, str) else None
        if header is None or header.dims != ():
            out.add((name, port))
    return out


def _is_scalar(new: Cell) -> bool:
    header = header_of(new.attrs.get("value", b"")) if new.op == "Const" else None
    return header is not None and header.dims == ()
