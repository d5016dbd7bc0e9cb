"""Shape rules of ops that rearrange, slice, join and gather."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.analysis.shapes.arithmetic import (
    MOST_OUTPUTS,
    RULES,
    UNKNOWN,
    Call,
    Misfit,
    Value,
    agreed,
    as_dims,
    axis_of,
    count,
    known_product,
    merge,
    merge_all,
    merge_dims,
    replaced,
)
from gdsurgeon.graph.attrs import Shape, format_shape, shape_of
from gdsurgeon.ops.dtypes import base_dtype, element_size

# The same elements in a different shape.


def reshaped(shape: Shape, target: Value, stated: Shape = None) -> Shape:
    """Returns the shape of a reshaped tensor.

    Args:
        target: the second input's value, in which -1 stands for what is left.
        stated: the known shape if the value is unknown.

    Raises:
        Misfit: the elements do not fit.
    """
    if target is None:
        return stated
    out = [UNKNOWN if dim is None else dim for dim in target]
    rest = [i for i, dim in enumerate(target) if dim is None or dim < 0]
    known, elements = known_product(out), count(shape)
    shown = f"{format_shape(shape)} reshaped to {format_target(target)}"
    fallback = [tuple(out)]
    if not rest:
        least = known_product(shape or ())
        if (elements is not None and elements != known) or (known and (not least or known % least)):
            raise Misfit(shown, fallback)
    elif elements is not None and known and elements % known:
        raise Misfit(shown, fallback)
    elif elements is not None and known and len(rest) == 1:
        out[rest[0]] = elements // known
    return tuple(out)


def format_target(target: Value) -> str:
    """Returns the second input of a Reshape as text: ``[-1,?,3]``, with ``?`` for an unknown element."""
    if target is None:
        return "[...]"
    return "[" + ",".join("?" if dim is None else str(dim) for dim in target) + "]"


@RULES.of("Squeeze")
def _squeeze(call: Call) -> Sequence[Shape]:
    shape, axes = call.known(0), call.ints("squeeze_dims")
    if not axes and UNKNOWN in shape:
        return []
    gone = {axis_of(axis, len(shape)) for axis in axes} or {i for i, dim in enumerate(shape) if dim == 1}
    out = tuple(dim for i, dim in enumerate(shape) if i not in gone)
    if any(shape[axis] > 1 or shape[axis] == 0 for axis in gone):
        raise Misfit(f"axes {sorted(gone)} of {format_shape(shape)} cannot be dropped: they must have size 1", [out])
    return [out]


@RULES.of("ExpandDims")
def _expand_dims(call: Call) -> Sequence[Shape]:
    shape, axis = call.known(0), call.scalar(1)
    if axis is None:
        return [(UNKNOWN,) * (len(shape) + 1)]
    return [_inserted(shape, axis, 1)]


@RULES.of("Transpose ConjugateTranspose")
def _transpose(call: Call) -> Sequence[Shape]:
    shape, order = call.shape(0), call.value(1)
    if shape is None:
        length = call.length(1)
        return [None if length is None else (UNKNOWN,) * length]
    if order is not None and len(order) != len(shape):
        raise Misfit(f"{format_shape(shape)} has {len(shape)} dimensions, but the permutation has {len(order)}")
    if order is None or None in order:
        return [shape if len(shape) < 2 else (UNKNOWN,) * len(shape)]
    return [tuple(shape[axis_of(axis, len(shape))] for axis in order if axis is not None)]


@RULES.of("Bitcast")
def _bitcast(call: Call) -> Sequence[Shape]:
    shape = call.known(0)
    before, after = (element_size(base_dtype(call.number(key))) for key in ("T", "type"))
    if not before or not after:
        return []
    if before >= after:
        return [shape if before == after else (*shape, before // after)]
    if shape[-1:] != (after // before,) and shape[-1:] != (UNKNOWN,):
        raise Misfit(f"it reduces each {after // before} numbers to one, but its input is {format_shape(shape)}")
    return [shape[:-1]]


# Ops that join and split.


@RULES.of("ConcatV2 Concat")
def _concat(call: Call) -> Sequence[Shape]:
    first = call.op == "Concat"
    shapes = call.shapes[1:] if first else call.shapes[:-1]
    axis = call.scalar(0 if first else -1)
    ranks = {len(shape) for shape in shapes if shape is not None}
    if not ranks:
        return []
    if len(ranks) > 1:
        raise Misfit("it joins " + ", ".join(map(format_shape, shapes)))
    rank = ranks.pop()
    if axis is None:
        return [(UNKNOWN,) * rank]
    at = axis_of(axis, rank)
    total = 0
    others: list[Shape] = []
    for shape in shapes:
        dim = shape[at] if shape is not None else UNKNOWN
        total = UNKNOWN if UNKNOWN in (dim, total) else total + dim
        others.append(None if shape is None else replaced(shape, at, UNKNOWN))
    try:
        return [replaced(merge_all(others) or (), at, total)]
    except Misfit:
        text = ", ".join(map(format_shape, shapes[:8])) + (", ..." if len(shapes) > 8 else "")
        known = agreed([shape for shape in others if shape is not None])
        raise Misfit(f"it joins {text} along axis {at}", [known]) from None


@RULES.of("Unpack")
def _unpack(call: Call) -> Sequence[Shape]:
    shape, number = call.known(0), call.number("num")
    if number > MOST_OUTPUTS:
        return []
    at = axis_of(call.number("axis"), len(shape))
    part = replaced(shape, at)
    if shape[at] not in (UNKNOWN, number):
        raise Misfit(f"it unpacks {format_shape(shape)} into {number} tensors", [part] * number)
    return [part] * number


@RULES.of("Split SplitV")
def _split(call: Call) -> Sequence[Shape]:
    is_even, number = call.op == "Split", call.number("num_split")
    shape, axis = call.known(1 if is_even else 0), call.scalar(0 if is_even else 2)
    if not 0 < number <= MOST_OUTPUTS:
        return []
    if axis is None:
        return [(UNKNOWN,) * len(shape)] * number
    at = axis_of(axis, len(shape))
    dim = shape[at]
    if is_even:
        if dim >= 0 and dim % number:
            raise Misfit(f"it splits {format_shape(shape)} into {number} parts along axis {at}")
        return [replaced(shape, at, dim // number if dim >= 0 else UNKNOWN)] * number
    sizes = call.value(1)
    parts = [*as_dims(sizes or (None,) * number)]
    known = sum(part for part in parts if part >= 0)
    if dim >= 0 and (known > dim or (known < dim and UNKNOWN not in parts)):
        text = f"it splits {format_shape(shape)} into {format_target(sizes)} along axis {at}"
        raise Misfit(text, [replaced(shape, at, part) for part in parts])
    if dim >= 0 and parts.count(UNKNOWN) == 1:
        parts[parts.index(UNKNOWN)] = dim - known
    return [replaced(shape, at, part) for part in parts]


@RULES.of("Tile")
def _tile(call: Call) -> Sequence[Shape]:
    shape, times = call.shape(0), call.value(1)
    if shape is None or times is None:
        rank = len(shape) if shape is not None else call.length(1)
        return [(UNKNOWN,) * rank if rank is not None else None]
    if len(times) != len(shape):
        raise Misfit(f"{format_shape(shape)} tiled {format_target(times)} times")
    return [
        tuple(
            0 if n == 0 or dim == 0 else UNKNOWN if n is None or dim < 0 else n * dim
            for n, dim in zip(times, shape, strict=True)
        )
    ]


@RULES.of("Pad PadV2 MirrorPad")
def _pad(call: Call) -> Sequence[Shape]:
    shape, pads = call.shape(0), call.value(1)
    if shape is None:
        size = call.shape(1)
        return [(UNKNOWN,) * size[0] if size is not None and 0 <= size[0] <= 254 else None]
    if pads is None:
        return [(UNKNOWN,) * len(shape)]
    if len(pads) != 2 * len(shape):
        raise Misfit(f"its paddings are for {len(pads) // 2} dimensions, but its input is {format_shape(shape)}")
    out: list[int] = []
    for i, dim in enumerate(shape):
        before, after = pads[2 * i : 2 * i + 2]
        out.append(UNKNOWN if dim < 0 or before is None or after is None else dim + before + after)
    return [tuple(out)]


# Ops that slice.


@RULES.of("Slice")
def _slice(call: Call) -> Sequence[Shape]:
    shape, begins, sizes = call.shape(0), call.value(1), call.value(2)
    rank = len(shape) if shape is not None else call.length(1)
    if rank is None:
        rank = call.length(2)
    if rank is None:
        return []
    dims = shape if shape is not None else (UNKNOWN,) * rank
    starts, lengths = begins or (None,) * rank, sizes or (None,) * rank
    out: list[int] = []
    fits = True
    for dim, begin, size in zip(dims, starts, lengths, strict=True):
        if size is None or (size < 0 and (begin is None or dim < 0)):
            out.append(UNKNOWN)
        elif size < 0:
            fits = fits and begin is not None and 0 <= begin <= dim
            out.append(dim - begin if begin is not None else UNKNOWN)
        else:
            fits = fits and (dim < 0 or (begin or 0) + size <= dim)
            out.append(size)
    if not fits:
        raise Misfit(
            f"its slice of size {format_target(sizes)} at {format_target(begins)} is not inside {format_shape(shape)}"
        )
    return [tuple(out)]


@RULES.of("StridedSlice")
def _strided_slice(call: Call) -> Sequence[Shape]:
    shape, spec = call.known(0), slice_spec(call)
    out: list[int] = []
    at = 0
    for item in spec:
        if item == "new":
            out.append(1)
            continue
        if at >= len(shape):
            count = len([x for x in spec if x != "new"])
            raise Misfit(f"its slice has {count} dimensions, but its input is {format_shape(shape)}")
        if isinstance(item, slice):
            out.append(_interval(shape[at], item))
        elif isinstance(item, int) and shape[at] >= 0 and not -shape[at] <= item < shape[at]:
            raise Misfit(f"it selects element {item} along axis {at} of {format_shape(shape)}")
        at += 1
    return [(*out, *shape[at:])]


_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def slice_spec(call: Call) -> list[slice | int | str | None]:
    """Returns the operation of a StridedSlice on each dim. Raises LookupError if it is unknown.

    A slice cuts a dim, ``new`` makes one, an int (None where it is not known) takes one element and so a dim away. A
    bound that is not known is the string ``?``.
    """
    shape = call.known(0)
    length = next((n for n in map(call.length, (1, 2, 3)) if n is not None), None)
    if length is None:
        raise LookupError("what is cut")
    begins, ends, strides = (call.value(i) or (None,) * length for i in (1, 2, 3))
    begin_mask, end_mask, ellipsis, new_axis, shrink = (call.number(f"{key}_mask") for key in _MASKS)
    out: list[slice | int | str | None] = []
    for i, (begin, end, stride) in enumerate(zip(begins, ends, strides, strict=True)):
        bit = 1 << i
        if ellipsis & bit:
            later = sum(1 for j in range(i + 1, length) if not new_axis >> j & 1)
            out += [slice(None)] * (len(shape) - later - sum(1 for item in out if item != "new"))
        elif new_axis & bit:
            out.append("new")
        elif shrink & bit:
            out.append(begin)
        else:
            first = None if begin_mask & bit else "?" if begin is None else begin
            last = None if end_mask & bit else "?" if end is None else end
            out.append(slice(first, last, "?" if stride is None else stride))
    return out


def _interval(dim: int, cut: slice) -> int:
    if cut.start is None and cut.stop is None and cut.step in (None, 1, -1):
        return dim
    if dim < 0 or "?" in (cut.start, cut.stop, cut.step) or cut.step == 0:
        return UNKNOWN
    return len(range(*cut.indices(dim)))


# Ops that look up elements.


@RULES.of("GatherV2")
def _gather_v2(call: Call) -> Sequence[Shape]:
    table, indices, axis = call.known(0), call.known(1), call.scalar(2)
    batch = call.number("batch_dims")
    if batch < 0:
        batch += len(indices)
    if axis is None:
        return [(UNKNOWN,) * (len(table) + len(indices) - batch - 1)]
    at = axis_of(axis, len(table))
    front = merge(table[:batch], indices[:batch]) or ()
    return [front + table[batch:at] + indices[batch:] + table[at + 1 :]]


@RULES.of("GatherNd")
def _gather_nd(call: Call) -> Sequence[Shape]:
    table, indices = call.known(0), call.shape(1)
    if not indices or indices[-1] < 0:
        return []
    if indices[-1] > len(table):
        raise Misfit(f"indices {format_shape(indices)} into {format_shape(table)}")
    return [indices[:-1] + table[indices[-1] :]]


@RULES.of("TopK TopKV2")
def _top_k(call: Call) -> Sequence[Shape]:
    shape, k = call.known(0), call.number("k", UNKNOWN) if call.op == "TopK" else call.scalar(1)
    last = shape[axis_of(-1, len(shape))]
    if k is not None and 0 <= last < k:
        raise Misfit(f"it selects the top {k} of {format_shape(shape)}", [(*shape[:-1], k)] * 2)
    return [(*shape[:-1], UNKNOWN if k is None else k)] * 2


@RULES.of("DynamicStitch ParallelDynamicStitch")
def _dynamic_stitch(call: Call) -> Sequence[Shape]:
    number = len(call.shapes) // 2
    pairs = zip(call.shapes[:number], call.shapes[number:], strict=True)
    elements = merge_all(_behind(at, data) for at, data in pairs if at is not None and data is not None)
    return [None if elements is None else (UNKNOWN, *elements)]


def _inserted(shape: Shape, axis: int, dim: int) -> Shape:
    """Returns `shape` with one more dim `dim` at `axis`."""
    if shape is None:
        return None
    at = axis_of(axis, len(shape) + 1)
    return (*shape[:at], dim, *shape[at:])


def range_of(call: Call) -> range | None:
    """Returns the elements of a Range; None if they are unknown."""
    start, limit, delta = (call.scalar(i) for i in range(3))
    return None if start is None or limit is None or not delta else range(start, limit, delta)


def _behind(places: tuple[int, ...], data: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the dims of `data` after its first dims, which must be `places`. Raises Misfit if they differ."""
    merge(places, data[: len(places)])
    return data[len(places) :]


