"""Placeholders that take the place of tensors."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.shapes.stated import stated_shape
from gdsurgeon.graph.attrs import Shape, shape_value, type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.placeholders import SCALAR_MEANS_UNKNOWN_BEFORE
from gdsurgeon.ops.dtypes import base_dtype


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
