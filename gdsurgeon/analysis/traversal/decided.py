"""What is decided before anything is run: predicates that are constants, and what they keep from running."""

from __future__ import annotations

from collections.abc import Mapping

from gdsurgeon.analysis.traversal.control_flow import loop_heads
from gdsurgeon.analysis.traversal.order import topological_order
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.graph.constants import constant
from gdsurgeon.ops.dtypes import BOOL
from gdsurgeon.ops.kinds import MERGE, PASSES_ON, SWITCH

MOST_STEPS = 64
"""Ops that a predicate is followed through."""


def decided(topology: Topology, number: int, known: Mapping[int, bool]) -> bool | None:
    """The value of a predicate, output 0 of the node NUMBER; None where it is not decided.

    Args:
        topology: of the graph.
        number: of the node.
        known: of nodes whose output 0 is known, by their numbers.
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


def untaken(topology: Topology, known: Mapping[int, bool]) -> bytearray:
    """For each node whether a v1 conditional whose predicate is decided keeps it from running. Linear."""
    out = bytearray(topology.size)
    sides = {number: value for number in topology.with_ops(SWITCH)
             if (value := _decided_switch(topology, number, known)) is not None}  # fmt: skip
    if not sides:
        return out
    heads = loop_heads(topology)
    for number in topological_order(topology):
        reads = [(p, port) for p, port in topology.reads(number) if not topology.is_loop_back(p, number)]
        dead = [out[p] or (p in sides and port == (not sides[p])) for p, port in reads]
        out[number] = all(dead) if dead and topology.op(number) in MERGE and number not in heads else any(dead)
    return out


def _decided_switch(topology: Topology, number: int, known: Mapping[int, bool]) -> bool | None:
    reads = topology.data_producers(number)
    return decided(topology, reads[1], known) if len(reads) > 1 else None  # Switch(data, predicate)
