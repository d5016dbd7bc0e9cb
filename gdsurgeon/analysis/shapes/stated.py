"""The shapes that a graph states, without inference."""

from __future__ import annotations

from gdsurgeon.graph.attrs import Shape, format_shape, shape_of
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.node import Output, same_dtype
from gdsurgeon.graph.placeholders import placeholder_shape
from gdsurgeon.ops.attr_names import STATED_SHAPES
from gdsurgeon.ops.dtypes import base_dtype, dtype_name
from gdsurgeon.ops.kinds import PLACEHOLDERS


def stated_shape(output: Output) -> Shape:
    """The shape of a placeholder, a constant, or a node with an ``_output_shapes`` attr; else None (unknown)."""
    node = output.node
    if not node.exists:
        return None
    if node.op in PLACEHOLDERS:
        return placeholder_shape(node)
    if node.op == "Const":
        header = constant_header(node)
        return header.dims if header is not None else None
    value = node.attr(STATED_SHAPES)
    if value is not None and output.index < len(value.list.shape):
        return shape_of(value.list.shape[output.index])
    return None


def compatible(a: Shape, b: Shape) -> bool:
    """Returns whether one tensor can have both shapes; an unknown shape fits all."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(x == y or x < 0 or y < 0 for x, y in zip(a, b, strict=True))


def may_be_one(a: Output, b: Output) -> bool:
    """Returns whether one tensor can replace the other, by their known dtypes and stated shapes."""
    return not mismatch(a, b)


def mismatch(a: Output, b: Output) -> str:
    """The code of the error that one tensor cannot stand for the other, or '' where it can; see `may_be_one`."""
    if not same_dtype(a.dtype, b.dtype):
        return "dtype-mismatch"
    return "" if compatible(stated_shape(a), stated_shape(b)) else "shape-mismatch"


def describe(output: Output) -> str:
    """``float32 [?,3]``: dtype and stated shape of a tensor; ``unknown`` where neither is known."""
    return typed(output.dtype, stated_shape(output))


def typed(dtype: int, shape: Shape) -> str:
    """The same of a DataType, 0 where it is not known, and a shape."""
    if not dtype:
        return "unknown type"
    return dtype_name(base_dtype(dtype)) + (f" {format_shape(shape)}" if shape is not None else "")
