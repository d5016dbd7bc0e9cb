"""Numbers for an input, by what consumes them: indices, pixels, shapes and axes, settings by their names."""

from __future__ import annotations

import random
from array import array
from collections.abc import Container, Sequence
from math import prod
from typing import NamedTuple

from gdsurgeon.feeds.given import packed
from gdsurgeon.feeds.infer.consumers import Outlet, Step, following
from gdsurgeon.feeds.infer.content import Content, for_step
from gdsurgeon.feeds.infer.roles import ANY, KEEPING, THRESHOLD, role_content
from gdsurgeon.feeds.make.numbers import BYTES, INTEGERS, numbers, packed_floats, scaled
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import COMMUTATIVE, FUSED_BATCH_NORMS


def number_content(start: Outlet, dtype: int) -> Content:
    """What numbers of DTYPE the consumers of START want."""
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
    """CONTENT of an input NAME of SHAPE; a scalar is a setting more often than data: then by what it is called.

    The second is whether it is such a setting: without one the value is by chance.
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
    """What a name says of a setting: its value as a float and as a whole number (None: nothing)."""

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
    """The elements of a tensor of DTYPE and SHAPE with CONTENT, by SEED; WIDE: see `numbers`."""
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
    """A float for a setting of unknown use."""
    return packed_floats(dtype, [round(random.Random(seed).uniform(0.25, 0.75), 3)])


def packed_numbers(dtype: int, values: Sequence[float]) -> bytes | list[bytes]:
    """VALUES as the data of a tensor of DTYPE; a value out of its range becomes its largest or smallest value."""
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
    """A shape of RANK dims for a Reshape or a BroadcastTo."""
    if len(content.choices) == rank or not rank:
        return content.choices[:rank]
    if content.method == "Reshape":
        return (-1, *[1] * (rank - 1))
    return (*[1] * (rank - len(content.choices)), *content.choices)[-rank:]


def _coordinates(shape: tuple[int, ...], content: Content) -> list[int]:
    """Rows of indices in ascending order, spread over a tensor with the sides that `choices` gives."""
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
"""Image ops that take, and mostly give, pixels of any range."""
_COLOURS = frozenset("RGBToHSV HSVToRGB AdjustHue AdjustSaturation".split())
"""Image ops that take colours from 0 to 1."""
_PICTURES: dict[str, Container[int]] = {
    **KEEPING,
    **dict.fromkeys("Transpose ReverseV2 Reverse Pad PadV2 MirrorPad Slice StridedSlice Unpack SplitV".split(), (0,)),
    **dict.fromkeys(_RESIZING, (0,)),
    "Split": (1,), "Pack": ANY, "ConcatV2": ANY, "Concat": ANY,
}  # fmt: skip


_PIXELS = dtypes.FLOATING | {dtypes.INT32, dtypes.INT64, dtypes.UINT8, dtypes.INT16, dtypes.UINT16}
"""What pixels come as."""


def _pixels(start: Outlet, dtype: int) -> Content | None:
    """Numbers in the range of an image, where the consumers show one."""
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
    """255 or 1 where STEP shows that this is what the brightest pixel is; 0 where it shows nothing."""
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