@RULES.of("NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5")
def _non_max_suppression(call: Call) -> Sequence[Shape]:
    most = call.scalar(2)
    padded = call.op[-2:] in ("V4", "V5") and bool(call.attr("pad_to_max_output_size"))
    found = (most if padded and most is not None else UNKNOWN,)
    if call.op.endswith("V4"):
        return [found, ()]
    return [found, found, ()] if call.op.endswith("V5") else [found]


@RULES.of("CombinedNonMaxSuppression")
def _combined_non_max_suppression(call: Call) -> Sequence[Shape]:
    images = merge_dims(call.ranked(0, 4)[0], call.ranked(1, 3)[0])
    most = UNKNOWN if call.attr("pad_per_class") else call.size(3)
    return [(images, most, 4), (images, most), (images, most), (images,)]


@RULES.of("MapDefun")
def _map_defun(call: Call) -> Sequence[Shape]:
    """Returns the stated shapes of the results for one element, with the number of elements as first dim."""
    stated, count = call.node.attr("output_shapes"), call.known(0)[0]
    items = [shape_of(shape) for shape in stated.list.shape] if stated is not None else []
    return [None if item is None else (count, *item) for item in items]


RULES.add(
    {
        "Reshape": lambda call: [reshaped(call.shape(0), call.value(1), call.dims(1))],
        "OneHot": lambda call: [_inserted(call.known(0), call.number("axis", -1), call.size(1))],
        "Pack": lambda call: [_inserted(merge_all(call.shapes), call.number("axis"), len(call.shapes))],
        "Range": lambda call: [(UNKNOWN if (found := range_of(call)) is None else len(found),)],
        "DynamicPartition": lambda call: (
            [(UNKNOWN, *_behind(call.known(1), call.known(0)))] * min(call.number("num_partitions"), MOST_OUTPUTS)
        ),
        "TensorArrayGatherV3": lambda call: [
            None if (shape := call.stated("element_shape")) is None else call.ranked(1, 1) + shape
        ],
        "InvertPermutation": lambda call: [call.ranked(0, 1)],
        "Gather": lambda call: [call.known(1) + call.known(0)[1:]],
        "ScatterNd": lambda call: [call.dims(2)],
        "SparseToDense": lambda call: [call.dims(1)],
        "LinSpace": lambda call: [(call.size(2),)],
        "Where": lambda call: [(UNKNOWN, UNKNOWN if call.shape(0) is None else len(call.known(0)))],
        "Unique": lambda call: [(UNKNOWN,), call.shape(0)],
        "BroadcastGradientArgs": lambda _: [(UNKNOWN,), (UNKNOWN,)],
        "UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd": lambda call: [
            (call.size(2), *call.known(0)[len(call.known(1)) :])
        ],
        "NonMaxSuppressionWithOverlaps": lambda _: [(UNKNOWN,)],
        # TensorArrays: a handle without a stated shape, and a flow.
        "TensorArrayV3": lambda _: [None, ()],
        "TensorArrayWriteV3 TensorArrayScatterV3 TensorArraySplitV3": lambda _: [()],
    }
)
