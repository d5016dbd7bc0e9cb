"""Infers the numbers that an input expects from its consumers, and generates them: indices, pixels, shapes, settings.

Generated numbers are the same bytes for the same seed, on every machine.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.errors import quoted
from gdsurgeon.feeds.consumers import Consumer, following
from gdsurgeon.graph.attrs import Shape
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
            one repeated), ``random`` (a number between 0.25 and 0.75) or ``side`` (false and true alternating). For
            texts ``text`` or the name of a format. For both ``choice`` (one of
            `choices`, by the seed) and ``none`` (cannot be generated).
        made: the generated value and the reason, in a few words; for ``none`` the value that the user must give.
        bound: for whole numbers, one more than the largest; 0: no limit.
        choices: the values to choose from.
        grows: whether a setting can be one larger.
        make: for texts, returns the bytes for a seed and the size of images.
        features: of a tf.Example.
    """

    kind: str
    made: str = ""
    bound: int = 0
    choices: tuple[Any, ...] = ()
    grows: bool = False
    make: Callable[[int, Picture], bytes] = lambda seed, _: b"text %d" % seed
    features: tuple[Feature, ...] = ()


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


def for_step(what: str, step: Consumer) -> str:
    """Returns `what` with the consumer that expects it."""
    return f"{what}, for {step.op} {quoted(step.name)}"


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
    """Inputs that expect particular values.

    Attributes:
        kind: of the content.
        what: the values in words; for indices the bound is added.
        inputs: the inputs, as ``Op:slot``.
        values: the choices of the content, or for ``index`` and ``sorted`` the bound; or a function of the consumer.
        grows: whether a setting can be one larger.
    """

    kind: str
    what: str
    inputs: str
    values: tuple[float, ...] | Callable[[Consumer], Sequence[int]] = ()
    grows: bool = False


def _scalar(step: Consumer, slot: int, otherwise: int) -> int:
    """Returns a data input that is one small integer constant."""
    found = step.ints(slot)
    return found[0] if len(found) == 1 else otherwise


def _size(step: Consumer, axis: int) -> tuple[int]:
    """Returns the size of a dimension of the first input; 1 if it is unknown."""
    dims = step.dims(0)
    return (dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else 1,)


def _smallest(dims: Shape, indices: Shape) -> tuple[int]:
    """Returns the upper bound of each component of an index into a tensor, from the shape of the indices."""
    width = indices[-1] if indices else -1
    return (min((dims or (1,))[: width if width > 0 else None], default=1),)


def _sides(slot: int) -> Callable[[Consumer], Sequence[int]]:
    """Returns a function that returns the dimensions of a sparse tensor, if its shape in input `slot` is constant."""

    def sides(step: Consumer) -> Sequence[int]:
        found = step.ints(slot)
        return found if found and min(found) > 0 else (_SPARSE_SIDE,)

    return sides


def _reshaped(step: Consumer) -> Sequence[int]:
    """Returns the shape of the tensor that a Reshape or BroadcastTo reshapes, if it is known.

    An input that is only a part of the new shape is the size of a batch.
    """
    if any(before.op not in _KEEPING for before in step.path()):
        return (1,)
    dims = step.dims(0)
    return dims if dims and min(dims) >= 0 else ()


