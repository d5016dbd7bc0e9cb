"""The inputs and outputs of a graph with the shapes that follow, where the graph states none."""

from __future__ import annotations

from gdsurgeon.analysis.queries.signature import Signature, TensorInfo, input_nodes, output_nodes
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output

MOST_NODES = 50_000
"""Nodes of a graph in which shapes are inferred only to be told: of more it takes longer than all else."""


def inferred_signature(graph: Graph, stated: Signature) -> Signature:
    """Returns `stated`, the signature of `graph`, with inferred shapes for unknown ones.

    In a graph of more than `MOST_NODES` they stay unknown.
    """
    if all(info.shape is not None for info in (*stated.inputs, *stated.outputs)) or graph.node_count > MOST_NODES:
        return stated
    from gdsurgeon.analysis.shapes.inference import infer_shapes

    inputs = [node.output for node in input_nodes(graph)]
    outputs = [output for node in output_nodes(graph) for output in node.outputs]
    shapes = infer_shapes(graph, wanted=[*inputs, *outputs])

    def known(info: TensorInfo, output: Output) -> TensorInfo:
        return info if info.shape is not None else info._replace(shape=shapes.shape(output))

    return Signature(
        tuple(map(known, stated.inputs, inputs)),
        tuple(map(known, stated.outputs, outputs)),
    )
