"""What the builder knows: what has to come in for something to come out, and what there is behind each step."""

from __future__ import annotations

import pytest
from support.stepping import built, typed

from gdsurgeon.graph.placeholders import placeholder_shape

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
