"""Steps that change how a value lies in memory, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Annotated, TypeAlias

from gdsurgeon.graph.attrs import format_shape
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.catalog import Arguments, step
from gdsurgeon.steps.language import Number, Wholes, choice, whole
from gdsurgeon.steps.value import COLOURS, LAYOUTS, SOUNDS, InputSpec, Unfit, Value, in_batch

Axis: TypeAlias = Annotated[int, whole(-254, 254)]


def _channel_order(rank: int, layout: str) -> tuple[int, ...]:
    """Returns the order of dimensions that moves the channels of an image to the front (CHW) or to the end (HWC)."""
    batch, (first, second, third) = range(rank - 3), range(rank - 3, rank)
    return (*batch, third, first, second) if layout == "CHW" else (*batch, second, third, first)


def _inverse(change: Callable[..., tuple[int, ...]]) -> Callable[[InputSpec, Arguments], InputSpec]:
    """Returns `takes` of a step: `change` returns the input shape from the output shape and the arguments of the step.

    It raises Unfit if the output shape is not one of the step; the input has the same shape then.
    """

    def takes(output: InputSpec, arguments: Arguments) -> InputSpec:
        try:
            return output if output.shape is None else output._replace(shape=change(output.shape, **arguments))
        except Unfit:
            return output

    return takes


def _before_order(shape: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    """Returns the input shape of a transposition."""
    if sorted(order) != list(range(len(shape))):
        raise Unfit("orders a different number of dimensions")
    return tuple(shape[order.index(axis)] for axis in range(len(order)))


def _before_move(layout: str) -> Callable[[InputSpec, Arguments], InputSpec]:
    return _inverse(
        lambda shape: _before_order(shape, _channel_order(len(shape), layout)) if len(shape) in (3, 4) else shape
    )


def _with_one(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Returns `shape` with a new dimension of size 1. Raises Unfit."""
    place = axis_from_front(axis, len(shape) + 1)
    return (*shape[:place], 1, *shape[place:])


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Returns `shape` without a dimension. Raises Unfit."""
    place = axis_from_front(axis, len(shape))
    return shape[:place] + shape[place + 1 :]


def _channels_moved(build: Builder, value: Value, layout: str, what: str) -> Value:
    if value.rank not in (3, 4) or value.layout in SOUNDS:
        raise Unfit(f"requires an image, which has 3 dimensions (4 in a batch), got {value.description}")
    wanted = ("N" if value.rank == 4 else "") + layout
    if value.layout == wanted:
        raise Unfit(f"the channels are already {what}: the value is {value.layout}")
    return _transposed(build, value, _channel_order(value.rank, layout), wanted)


def _transposed(build: Builder, value: Value, order: tuple[int, ...], layout: str) -> Value:
    shape = None if value.shape is None else tuple(value.shape[axis] for axis in order)
    return value.replace(tensor=build.add("Transpose", value.tensor, order), shape=shape, layout=layout)


@step(
    "to-nchw",
    example="decode-image | resize(224, 224, like=opencv) | cast(float32) | to-nchw",
    takes=_before_move("CHW"),
)
def to_nchw(build: Builder, value: Value) -> Value:
    """Move the channels of an image to the front.

    A single image becomes CHW. Steps that resize or crop must come before this step.
    """
    return _channels_moved(build, value, "CHW", "first")


@step("to-nhwc", example="to-nhwc", takes=_before_move("HWC"))
def to_nhwc(build: Builder, value: Value) -> Value:
    """Move the channels of an image to the end.

    A single image becomes HWC.
    """
    return _channels_moved(build, value, "HWC", "last")


def axis_from_front(axis: int, rank: int) -> int:
    """Returns an axis, counted from the front. Raises Unfit: it does not exist."""
    if not -rank <= axis < rank:
        raise Unfit(f"axis {axis} does not exist: there are {rank} dimensions")
    return axis % rank


@step(
    "expand-dims",
    example="expand-dims(-1)",
    takes=_inverse(lambda shape, axis: _without(shape, axis_from_front(axis, len(shape)))),
)
def expand_dims(build: Builder, value: Value, *, axis: Axis = 0) -> Value:
    """Add a dimension of size 1.

    Not needed for the batch dimension: a single image before a model that expects batches gets it anyway.

    Args:
        axis: the position of the new dimension; negative numbers count from the end
    """
    tensor = build.add("ExpandDims", value.tensor, axis)
    if value.shape is None:
        return value.replace(tensor=tensor, layout="")
    place = axis_from_front(axis, len(value.shape) + 1)
    layout = in_batch(value.layout) if place == 0 else ""
    return value.replace(tensor=tensor, shape=_with_one(value.shape, place), layout=layout)


@step(
    "squeeze",
    example="squeeze(-1)",
    takes=_inverse(lambda shape, axis: _with_one(shape, axis_from_front(axis, len(shape) + 1))),
)
def squeeze(build: Builder, value: Value, *, axis: Axis = 0) -> Value:
    """Remove a dimension of size 1.

    Args:
        axis: the dimension to remove; negative numbers count from the end
    """
    if value.shape is None:
        raise Unfit("requires a tensor of known rank")
    place = axis_from_front(axis, len(value.shape))
    if value.shape[place] not in (1, -1):
        raise Unfit(f"dimension {axis} is {value.shape[place]}, not 1: {value.description}")
    tensor = build.add("Squeeze", value.tensor, squeeze_dims=[place])
    shape = _without(value.shape, place)
    layout = value.layout[1:] if value.layout.startswith("N") and place == 0 else ""
    return value.replace(tensor=tensor, shape=shape, layout=layout)


def _unknown(output: InputSpec, arguments: Arguments) -> InputSpec:
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
        count, known = prod(value.dims), prod(dim for dim in shape if dim >= 0)
        if -1 in shape and known and count % known == 0:
            result = tuple(count // known if dim < 0 else dim for dim in shape)
        if prod(result) != count or (-1 in result and known):
            raise Unfit(f"{value.description} has {count:,} elements, which do not fit {format_shape(shape)}")
    tensor = build.add("Reshape", value.tensor, shape)
    return value.replace(tensor=tensor, shape=result, layout="")


@step("transpose", example="transpose([0, 2, 1])", takes=_inverse(_before_order))
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
    return _transposed(build, value, order, layout if layout in LAYOUTS else "")


@step("assume", example="assume(layout=NHWC, colour=BGR, low=0, high=1)")
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
