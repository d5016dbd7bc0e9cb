"""Kernels for resizing: their names in other libraries, and the ops that compute them."""

from __future__ import annotations

from typing import NamedTuple

from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import FLOAT32, INT32, UINT8
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.kinds import FLAG, choice
from gdsurgeon.steps.step import Parameter
from gdsurgeon.steps.value import Unfit, Value


class Kernel(NamedTuple):
    """How an image is resized.

    Attributes:
        method: one of `METHODS`.
        antialias: whether it is widened where images shrink.
        half_pixel: whether a pixel's centre lies at half, and not at 0.
        align_corners: whether the centres of the corners stay where they are.
        rounds: what becomes of bytes: '' float32; 'even' bytes again, halves to the even number; 'up' halves up;
            'passes' the same after each direction.
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
"""The methods that swing over at edges."""
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
"""What each library calls its methods, the one that it takes by default first."""

KERNEL = (
    Parameter("like", choice(*LIKES), "the library whose result is computed", None),
    Parameter("method", choice(*dict.fromkeys((*METHODS, *(m for known in LIKES.values() for m in known)))),
              "the kernel; by default, that of the library", None),
    Parameter("antialias", FLAG, "only with method: use a wider kernel when images get smaller (default: false)", None),
    Parameter("half-pixel", FLAG, "only with method: centers of pixels are at half coordinates (default: true)", None),
    Parameter("align-corners", FLAG, "only with method: corner pixels keep their centers (default: false)", None),
)  # fmt: skip
"""The parameters of every step that resizes."""


def kernel_of(
    like: str | None, method: str | None, antialias: bool | None, half_pixel: bool | None, align_corners: bool | None
) -> Kernel:
    """Returns the kernel that the parameters `KERNEL` name. Raises Unfit: none is named, or it does not exist."""
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
    """The kernel of an op, whose library is not named."""
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


def resized(build: Builder, value: Value, size: Output | tuple[int, int], kernel: Kernel) -> Value:
    """An image, or a batch of them, of height and width SIZE, known now or when it runs."""
    batch = build.with_batch(value) if value.rank == 3 else value
    height, width = size if isinstance(size, tuple) else (-1, -1)
    target = build.axes(*size) if isinstance(size, tuple) else size
    is_byte = value.dtype == UINT8 and kernel.method != "nearest"
    if kernel.rounds == "passes" and is_byte:
        kept = build.add("Mul", height_and_width(build, batch), build.axes(1, 0))
        across = build.add("AddV2", kept, build.add("Mul", target, build.axes(0, 1)))
        batch = _one_pass(build, batch, across, (batch.size[0], width), kernel)
        batch = build.cast(_as_bytes(build, batch, kernel), FLOAT32)
    out = _one_pass(build, batch, target, (height, width), kernel)
    if kernel.rounds and is_byte:
        out = build.cast(_as_bytes(build, out, kernel), UINT8)
    return out if value.rank == 4 else build.without_batch(out)


def _one_pass(build: Builder, batch: Value, target: Output, size: tuple[int, int], kernel: Kernel) -> Value:
    """BATCH resized to TARGET, as the op gives it; SIZE is what is known of that."""
    assert batch.shape is not None
    dtype = FLOAT32
    if kernel.antialias or kernel.method not in _OPS:
        wanted = build.add("Cast", target, DstT=FLOAT32)
        scale = build.add("RealDiv", wanted, build.add("Cast", height_and_width(build, batch), DstT=FLOAT32))
        how = {"kernel_type": _SCALED[kernel.method], "antialias": kernel.antialias}
        origin = build.constant(FLOAT32, (0.0, 0.0))
        tensor = build.add("ScaleAndTranslate", batch.tensor, target, scale, origin, **how)
    else:
        centres = {} if kernel.method == "area" else {"half_pixel_centers": kernel.half_pixel}
        op = _OPS[kernel.method]
        tensor = build.add(op, batch.tensor, target, align_corners=kernel.align_corners, **centres)
        dtype = batch.dtype if kernel.method == "nearest" else FLOAT32
    low, high = batch.low, batch.high
    if kernel.method in _SWINGING:
        low, high = low - (high - low), high + (high - low)
    shape = (batch.shape[0], *size, batch.shape[3])
    return batch.but(tensor=tensor, dtype=dtype, shape=shape, low=low, high=high)


def _as_bytes(build: Builder, value: Value, kernel: Kernel) -> Value:
    """Numbers of float32 rounded to 0..255."""
    if kernel.rounds == "even":
        tensor = build.add("Round", value.tensor)
    else:
        tensor = build.add("Floor", build.add("AddV2", value.tensor, build.constant(FLOAT32, 0.5)))
    if value.low < 0 or value.high > 255:
        ends = (build.constant(FLOAT32, 0.0), build.constant(FLOAT32, 255.0))
        tensor = build.add("ClipByValue", tensor, *ends)
    return value.but(tensor=tensor, low=max(value.low, 0.0), high=min(value.high, 255.0))


def height_and_width(build: Builder, image: Value) -> Output:
    """Height and width of an image or a batch, a vector of int32: a constant where they are known."""
    assert image.shape is not None
    if min(image.size) >= 0:
        return build.axes(*image.size)
    shape = build.add("Shape", image.tensor, out_type=INT32)
    return build.add("Slice", shape, build.axes(len(image.shape) - 3), build.axes(2))
