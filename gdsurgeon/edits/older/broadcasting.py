"""Broadcasting spelt out: a tensor of any type is tiled, which copies elements and computes none."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.edits.older.site import Rule, Site, is_known, typed
from gdsurgeon.graph.attrs import Shape, int_value
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import INT32, base_dtype


def shape_of(site: Site, read: Output, name: str) -> Output:
    """The shape of a tensor, when the graph runs."""
    return site.add(name, "Shape", [read], **typed(T=base_dtype(read.dtype), out_type=INT32))


def part_of_shape(site: Site, slot: int, *, batch: bool) -> Output:
    """The dims of an input but for the last two, or (without BATCH) those."""
    shape = shape_of(site, site.node.inputs[slot], f"{'batch' if batch else 'matrix'}_{slot}/shape")
    scope = shape.node.name.rpartition("/")[0].removeprefix(f"{site.node.name}/")
    rank = site.add(f"{scope}/rank", "Size", [shape], **typed(T=INT32, out_type=INT32))
    two = site.ints(f"{scope}/two", [2])
    one = site.ints(f"{scope}/one", [1])
    size = site.add(f"{scope}/ranks", "Reshape", [rank, one], **typed(T=INT32, Tshape=INT32))
    outer = site.add(f"{scope}/outer", "Sub", [size, two], **typed(T=INT32))
    begin, count = (site.ints(f"{scope}/zero", [0]), outer) if batch else (outer, two)
    return site.add(f"{scope}/dims", "Slice", [shape, begin, count], **typed(T=INT32, Index=INT32))


def broadcast_shape(site: Site, shapes: Sequence[Output]) -> Output:
    """The shape to which tensors of SHAPES broadcast."""
    common, *others = shapes
    for number, other in enumerate(others):
        common = site.add(f"common_{number}", "BroadcastArgs", [common, other], **typed(T=INT32))
    return common


def broadcast(site: Site, read: Output, shape: Output, name: str) -> Output:
    """A tensor tiled to a shape to which it broadcasts."""
    wide, times = _tiling(site, read, shape, name)
    dtypes = typed(T=base_dtype(read.dtype), Tmultiples=INT32)
    return site.add(f"{name}/tiled", "Tile", [wide, times], **dtypes)


def _tiling(site: Site, read: Output, shape: Output, name: str) -> tuple[Output, Output]:
    """A tensor with as many dims as SHAPE has, and how often it is there in each."""
    ints = typed(T=INT32)
    own = shape_of(site, read, f"{name}/shape")
    rank, its = (site.add(f"{name}/{what}", "Size", [given], **typed(T=INT32, out_type=INT32))
                 for what, given in (("rank", shape), ("own_rank", own)))  # fmt: skip
    missing = site.add(f"{name}/missing", "Sub", [rank, its], **ints)
    vector = site.ints(f"{name}/vector", [1])
    dims = site.add(f"{name}/count", "Reshape", [missing, vector], **typed(T=INT32, Tshape=INT32))
    one = site.ints(f"{name}/one", 1)
    ones = site.add(f"{name}/ones", "Fill", [dims, one], **ints)
    parts = [ones, own, site.ints(f"{name}/axis", 0)]
    padded = site.add(f"{name}/padded", "ConcatV2", parts, **ints, **typed(Tidx=INT32), N=int_value(2))
    wide = site.add(f"{name}/wide", "Reshape", [read, padded], **typed(T=base_dtype(read.dtype), Tshape=INT32))
    least = site.add(f"{name}/least", "Maximum", [padded, one], **ints)  # of no elements there are none
    return wide, site.add(f"{name}/times", "FloorDiv", [shape, least], **ints)


def _select(site: Site) -> str:
    shapes = [site.shape(slot) for slot in range(3)]
    if _is_plain_select(shapes):
        return site.become("Select")
    all_shapes = [shape_of(site, read, f"shape_{slot}") for slot, read in enumerate(site.node.inputs)]
    common = broadcast_shape(site, all_shapes)
    return site.become("Select", [broadcast(site, read, common, f"input_{slot}")
                                  for slot, read in enumerate(site.node.inputs)])  # fmt: skip


def _is_plain_select(shapes: Sequence[Shape]) -> bool:
    """Whether Select takes tensors of these shapes as they are."""
    condition, one, other = shapes
    return one == other and is_known(one) and (condition == one or condition == ())


def _broadcast_to(site: Site) -> str:
    read, shape = site.node.inputs
    if base_dtype(shape.dtype) != INT32:
        shape = site.add("as_int32", "Cast", [shape], **typed(SrcT=base_dtype(shape.dtype), DstT=INT32))
    inputs = _tiling(site, read, shape, "to")
    return site.become("Tile", inputs, drop=("Tidx",), attrs=typed(Tmultiples=INT32))


RULES = (
    Rule("SelectV2", "Select, its inputs broadcast before it", "", _select),
    Rule("BroadcastTo", "Tile", "", _broadcast_to),
)
