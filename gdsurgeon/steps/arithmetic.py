"""Steps of arithmetic: types, factors, means, limits, and the inverse of normalization and quantization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isfinite, isnan, trunc
from operator import add, mul, sub, truediv
from typing import Annotated, TypeAlias

from gdsurgeon.ops.dtypes import BOOL, FLOAT16, FLOAT32, NUMBERS, UINT8, DType
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.catalog import AFTER, step
from gdsurgeon.steps.images import reverse_channels
from gdsurgeon.steps.language import (
    ChannelNumbers,
    Flag,
    Number,
    NumericType,
    choice,
    number_that,
    one_or_more,
)
from gdsurgeon.steps.value import CLASSES, Unfit, Value

SMALL = 3.0
"""Values between -SMALL and SMALL are rescaled or normalized; no image of 0..255 has only such values."""
BIG = 100.0
"""Values that are divided by this number or more are bytes."""


@step("cast", example="cast(float32)")
def cast(build: Builder, value: Value, *, type: NumericType, saturate: Flag = True) -> Value:
    """Change the dtype of numbers.

    For integers, fractions are cut off; the step round rounds them. Values of -1..1 are refused, because nothing
    would be left. Values outside the range of an integer dtype become its smallest or largest value. With
    saturate=false they become the result of the op Cast, which depends on the machine.

    Args:
        type: the dtype, such as float32
        saturate: whether values outside the range of an integer dtype become its nearest value
    """
    if value.dtype != BOOL:
        value.require_numbers()
    if type == value.dtype:
        return value
    if type.is_integer and not value.dtype.is_integer and value.dtype != BOOL:
        if value.is_fraction:
            raise Unfit(f"cuts fractions off, but the values are {value.bounds}: add rescale(255) or round before it")
        value = _with_whole_bounds(value, trunc)
    if type.is_integer and value.dtype != BOOL:
        low, high = limits(value.dtype, type)
        if not low <= value.low <= value.high <= high:
            value = _clipped(build, value, low, high) if saturate else value.replace(low=-inf, high=inf)
    made = build.cast(value, type)
    if type == BOOL:
        made = made.replace(low=0.0, high=1.0)
    elif type.is_integer and type.size == 1:
        made = made.replace(low=max(made.low, type.bounds[0]), high=min(made.high, type.bounds[1]))
    return made.with_kind(CLASSES) if value.kind == CLASSES and type.is_integer else made


def _with_whole_bounds(value: Value, rounded: Callable[[float], int]) -> Value:
    """Returns `value` with rounded bounds."""
    low, high = (float(rounded(end)) if isfinite(end) else end for end in (value.low, value.high))
    return value.replace(low=low, high=high)


def limits(given: DType, wanted: DType) -> tuple[float, float]:
    """Returns the smallest and the largest number of a dtype that an integer dtype can represent."""
    low, high = wanted.bounds
    if given.is_integer:
        return max(low, given.bounds[0]), min(high, given.bounds[1])
    digits = {"float16": 11, "float32": 24, "float64": 53}[given.name]
    if high.bit_length() > digits:  # the largest number with this number of digits
        high -= (1 << high.bit_length() - digits) - 1
    return (max(float(low), -65504.0), min(float(high), 65504.0)) if given == FLOAT16 else (float(low), float(high))


def _clipped(build: Builder, value: Value, low: float, high: float) -> Value:
    tensor = build.add("ClipByValue", value.tensor, build.number(value, low), build.number(value, high))
    is_whole = value.is_whole and all(isfinite(end) and end == trunc(end) for end in (low, high))
    least, most = min(max(value.low, low), high), max(min(value.high, high), low)
    return value.replace(tensor=tensor, low=least, high=most, is_whole=is_whole)


def _check_not_small(value: Value, by: float) -> None:
    """Raises Unfit if values would be divided by the range of a byte, but are already rescaled."""
    if abs(by) >= BIG and max(abs(value.low), abs(value.high)) <= SMALL:
        raise Unfit(f"divides by {by:g}, but the values are already rescaled to {value.bounds}")


_FUNCTIONS: dict[str, Callable[[float, float], float]] = {"Sub": sub, "AddV2": add, "Mul": mul, "RealDiv": truediv}


def _computed(build: Builder, value: Value, op: str, numbers: Sequence[float] | None, what: str = "") -> Value:
    """Returns floats combined with numbers, one for each channel or one for all; None changes nothing.

    Raises Unfit: the number of channels is wrong; `what` are the numbers.
    """
    if numbers is None:
        return value
    shape: tuple[int, ...] = ()
    if len(numbers) > 1:
        value.require_channels(len(numbers), f"{what} requires")
        shape = (len(numbers),) + (1,) * (-1 - value.channel_axis)
    tensor = build.add(op, value.tensor, build.constant(value.dtype, numbers, shape))
    ends = [_FUNCTIONS[op](end, number) for end in (value.low, value.high) for number in numbers]
    ends = [0.0 if isnan(end) else end for end in ends]  # no limit, times 0
    return value.replace(tensor=tensor, low=min(ends), high=max(ends), is_whole=False)


@step("rescale", example="rescale(1/127.5, -1)")
def rescale(build: Builder, value: Value, *, scale: Number, offset: Number = 0.0) -> Value:
    """Multiply by a factor, then add an offset.

    Same result as Keras' Rescaling, bit for bit. Integers become float32 first. x * (1/255) and x / 255 differ in
    the last bit of some values; the step divide divides.

    Args:
        scale: the factor, such as 1/255
        offset: the number to add
    """
    value = build.floating(value)
    _check_not_small(value, 1 / scale if scale else 0.0)
    value = _computed(build, value, "Mul", (scale,) if scale != 1 else None)
    return _computed(build, value, "AddV2", (offset,) if offset else None).replace(is_whole=False)


NotZero: TypeAlias = Annotated[float, number_that("a number other than 0", lambda found: found != 0)]


@step("divide", example="divide(255)")
def divide(build: Builder, value: Value, *, by: NotZero) -> Value:
    """Divide by a number.

    Same result as NumPy's division in float32, bit for bit, as in torchvision's ToTensor. Integers become float32.

    Args:
        by: the divisor
    """
    value = build.floating(value)
    _check_not_small(value, by)
    return _computed(build, value, "RealDiv", (by,))


Deviations: TypeAlias = Annotated[
    tuple[float, ...],
    one_or_more(
        "a number above 0, or a list with one for each channel", number_that("a number above 0", lambda n: n > 0).read
    ),
]
PRESETS: dict[str, tuple[tuple[str, tuple[float, ...]], ...]] = {
    "keras-caffe": (("Sub", (103.939, 116.779, 123.68)),),
    "keras-tf": (("RealDiv", (127.5,)), ("AddV2", (-1.0,))),
    "keras-torch": (("RealDiv", (255.0,)), ("Sub", (0.485, 0.456, 0.406)), ("RealDiv", (0.229, 0.224, 0.225))),
}
"""The ops and numbers of normalize(like=...); keras-caffe also reverses the channels."""
Preset: TypeAlias = Annotated[str, choice(*PRESETS)]


@step("normalize", example="normalize(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])")
def normalize(
    build: Builder,
    value: Value,
    *,
    mean: ChannelNumbers | None = None,
    std: Deviations | None = None,
    like: Preset | None = None,
) -> Value:
    """Subtract a mean, then divide by a standard deviation.

    Mean and std must have the same units as the values: 0..255, or 0..1 after rescale(1/255). Other units are
    refused. The presets of like expect RGB of 0..255 and return the same as preprocess_input of keras.applications,
    bit for bit. keras-caffe reverses the channels to BGR and subtracts the mean of ImageNet. keras-tf returns
    -1..1. keras-torch divides by 255 and normalizes with mean and std of ImageNet.

    Args:
        mean: the mean: a number, or one for each channel
        std: the standard deviation
        like: do the same as keras.applications in this mode, instead of mean and std
    """
    _check_preset(mean, std, like)
    if like is None:
        _check_units(value, mean or (), std or ())
        value = _computed(build, build.floating(value), "Sub", mean, "mean")
        return _computed(build, value, "RealDiv", std, "std")
    if max(abs(value.low), abs(value.high)) <= SMALL:
        raise Unfit(f"like={like} requires values of 0..255, got {value.bounds}")
    if like != "keras-tf" and (value.is_reversed or value.colour == "BGR"):
        raise Unfit(f"like={like} requires RGB, but the channels are {value.colour or 'reversed'}")
    value = build.floating(value)
    if like == "keras-caffe":
        value = reverse_channels(build, value)
    for op, operands in PRESETS[like]:
        value = _computed(build, value, op, operands, f"like={like}")
    return value


def _check_preset(mean: Sequence[float] | None, std: Sequence[float] | None, like: str | None) -> None:
    """Raises Unfit if not exactly one of mean and std, or a preset, is given."""
    if like is None and mean is None and std is None:
        raise Unfit(f"requires mean and std, or like={'|'.join(PRESETS)}")
    if like is not None and (mean is not None or std is not None):
        raise Unfit(f"like={like} determines mean and std: give only one of them")


def _check_units(value: Value, means: tuple[float, ...], stds: tuple[float, ...]) -> None:
    """Raises Unfit if mean and std have different units than the values."""
    wide = value.high - value.low
    for mean in means:
        if not value.low - 2 * wide <= mean <= value.high + 2 * wide:
            raise Unfit(f"mean {mean:g} does not fit the values, which are {value.bounds}")
    for std in stds:
        if std > 10 * max(wide, 1.0):
            raise Unfit(f"std {std:g} does not fit the values, which are {value.bounds}")
    if BIG <= wide < inf and any(means) and all(0 <= mean <= 1 for mean in means) and all(std <= 1 for std in stds):
        raise Unfit(
            f"mean and std are for values of 0..1, but the values are {value.bounds}: add rescale(1/255) before it"
        )


@step("clip", example="clip(0, 1)")
def clip(build: Builder, value: Value, *, low: Number, high: Number) -> Value:
    """Limit values to an interval.

    Args:
        low: the lower limit
        high: the upper limit
    """
    value.require_numbers()
    if low > high:
        raise Unfit(f"{low:g} is greater than {high:g}")
    value.require_in_range(low)
    value.require_in_range(high)
    return _clipped(build, value, low, high)


@step("round", example="rescale(255) | round | cast(uint8)")
def round_values(build: Builder, value: Value) -> Value:
    """Round to whole numbers.

    Halves are rounded to the even number, as in NumPy, Python and Keras. The dtype does not change.
    """
    value.require_numbers()
    if value.dtype.is_integer:
        raise Unfit(f"the values are whole numbers already: {value.description}")
    return _with_whole_bounds(value, round).replace(tensor=build.add("Round", value.tensor), is_whole=True)


@step("denormalize", family="restoring", side=AFTER, example="denormalize(like=keras-tf) | round | cast(uint8)")
def denormalize(
    build: Builder,
    value: Value,
    *,
    mean: ChannelNumbers | None = None,
    std: Deviations | None = None,
    like: Preset | None = None,
) -> Value:
    """Multiply by a standard deviation, then add a mean: the inverse of normalize.

    Computes x * std + mean in float32, as NumPy does, with the same mean and std as normalize. keras-tf converts
    -1..1 to 0..255; keras-torch converts its normalized values back; keras-caffe also converts BGR to RGB. Bytes
    are refused, because they are already pixels.

    Args:
        mean: the mean: a number, or one for each channel
        std: the standard deviation
        like: the inverse of keras.applications in this mode
    """
    value.require_numbers()
    if value.dtype == UINT8:
        raise Unfit(f"the values are already pixels: {value.description} is {value.bounds}")
    _check_preset(mean, std, like)
    value = build.floating(value)
    if like is None:
        return _computed(build, _computed(build, value, "Mul", std, "std"), "AddV2", mean, "mean")
    for op, operands in reversed(PRESETS[like]):
        inverse = "Mul" if op == "RealDiv" else "AddV2"
        signed = [-number if op == "AddV2" else number for number in operands]
        value = _computed(build, value, inverse, signed, f"like={like}")
    return reverse_channels(build, value) if like == "keras-caffe" else value


@step("dequantize", family="restoring", example="dequantize(0.00390625, zero-point=-128)")
def dequantize(build: Builder, value: Value, *, scale: Deviations, zero_point: ChannelNumbers = (0.0,)) -> Value:
    """Convert quantized numbers to real numbers: (q - zero-point) * scale.

    For integers, as quantized by TensorFlow Lite. Returns float32, the same as NumPy's (q.astype(float32) - zero) *
    scale, bit for bit. Floats are refused, and so is a zero point outside the range of the integer dtype.

    Args:
        scale: the real value of a step of 1
        zero_point: the quantized number for 0, or one for each channel
    """
    if value.dtype.is_quantized and value.dtype.numpy in NUMBERS:
        plain = NUMBERS[value.dtype.numpy]
        low, high = plain.bounds
        tensor = build.add("Bitcast", value.tensor, type=plain)
        value = value.replace(tensor=tensor, dtype=plain, low=float(low), high=float(high))
    if not value.dtype.is_integer:
        raise Unfit(f"requires integers, got {value.description}")
    for zero in zero_point:
        value.require_in_range(zero, "zero-point ")
    value = build.cast(value, FLOAT32)
    value = _computed(build, value, "Sub", zero_point if any(zero_point) else None, "zero-point")
    return _computed(build, value, "Mul", scale, "scale")
