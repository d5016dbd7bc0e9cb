"""What becomes of an input: the ops downstream of it, those inside functions included, in one vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gdsurgeon.graph.attrs import functions_in
from gdsurgeon.graph.constants import Constant, constant, decode_tensor
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node

MOST_NODES = 5000
"""Nodes that are looked at: what an input is for shows near it."""


class Step(NamedTuple):
    """A node of a graph or of a function body, as a consumer.

    Attributes:
        op: its op.
        attr: gives an AttrValue message, or None.
        constant: gives the value of data input i where that is a small constant, or None.
        slot: the data input by which the walk came to it.
        depth: steps from the placeholder.
    """

    op: str
    name: str
    attr: Callable[[str], Any]
    constant: Callable[[int], Constant | None]
    slot: int
    depth: int


def downstream(graph: Graph, node: Node) -> Iterator[Step]:
    """The nodes that depend on NODE, nearest first; where a function is called, then the nodes of its body."""
    seen = {node}
    queue = [(node, 0)]
    functions: dict[str, int] = {}
    for producer, depth in queue:  # grows while it is walked
        for user in graph.users(producer):
            if user in seen or len(seen) > MOST_NODES:
                continue
            seen.add(user)
            queue.append((user, depth + 1))
            slot = next((i for i, read in enumerate(user.inputs) if read.node is producer), -1)
            yield _graph_step(user, slot, depth + 1)
            for key in user.attr_keys if _may_call(user) else ():
                for func in functions_in(user.attr(key)):
                    functions.setdefault(func.name, depth + 1)
    yield from _in_functions(graph, functions)


def _may_call(node: Node) -> bool:
    definition = node.op_def
    return definition is None or any("func" in attr.kind for attr in definition.attrs.values())


def _graph_step(node: Node, slot: int, depth: int) -> Step:
    def value(i: int) -> Constant | None:
        return constant(through_identities(node.inputs[i].node)) if i < len(node.inputs) else None

    return Step(node.op, node.name, node.attr, value, slot, depth)


def through_identities(node: Node) -> Node:
    """The node behind Identity, Enter and the like: a frozen weight is read through them."""
    for _ in range(16):
        if node.exists and node.op in ("Identity", "Enter", "StopGradient", "CheckNumerics") and node.inputs:
            node = node.inputs[0].node
        else:
            break
    return node


def _in_functions(graph: Graph, functions: dict[str, int]) -> Iterator[Step]:
    """The nodes of the functions, and of those that they call."""
    queue = list(functions.items())
    for name, depth in queue:  # grows while it is walked
        function = graph.functions.get(name)
        if function is None:
            continue
        nodes = {n.name: n for n in function.node_def}
        for n in function.node_def:
            yield _body_step(n, nodes, depth + 1)
            for value in n.attr.values():
                for func in functions_in(value):
                    if func.name not in functions:
                        functions[func.name] = depth + 1
                        queue.append((func.name, depth + 1))


def _body_step(node: Any, nodes: dict[str, Any], depth: int) -> Step:
    def value(i: int) -> Constant | None:
        if i >= len(node.input):
            return None
        producer = nodes.get(node.input[i].split(":")[0])
        if producer is None or producer.op != "Const":
            return None
        return decode_tensor(producer.attr["value"].tensor)

    return Step(node.op, node.name, lambda key: node.attr.get(key, None), value, -1, depth)
