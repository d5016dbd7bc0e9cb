"""Infers the numbers that an input expects from its consumers, and generates them: indices, pixels, shapes, settings.

Generated numbers are the same bytes for the same seed, on every machine.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from math import prod
from statistics import fmean
from typing import Any, NamedTuple
from zlib import crc32

from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.errors import quoted
from gdsurgeon.feeds.consumers import Consumer, following
from gdsurgeon.graph.attrs import FullShape, Shape
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import COMMUTATIVE, FUSED_BATCH_NORMS, MERGE, PASSES_ON, RESHAPES

Picture = tuple[int, int] | None
"""The height and width of generated images; None: any."""

CODES: dict[int, str] = {
    dtype: dtypes.NUMBERS[dtype.numpy].code for dtype in dtypes.DTYPES.values() if dtype.numpy in dtypes.NUMBERS
}
"""How `struct` packs the elements of each dtype, also of quantized ones; '' for dtypes that Python does not have."""
BYTES = (dtypes.UINT8, dtypes.QUINT8)
INTEGERS = frozenset(d for d in dtypes.DTYPES.values() if d.is_integer and CODES.get(d) and d not in BYTES)
"""The integers that have a sign or more than one byte, also quantized ones."""
MOST_TEXTS = 16
"""The number of different images, recordings and the like for one input; more elements repeat them."""


class Content(NamedTuple):
    """The values that an input expects.

    Attributes:
        kind: for numbers ``number`` (nothing is known), ``pixels`` (0 to 255), ``unit`` (0 to 1), ``index`` (whole
            numbers below `bound`), ``sorted`` (ascending whole numbers), ``coordinates`` (ascending rows of them in a
            tensor whose dimensions are `choices`), ``positions`` (0, 1, 2, ...), ``target`` and ``shape`` (for Reshape
            and BroadcastTo: the `choices`, or ones of the right rank), ``setting`` (the `choices` in order, the last
            one repeated), ``growing`` (a setting that can be one larger), ``random`` (a number between 0.25 and 0.75)
            or ``side`` (the two `choices`, alternating). For texts ``text``, or ``example`` for a tf.Example. For both
            ``choice`` (one of `choices`, by the seed) and ``none`` (cannot be generated).
        made: the generated value and the reason, in a few words; for ``none`` the value that the user must give.
        bound: for whole numbers, one more than the largest; 0: no limit.
        choices: the values to choose from.
        make: for texts, returns the bytes for a seed and the size of images.
    """

    kind: str
    made: str = ""
    bound: int = 0
    choices: tuple[Any, ...] = ()
    make: Callable[[int, Picture], bytes] = lambda seed, _: b"text %d" % seed


def for_step(what: str, step: Consumer) -> str:
    """Returns `what` with the consumer that expects it."""
    return f"{what}, for {step.op} {quoted(step.node.name)}"


def number_content(start: Consumer, dtype: int, port: int = 0) -> Content:
    """Returns the numbers of `dtype` that the consumers of an output of `start` expect."""
    if dtype == dtypes.BOOL:
        return Content("number", "false and true")
    content = _role(start, port) or _pixels(start, dtype, port)
    if content is not None:
        return content
    if dtype in BYTES:
        return Content("number", "bytes of any value")
    if dtype in dtypes.DTYPES and dtypes.DTYPES[dtype].is_integer:
        return Content("number", "small whole numbers")
    signs = ", also negative on every second sample" if dtype in dtypes.FLOATING else ""
    return Content("number", f"numbers from 0 to 1{signs}")


# -- inputs that are not data: indices, shapes, axes -----------------------------------------------------

ANY = range(1 << 31)
"""All data inputs of an op."""


def inputs_of(ops: str | Iterable[str], *slots: int) -> dict[str, Container[int]]:
    """Returns the data inputs `slots` for each op; `ops` may be a text with spaces."""
    return dict.fromkeys(ops.split() if isinstance(ops, str) else ops, slots)


_KEEPING: dict[str, Container[int]] = inputs_of(PASSES_ON | RESHAPES | {"Cast", "PlaceholderWithDefault"}, 0) | (
    dict.fromkeys(MERGE | {"IdentityN"}, ANY)
)
"""Ops that forward these inputs, possibly in a different shape."""
_SELECTING = (
    _KEEPING
    | inputs_of("Unique UniqueV2 Transpose StridedSlice Slice Tile BroadcastTo Unpack SplitV", 0)
    | inputs_of("Select SelectV2", 1, 2)
    | {"Pack": ANY, "ConcatV2": ANY, "Concat": range(1, 1 << 31), "Split": (1,)}
)
"""The same ops, and ops that select, repeat or combine values."""

_SPARSE_SIDE = 4
"""The size of each dimension of a generated sparse tensor, and the depth of a one-hot encoding."""
_THRESHOLD = 0.001
"""The value of thresholds: low enough that some values exceed it, but not all."""


class _Role(NamedTuple):
    """The content of inputs that expect particular values.

    Attributes:
        kind: of the content.
        values: its choices, or for ``index`` and ``sorted`` the bound; or a function of the consumer.
        what: the values in words; '' for an index or a setting.
    """

    kind: str
    values: tuple[float, ...] | Callable[[Consumer], Sequence[int]] = ()
    what: str = ""


def _size(step: Consumer, axis: int) -> tuple[int]:
    """Returns the size of a dimension of the first input; 1 if it is unknown."""
    dims = step.dims(0)
    return (dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else 1,)


def _smallest(dims: Shape, indices: Shape) -> tuple[int]:
    """Returns the upper bound of each component of an index into a tensor, from the shape of the indices."""
    width = indices[-1] if indices else -1
    return (min((dims or (1,))[: width if width > 0 else None], default=1),)


def _sizes(slot: int) -> Callable[[Consumer], Sequence[int]]:
    """Returns a function that returns the sizes in input `slot`, if they are constant; otherwise `_SPARSE_SIDE`."""
    return lambda step: found if (found := step.ints(slot)) and min(found) > 0 else (_SPARSE_SIDE,)


def _reshaped(step: Consumer) -> Sequence[int]:
    """Returns the shape of the tensor that a Reshape or BroadcastTo reshapes, if it is known.

    An input that is only a part of the new shape is the size of a batch.
    """
    if any(before.op not in _KEEPING for before in step.path()):
        return (1,)
    dims = step.dims(0)
    return dims if dims and min(dims) >= 0 else ()


_SETTINGS: Mapping[float, str] = {
    0: "ExpandDims:1 ArgMax:1 ArgMin:1 Cumsum:1 Cumprod:1 Concat:0 Split:0 GatherV2:2 SplitV:2 Slice:1 StridedSlice:1 "
    "Substr:1 Range:0 MirrorPad:1 SpaceToBatchND:2 BatchToSpaceND:2",
    1: "Slice:2 Substr:2 StridedSlice:2 StridedSlice:3 Range:2 Pad:1 PadV2:1 SpaceToBatchND:1 BatchToSpaceND:1 "
    "TopKV2:1 InTopKV2:2",
    3: "Multinomial:1 RandomCategorical:1 TensorListReserve:1 TensorArrayV3:0",
    5: "LinSpace:2",
    10: "Bincount:1",
    64: "ResizeBilinear:1 ResizeNearestNeighbor:1 ResizeBicubic:1 ResizeArea:1 ScaleAndTranslate:1 CropAndResize:3",
    _SPARSE_SIDE: "SparseToDense:1 SparseReshape:1 SparseSlice:1 SparseReorder:2 SparseTensorDenseMatMul:2 "
    "SparseFillEmptyRows:2 SparseSoftmax:2 SparseReduceSum:2 SparseReduceMax:2 SparseDenseCwiseMul:2 "
    "SparseDenseCwiseDiv:2 SparseDenseCwiseAdd:2 SparseTensorDenseAdd:2 SerializeSparse:2 SerializeManySparse:2 "
    "SparseAdd:2 SparseAdd:5 SparseSegmentSumWithNumSegments:3 SparseSegmentMeanWithNumSegments:3 "
    "SparseSegmentSqrtNWithNumSegments:3 UnsortedSegmentSum:2 UnsortedSegmentMax:2 UnsortedSegmentMin:2 "
    "UnsortedSegmentProd:2 OneHot:1",
    0.5: "NonMaxSuppressionV2:3 NonMaxSuppressionV3:3 NonMaxSuppressionV4:3 NonMaxSuppressionV5:3 "
    "CombinedNonMaxSuppression:4",
    _THRESHOLD: "NonMaxSuppressionV3:4 NonMaxSuppressionV4:4 NonMaxSuppressionV5:4 CombinedNonMaxSuppression:5",
    0.25: "ClipByValue:1",
    0.75: "ClipByValue:2",
}
"""Values of settings, such as an axis, a size or a number of results, with the inputs as ``Op:slot``."""
_GROWING_SETTINGS: Mapping[float, str] = {
    2: "Fill:0 Empty:0 RandomUniform:0 RandomStandardNormal:0 RandomUniformInt:0 TruncatedNormal:0 RandomGamma:0 "
    "StatelessRandomUniform:0 StatelessRandomNormal:0 StatelessTruncatedNormal:0 StatelessRandomUniformV2:0 "
    "StatelessRandomNormalV2:0 StatelessRandomUniformInt:0 ParameterizedTruncatedNormal:0 ScatterNd:2 Tile:1",
    5: "Range:1",
    10: "NonMaxSuppression:2 NonMaxSuppressionV2:2 NonMaxSuppressionV3:2 NonMaxSuppressionV4:2 NonMaxSuppressionV5:2 "
    "CombinedNonMaxSuppression:2 CombinedNonMaxSuppression:3",
}
"""Values of settings that can be one larger."""
_ROLES: dict[str, _Role] = {
    "Gather:1 GatherV2:1 ResourceGather:1": _Role("index", lambda step: _size(step, (step.ints(2) or (0,))[0])),
    "GatherNd:1 ResourceGatherNd:1 TensorScatterUpdate:1 TensorScatterAdd:1": _Role(
        "index", lambda step: _smallest(step.dims(0), step.dims(1))
    ),
    "ScatterNd:0": _Role("index", lambda step: _smallest(step.ints(2), step.dims(0)) if step.ints(2) else (2,)),
    "SparseSegmentSum:1 SparseSegmentMean:1 SparseSegmentSqrtN:1 SparseSegmentSumWithNumSegments:1 "
    "SparseSegmentMeanWithNumSegments:1 SparseSegmentSqrtNWithNumSegments:1 CropAndResize:2": _Role(
        "index", lambda step: _size(step, 0)
    ),
    "OneHot:0": _Role("index", _sizes(1)),
    "UnsortedSegmentSum:1 UnsortedSegmentMax:1 UnsortedSegmentMin:1 UnsortedSegmentProd:1": _Role("index", _sizes(2)),
    "SparseSoftmaxCrossEntropyWithLogits:1": _Role("index", lambda step: _size(step, -1)),
    "DynamicPartition:1": _Role("index", lambda step: (step.setting("num_partitions", 1),)),
    "Case:0 StatelessCase:0": _Role(
        "index", lambda step: (len(value.list.func) if (value := step.node.attr("branches")) is not None else 1,)
    ),
    "SparseSegmentSum:2 SparseSegmentMean:2 SparseSegmentSqrtN:2 SegmentSum:1 SegmentMean:1 SegmentProd:1 SegmentMin:1 "
    "SegmentMax:1": _Role("sorted", (_SPARSE_SIDE,), "ascending segments"),
    "SparseSegmentSumWithNumSegments:2 SparseSegmentMeanWithNumSegments:2 SparseSegmentSqrtNWithNumSegments:2": _Role(
        "sorted", _sizes(3), "ascending segments"
    ),
    "SparseToDense:0 SparseReshape:0 SparseSlice:0": _Role("coordinates", _sizes(1), "ascending positions"),
    "SparseTensorDenseMatMul:0 SparseReorder:0 SparseFillEmptyRows:0 SparseSoftmax:0 SparseReduceSum:0 "
    "SparseReduceMax:0 SparseDenseCwiseMul:0 SparseDenseCwiseDiv:0 SparseDenseCwiseAdd:0 SparseTensorDenseAdd:0 "
    "SerializeSparse:0 SerializeManySparse:0 SparseAdd:0 SparseAdd:3": _Role(
        "coordinates", _sizes(2), "ascending positions"
    ),
    "Transpose:1 ConjugateTranspose:1 Sum:1 Mean:1 Prod:1 Max:1 Min:1 All:1 Any:1 EuclideanNorm:1 ReverseV2:1": _Role(
        "positions", what="all axes in order"
    ),
    "CropAndResize:1": _Role("unit", what="boxes between 0 and 1"),
    "Reshape:1": _Role("target", _reshaped, "a shape"),
    "BroadcastTo:1": _Role("shape", _reshaped, "a shape"),
    **{inputs: _Role("setting", (value,)) for value, inputs in _SETTINGS.items()},
    **{inputs: _Role("growing", (value,)) for value, inputs in _GROWING_SETTINGS.items()},
}
_ROLE_OF = {each: role for inputs, role in _ROLES.items() for each in inputs.split()}


def _role(start: Consumer, port: int) -> Content | None:
    """Returns the content of an input that is not data, but an index, a shape or a setting; None for data."""
    found: Content | None = None
    for step in following(start, port, _SELECTING):
        is_axis = step.op == "ConcatV2" and 0 < step.slot == step.setting("N", 0)
        role = _Role("setting", (0,)) if is_axis else _ROLE_OF.get(f"{step.op}:{step.slot}")
        if role is None:
            continue
        values = tuple(role.values(step) if callable(role.values) else role.values)
        bound = max(int(values[0]), 1) if role.kind in ("index", "sorted") else 0
        indices = f"indices below {bound}" if bound > 1 else "index 0"
        what = role.what or (indices if role.kind == "index" else f"{values[0]:g}")
        content = Content(role.kind, for_step(what, step), bound, values)
        if found is None or (content.kind == "index" and bound < found.bound):
            found = content  # of several tables the smallest
        if found.kind != "index":
            break
    return found


_VECTORS = inputs_of("Reshape BroadcastTo Tile Transpose ConjugateTranspose Pad PadV2 MirrorPad", 1) | {
    "Slice": (1, 2), "StridedSlice": (1, 2, 3),
}  # fmt: skip


def role_shapes(start: Consumer, stated: Shape) -> Iterator[FullShape]:
    """Yields shapes for an input that is a shape, a permutation and the like, as its consumer requires."""
    for step in start.readers(0):
        if step.slot not in _VECTORS.get(step.op, ()):
            continue
        dims = step.dims(0)
        ranks = [len(dims)] if dims is not None else []
        for rank in ranks if dims is not None and step.op != "Reshape" else [*ranks, 1, 2, 3, 4]:
            shape = (rank, 2) if "Pad" in step.op else (rank,)
            if compatible(shape, stated):
                yield shape


# -- pixels ----------------------------------------------------------------------------------------------

_IMAGE_OPS = frozenset(
    """
    ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea CropAndResize QuantizedResizeBilinear
    ScaleAndTranslate ExtractGlimpse ExtractGlimpseV2 ImageProjectiveTransformV2 ImageProjectiveTransformV3
    AdjustContrast AdjustContrastv2 DrawBoundingBoxes DrawBoundingBoxesV2 EncodeJpeg EncodePng
    """.split()
)
"""Image ops that accept, and usually return, pixels of any range."""
_COLORS = frozenset("RGBToHSV HSVToRGB AdjustHue AdjustSaturation".split())
"""Image ops that expect colors from 0 to 1."""
_PICTURES = (
    _KEEPING
    | inputs_of("Transpose ReverseV2 Reverse Pad PadV2 MirrorPad Slice StridedSlice Unpack SplitV", 0)
    | inputs_of(_IMAGE_OPS, 0)
    | {"Split": (1,), "Pack": ANY, "ConcatV2": ANY, "Concat": ANY}
)
_PIXELS = dtypes.FLOATING | {dtypes.INT32, dtypes.INT64, dtypes.UINT8, dtypes.INT16, dtypes.UINT16}
"""The dtypes of pixels."""
_CONSTANTS: Mapping[str, int] = {
    **dict.fromkeys("Sub Add AddV2 BiasAdd RealDiv Div Mul BatchNormWithGlobalNormalization".split(), 1),
    **dict.fromkeys(FUSED_BATCH_NORMS, 3),
}
"""By op, the data input with the informative constant: the subtrahend or the divisor."""


def _pixels(start: Consumer, dtype: int, port: int) -> Content | None:
    """Returns the range of image values if the consumers show one."""
    if dtype not in _PIXELS:
        return None
    image: Consumer | None = None
    unit: Consumer | None = None
    for step in following(start, port, _PICTURES):
        highest = _highest_at(step)
        if highest == 255:
            return Content("pixels", for_step("pixels 0 to 255", step))
        if highest == 1 and (step.op in _COLORS or image is not None):
            unit = unit or step
        if step.op in _IMAGE_OPS and step.slot == 0:
            image = image or step
    if unit is not None and dtype in dtypes.FLOATING:
        return Content("unit", for_step("colours 0 to 1", unit))
    return Content("pixels", for_step("pixels 0 to 255", image)) if image is not None else None


def _highest_at(step: Consumer) -> int:
    """Returns 255 or 1 if `step` shows that this is the value of the brightest pixel; otherwise 0."""
    if step.op in _COLORS and step.slot == 0:
        return 1
    if step.op not in _CONSTANTS or (step.slot and step.op not in COMMUTATIVE):
        return 0
    found = step.constant(1 - step.slot if step.op in COMMUTATIVE else _CONSTANTS[step.op])
    values = [item for item in found.values if not isinstance(item, bytes)] if found is not None else []
    if not values:
        return 0
    mean = fmean(values)
    size = abs(mean)
    if step.op in ("RealDiv", "Div"):
        return 255 if 50 <= size <= 260 else 0
    if step.op == "Mul":
        return 255 if 0.0035 <= size <= 0.0085 or 0.015 <= size <= 0.02 else int(size == 2)
    if step.op in ("Add", "AddV2", "BiasAdd"):
        mean = -mean
    return 255 if mean > 50 else int(0.3 <= mean <= 0.7)


# -- settings --------------------------------------------------------------------------------------------

_NAMES: Sequence[tuple[tuple[str, ...], float, int, str, int, str]] = (
    (("thresh",), _THRESHOLD, 1, "a threshold", 16, "setting"),
    (("batch",), 1.0, 1, "one, as batches are made,", 0, "setting"),
    (("size",), 40.0, 40, "a size", 0, "growing"),
    (("keep",), 1.0, 1, "keeps all,", 1, "setting"),
    (("drop",), 0.0, 0, "drops nothing,", 1, "setting"),
    (("phase", "train"), 0.0, 0, "no training,", 1, "setting"),
    (("factor", "scale", "prob", "rate"), 0.7, 3, "a factor", 0, "growing"),
)
"""The values that names suggest for settings.

