"""Which functions the nodes of a graph call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import InputError
from gdsurgeon.graph.attrs import functions_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node


def functions_of(node: Node) -> list[str]:
    """The functions that NODE calls or passes on, each once; the library may not have them."""
    is_call = node.op in node.graph.functions
    found = [node.op] if is_call else []
    definition = node.op_def
    if definition is not None and not definition.takes_functions and not is_call:  # a function may take it from there
        return found
    for key in node.attr_keys:
        kind = definition.attrs[key].kind if definition is not None and key in definition.attrs else ""
        if not kind or "func" in kind:
            try:
                value = node.attr(key)
            except InputError:
                continue  # it is corrupt, and the structural check says so
            if value is not None:
                found.extend(func.name for func in functions_in(value))
    return list(dict.fromkeys(found))


def calling_nodes(graph: Graph) -> Iterator[tuple[Node, list[str]]]:
    """The nodes that call functions or pass some on, and which."""
    topology = topology_of(graph)
    for number in topology.with_ops(op for op in topology.ops() if may_call(graph, op)):
        node = topology.node(number)
        called = functions_of(node)
        if called:
            yield node, called


def used_functions(graph: Graph) -> set[str]:
    """The functions that a node of GRAPH calls or passes on, directly or through others, with their gradients."""
    return set(graph.functions.reachable((name for _, names in calling_nodes(graph) for name in names), gradients=True))


def calling(graph: Graph, names: Iterable[str]) -> list[Node]:
    """The nodes of GRAPH that call or pass on one of the functions NAMES, directly or through others."""
    reaching = graph.functions.reaching(names)
    return [node for node, called in calling_nodes(graph) if not reaching.isdisjoint(called)]


def may_call(graph: Graph, op: str) -> bool:
    """Whether a node of OP can call a function: it is one, an attr holds one, or nothing is known of its attrs."""
    definition = graph.op_def(op)
    return definition is None or op in graph.functions or definition.takes_functions
