"""What initialises variables and tables: the assignment, and what is computed for it alone."""

from __future__ import annotations

from collections.abc import Container, Iterable

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.analysis.traversal.walks import serving_alone
from gdsurgeon.ops.kinds import (
    ASSIGNMENTS,
    IDENTITY,
    PLACEHOLDERS,
    RESTORES,
    VARIABLE_READS,
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


def needed_initialisers(topology: Topology, kept: bytearray, *, listed: bool = False) -> list[int]:
    """The assignments to variables and tables among KEPT, and all that they depend on, ascending.

    LISTED: those of variables that a MetaGraph lists. Their own reads are named there, and stay; what restores them is
    part of the saver, and does not.
    """
    holders = [n for n in topology.with_ops(op for op in topology.ops() if holds_state(op)) if kept[n]]
    found = [user for number in holders for user in assignments(topology, number)]
    if listed:
        found = [number for number in found if not _is_restored(topology, number)]
        found += [user for number in holders for user in _own_reads(topology, number)]
    above: Iterable[int] = topology.upstream(found)
    return [number for number, flag in enumerate(above) if flag and not kept[number]]


def _is_restored(topology: Topology, number: int) -> bool:
    """Whether the assignment NUMBER is of what was read from a checkpoint."""
    value = next(iter(topology.data_producers(number)[1:]), -1)
    while value >= 0 and topology.op(value) in IDENTITY:
        value = next(iter(topology.data_producers(value)), -1)
    return value >= 0 and topology.op(value) in RESTORES


def _own_reads(topology: Topology, number: int) -> list[int]:
    """The reads of the variable NUMBER that are called after it."""
    scope = f"{topology.name(number)}/"
    users = [user for user in topology.users(number) if topology.op(user) in VARIABLE_READS]
    return [user for user in users if topology.name(user).startswith(scope)]


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
