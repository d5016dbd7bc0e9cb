"""Two graphs as one for display: all of B, and the removed nodes of A, connected to the partners of their neighbors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gdsurgeon.compare.difference import Difference
from gdsurgeon.compare.matching import FREE
from gdsurgeon.view.content import Content, depth_first

ADDED, REMOVED, CHANGED, REWIRED = "+", "-", "~", ">"


class Union(NamedTuple):
    """Two graphs as one.

    Attributes:
        content: the rows of B, then the removed ones.
        marks: for each row '' or what became of it.
    """

    content: Content
    marks: list[str]


def union(difference: Difference, before: Content, after: Content) -> Union:
    """Returns the union of `before` and `after`, the contents of A and B, which `difference` has compared."""
    matching = difference.matching
    if matching is None:
        return Union(after, [""] * len(after))
    removed = difference.removed
    rows = {i: mate for i, mate in enumerate(matching.mates) if mate != FREE}
    rows |= {i: len(after) + place for place, i in enumerate(removed)}
    out = Content(
        title=f"{before.title} → {after.title}",
        names=after.names + _names(before, after, removed),
        ops=after.ops + [before.ops[i] for i in removed],
        inputs=after.inputs + [tuple((rows[u], port) for u, port in before.inputs[i]) for i in removed],
        controls=after.controls + [tuple(rows[u] for u in before.controls[i]) for i in removed],
        outputs=after.outputs + [before.outputs[i] for i in removed],
        attrs=after.attrs + [before.attrs[i] for i in removed],
        devices=after.devices + [before.devices[i] for i in removed],
        calls=after.calls + [tuple(f for f in before.calls[i] if f in difference.b.functions) for i in removed],
        parameters=after.parameters + [0] * len(removed),  # removed nodes do not count
        flops=after.flops + [0] * len(removed),
        order=[],
        is_weight=after.is_weight + bytearray(before.is_weight[i] for i in removed),
        faults={**after.faults, **{rows[i]: fault for i, fault in before.faults.items() if rows[i] >= len(after)}},
        value=lambda row: after.value(row) if row < len(after) else before.value(removed[row - len(after)]),
    )
    out.order = depth_first(out)
    return Union(out, _marks(difference, len(after), len(removed)))


def _names(before: Content, after: Content, removed: list[int]) -> list[str]:
    """Returns the names of the removed nodes, made different from those of B."""
    taken = set(after.names)
    out: list[str] = []
    for i in removed:
        name = before.names[i]
        while name in taken:
            name += " (before)"
        taken.add(name)
        out.append(name)
    return out


def _marks(difference: Difference, after: int, removed: int) -> list[str]:
    marks = [""] * after + [REMOVED] * removed
    changed: Mapping[int, str] = {c.j: REWIRED if c.is_rewired_only else CHANGED for c in difference.changes}
    for row, mark in changed.items():
        marks[row] = mark
    for value in difference.values:
        marks[value.j] = CHANGED
    for row in difference.added:
        marks[row] = ADDED
    return marks
