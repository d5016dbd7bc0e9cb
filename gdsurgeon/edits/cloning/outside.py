"""Variables that belong to a scope and lie outside of it: what its calls were given, or all that it reads."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.edits.functions.calls import is_call
from gdsurgeon.errors import Remark, quoted
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import PASSES_ON, RESOURCE_VARIABLES, TEMPORARY, VARIABLE_READS, VARIABLES, is_variable
from gdsurgeon.text import counted, named


class Outside(NamedTuple):
    """What belongs to a scope and lies outside of it.

    Attributes:
        nodes: variables, and what reads or passes them on to the scope.
        notes: what there is to say of the variables that it reads besides.
    """

    nodes: list[Node]
    notes: list[str]


def variables_outside(
    topology: Topology, nodes: Sequence[Node], which: str, source: str, replaced: Iterable[Output] = ()
) -> Outside:
    """The variables outside of NODES, those under the scope SOURCE, that are cloned with them.

    A function holds no variables: those that it reads are arguments of its calls, and stand beside these.

    Args:
        topology: of the graph.
        nodes: those under a scope.
        source: a name scope.
        which: ``clone``: what function calls among NODES are given, which are resources; ``all``: what any of NODES
            read; else none.
        replaced: tensors in whose place others will be read.
    """
    if which == "share" or not any(map(is_variable, topology.ops())):
        return Outside([], [])
    inside, without = topology.flags(map(topology.id_of, nodes)), {topology.code(output) for output in replaced}
    variables = RESOURCE_VARIABLES | VARIABLES - TEMPORARY
    found = everything = _above(topology, nodes, without, PASSES_ON | VARIABLE_READS, variables)
    if which == "clone":
        calls = [node for node in nodes if is_call(node.op, topology.graph)]
        found = _above(topology, calls, without, PASSES_ON, RESOURCE_VARIABLES)
    others = sorted(n for n in set(everything).difference(found) if is_variable(topology.op(n)) and not inside[n])
    notes: list[str] = []
    if others:
        names, scope = [topology.name(number) for number in others], quoted(source.strip("/"))
        stay = "stays" if len(others) == 1 else "stay"
        text = (
            f"{counted(len(others), 'variable')} outside of {scope} {stay} shared with the original: "
            f"{named(names, 3, quoted)}"
        )
        notes.append(Remark(text, "stays-common", nodes=names))
    return Outside([topology.node(number) for number in sorted(found) if not inside[number]], notes)


def _above(
    topology: Topology, nodes: Sequence[Node], replaced: Container[int], through: Container[str], ends: Container[str]
) -> list[int]:
    """What NODES read that is one of the ops ENDS or comes from there unchanged, THROUGH others, with all of these."""
    leads: dict[int, bool] = {}
    for node in nodes:
        for start, index in topology.reads(topology.id_of(node)):
            if index < 0 or start in leads or start << Table.PORT_BITS | index in replaced:
                continue
            path = [start]
            while path[-1] not in leads and topology.op(path[-1]) in through:
                leads[path[-1]] = False
                path += topology.data_producers(path[-1])[:1]
            found = leads.get(path[-1], False) or topology.op(path[-1]) in ends
            leads.update((number, found) for number in path)
    return [number for number, found in leads.items() if found]
