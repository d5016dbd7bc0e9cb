"""Steps that change how a value lies in memory, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Annotated, TypeAlias

from gdsurgeon.graph.attrs import Shape, format_shape
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.catalog import EITHER, Arguments, step
from gdsurgeon.steps.language import Number, Wholes, choice, whole
from gdsurgeon.steps.value import COLOURS, LAYOUTS, SOUNDS, InputSpec, Unfit, Value, in_batch

Axis: TypeAlias = Annotated[int, whole(-254, 254)]


def _moved(value: Value, layouts: tuple[str, str], what: str) -> tuple[str, str]:
    """The layouts of VALUE before and after its channels move. Raises Unfit."""
    if value.rank not in (3, 4) or value.layout in SOUNDS:
        raise Unfit(f"requires an image, which has 3 dimensions (4 in a batch), got {value.description}")
    given, wanted = (("N" if value.rank == 4 else "") + layout for layout in layouts)
    if value.layout == wanted:
        raise Unfit(f"the channels are already {what}: the value is {value.layout}")
    return given, wanted


def _order(given: str, wanted: str) -> tuple[int, ...]:
    return tuple(given.index(letter) for letter in wanted)


def _reordered(shape: Shape, order: tuple[int, ...]) -> Shape:
    return None if shape is None else tuple(shape[axis] for axis in order)


def _before(given: str, wanted: str) -> Callable[[InputSpec, Arguments], InputSpec]:
    """What has to come in for images to come out whose dimensions lie in another order."""

    def takes(raw: InputSpec, arguments: Arguments) -> InputSpec:
        if raw.shape is None or len(raw.shape) not in (3, 4):
            return raw
        batch = "N" if len(raw.shape) == 4 else ""
        return raw._replace(shape=_reordered(raw.shape, _order(batch + wanted, batch + given)))

    return takes


@step(
    "to-nchw",
    example="decode-image | resize(224, 224, like=opencv) | cast(float32) | to-nchw",
    takes=_before("HWC", "CHW"),
)
def to_nchw(build: Builder, value: Value) -> Value:
    """Move the channels of an image to the front.

    A single image becomes CHW. Steps that resize or crop must come before this step.
    """
    return _transposed(build, value, *_moved(value, ("HWC", "CHW"), "first"))


@step("to-nhwc", example="to-nhwc", takes=_before("CHW", "HWC"))
def to_nhwc(build: Builder, value: Value) -> Value:
    """Move the channels of an image to the end.

    A single image becomes HWC.
    """
    return _transposed(build, value, *_moved(value, ("CHW", "HWC"), "last"))


def _transposed(build: Builder, value: Value, given: str, wanted: str) -> Value:
    order = _order(given, wanted)
    tensor = build.add("Transpose", value.tensor, order)
    return value.replace(tensor=tensor, shape=_reordered(value.shape, order), layout=wanted)


def _axis(axis: int, rank: int) -> int:
    """AXIS from the front. Raises Unfit: there are not so many dimensions."""
    if not -rank <= axis < rank:
        raise Unfit(f"axis {axis} does not exist: there are {rank} dimensions")
    return axis % rank


def _dim_gone(raw: InputSpec, arguments: Arguments) -> InputSpec:
    axis = arguments["axis"]
    if raw.shape is None or not isinstance(axis, int) or not -len(raw.shape) <= axis < len(raw.shape):
        return raw
    axis %= len(raw.shape)
    return raw._replace(shape=raw.shape[:axis] + raw.shape[axis + 1 :])


@step("expand-dims", example="expand-dims(-1)", takes=_dim_gone)
def expand_dims(build: Builder, value: Value, *, axis: Axis = 0) -> Value:
    """Add a dimension of size 1.

    Not needed for the batch dimension: a single image before a model that expects batches gets it anyway.

    Args:
        axis: the position of the new dimension; negative numbers count from the end
    """
    tensor = build.add("ExpandDims", value.tensor, axis)
    if value.shape is None:
        return value.replace(tensor=tensor, layout="")
    place = _axis(axis, len(value.shape) + 1)
    layout = in_batch(value.layout) if place == 0 else ""
    return value.replace(tensor=tensor, shape=(*value.shape[:place], 1, *value.shape[place:]), layout=layout)


def _dim_more(raw: InputSpec, arguments: Arguments) -> InputSpec:
    axis = arguments["axis"]
    if raw.shape is None or not isinstance(axis, int) or not -len(raw.shape) <= axis + (axis < 0) <= len(raw.shape):
        return raw
    place = axis % (len(raw.shape) + 1)
    return raw._replace(shape=(*raw.shape[:place], 1, *raw.shape[place:]))


@step("squeeze", example="squeeze(-1)", takes=_dim_more)
def squeeze(build: Builder, value: Value, *, axis: Axis = 0) -> Value:
    """Remove a dimension of size 1.

    Args:
        axis: the dimension to remove; negative numbers count from the end
    """
    if value.shape is None:
        raise Unfit("requires a tensor of known rank")
    place = _axis(axis, len(value.shape))
    if value.shape[place] not in (1, -1):
        raise Unfit(f"dimension {axis} is {value.shape[place]}, not 1: {value.description}")
    tensor = build.add("Squeeze", value.tensor, squeeze_dims=[place])
    shape = value.shape[:place] + value.shape[place + 1 :]
    layout = value.layout[1:] if value.layout.startswith("N") and place == 0 else ""
    return value.replace(tensor=tensor, shape=shape, layout=layout)


def _unknown(raw: InputSpec, arguments: Arguments) -> InputSpec:
    raise Unfit("the input shape cannot be determined from the output shape")


@step("reshape", example="reshape([-1, 784])", takes=_unknown)
def reshape(build: Builder, value: Value, *, shape: Wholes) -> Value:
    """Change the shape without changing the values.

    Before a model, the input shape must be given, because it cannot be determined from the output shape.

    Args:
        shape: the dimensions; one may be -1, for the rest
    """
    if sum(dim < 0 for dim in shape) > 1 or any(dim < -1 for dim in shape):
        raise Unfit(f"{format_shape(shape)} is not a shape: one dimension may be -1, all others must be numbers")
    result = shape
    if value.is_static:
        assert value.shape is not None
        count, known = prod(value.shape), prod(dim for dim in shape if dim >= 0)
        if -1 in shape and known and count % known == 0:
            result = tuple(count // known if dim < 0 else dim for dim in shape)
        if prod(result) != count or (-1 in result and known):
            raise Unfit(f"{value.description} has {count:,} elements, which do not fit {format_shape(shape)}")
    tensor = build.add("Reshape", value.tensor, shape)
    return value.replace(tensor=tensor, shape=result, layout="")


def _transposed_back(raw: InputSpec, arguments: Arguments) -> InputSpec:
    order = arguments["order"]
    if raw.shape is None or not isinstance(order, tuple) or sorted(order) != list(range(len(raw.shape))):
        return raw
    return raw._replace(shape=tuple(raw.shape[order.index(axis)] for axis in range(len(order))))


@step("transpose", example="transpose([0, 2, 1])", takes=_transposed_back)
def transpose(build: Builder, value: Value, *, order: Wholes) -> Value:
    """Change the order of the dimensions.

    Args:
        order: for each dimension of the result, the dimension of the value
    """
    if sorted(order) != list(range(len(order))):
        raise Unfit(f"{list(order)} is not an order of dimensions: each must occur once, starting at 0")
    if value.rank not in (None, len(order)):
        raise Unfit(f"orders {len(order)} dimensions, got {value.description}")
    layout = "".join(value.layout[axis] for axis in order) if value.layout else ""
    tensor = build.add("Transpose", value.tensor, order)
    return value.replace(
        tensor=tensor, shape=_reordered(value.shape, order), layout=layout if layout in LAYOUTS else ""
    )


@step("assume", example="assume(layout=NHWC, colour=BGR, low=0, high=1)", sides=EITHER)
def assume(
    build: Builder,
    value: Value,
    *,
    layout: Annotated[str, choice(*LAYOUTS)] | None = None,
    colour: Annotated[str, choice(*COLOURS)] | None = None,
    low: Number | None = None,
    high: Number | None = None,
) -> Value:
    """Declare facts about the value that the graph does not show. Adds no nodes.

    Steps use these facts to refuse wrong uses. They replace facts known before.

    Args:
        layout: the position of its channels
        colour: the order of its channels
        low: its smallest value
        high: its largest value
    """
    del build
    if layout is not None and value.rank not in (None, len(layout)):
        raise Unfit(f"{layout} has {len(layout)} dimensions, but the value is {value.description}")
    least, most = value.low if low is None else low, value.high if high is None else high
    if least > most:
        raise Unfit(f"low {least:g} is greater than high {most:g}")
    value = value.replace(low=least, high=most)
    value = value if layout is None else value.replace(layout=layout)
    value = value if colour is None else value.replace(colour=colour, is_reversed=False)
    return value if low is None and high is None else value.replace(kind_of=None)
