"""What a trainer leaves in a graph: savers, and the slots of optimisers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdsurgeon.analysis.queries.initialisers import assignments
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.analysis.traversal.walks import forward_walk, members, serving_alone
from gdsurgeon.ops.kinds import PLACEHOLDERS, RESTORES, SAVES, VARIABLE_READS, is_step, is_variable

_MAKES_NAMES = PLACEHOLDERS | {"Const", "Pack", "ShardedFilename", "ShardedFilespec", "StringJoin"}
"""What the names of files are made by."""


def saver_nodes(topology: Topology) -> set[int]:
    """The nodes of savers: what saves and restores, what waits for that, and what only they need.

    What restores from a file that nothing saves to, and that no placeholder names, initialises variables.
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
    """The nodes of a saver which is given the names of files by the nodes FILES; functions may do its work."""
    found = members(forward_walk(topology, files, control=True))
    return {*serving_alone(topology, found, lambda n: topology.op(n) in _MAKES_NAMES, lambda _: True)}


def _file(topology: Topology, number: int) -> int | None:
    """What names the file that the node NUMBER saves to or restores from."""
    return next(iter(topology.data_producers(number)), None)


def slots(topology: Topology, numbers: Iterable[int]) -> list[int]:
    """Those of the nodes NUMBERS that are what an optimiser keeps: the slots of variables, and its own variables.

    A slot is called after its variable and colocated with it, or read by a step that trains another variable.
    """
    trained: set[int] = set()
    read: set[int] = set()
    for number in topology.with_ops(filter(is_step, topology.ops())):
        taken = [_variable(topology, producer) for producer in topology.data_producers(number)]
        trained.update(taken[:1])
        read.update(taken[1:])
    variables = [number for number in numbers if is_variable(topology.op(number))]
    return [n for n in variables if n not in trained and (n in read or _is_called_as_slot(topology, n))]


def _variable(topology: Topology, number: int) -> int:
    """What is read at NUMBER, where that reads a variable."""
    while topology.op(number) in VARIABLE_READS and (producers := topology.data_producers(number)):
        number = producers[0]
    return number


def _is_called_as_slot(topology: Topology, number: int) -> bool:
    node = topology.node(number)
    return any(is_variable(other.op) and node.name.startswith(f"{other.name}/") for other in node.colocated)


def needing(topology: Topology, starts: Iterable[int], inside: bytearray, but: set[int]) -> set[int]:
    """Returns the nodes `inside` that are useless without the variables `starts`: those, and nodes that depend on or
    serve them.

    Nodes that assign their first values are included, but not nodes that only depend on that. `but`: nodes where the
    search stops.
    """
    variables = list(starts)
    first = {user for number in variables for user in assignments(topology, number)}
    found = dict.fromkeys(variables)
    pending = list(found)
    for number in pending:  # grows while it is walked
        for user in topology.users(number):
            if inside[user] and user not in found and user not in first and user not in but:
                found[user] = None
                pending.append(user)
    found.update((user, None) for user in first if inside[user])
    return {*_with_servants(topology, found, inside)}


def first_values(topology: Topology, variables: Iterable[int], inside: bytearray) -> set[int]:
    """The nodes INSIDE that give VARIABLES their first values, and serve nothing else."""
    found = {user for number in variables for user in assignments(topology, number) if inside[user]}
    return {*_with_servants(topology, found, inside)}


def _with_servants(topology: Topology, found: Iterable[int], inside: bytearray) -> Iterator[int]:
    def may_serve(number: int) -> bool:
        return bool(inside[number]) and topology.op(number) not in PLACEHOLDERS

    yield from serving_alone(topology, found, may_serve, lambda _: True)