_ROLES = (
    _Role("index", "", "Gather:1 GatherV2:1 ResourceGather:1", lambda step: _size(step, _scalar(step, 2, 0))),
    _Role("index", "", "GatherNd:1 ResourceGatherNd:1 TensorScatterUpdate:1 TensorScatterAdd:1",
          lambda step: _smallest(step.dims(0), step.dims(1))),
    _Role("index", "", "ScatterNd:0",
          lambda step: _smallest(step.ints(2), step.dims(0)) if step.ints(2) else (2,)),
    _Role("index", "", "SparseSegmentSum:1 SparseSegmentMean:1 SparseSegmentSqrtN:1 SparseSegmentSumWithNumSegments:1 "
          "SparseSegmentMeanWithNumSegments:1 SparseSegmentSqrtNWithNumSegments:1 CropAndResize:2",
          lambda step: _size(step, 0)),
    _Role("index", "", "OneHot:0", lambda step: (_scalar(step, 1, _SPARSE_SIDE) or _SPARSE_SIDE,)),
    _Role("index", "", "UnsortedSegmentSum:1 UnsortedSegmentMax:1 UnsortedSegmentMin:1 UnsortedSegmentProd:1",
          lambda step: (_scalar(step, 2, _SPARSE_SIDE) or _SPARSE_SIDE,)),
    _Role("index", "", "SparseSoftmaxCrossEntropyWithLogits:1", lambda step: _size(step, -1)),
    _Role("index", "", "DynamicPartition:1", lambda step: (step.setting("num_partitions", 1),)),
    _Role("index", "", "Case:0 StatelessCase:0",
          lambda step: (len(value.list.func) if (value := step.node.attr("branches")) is not None else 1,)),
    _Role("sorted", "ascending segments", "SparseSegmentSum:2 SparseSegmentMean:2 SparseSegmentSqrtN:2 SegmentSum:1 "
          "SegmentMean:1 SegmentProd:1 SegmentMin:1 SegmentMax:1", (_SPARSE_SIDE,)),
    _Role("sorted", "ascending segments", "SparseSegmentSumWithNumSegments:2 SparseSegmentMeanWithNumSegments:2 "
          "SparseSegmentSqrtNWithNumSegments:2", lambda step: (_scalar(step, 3, 0) or _SPARSE_SIDE,)),
    _Role("coordinates", "ascending positions", "SparseToDense:0 SparseReshape:0 SparseSlice:0", _sides(1)),
    _Role("coordinates", "ascending positions", "SparseTensorDenseMatMul:0 SparseReorder:0 SparseFillEmptyRows:0 "
          "SparseSoftmax:0 SparseReduceSum:0 SparseReduceMax:0 SparseDenseCwiseMul:0 SparseDenseCwiseDiv:0 "
          "SparseDenseCwiseAdd:0 SparseTensorDenseAdd:0 SerializeSparse:0 SerializeManySparse:0 SparseAdd:0 "
          "SparseAdd:3", _sides(2)),
    _Role("positions", "all axes in order", "Transpose:1 ConjugateTranspose:1 Sum:1 Mean:1 Prod:1 Max:1 Min:1 All:1 "
          "Any:1 EuclideanNorm:1 ReverseV2:1"),
    _Role("unit", "boxes between 0 and 1", "CropAndResize:1"),
    _Role("target", "a shape", "Reshape:1", _reshaped),
    _Role("shape", "a shape", "BroadcastTo:1", _reshaped),
    _Role("setting", "a shape", "Fill:0 Empty:0 RandomUniform:0 RandomStandardNormal:0 RandomUniformInt:0 "
          "TruncatedNormal:0 RandomGamma:0 StatelessRandomUniform:0 StatelessRandomNormal:0 StatelessTruncatedNormal:0 "
          "StatelessRandomUniformV2:0 StatelessRandomNormalV2:0 StatelessRandomUniformInt:0 "
          "ParameterizedTruncatedNormal:0 ScatterNd:2", (2,), grows=True),
    _Role("setting", "the shape of a sparse tensor", "SparseToDense:1 SparseReshape:1 SparseSlice:1 SparseReorder:2 "
          "SparseTensorDenseMatMul:2 SparseFillEmptyRows:2 SparseSoftmax:2 SparseReduceSum:2 SparseReduceMax:2 "
          "SparseDenseCwiseMul:2 SparseDenseCwiseDiv:2 SparseDenseCwiseAdd:2 SparseTensorDenseAdd:2 SerializeSparse:2 "
          "SerializeManySparse:2 SparseAdd:2 SparseAdd:5", (_SPARSE_SIDE,)),
    _Role("setting", "multiples", "Tile:1", (2,), grows=True),
    _Role("setting", "an axis", "ExpandDims:1 ArgMax:1 ArgMin:1 Cumsum:1 Cumprod:1 Concat:0 Split:0 GatherV2:2 "
          "SplitV:2", (0,)),
    _Role("setting", "where to begin", "Slice:1 StridedSlice:1 Substr:1 Range:0", (0,)),
    _Role("setting", "a size of 1", "Slice:2 Substr:2", (1,)),
    _Role("setting", "where to end", "StridedSlice:2", (1,)),
    _Role("setting", "where to end", "Range:1", (5,), grows=True),
    _Role("setting", "steps of 1", "StridedSlice:3 Range:2", (1,)),
    _Role("setting", "a margin of 1", "Pad:1 PadV2:1", (1,)),
    _Role("setting", "no margin", "MirrorPad:1 SpaceToBatchND:2 BatchToSpaceND:2", (0,)),
    _Role("setting", "blocks of 1", "SpaceToBatchND:1 BatchToSpaceND:1", (1,)),
    _Role("setting", "height and width", "ResizeBilinear:1 ResizeNearestNeighbor:1 ResizeBicubic:1 ResizeArea:1 "
          "ScaleAndTranslate:1 CropAndResize:3", (64,)),
    _Role("setting", "how many", "TopKV2:1 InTopKV2:2", (1,)),
    _Role("setting", "how many", "NonMaxSuppression:2 NonMaxSuppressionV2:2 NonMaxSuppressionV3:2 "
          "NonMaxSuppressionV4:2 NonMaxSuppressionV5:2 CombinedNonMaxSuppression:2 CombinedNonMaxSuppression:3", (10,),
          grows=True),
    _Role("setting", "how many", "Multinomial:1 RandomCategorical:1 TensorListReserve:1 TensorArrayV3:0", (3,)),
    _Role("setting", "how many", "LinSpace:2", (5,)),
    _Role("setting", "how many", "Bincount:1", (10,)),
    _Role("setting", "how many", "SparseSegmentSumWithNumSegments:3 SparseSegmentMeanWithNumSegments:3 "
          "SparseSegmentSqrtNWithNumSegments:3 UnsortedSegmentSum:2 UnsortedSegmentMax:2 UnsortedSegmentMin:2 "
          "UnsortedSegmentProd:2 OneHot:1", (_SPARSE_SIDE,)),
    _Role("setting", "an overlap of 0.5", "NonMaxSuppressionV2:3 NonMaxSuppressionV3:3 NonMaxSuppressionV4:3 "
          "NonMaxSuppressionV5:3 CombinedNonMaxSuppression:4", (0.5,)),
    _Role("setting", f"a threshold of {_THRESHOLD}", "NonMaxSuppressionV3:4 NonMaxSuppressionV4:4 "
          "NonMaxSuppressionV5:4 CombinedNonMaxSuppression:5", (_THRESHOLD,)),
    _Role("setting", "a lowest value of 0.25", "ClipByValue:1", (0.25,)),
    _Role("setting", "a highest value of 0.75", "ClipByValue:2", (0.75,)),
)  # fmt: skip
_AXIS = _Role("setting", "an axis", "", (0,))
_ROLE_OF = {each: role for role in _ROLES for each in role.inputs.split()}


