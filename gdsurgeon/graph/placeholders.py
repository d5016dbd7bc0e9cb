"""The shapes that placeholders state."""

from __future__ import annotations

from gdsurgeon.graph.attrs import Shape, shape_of
from gdsurgeon.graph.node import Node

SCALAR_MEANS_UNKNOWN_BEFORE = 24
"""A graph of a producer before this one writes an unknown shape as that of a scalar."""


def placeholder_shape(node: Node) -> Shape:
    """The shape that a placeholder takes."""
    value = node.attr("shape")
    if value is None or value.WhichOneof("value") != "shape":
        return None
    shape = shape_of(value.shape)
    if shape == () and node.op == "Placeholder" and node.graph.store.producer < SCALAR_MEANS_UNKNOWN_BEFORE:
        return None
    return shape
