"""The value that a step returns, with known facts: dtype, shape, layout, colors, bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

from gdsurgeon.analysis.shapes.arithmetic import typed
from gdsurgeon.errors import UsageError, quoted
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import BOOL, NUMBERS, STRING, UINT8, DType

LAYOUTS = ("HWC", "CHW", "NHWC", "NCHW", "WC", "NWC")
SOUNDS = ("WC", "NWC")
"""The layouts of sounds: samples, and channels last."""
COLOURS = ("RGB", "BGR", "grey")
CHANNELS = {1: "grey", 3: "RGB"}
"""The colors of decoded images, by the number of channels."""
IMAGE_CHANNELS = (1, 3, 4)

PROBABILITIES = "probabilities"
LOG_PROBABILITIES = "log-probabilities"
CLASSES = "classes"
"""Kinds of numbers: along the last dimension they sum to one, are logarithms of such numbers, or each is a class."""


class Unfit(Exception):
    """A step is not valid for a value; the text is appended to the name of the step."""


class InputSpec(NamedTuple):
    """The dtype and the shape of a placeholder."""

    dtype: DType
    shape: Shape


@dataclass(frozen=True)
class Value:
    """A tensor with known facts. Unknown facts do not cause refusals.

    Attributes:
        tensor: the tensor.
        dtype: its dtype.
        shape: -1 for an unknown dimension, None for an unknown rank.
        layout: the layout of an image or a sound, or of a batch: one of `LAYOUTS`; '' for other values, or if unknown.
        colour: one of `COLOURS`, or ''.
        low, high: the bounds of its numbers.
        is_reversed: whether a step has reversed its channels.
        is_whole: whether its numbers are known to be whole, with any dtype.
        rate: samples of a sound in a second; 0 if unknown.
        extras: other current values of the steps, by name, such as the sample rate of a sound file.
        kind_of: a tensor and the kind of its numbers: see `PROBABILITIES`. A tensor that a later step computes from it
            has no known kind.
        results: additional results of the steps, by kind, such as the scores of classes.
        place: for an additional result, the output of the model that it replaces; '': it is a separate output.
        name: the name that the user gives the value as an output of the model; '': the name of the place, or of the
            original output and the kind of result. None: it is not an output.
    """

    tensor: Output
    dtype: DType
    shape: Shape
    layout: str = ""
    colour: str = ""
    low: float = -inf
    high: float = inf
    is_reversed: bool = False
    is_whole: bool = False
    rate: int = 0
    extras: Mapping[str, Value] = field(default_factory=dict)
    kind_of: tuple[Output, str] | None = None
    results: Mapping[str, Value] = field(default_factory=dict)
    place: str = ""
    name: str | None = ""

    def replace(self, **changes: Any) -> Value:
        """Returns the value with these changes."""
        return replace(self, **changes)

    def fresh(self, tensor: Output, dtype: DType, shape: Shape) -> Value:
        """Returns a value that was computed from this one: only its dtype and shape are known."""
        return Value(tensor, dtype, shape, extras=self.extras, results=self.results, name=self.name)

    def with_kind(self, kind: str) -> Value:
        """Returns the same value with a known kind of numbers."""
        return self.replace(kind_of=(self.tensor, kind))

    def with_results(self, **results: Value) -> Value:
        """Returns the same value with the additional `results`. Raises Unfit if such results exist already."""
        for name in results:
            if name in self.results:
                raise Unfit(f"the additional result {name} exists already")
        own = {what: value.replace(results={}, name="") for what, value in results.items()}
        return self.replace(results={**self.results, **own})

    @property
    def kind(self) -> str:
        """The kind of its numbers: one of `PROBABILITIES`, `LOG_PROBABILITIES`, `CLASSES`, or ''."""
        return self.kind_of[1] if self.kind_of is not None and self.kind_of[0] == self.tensor else ""

    @property
    def description(self) -> str:
        """``float32 [?,?,3]``."""
        return typed(self.dtype, self.shape)

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None if unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape of a value of known rank."""
        assert self.shape is not None
        return self.shape

    @property
    def is_static(self) -> bool:
        """Whether all dimensions are known."""
        return self.shape is not None and all(dim >= 0 for dim in self.shape)

    @property
    def channel_axis(self) -> int:
        """The axis of the channels, counted from the end; the last axis if the layout is unknown."""
        return -3 if self.layout in ("CHW", "NCHW") else -1

    @property
    def channels(self) -> int:
        """The number of channels; -1 if unknown."""
        if not self.shape or len(self.shape) < -self.channel_axis:
            return -1
        return self.shape[self.channel_axis]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of an image with channels last; -1 if unknown."""
        return (self.shape[-3], self.shape[-2]) if self.shape is not None else (-1, -1)

    def require_numbers(self) -> None:
        """Raises Unfit if the value does not consist of numbers."""
        if self.dtype in (STRING, BOOL) or not self.dtype.code:
            what = "decode-image" if self.dtype == STRING else "cast"
            raise Unfit(f"requires numbers, got {self.description}: add {what} before it")

    def require_in_range(self, number: float, what: str = "") -> None:
        """Raises Unfit if the dtype is an integer dtype that cannot represent `number`; `what` names the number."""
        if self.dtype.is_integer and not (
            number == int(number) and self.dtype.bounds[0] <= number <= self.dtype.bounds[1]
        ):
            raise Unfit(f"{what}{number:g} is outside the range of {self.dtype.name}: add a cast before it")

    def require_channels(self, count: int, what: str) -> None:
        """Raises Unfit if it is known not to have `count` channels; the message begins with `what`."""
        if self.shape is not None and len(self.shape) < -self.channel_axis:
            raise Unfit(f"{what} {count} channels, but the value has none: {self.description}")
        if self.channels not in (-1, count):
            raise Unfit(f"{what} {count} channels, but the value has {self.channels}: {self.description}")

    def require_image(self) -> None:
        """Raises Unfit if it is known not to be an image with channels last."""
        if self.dtype == STRING:
            raise Unfit(f"requires an image, got {self.description}: add decode-image before it")
        self.require_numbers()
        if self.layout in SOUNDS:
            raise Unfit(f"requires an image, got a sound: {self.description}")
        if self.layout in ("CHW", "NCHW"):
            raise Unfit(f"requires channels last, got {self.layout}: move it before to-nchw")
        if self.rank is None:
            raise Unfit("requires an image, got a tensor of unknown rank")
        if self.rank not in (3, 4):
            raise Unfit(f"requires an image, which has 3 dimensions (4 in a batch), got {self.description}")

    @property
    def is_fraction(self) -> bool:
        """Whether its numbers are known to be fractions, which a conversion to integers would remove."""
        return self.dtype.is_float and -1 <= self.low <= self.high <= 1 and not self.is_whole

    @property
    def bounds(self) -> str:
        """``0..255``."""
        return f"{self.low:g}..{self.high:g}"


# -- facts that follow from dtype and shape --------------------------------------------------------------


def in_batch(layout: str) -> str:
    """Returns the layout of a batch of values with `layout`."""
    return f"N{layout}" if layout and not layout.startswith("N") else ""


_INPUT = re.compile(r"\s*([a-z][a-z0-9_]*)\s*(?:\[([^\[\]]*)\])?\s*")


def parse_input(text: str) -> InputSpec:
    """Reads a dtype and a shape: ``uint8[?,?,3]``; without a shape a scalar, with ``[...]`` an unknown rank.

    Raises:
        UsageError: a syntax error, or an unknown dtype.
    """
    found = _INPUT.fullmatch(text)
    dtype = NUMBERS.get(found[1]) if found is not None else None
    if found is None or dtype is None or not dtype.kind:
        raise UsageError(f"raw {quoted(text)} is not a dtype with a shape, such as uint8[?,?,3] or string")
    inner = (found[2] or "").strip()
    if inner == "...":
        return InputSpec(dtype, None)
    dims = [dim.strip() for dim in inner.split(",")] if inner else []
    if not all(dim == "?" or (dim.isdecimal() and dim.isascii() and len(dim) < 10) for dim in dims):
        raise UsageError(f"raw {quoted(text)} has no valid shape: dimensions must be numbers, or ? if open")
    return InputSpec(dtype, tuple(-1 if dim == "?" else int(dim) for dim in dims))


def layout_of(shape: Shape) -> str:
    """Returns the layout of an image, or a batch of images; '' if the shape does not determine it."""
    if shape is None or len(shape) not in (3, 4):
        return ""
    batch = "N" if len(shape) == 4 else ""
    if shape[-1] in IMAGE_CHANNELS:
        return batch + "HWC"
    return batch + "CHW" if shape[-3] == 3 else ""


def value_of(tensor: Output, spec: InputSpec, *, is_declared: bool = False) -> Value:
    """Returns a tensor as a value; `is_declared`: the user declares that its 3 dimensions are those of an image.

    Otherwise 3 dimensions may be a sequence of vectors.
    """
    is_image = is_declared or (spec.shape is not None and len(spec.shape) == 4)
    value = Value(tensor, spec.dtype, spec.shape, layout_of(spec.shape) if is_image else "")
    return value.replace(low=0.0, high=255.0) if spec.dtype == UINT8 else value