def _role(start: Consumer, port: int) -> Content | None:
    """Returns the content of an input that is not data, but an index, a shape or a setting; None for data."""
    found: Content | None = None
    for step in following(start, port, _SELECTING):
        is_axis = step.op == "ConcatV2" and 0 < step.slot == step.setting("N", 0)
        role = _AXIS if is_axis else _ROLE_OF.get(f"{step.op}:{step.slot}")
        if role is None:
            continue
        values = tuple(role.values(step) if callable(role.values) else role.values)
        bound = max(int(values[0]), 1) if role.kind in ("index", "sorted") else 0
        what = role.what or (f"indices below {bound}" if bound > 1 else "index 0")
        content = Content(role.kind, for_step(what, step), bound, values, role.grows)
        if found is None:
            found = content
            if found.kind != "index":
                break
        elif content.kind == "index" and bound < found.bound:
            found = content  # of several tables the smallest
    return found


_VECTORS = inputs_of("Reshape BroadcastTo Tile Transpose ConjugateTranspose Pad PadV2 MirrorPad", 1) | {
    "Slice": (1, 2), "StridedSlice": (1, 2, 3),
}  # fmt: skip


def role_shapes(start: Consumer, stated: Shape) -> Iterator[tuple[int, ...]]:
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
    if step.op not in _CONSTANTS or step.slot not in ((0, 1) if step.op in COMMUTATIVE else (0,)):
        return 0
    found = step.constant(1 - step.slot if step.op in COMMUTATIVE else _CONSTANTS[step.op])
    values = [item for item in found.values if not isinstance(item, bytes)] if found is not None else []
    if not values:
        return 0
    mean = sum(values) / len(values)
    size = abs(mean)
    if step.op in ("RealDiv", "Div"):
        return 255 if 50 <= size <= 260 else 0
    if step.op == "Mul":
        return 255 if 0.0035 <= size <= 0.0085 or 0.015 <= size <= 0.02 else int(size == 2)
    if step.op in ("Add", "AddV2", "BiasAdd"):
        mean = -mean
    return 255 if mean > 50 else int(0.3 <= mean <= 0.7)


# -- settings --------------------------------------------------------------------------------------------


class _Name(NamedTuple):
    """The value that a name suggests for a setting, as a float and as an integer.

    Attributes:
        words: parts of the name.
        value: as a float.
        whole: as an integer; a bool is such a setting if this is 0.
        why: the reason in words.
        most: the number of elements up to which a vector is also such a setting.
        grows: whether the integer can be one larger.
    """

    words: tuple[str, ...]
    value: float
    whole: int
    why: str
    most: int = 0
    grows: bool = False


