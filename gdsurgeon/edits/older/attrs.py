"""Attrs that a release has not got: those that say nothing there, or nothing about values."""

from __future__ import annotations

from gdsurgeon.edits.older.site import Rule, Site
from gdsurgeon.errors import Remark
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.ops.kinds import CALLS, CASES, IFS, WHILES

HARMLESS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(IFS | CASES, ("output_shapes",)),
    **dict.fromkeys(WHILES, ("output_shapes", "parallel_iterations")),
    **dict.fromkeys(CALLS, ("config", "config_proto", "executor_type")),
    "VarHandleOp": ("debug_name",),
}
"""Attrs that state shapes, or say how something is run, by op: without them the values are the same."""


def _equal(site: Site) -> str:
    """Whether shapes fit is asked when the graph runs; where they are known to fit, nothing is asked."""
    if site.node.setting("incompatible_shape_error") or _fit(site.shape(0), site.shape(1)):
        return site.become(site.node.op, drop=("incompatible_shape_error",))
    return Remark(
        "it compares tensors whose shapes may not broadcast: set the input shapes with set-shape",
        "shape-unknown",
    )


def _fit(a: Shape, b: Shape) -> bool:
    """Whether tensors of these shapes broadcast for certain."""
    if a == () or b == ():
        return True
    if a is None or b is None:
        return False
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(x == 1 or y == 1 or x == y >= 0 for x, y in pairs)


def _tensor_array(site: Site) -> str:
    """Who says that all elements are of one shape is given some where nothing was written: an array of no rows."""
    site.note("in this release a TensorArray without any written element cannot be read as a whole")
    return site.become("TensorArrayV3", drop=("identical_element_shapes",))


RULES = (
    Rule("Equal", "Equal without incompatible_shape_error", "shapes that are known to broadcast", _equal),
    Rule("NotEqual", "NotEqual without incompatible_shape_error", "shapes that are known to broadcast", _equal),
    Rule("TensorArrayV3", "TensorArrayV3 without identical_element_shapes", "", _tensor_array),
)
