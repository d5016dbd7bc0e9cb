"""What is known of the value that steps hand on: type, shape, layout, colours, bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

from gdsurgeon.analysis.shapes.arithmetic import typed
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import BOOL, STRING, DType

LAYOUTS = ("HWC", "CHW", "NHWC", "NCHW", "WC", "NWC")
SOUNDS = ("WC", "NWC")
"""Of the layouts those of sounds: samples, and channels last."""
COLOURS = ("RGB", "BGR", "grey")

CHANNELS = {1: "grey", 3: "RGB"}
"""The colours of what is decoded, by the number of channels."""


PROBABILITIES = "probabilities"
LOG_PROBABILITIES = "log-probabilities"
CLASSES = "classes"
"""What the numbers are, where that is known: along the last dimension they sum to one, are the logarithms of such, or
each says a class."""


def in_batch(layout: str) -> str:
    """The layout of a batch of what has LAYOUT."""
    return f"N{layout}" if layout and not layout.startswith("N") else ""


class Unfit(Exception):
    """A step cannot be meant for the value that it is given; the message goes behind the step's name."""


@dataclass(frozen=True)
class Value:
    """A tensor, with known facts about it. Unknown facts are left open, and do not cause refusals.

    Attributes:
        tensor: that it is.
        dtype: its type.
        shape: -1 for a dimension that is not known, None where not even the rank is.
        layout: of an image or a sound, or a batch of them: one of `LAYOUTS`; '' if it is neither, or unknown.
        colour: one of `COLOURS`, or ''.
        low, high: between these it lies.
        is_reversed: whether a step has reversed its channels.
        is_whole: whether its numbers are known to be whole, of whatever type they are.
        rate: samples of a sound in a second; 0 where that is not known.
        beside: other current values of the steps, by name, such as the sample rate of a sound file.
        said: a tensor, and what its numbers are: see `PROBABILITIES`. It is true of that tensor, and no longer of what
            a later step makes of it.
        results: additional results of the steps, by kind, such as the scores of classes.
        name: what its user wants it to be called as an output of the model; '': as the output that was given.
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
    beside: Mapping[str, Value] = field(default_factory=dict)
    said: tuple[Output, str] | None = None
    results: Mapping[str, Result] = field(default_factory=dict)
    name: str = ""

    def but(self, **changes: Any) -> Value:
        """The same but for CHANGES."""
        return replace(self, **changes)

    def anew(self, tensor: Output, dtype: DType, shape: Shape) -> Value:
        """What was computed of it and is something else: nothing is known of it but type and shape."""
        return Value(tensor, dtype, shape, beside=self.beside, results=self.results, name=self.name)

    def being(self, what: str) -> Value:
        """Returns the same value with a known meaning of its numbers."""
        return self.but(said=(self.tensor, what))

    def giving(self, **results: Value) -> Value:
        """Returns the same value with the additional `results`. Raises Unfit if such results exist already."""
        for name in results:
            if name in self.results:
                raise Unfit(f"the additional result {name} exists already")
        return self.but(results={**self.results, **{name: Result(value) for name, value in results.items()}})

    @property
    def is_of(self) -> str:
        """What its numbers are: one of `PROBABILITIES`, `LOG_PROBABILITIES`, `CLASSES`, or ''."""
        return self.said[1] if self.said is not None and self.said[0] == self.tensor else ""

    @property
    def told(self) -> str:
        """``float32 [?,?,3]``."""
        return typed(self.dtype, self.shape)

    @property
    def rank(self) -> int | None:
        """How many dimensions it has; None where that is not known."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether each dimension is known."""
        return self.shape is not None and all(dim >= 0 for dim in self.shape)

    @property
    def channel_axis(self) -> int:
        """The axis along which its channels lie, counted from the end; the last where nothing says otherwise."""
        return -3 if self.layout in ("CHW", "NCHW") else -1

    @property
    def channels(self) -> int:
        """How many channels it has; -1 where that is not known."""
        if not self.shape or len(self.shape) < -self.channel_axis:
            return -1
        return self.shape[self.channel_axis]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of an image with its channels last; -1 where one is not known."""
        return (self.shape[-3], self.shape[-2]) if self.shape is not None else (-1, -1)

    def require_numbers(self) -> None:
        """Raises Unfit where it holds no numbers."""
        if self.dtype in (STRING, BOOL) or not self.dtype.code:
            what = "decode-image" if self.dtype == STRING else "cast"
            raise Unfit(f"requires numbers, got {self.told}: add {what} before it")

    def require_channels(self, count: int, what: str) -> None:
        """Raises Unfit where it is known not to have COUNT channels, which WHAT is there for."""
        if self.shape is not None and len(self.shape) < -self.channel_axis:
            raise Unfit(f"{what} {count} channels, but the value has none: {self.told}")
        if self.channels not in (-1, count):
            raise Unfit(f"{what} {count} channels, but the value has {self.channels}: {self.told}")

    def require_image(self) -> None:
        """Raises Unfit where it is known to be no image, or one whose channels do not come last."""
        if self.dtype == STRING:
            raise Unfit(f"requires an image, got {self.told}: add decode-image before it")
        self.require_numbers()
        if self.layout in SOUNDS:
            raise Unfit(f"requires an image, got a sound: {self.told}")
        if self.layout in ("CHW", "NCHW"):
            raise Unfit(f"requires channels last, got {self.layout}: move it before to-nchw")
        if self.rank is None:
            raise Unfit("requires an image, got a tensor of unknown rank")
        if self.rank not in (3, 4):
            raise Unfit(f"requires an image, which has 3 dimensions (4 in a batch), got {self.told}")

    @property
    def is_fraction(self) -> bool:
        """Whether its numbers are known to be fractions: without what is behind the point next to nothing is left."""
        return self.dtype.is_float and -1 <= self.low <= self.high <= 1 and not self.is_whole

    @property
    def bounds(self) -> str:
        """``0..255``."""
        return f"{self.low:g}..{self.high:g}"


class Result(NamedTuple):
    """An additional result of steps.

    Attributes:
        value: it.
        place: the output of the model in whose place it comes; '': it is an output of its own.
        name: what its user wants it to be called; '': by its place, or the output and what it is. None: it is left out.
    """

    value: Value
    place: str = ""
    name: str | None = ""
