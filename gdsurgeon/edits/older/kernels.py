"""Ops that a release has, of which its kernels take less than those of today."""

from __future__ import annotations

from gdsurgeon.edits.older.broadcasting import shape_of
from gdsurgeon.edits.older.site import Rule, Site, typed
from gdsurgeon.graph.attrs import int_value
from gdsurgeon.ops.dtypes import INT32


def _of_rows(site: Site) -> str | None:
    """A softmax of the rows of a matrix, which all rows of a tensor are made, and are no longer."""
    node, read, shape, dtype = site.node, site.node.inputs[0], site.shape(0), site.dtype(0)
    if shape is not None and len(shape) == 2:
        return None
    whole = shape_of(site, read, "shape")
    if shape and shape[-1] >= 0:
        rows = site.ints("rows", [-1, shape[-1]])
    else:
        rank = site.add("rank", "Rank", [read], **typed(T=dtype))
        last = site.add("last", "Sub", [rank, site.ints("one", 1)], **typed(T=INT32))
        begin = site.add("begin", "Reshape", [last, site.ints("vector", [1])], **typed(T=INT32, Tshape=INT32))
        width = site.add("width", "Slice", [whole, begin, site.ints("size", [1])], **typed(T=INT32, Index=INT32))
        parts = [site.ints("all", [-1]), width, site.ints("axis", 0)]
        rows = site.add("rows", "ConcatV2", parts, **typed(T=INT32, Tidx=INT32), N=int_value(2))
    flat = site.add("flat", "Reshape", [read, rows], **typed(T=dtype, Tshape=INT32))
    computed = site.add("computed", node.op, [flat], **typed(T=dtype))
    return site.become("Reshape", [computed, whole], attrs=typed(Tshape=INT32))


RULES = (
    Rule("Softmax", "Softmax of a matrix, and Reshape", "", _of_rows),
    Rule("LogSoftmax", "LogSoftmax of a matrix, and Reshape", "", _of_rows),
)
