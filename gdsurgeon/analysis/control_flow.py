"""v1 control flow: which nodes lie inside a while frame, and which in a branch that may not be taken."""

from __future__ import annotations

from typing import NamedTuple

from gdsurgeon.analysis.order import topological_order
from gdsurgeon.analysis.topology import LOOP_BACK, Topology

ENTER = frozenset(("Enter", "RefEnter"))
EXIT = frozenset(("Exit", "RefExit"))
SWITCH = frozenset(("Switch", "RefSwitch", "_SwitchN"))
MERGE = frozenset(("Merge", "RefMerge", "_XlaMerge"))
ALL = ENTER | EXIT | SWITCH | MERGE | LOOP_BACK | {"LoopCond"}


class ControlFlow(NamedTuple):
    """For each node of a topology: how many while frames it is in, and how many untaken branches could hold it.

    A node where both are 0 runs exactly once in a run that needs it: only such a node can be fetched safely.
    """

    frames: list[int]
    branches: list[int]

    def runs_once(self, number: int) -> bool:
        """Whether the node runs once, whatever the values are."""
        return self.frames[number] == 0 and self.branches[number] == 0


def control_flow(topology: Topology) -> ControlFlow:
    """Walks the graph in topological order, loops cut where they close. Linear."""
    size = topology.size
    frames, branches = [0] * size, [0] * size
    ops = set(topology.table.op_names) | {topology.op(n) for n in range(topology.rows, size)}
    if not ops & ALL:
        return ControlFlow(frames, branches)
    loop_heads = _loop_heads(topology)
    for number in topological_order(topology):
        producers = [p for p in topology.producers(number) if not topology.is_loop_back(p, number)]
        frame = max((frames[p] for p in producers), default=0)
        branch = max((branches[p] for p in producers), default=0)
        op = topology.op(number)
        if op in ENTER:
            frame += 1
        elif op in EXIT:
            frame -= 1
            branch -= 1  # the loop's own Switch
        elif op in SWITCH:
            branch += 1
        elif op in MERGE and number not in loop_heads:
            branch -= 1
        frames[number], branches[number] = max(frame, 0), max(branch, 0)
    return ControlFlow(frames, branches)


def _loop_heads(topology: Topology) -> set[int]:
    """The Merge nodes at which loops close."""
    return {
        number
        for number in topology.numbers()
        if topology.op(number) in MERGE and any(topology.op(p) in LOOP_BACK for p in topology.producers(number))
    }
