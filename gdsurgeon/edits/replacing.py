"""Parts that edits put in place of nodes: placeholders, Identity nodes, and clean-up after nodes are removed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.shapes.stated import stated_shape
from gdsurgeon.graph.attrs import Shape, shape_value, type_value, types_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.placeholders import SCALAR_MEANS_UNKNOWN_BEFORE
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import PLACEHOLDERS


def known_shapes(graph: Graph, outputs: Iterable[Output]) -> dict[Output, Shape]:
    """The shapes of OUTPUTS, stated or inferred; the inference looks at the whole graph, so it runs if it must."""
    out = {output: stated_shape(output) for output in outputs}
    unknown = [output for output, shape in out.items() if shape is None]
    if unknown:
        shapes = infer_shapes(graph, wanted=unknown)
        out = {output: shape if shape is not None else shapes.shape(output) for output, shape in out.items()}
    return out


def add_placeholder(graph: Graph, name: str, dtype: int, shape: Shape, *, after: Node | None = None) -> Node:
    """Adds a Placeholder. In a graph of a producer that had no unknown shapes a scalar is written as one, too."""
    attrs = {"dtype": type_value(base_dtype(dtype)).SerializeToString()}
    if shape is not None or graph.store.producer >= SCALAR_MEANS_UNKNOWN_BEFORE:
        attrs["shape"] = shape_value(shape).SerializeToString()
    return graph.add(name, "Placeholder", attrs=attrs, after=after)


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
    return graph.add(name, op, tensors, controls, attrs={"T": value}, after=after)


def remove_unread(graph: Graph, nodes: Iterable[Node], kept: Container[Node] = ()) -> list[str]:
    """Removes those of NODES that nobody reads, waits for or stands beside, and what is then the same of what they read
    and waited for; inputs stay, and those that are to be KEPT. Returns names."""
    out: list[str] = []
    pending = list(nodes)
    while pending:
        node = pending.pop()
        gone = node in kept or graph.find(node.name) is not node
        if not gone and node.op not in PLACEHOLDERS and not graph.users(node) and not graph.colocated_with(node):
            out.append(node.name)
            pending += [*(read.node for read in node.inputs), *node.controls]
            graph.remove([node])
    return out


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


def unrenamed_outputs(graph: Graph) -> tuple[tuple[str, str], ...]:
    """The outputs of the edited GRAPH that the graph before had as tensors of the same names."""
    kept = (node for node in output_nodes(graph) if node.base_name == node.name)
    return tuple((output.name, output.name) for node in kept for output in node.outputs)
