"""What edits that take nodes away leave in their place: nodes that hand tensors on, no colocations with what went."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdsurgeon.graph.attrs import type_value, types_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import base_dtype


def hand_on(
    graph: Graph,
    name: str,
    tensors: Sequence[Output],
    controls: Sequence[Node] = (),
    after: Node | None = None,
    dtypes: Sequence[int] = (),
) -> Node:
    """Adds a node of that name which gives TENSORS, none of them a reference, index by index; of no tensors a NoOp.

    DTYPES: theirs, where they do not know them themselves.
    """
    types = [base_dtype(dtype) for dtype in dtypes or [tensor.dtype for tensor in tensors]]
    if not types:
        return graph.add(name, "NoOp", controls=controls, after=after)
    op, value = ("Identity", type_value(types[0])) if len(types) == 1 else ("IdentityN", types_value(types))
    return graph.add(name, op, tensors, controls, attrs={"T": value.SerializeToString()}, after=after)


def drop_colocations(graph: Graph, nodes: Iterable[Node]) -> dict[Node, Node]:
    """Takes NODES out of the colocations of all others; returns these, each with the first of NODES that it named."""
    gone = dict.fromkeys(nodes)
    found: dict[Node, Node] = {}
    for node in gone:
        for other in graph.colocated_with(node):
            if other not in gone:
                found.setdefault(other, node)
    for other in found:
        graph.set_colocated(other, [kept for kept in other.colocated if kept not in gone])
    return found
