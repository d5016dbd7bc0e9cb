"""The language of steps, the facts about a value, and refused uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.stepping import built, model, ops, refusal, typed

import gdsurgeon as gds
from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.errors import ArgumentError, GdsurgeonError, UsageError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import placeholder_shape
from gdsurgeon.steps import preprocessing
from gdsurgeon.steps.catalog import catalog, read_steps
from gdsurgeon.steps.language import File, Literal, parse

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
    "cast(uint8) | clip(0, 0.5)": "clip: 0.5 is outside the range of uint8: add a cast before it",
    "cast(uint8) | pad(top=1, value=-1)": "pad: -1 is outside the range of uint8: add a cast before it",
    "center-crop(8, 6) | center-crop(9, 1)": "center-crop (step 2): crops 9 pixels from a height of 8",
    "assume(layout=HWC)": "assume: HWC has 3 dimensions, but the value is float32 [?,8,6,3]",
    "assume(low=2, high=1)": "assume: low 2 is greater than high 1",
    "cast(uint8)": "the steps return uint8 [?,8,6,3], but 'x' expects float32 [?,8,6,3]: add cast(float32)",
}  # fmt: skip

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

RAW = {
    ("to-nhwc", "float32[?,8,6,3]"): "to-nhwc: the channels are already last: the value is NHWC",
    ("squeeze(-1)", "float32[?,8,6,3]"): "squeeze: dimension -1 is 3, not 1: float32 [?,8,6,3]",
    ("rescale(2)", "float32[?,x]"): "raw 'float32[?,x]' has no valid shape: dimensions must be numbers, or ?",
    ("rescale(2)", "float32[?,7,6,3]"): "the steps return float32 [?,7,6,3], but 'x' expects float32",
    ("reshape([-1, 8, 6, 3])", "float32[2, 5]"): "reshape: float32 [2,5] has 10 elements, which do not fit",
    ("decode-image | resize(8, 6, like=tf1)", "string[?,?]"): "decode-image: decodes one string at a time",
}


TEXTS = {
    "decode-csv(3, select=[])": "decode-csv: select requires fields from 0 to 2",
    "decode-csv(3, default=[1, 2])": "decode-csv: default must be one for all fields, or one for each of 3",
    "decode-csv(3, default=none)": "decode-csv: default 'none' is not float32",
    "decode-csv(3, default=true)": "decode-csv: default is true, but must be a number or a text, or a list",
    "decode-csv(3, na=NA)": "decode-csv: na requires a default",
    "decode-csv(3, type=uint8)": "decode-csv: type is 'uint8', but must be one of float32, float64, int32",
    "decode-csv(3, delimiter=', ')": "decode-csv: delimiter is ', ', but must be one character, or tab",
    "parse-example([a, a])": "parse-example: features is ['a', 'a'], but must be a key, or a list of",
    "parse-example(a, shape=[2, -1])": "parse-example: shape [2,?] is open",
    "parse-example(a, shape=[3], default=[1, 2])": "parse-example: default has 2 values, but the shape [3]",
    "parse-example(a, shape=[1000000, 1000000], default=0)":
        "parse-example: has too many values for defaults: 1,000,000,000,000; the limit is 1,048,576",
    "parse-example(a, shape=[-1], default=[1, 2])": "parse-example: requires one single default if the shape",
    "parse-example([a, b], shape=[-1, 3])": "parse-example: can join several features only if their sizes",
    "parse-example(a, shape=[3]) | parse-example(b)":
        "parse-example (step 2): requires a serialized tf.Example, or a vector of them, got float32 [3]",
    "decode-base64 | lookup": "lookup: requires either file=FILE or words=[...]",
    "decode-image(format=png) | exif":
        "exif: requires a JPEG decoded by decode-image (format any or jpeg), got uint8 [?,?,3]",
    "decode-image | exif | exif": "exif (step 3): the image is already upright",
}  # fmt: skip
SOUNDS = {
    "decode-wav(batch=true) | mfcc(640, 320)": "mfcc: all items of a batch need the same shape, but it",
    "mfcc(640, 320)": "mfcc: the sample rate is unknown: use decode-wav(rate=16000), or rate=16000 here",
    "decode-wav(samples=16000, rate=16000) | mfcc(640, 320, rate=8000)":
        "mfcc: rate is 8000, but the sound has 16000",
    "decode-wav(samples=16000, rate=7000) | mfcc(640, 320)": "mfcc: upper 4000 Hz is more than half the sample rate",
    "mfcc(640, 320, lower=90, upper=80, rate=16000)": "mfcc: there are no bands between 90 and 80 Hz",
    "mfcc(640, 320, coefficients=50, rate=16000)": "mfcc: cannot make 50 coefficients from 40 bands",
    "log-mel(640, 320, mels=10, lower=20, upper=4000, fft=512, rate=16000)":
        "log-mel: fft 512 is shorter than a frame of 640",
    "log-mel(65536, 1, mels=1024, lower=20, upper=4000, rate=16000)": "log-mel: 1,024 bands of 32,769 frequencies",
}  # fmt: skip
WRONG: list[tuple[tuple[Any, ...], str, str]] = [
    *(((steps,), "", said) for steps, said in FLOATS.items()),
    *((case, "", said) for case, said in OTHERS.items()),
    *(((steps,), raw, said) for (steps, raw), said in RAW.items()),
    *(((steps, "float32", (-1, 3)), "", said) for steps, said in TEXTS.items()),
    *(((steps, "float32", (-1, 49, 10)), "", said) for steps, said in SOUNDS.items()),
    (
        ("decode-csv(3) | reshape([-1])", "float32", (-1, 3)),
        "string[?]",
        "the steps return float32 [?], but 'x' expects float32 [?,3]",
    ),
]


@pytest.mark.parametrize(("case", "raw", "said"), WRONG)
def test_what_is_known_to_be_wrong_is_refused(case: tuple[Any, ...], raw: str, said: str) -> None:
    assert refusal(*case, raw=raw).startswith(said)


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


def value(text: str) -> Literal:
    return parse(f"f({text})")[0].arguments[0].value


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1", 1), ("-1", -1), ("+2", 2), ("1.", 1.0), (".5", 0.5), ("-1e-3", -0.001), ("1/4", 0.25), ("-1/4", -0.25),
        ("1/255", 1 / 255), ("true", True), ("False", False), ("keras-caffe", "keras-caffe"), ("l.txt", "l.txt"),
        ("/a/b c", None), ("'/a b|c,(d)'", "/a b|c,(d)"), ('"it\'s"', "it's"), ("''", ""), ("[]", []),
        ("[1, 2.5, [x, 'y']]", [1, 2.5, ["x", "y"]]), ("1/x", "1/x"), ("1e", "1e"), ("'“'", "“"),
    ],
)  # fmt: skip
def test_values(text: str, found: Literal | None) -> None:
    if found is None:
        with pytest.raises(UsageError):
            value(text)
        return
    assert value(text) == found and type(value(text)) is type(found)


@given(st.text("ab1|(),=[]'\" .-/\n“–", max_size=30))
@example("a(\\")
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        assert parse(text)
    except UsageError as error:
        assert error.message.startswith("steps, column ") and "\n" not in error.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a b", "steps, column 3: a: '|' must separate steps, at 'b'"),
        ("a(x=1, 2)", "steps, column 8: a: after x=... arguments must be given by name, at '2)'"),
        ("a(x=1, x=2)", "steps, column 8: a: x is given twice, at 'x=2)'"),
        ("a('x)", "steps, column 3: a: the text that begins with ' is not terminated, at ''x)'"),
        ("a(x=’y’)", "steps, column 5: a: ’ is a typographic character; use ', at '’y’)'"),
        ("a(–1)", "steps, column 3: a: – is a typographic character; use -, at '–1)'"),
        ("a(1/0)", "steps, column 3: a: this is not a number, at '1/0)'"),
        ("a(1e999)", "steps, column 3: a: this number is too large, at '1e999)'"),
        ("a(" + "9" * 5000 + ")", f"steps, column 3: a: this is not a number, at '{'9' * 20}...'"),
        ("a(" + "[" * 99, f"steps, column 11: a: lists can be nested at most 8 deep, at '{'[' * 20}...'"),
        ("decode-imag", "'decode-imag' is not a step. Did you mean 'decode-image'?"),
        ("resize(2, 3, height=4)", "resize: height is given twice"),
        ("round(1)", "round accepts 0 arguments"),
        ("resize(2, 3, antialias=1)", "resize: antialias is 1, but must be true or false"),
        ("divide(x)", "divide: by is 'x', but must be a number other than 0"),
        ("divide(0)", "divide: by is 0, but must be a number other than 0"),
        ("normalize(mean=[])", "normalize: mean is [], but must be a number, or a list with one for each channel"),
    ],
)  # fmt: skip
def test_a_text_that_is_wrong(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        read_steps(text)
    assert error.value.message == said


def test_several_texts_are_one_after_the_other() -> None:
    assert [step.step.name for step in read_steps(["round | round", "divide(2)"])] == ["round", "round", "divide"]
    with pytest.raises(UsageError, match="no steps are given"):
        read_steps([])


@pytest.mark.parametrize("name", catalog())
def test_a_step_says_all_of_itself(name: str) -> None:
    step = catalog()[name]
    assert step.name == name and step.summary[0].isupper() and step.summary.endswith(".")
    assert name in [found.step.name for found in read_steps(step.example)]
    assert step.explanation == "" or step.explanation.endswith(".")
    for parameter in step.parameters:
        assert parameter.help and not parameter.help.endswith(".")
        if not parameter.is_required and parameter.default is not None:
            default = parameter.default.name if hasattr(parameter.default, "name") else parameter.default
            parameter.kind.read(list(default) if isinstance(default, tuple) else default)  # type: ignore[arg-type]


FILE = get_args(File)[1]
LITERALS = (
    "0", "1", "-1", "2", "3", "7", "300", "1.5", "-0.5", "1/255", "1e-40", "1e-320", "1e39", "-1e300", "2147483647",
    "9223372036854775807", "1" + "0" * 400, "true", "false", "keras", "pillow", "opencv", "tf1", "bilinear", "bicubic",
    "nearest", "linear", "area", "uint8", "float16", "float32", "int64", "NHWC", "RGB", "keras-tf", "keras-caffe",
    "any", "''", "'a b'", "[]", "[0]", "[1, 2, 3]", "[-1, 3]", "[2, 0, 1]", "[1e39, 0, 1]", "[0, 0, 0]", "[[1], [2]]",
)  # fmt: skip
RAWS = (
    "uint8[5,4,3]",
    "uint8[?,?,?,3]",
    "float32[?,3]",
    "float64[]",
    "int32[...]",
    "string",
    "bool[2]",
    "float16[2,2,2,3]",
)


@st.composite
def calls(draw: st.DrawFn) -> str:
    step = catalog()[draw(st.sampled_from(sorted(catalog())))]
    given: list[str] = []
    for parameter in step.parameters:
        if parameter.kind is not FILE and (parameter.is_required or draw(st.booleans())):
            given.append(f"{parameter.name}={draw(st.sampled_from(LITERALS))}")
    return f"{step.name}({', '.join(given)})"


@settings(max_examples=300)
@given(st.lists(calls(), min_size=1, max_size=4), st.sampled_from(RAWS))
@example(["rescale(scale=1e39)"], "uint8[5,4,3]")
@example(["cast(type=float64)", "rescale(scale=1e300)", "rescale(scale=1e300)", "cast(type=int64)"], "uint8[5,4,3]")
@example(["pad(value=1e39)"], "float32[5,4,3]")
@example(["clip(low=-1e300, high=1e300)"], "float32[5,4,3]")
def test_whatever_is_given(steps: list[str], raw: str) -> None:
    try:
        graph, value = typed(" | ".join(steps), raw)
    except GdsurgeonError as error:
        assert "\n" not in error.message and error.exit_code in (2, 4)
        return
    assert graph.node_count >= 2 and not value.low > value.high


NO_STEPS: dict[str, tuple[object, str]] = {
    "nothing": ([], "no steps are given"),
    "no text": ("", "steps, column 1: a step is missing, at the end"),
    "a number": (3, "expected str or a sequence of str or StepCall, got int"),
    "None": (None, "expected str or a sequence of str or StepCall, got NoneType"),
    "bytes": (b"rescale(2)", "expected str or a sequence of str or StepCall, got bytes"),
    "a dict": ({"rescale": 2}, "expected str or a sequence of str or StepCall, got dict"),
    "a list with a dict in it": (["rescale(2)", {"rescale": 2}], "item 1 is dict, expected str or StepCall, got list"),
    "a list with None in it": ([None], "item 0 is NoneType, expected str or StepCall, got list"),
}


def each_side(steps: Any, graph: Any) -> list[Callable[[], Graph]]:
    return [
        lambda: gds.steps.preprocessing(steps, graph),
        lambda: gds.steps.postprocessing(steps, graph),
        lambda: gds.steps.inserted(steps, graph, "y"),
    ]


@pytest.mark.parametrize("name", NO_STEPS)
def test_what_is_no_steps(name: str) -> None:
    steps, said = NO_STEPS[name]
    for build in each_side(steps, model()):
        with pytest.raises(UsageError) as error:
            build()
        assert error.value.message.endswith(said) and "\n" not in error.value.message


@pytest.mark.parametrize("graph", ["model.pb", None, 3], ids=str)
def test_what_is_no_model(graph: object) -> None:
    for build in each_side("rescale(2)", graph):
        with pytest.raises(UsageError, match="argument 'model': expected Graph, got "):
            build()


def test_what_names_no_tensor() -> None:
    given: Any = 3
    for argument, build in (
        ("input", lambda: gds.steps.preprocessing("rescale(2)", model(), input=given)),
        ("output", lambda: gds.steps.postprocessing("rescale(2)", model(), output=given)),
        ("tensor", lambda: gds.steps.inserted("rescale(2)", model(), given)),
        ("raw", lambda: gds.steps.preprocessing("rescale(2)", model(), raw=given)),
    ):
        with pytest.raises(ArgumentError) as error:
            build()
        assert error.value.facts["argument"] == argument and error.value.facts["found"] == "int"


def test_a_tensor_is_meant_by_its_name_or_itself() -> None:
    m = model()
    x, y = m["x"].output, m["y"].output
    given: Any = (step for step in ("rescale(2)", "round"))
    wanted = ["Placeholder", "Mul", "Round", "Identity"]
    assert ops(gds.steps.preprocessing(given, m, input=x)) == wanted
    assert ops(gds.steps.postprocessing(("rescale(2)", "round"), m, output=y)) == wanted
    assert ops(gds.steps.inserted(read_steps("rescale(2) | round"), m, x)) == wanted
    assert ops(gds.steps.inserted([*read_steps("rescale(2)"), "round"], m, x)) == wanted
