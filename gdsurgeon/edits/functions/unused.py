"""Dropping functions that nothing uses."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.analysis.queries.function_usage import used_functions
from gdsurgeon.graph.graph import Graph


def drop_left(graph: Graph, names: Iterable[str]) -> list[str]:
    """Takes those of the functions NAMES, and of those that they call, out of the library that nobody needs any longer.

    NAMES are of functions that lost a caller; what only others need that nobody calls stays with these. Returns the
    names.
    """
    library = graph.functions
    lost = set(library.reachable(names, gradients=True))
    others = {function.signature.name for function in library} - lost
    unused = sorted(lost - used_functions(graph) - set(library.reachable(others, gradients=True)))
    library.remove(unused)
    return unused


def drop_unused_functions(graph: Graph) -> list[str]:
    """Takes what no node uses out of the library, unless it is another graph's; returns the names."""
    if graph.is_body or not len(graph.functions):
        return []
    used = used_functions(graph)
    unused = [name for function in graph.functions if (name := function.signature.name) not in used]
    if unused:
        graph.functions.remove(unused)
    return unused