Each row has parts of the name, the value as a float and as an integer, the reason in words, the number of elements up
to which a vector is also such a setting, and the kind of the content. A bool is a setting if its integer is 0.
"""


def setting_of(name: str, dtype: int, shape: FullShape, content: Content) -> Content | None:
    """Returns the content of an input that is a setting: a scalar usually is one, and its name suggests a value.

    None if the input is data, or if its consumers determine its values.
    """
    is_float = dtype in dtypes.FLOATING
    is_known = content.kind not in ("number", "pixels", "unit") or content.bound
    if is_known or len(shape) > 1 or not (is_float or dtype in (dtypes.INT32, dtypes.INT64, dtypes.BOOL)):
        return None
    for words, number, whole, why, most, kind in _NAMES:
        if any(word in name.lower() for word in words) and sum(shape) <= most and (dtype != dtypes.BOOL or not whole):
            value = number if is_float else whole
            spelt = "false" if dtype == dtypes.BOOL else f"{value:g}"
            return Content(kind, f"{spelt}: {why} by its name", choices=(value,))
    if shape:
        return None
    if is_float:
        return Content("random", "a number between 0.25 and 0.75")
    if dtype == dtypes.BOOL:
        first = crc32(name.encode()) & 1
        return Content("side", "false and true alternating", choices=(first, 1 - first))
    return Content("growing", "3: a small whole number", choices=(3,))


# -- generating ------------------------------------------------------------------------------------------


def input_seed(seed: int, name: str) -> int:
    """Returns the seed of an input, or of a part of a text: equal for one name in every graph, and usually different
    for other names."""
    return 1000 * seed + crc32(name.encode("utf-8", "replace")) % 1000


def generated(
    content: Content,
    dtype: int,
    shape: FullShape,
    seed: int,
    *,
    picture: Picture = None,
    wide: bool = False,
    sample: int = 0,
) -> bytes | list[bytes]:
    """Returns the elements of a tensor with `content`.

    Args:
        content: the kind of the values.
        dtype: DataType.
        shape: the full shape.
        seed: for random values.
        picture: height and width of images in texts.
        wide: whether floats are also negative, and integer settings larger by one.
        sample: its number, which chooses the side of a condition.
    """
    count, kind, choices = prod(shape), content.kind, content.choices
    values: Sequence[Any]
    if kind == "choice":
        values = [choices[(seed + i) % len(choices)] for i in range(count)]
    elif dtype == dtypes.STRING:
        distinct = [content.make(seed + i, picture) for i in range(min(count, MOST_TEXTS))]
        values = [distinct[i % MOST_TEXTS] for i in range(count)]
    elif kind == "pixels" and dtype in dtypes.FLOATING:
        values = [word / 257 for word in memoryview(random.Random(seed).randbytes(2 * count)).cast("H")]
    elif kind == "random":
        values = [round(random.Random(seed).uniform(0.25, 0.75), 3)]
    elif kind == "side":
        values = [choices[sample % 2]]
    elif kind in ("setting", "growing"):
        grown = int(wide and kind == "growing" and dtype not in dtypes.FLOATING)
        values = [value + grown for value in _repeated(choices, count)]
    elif kind == "target":
        values = choices if len(choices) == count else (-1, *[1] * (count - 1))[:count]
    elif kind == "shape":
        values = (*[1] * (count - len(choices)), *choices)[-count:] if count else ()
    elif kind == "positions":
        values = range(count)
    elif kind == "sorted":
        values = [min(i * content.bound // count, i) for i in range(count)]
    elif kind == "coordinates":
        values = _coordinates(shape, choices)
    else:
        bound = 256 if kind == "pixels" else content.bound
        return numbers(dtype, count, bound, seed, wide=wide and kind != "unit")
    return clipped(dtype, values)


def _repeated(choices: Sequence[float], count: int) -> list[float]:
    return [choices[min(i, len(choices) - 1)] for i in range(count)]


def _coordinates(shape: FullShape, dims: Sequence[float]) -> list[int]:
    """Returns rows of indices in ascending order, spread over a tensor whose dimensions are `dims`."""
    *outer, width = shape if len(shape) > 1 else (*shape, 1)
    sides = [int(side) for side in _repeated(dims, width)]
    rows = prod(outer)
    step = max(prod(sides) // max(rows, 1), 1)
    places = [min(row * step, prod(sides) - 1) for row in range(rows)]
    return [place // prod(sides[i + 1 :]) % side for place in places for i, side in enumerate(sides)]


def packed(dtype: int, values: Sequence[Any]) -> bytes | list[bytes]:
    """Returns elements as the data of a tensor. Raises ValueError and others if they do not fit the dtype."""
    if dtype == dtypes.STRING:
        return [item if isinstance(item, bytes) else item.encode() for item in values]
    if CODES[dtype]:
        return struct.pack(f"<{len(values)}{CODES[dtype]}", *values)
    import numpy as np

    from gdsurgeon.ops.elements import numpy_dtype

    data: bytes = np.array(values).astype(numpy_dtype(dtype)).tobytes()
    return data


def clipped(dtype: int, values: Sequence[Any]) -> bytes | list[bytes]:
    """Returns elements as the data of a tensor; numbers outside the range of the dtype are clipped."""
    if dtype == dtypes.BFLOAT16:
        data = struct.pack(f"<{len(values)}f", *values)
        return b"".join(data[at : at + 2] for at in range(2, len(data), 4))  # the upper half of a float32
    if dtype in INTEGERS or dtype in BYTES:
        low, high = dtypes.DTYPES[dtype].bounds
        values = [min(max(int(value), low), high) for value in values]
    elif dtype == dtypes.FLOAT16:
        values = [min(max(value, -_LARGEST_HALF), _LARGEST_HALF) for value in values]
    return packed(dtype, values)


def unpacked(dtype: int, data: bytes) -> tuple[Any, ...]:
    """Returns the elements in the data of a tensor of numbers, whose dtype is one of Python's."""
    return struct.unpack(f"<{len(data) // dtypes.element_size(dtype)}{CODES[dtype]}", data)


