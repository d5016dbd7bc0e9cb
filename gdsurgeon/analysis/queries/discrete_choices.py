"""Nodes that choose or sort by scores, and the nodes that compute the scores."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.control_flow import ControlFlow, control_flow_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.analysis.traversal.walks import depending_on
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import is_inexact
from gdsurgeon.ops.kinds import IDENTITY, PLACEHOLDERS, READS_SHAPE, TENSOR_ARRAYS

MOST_SCORES = 16
_MOST_NODES = 2000
"""Nodes that are looked at: what decides an output stands near it."""

_OF_THE_SHAPE = READS_SHAPE | PLACEHOLDERS | {"TensorArraySizeV3", "Const"}
"""Ops whose result says nothing of the values that they read."""


def deciding_nodes(outputs: Iterable[Node]) -> list[Node]:
    """The nearest nodes above those of OUTPUTS that give no floats, which give some; at most `MOST_SOURCES`.

    A class is the same for most changes of a weight: where only the class is compared, almost anything passes. The
    scores that it was taken from show the least of them.
    """
    discrete = [node for node in outputs if node.output_dtypes and not any(map(is_inexact, node.output_dtypes))]
    seen = set(discrete)
    found: dict[Node, None] = {}
    pending = list(discrete)
    for node in pending:  # grows while it is walked
        if node.op in _OF_THE_SHAPE or len(seen) > _MOST_NODES:
            continue
        for read in node.inputs:
            if not read.node.exists:
                continue
            if is_inexact(read.dtype):
                if read.node.op not in _OF_THE_SHAPE:
                    found[read.node] = None
            elif read.node not in seen:
                seen.add(read.node)
                pending.append(read.node)
        if len(found) >= MOST_SCORES:
            break
    return list(found)[:MOST_SCORES]


CHOOSES = re.compile("^(NonMaxSuppression|CombinedNonMaxSuppression|TopK)")
"""Ops that put in order what they read."""
PICKS = re.compile("^(NonMaxSuppression|CombinedNonMaxSuppression|TopK|ArgMax$|ArgMin$)")
"""The same, and those that return the place of an extreme."""
SCORED = re.compile("^(LogSoftmax|Softmax)$")
MOST_SOURCES = 32
MOST_NODES = 4000
"""Nodes that are looked at above one: a loop is not large."""
_NOTHING = PLACEHOLDERS | {"Const"}
_PASSED_BY = IDENTITY | TENSOR_ARRAYS | {"TensorArrayScatter", "TensorArrayScatterV2", "TensorArrayScatterV3"}
"""Ops that hand on what they read, into a loop among others."""


def chosen_from(graph: Graph, *, picks: bool = False) -> list[str]:
    """The nodes that give the floats that a Softmax, a NonMaxSuppression or a TopK reads; PICKS: or an ArgMax.

    Where that is in a loop, or on a side of a conditional, and cannot be fetched: the nearest nodes above it that run
    once.
    """
    flow = control_flow_of(graph)
    found: dict[str, None] = {}
    chooses = PICKS if picks else CHOOSES
    for node in _nodes(graph, lambda op: bool(chooses.match(op) or SCORED.match(op))):
        for read in node.inputs[: 2 if "Suppression" in node.op else 1]:
            for source in _fetchable(flow, read):
                found[source.name] = None
        if len(found) >= MOST_SOURCES:
            break
    return list(found)[:MOST_SOURCES]


def _fetchable(flow: ControlFlow, read: Output) -> Iterator[Node]:
    """The nodes that give READ, or the nearest above that give floats and run once."""
    seen, pending = {read.node}, [read]
    for read in pending:  # grows while it is walked
        node = read.node
        if len(seen) > MOST_NODES or not node.exists or node.op in _NOTHING:
            continue
        is_inner = node.op in _PASSED_BY or not flow.runs_once(flow.topology.id_of(node))
        if not is_inner and is_inexact(read.dtype):
            yield node
        elif is_inner:
            new = [above for above in node.inputs if above.node not in seen]
            seen.update(above.node for above in new)
            pending += new


def reordered(graph: Graph, nodes: Iterable[str] = (), *, picks: bool = False) -> dict[str, str]:
    """The tensors that a small error may put in another order, and why they are not to be compared.

    Args:
        graph: the graph.
        nodes: the names of nodes that are compared in addition to the outputs.
        picks: whether an ArgMax counts as a NonMaxSuppression or a TopK does.
    """
    chooses = PICKS if picks else CHOOSES
    choosing = _nodes(graph, lambda op: bool(chooses.match(op)))
    chosen = depending_on(graph, [node.name for node in choosing]) if choosing else frozenset()
    why = "not compared, because a small error may change its order; the values it is chosen from are compared"
    compared = dict.fromkeys([*(node.name for node in output_nodes(graph)), *nodes])
    return {output.name: why for name in compared if name in chosen for output in graph[name].outputs}


def _nodes(graph: Graph, is_meant: Callable[[str], bool]) -> list[Node]:
    topology = topology_of(graph)
    wanted = [op for op in topology.ops() if is_meant(op)]
    return [topology.node(number) for number in topology.with_ops(wanted)]
