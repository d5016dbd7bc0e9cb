"""Which nodes must not run twice: what they give, or do, is another thing the second time."""

from __future__ import annotations

from gdsurgeon.graph.functions import called_functions
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.writing import node_def
from gdsurgeon.ops.op_defs import OpDef


def has_state(node: Node) -> bool:
    """Whether NODE, or a function that it calls, is stateful, random, changes a variable, or is of an unknown op."""
    graph = node.graph
    if _has_state(node.op_def):
        return True
    if not len(graph.functions):
        return False
    seen: set[str] = set()
    pending = called_functions(node_def(node), graph.functions)
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        function = graph.functions.get(name)
        if function is None:
            continue
        for item in function.node_def:
            if _has_state(graph.op_def(item.op)):
                return True
            pending += called_functions(item, graph.functions)
    return False


def _has_state(definition: OpDef | None) -> bool:
    return definition is None or definition.is_stateful or any(argument.is_ref for argument in definition.inputs)
