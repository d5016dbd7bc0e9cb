"""The facts that the builder knows about a value, and the uses that it refuses or accepts because of them."""

from __future__ import annotations

import pytest
from support.stepping import built, model, refusal, typed

from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.graph.node import placeholder_shape
from gdsurgeon.steps import preprocessing

CHW = (-1, 3, 8, 6)

FLOATS = {
    "decode-image(channels=5)": "decode-image: channels is 5, but must be one of 0, 1, 3, 4",
    "resize(8, 6)": "resize: no kernel is given: use like=keras|pillow|opencv|tf1 or",
    "resize(8, 6, like=opencv, method=bicubic)": "resize: TensorFlow has no kernel equal to bicubic of",
    "resize(8, 6, like=keras, antialias=true)": "resize: like=keras determines all but the method",
    "resize(8, 6, method=linear)": "resize: method=linear requires like; without like, methods are bilinear",
    "resize(8, 6, method=lanczos3, half-pixel=false)": "resize: method=lanczos3 always uses half-pixel",
    "resize(8, 6, method=nearest, antialias=true)": "resize: method=nearest does not support antialias",
    "resize(8, 6, method=bilinear, half-pixel=true, align-corners=true)": "resize: half-pixel and align-corners",
    "decode-image | rescale(1/255) | normalize(mean=[123.675, 116.28, 103.53]) | resize(8, 6, like=tf1)":
        "normalize: mean 123.675 does not fit the values, which are 0..1",
    "decode-image | rescale(1/255) | normalize(std=58) | resize(8, 6, like=tf1)":
        "normalize: std 58 does not fit the values, which are 0..1",
    "decode-image | rescale(1/255) | normalize(like=keras-torch) | resize(8, 6, like=tf1)":
        "normalize: like=keras-torch requires values of 0..255, got 0..1",
    "normalize": "normalize: requires mean and std, or like=keras-caffe|keras-tf|keras-torch",
    "normalize(mean=1, like=keras-tf)": "normalize: like=keras-tf determines mean and std: give only one of",
    "reverse-channels | reverse-channels": "reverse-channels (step 2): the channels are already reversed",
    "reverse-channels | normalize(like=keras-caffe)": "normalize: like=keras-caffe requires RGB, but the",
    "expand-dims(7)": "expand-dims: axis 7 does not exist: there are 5 dimensions",
    "transpose([0, 2])": "transpose: [0, 2] is not an order of dimensions: each must occur once, starting at",
    "transpose([0, 2, 1])": "transpose: orders 3 dimensions, got float32 [?,8,6,3]",
    "clip(2, 1)": "clip: 2 is greater than 1",
    "cast(uint8) | clip(0, 0.5)": "clip: 0..0.5 is outside the range of uint8: add a cast before it",
    "cast(uint8) | pad(top=1, value=-1)": "pad: -1 is outside the range of uint8: add a cast before it",
    "center-crop(8, 6) | center-crop(9, 1)": "center-crop (step 2): crops 9 pixels from a height of 8",
    "assume(layout=HWC)": "assume: HWC has 3 dimensions, but the value is float32 [?,8,6,3]",
    "assume(low=2, high=1)": "assume: low 2 is greater than high 1",
    "cast(uint8)": "the steps return uint8 [?,8,6,3], but 'x' expects float32 [?,8,6,3]: add cast(float32)",
}  # fmt: skip


@pytest.mark.parametrize("steps", FLOATS)
def test_what_is_known_to_be_wrong_is_refused(steps: str) -> None:
    assert refusal(steps).startswith(FLOATS[steps])


OTHERS = {
    ("resize(8, 6, like=keras)", "float32", CHW): "resize: requires channels last, got NCHW: move it before",
    ("resize(8, 6, like=keras)", "float32", None): "resize: requires an image, got a tensor of unknown rank",
    ("resize(8, 6, like=keras)", "string", (-1,)): "resize: requires an image, got string [?]: add",
    ("reverse-channels", "float32", (-1, 8, 6, 1)): "reverse-channels: requires 3 channels, but the value",
    ("to-nchw", "float32", (-1, 8)): "to-nchw: requires an image, which has 3 dimensions (4 in a batch), got",
    ("decode-image | resize(8, 6, like=tf1) | rescale(1/255)", "uint8", (-1, 8, 6, 3)):
        "the steps return float32 [?,8,6,3], but 'x' expects uint8 [?,8,6,3]: the values are 0..1, and",
    ("decode-wav(samples=8, rate=16000)", "float32", (-1, 8)):
        "the steps return float32 [8,1], but 'x' expects float32 [?,8]: add squeeze(-1)",
    ("to-nhwc", "float32", CHW): "the steps return NHWC, but 'x' expects float32 [?,3,8,6]: add to-nchw",
    ("parse-example(x)", "float32", (-1, 5)): "the steps return float32 [?], but 'x' expects float32 [?,5]",
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: f"{case[0]} in front of {case[1]}")
def test_of_other_inputs(case: tuple[str, str, tuple[int, ...] | None]) -> None:
    assert refusal(*case).startswith(OTHERS[case])