_NAMES = (
    _Name(("thresh",), _THRESHOLD, 1, "a threshold", 16),
    _Name(("batch",), 1.0, 1, "one, as batches are made,"),
    _Name(("size",), 40.0, 40, "a size", grows=True),
    _Name(("keep",), 1.0, 1, "keeps all,", 1),
    _Name(("drop",), 0.0, 0, "drops nothing,", 1),
    _Name(("phase", "train"), 0.0, 0, "no training,", 1),
    _Name(("factor", "scale", "prob", "rate"), 0.7, 3, "a factor", grows=True),
)


def setting_of(name: str, dtype: int, shape: tuple[int, ...], content: Content) -> Content | None:
    """Returns the content of an input that is a setting: a scalar usually is one, and its name suggests a value.

    None if the input is data, or if its consumers determine its values.
    """
    if content.kind not in ("number", "pixels", "unit") or content.bound or len(shape) > 1:
        return None
    is_float = dtype in dtypes.FLOATING
    if not is_float and dtype not in (dtypes.INT32, dtypes.INT64, dtypes.BOOL):
        return None
    for rule in _NAMES:
        if any(word in name.lower() for word in rule.words) and prod(shape) <= (rule.most if shape else 1):
            value = rule.value if is_float else rule.whole
            if dtype != dtypes.BOOL or not rule.whole:
                spelt = "false" if dtype == dtypes.BOOL else f"{value:g}"
                return Content("setting", f"{spelt}: {rule.why} by its name", choices=(value,), grows=rule.grows)
    if shape:
        return None
    if is_float:
        return Content("random", "a number between 0.25 and 0.75")
    if dtype == dtypes.BOOL:
        return Content("side", "false and true alternating")
    return Content("setting", "3: a small whole number", choices=(3,), grows=True)


# -- generating ------------------------------------------------------------------------------------------


