"""Ops that hand elements on, or say less of what they do."""

from __future__ import annotations

from gdsurgeon.edits.older.broadcasting import shape_of
from gdsurgeon.edits.older.site import Rule, Site, typed
from gdsurgeon.errors import Remark
from gdsurgeon.graph.attrs import int_value
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import INT32, INT64


def _ensure_shape(site: Site) -> str:
    site.note("EnsureShape is replaced by Identity: tensors of a wrong shape are no longer refused")
    return site.become("Identity", drop=("shape",))


def _no_copy_on_read(site: Site) -> str:
    return site.become("NoOp", [])  # it says how a variable is read, and nothing of what


def _gather(site: Site) -> str | None:
    """A gather of each row of a batch: of all rows laid one behind the other, at places counted from the first."""
    count = site.node.setting("batch_dims")
    params, indices, _ = site.node.inputs
    along = site.value(2)
    if not isinstance(count, int) or count == 0:
        return None
    if along is None or along.values != [count]:
        return Remark("it has an older equivalent only if its axis is a constant that equals batch_dims", "other-axis")
    dtype, kind = site.dtype(0), site.dtype(1)
    whole = shape_of(site, params, "shape")
    ends = {name: site.ints(name, [number]) for name, number in (("begin", 0), ("dims", count), ("next", count),
            ("one", 1), ("behind", count + 1), ("all", -1))}  # fmt: skip

    def part(name: str, begin: str, size: str) -> Output:
        return site.add(name, "Slice", [whole, ends[begin], ends[size]], **typed(T=INT32, Index=INT32))

    zero = site.ints("zero", 0)
    batch = site.add("batch", "Prod", [part("batch/dims", "begin", "dims"), zero], **typed(T=INT32, Tidx=INT32))
    width = site.add("width", "Squeeze", [part("width/dim", "next", "one")], **typed(T=INT32))
    numbers = site.add("numbers", "Range", [zero, batch, site.ints("by", 1)], **typed(Tidx=INT32))
    begins = site.add("begins", "Mul", [numbers, width], **typed(T=INT32))
    rank = site.add("rank", "Size", [shape_of(site, indices, "indices")], **typed(T=INT32, out_type=INT32))
    left = site.add("left", "Sub", [site.add("ranks", "Reshape", [rank, ends["one"]], **typed(T=INT32, Tshape=INT32)),
                                    ends["dims"]], **typed(T=INT32))  # fmt: skip
    ones = site.add("ones", "Fill", [left, site.ints("each", 1)], **typed(T=INT32))
    outer = [part("outer", "begin", "dims"), ones, zero]
    laid = site.add("laid", "ConcatV2", outer, N=int_value(2), **typed(T=INT32, Tidx=INT32))
    offsets = site.add("offsets", "Reshape", [begins, laid], **typed(T=INT32, Tshape=INT32))
    if kind != INT32:
        offsets = site.add("offsets/cast", "Cast", [offsets], **typed(SrcT=INT32, DstT=kind))
    counted = site.add("places", "Add", [indices, offsets], **typed(T=kind))
    inner = [ends["all"], part("inner", "behind", "all"), zero]
    flat = site.add("flat/shape", "ConcatV2", inner, N=int_value(2), **typed(T=INT32, Tidx=INT32))
    rows_of_all = site.add("flat", "Reshape", [params, flat], **typed(T=dtype, Tshape=INT32))
    return site.become("GatherV2", [rows_of_all, counted, zero], drop=("batch_dims",), attrs=typed(Taxis=INT32))


def _band(site: Site) -> str:
    """The numbers of diagonals are int64 there."""
    matrix, *numbers = site.node.inputs
    wide = [site.add(name, "Cast", [number], **typed(SrcT=INT32, DstT=INT64))
            for name, number in zip(("lower", "upper"), numbers, strict=True)]  # fmt: skip
    return site.become("MatrixBandPart", [matrix, *wide], drop=("Tindex",))


def _case(site: Site) -> str:
    return site.become("Case")  # which does not say that its functions do nothing but compute


RULES = (
    Rule("EnsureShape", "Identity", "", _ensure_shape),
    Rule("GatherV2", "GatherV2 of all rows", "batch_dims is the axis, a constant; places are in range", _gather),
    Rule("MatrixBandPart", "MatrixBandPart by int64", "", _band),
    Rule("StatelessCase", "Case", "", _case),
    Rule("DisableCopyOnRead", "NoOp", "", _no_copy_on_read),
)
