"""Steps that change the size of images, with the kernels of other libraries."""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import FLOAT32, FLOAT64, INT32, UINT8
from gdsurgeon.steps.builder import Builder, Input
from gdsurgeon.steps.catalog import Arguments, Group, Parameter, step
from gdsurgeon.steps.language import FLAG, Count, Flag, NotNegative, Number, Text, choice
from gdsurgeon.steps.value import InputSpec, Unfit, Value, layout_of


class Kernel(NamedTuple):
    """How an image is resized.

    Attributes:
        method: one of `METHODS`.
        antialias: whether the kernel is wider if images get smaller.
        half_pixel: whether the center of a pixel is at half a coordinate, and not at 0.
        align_corners: whether the corner pixels keep their centers.
        rounds: the results for bytes: '' float32; 'even' bytes, with halves rounded to the even number; 'up' halves
            rounded up; 'passes' rounded up after each direction.
    """

    method: str
    antialias: bool = False
    half_pixel: bool = True
    align_corners: bool = False
    rounds: str = ""


_OPS = {
    "bilinear": "ResizeBilinear", "nearest": "ResizeNearestNeighbor", "bicubic": "ResizeBicubic", "area": "ResizeArea",
}  # fmt: skip
_SCALED = {
    "bilinear": "triangle", "bicubic": "keyscubic", "lanczos3": "lanczos3", "lanczos5": "lanczos5", "box": "box",
    "gaussian": "gaussian", "mitchellcubic": "mitchellcubic",
}  # fmt: skip
_SWINGING = ("bicubic", "lanczos3", "lanczos5", "mitchellcubic")
"""The methods that overshoot at edges."""
METHODS = tuple(dict.fromkeys((*_OPS, *_SCALED)))

LIKES: dict[str, dict[str, Kernel]] = {
    "keras": {
        "bilinear": Kernel("bilinear", rounds="even"),
        "nearest": Kernel("nearest"),
        "bicubic": Kernel("bicubic", rounds="even"),
        "lanczos3": Kernel("lanczos3", rounds="even"),
        "lanczos5": Kernel("lanczos5", rounds="even"),
    },
    "pillow": {
        "bicubic": Kernel("bicubic", antialias=True, rounds="passes"),
        "bilinear": Kernel("bilinear", antialias=True, rounds="passes"),
        "lanczos": Kernel("lanczos3", antialias=True, rounds="passes"),
        "nearest": Kernel("nearest"),
    },
    "opencv": {
        "linear": Kernel("bilinear", rounds="up"),
        "nearest": Kernel("nearest", half_pixel=False),
        "nearest-exact": Kernel("nearest"),
        "area": Kernel("area", rounds="even"),
    },
    "tf1": {
        "bilinear": Kernel("bilinear", half_pixel=False),
        "nearest": Kernel("nearest", half_pixel=False),
        "bicubic": Kernel("bicubic", half_pixel=False),
        "area": Kernel("area"),
    },
}
"""The methods of each library by their names there; the default comes first."""


def kernel_of(
    like: str | None, method: str | None, antialias: bool | None, half_pixel: bool | None, align_corners: bool | None
) -> Kernel:
    """Returns a kernel. Raises Unfit: the parameters name no kernel, or it does not exist."""
    if like is None:
        return _kernel_alone(method, bool(antialias), half_pixel, bool(align_corners))
    known = LIKES[like]
    if not (antialias is None and half_pixel is None and align_corners is None):
        raise Unfit(
            f"like={like} determines all but the method: antialias, half-pixel and align-corners "
            "cannot be given with it"
        )
    if method is not None and method not in known:
        raise Unfit(f"TensorFlow has no kernel equal to {method} of {like}; supported are {', '.join(known)}")
    return known[method or next(iter(known))]


def _kernel_alone(method: str | None, antialias: bool, half_pixel: bool | None, align_corners: bool) -> Kernel:
    """Returns the kernel of an op, without a library."""
    if method is None:
        raise Unfit(f"no kernel is given: use like={'|'.join(LIKES)} or method={'|'.join(METHODS)}")
    if method not in METHODS:
        raise Unfit(f"method={method} requires like; without like, methods are {', '.join(METHODS)}")
    if antialias and method not in _SCALED:
        raise Unfit(f"method={method} does not support antialias")
    if align_corners and half_pixel:
        raise Unfit("half-pixel and align-corners exclude each other")
    has_choice = method in _OPS and not antialias
    if not has_choice and (align_corners or half_pixel is False):
        raise Unfit(f"method={method} always uses half-pixel, without align-corners")
    if method == "area" and half_pixel is False:
        raise Unfit("method=area does not support half-pixel and align-corners")
    return Kernel(method, antialias, half_pixel is not False and not align_corners, align_corners)


