"""Sums of integers: constants that are added one after the other are added to each other first.

Integers wrap around, so the order of the terms does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.analysis.shapes.arithmetic import Misfit, broadcast
from gdsurgeon.edits.simplifying.graph_view import BITS, GraphView
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.ops.dtypes import DTYPES

_SUMS = frozenset(("Add", "AddV2", "Sub"))

Sum = tuple[str, Sequence[int]]
"""The op of a sum, and the codes of its two inputs."""


class Sums:
    """The sums (x + c) + d of a graph, which become x + (c + d); x - c and c - x count as sums.

    No node is added: the node of the inner sum computes the sum of the constants.

    Attributes:
        found: the changed nodes, with their new ops and inputs.
    """

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._shapes: dict[int, Shape] = {}
        self.found: dict[int, Sum] = {}
        for outer in view.with_ops(_SUMS):
            for code in view.data(outer):
                if view.ops[code >> BITS] in _SUMS and self._is_only(code >> BITS, outer):
                    self._regroup(code, outer)

    def _regroup(self, total: int, outer: int) -> None:
        """Adds the constants of a sum `total` and of its only consumer `outer`, if both have one."""
        inner = total >> BITS
        whole, part = self._parted(outer), self._parted(inner)
        if whole is None or part is None or self._view.may_be_reference(part[0]):
            return
        (_, sign, last, of_last), (x, of_x, first, of_first) = whole, part
        shapes = [self.shape(first), self.shape(last)]
        try:
            shape = broadcast(*shapes)
        except Misfit:
            return
        if shape not in shapes:
            return  # the sum of the constants is larger than each of them
        op, ops = self._sum(outer)[0], {self._sum(number)[0] for number in (inner, outer)}
        of_x, of_first = of_x * sign, of_first * sign
        if of_x > 0 and op == "Sub":
            of_first, of_last = -of_first, -of_last
        self._shapes[total] = shape
        if of_first == of_last:
            self.found[inner] = max(ops - {"Sub"}, default="AddV2"), [first, last]
        else:
            self.found[inner] = "Sub", [first, last] if of_last < 0 else [last, first]
        self.found[outer] = (op, [x, total]) if of_x > 0 else ("Sub", [total, x])

    def _is_only(self, inner: int, outer: int) -> bool:
        """Returns whether a node is a sum of integers that only the sum `outer` needs."""
        view = self._view
        if view.must_keep(inner) or not view.waiting.isdisjoint((inner, outer)):
            return False
        dtype = view.topology.node(outer).setting("T")
        return view.topology.users(inner) == [outer] and dtype in DTYPES and DTYPES[dtype].is_integer

    def _sum(self, number: int) -> Sum:
        return self.found.get(number) or (self._view.ops[number], self._view.data(number))

    def _parted(self, number: int) -> tuple[int, int, int, int] | None:
        """Returns the input of a sum that is not a constant, its sign, the constant, and its sign; None if all inputs
        or none are constants.
        """
        op, reads = self._sum(number)
        varying = [slot for slot, code in enumerate(reads) if self.shape(code) is None]
        if len(reads) != 2 or len(varying) != 1:
            return None
        (slot,), signs = varying, (1, -1 if op == "Sub" else 1)
        return reads[slot], signs[slot], reads[1 - slot], signs[1 - slot]

    def shape(self, code: int) -> Shape:
        """Returns the shape of a small constant, or of a sum of constants; None for other tensors."""
        if code not in self._shapes:
            value = self._view.constant(code) if code >> BITS not in self._view.waiting else None
            self._shapes[code] = None if value is None else tuple(value.shape)
        return self._shapes[code]
