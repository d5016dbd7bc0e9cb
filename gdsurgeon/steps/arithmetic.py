"""Steps of arithmetic: types, factors, means, limits."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, trunc

from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import BOOL, FLOAT16, DType
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.images import reverse_channels
from gdsurgeon.steps.kinds import DTYPE, FLAG, NUMBER, NUMBERS_OF_CHANNELS, Kind, choice
from gdsurgeon.steps.parse import Literal
from gdsurgeon.steps.step import Parameter, step
from gdsurgeon.steps.value import CLASSES, Unfit, Value

SMALL = 3.0
"""Values between -SMALL and SMALL have been rescaled or normalised: no image of 0..255 lies there."""
BIG = 100.0
"""Values that are divided by so much are those of a byte."""


@step(
    "cast",
    "Change the dtype of numbers.",
    Parameter("type", DTYPE, "the dtype, such as float32"),
    Parameter("saturate", FLAG, "whether values outside the range of an integer dtype become its nearest value", True),
    example="cast(float32)",
    explanation="For integers, fractions are cut off; the step round rounds them. Values of -1..1 are "
    "refused, because nothing would be left. Values outside the range of an integer dtype become "
    "its smallest or largest value. With saturate=false they become the result of the op Cast, "
    "which depends on the machine.",
)
def cast(build: Builder, value: Value, *, type: DType, saturate: bool) -> Value:
    if value.dtype != BOOL:
        value.require_numbers()
    if type == value.dtype:
        return value
    if type.is_integer and not value.dtype.is_integer and value.dtype != BOOL:
        if value.is_fraction:
            raise Unfit(f"cuts fractions off, but the values are {value.bounds}: add rescale(255) or round before it")
        value = value.but(low=_cut(value.low), high=_cut(value.high))
    if type.is_integer and value.dtype != BOOL:
        low, high = limits(value.dtype, type)
        if not low <= value.low <= value.high <= high:
            value = _clipped(build, value, low, high) if saturate else value.but(low=-inf, high=inf)
    made = within_type(build.cast(value, type))
    return made.being(CLASSES) if value.is_of == CLASSES and type.is_integer else made


def _cut(end: float) -> float:
    """An end of an interval without its fraction."""
    return float(trunc(end)) if isfinite(end) else end


def limits(given: DType, wanted: DType) -> tuple[float, float]:
    """The least and the largest number of GIVEN that the integer type WANTED holds."""
    low, high = wanted.bounds
    if given.is_integer:
        return max(low, given.bounds[0]), min(high, given.bounds[1])
    digits = {"float16": 11, "float32": 24, "float64": 53}[given.name]
    if high.bit_length() > digits:  # the largest number with so many digits
        high -= (1 << high.bit_length() - digits) - 1
    return (max(float(low), -65504.0), min(float(high), 65504.0)) if given == FLOAT16 else (float(low), float(high))


def within_type(value: Value) -> Value:
    """VALUE with the bounds that its type has, where nothing nearer is known: of a byte, or a bool."""
    if value.dtype == BOOL:
        return value.but(low=0.0, high=1.0)
    if not value.dtype.is_integer or value.dtype.size > 1:
        return value
    low, high = value.dtype.bounds
    return value.but(low=max(value.low, low), high=min(value.high, high))


def _clipped(build: Builder, value: Value, low: float, high: float) -> Value:
    numbers = [build.constant(value.dtype, n if value.dtype.is_float else int(n)) for n in (low, high)]
    tensor = build.add("ClipByValue", value.tensor, *numbers)
    is_whole = value.is_whole and all(isfinite(end) and end == trunc(end) for end in (low, high))
    least, most = min(max(value.low, low), high), max(min(value.high, high), low)
    return value.but(tensor=tensor, low=least, high=most, is_whole=is_whole)


def check_not_small(value: Value, by: float) -> None:
    """Raises Unfit if values would be divided by a range as large as that of a byte, but are not bytes any more."""
    if abs(by) >= BIG and max(abs(value.low), abs(value.high)) <= SMALL:
        raise Unfit(f"divides by {by:g}, but the values are already rescaled to {value.bounds}")


@step(
    "rescale",
    "Multiply by a factor, then add an offset.",
    Parameter("scale", NUMBER, "the factor, such as 1/255"),
    Parameter("offset", NUMBER, "the number to add", 0.0),
    example="rescale(1/127.5, -1)",
    explanation="Same result as Keras' Rescaling, bit for bit. Integers become float32 first. x * (1/255) "
    "and x / 255 differ in the last bit of some values; the step divide divides.",
)
def rescale(build: Builder, value: Value, *, scale: float, offset: float) -> Value:
    value = build.floating(value)
    check_not_small(value, 1 / scale if scale else 0.0)
    tensor = value.tensor
    if scale != 1:
        tensor = build.add("Mul", tensor, build.number(value, scale))
    if offset:
        tensor = build.add("AddV2", tensor, build.number(value, offset))
    ends = sorted((_line(value.low, scale, offset), _line(value.high, scale, offset)))
    return value.but(tensor=tensor, low=ends[0], high=ends[1], is_whole=False)


def _line(end: float, scale: float, offset: float) -> float:
    """What becomes of an end of an interval."""
    return offset if scale == 0 else end * scale + offset


def _not_zero(literal: Literal) -> object:
    if literal == 0:
        raise ValueError
    return NUMBER.read(literal)


@step(
    "divide",
    "Divide by a number.",
    Parameter("by", Kind("a number other than 0", _not_zero), "the divisor"),
    example="divide(255)",
    explanation="Same result as NumPy's division in float32, bit for bit, as in torchvision's ToTensor. "
    "Integers become float32.",
)
def divide(build: Builder, value: Value, *, by: float) -> Value:
    value = build.floating(value)
    check_not_small(value, by)
    tensor = build.add("RealDiv", value.tensor, build.number(value, by))
    low, high = sorted((value.low / by, value.high / by))
    return value.but(tensor=tensor, low=low, high=high, is_whole=False)


def deviations(literal: Literal) -> object:
    found = NUMBERS_OF_CHANNELS.read(literal)
    if not isinstance(found, tuple) or not all(item > 0 for item in found):
        raise ValueError
    return found


CAFFE_MEAN = (103.939, 116.779, 123.68)
TORCH_MEAN, TORCH_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PRESETS = ("keras-caffe", "keras-tf", "keras-torch")


@step(
    "normalize",
    "Subtract a mean, then divide by a standard deviation.",
    Parameter("mean", NUMBERS_OF_CHANNELS, "the mean: a number, or one for each channel", None),
    Parameter(
        "std", Kind("a number above 0, or a list with one for each channel", deviations), "the standard deviation", None
    ),
    Parameter(
        "like", choice(*PRESETS), "do the same as keras.applications in this mode, instead of mean and std", None
    ),
    example="normalize(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])",
    explanation="Mean and std must have the same units as the values: 0..255, or 0..1 after rescale(1/255). "
    "Other units are refused. The presets of like expect RGB of 0..255 and return the same as "
    "preprocess_input of keras.applications, bit for bit. keras-caffe reverses the channels to "
    "BGR and subtracts the mean of ImageNet. keras-tf returns -1..1. keras-torch divides by 255 "
    "and normalizes with mean and std of ImageNet.",
)
def normalize(
    build: Builder,
    value: Value,
    *,
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
    like: str | None,
) -> Value:
    if like is None:
        if mean is None and std is None:
            raise Unfit(f"requires mean and std, or like={'|'.join(PRESETS)}")
        _check_units(value, mean or (), std or ())
        return _normalized(build, build.floating(value), mean, std)
    if mean is not None or std is not None:
        raise Unfit(f"like={like} determines mean and std: give only one of them")
    if max(abs(value.low), abs(value.high)) <= SMALL:
        raise Unfit(f"like={like} requires values of 0..255, got {value.bounds}")
    if like == "keras-tf":
        value = divide(build, value, by=127.5)
        return rescale(build, value, scale=1.0, offset=-1.0)
    if value.is_reversed or value.colour == "BGR":
        raise Unfit(f"like={like} requires RGB, but the channels are {value.colour or 'reversed'}")
    if like == "keras-caffe":
        return _normalized(build, reverse_channels(build, build.floating(value)), CAFFE_MEAN, None)
    return _normalized(build, divide(build, value, by=255.0), TORCH_MEAN, TORCH_STD)


def _check_units(value: Value, means: tuple[float, ...], stds: tuple[float, ...]) -> None:
    """Raises Unfit where mean and std are far from those that such values can have: they are those of others."""
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


def _normalized(build: Builder, value: Value, mean: Sequence[float] | None, std: Sequence[float] | None) -> Value:
    """Floats less MEAN, divided by STD."""
    if mean is not None:
        tensor = build.add("Sub", value.tensor, along_channels(build, value, "mean", mean))
        value = value.but(tensor=tensor, low=value.low - max(mean), high=value.high - min(mean))
    if std is not None:
        tensor = build.add("RealDiv", value.tensor, along_channels(build, value, "std", std))
        ends = [end / number for end in (value.low, value.high) for number in std]
        value = value.but(tensor=tensor, low=min(ends), high=max(ends))
    return value.but(is_whole=False)


def along_channels(build: Builder, value: Value, what: str, numbers: Sequence[float]) -> Output:
    """Returns a constant of `numbers`, one for each channel of `value`, or one for all. Raises Unfit: wrong count."""
    if len(numbers) == 1:
        return build.constant(value.dtype, numbers[0])
    value.require_channels(len(numbers), f"{what} requires")
    return build.constant(value.dtype, numbers, (len(numbers),) + (1,) * (-1 - value.channel_axis))


@step(
    "clip",
    "Limit values to an interval.",
    Parameter("low", NUMBER, "the lower limit"),
    Parameter("high", NUMBER, "the upper limit"),
    example="clip(0, 1)",
)
def clip(build: Builder, value: Value, *, low: float, high: float) -> Value:
    value.require_numbers()
    if low > high:
        raise Unfit(f"{low:g} is greater than {high:g}")
    if value.dtype.is_integer:
        least, most = value.dtype.bounds
        if low != int(low) or high != int(high) or not (least <= low and high <= most):
            raise Unfit(f"{low:g}..{high:g} is outside the range of {value.dtype.name}: add a cast before it")
    return _clipped(build, value, low, high)


@step(
    "round",
    "Round to whole numbers.",
    example="rescale(255) | round | cast(uint8)",
    explanation="Halves are rounded to the even number, as in NumPy, Python and Keras. The dtype does not change.",
)
def round_values(build: Builder, value: Value) -> Value:
    value.require_numbers()
    if value.dtype.is_integer:
        raise Unfit(f"the values are whole numbers already: {value.told}")
    low, high = (float(round(end)) if isfinite(end) else end for end in (value.low, value.high))
    return value.but(tensor=build.add("Round", value.tensor), low=low, high=high, is_whole=True)
