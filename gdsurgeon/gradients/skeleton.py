"""A graph without its weights, sufficient to differentiate it and to infer its shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.analysis.traversal.walks import members
from gdsurgeon.graph.attrs import shape_value, type_value
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import SCALAR_MEANS_UNKNOWN_BEFORE, Node, Output
from gdsurgeon.graph.writing import node_def
from gdsurgeon.ops.kinds import COLOCATION_ATTR, PLACEHOLDERS
from gdsurgeon.wire.protos import GraphDef, NodeDef

MOST_ELEMENTS = 1024
"""Elements of a constant whose values may decide a shape or an axis; larger ones are weights."""


def skeleton(graph: Graph, tensors: Iterable[Output]) -> GraphDef:
    """The part of GRAPH on which TENSORS depend, as a GraphDef; Placeholders stand for its weights.

    Colocations are left out. The function library is whole. The order is that of the file.
    """
    topology = topology_of(graph)
    seeds = [topology.id_of(tensor.node) for tensor in tensors]
    out = GraphDef()
    if graph.store.producer:
        out.versions.producer = graph.store.producer
    for number in members(topology.upstream(seeds)):
        out.node.append(_without_weights(topology.node(number)))
    for function in graph.functions:
        out.library.function.add().CopyFrom(function)
    return out


def _without_weights(node: Node) -> NodeDef:
    header = constant_header(node) if node.op == "Const" else None
    if header is None or header.dims is None or header.elements <= MOST_ELEMENTS:
        definition = node_def(node)
        definition.attr.pop(COLOCATION_ATTR, None)
        return definition
    definition = NodeDef(name=node.name, op="Placeholder", device=node.device)
    definition.input.extend(f"^{control.name}" for control in node.controls)
    definition.attr["dtype"].CopyFrom(type_value(header.dtype))
    definition.attr["shape"].CopyFrom(shape_value(header.dims))
    return definition


def with_shapes(definition: GraphDef, shapes: Mapping[str, tuple[int, ...]], otherwise: int) -> GraphDef:
    """A copy of a GraphDef in which every placeholder has a full shape, for the inference of all others.

    Args:
        definition: the GraphDef.
        shapes: of placeholders, by name.
        otherwise: the size of every unknown dimension of the others.
    """
    out = type(definition)()
    out.CopyFrom(definition)
    for node in out.node:
        if node.op not in PLACEHOLDERS:
            continue
        if node.name in shapes:
            # Where graphs are so old that a scalar shape stands for none, only the op's second version can be one.
            is_old = out.versions.producer < SCALAR_MEANS_UNKNOWN_BEFORE
            node.op = "PlaceholderV2" if is_old and not shapes[node.name] else "Placeholder"
            node.attr["shape"].CopyFrom(shape_value(shapes[node.name]))
            del node.input[:]
        elif node.op == "PlaceholderWithDefault":
            node.op = "Identity"  # of its default value
            node.attr["T"].CopyFrom(node.attr["dtype"])
            del node.attr["dtype"], node.attr["shape"]
        elif node.attr["shape"].HasField("shape") and not node.attr["shape"].shape.unknown_rank:
            for dim in node.attr["shape"].shape.dim:
                dim.size = otherwise if dim.size < 0 else dim.size
    return out