def generated(
    content: Content,
    dtype: int,
    shape: tuple[int, ...],
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
    if kind == "choice":
        return clipped(dtype, [choices[(seed + i) % len(choices)] for i in range(count)])
    if dtype == dtypes.STRING:
        distinct = [content.make(seed + i, picture) for i in range(min(count, MOST_TEXTS))]
        return [distinct[i % MOST_TEXTS] for i in range(count)]
    if kind == "pixels":
        if dtype in dtypes.FLOATING:
            words = memoryview(random.Random(seed).randbytes(2 * count)).cast("H")
            return b"".join(map(_levels(dtype).__getitem__, words))
        return numbers(dtype, count, 0 if dtype == dtypes.UINT8 else 256, seed)
    if kind == "random":
        return clipped(dtype, [round(random.Random(seed).uniform(0.25, 0.75), 3)])
    if kind == "side":
        return bytes([sample & 1])
    if kind == "setting":
        grown = int(wide and content.grows and dtype not in dtypes.FLOATING)
        return clipped(dtype, [value + grown for value in _repeated(choices, count)])
    if kind in ("target", "shape"):
        filled = (-1, *[1] * (count - 1)) if kind == "target" else (*[1] * (count - len(choices)), *choices)[-count:]
        return clipped(dtype, choices[:count] if len(choices) == count or not count else filled)
    if kind == "positions":
        return clipped(dtype, range(count))
    if kind == "sorted":
        return clipped(dtype, [min(i * content.bound // count, i) for i in range(count)])
    if kind == "coordinates":
        return clipped(dtype, _coordinates(shape, choices))
    return numbers(dtype, count, content.bound, seed, wide=wide and kind != "unit")


def _repeated(choices: Sequence[float], count: int) -> list[float]:
    return [choices[min(i, len(choices) - 1)] for i in range(count)]


def _coordinates(shape: tuple[int, ...], dims: Sequence[float]) -> list[int]:
    """Returns rows of indices in ascending order, spread over a tensor whose dimensions are `dims`."""
    width = shape[-1] if len(shape) > 1 else 1
    sides = [int(side) for side in _repeated(dims, width)]
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
# By the size of their words (two for a complex number), floats as bits: random ones under the mask, the others fixed,
# so that all floats are positive and below 1.
_FLOAT_BITS: dict[int, tuple[int, int]] = {
    **dict.fromkeys((dtypes.FLOAT32, dtypes.COMPLEX64), (0x017FFFFF, 0x3E000000)),
    **dict.fromkeys((dtypes.FLOAT64, dtypes.COMPLEX128), (0x000FFFFFFFFFFFFF, 0x3FE0000000000000)),
    dtypes.FLOAT16: (0x03FF, 0x3800), dtypes.BFLOAT16: (0x007F, 0x3F00),
    **dict.fromkeys((dtypes.FLOAT8_E5M2, dtypes.FLOAT8_E5M2FNUZ), (0x03, 0x38)),
    **dict.fromkeys((dtypes.FLOAT8_E4M3FN, dtypes.FLOAT8_E4M3FNUZ, dtypes.FLOAT8_E4M3B11FNUZ), (0x07, 0x30)),
}  # fmt: skip
# The same for common positive and negative floats, some above 1, which shows a cut below 0 or above 6.
_WIDE_BITS: dict[int, tuple[int, int]] = {
    dtypes.FLOAT32: (0x81FFFFFF, 0x40000000), dtypes.FLOAT64: (0x801FFFFFFFFFFFFF, 0x3FE0000000000000),
    dtypes.FLOAT16: (0x87FF, 0x3800), dtypes.BFLOAT16: (0x80FF, 0x3F00),
}  # fmt: skip
# The same for positive and negative floats between 2 and 32, and between 1/8 and 2.
_SIZES: dict[int, tuple[int, tuple[int, int]]] = {
    dtypes.FLOAT32: (0x81FFFFFF, (0x40000000, 0x3E000000)),
    dtypes.FLOAT64: (0x803FFFFFFFFFFFFF, (0x4000000000000000, 0x3FC0000000000000)),
    dtypes.FLOAT16: (0x8FFF, (0x4000, 0x3000)),
}
_LARGE: dict[int, int] = {dtypes.FLOAT32: 20 << 23, dtypes.FLOAT64: 20 << 52}
"""The number to add to the bits of a float to multiply it by 2 to the power of 20."""
_BLOCK = 1 << 16
"""Bytes that are generated at once; a multiple of the size of each element."""
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
    rng = random.Random(seed)
    size = dtypes.element_size(dtype)
    if bound and dtype in dtypes.FLOATING:
        return _bytes(clipped(dtype, [rng.randrange(min(bound, _MOST_INDEX)) for _ in range(count)]))
    if dtype in _FLOAT_BITS:
        mask, fixed = (_WIDE_BITS if wide and dtype in _WIDE_BITS else _FLOAT_BITS)[dtype]
        parts = 2 if dtypes.DTYPES[dtype].is_complex else 1
        return _patterned(rng, count * parts, size // parts, mask, fixed)
    if dtype in BYTES and not bound:
        return rng.randbytes(count)
    if dtype in INTEGERS:
        most = min(bound or 10, dtypes.DTYPES[dtype].bounds[1], _MOST_INDEX)
        return _bytes(packed(dtype, [rng.randrange(most) for _ in range(count)]))
    limit = 2 if dtype == dtypes.BOOL else bound or 4
    return bytes(byte % limit for byte in rng.randbytes(count * size))


def numbers_of_all_sizes(dtype: int, count: int, seed: int, *, large: bool = False) -> bytes:
    """Returns random floats (float16, 32 or 64), alternately between 2 and 32 and between 1/8 and 2, of both signs.

    `large` multiplies these by 2 to the power of 20, except float16.
    """
    mask, fixed = _SIZES[dtype]
    more = _LARGE.get(dtype, 0) if large else 0
    return _patterned(random.Random(seed), count, dtypes.element_size(dtype), mask, *(bits + more for bits in fixed))


def _bytes(data: bytes | list[bytes]) -> bytes:
    assert isinstance(data, bytes)
    return data


def _patterned(rng: random.Random, count: int, size: int, mask: int, *fixed: int) -> bytes:
    """Returns words of `size` bytes: random bits under the mask, combined with each of `fixed` in turn.

    By arithmetic on long integers, which is fast.
    """
    out = bytearray()
    for start in range(0, count * size, _BLOCK):
        length = min(_BLOCK, count * size - start)
        bits = rng.getrandbits(8 * length) & _block_of(size, mask) | _block_of(size, *fixed)
        out += bits.to_bytes(_BLOCK, "little")[:length]
    return bytes(out)


@lru_cache(maxsize=32)
def _block_of(size: int, *words: int) -> int:
    """Returns words of `size` bytes, in turn, for the length of a block."""
    pattern = b"".join(word.to_bytes(size, "little") for word in words)
    return int.from_bytes(pattern * (_BLOCK // len(pattern)), "little")


@lru_cache(maxsize=8)
def _levels(dtype: int) -> list[bytes]:
    """Returns the floats from 0 to 255 in 65536 equal steps."""
    data, size = _bytes(clipped(dtype, [step * 255 / 65535 for step in range(65536)])), dtypes.element_size(dtype)
    return [data[at : at + size] for at in range(0, len(data), size)]
