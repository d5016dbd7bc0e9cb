"""Infers the numbers that an input expects from its consumers: indices, pixels, shapes, axes, and settings by name."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from gdsurgeon.analysis.shapes.stated import compatible
from gdsurgeon.errors import quoted
from gdsurgeon.feeds.given import packed
from gdsurgeon.feeds.infer.consumers import Outlet, Step, following
from gdsurgeon.feeds.make.numbers import BYTES, INTEGERS, numbers, packed_floats, scaled
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import CASES, COMMUTATIVE, FUSED_BATCH_NORMS, MERGE, PASSES_ON, RESHAPES

Picture = tuple[int, int] | None
"""The height and width of generated images; None: any."""


class Content(NamedTuple):
    """The values that an input expects.

    Attributes:
        kind: for numbers ``number`` (nothing is known), ``pixels`` (0 to 255), ``unit`` (0 to 1), ``index`` (whole
            numbers below `bound`), ``sorted`` (ascending whole numbers), ``coordinates`` (ascending rows of them),
            ``positions`` (0, 1, 2, ...), ``shape`` (the `choices`, or -1 and ones) or ``setting`` (the `choices` in
            order, the last one repeated). For texts ``text`` or the name of a format; ``jpeg`` is encoded by
            TensorFlow. For both ``choice`` (one of `choices`, by the seed) and ``none`` (cannot be generated).
        made: the generated value and the reason, in a few words; for ``none`` the value that the user must give.
        bound: for whole numbers, one more than the largest; 0: no limit.
        choices: the values to choose from.
        grows: whether a setting can be one larger.
        features: of a tf.Example.
        method: for ``shape`` the op that reads the shape.
        make: for texts, returns the bytes for a seed and the size of images.
    """

    kind: str
    made: str = ""
    bound: int = 0
    choices: tuple[Any, ...] = ()
    grows: bool = False
    features: tuple[Feature, ...] = ()
    method: str = ""
    make: Callable[[int, Picture], bytes] | None = None


class Feature(NamedTuple):
    """A feature of a tf.Example or tf.SequenceExample.

    Attributes:
        key: the name.
        dtype: float32, int64 or string.
        length: the number of values, in each step of a list.
        content: the values.
        is_list: whether it is a feature list of a tf.SequenceExample.
    """

    key: str
    dtype: int
    length: int
    content: Content
    is_list: bool = False


def for_step(what: str, step: Step) -> str:
    """Returns `what` with the consumer that expects it."""
    return f"{what}, for {step.op} {quoted(step.name)}"


ANY = range(1 << 31)
"""All data inputs of an op."""
KEEPING: dict[str, Container[int]] = {
    **dict.fromkeys(PASSES_ON | RESHAPES | {"Cast", "PlaceholderWithDefault"}, (0,)),
    **dict.fromkeys(MERGE | {"IdentityN"}, ANY),
}
"""Ops that forward the values of these inputs, possibly in a different shape."""
_SELECTING: dict[str, Container[int]] = KEEPING | {
    **dict.fromkeys("Unique UniqueV2 Transpose StridedSlice Slice Tile BroadcastTo Unpack SplitV".split(), (0,)),
    "Pack": ANY, "ConcatV2": ANY, "Concat": range(1, 1 << 31), "Split": (1,), "Select": (1, 2), "SelectV2": (1, 2),
}  # fmt: skip
"""The same ops, and ops that select, repeat or combine values."""

SPARSE_SIDE = 4
"""The size of each dimension of a generated sparse tensor."""
SIDE = 64
"""Height and width of an image whose size is an input."""
THRESHOLD = 0.001
"""The value of thresholds: low enough that some values exceed it, but not all."""


def role_content(start: Outlet) -> Content | None:
    """Returns the content of an input that is not data, but an index, a shape or a setting; None for data."""
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
    """Returns the shape of the tensor that a Reshape or BroadcastTo reshapes, if it is known; of a part the size of a
    batch."""
    if any(before.op not in KEEPING for before in step.path()):
        return (1,)
    dims = step.place.dims(0)
    return dims if dims and min(dims) >= 0 else ()


def _at(table: Mapping[str, Container[int]], step: Step) -> bool:
    return step.op in table and step.slot in table[step.op]


def _bound_at(step: Step) -> int | None:
    """Returns the number of elements to choose from if `step` reads an index; otherwise None."""
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
    """Returns the size of a dimension; 1 if it is unknown."""
    return max(dims[axis], 1) if dims is not None and -len(dims) <= axis < len(dims) else 1


def _smallest(dims: Shape, indices: Shape) -> int:
    """Returns the upper bound of each component of an index into a tensor, from the shape of the indices."""
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
    """Yields shapes for an input that is a shape, a permutation and the like, as its consumer requires."""
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


def number_content(start: Outlet, dtype: int) -> Content:
    """Returns the numbers of `dtype` that the consumers of `start` expect."""
    if dtype == dtypes.BOOL:
        return Content("number", "false and true")
    content = role_content(start) or _pixels(start, dtype)
    if content is not None:
        return content
    if dtype in BYTES:
        return Content("number", "bytes of any value")
    if dtype in dtypes.DTYPES and dtypes.DTYPES[dtype].is_integer:
        return Content("number", "small whole numbers")
    signs = ", also negative on every second sample" if dtype in dtypes.FLOATING else ""
    return Content("number", f"numbers from 0 to 1{signs}")


def setting_of(name: str, dtype: int, shape: tuple[int, ...], content: Content) -> tuple[Content, bool]:
    """Returns the content of an input; a scalar is usually a setting, and its name suggests a value.

    The second value is whether it is a setting; then without a suggestion the value is random.
    """
    if content.kind not in ("number", "pixels", "unit") or content.bound or len(shape) > 1:
        return content, False
    if dtype not in dtypes.FLOATING and dtype not in (dtypes.INT32, dtypes.INT64, dtypes.BOOL):
        return content, False
    lowered = name.lower()
    is_float = dtype in dtypes.FLOATING
    for rule in _NAMES:
        if any(word in lowered for word in rule.words) and prod(shape) <= (rule.of_few if shape else 1):
            value = rule.value if is_float else rule.whole
            if value is not None and (dtype != dtypes.BOOL or rule.whole == 0):
                spelt = ("true" if value else "false") if dtype == dtypes.BOOL else f"{value:g}"
                return Content("setting", f"{spelt}: {rule.why} by its name", choices=(value,), grows=rule.grows), True
    if shape:
        return content, False
    if is_float:
        return content._replace(made="a number between 0.25 and 0.75"), True
    if dtype == dtypes.BOOL:
        return content._replace(made="false and true alternating"), True
    return Content("setting", "3: a small whole number", choices=(3,), grows=True), True


class _Name(NamedTuple):
    """The value that a name suggests for a setting, as a float and as an integer; None: no value."""

    words: tuple[str, ...]
    value: float
    whole: int | None
    why: str
    of_few: int = 0  # elements up to which a vector is such a setting too
    grows: bool = False


_NAMES = (
    _Name(("thresh",), THRESHOLD, 1, "a threshold", 16),
    _Name(("batch",), 1.0, 1, "one, as batches are made,"),
    _Name(("size",), 40.0, 40, "a size", grows=True),
    _Name(("keep",), 1.0, 1, "keeps all,", 1),
    _Name(("drop",), 0.0, 0, "drops nothing,", 1),
    _Name(("phase", "train"), 0.0, 0, "no training,", 1),
    _Name(("factor", "scale", "prob", "rate"), 0.7, 3, "a factor", grows=True),
)


def number_values(
    content: Content, dtype: int, shape: tuple[int, ...], seed: int, *, wide: bool = False
) -> bytes | list[bytes]:
    """Returns the elements of a tensor with `content`; `wide`: see `numbers`."""
    count = prod(shape)
    kind = content.kind
    if kind == "setting":
        grown = 1 if wide and content.grows and dtype not in dtypes.FLOATING else 0
        return packed_numbers(dtype, [value + grown for value in _pattern(content.choices, count)])
    if kind == "shape":
        return packed_numbers(dtype, _shape_of_rank(content, count))
    if kind == "positions":
        return packed_numbers(dtype, range(count))
    if kind == "sorted":
        most = max(content.bound, 1)
        return packed_numbers(dtype, [min(i * most // max(count, 1), i) for i in range(count)])
    if kind == "coordinates":
        return packed_numbers(dtype, _coordinates(shape, content))
    if kind == "pixels" and dtype in dtypes.FLOATING:
        return scaled(dtype, count, 255, seed)
    if kind == "pixels":
        return numbers(dtype, count, 0 if dtype == dtypes.UINT8 else 256, seed)
    return numbers(dtype, count, content.bound, seed, wide=wide and kind != "unit")


def chance_setting(dtype: int, seed: int) -> bytes:
    """Returns a random float for a setting with an unknown purpose."""
    return packed_floats(dtype, [round(random.Random(seed).uniform(0.25, 0.75), 3)])


def packed_numbers(dtype: int, values: Sequence[float]) -> bytes | list[bytes]:
    """Returns numbers as the data of a tensor; values outside the range of the dtype are clipped."""
    if dtype in dtypes.FLOATING:
        return packed_floats(dtype, values)
    if dtype in INTEGERS:
        low, high = dtypes.DTYPES[dtype].bounds
        return array(INTEGERS[dtype], [min(max(int(value), low), high) for value in values]).tobytes()
    if dtype in BYTES:
        return bytes(min(max(int(value), 0), 255) for value in values)
    return packed(dtype, values)


def _pattern(choices: Sequence[float], count: int) -> list[float]:
    return [choices[min(i, len(choices) - 1)] for i in range(count)]


def _shape_of_rank(content: Content, rank: int) -> Sequence[float]:
    """Returns a shape with `rank` dimensions for a Reshape or a BroadcastTo."""
    if len(content.choices) == rank or not rank:
        return content.choices[:rank]
    if content.method == "Reshape":
        return (-1, *[1] * (rank - 1))
    return (*[1] * (rank - len(content.choices)), *content.choices)[-rank:]


def _coordinates(shape: tuple[int, ...], content: Content) -> list[int]:
    """Returns rows of indices in ascending order, spread over a tensor whose dimensions are `choices`."""
    width = shape[-1] if len(shape) > 1 else 1
    sides = [int(side) for side in _pattern(content.choices, width)]
    rows = prod(shape[:-1]) if len(shape) > 1 else prod(shape)
    step = max(prod(sides) // max(rows, 1), 1)
    out: list[int] = []
    for row in range(rows):
        rest, digits = min(row * step, prod(sides) - 1), []
        for side in reversed(sides):
            rest, digit = divmod(rest, side)
            digits.append(digit)
        out.extend(reversed(digits))
    return out


# -- pixels ----------------------------------------------------------------------------------------------

_RESIZING = frozenset(
    """
    ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea CropAndResize QuantizedResizeBilinear
    ScaleAndTranslate ExtractGlimpse ExtractGlimpseV2 ImageProjectiveTransformV2 ImageProjectiveTransformV3
    AdjustContrast AdjustContrastv2 DrawBoundingBoxes DrawBoundingBoxesV2 EncodeJpeg EncodePng
    """.split()
)
"""Image ops that accept, and usually return, pixels of any range."""
_COLOURS = frozenset("RGBToHSV HSVToRGB AdjustHue AdjustSaturation".split())
"""Image ops that expect colors from 0 to 1."""
_PICTURES: dict[str, Container[int]] = {
    **KEEPING,
    **dict.fromkeys("Transpose ReverseV2 Reverse Pad PadV2 MirrorPad Slice StridedSlice Unpack SplitV".split(), (0,)),
    **dict.fromkeys(_RESIZING, (0,)),
    "Split": (1,), "Pack": ANY, "ConcatV2": ANY, "Concat": ANY,
}  # fmt: skip


_PIXELS = dtypes.FLOATING | {dtypes.INT32, dtypes.INT64, dtypes.UINT8, dtypes.INT16, dtypes.UINT16}
"""The dtypes of pixels."""


def _pixels(start: Outlet, dtype: int) -> Content | None:
    """Returns the range of image values if the consumers show one."""
    if dtype not in _PIXELS:
        return None
    image: Step | None = None
    unit: Step | None = None
    for step in following(start, _PICTURES):
        highest = _highest_at(step)
        if highest == 255:
            return Content("pixels", for_step("pixels 0 to 255", step))
        if highest == 1 and (step.op in _COLOURS or image is not None):
            unit = unit or step
        if step.op in _RESIZING and step.slot == 0:
            image = image or step
    if unit is not None and dtype in dtypes.FLOATING:
        return Content("unit", for_step("colours 0 to 1", unit))
    if image is not None:
        return Content("pixels", for_step("pixels 0 to 255", image))
    return None


def _highest_at(step: Step) -> int:
    """Returns 255 or 1 if `step` shows that this is the value of the brightest pixel; otherwise 0."""
    if step.op in _COLOURS and step.slot == 0:
        return 1
    at = _CONSTANTS.get(step.op)
    if at is None or (step.slot != 0 and not (step.op in COMMUTATIVE and step.slot == 1)):
        return 0
    found = step.place.constant(1 - step.slot if step.op in COMMUTATIVE else at)
    numbers = [item for item in found.values if not isinstance(item, bytes)] if found is not None else []
    if not numbers:
        return 0
    mean = sum(numbers) / len(numbers)
    size = abs(mean)
    if step.op in ("RealDiv", "Div"):
        return 255 if 50 <= size <= 260 else 0
    if step.op == "Mul":
        return 255 if 0.0035 <= size <= 0.0085 or 0.015 <= size <= 0.02 else 1 if size == 2 else 0
    if step.op in ("Add", "AddV2", "BiasAdd"):
        mean = -mean
    return 255 if mean > 50 else 1 if 0.3 <= mean <= 0.7 else 0


# By op the data input with the informative constant: the subtrahend or the divisor.
_CONSTANTS = {
    "Sub": 1, "Add": 1, "AddV2": 1, "BiasAdd": 1, "RealDiv": 1, "Div": 1, "Mul": 1,
    **dict.fromkeys(FUSED_BATCH_NORMS, 3), "BatchNormWithGlobalNormalization": 1,
}  # fmt: skip
