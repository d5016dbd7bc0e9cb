"""Which functions of the library a graph uses, and which function calls which."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.graph.attrs import functions_in
from gdsurgeon.graph.functions import FunctionLibrary, called_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node


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


def calling(graph: Graph, names: Iterable[str]) -> list[Node]:
    """The nodes of GRAPH that call or pass on one of the functions NAMES, directly or through others."""
    wanted = set(names)
    topology = Topology(graph)
    found = [number for number in callers(topology) if wanted & reachable(graph, called_by(topology, number))]
    return [topology.node(number) for number in found]


def _takes_functions(graph: Graph, op: str) -> bool:
    definition = graph.op_def(op)
    return definition is None or definition.takes_functions


def functions_of(node: Node, library: FunctionLibrary) -> list[str]:
    """The functions that NODE calls or passes on."""
    found = [node.op] if node.op in library else []
    definition = node.op_def
    for key in node.attr_keys:
        kind = definition.attrs[key].kind if definition is not None and key in definition.attrs else ""
        if not kind or "func" in kind:
            found.extend(func.name for func in functions_in(node.attr(key)))
    return found
