"""What an input is to its consumers where it is no data: an index, a shape, an axis, a number of things."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from gdsurgeon.analysis.shapes.stated import compatible
from gdsurgeon.feeds.infer.consumers import Outlet, Step, following
from gdsurgeon.feeds.infer.content import Content, for_step
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.ops.kinds import CASES, MERGE, PASSES_ON, RESHAPES

ANY = range(1 << 31)
"""All data inputs of an op."""
KEEPING: dict[str, Container[int]] = {
    **dict.fromkeys(PASSES_ON | RESHAPES | {"Cast", "PlaceholderWithDefault"}, (0,)),
    **dict.fromkeys(MERGE | {"IdentityN"}, ANY),
}
"""Ops that pass the values of their first input on, each at its place or at another."""
_SELECTING: dict[str, Container[int]] = KEEPING | {
    **dict.fromkeys("Unique UniqueV2 Transpose StridedSlice Slice Tile BroadcastTo Unpack SplitV".split(), (0,)),
    "Pack": ANY, "ConcatV2": ANY, "Concat": range(1, 1 << 31), "Split": (1,), "Select": (1, 2), "SelectV2": (1, 2),
}  # fmt: skip
"""Likewise, or some of them, or others among them."""

SPARSE_SIDE = 4
"""Each side of a sparse tensor that is made."""
SIDE = 64
"""Height and width of an image that is resized to a size that is an input."""
THRESHOLD = 0.001
"""What a threshold is: low, so that something passes it, and not so low that everything does."""


def role_content(start: Outlet) -> Content | None:
    """What START is to its consumers, where that is anything else than data."""
    found: Content | None = None
    for step in following(start, _SELECTING):
        content = _role_at(step)
        if content is None:
            continue
        if found is None:
            found = content
            if found.kind != "index":
                break
        elif content.kind == "index" and content.bound < found.bound:
            found = content  # of several tables the smallest
    return found


def _role_at(step: Step) -> Content | None:
    bound = _bound_at(step)
    if bound is not None:
        return Content("index", for_step(f"indices below {bound}" if bound > 1 else "index 0", step), bound=bound)
    if _at(_SORTED, step):
        most = _scalar_constant(step, 3) if step.op.endswith("NumSegments") else 0
        return Content("sorted", for_step("ascending segments", step), bound=most or SPARSE_SIDE)
    if _at(_COORDINATES, step):
        return Content("coordinates", for_step("ascending positions", step), choices=_sparse_sides(step))
    if _at(_POSITIONS, step):
        return Content("positions", for_step("all axes in order", step))
    if step.op == "CropAndResize" and step.slot == 1:
        return Content("unit", for_step("boxes between 0 and 1", step))
    if step.op in ("Reshape", "BroadcastTo") and step.slot == 1:
        return Content("shape", for_step("a shape", step), choices=_shape_at(step), method=step.op)
    for rule in _SETTINGS:
        if step.slot in rule.ops.get(step.op, ()):
            return Content("setting", for_step(rule.what, step), choices=rule.values, grows=rule.grows)
    if step.op == "ConcatV2" and step.slot > 0 and step.slot == step.place.number("N"):
        return Content("setting", for_step("an axis", step), choices=(0,))
    return None


def _shape_at(step: Step) -> tuple[int, ...]:
    """The shape that what a Reshape or BroadcastTo is given has, where it is known; of a part the size of a batch."""
    if any(before.op not in KEEPING for before in step.path()):
        return (1,)
    dims = step.place.dims(0)
    return dims if dims and min(dims) >= 0 else ()


def _at(table: Mapping[str, Container[int]], step: Step) -> bool:
    return step.op in table and step.slot in table[step.op]


def _bound_at(step: Step) -> int | None:
    """How many there are to choose from where STEP takes an index; None where it takes none."""
    place, op, slot = step.place, step.op, step.slot
    if op in ("Gather", "GatherV2", "ResourceGather") and slot == 1:
        axis = _scalar_constant(step, 2) or 0
        return _at_least_one(place.dims(0), axis)
    if op in ("GatherNd", "ResourceGatherNd", "TensorScatterUpdate", "TensorScatterAdd") and slot == 1:
        return _smallest(place.dims(0), place.dims(1))
    if op == "ScatterNd" and slot == 0:
        sizes = place.ints(2)
        return _smallest(sizes, place.dims(0)) if sizes else 2
    if op in _SEGMENTED and slot == 1:
        return _at_least_one(place.dims(0), 0)
    if op == "OneHot" and slot == 0:
        return max(_scalar_constant(step, 1) or _DEPTH, 1)
    if op.startswith("UnsortedSegment") and slot == 1:
        return max(_scalar_constant(step, 2) or SPARSE_SIDE, 1)
    if op == "SparseSoftmaxCrossEntropyWithLogits" and slot == 1:
        return _at_least_one(place.dims(0), -1)
    if op == "DynamicPartition" and slot == 1:
        return max(place.number("num_partitions"), 1)
    if op in CASES and slot == 0:
        branches = place.attr("branches")
        return max(len(branches.list.func), 1) if branches is not None else 1
    if op == "CropAndResize" and slot == 2:
        return _at_least_one(place.dims(0), 0)
    return None


def _at_least_one(dims: Shape, axis: int) -> int:
    """How many there are along AXIS; 1 where that is not known: of whatever there is, there is a first."""
    return max(dims[axis], 1) if dims is not None and -len(dims) <= axis < len(dims) else 1


def _smallest(dims: Shape, indices: Shape) -> int:
    """What every part of an index into a tensor of DIMS stays below, given the shape of the INDICES."""
    width = indices[-1] if indices else -1
    parts = (dims or (1,))[: width if width > 0 else None]
    return max(min(parts, default=1), 1)


def _scalar_constant(step: Step, slot: int) -> int | None:
    found = step.place.ints(slot)
    return found[0] if len(found) == 1 else None


_DEPTH = 4
_SEGMENTED = frozenset(
    f"SparseSegment{what}{how}" for what in ("Sum", "Mean", "SqrtN") for how in ("", "WithNumSegments")
)
_SORTED: dict[str, Container[int]] = {
    **dict.fromkeys(_SEGMENTED, (2,)),
    **dict.fromkeys("SegmentSum SegmentMean SegmentProd SegmentMin SegmentMax".split(), (1,)),
}
_COORDINATES: dict[str, Container[int]] = dict.fromkeys(
    """
    SparseToDense SparseTensorDenseMatMul SparseReshape SparseReorder SparseFillEmptyRows SparseSoftmax
    SparseReduceSum SparseReduceMax SparseDenseCwiseMul SparseDenseCwiseDiv SparseDenseCwiseAdd SparseTensorDenseAdd
    SparseSlice SerializeSparse SerializeManySparse
    """.split(),
    (0,),
) | {"SparseAdd": (0, 3)}
_POSITIONS: dict[str, Container[int]] = dict.fromkeys(
    "Transpose ConjugateTranspose Sum Mean Prod Max Min All Any EuclideanNorm ReverseV2".split(), (1,)
)


def _sparse_sides(step: Step) -> tuple[int, ...]:
    """The sides of the sparse tensor whose indices are made, where its shape is constant."""
    sides = step.place.ints(1 if step.op in ("SparseToDense", "SparseReshape", "SparseSlice") else 2)
    return sides if sides and min(sides) > 0 else (SPARSE_SIDE,)


class _Setting(NamedTuple):
    """Values for an input of one of OPS (by data input) that is no data."""

    what: str
    values: tuple[float, ...]
    ops: Mapping[str, Container[int]]
    grows: bool = False


def _slots(names: str, *slots: int) -> dict[str, Container[int]]:
    return dict.fromkeys(names.split(), slots)


_SETTINGS = (
    _Setting("a shape", (2,), _slots(
        "Fill Empty RandomUniform RandomStandardNormal RandomUniformInt TruncatedNormal RandomGamma "
        "StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal StatelessRandomUniformV2 "
        "StatelessRandomNormalV2 StatelessRandomUniformInt ParameterizedTruncatedNormal", 0)
        | _slots("ScatterNd", 2), grows=True),
    _Setting("the shape of a sparse tensor", (SPARSE_SIDE,), _slots("SparseToDense SparseReshape SparseSlice", 1)
        | _slots("SparseReorder SparseTensorDenseMatMul SparseFillEmptyRows SparseSoftmax SparseReduceSum "
                 "SparseReduceMax SparseDenseCwiseMul SparseDenseCwiseDiv SparseDenseCwiseAdd SparseTensorDenseAdd "
                 "SerializeSparse SerializeManySparse", 2) | _slots("SparseAdd", 2, 5)),
    _Setting("multiples", (2,), _slots("Tile", 1), grows=True),
    _Setting("an axis", (0,), _slots("ExpandDims ArgMax ArgMin Cumsum Cumprod", 1) | _slots("Concat Split", 0)
        | _slots("GatherV2 SplitV", 2)),
    _Setting("where to begin", (0,), _slots("Slice StridedSlice Substr", 1)),
    _Setting("a size of 1", (1,), _slots("Slice Substr", 2)),
    _Setting("where to end", (1,), _slots("StridedSlice", 2)),
    _Setting("steps of 1", (1,), _slots("StridedSlice", 3)),
    _Setting("a margin of 1", (1,), _slots("Pad PadV2", 1)),
    _Setting("no margin", (0,), _slots("MirrorPad", 1) | _slots("SpaceToBatchND BatchToSpaceND", 2)),
    _Setting("blocks of 1", (1,), _slots("SpaceToBatchND BatchToSpaceND", 1)),
    _Setting("height and width", (SIDE,), _slots(
        "ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea ScaleAndTranslate", 1)
        | _slots("CropAndResize", 3)),
    _Setting("how many", (1,), _slots("TopKV2", 1) | _slots("InTopKV2", 2)),
    _Setting("how many", (10,), _slots("NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 "
                                       "NonMaxSuppressionV5", 2) | _slots("CombinedNonMaxSuppression", 2, 3), True),
    _Setting("how many", (3,), _slots("Multinomial RandomCategorical TensorListReserve", 1)
        | _slots("TensorArrayV3", 0)),
    _Setting("how many", (5,), _slots("LinSpace", 2)),
    _Setting("how many", (10,), _slots("Bincount", 1)),
    _Setting("how many", (SPARSE_SIDE,), {op: (3,) for op in _SEGMENTED if op.endswith("NumSegments")}
        | _slots("UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd", 2)),
    _Setting("how many", (_DEPTH,), _slots("OneHot", 1)),
    _Setting("where to begin", (0,), _slots("Range", 0)),
    _Setting("where to end", (5,), _slots("Range", 1), grows=True),
    _Setting("steps of 1", (1,), _slots("Range", 2)),
    _Setting("an overlap of 0.5", (0.5,), _slots("NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 "
                                                 "NonMaxSuppressionV5", 3) | _slots("CombinedNonMaxSuppression", 4)),
    _Setting(f"a threshold of {THRESHOLD}", (THRESHOLD,), _slots(
        "NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5", 4) | _slots("CombinedNonMaxSuppression", 5)),
    _Setting("a lowest value of 0.25", (0.25,), _slots("ClipByValue", 1)),
    _Setting("a highest value of 0.75", (0.75,), _slots("ClipByValue", 2)),
)  # fmt: skip


# -- the lengths of vectors that are no data -------------------------------------------------------------


def role_shapes(start: Outlet, stated: Shape) -> Iterator[tuple[int, ...]]:
    """Shapes for an input that is a shape, a permutation, multiples or the like: as the op that takes it wants them."""
    for step in following(start, KEEPING):
        if step.before is not None or not _at(_VECTORS, step):
            continue
        dims = step.place.dims(0)
        ranks = [len(dims)] if dims is not None else []
        if dims is None or step.op == "Reshape":
            ranks += [1, 2, 3, 4]
        for rank in ranks:
            shape = (rank, 2) if step.op in ("Pad", "PadV2", "MirrorPad") else (rank,)
            if compatible(shape, stated):
                yield shape


_VECTORS: dict[str, Container[int]] = {
    **_slots("Reshape BroadcastTo Tile Transpose ConjugateTranspose Pad PadV2 MirrorPad", 1),
    **_slots("Slice", 1, 2),
    "StridedSlice": (1, 2, 3),
}
