"""Which functions of the library are in use."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.analysis.topology import Topology
from gdsurgeon.edits.copy_functions import functions_of
from gdsurgeon.graph.functions import called_functions
from gdsurgeon.graph.graph import Graph


def used_functions(graph: Graph) -> set[str]:
    """The functions that a node of GRAPH calls or passes on, directly or through others, with their gradients."""
    topology = Topology(graph)
    return reachable(graph, (name for number in callers(topology) for name in called_by(topology, number)))


def callers(topology: Topology) -> list[int]:
    """The nodes that call functions, or may take some as attrs."""
    graph = topology.graph
    return topology.with_ops(op for op in topology.ops() if op in graph.functions or _takes_functions(graph, op))


def called_by(topology: Topology, number: int) -> list[str]:
    """The functions that a node calls or passes on."""
    return functions_of(topology.node(number), topology.graph.functions)


def reachable(graph: Graph, names: Iterable[str]) -> set[str]:
    """NAMES that the library has, the functions that those call, and the gradients of all."""
    library = graph.functions
    gradients: dict[str, list[str]] = {}
    for gradient in library.gradients():
        gradients.setdefault(gradient.function_name, []).append(gradient.gradient_func)
    out: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in out or name not in library:
            continue
        out.add(name)
        pending += gradients.get(name, [])
        for node in library.get(name).node_def:
            pending += called_functions(node, library)
    return out


def drop_unused_functions(graph: Graph) -> list[str]:
    """Takes what no node uses out of the library; returns the names."""
    if not len(graph.functions):
        return []
    used = used_functions(graph)
    unused = [name for function in graph.functions if (name := function.signature.name) not in used]
    if unused:
        graph.functions.remove(unused)
    return unused


def _takes_functions(graph: Graph, op: str) -> bool:
    definition = graph.op_def(op)
    return definition is None or any("func" in attr.kind for attr in definition.attrs.values())