_NAMES = dict.fromkeys((*METHODS, *(method for known in LIKES.values() for method in known)))
AnyKernel: TypeAlias = Annotated[Kernel, Group((
    Parameter("like", choice(*LIKES), "the library whose result is computed", None),
    Parameter("method", choice(*_NAMES), "the kernel; by default, that of the library", None),
    Parameter("antialias", FLAG, "only with method: use a wider kernel when images get smaller (default: false)", None),
    Parameter("half-pixel", FLAG, "only with method: centers of pixels are at half coordinates (default: true)", None),
    Parameter("align-corners", FLAG, "only with method: corner pixels keep their centers (default: false)", None),
), kernel_of)]  # fmt: skip
"""The parameters of every step that resizes."""


def resized(build: Builder, value: Value, size: Output | tuple[int, int], kernel: Kernel) -> Value:
    """Returns an image, or a batch of images, with a new height and width."""
    batch = build.with_batch(value) if value.rank == 3 else value
    height, width = size if isinstance(size, tuple) else (-1, -1)
    is_byte = value.dtype == UINT8 and kernel.method != "nearest"
    if kernel.rounds == "passes" and is_byte:
        kept = build.add("Mul", height_and_width(build, batch), (1, 0))
        across = build.add("AddV2", kept, build.add("Mul", size, (0, 1)))
        batch = _one_pass(build, batch, across, (batch.size[0], width), kernel)
        batch = build.cast(_as_bytes(build, batch, kernel), FLOAT32)
    out = _one_pass(build, batch, size, (height, width), kernel)
    if kernel.rounds and is_byte:
        out = build.cast(_as_bytes(build, out, kernel), UINT8)
    return out if value.rank == 4 else build.without_batch(out)


def _one_pass(build: Builder, batch: Value, target: Input, size: tuple[int, int], kernel: Kernel) -> Value:
    """Returns the batch resized by one op to `target`; `size` is its known part, -1 if unknown."""
    dtype = FLOAT32
    if kernel.antialias or kernel.method not in _OPS:
        wanted = build.add("Cast", target, DstT=FLOAT32)
        scale = build.add("RealDiv", wanted, build.add("Cast", height_and_width(build, batch), DstT=FLOAT32))
        how = {"kernel_type": _SCALED[kernel.method], "antialias": kernel.antialias}
        tensor = build.add("ScaleAndTranslate", batch.tensor, target, scale, (0.0, 0.0), **how)
    else:
        centres = {} if kernel.method == "area" else {"half_pixel_centers": kernel.half_pixel}
        op = _OPS[kernel.method]
        tensor = build.add(op, batch.tensor, target, align_corners=kernel.align_corners, **centres)
        dtype = batch.dtype if kernel.method == "nearest" else FLOAT32
    low, high = batch.low, batch.high
    if kernel.method in _SWINGING:
        low, high = low - (high - low), high + (high - low)
    shape = (batch.dims[0], *size, batch.dims[3])
    return batch.replace(tensor=tensor, dtype=dtype, shape=shape, low=low, high=high)


def _as_bytes(build: Builder, value: Value, kernel: Kernel) -> Value:
    """Returns float32 numbers rounded to 0..255."""
    if kernel.rounds == "even":
        tensor = build.add("Round", value.tensor)
    else:
        tensor = build.add("Floor", build.add("AddV2", value.tensor, 0.5))
    if value.low < 0 or value.high > 255:
        tensor = build.add("ClipByValue", tensor, 0.0, 255.0)
    return value.replace(tensor=tensor, low=max(value.low, 0.0), high=min(value.high, 255.0))


def height_and_width(build: Builder, image: Value) -> Input:
    """Returns height and width of an image or a batch: numbers if they are known, otherwise a tensor."""
    if min(image.size) >= 0:
        return image.size
    shape = build.add("Shape", image.tensor, out_type=INT32)
    return build.add("Slice", shape, (len(image.dims) - 3,), (2,))


