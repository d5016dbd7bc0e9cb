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
"""The maximum number of nodes that are searched: the deciding nodes are near the output."""

_OF_THE_SHAPE = READS_SHAPE | PLACEHOLDERS | {"TensorArraySizeV3", "Const"}
"""Ops whose result does not depend on the values of their inputs."""


def deciding_nodes(outputs: Iterable[Node]) -> list[Node]:
    """Returns the nearest float nodes upstream of the nodes in `outputs` without float outputs; at most `MOST_SCORES`.

    Most changes of a weight do not change a predicted class, so a comparison of classes passes for almost any change.
    The scores from which the class is chosen show even small changes.
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
"""Ops that sort their inputs."""
PICKS = re.compile("^(NonMaxSuppression|CombinedNonMaxSuppression|TopK|ArgMax$|ArgMin$)")
"""The same, and ops that return the position of a maximum or minimum."""
SCORED = re.compile("^(LogSoftmax|Softmax)$")
MOST_SOURCES = 32
MOST_NODES = 4000
"""The maximum number of nodes that are searched upstream of a node: a loop is not large."""
_NOTHING = PLACEHOLDERS | {"Const"}
_PASSED_BY = IDENTITY | TENSOR_ARRAYS | {"TensorArrayScatter", "TensorArrayScatterV2", "TensorArrayScatterV3"}
"""Ops that forward their inputs, for example into a loop."""


def chosen_from(graph: Graph, *, picks: bool = False) -> list[str]:
    """Returns the names of the producers of the float inputs of Softmax, NonMaxSuppression and TopK nodes.

    With `picks`, also those of ArgMax and ArgMin nodes. A producer in a loop or in a branch cannot be fetched; it is
    replaced by the nearest nodes upstream that run once. At most `MOST_SOURCES` names are returned.
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
    """Yields the producer of `read`, or the nearest upstream nodes that output floats and run once."""
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
    """Returns the compared tensors whose order a small error may change, with the reason not to compare each.

    Args:
        graph: the graph.
        nodes: the names of nodes that are compared in addition to the outputs.
        picks: whether ArgMax and ArgMin are treated like NonMaxSuppression and TopK.
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
