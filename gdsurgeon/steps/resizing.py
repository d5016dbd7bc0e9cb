"""Steps that change the size of images."""

from __future__ import annotations

from typing import Any

from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import FLOAT32, FLOAT64, INT32
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.kernels import KERNEL, height_and_width, kernel_of, resized
from gdsurgeon.steps.kinds import FLAG, NUMBER, TEXT, whole
from gdsurgeon.steps.raw import layout_of
from gdsurgeon.steps.step import EITHER, Arguments, Parameter, Raw, step
from gdsurgeon.steps.value import Result, Unfit, Value

SIZE = (Parameter("height", whole(1), "in pixels"), Parameter("width", whole(1), "in pixels"))


def any_size(raw: Raw, arguments: Arguments) -> Raw:
    """Images of any size come in."""
    shape = raw.shape
    if shape is None or len(shape) not in (3, 4) or layout_of(shape).endswith("CHW"):
        return raw
    return raw._replace(shape=(*shape[:-3], -1, -1, shape[-1]))


_LIKE = (
    "like=keras returns the same as keras.layers.Resizing (default: bilinear), bit for bit. like=pillow "
    "is Image.resize (default: bicubic; antialiased): bytes within 1, floats within 0.01. like=opencv is "
    "cv2.resize (default: linear): bytes within 1, floats within 0.01; area only when images get "
    "smaller. TensorFlow has no ops for OpenCV's cubic and Lanczos. like=tf1 is tf.image.resize_images "
    "of TensorFlow 1 (default: bilinear). It differs from all others by several gray levels, and is "
    "right for models that were trained with it. If the library returns bytes for bytes, uint8 stays "
    "uint8. method without like is the op of tf.image.resize, in float32 except for nearest."
)


@step(
    "resize",
    "Resize an image to a height and a width.",
    *SIZE,
    *KERNEL,
    example="resize(224, 224, like=pillow, method=bilinear)",
    explanation="The aspect ratio is not kept; short-side and letterbox keep it. " + _LIKE,
    takes=any_size,
)
def resize(build: Builder, value: Value, *, height: int, width: int, **kernel: Any) -> Value:
    value.require_image()
    return resized(build, value, (height, width), kernel_of(**kernel))


