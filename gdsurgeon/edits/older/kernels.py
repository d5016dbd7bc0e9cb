"""Ops that a release has, of which its kernels take less than those of today."""

from __future__ import annotations

from gdsurgeon.analysis.queries.compatibility import groups
from gdsurgeon.edits.older.broadcasting import shape_of
from gdsurgeon.edits.older.site import Rule, Site, is_known, typed
from gdsurgeon.graph.attrs import int_value
from gdsurgeon.graph.node import Output
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


def grouped(site: Site) -> str | None:
    """A convolution of several groups: where each has one channel a depthwise one, else a convolution of each."""
    read, filters = site.node.inputs[0], site.shape(1)
    unpadded = read.node.inputs[0] if read.node.op == "Pad" else read  # which may have come just now
    count = groups(site.node, [site.known(read) or site.known(unpadded), filters])
    if count == 1 or filters is None:
        return None
    across = 1 if site.node.text_attr("data_format") == "NCHW" else 3
    strides = [each for axis, each in enumerate(site.node.ints_attr("strides")) if axis not in (0, across)]
    dtype = site.dtype(0)
    says_paddings = site.node.text_attr("padding") == "EXPLICIT"  # which the other does not everywhere
    if filters[2] == 1 and len({*strides}) == 1 and is_known(filters) and not says_paddings:
        wanted = site.ints("filter/shape", [*filters[:2], count, filters[3] // count])
        alone = site.add("filter", "Reshape", [site.node.inputs[1], wanted], **typed(T=dtype, Tshape=INT32))
        return site.become("DepthwiseConv2dNative", [site.node.inputs[0], alone], drop=("use_cudnn_on_gpu",))
    parts = []
    for name, read, axis in (("input", site.node.inputs[0], across), ("filters", site.node.inputs[1], 3)):
        along = site.ints(f"{name}/axis", axis)
        parts.append(site.add(name, "Split", [along, read], num_split=int_value(count), **typed(T=dtype)).node)
    attrs = dict(site.node.attrs())
    convolved = [site.add(f"group_{index}", "Conv2D", [Output(part, index) for part in parts], **attrs)
                 for index in range(count)]  # fmt: skip
    inputs = [*convolved, site.ints("axis", across)]
    return site.become("ConcatV2", inputs, drop=attrs, attrs={"N": int_value(count), **typed(T=dtype, Tidx=INT32)})


RULES = (
    Rule("Softmax", "Softmax of a matrix, and Reshape", "", _of_rows),
    Rule("LogSoftmax", "LogSoftmax of a matrix, and Reshape", "", _of_rows),
)
