"""Steps that take back what was done to numbers: normalisation, quantisation."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.ops.dtypes import FLOAT32, NUMBERS, UINT8
from gdsurgeon.steps.arithmetic import (
    CAFFE_MEAN,
    PRESETS,
    TORCH_MEAN,
    TORCH_STD,
    along_channels,
    deviations,
    rescale,
)
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.images import reverse_channels
from gdsurgeon.steps.kinds import NUMBERS_OF_CHANNELS, Kind, choice
from gdsurgeon.steps.step import BEHIND, Parameter, step
from gdsurgeon.steps.value import Unfit, Value


@step(
    "denormalize",
    "Multiply by a standard deviation, then add a mean: the inverse of normalize.",
    Parameter("mean", NUMBERS_OF_CHANNELS, "the mean: a number, or one for each channel", None),
    Parameter(
        "std", Kind("a number above 0, or a list with one for each channel", deviations), "the standard deviation", None
    ),
    Parameter("like", choice(*PRESETS), "the inverse of keras.applications in this mode", None),
    sides=(BEHIND,),
    example="denormalize(like=keras-tf) | round | cast(uint8)",
    explanation="Computes x * std + mean in float32, as NumPy does, with the same mean and std as normalize. "
    "keras-tf converts -1..1 to 0..255; keras-torch converts its normalized values back; "
    "keras-caffe also converts BGR to RGB. Bytes are refused, because they are already pixels.",
)
def denormalize(
    build: Builder,
    value: Value,
    *,
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
    like: str | None,
) -> Value:
    value.require_numbers()
    if value.dtype == UINT8:
        raise Unfit(f"the values are already pixels: {value.told} is {value.bounds}")
    if like is None and mean is None and std is None:
        raise Unfit(f"requires mean and std, or like={'|'.join(PRESETS)}")
    if like is not None and (mean is not None or std is not None):
        raise Unfit(f"like={like} determines mean and std: give only one of them")
    value = build.floating(value)
    if like is None:
        return _restored(build, value, mean, std)
    if like == "keras-tf":
        value = rescale(build, value, scale=1.0, offset=1.0)
        return rescale(build, value, scale=127.5, offset=0.0)
    if like == "keras-torch":
        return rescale(build, _restored(build, value, TORCH_MEAN, TORCH_STD), scale=255.0, offset=0.0)
    return reverse_channels(build, _restored(build, value, CAFFE_MEAN, None))


def _restored(build: Builder, value: Value, mean: Sequence[float] | None, std: Sequence[float] | None) -> Value:
    """Floats multiplied by STD, and MEAN added."""
    if std is not None:
        tensor = build.add("Mul", value.tensor, along_channels(build, value, "std", std))
        ends = [end * number for end in (value.low, value.high) for number in std]
        value = value.but(tensor=tensor, low=min(ends), high=max(ends))
    if mean is not None:
        tensor = build.add("AddV2", value.tensor, along_channels(build, value, "mean", mean))
        value = value.but(tensor=tensor, low=value.low + min(mean), high=value.high + max(mean))
    return value.but(is_whole=False)


@step(
    "dequantize",
    "Convert quantized numbers to real numbers: (q - zero-point) * scale.",
    Parameter(
        "scale",
        Kind("a number above 0, or a list with one for each channel", deviations),
        "the real value of a step of 1",
    ),
    Parameter("zero-point", NUMBERS_OF_CHANNELS, "the quantized number for 0, or one for each channel", (0.0,)),
    example="dequantize(0.00390625, zero-point=-128)",
    explanation="For integers, as quantized by TensorFlow Lite. Returns float32, the same as NumPy's "
    "(q.astype(float32) - zero) * scale, bit for bit. Floats are refused, and so is a zero point "
    "outside the range of the integer dtype.",
)
def dequantize(build: Builder, value: Value, *, scale: tuple[float, ...], zero_point: tuple[float, ...]) -> Value:
    if value.dtype.is_quantized and value.dtype.numpy in NUMBERS:
        plain = NUMBERS[value.dtype.numpy]
        low, high = plain.bounds
        tensor = build.add("Bitcast", value.tensor, type=plain)
        value = value.but(tensor=tensor, dtype=plain, low=float(low), high=float(high))
    if not value.dtype.is_integer:
        raise Unfit(f"requires integers, got {value.told}")
    low, high = value.dtype.bounds
    for zero in zero_point:
        if zero != int(zero) or not low <= zero <= high:
            raise Unfit(f"zero-point {zero:g} is outside the range of {value.dtype.name}")
    value = build.cast(value, FLOAT32)
    if any(zero_point):
        tensor = build.add("Sub", value.tensor, along_channels(build, value, "zero-point", zero_point))
        value = value.but(tensor=tensor, low=value.low - max(zero_point), high=value.high - min(zero_point))
    tensor = build.add("Mul", value.tensor, along_channels(build, value, "scale", scale))
    ends = [end * number for end in (value.low, value.high) for number in scale]
    return value.but(tensor=tensor, low=min(ends), high=max(ends), is_whole=False)