@step(
    "short-side",
    "Resize an image so that its shorter side has a given length; keep the aspect ratio.",
    Parameter("size", whole(1), "the length of the shorter side, in pixels"),
    *KERNEL,
    example="short-side(256, like=pillow, method=bilinear) | center-crop(224, 224)",
    explanation="The longer side is size * longer / shorter, rounded down, as in torchvision's Resize(size). " + _LIKE,
    takes=any_size,
)
def short_side(build: Builder, value: Value, *, size: int, **kernel: Any) -> Value:
    value.require_image()
    chosen = kernel_of(**kernel)
    if min(value.size) >= 0:
        shorter = min(value.size)
        height, width = (size * side // shorter for side in value.size)
        return resized(build, value, (height, width), chosen)
    there = height_and_width(build, value)
    shorter_side = build.add("Min", there, build.axes(0))
    target = build.add("FloorDiv", build.add("Mul", there, build.constant(INT32, size)), shorter_side)
    return resized(build, value, target, chosen)


LETTERBOX = "letterbox"
"""What the placement of an image in a letterbox is called among the results."""


@step(
    LETTERBOX,
    "Resize an image to fit into a height and a width, keep its aspect ratio, and pad the rest.",
    *SIZE,
    *KERNEL,
    Parameter("pad", NUMBER, "the value of the padding", 114.0),
    Parameter("centered", FLAG, "whether the image is placed in the middle, or at the top left", True),
    Parameter("placement", TEXT, "the name of an additional output with the place of the image", None),
    example="letterbox(640, 640, like=opencv, pad=114, placement=placed)",
    explanation="As in detectors of the YOLO family, the image becomes as large as possible, with rounded "
    "sides. The rest is divided between both borders; an odd pixel goes to the bottom or right. "
    "Boxes of a detector refer to the letterbox. placement=NAME adds an output with four numbers "
    "for each image: top, left, and the factors of height and width. With them, boxes are "
    "converted back: y = (y - top) / factor of height, x = (x - left) / factor of width. The "
    "step from-letterbox does this after the model. " + _LIKE,
    takes=any_size,
)
def letterbox(
    build: Builder,
    value: Value,
    *,
    height: int,
    width: int,
    pad: float,
    centered: bool,
    placement: str | None,
    **kernel: Any,
) -> Value:
    value.require_image()
    if placement is not None and LETTERBOX in value.results:
        raise Unfit("the placement of a different letterbox exists already")
    chosen = kernel_of(**kernel)
    there = height_and_width(build, value)
    exact = build.add("Cast", there, DstT=FLOAT64)
    factor = build.add(
        "Min", build.add("RealDiv", build.constant(FLOAT64, (float(height), float(width))), exact), build.axes(0)
    )
    rounded = build.add("Cast", build.add("Round", build.add("Mul", exact, factor)), DstT=INT32)
    inner = build.add("Maximum", rounded, build.axes(1, 1))
    out = resized(build, value, inner, chosen)
    rest = build.add("Sub", build.axes(height, width), inner)
    before = build.add("FloorDiv", rest, build.constant(INT32, 2)) if centered else build.add("ZerosLike", rest)
    amounts = build.add("Pack", before, build.add("Sub", rest, before), axis=1)
    out = _padded(build, out, amounts, pad, (height, width))
    if placement is None:
        return out
    placed = _placement(build, value, before, inner)
    return out.but(results={**out.results, LETTERBOX: Result(placed, name=placement)})


def _placement(build: Builder, image: Value, before: Output, inner: Output) -> Value:
    """Where an image lies that begins at BEFORE and has become INNER: [4], or [images,4] of a batch."""
    assert image.shape is not None
    sides = build.add("Cast", height_and_width(build, image), DstT=FLOAT32)
    factors = build.add("RealDiv", build.add("Cast", inner, DstT=FLOAT32), sides)
    numbers = build.add("ConcatV2", build.add("Cast", before, DstT=FLOAT32), factors, build.constant(INT32, 0))
    placed = image.anew(numbers, FLOAT32, (4,)).but(results={}, name="")
    if image.rank == 3:
        return placed
    count = build.add("Slice", build.add("Shape", image.tensor), build.axes(0), build.axes(1))
    shape = build.add("ConcatV2", count, build.axes(1), build.constant(INT32, 0))
    alike = build.add("Tile", build.add("ExpandDims", numbers, build.constant(INT32, 0)), shape)
    return placed.but(tensor=alike, shape=(image.shape[0], 4))


@step(
    "pad",
    "Add a border to an image.",
    Parameter("top", whole(0), "rows above", 0),
    Parameter("bottom", whole(0), "rows below", 0),
    Parameter("left", whole(0), "columns on the left", 0),
    Parameter("right", whole(0), "columns on the right", 0),
    Parameter("value", NUMBER, "the value of the border", 0.0),
    example="pad(top=2, bottom=2, value=0)",
    takes=any_size,
)
def pad(build: Builder, image: Value, *, top: int, bottom: int, left: int, right: int, value: float) -> Value:
    image.require_image()
    height, width = (
        side if side < 0 else side + more for side, more in zip(image.size, (top + bottom, left + right), strict=True)
    )
    amounts = build.constant(INT32, (top, bottom, left, right), (2, 2))
    return _padded(build, image, amounts, value, (height, width))


def _padded(build: Builder, value: Value, amounts: Output, number: float, size: tuple[int, int]) -> Value:
    """VALUE with borders; AMOUNTS are those of height and width, before and behind."""
    assert value.shape is not None
    if value.dtype.is_integer:
        least, most = value.dtype.bounds
        if number != int(number) or not least <= number <= most:
            raise Unfit(f"{number:g} is outside the range of {value.dtype.name}: add a cast before it")
    around = build.constant(INT32, (len(value.shape) - 3, 1, 0, 0), (2, 2))  # the rows of batch and channels
    tensor = build.add("PadV2", value.tensor, build.add("Pad", amounts, around), build.number(value, number))
    shape: Shape = (*value.shape[:-3], *size, value.shape[-1])
    tensor = build.add("EnsureShape", tensor, shape=shape)
    return value.but(tensor=tensor, shape=shape, low=min(value.low, number), high=max(value.high, number))


@step(
    "center-crop",
    "Keep only the center of an image.",
    *SIZE,
    Parameter(
        "half", FLAG, "whether half a pixel is rounded to the even number, as in torchvision, instead of down", False
    ),
    example="center-crop(224, 224)",
    explanation="If an odd number of pixels is removed, the border at the top or left is the smaller one, as "
    "in Keras' CenterCrop. torchvision's CenterCrop rounds half of it to the even number; use "
    "half=true. A smaller image fails when the model runs.",
    sides=EITHER,
    takes=any_size,
)
def center_crop(build: Builder, value: Value, *, height: int, width: int, half: bool) -> Value:
    value.require_image()
    assert value.shape is not None
    for what, side, wanted in zip(("height", "width"), value.size, (height, width), strict=True):
        if 0 <= side < wanted:
            raise Unfit(f"crops {wanted} pixels from a {what} of {side}")
    single = value.rank == 3
    there = height_and_width(build, value)
    rest = build.add("Sub", there, build.axes(height, width))
    if half:
        exact = build.add("RealDiv", build.add("Cast", rest, DstT=FLOAT64), build.constant(FLOAT64, 2.0))
        before = build.add("Cast", build.add("Round", exact), DstT=INT32)
    else:
        before = build.add("FloorDiv", rest, build.constant(INT32, 2))
    outer = 0 if single else 1
    begin = build.add("Pad", before, build.constant(INT32, (outer, 1), (1, 2)))
    sizes = (-1,) * outer + (height, width, -1)
    tensor = build.add("Slice", value.tensor, begin, build.axes(*sizes))
    return value.but(tensor=tensor, shape=(*value.shape[:-3], height, width, value.shape[-1]))
