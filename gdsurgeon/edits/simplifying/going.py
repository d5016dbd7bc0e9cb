"""Which ops simplify may take out of a graph: so that it is named as a help only where it may be one."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.analysis.queries.compatibility import LackingOp
from gdsurgeon.analysis.traversal.order import topological_order
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.simplifying import decided_calls
from gdsurgeon.edits.simplifying.draft import CHECKS
from gdsurgeon.edits.simplifying.identities import IDENTITIES, STOPS
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.kinds import CALLS, MERGE, SWITCH

HANDING_ON = STOPS | CHECKS | IDENTITIES | {"IdentityN"}
"""Ops that go wherever somebody else reads what they hand on."""
_MAY_GO = HANDING_ON | CALLS | MERGE | SWITCH | decided_calls.CALLS.keys() | {"RandomUniform"}
"""Those of which others go, too: calls are inlined, conditionals decided, and dropout drops nothing."""
_OF_SHAPES = frozenset(("Rank", "Shape", "ShapeN", "Size"))
"""Ops that say nothing of the elements of what they read, so that they may be constants."""


def is_read(graph: Graph, lacking: LackingOp) -> bool:
    """Whether a node of an op is read by others, or is in a function: an output keeps its name, and stays."""
    return any(place.function or any(graph.users(graph[place.node])) for place in lacking.first)


def may_all_go(graph: Graph, lacking: Iterable[LackingOp]) -> bool:
    """Whether simplify may leave none of the nodes of some ops: by what they are, or since they may be constants."""
    staying = [each for each in lacking if each.op not in _MAY_GO or not is_read(graph, each)]
    if any(place.function for each in staying for place in each.first):
        return False
    topology = topology_of(graph)
    computed = bytearray(topology.size)
    for number in topological_order(topology) if staying else ():
        op = topology.op(number)
        if op == "Const" or op in _OF_SHAPES:
            continue
        definition = graph.op_def(op)
        reads = topology.data_producers(number)
        computed[number] = not reads or definition is None or definition.is_stateful or any(computed[p] for p in reads)
    return not any(computed[number] for number in topology.with_ops(each.op for each in staying))