_LARGEST_HALF = 65504.0
_FLOATS: Mapping[int, tuple[int, int]] = {
    **dict.fromkeys((dtypes.FLOAT32, dtypes.COMPLEX64), (23, 127)), dtypes.BFLOAT16: (7, 127),
    **dict.fromkeys((dtypes.FLOAT64, dtypes.COMPLEX128), (52, 1023)), dtypes.FLOAT16: (10, 15),
    dtypes.FLOAT8_E5M2: (2, 15), dtypes.FLOAT8_E5M2FNUZ: (2, 16), dtypes.FLOAT8_E4M3FN: (3, 7),
    dtypes.FLOAT8_E4M3FNUZ: (3, 8), dtypes.FLOAT8_E4M3B11FNUZ: (3, 11),
}  # fmt: skip
"""The number of bits of the mantissa of a float, or of the parts of a complex number, and the bias of the exponent."""
_BLOCK, _ALIGNED = 1 << 16, 16
"""The most bytes that are generated at once, and a multiple of the size of each element."""
_MOST_INDEX = 100_000
"""Indices are below this number, even if there are more elements to choose from."""


def numbers(dtype: int, count: int, bound: int, seed: int, *, wide: bool = False) -> bytes:
    """Returns random elements, little-endian: floats between 0 and 1, bytes of any value, small integers.

    Args:
        dtype: DataType.
        count: the number of elements.
        bound: whole numbers below it, also as floats; 0: no limit.
        seed: for the random numbers.
        wide: whether floats are positive and negative, up to 32 (float32) or 2.
    """
    if dtype in _FLOATS and not bound:
        if not wide or dtype not in dtypes.FLOATING:
            return _floats(dtype, count, seed, 2, -3, is_signed=False)
        return _floats(dtype, count, seed, *((3, 1) if dtype == dtypes.FLOAT32 else (1, -1)))
    rng = random.Random(seed)
    if dtype in INTEGERS or (bound and dtype in (*BYTES, *dtypes.FLOATING)):
        most = min(bound or 10, dtypes.DTYPES[dtype].bounds[1], _MOST_INDEX)
        data = clipped(dtype, [rng.randrange(most) for _ in range(count)])
        assert isinstance(data, bytes)
        return data
    data = rng.randbytes(count * dtypes.element_size(dtype))
    return data if dtype in BYTES else bytes(byte % (2 if dtype == dtypes.BOOL else 4) for byte in data)


