"""The parts of a graph that a trainer uses: savers, assignments of initial values, slots of optimizers."""

from __future__ import annotations

from collections.abc import Container, Iterable

from gdsurgeon.analysis.traversal.topology import Topology, forward_walk, members, serving_alone, topology_of
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.kinds import (
    ASSIGNMENTS,
    CHECKPOINT_WRITERS,
    IDENTITY,
    PLACEHOLDERS,
    RESTORES,
    SAVES,
    VARIABLE_READS,
    holds_state,
    is_step,
    is_variable,
)


def saver_scopes(graph: Graph) -> list[str]:
    """Returns the outermost scopes in which nodes of `graph` write or read checkpoints, such as ``save``."""
    topology = topology_of(graph)
    found = {topology.name(number).rpartition("/")[0] for number in topology.with_ops(CHECKPOINT_WRITERS | RESTORES)}
    return sorted(scope for scope in found - {""} if not any(scope.startswith(f"{other}/") for other in found - {""}))


def saver_of(name: str, scopes: list[str]) -> str:
    """Returns the scope among `scopes` that contains the node `name`; '' if no scope does."""
    return next((scope for scope in scopes if name.startswith(f"{scope}/")), "")


def initialisers(topology: Topology, inside: bytearray, but: Container[int] = ()) -> list[int]:
    """Returns the nodes outside `inside` that initialize the variables and tables in it, in ascending order.

    These are all assignments, and the nodes that serve only assignments outside. Nodes that also serve other nodes are
    not included, nor are placeholders and the nodes in `but`.
    """
    found: dict[int, None] = {}
    for number in topology.with_ops(op for op in topology.ops() if holds_state(op)):
        if inside[number]:
            found.update((user, None) for user in assignments(topology, number) if not (inside[user] or user in but))

    def may_serve(number: int) -> bool:
        return not (inside[number] or number in but) and topology.op(number) not in PLACEHOLDERS

    return sorted(serving_alone(topology, found, may_serve, lambda user: not inside[user]))


def needed_initialisers(topology: Topology, kept: bytearray, *, listed: bool = False) -> list[int]:
    """Returns the assignments to the variables and tables in `kept`, and the nodes they depend on, in ascending order.

    Only nodes outside `kept` are returned. With `listed`, a MetaGraph lists the variables. It names their own reads, so
    these are included; assignments of restored values belong to the saver, and are not.
    """
    holders = [n for n in topology.with_ops(op for op in topology.ops() if holds_state(op)) if kept[n]]
    found = [user for number in holders for user in assignments(topology, number)]
    if listed:
        values = ((number, topology.data_producers(number)[1:2]) for number in found)
        found = [
            n
            for n, read in values
            if not any(topology.op(_forwarded(topology, value, IDENTITY)) in RESTORES for value in read)
        ]
        found += [user for number in holders for user in _own_reads(topology, number)]
    above: Iterable[int] = topology.upstream(found)
    return [number for number, flag in enumerate(above) if flag and not kept[number]]


def _forwarded(topology: Topology, number: int, ops: Container[str]) -> int:
    """Returns the node whose value a node forwards through nodes of `ops`, or the node itself."""
    while topology.op(number) in ops and (producers := topology.data_producers(number)):
        number = producers[0]
    return number


def _own_reads(topology: Topology, number: int) -> list[int]:
    """Returns the reads of the variable `number` whose names are in its scope."""
    scope = f"{topology.name(number)}/"
    users = [user for user in topology.users(number) if topology.op(user) in VARIABLE_READS]
    return [user for user in users if topology.name(user).startswith(scope)]


def assignments(topology: Topology, number: int) -> list[int]:
    """Returns the nodes that assign to the variable or table `number`, directly or through an Identity."""
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


_MAKES_NAMES = PLACEHOLDERS | {"Const", "Pack", "ShardedFilename", "ShardedFilespec", "StringJoin"}
"""Ops that compute the names of files."""


def saver_nodes(topology: Topology) -> set[int]:
    """Returns the nodes of savers: save and restore ops, their dependents, and file name ops that serve only these.

    A restore op initializes variables, and is not part of a saver, if no node saves to its file and no placeholder
    names it.
    """
    saving = topology.with_ops(SAVES)
    above = topology.upstream([file for n in saving if (file := _file(topology, n)) is not None], control=False)
    files = {number for number in members(above) if topology.op(number) in _MAKES_NAMES}
    restoring = []
    for number in topology.with_ops(RESTORES):
        file = _file(topology, number)
        if file is not None and (file in files or topology.op(file) in PLACEHOLDERS):
            restoring.append(number)
    if not saving and not restoring:
        return set()
    return saver_behind(topology, [*saving, *restoring])


def saver_behind(topology: Topology, files: Iterable[int]) -> set[int]:
    """Returns the nodes downstream of `files`, the nodes a saver starts from, and file name ops that serve only these.

    The nodes `files` are save and restore ops, or file names if functions save and restore.
    """
    found = members(forward_walk(topology, files, control=True))
    return {*serving_alone(topology, found, lambda n: topology.op(n) in _MAKES_NAMES, lambda _: True)}


def _file(topology: Topology, number: int) -> int | None:
    """Returns the node that computes the name of the file that the node `number` saves to or restores from."""
    return next(iter(topology.data_producers(number)), None)


def slots(topology: Topology, numbers: Iterable[int]) -> list[int]:
    """Returns the nodes among `numbers` that are optimizer state: slots of variables, and variables of the optimizer.

    A slot has its variable's name as scope and is colocated with it, or is read by a step that trains a different
    variable.
    """
    trained: set[int] = set()
    read: set[int] = set()
    for number in topology.with_ops(filter(is_step, topology.ops())):
        taken = [_forwarded(topology, producer, VARIABLE_READS) for producer in topology.data_producers(number)]
        trained.update(taken[:1])
        read.update(taken[1:])
    variables = [number for number in numbers if is_variable(topology.op(number))]
    return [n for n in variables if n not in trained and (n in read or _is_called_as_slot(topology, n))]


def _is_called_as_slot(topology: Topology, number: int) -> bool:
    node = topology.node(number)
    return any(is_variable(other.op) and node.name.startswith(f"{other.name}/") for other in node.colocated)


def needing(topology: Topology, starts: Iterable[int], inside: bytearray, but: set[int]) -> set[int]:
    """Returns the nodes in `inside` that are useless without the variables `starts`, including the variables.

    These are the nodes that depend on the variables, and nodes that serve only these. Nodes that assign the initial
    values are included, but not nodes that depend only on these assignments. The search stops at the nodes in `but`.
    """
    variables = list(starts)
    first = {user for number in variables for user in assignments(topology, number)}
    stops = first | but
    found = closure(variables, lambda n: [user for user in topology.users(n) if inside[user] and user not in stops])
    return _with_servants(topology, found.union(user for user in first if inside[user]), inside)


def first_values(topology: Topology, variables: Iterable[int], inside: bytearray) -> set[int]:
    """Returns the assignments to `variables` in `inside`, and the nodes that serve nothing else."""
    found = {user for number in variables for user in assignments(topology, number) if inside[user]}
    return _with_servants(topology, found, inside)


def _with_servants(topology: Topology, found: Iterable[int], inside: bytearray) -> set[int]:
    def may_serve(number: int) -> bool:
        return bool(inside[number]) and topology.op(number) not in PLACEHOLDERS

    return {*serving_alone(topology, found, may_serve, lambda _: True)}
