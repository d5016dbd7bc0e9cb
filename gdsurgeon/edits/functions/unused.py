"""Dropping functions that nothing uses."""

from __future__ import annotations

from gdsurgeon.analysis.queries.function_usage import used_functions
from gdsurgeon.graph.graph import Graph


def drop_unused_functions(graph: Graph) -> list[str]:
    """Takes what no node uses out of the library, unless it is another graph's; returns the names."""
    if graph.is_body or not len(graph.functions):
        return []
    used = used_functions(graph)
    unused = [name for function in graph.functions if (name := function.signature.name) not in used]
    if unused:
        graph.functions.remove(unused)
    return unused
