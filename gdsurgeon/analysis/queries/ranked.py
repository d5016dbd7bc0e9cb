"""What is chosen or put in order by scores, which a small error may change altogether, and what it is chosen from."""

from __future__ import annotations

import re
from collections.abc import Callable

from gdsurgeon.analysis.queries.op_usage import op_counts
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.analysis.traversal.walks import depending_on
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import is_inexact
from gdsurgeon.ops.kinds import IDENTITY, LOOPS, PLACEHOLDERS

CHOOSES = re.compile("^(NonMaxSuppression|CombinedNonMaxSuppression|TopK)")
"""Ops that put in order what they read."""
SCORED = re.compile("^(LogSoftmax|Softmax)$")
MOST_SOURCES = 32
_NOTHING = PLACEHOLDERS | {"Const"}


def chosen_from(graph: Graph) -> list[str]:
    """The nodes that give the floats that a Softmax, a NonMaxSuppression or a TopK reads, outside of loops."""
    if any(op in LOOPS for op in op_counts(graph)):
        return []  # a tensor of a loop cannot be fetched
    found: dict[str, None] = {}
    for node in _nodes(graph, lambda op: bool(CHOOSES.match(op) or SCORED.match(op))):
        for read in node.inputs[: 2 if "Suppression" in node.op else 1]:
            source = _behind(read)
            if source.op not in _NOTHING and source.exists and is_inexact(read.dtype):
                found[source.name] = None
    return list(found)[:MOST_SOURCES]


def of_another_order(graph: Graph) -> frozenset[str]:
    """The nodes that depend on what a NonMaxSuppression or a TopK chooses."""
    choosing = _nodes(graph, lambda op: bool(CHOOSES.match(op)))
    return depending_on(graph, [node.name for node in choosing]) if choosing else frozenset()


def _nodes(graph: Graph, is_meant: Callable[[str], bool]) -> list[Node]:
    topology = topology_of(graph)
    wanted = [op for op in topology.ops() if is_meant(op)]
    return [topology.node(number) for number in topology.with_ops(wanted)]


def _behind(read: Output) -> Node:
    """The node that gives READ, behind those that only pass it on."""
    node = read.node
    for _ in range(100):
        if node.op not in IDENTITY or not node.inputs:
            break
        node = node.inputs[0].node
    return node
