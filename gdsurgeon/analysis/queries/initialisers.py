"""What initialises variables and tables: the assignment, and what is computed for it alone."""

from __future__ import annotations

from collections.abc import Container, Iterable

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.analysis.traversal.walks import serving_alone
from gdsurgeon.ops.kinds import (
    ASSIGNMENTS,
    IDENTITY,
    PLACEHOLDERS,
    holds_state,
)


def initialisers(topology: Topology, inside: bytearray, but: Container[int] = ()) -> list[int]:
    """What lies outside of INSIDE, BUT for some nodes, and initialises the variables and tables in it, ascending.

    That is each assignment, and what feeds assignments and nothing else outside. An initialiser of other things too (a
    group of them all) is not part of it. Placeholders are not either.
    """
    found: dict[int, None] = {}
    for number in topology.with_ops(op for op in topology.ops() if holds_state(op)):
        if inside[number]:
            found.update((user, None) for user in assignments(topology, number) if not (inside[user] or user in but))

    def may_serve(number: int) -> bool:
        return not (inside[number] or number in but) and topology.op(number) not in PLACEHOLDERS

    return sorted(serving_alone(topology, found, may_serve, lambda user: not inside[user]))


def needed_initialisers(topology: Topology, kept: bytearray) -> list[int]:
    """The assignments to variables and tables among KEPT, and all that they depend on, ascending."""
    holders = [n for n in topology.with_ops(op for op in topology.ops() if holds_state(op)) if kept[n]]
    found = [user for number in holders for user in assignments(topology, number)]
    above: Iterable[int] = topology.upstream(found)
    return [number for number, flag in enumerate(above) if flag and not kept[number]]


def assignments(topology: Topology, number: int) -> list[int]:
    """The nodes that assign to the variable or table NUMBER, directly or by way of an Identity of it."""
    out: list[int] = []
    pending = [number]
    for holder in pending:  # grows while it is walked
        for user in topology.users(holder):
            first = next(iter(topology.data_producers(user)), -1)
            if first == holder and topology.op(user) in ASSIGNMENTS:
                out.append(user)
            elif first == holder and topology.op(user) in IDENTITY:
                pending.append(user)
    return out