def any_size(output: InputSpec, arguments: Arguments) -> InputSpec:
    """Returns an input with images of any size."""
    shape = output.shape
    if shape is None or len(shape) not in (3, 4) or layout_of(shape).endswith("CHW"):
        return output
    return output._replace(shape=(*shape[:-3], -1, -1, shape[-1]))


_LIKE = (
    "like=keras returns the same as keras.layers.Resizing (default: bilinear), bit for bit. like=pillow "
    "is Image.resize (default: bicubic; antialiased): bytes within 1, floats within 0.01. like=opencv is "
    "cv2.resize (default: linear): bytes within 1, floats within 0.01; area only when images get "
    "smaller. TensorFlow has no ops for OpenCV's cubic and Lanczos. like=tf1 is tf.image.resize_images "
    "of TensorFlow 1 (default: bilinear). It differs from all others by several gray levels, and is "
    "right for models that were trained with it. If the library returns bytes for bytes, uint8 stays "
    "uint8. method without like is the op of tf.image.resize, in float32 except for nearest."
)


@step("resize", example="resize(224, 224, like=pillow, method=bilinear)", takes=any_size, more=_LIKE)
def resize(build: Builder, value: Value, *, height: Count, width: Count, kernel: AnyKernel) -> Value:
    """Resize an image to a height and a width.

    The aspect ratio is not kept; short-side and letterbox keep it.

    Args:
        height: in pixels
        width: in pixels
    """
    value.require_image()
    return resized(build, value, (height, width), kernel)


