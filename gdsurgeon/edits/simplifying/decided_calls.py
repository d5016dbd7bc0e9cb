"""What a constant decides: If and Case become calls of what is chosen, a While of no turns becomes an IdentityN."""

from __future__ import annotations

from collections.abc import Container

from gdsurgeon.analysis.queries.effects import have_state
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import IFS
from gdsurgeon.wire.protos import AttrValue

CALLS = {
    "Case": "StatefulPartitionedCall",
    "If": "StatefulPartitionedCall",
    "StatelessCase": "PartitionedCall",
    "StatelessIf": "PartitionedCall",
}
"""What becomes of an op that calls one of several functions."""
_WHILES = frozenset(("StatelessWhile", "While"))
_KEPT = frozenset(("Tin", "Tout", "_class"))
_KEPT_OF_WHILES = frozenset(("T", "_class"))
_COMPILED = "_XlaMustCompile"


def decide_calls(graph: Graph) -> Intent:
    """Has nodes that choose by a constant call what is chosen; what waits with the constant is left alone.

    Loops whose condition is a constant that is false hand on what they are given.
    """
    topology = topology_of(graph)
    intent = Intent()
    for node in map(topology.node, topology.with_ops(CALLS)):
        chosen = _chosen(node)
        if chosen is not None:
            _call(graph, node, chosen, intent)
    for node in map(topology.node, topology.with_ops(_WHILES)):
        if node.inputs and not node.plain_attr(_COMPILED) and _never_turns(graph, node):
            intent.changed.append(node.name)
            graph.set_op(node, "IdentityN")
            _drop_attrs(graph, node, _KEPT_OF_WHILES)
    return intent


def _never_turns(graph: Graph, node: Node) -> bool:
    """Whether the condition of a loop is a constant that is false, and nothing else is done where it is asked."""
    condition = attr_value(node.attr_bytes("cond") or b"").func
    if have_state(graph, [condition.name]):
        return False
    try:
        body = Body(graph, condition.name, condition.attr)
    except EditError:
        return False
    found = body.results[0].inputs[0].node if len(body.results) == 1 else None
    while found is not None and found.op == "Identity" and not found.controls:
        found = found.inputs[0].node
    value = constant(found) if found is not None and not found.controls else None
    return value is not None and not value.shape and not _is_true(value)


def _chosen(node: Node) -> bytes | None:
    """The function that NODE calls in any case, as an AttrValue; None where that is not known."""
    reads = node.inputs
    value = constant(reads[0].node) if reads and not reads[0].node.controls else None
    if value is None or value.shape or node.plain_attr(_COMPILED):
        return None
    if node.op in IFS:
        return node.attr_bytes("then_branch" if _is_true(value) else "else_branch")
    branches = attr_value(node.attr_bytes("branches") or b"").list.func
    index = value.values[0]
    if not branches or not isinstance(index, int):
        return None
    out = AttrValue()
    out.func.CopyFrom(branches[index if 0 <= index < len(branches) else len(branches) - 1])
    return bytes(out.SerializeToString(deterministic=True))


def _is_true(value: Constant) -> bool:
    """Whether a scalar chooses the first branch: a number that is not 0, a string that is not empty."""
    return bool(value.values[0])


def _call(graph: Graph, node: Node, chosen: bytes, intent: Intent) -> None:
    intent.changed.append(node.name)
    graph.set_op(node, CALLS[node.op])
    graph.set_inputs(node, node.inputs[1:])
    _drop_attrs(graph, node, _KEPT)
    graph.set_attr(node, "f", chosen)


def _drop_attrs(graph: Graph, node: Node, kept: Container[str]) -> None:
    for key in node.attr_keys:
        if key not in kept:
            graph.set_attr(node, key, None)
