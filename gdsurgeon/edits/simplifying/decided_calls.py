"""If and Case whose choice is a constant: they become calls of the function that is chosen."""

from __future__ import annotations

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.wire.messages import message

CALLS = {
    "Case": "StatefulPartitionedCall",
    "If": "StatefulPartitionedCall",
    "StatelessCase": "PartitionedCall",
    "StatelessIf": "PartitionedCall",
}
"""What becomes of an op that calls one of several functions."""
_KEPT = frozenset(("Tin", "Tout", "_class"))
_COMPILED = "_XlaMustCompile"


def decide_calls(graph: Graph) -> Intent:
    """Has nodes that choose by a constant call what is chosen; what waits with the constant is left alone."""
    topology = topology_of(graph)
    intent = Intent()
    for node in map(topology.node, topology.with_ops(CALLS)):
        chosen = _chosen(node)
        if chosen is not None:
            _call(graph, node, chosen, intent)
    return intent


def _chosen(node: Node) -> bytes | None:
    """The function that NODE calls in any case, as an AttrValue; None where that is not known."""
    reads = node.inputs
    value = constant(reads[0].node) if reads and not reads[0].node.controls else None
    if value is None or value.shape or node.plain_attr(_COMPILED):
        return None
    if node.op in ("If", "StatelessIf"):
        return node.attr_bytes("then_branch" if _is_true(value) else "else_branch")
    branches = attr_value(node.attr_bytes("branches") or b"").list.func
    index = value.values[0]
    if not branches or not isinstance(index, int):
        return None
    out = message("tensorflow.AttrValue")()
    out.func.CopyFrom(branches[index if 0 <= index < len(branches) else len(branches) - 1])
    return bytes(out.SerializeToString(deterministic=True))


def _is_true(value: Constant) -> bool:
    """Whether a scalar chooses the first branch: a number that is not 0, a string that is not empty."""
    return bool(value.values[0])


def _call(graph: Graph, node: Node, chosen: bytes, intent: Intent) -> None:
    intent.changed.append(node.name)
    graph.set_op(node, CALLS[node.op])
    graph.set_inputs(node, node.inputs[1:])
    for key in node.attr_keys:
        if key not in _KEPT:
            graph.set_attr(node, key, None)
    graph.set_attr(node, "f", chosen)
