"""What of a scope its clone does without: savers, the slots of optimisers, variables that are shared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gdsurgeon.analysis.queries.training import first_values, needing, saver_behind, saver_nodes, slots
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.edits.copying.node_copy import NodeCopy
from gdsurgeon.errors import Remark, quoted
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.kinds import is_variable
from gdsurgeon.text import counted, named


@dataclass
class LeftOut:
    """What is not cloned.

    Attributes:
        saver: the nodes of savers, by their numbers.
        numbers: those of all that is left out, savers outside of the scope among them.
        nodes: the nodes.
        notes: what there is to say of it.
    """

    saver: set[int]
    numbers: set[int]
    nodes: frozenset[Node]
    notes: list[str]

    def forget(self, copied: NodeCopy) -> None:
        """Has no copy wait for what was left out: it would wait for something of the original."""
        for node, copy in copied.nodes.items() if self.nodes else ():
            if any(control in self.nodes for control in node.controls):
                kept = [copied.node(control) for control in node.controls if control not in self.nodes]
                copied.graph.set_controls(copy, kept)


def left_out(topology: Topology, nodes: Sequence[Node], *, shares: bool, with_slots: bool) -> LeftOut:
    """What of NODES, those of a scope, is not cloned.

    That is what belongs to a saver or is what a loader runs or feeds, and then: where it SHARES variables, these, and
    what gives them their first values; unless it goes WITH_SLOTS the slots of optimisers, and what needs them.
    """
    numbers = [topology.id_of(node) for node in nodes]
    inside = topology.flags(numbers)
    files = files_restored(topology)
    saver = saver_nodes(topology) | (saver_behind(topology, files) if files else set())
    fixed = saver | {*_of_the_loader(topology)}
    gone: set[int] = set()
    notes: list[str] = []
    kept = [] if with_slots else slots(topology, numbers)
    if kept:
        gone = needing(topology, kept, inside, fixed)
        names = [topology.name(number) for number in kept]
        text = f"{counted(len(kept), 'optimizer slot')} not cloned: {named(names, 3, quoted)}"
        notes.append(Remark(text, "slots-not-cloned", nodes=names))
    if shares:
        own = {number for number in numbers if is_variable(topology.op(number))} - gone
        gone |= own | first_values(topology, own, inside)
        if own:
            text = f"{counted(len(own), 'variable')} shared with the original"
            notes.append(Remark(text, "variables-shared", count=len(own)))
    everything = fixed | gone
    return LeftOut(saver, everything, frozenset(map(topology.node, everything)), notes)


def files_restored(topology: Topology) -> list[int]:
    """What whoever loads the model tells where its checkpoint is."""
    serving = serving_of(topology.graph)
    run = serving.restoring if serving is not None else None
    return _there(topology, (parse_tensor(tensor).node for tensor in run.feeds)) if run is not None else []


def _of_the_loader(topology: Topology) -> Iterator[int]:
    """What whoever loads the model runs or feeds, which is there once; and the groups of which that consists."""
    serving = serving_of(topology.graph)
    for run in serving.runs if serving is not None else ():
        yield from _there(topology, (parse_tensor(tensor).node for tensor in run.feeds))
        pending = [*_there(topology, run.targets)]
        for number in pending:  # grows while it is walked
            yield number
            pending += [p for p in topology.producers(number) if topology.op(number) == topology.op(p) == "NoOp"]


def _there(topology: Topology, names: Iterable[str]) -> list[int]:
    return [topology.id_of(node) for name in names if (node := topology.graph.find(name)) is not None]