RAW = {
    ("to-nhwc", "float32[?,8,6,3]"): "to-nhwc: the channels are already last: the value is NHWC",
    ("squeeze(-1)", "float32[?,8,6,3]"): "squeeze: dimension -1 is 3, not 1: float32 [?,8,6,3]",
    ("rescale(2)", "float32[?,x]"): "raw 'float32[?,x]' has no valid shape: dimensions must be numbers, or ?",
    ("rescale(2)", "float32[?,7,6,3]"): "the steps return float32 [?,7,6,3], but 'x' expects float32",
    ("reshape([-1, 8, 6, 3])", "float32[2, 5]"): "reshape: float32 [2,5] has 10 elements, which do not fit",
    ("decode-image | resize(8, 6, like=tf1)", "string[?,?]"): "decode-image: decodes one string at a time",
}


@pytest.mark.parametrize("case", RAW, ids=str)
def test_of_what_comes_in(case: tuple[str, str]) -> None:
    assert refusal(case[0], raw=case[1]).startswith(RAW[case])


@pytest.mark.parametrize(
    "steps",
    [
        "normalize(mean=0, std=1)",
        "decode-image | normalize(mean=128, std=256) | resize(8, 6, like=tf1)",
        "decode-image | rescale(1/255) | normalize(mean=2, std=2) | resize(8, 6, like=tf1)",
        "rescale(1/255) | rescale(1/255)",  # of values without known facts
        "decode-image | rescale(1/255) | assume(low=0, high=255) | rescale(1/255) | resize(8, 6, like=tf1)",
        "decode-image | normalize(mean=[0, 0, 0], std=1) | resize(8, 6, like=tf1)",
        "decode-image | rescale(1/255) | normalize(mean=0.5, std=0.5) | resize(8, 6, like=tf1)",
        "reverse-channels | assume(colour=BGR) | reverse-channels",
        "decode-image | cast(float32) | rescale(1/255) | resize(8, 6, like=tf1) | clip(0, 1)",
        "decode-image(batch=false) | resize(8, 6, like=tf1)",
        "short-side(8, like=tf1) | center-crop(8, 6)",
        "letterbox(8, 6, like=tf1)",
        "decode-image | resize(8, 6, like=tf1) | rescale(1/255) | rescale(255) | cast(uint8) | cast(float32)",
        "decode-image | resize(8, 6, like=tf1) | divide(255) | round | to-nchw | to-nhwc | cast(int8) | cast(float32)",
        "decode-image | resize(8, 6, like=tf1) | cast(uint8) | cast(float32) | clip(0, 1) | cast(bool) | cast(float32)",
        "cast(uint8) | cast(float32) | clip(0, 1) | cast(uint8) | cast(float32)",
        "rescale(1/255) | cast(uint8) | cast(float32)",
    ],
)
def test_what_may_be_meant_is_built(steps: str) -> None:
    assert "x_preprocessed" in built(steps)


@pytest.mark.parametrize(("steps", "raw", "shape"), [
    ("decode-image(batch=true) | resize(8, 6, like=tf1)", "", (1, 8, 6, 3)),
    ("decode-image | resize(8, 6, like=tf1)", "string[1]", (-1, 8, 6, 3)),
])  # fmt: skip
def test_as_many_items_come_in_as_the_model_takes_or_its_user_says(
    steps: str, raw: str, shape: tuple[int, ...]
) -> None:
    """A declared open batch once had a fixed size of one, so a batch of two failed or had unproven results."""
    assert stated_shape(preprocessing(steps, model(shape=shape), raw=raw)["x"].output) == (1,)