def numbers_of_all_sizes(dtype: int, count: int, seed: int, *, large: bool = False) -> bytes:
    """Returns random floats (float16, 32 or 64), alternately between 2 and 32 and between 1/8 and 2, of both signs.

    `large` multiplies these by 2 to the power of 20, except float16.
    """
    more = 20 if large and dtype != dtypes.FLOAT16 else 0
    return _floats(dtype, count, seed, 3, 1 + more, more - 3)


def _floats(dtype: int, count: int, seed: int, free: int, *exponents: int, is_signed: bool = True) -> bytes:
    """Returns random floats with each of `exponents` in turn, in which the bits `free` are random, like the mantissa.

    The bits are combined by arithmetic on long integers, which is fast.
    """
    mantissa, bias = _FLOATS[dtype]
    size = dtypes.element_size(dtype) // (2 if dtypes.DTYPES[dtype].is_complex else 1)
    mask = (free + 1 << mantissa) - 1 | is_signed << 8 * size - 1
    length = count * dtypes.element_size(dtype)
    block = min(_BLOCK, length + -length % _ALIGNED)

    def repeated(*words: int) -> int:
        pattern = b"".join(word.to_bytes(size, "little") for word in words)
        return int.from_bytes(pattern * (block // len(pattern)), "little")

    masks, fixed = repeated(mask), repeated(*(bias + exponent << mantissa for exponent in exponents))
    rng, out = random.Random(seed), bytearray()
    while len(out) < length:
        out += (rng.getrandbits(8 * block) & masks | fixed).to_bytes(block, "little")
    return bytes(out[:length])