@step(
    "short-side",
    example="short-side(256, like=pillow, method=bilinear) | center-crop(224, 224)",
    takes=any_size,
    more=_LIKE,
)
def short_side(build: Builder, value: Value, *, size: Count, kernel: AnyKernel) -> Value:
    """Resize an image so that its shorter side has a given length; keep the aspect ratio.

    The longer side is size * longer / shorter, rounded down, as in torchvision's Resize(size).

    Args:
        size: the length of the shorter side, in pixels
    """
    value.require_image()
    if min(value.size) >= 0:
        shorter = min(value.size)
        height, width = (size * side // shorter for side in value.size)
        return resized(build, value, (height, width), kernel)
    there = height_and_width(build, value)
    shorter_side = build.add("Min", there, (0,))
    target = build.add("FloorDiv", build.add("Mul", there, size), shorter_side)
    return resized(build, value, target, kernel)


LETTERBOX = "letterbox"
"""The name of the step, and of the additional result with the placement of an image."""


@step(LETTERBOX, example="letterbox(640, 640, like=opencv, pad=114, placement=placed)", takes=any_size, more=_LIKE)
def letterbox(
    build: Builder,
    value: Value,
    *,
    height: Count,
    width: Count,
    kernel: AnyKernel,
    pad: Number = 114.0,
    centered: Flag = True,
    placement: Text | None = None,
) -> Value:
    """Resize an image to fit into a height and a width, keep its aspect ratio, and pad the rest.

    As in detectors of the YOLO family, the image becomes as large as possible, with rounded sides. The rest is
    divided between both borders; an odd pixel goes to the bottom or right. Boxes of a detector refer to the
    letterbox. placement=NAME adds an output with four numbers for each image: top, left, and the factors of height
    and width. With them, boxes are converted back: y = (y - top) / factor of height, x = (x - left) / factor of
    width. The step from-letterbox does this after the model.

    Args:
        height: in pixels
        width: in pixels
        pad: the value of the padding
        centered: whether the image is placed in the middle, or at the top left
        placement: the name of an additional output with the place of the image
    """
    value.require_image()
    if placement is not None and LETTERBOX in value.results:
        raise Unfit("the placement of a different letterbox exists already")
    there = height_and_width(build, value)
    exact = build.add("Cast", there, DstT=FLOAT64)
    factor = build.add("Min", build.add("RealDiv", build.constant(FLOAT64, (float(height), float(width))), exact), (0,))
    rounded = build.add("Cast", build.add("Round", build.add("Mul", exact, factor)), DstT=INT32)
    inner = build.add("Maximum", rounded, (1, 1))
    out = resized(build, value, inner, kernel)
    rest = build.add("Sub", (height, width), inner)
    before = build.add("FloorDiv", rest, 2) if centered else build.add("ZerosLike", rest)
    amounts = build.add("Pack", before, build.add("Sub", rest, before), axis=1)
    out = _padded(build, out, amounts, pad, (height, width))
    if placement is None:
        return out
    placed = _placement(build, value, before, inner)
    return out.replace(results={**out.results, LETTERBOX: placed.replace(name=placement)})


def _placement(build: Builder, image: Value, before: Output, inner: Output) -> Value:
    """Returns the placement of an image with the size `inner` at `before`: [4], or [images,4] of a batch."""
    sides = build.add("Cast", height_and_width(build, image), DstT=FLOAT32)
    factors = build.add("RealDiv", build.add("Cast", inner, DstT=FLOAT32), sides)
    numbers = build.add("ConcatV2", build.add("Cast", before, DstT=FLOAT32), factors, 0)
    placed = image.fresh(numbers, FLOAT32, (4,)).replace(results={}, name="")
    if image.rank == 3:
        return placed
    count = build.add("Slice", build.add("Shape", image.tensor), (0,), (1,))
    shape = build.add("ConcatV2", count, (1,), 0)
    repeated = build.add("Tile", build.add("ExpandDims", numbers, 0), shape)
    return placed.replace(tensor=repeated, shape=(image.dims[0], 4))


@step("pad", example="pad(top=2, bottom=2, value=0)", takes=any_size)
def pad(
    build: Builder,
    image: Value,
    *,
    top: NotNegative = 0,
    bottom: NotNegative = 0,
    left: NotNegative = 0,
    right: NotNegative = 0,
    value: Number = 0.0,
) -> Value:
    """Add a border to an image.

    Args:
        top: rows above
        bottom: rows below
        left: columns on the left
        right: columns on the right
        value: the value of the border
    """
    image.require_image()
    height, width = (
        side if side < 0 else side + more for side, more in zip(image.size, (top + bottom, left + right), strict=True)
    )
    return _padded(build, image, [(top, bottom), (left, right)], value, (height, width))


def _padded(build: Builder, value: Value, amounts: Input, number: float, size: tuple[int, int]) -> Value:
    """Returns the value with borders; `amounts` has two numbers for height and two for width."""
    value.require_in_range(number)
    around = [(len(value.dims) - 3, 1), (0, 0)]  # the rows of batch and channels
    tensor = build.add("PadV2", value.tensor, build.add("Pad", amounts, around), build.number(value, number))
    shape: Shape = (*value.dims[:-3], *size, value.dims[-1])
    tensor = build.add("EnsureShape", tensor, shape=shape)
    return value.replace(tensor=tensor, shape=shape, low=min(value.low, number), high=max(value.high, number))


@step("center-crop", example="center-crop(224, 224)", takes=any_size)
def center_crop(build: Builder, value: Value, *, height: Count, width: Count, half: Flag = False) -> Value:
    """Keep only the center of an image.

    If an odd number of pixels is removed, the border at the top or left is the smaller one, as in Keras'
    CenterCrop. torchvision's CenterCrop rounds half of it to the even number; use half=true. A smaller image fails
    when the model runs.

    Args:
        height: in pixels
        width: in pixels
        half: whether half a pixel is rounded to the even number, as in torchvision, instead of down
    """
    value.require_image()
    for what, side, wanted in zip(("height", "width"), value.size, (height, width), strict=True):
        if 0 <= side < wanted:
            raise Unfit(f"crops {wanted} pixels from a {what} of {side}")
    there = height_and_width(build, value)
    rest = build.add("Sub", there, (height, width))
    if half:
        exact = build.add("RealDiv", build.add("Cast", rest, DstT=FLOAT64), build.constant(FLOAT64, 2.0))
        before = build.add("Cast", build.add("Round", exact), DstT=INT32)
    else:
        before = build.add("FloorDiv", rest, 2)
    outer = len(value.dims) - 3
    begin = build.add("Pad", before, [(outer, 1)])
    sizes = (-1,) * outer + (height, width, -1)
    tensor = build.add("Slice", value.tensor, begin, sizes)
    return value.replace(tensor=tensor, shape=(*value.dims[:-3], height, width, value.dims[-1]))
