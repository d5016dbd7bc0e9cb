"""What steps give when they run, against formulas in NumPy. Everything runs in one worker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.stepping import Array, built, execute, made, png

from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.graph.node import placeholder_shape

pytestmark = pytest.mark.tensorflow

RANDOM = np.random.default_rng(0)
IMAGE = RANDOM.integers(0, 256, (5, 4, 3)).astype(np.uint8)
FLOATS = (RANDOM.random((2, 5, 4, 3)) * 4 - 2).astype(np.float32)
IMAGENET = (np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225]))
CAFFE = np.float32([103.939, 116.779, 123.68])

PNG = png(np.uint8([[[255, 0, 0], [0, 0, 255]]]))


def f32(value: Any) -> Array:
    return np.asarray(value).astype(np.float32)


FORMULAS: dict[str, tuple[str, Array, Array]] = {
    "rescale": ("rescale(1/255, -0.5)", IMAGE, f32(IMAGE) * np.float32(1 / 255) + np.float32(-0.5)),
    "divide": ("divide(255)", IMAGE, f32(IMAGE) / np.float32(255)),
    "divide a float": ("divide(-3)", FLOATS, FLOATS / np.float32(-3)),
    "normalize": ("divide(255) | normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])", IMAGE,
                  (f32(IMAGE) / np.float32(255) - IMAGENET[0]) / IMAGENET[1]),
    "one mean": ("normalize(mean=127.5)", IMAGE, f32(IMAGE) - np.float32(127.5)),
    "one std": ("normalize(mean=[1, 2, 3], std=2)", IMAGE, (f32(IMAGE) - f32([1, 2, 3])) / np.float32(2)),
    "keras-tf": ("normalize(like=keras-tf)", IMAGE, f32(IMAGE) / np.float32(127.5) - np.float32(1)),
    "keras-torch": ("normalize(like=keras-torch)", IMAGE, (f32(IMAGE) / np.float32(255) - IMAGENET[0]) / IMAGENET[1]),
    "keras-caffe": ("normalize(like=keras-caffe)", IMAGE, f32(IMAGE)[..., ::-1] - CAFFE),
    "channels first": ("to-nchw | normalize(mean=[1, 2, 3])", IMAGE, np.moveaxis(f32(IMAGE) - f32([1, 2, 3]), -1, 0)),
    "reverse-channels": ("reverse-channels", IMAGE, IMAGE[..., ::-1]),
    "reversed when first": ("to-nchw | reverse-channels", IMAGE, np.moveaxis(IMAGE[..., ::-1], -1, 0)),
    "to-nchw": ("to-nchw", FLOATS, np.moveaxis(FLOATS, -1, 1)),
    "to-nchw and back": ("to-nchw | to-nhwc", FLOATS, FLOATS),
    "clip": ("clip(-1, 0.5)", FLOATS, np.clip(FLOATS, np.float32(-1), np.float32(0.5))),
    "clip bytes": ("clip(3, 200)", IMAGE, np.clip(IMAGE, 3, 200)),
    "round": ("round", FLOATS, np.round(FLOATS)),
    "round halves": ("round", f32([0.5, 1.5, -0.5, 2.5]), f32([0, 2, 0, 2])),
    "expand-dims": ("expand-dims(-1)", FLOATS, FLOATS[..., None]),
    "squeeze": ("expand-dims(1) | squeeze(1)", FLOATS, FLOATS),
    "reshape": ("reshape([-1, 6])", FLOATS, FLOATS.reshape(-1, 6)),
    "transpose": ("transpose([1, 0, 2])", IMAGE, IMAGE.transpose(1, 0, 2)),
    "cast": ("cast(int32)", f32([1.9, -1.9]), np.int32([1, -1])),
    "cast saturates": ("cast(uint8)", f32([-3, 1e9, 255.5, 254.5]), np.uint8([0, 255, 255, 254])),
    "cast saturates int64": ("cast(int32)", np.int64([1 << 40, -(1 << 40), 7]), np.int32([2**31 - 1, -(2**31), 7])),
    "cast saturates floats": ("cast(int32)", f32([3e9, -3e9]), np.int32([2147483520, -(2**31)])),
    "cast saturates doubles": ("cast(int64)", np.float64([1e19, -1e19]), np.int64([2**63 - 1024, -(2**63)])),
    "cast bytes": ("cast(int8)", np.uint8([1, 200]), np.int8([1, 127])),
    "cast to bool": ("cast(bool)", f32([0, 2, -0.5]), np.array([False, True, True])),
    "cast from bool": ("cast(float32)", np.array([False, True]), f32([0, 1])),
    "cast half": ("cast(uint8)", np.float16([300, -1, 2.5]), np.uint8([255, 0, 2])),
    "a double stays": ("divide(3)", np.float64([1, 2]), np.float64([1, 2]) / 3),
    "center-crop": ("center-crop(2, 2)", IMAGE, IMAGE[1:3, 1:3]),
    "center-crop of a batch": ("center-crop(4, 1)", FLOATS, FLOATS[:, 0:4, 1:2]),
    "center-crop half": ("center-crop(2, 1, half=true)", IMAGE, IMAGE[2:4, 2:3]),
    "pad": ("pad(top=1, right=2, value=9)", IMAGE, np.pad(IMAGE, ((1, 0), (0, 2), (0, 0)), constant_values=9)),
    "pad a batch": ("pad(bottom=1, left=1)", FLOATS, np.pad(FLOATS, ((0, 0), (0, 1), (1, 0), (0, 0)))),
    "nearest, twice as large": ("resize(10, 8, like=tf1, method=nearest)", IMAGE, IMAGE.repeat(2, 0).repeat(2, 1)),
    "area, half as large": ("resize(2, 2, method=area)", IMAGE[:4], f32(IMAGE[:4]).reshape(2, 2, 2, 2, 3).mean((1, 3))),
    "assume": ("assume(low=0, high=1, colour=BGR)", FLOATS, FLOATS),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("is_open", [False, True], ids=["sizes known", "sizes open"])
def test_formula(name: str, is_open: bool) -> None:
    steps, value, wanted = FORMULAS[name]
    shape = wanted.shape if not is_open or "reshape" in steps else (-1,) * wanted.ndim
    dims = ["?" if is_open and axis != value.ndim - 1 else str(dim) for axis, dim in enumerate(value.shape)]
    found = made(steps, value, str(wanted.dtype), shape, raw=f"{value.dtype}[{','.join(dims)}]")
    assert found.tolist() == wanted.tolist()


def test_letterbox() -> None:
    """Of 5 x 4 into 6 x 10: twice as large would be too high, so the sides grow by 6/5."""
    found = made("letterbox(6, 10, method=nearest, pad=7)", IMAGE, "uint8", (6, 10, 3), raw="uint8[?,?,3]")
    columns = [int((column + 0.5) * 4 / 5) for column in range(5)]
    rows = [int((row + 0.5) * 5 / 6) for row in range(6)]
    wanted = np.full((6, 10, 3), 7)
    wanted[:, 2:7] = IMAGE[rows][:, columns]
    assert found.tolist() == wanted.tolist()
    steps = "letterbox(6, 10, method=nearest, pad=7, centered=false)"
    corner = made(steps, IMAGE, "uint8", (6, 10, 3), raw="uint8[?,?,3]")
    assert (corner[:, :5] == wanted[:, 2:7]).all() and (corner[:, 5:] == 7).all()


@pytest.mark.parametrize("shape", [(5, 4), (4, 5), (3, 3), (2, 31)])
def test_short_side(shape: tuple[int, int]) -> None:
    image = np.zeros((*shape, 1), np.float32)
    wanted = (6 * shape[0] // min(shape), 6 * shape[1] // min(shape), 1)
    open_sizes = built("short-side(6, like=tf1)", "float32", (-1, -1, 1), raw="float32[?,?,1]")
    assert execute(open_sizes, image).shape == wanted
    known = ",".join(map(str, image.shape))
    assert execute(built("short-side(6, like=tf1)", "float32", wanted, raw=f"float32[{known}]"), image).shape == wanted


def test_one_image_and_a_batch_of_images() -> None:
    decoded = made("decode-image | cast(float32)", PNG, "float32", (1, -1, -1, 3))
    assert decoded.tolist() == [[[[255, 0, 0], [0, 0, 255]]]]
    steps = "decode-image | resize(2, 4, like=tf1, method=nearest) | reverse-channels | divide(255)"
    one = [[[0, 0, 1], [0, 0, 1], [1, 0, 0], [1, 0, 0]]] * 2
    assert made(steps, PNG, "float32", (1, 2, 4, 3)).tolist() == [one]
    batch = built(steps, "float32", (-1, 2, 4, 3))
    assert execute(batch, [PNG, PNG, PNG]).tolist() == [one] * 3
    assert execute(batch, np.zeros(0, object)).shape == (0, 2, 4, 3)
    assert [node.op for node in batch.nodes()].count("MapDefun") == 1 and len(batch.functions) == 1


@pytest.mark.parametrize(
    ("steps", "shape", "raw"),
    [
        ("decode-image", (-1, -1, -1, 3), ()),  # the images of a batch would have to have one size
        ("decode-image", (-1, -1, 3), ()),  # of one image the height is open
        ("decode-image | resize(4, 4, like=pillow)", (-1, 4, 4, 3), (-1,)),
        ("decode-image | resize(4, 4, like=pillow)", (1, 4, 4, 3), ()),
        ("decode-image | resize(4, 4, like=pillow)", None, ()),
        ("decode-image(batch=false) | resize(4, 4, like=pillow)", (-1, 4, 4, 3), ()),
        ("decode-image(batch=true) | resize(4, 4, like=pillow)", (1, 4, 4, 3), (1,)),
        ("decode-image | resize(4, 4, like=pillow) | expand-dims(0)", (-1, 4, 4, 3), ()),
        ("decode-image | resize(4, 4, like=pillow) | reshape([48])", (-1, 48), (-1,)),
    ],
)
def test_what_comes_in_is_a_batch_where_all_of_it_has_one_shape(
    steps: str, shape: tuple[int, ...] | None, raw: tuple[int, ...]
) -> None:
    graph = built(steps, "uint8", shape)
    assert placeholder_shape(graph["x"]) == raw
    assert execute(graph, [PNG] if raw else PNG).dtype == np.uint8


def test_images_of_a_batch_may_have_different_sizes() -> None:
    steps = "decode-image | letterbox(8, 8, like=pillow) | cast(float32)"
    found = made(steps, [png(IMAGE), PNG], "float32", (-1, 8, 8, 3))
    assert found.shape == (2, 8, 8, 3)
    assert (found[0][:, 0] == 114).all() and (found[1][0] == 114).all() and (found[1][3, :, 0] != 114).all()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_of_an_image(channels: int) -> None:
    found = made(f"decode-image(channels={channels}, format=png)", PNG, "uint8", (-1, -1, channels), raw="string")
    assert found.shape == (1, 2, channels) and (channels < 4 or (found[..., 3] == 255).all())


def test_the_shape_of_a_batch_is_known_behind_it() -> None:
    graph = built("decode-image | resize(2, 4, like=tf1)", "float32", (-1, 2, 4, 3))
    assert infer_shapes(graph).shape(graph["x_preprocessed"].output) == (-1, 2, 4, 3)