TAKEN = {
    ("transpose([2, 0, 1])", (2, 3, 4)): (3, 4, 2),
    ("transpose([1, 0])", (-1, 4)): (4, -1),
    ("expand-dims(1)", (2, 1, 4)): (2, 4),
    ("expand-dims(-1)", (2, 3, 1)): (2, 3),
    ("squeeze(0)", (2, 3)): (1, 2, 3),
    ("squeeze(-1)", (2, 3)): (2, 3, 1),
    ("to-nchw", (-1, 3, 8, 6)): (-1, 8, 6, 3),
    ("to-nhwc", (-1, 8, 6, 3)): (-1, 3, 8, 6),
    ("to-nhwc", (8, 6, 3)): (3, 8, 6),
    ("resize(8, 6, like=tf1)", (-1, 8, 6, 3)): (-1, -1, -1, 3),
    ("resize(8, 6, like=tf1) | to-nchw", (-1, 3, 8, 6)): (-1, -1, -1, 3),
    ("center-crop(8, 6)", (2, 8, 6, 3)): (2, -1, -1, 3),
    ("pad(top=1) | rescale(2)", (2, 8, 6, 3)): (2, -1, -1, 3),
    ("rescale(2) | clip(0, 1) | reverse-channels", (5, 3)): (5, 3),
    ("rescale(2)", None): None,
}


@pytest.mark.parametrize("case", TAKEN, ids=str)
def test_what_comes_in_follows_from_what_goes_out(case: tuple[str, tuple[int, ...] | None]) -> None:
    assert placeholder_shape(built(case[0], "float32", case[1])["x"]) == TAKEN[case]


BOUNDS = {
    "rescale(1/255)": (0, 1),
    "rescale(1/127.5, -1)": (-1, 1),
    "rescale(-2, 3)": (-507, 3),
    "rescale(0, 7)": (7, 7),
    "divide(-255)": (-1, 0),
    "normalize(mean=[1, 2, 3], std=[1, 2, 4])": (-3, 254),
    "normalize(mean=[-1, 2, 3])": (-3, 256),
    "clip(10, 20)": (10, 20),
    "rescale(1, 0.7) | cast(int32)": (0, 255),
    "rescale(-1, -0.7) | cast(int32)": (-255, 0),
    "rescale(2) | cast(uint8)": (0, 255),
    "rescale(2) | cast(int8)": (0, 127),
    "rescale(2) | cast(uint8, saturate=false)": (0, 255),
    "rescale(2) | cast(int16, saturate=false)": (0, 510),
    "cast(bool) | cast(float32)": (0, 1),
    "rescale(1, 0.6) | round": (1, 256),
    "pad(top=1, value=7)": (0, 255),
    "rescale(1) | pad(top=1, value=-7)": (-7, 255),
    "resize(2, 2, method=bilinear)": (0, 255),
    "resize(2, 2, method=bicubic)": (-255, 510),
    "resize(2, 2, like=keras, method=bicubic)": (0, 255),
    "letterbox(9, 9, like=tf1, pad=300)": (0, 300),
    "assume(high=100)": (0, 100),
}  # fmt: skip


@pytest.mark.parametrize("steps", BOUNDS)
def test_bounds(steps: str) -> None:
    _, value = typed(steps, "uint8[5,4,3]")
    assert (value.low, value.high) == pytest.approx(BOUNDS[steps])


COLOURS = {
    "": ("HWC", "RGB"),
    "reverse-channels": ("HWC", "BGR"),
    "normalize(like=keras-caffe) | to-nchw": ("CHW", "BGR"),
    "normalize(like=keras-torch) | resize(2, 2, like=tf1)": ("HWC", "RGB"),
    "expand-dims(0)": ("NHWC", "RGB"),
    "expand-dims(0) | to-nchw | squeeze(0)": ("CHW", "RGB"),
    "to-nchw | to-nhwc": ("HWC", "RGB"),
    "transpose([2, 0, 1])": ("CHW", "RGB"),
    "transpose([1, 0, 2])": ("", "RGB"),
    "expand-dims(1)": ("", "RGB"),
    "assume(colour=BGR)": ("HWC", "BGR"),
}


@pytest.mark.parametrize("steps", COLOURS)
def test_layout_and_colours(steps: str) -> None:
    _, value = typed(" | ".join(filter(None, ("decode-image", steps))), "string")
    assert (value.layout, value.colour) == COLOURS[steps]
