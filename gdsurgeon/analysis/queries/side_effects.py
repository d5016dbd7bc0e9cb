"""Side effects of nodes, including the functions that they call, and whether random values repeat."""

from __future__ import annotations

from gdsurgeon.analysis.queries.function_usage import functions_of
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import CONTROL_FLOW, PLACEHOLDERS

DETERMINISTIC = "deterministic"
"""Attr of ops without which their seeds do not count."""


def only_computes(node: Node) -> bool:
    """Whether a node does nothing but compute what its consumers read: without these it can be removed."""
    definition = node.op_def
    return (
        definition is not None
        and not definition.is_stateful
        and node.op not in PLACEHOLDERS
        and node.op not in CONTROL_FLOW
    )


def is_seeded(node: Node) -> bool:
    """Whether a random op has a seed, so that equal sessions give equal values."""
    definition = node.op_def
    if definition is not None and DETERMINISTIC in definition.attrs and not node.plain_attr(DETERMINISTIC):
        return False
    return any(node.plain_attr(key) for key in ("seed", "seed2"))


def ops_in_functions(node: Node) -> set[str]:
    """The ops that run inside the functions that NODE calls, directly or through others."""
    library = node.graph.functions
    return {inner.op for name in library.reachable(functions_of(node)) for inner in library[name].node_def}
