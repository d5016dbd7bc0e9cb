"""Nodes that must not run twice, because their result or effect differs the second time."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.analysis.queries.side_effects import ops_in_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import hides_state
from gdsurgeon.ops.op_defs import OpDef


def has_state(node: Node) -> bool:
    """Whether NODE, or a function that it calls, is stateful, random, changes a variable, or is of an unknown op."""
    if _has_state(node.op_def):
        return True
    return any(_has_state(node.graph.op_def(op)) for op in ops_in_functions(node))


def have_state(graph: Graph, functions: Iterable[str]) -> bool:
    """Whether FUNCTIONS of a graph's library, or what they call, do more than compute."""
    library = graph.functions
    ops = {node.op for name in library.reachable(functions) for node in library[name].node_def}
    return any(_has_state(graph.op_def(op)) or hides_state(op) for op in ops)


def _has_state(definition: OpDef | None) -> bool:
    return definition is None or definition.is_stateful or any(argument.is_ref for argument in definition.inputs)
