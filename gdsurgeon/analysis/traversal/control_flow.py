"""Control flow of TensorFlow 1: while frames, branches of conditionals, and branches that never run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from gdsurgeon.analysis.traversal.order import topological_order
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import BOOL
from gdsurgeon.ops.kinds import CONTROL_FLOW, ENTER, EXIT, MERGE, PASSES_ON, SWITCH


class Frames(NamedTuple):
    """The while frames of a graph.

    Attributes:
        names: the ``frame_name`` of each frame.
        parents: for each frame the enclosing frame, or -1.
        of: for each node of the topology the innermost frame that it runs in, or -1; an Enter counts as part of the
            frame that it enters, an Exit as part of the frame that it returns to.
    """

    names: list[str]
    parents: list[int]
    of: list[int]


class ControlFlow(NamedTuple):
    """For each node of a topology: how many while frames it is in, and how many untaken branches could hold it.

    A node where both are 0 runs exactly once in a run that needs it: only such a node can be fetched safely.

    Attributes:
        frames, branches: these two numbers.
        sides: for each node the sides of conditionals that must be taken for it to run.
        topology: the topology with the nodes.
        loops: the while frames.
    """

    frames: list[int]
    branches: list[int]
    sides: list[Sides]
    topology: Topology
    loops: Frames

    def runs_once(self, number: int) -> bool:
        """Returns whether the node runs exactly once, for all values."""
        return self.frames[number] == 0 and self.branches[number] == 0

    def of_tensor(self, number: int, index: int) -> Sides:
        """Returns the sides that must be taken for a tensor to be computed; index -1 stands for a control edge."""
        return self.sides[number] | _side(self.topology, number, index, self.frames[number])


class Side(NamedTuple):
    """A side of the Switches of one predicate, in a while frame of some depth."""

    predicate: tuple[int, int]
    output: int
    depth: int


Sides = frozenset[Side]


def control_flow(topology: Topology, before: Topology | None = None) -> ControlFlow:
    """Computes the control flow in topological order, without edges that close a loop.

    Linear in the size of the graph, times the nesting depth of conditionals.

    A node runs if all sides of its inputs are taken. A Merge requires only one of its inputs: their common sides must
    be taken, and the others are assumed to cover all cases.

    Args:
        topology: of the graph, or a draft.
        before: of a draft the original, whose predicates name the sides: a predicate may be replaced.
    """
    size = topology.size
    branches = [0] * size
    sides: list[Sides] = [frozenset()] * size
    names, parents, frames = loops = Frames([], [], [-1] * size)
    if not topology.ops() & CONTROL_FLOW:
        return ControlFlow([0] * size, branches, sides, topology, loops)
    heads = loop_heads(topology)
    ops = topology.op_of_each()
    numbers: dict[tuple[str, int], int] = {}  # of frames, by name and enclosing frame
    depths = {-1: 0}
    for number in topological_order(topology):
        op = ops[number]
        if op not in CONTROL_FLOW:
            above = topology.producers(number)
            if not [p for p in above if sides[p] or ops[p] in SWITCH]:  # true for nearly all nodes
                frames[number] = max([frames[p] for p in above], key=depths.__getitem__, default=-1)
                continue
        reads = topology.reads(number, through_loops=False)
        frame = max((frames[p] for p, _ in reads), key=depths.__getitem__, default=-1)
        if op in ENTER:
            key = topology.node(number).text_attr("frame_name"), frame
            if key not in numbers:
                numbers[key] = len(names)
                names.append(key[0])
                parents.append(frame)
                depths[numbers[key]] = depths[frame] + 1
            frame = numbers[key]
        elif op in EXIT and frame >= 0:
            frame = parents[frame]
        entered = [sides[p] | _side(before or topology, p, port, depths[frames[p]]) for p, port in reads]
        if op in MERGE and number not in heads and entered:
            taken = frozenset.intersection(*entered)
        else:
            taken = frozenset().union(*entered)
        if op in EXIT:  # removes the Switch of the loop itself
            taken = frozenset(side for side in taken if side.depth <= depths[frame])
        frames[number], sides[number] = frame, taken
        branches[number] = len(taken) + (op in SWITCH)
    return ControlFlow([depths[frame] for frame in frames], branches, sides, topology, loops)


def control_flow_of(graph: Graph) -> ControlFlow:
    """Returns the current control flow of `graph`; callers share one result."""
    return graph.derived(_control_flow)


def _control_flow(graph: Graph) -> ControlFlow:
    return control_flow(topology_of(graph))


def _side(topology: Topology, producer: int, port: int, depth: int) -> Sides:
    """Returns the sides that must be taken for an output of a node, in addition to those of the node."""
    if port < 0 or topology.op(producer) not in SWITCH:
        return frozenset()
    return frozenset((Side(_predicate(topology, producer), port, depth),))


def loop_heads(topology: Topology) -> set[int]:
    """Returns the Merge nodes at which loops close."""
    merges = topology.with_ops(MERGE)
    return {n for n in merges if any(topology.is_loop_back(producer, n) for producer in topology.producers(n))}


def frames_of(graph: Graph) -> Frames:
    """Returns the current while frames of `graph`; callers share one result."""
    return control_flow_of(graph).loops


def _predicate(topology: Topology, switch: int) -> tuple[int, int]:
    """Returns the predicate of a Switch, before any Identity nodes; for a Switch without a predicate, the Switch."""
    reads = topology.reads(switch)
    if len(reads) < 2:
        return switch, 0
    number, index = reads[1]  # Switch(data, predicate)
    while topology.op(number) == "Identity" and topology.reads(number):
        number, index = topology.reads(number)[0]
    return number, index


MOST_STEPS = 64
"""The most ops through which a predicate is followed."""


def decided(topology: Topology, number: int, known: Mapping[int, bool]) -> bool | None:
    """Returns the value of a predicate, output 0 of the node `number`; None if the value is unknown.

    Args:
        topology: of the graph.
        number: of the node.
        known: the known values of output 0, by node number.
    """
    negated = False
    for _ in range(MOST_STEPS):
        if number in known:
            return known[number] != negated
        op, reads = topology.op(number), topology.data_producers(number)
        if op == "Const":
            value = constant(topology.node(number))
            return (
                None if value is None or value.dtype != BOOL or len(value.values) != 1 else value.values[0] != negated
            )
        if op not in PASSES_ON | {"LogicalNot"} or not reads:
            return None
        negated ^= op == "LogicalNot"
        number = reads[0]
    return None


def untaken_branches(topology: Topology, known: Mapping[int, bool]) -> bytearray:
    """Returns for each node whether a v1 conditional with a known predicate prevents it from running. Linear."""
    predicates = [topology.data_producers(number)[1:] for number in topology.with_ops(SWITCH)]
    if all(decided(topology, number, known) is None for found in predicates for number in found):
        return bytearray(topology.size)
    sides = control_flow(topology).sides
    values = {side: decided(topology, side.predicate[0], known) for side in {*chain.from_iterable(sides)}}
    untaken = {side for side, value in values.items() if value is not None and value != side.output}
    return bytearray(not untaken.isdisjoint(each) for each in sides)
