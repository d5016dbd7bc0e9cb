"""Steps after a model, compared with NumPy, and refused steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.behind import Shape, behind, made, model, refusal, results
from support.graphs import Builder, const, identity, placeholder, typed
from support.stepping import Array, check_as_said, ops

import gdsurgeon as gds
from gdsurgeon.errors import EditError
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.releases import release
from gdsurgeon.proof.executor import Refused
from gdsurgeon.steps import inserted, preprocessing
from gdsurgeon.steps.build import postprocessed
from gdsurgeon.steps.catalog import AFTER, catalog, files_read, read_steps

RANDOM = np.random.default_rng(1)
LOGITS = (RANDOM.standard_normal((4, 10)) * 5).astype(np.float32)
MAPS = (RANDOM.standard_normal((2, 5, 4, 3)) * 3).astype(np.float32)
COUNTS = RANDOM.integers(0, 200, (3, 10)).astype(np.int32)
BYTES = RANDOM.integers(0, 256, (2, 4, 4, 3)).astype(np.uint8)
SMALL = RANDOM.integers(-128, 128, (3, 7)).astype(np.int8)
TORCH_MEAN, TORCH_STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
CAFFE = np.float32([103.939, 116.779, 123.68])
NAMES = [f"c{number}" for number in range(10)]
LIST = f"[{', '.join(NAMES)}]"


def softmax(x: Array) -> Array:
    x = x.astype(np.float64)
    powers: Array = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def log_softmax(x: Array) -> Array:
    x = x.astype(np.float64)
    below: Array = x - x.max(-1, keepdims=True)
    return below - np.log(np.exp(below).sum(-1, keepdims=True))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def top(x: Array, k: int) -> Array:
    return np.argsort(-x.astype(np.float64), axis=-1, kind="stable")[..., :k]


def named(x: Array) -> Array:
    return np.array(NAMES, object)[x]


EXACT: dict[str, tuple[str, Array, Array]] = {
    "argmax": ("argmax", LOGITS, LOGITS.argmax(-1)),
    "argmax of an axis": ("argmax(1)", MAPS, MAPS.argmax(1)),
    "argmax of integers": ("argmax(-2)", COUNTS, COUNTS.argmax(-2)),
    "argmax of equal values": ("argmax", np.float32([[1, 3, 3, 0]]), np.int64([1])),
    "top-k": ("top-k(3)", LOGITS, top(LOGITS, 3).astype(np.int32)),
    "top-k of equal scores": ("top-k(3)", np.float32([1, 3, 1, 3]), np.int32([1, 3, 0])),
    "top-k of maps": ("top-k(2)", MAPS, top(MAPS, 2).astype(np.int32)),
    "top-k of integers": ("top-k(4)", COUNTS, top(COUNTS, 4).astype(np.int32)),
    "labels": (f"argmax | labels(names={LIST})", LOGITS, named(LOGITS.argmax(-1))),
    "labels of the best": (f"top-k(3) | labels(names={LIST})", LOGITS, named(top(LOGITS, 3))),
    "labels of another type": (f"argmax | cast(int32) | labels(names={LIST})", LOGITS, named(LOGITS.argmax(-1))),
    "labels of bytes": ("labels(names=[no, yes])", np.uint8([[1, 0], [0, 1]]),
                        np.array([["yes", "no"], ["no", "yes"]])),
    "labels from 1 on": ("labels(names=[a, b], first=1, other=back)", np.int64([0, 1, 2, 3, -9, 2**62]),
                         np.array(["back", "a", "b", "back", "back", "back"])),
    "labels and others": ("labels(names=[a, b], other=?)", np.int32([-1, 0, 1, 2, 2**31 - 1, -(2**31)]),
                          np.array(["?", "a", "b", "?", "?", "?"])),
    "labels from 5 on": ("labels(names=[a, b], first=5)", np.int16([6, 5]), np.array(["b", "a"])),
    "labels are UTF-8": ("labels(names=['é, ü', '日本'])", np.int32([1, 0]), np.array(["日本", "é, ü"])),
    "threshold": ("threshold(0.5)", LOGITS, np.float32(0.5) <= LOGITS),
    "threshold is reached": ("threshold(2)", np.float32([1.5, 2, np.nan, np.inf]),
                             np.array([False, True, False, True])),
    "threshold of integers": ("threshold(100)", COUNTS, COUNTS >= 100),
    "threshold that keeps": ("threshold(-1, keep=true)", MAPS, np.where(MAPS >= -1, MAPS, np.float32(0))),
    "a mask": ("threshold(1) | cast(uint8)", MAPS, (MAPS >= 1).astype(np.uint8)),
    "dequantize": ("dequantize(0.25, zero-point=3)", BYTES, (BYTES.astype(np.float32) - 3) * np.float32(0.25)),
    "dequantize signed": ("dequantize(0.1, -128)", SMALL, (SMALL.astype(np.float32) + 128) * np.float32(0.1)),
    "dequantize channels": ("dequantize([0.1, 2, 0.3], zero-point=[1, 2, 3])", BYTES,
                            (BYTES.astype(np.float32) - np.float32([1, 2, 3])) * np.float32([0.1, 2, 0.3])),
    "dequantize without a zero point": ("dequantize(0.5)", SMALL, SMALL.astype(np.float32) * np.float32(0.5)),
    "denormalize": ("denormalize(mean=[1, 2, 3], std=[0.1, 2, 0.3])", MAPS,
                    MAPS * np.float32([0.1, 2, 0.3]) + np.float32([1, 2, 3])),
    "denormalize a mean": ("denormalize(mean=0.5)", MAPS, MAPS + np.float32(0.5)),
    "denormalize keras-tf": ("denormalize(like=keras-tf)", MAPS, (MAPS + np.float32(1)) * np.float32(127.5)),
    "denormalize keras-torch": ("denormalize(like=keras-torch)", MAPS,
                                (MAPS * TORCH_STD + TORCH_MEAN) * np.float32(255)),
    "denormalize keras-caffe": ("denormalize(like=keras-caffe)", MAPS, (MAPS + CAFFE)[..., ::-1]),
    "an image again": ("denormalize(like=keras-tf) | round | cast(uint8)", MAPS,
                       np.clip(np.round((MAPS + np.float32(1)) * np.float32(127.5)), 0, 255).astype(np.uint8)),
}  # fmt: skip
NEAR: dict[str, tuple[str, Array, Array, float]] = {
    "softmax": ("softmax", LOGITS, softmax(LOGITS), 1e-6),
    "softmax of large scores": ("softmax", LOGITS * 1000, softmax(LOGITS * np.float32(1000)), 1e-6),
    "softmax of maps": ("softmax", MAPS, softmax(MAPS), 1e-6),
    "softmax of integers": ("softmax", COUNTS, softmax(COUNTS), 1e-6),
    "softmax of a vector": ("softmax", LOGITS[0], softmax(LOGITS[0]), 1e-6),
    "log-softmax": ("log-softmax", LOGITS, log_softmax(LOGITS), 1e-6),
    "log-softmax of maps": ("log-softmax", MAPS, log_softmax(MAPS), 1e-6),
    "log-softmax of large scores": ("log-softmax", LOGITS * 1000, log_softmax(LOGITS * np.float32(1000)), 1e-6),
    "sigmoid": ("sigmoid", LOGITS, sigmoid(LOGITS), 1e-6),
    "sigmoid of far values": ("sigmoid", np.float32([-80, -20, 0, 20, 80]), sigmoid(np.float32([-80, -20, 0, 20, 80])),
                              1e-6),
    "sigmoid of doubles": ("sigmoid", LOGITS.astype(np.float64), sigmoid(LOGITS), 1e-6),
    "channels in front": ("transpose([0, 2, 3, 1]) | softmax", MAPS, softmax(MAPS.transpose(0, 2, 3, 1)), 1e-6),
}  # fmt: skip


def texts(value: Array) -> Array:
    """Texts as bytes, like TensorFlow's; other values as they are."""
    if value.dtype.kind not in "OU":
        return value
    return np.array([text.encode() for text in value.flat], object).reshape(value.shape)


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", EXACT)
def test_exactly(name: str) -> None:
    steps, value, wanted = EXACT[name]
    shapes = [value.shape] if "axis" in name else [value.shape, (*[-1] * (value.ndim - 1), *value.shape[-1:])]
    for shape in shapes:
        found = made(steps, value, shape)["y_postprocessed"]
        assert found.tolist() == texts(wanted).tolist()
        assert found.dtype == texts(wanted).dtype or found.dtype.kind == "O"


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", NEAR)
def test_within_what_is_stated(name: str) -> None:
    steps, value, wanted, near = NEAR[name]
    found = made(steps, value)["y_postprocessed"]
    assert found.shape == wanted.shape and found.dtype.kind == "f"
    assert (np.abs(found - wanted) <= near * np.maximum(1, np.abs(wanted))).all()


@pytest.mark.tensorflow
def test_the_scores_of_the_best_are_beside_them() -> None:
    best = top(LOGITS, 3)
    found = made(f"softmax | top-k(3) | labels(names={LIST})", LOGITS)
    assert list(found) == ["y_postprocessed", "y_scores"]
    assert found["y_postprocessed"].tolist() == texts(named(best)).tolist()
    assert np.abs(found["y_scores"] - np.take_along_axis(softmax(LOGITS), best, -1)).max() <= 1e-6
    exactly = made("top-k(3)", LOGITS)
    assert exactly["y_scores"].tolist() == np.take_along_axis(LOGITS, best, -1).tolist()


@pytest.mark.tensorflow
def test_results_have_names_of_their_own() -> None:
    found = made("top-k(2) | rename(classes, scores=best)", LOGITS)
    assert list(found) == ["y_postprocessed", "classes", "best"]
    assert found["y_postprocessed"].tolist() == LOGITS.tolist()
    assert found["classes"].tolist() == top(LOGITS, 2).tolist()
    assert list(made("top-k(2) | rename(scores=none)", LOGITS)) == ["y_postprocessed"]
    assert list(made("top-k(2) | rename(y, scores=s) | labels(names=[a], other=b)", LOGITS)) == ["y_postprocessed", "s"]


@pytest.mark.tensorflow
@pytest.mark.parametrize("steps", ["softmax", "log-softmax", "sigmoid", "argmax", "top-k(3)", "threshold(0)",
                                   f"softmax | top-k(2) | labels(names={LIST})", "denormalize(mean=1, std=2)",
                                   "argmax | labels(names=[a], other=b)"])  # fmt: skip
def test_an_empty_batch(steps: str) -> None:
    for name, value in made(steps, LOGITS[:0], (-1, 10)).items():
        assert value.shape[0] == 0, name


@pytest.mark.tensorflow
def test_quantized_types() -> None:
    m = Builder(placeholder("x", "uint8", (-1, 3)), typed("Bitcast", "y", "x", kind="uint8", type="quint8"))
    model = m.graph("model.pb")
    result = gds.add_postprocessing(model, gds.steps.postprocessing("dequantize(0.5, 3)", model))
    (proof, raw) = gds.prove(model.pristine(), model, result, feeds={"x": np.uint8([[0, 3, 255]])}).outputs
    assert (proof.after, proof.value, raw.after) == ("y", "[-1.5, 0, 126]", "y_raw")


NAMED = "labels(names=[a, b, c])"
OWN = (
    "softmax", "log-softmax", "sigmoid", "threshold(0.25)", "threshold(-1, keep=true)", "threshold(2, keep=true)",
    "argmax", "argmax(0)", "argmax(-2)", "top-k(1)", "top-k(3)", NAMED,
    "labels(names=[a, b], other=none)", "labels(names=[a], first=2, other=c)", "denormalize(mean=0.5)",
    "denormalize(mean=[1, 2, 3], std=[0.1, 2, 3])", "denormalize(like=keras-tf)", "denormalize(like=keras-torch)",
    "denormalize(like=keras-caffe)", "dequantize(0.5, 3)", "dequantize([1, 2, 3], zero-point=-7)",
    "nms(BOXES, yxyx, most=3)", "nms(BOXES, cxcywh, most=4, iou=0.2, per-class=false)",
    "nms(BOXES, xyxy, score=0.1, background=true)", "from-letterbox(BOXES, yxyx)", "from-letterbox(BOXES, cxcywh)",
    "rename(OWN)", "rename(scores=OWN_s)", "rename(scores=none)",
    "rename(OWN, boxes=OWN_b, count=none)",
)  # fmt: skip
SHARED = (
    "cast(float32)", "cast(uint8)", "cast(int32)", "cast(int64)", "cast(bool)", "round", "rescale(2, -1)", "divide(3)",
    "clip(0, 2)", "clip(-1, 1)", "to-nchw", "to-nhwc", "reverse-channels", "expand-dims(0)", "squeeze(0)",
    "reshape([-1, 3])", "transpose([1, 0])", "resize(4, 3, like=keras)", "assume(low=-1e300, high=1e300)",
)  # fmt: skip
GIVEN: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
    ("float32", (4, 3), (4, 4)), ("float32", (2, 5, 3), (2, 5, 4)), ("float32", (6,), (6, 4)),
    ("float32", (2, 6), (2, 6, 4)), ("int32", (5, 3), (5, 4)), ("uint8", (2, 4, 4, 3), (4, 4)),
    ("float64", (3, 4), (3, 4)), ("int8", (3,), (3, 4)), ("float32", (1, 4, 4, 3), (2, 2)), ("float32", (0, 3), (0, 4)),
    ("float32", (2, 5, 4), (2, 4)), ("float32", (5, 4), (4,)),
)  # fmt: skip


def test_the_pool_has_every_step_that_belongs_behind() -> None:
    here = {read_steps(text)[0].step.name for text in OWN}
    assert here == {name for name, step in catalog().items() if step.sides == (AFTER,)} | {"dequantize"}


def spelt(steps: list[str], number: int) -> str:
    """STEPS behind the model of that number."""
    return " | ".join(steps).replace("BOXES", f"boxes{number}").replace("OWN", f"own{number}")


def chain_opened(shape: tuple[int, ...]) -> Shape:
    """SHAPE with its first dimension open."""
    return (-1, *shape[1:])


def may_be_nameless(steps: list[str]) -> bool:
    """Whether STEPS may look for the name of a class that has none, which is an error when they run."""
    places = [place for place, step in enumerate(steps) if step == NAMED]
    return any(not place or not steps[place - 1].startswith(("argmax", "top-k")) for place in places)


def values_for(shape: tuple[int, ...], dtype: str) -> Array:
    return (np.random.default_rng(len(shape)).standard_normal(shape) * 3).astype(dtype)


@pytest.mark.tensorflow
@settings(max_examples=200)
@given(
    st.lists(st.one_of(st.sampled_from(OWN), st.sampled_from(OWN + SHARED)), min_size=1, max_size=5),
    st.sampled_from(GIVEN),
    st.booleans(),
)
def test_what_is_built_gives_what_the_builder_says(
    steps: list[str], taken: tuple[str, tuple[int, ...], tuple[int, ...]], is_open: bool
) -> None:
    dtype, shape, boxes = taken
    text = spelt(steps, 0).replace("boxes0", "boxes")
    before = model(dtype, chain_opened(shape) if is_open else shape, chain_opened(boxes) if is_open else boxes)
    try:
        graph, value = postprocessed(text, before, "y")
    except EditError as error:
        first = error.message.split(":")[0].split(" (step ")[0]
        assert first in [step.partition("(")[0] for step in steps] and "\n" not in error.message
        return
    takes = {node.name for node in graph.nodes() if node.op == "Placeholder"}
    feeds = {"y": values_for(shape, dtype), "boxes": np.abs(values_for(boxes, "float32"))}
    try:
        found = results(graph, {name: fed for name, fed in feeds.items() if name in takes})
    except Refused as error:
        assert is_open or (may_be_nameless(steps) and "is not in [0, 3)" in str(error))
        return  # of an open dimension nothing is known before
    check_as_said(found.pop(value.name or "y_postprocessed"), value)
    for what, result in value.results.items():
        if result.name is not None:
            name = result.name or (f"{result.place}_postprocessed" if result.place else f"y_{what}")
            check_as_said(found.pop(name), result)
    left = [name for name in found if not name.endswith("_postprocessed")]
    assert not left, (text, left)


SCORES: dict[str, str] = {
    "log-softmax | softmax": "softmax: the values are already logarithms of probabilities",
    "argmax | sigmoid": "sigmoid: requires scores, got classes",
    "argmax | argmax": "argmax (step 2): requires scores, got classes",
    "top-k(3) | threshold(2)": "threshold: requires scores, got classes: move it before the step that makes",
    "top-k(11)": "top-k: 11 of 10 values are requested: float32 [?,10]",
    "argmax(2)": "argmax: axis 2 does not exist: there are 2 dimensions",
    "softmax | threshold(0)": "threshold: all of the values can reach 0: they are 0..1",
    "cast(int32) | threshold(0.5)": "threshold: 0.5 is outside the range of int32",
    "labels(names=[a, b])": "labels: requires classes, which are whole numbers, got float32 [?,10]: add",
    "argmax | labels": "labels: requires either file=FILE or names=[...]",
    "argmax | labels(names=[])": "labels: names is [], but must be a list of texts",
    "dequantize(0.5)": "dequantize: requires integers, got float32 [?,10]",
    "cast(uint8) | dequantize(0.5, zero-point=-1)": "dequantize: zero-point -1 is outside the range of uint8",
    "cast(uint8) | dequantize([1, 2])": "dequantize: scale requires 2 channels, but the value has 10",
    "denormalize": "denormalize: requires mean and std, or like=keras-caffe|keras-tf|keras-torch",
    "denormalize(mean=1, like=keras-tf)": "denormalize: like=keras-tf determines mean and std: give only one",
    "denormalize(mean=[1, 2])": "denormalize: mean requires 2 channels, but the value has 10: float32 [?,10]",
    "cast(uint8) | denormalize(std=2)": "denormalize: the values are already pixels: uint8 [?,10] is 0..255",
    "rename": "rename: no name is given",
    "rename(none)": "rename: the result of the steps equals their input, which is already an output",
    "rename(scores=s)": "rename: the steps have no additional result scores",
    "top-k(2) | rename(a, scores=a)": "rename: two results would have the name 'a'",
    "rename(y_raw)": "rename: model.pb already has 'y_raw'",
    "nms(y, yxyx)": "nms: 'y' is the output that the steps are added to",
    "nms(boxes, xywh)":
        "nms: layout is 'xywh', but must be one of yxyx, xyxy, cxcywh. Use cxcywh if x and y are the center",
    "nms(boxes, yxyx, iou=2)": "nms: iou is 2, but must be a number from 0 to 1",
    "cast(int32) | from-letterbox(boxes, xyxy)": "from-letterbox: requires float32, but y_",
}  # fmt: skip
NMS = "nms(boxes, yxyx)"
PER_BOX = "nms: scores must be one for each box, or one for each box and class, but they are"
OTHER_IMAGES = "from-letterbox: the boxes and the placement are not of the same images: the boxes are float32"
PLACEMENT = "from-letterbox: a placement must be [4] or [images,4], but boxes is float32"
OF_IMAGES = "boxes must be [boxes,4] or [images,boxes,4],"
LETTERBOX = "from-letterbox(boxes, yxyx)"
OTHERS: list[tuple[str, str, Shape, Shape, str]] = [
    ("softmax", "float32", (), None, "softmax: requires scores along a dimension, got float32 []"),
    ("argmax", "float32", (-1, 0), None, "argmax: the value has no classes: float32 [?,0]"),
    (LETTERBOX, "float32", (7, 4), (5,), f"{PLACEMENT} [5]"),
    (LETTERBOX, "float32", (7, 4), (2, 3, 4), f"{PLACEMENT} [2,3,4]"),
    (LETTERBOX, "float32", (7, 4), (7, 4), f"{OTHER_IMAGES} [7,4]; boxes is float32 [7,4]"),
    (LETTERBOX, "float32", (3, 7, 4), (2, 4), f"{OTHER_IMAGES} [3,7,4]; boxes is float32 [2,4]"),
    (LETTERBOX, "float32", (7, 5), (4,), f"from-letterbox: {OF_IMAGES} but y is float32 [7,5]"),
    (NMS, "float32", (10,), (9, 4), "nms: the scores and the boxes have different counts: the scores are float32 [10]"),
    (NMS, "float32", (10, 3, 2), (10, 4), PER_BOX),
    (NMS, "float32", (2,), (2, 10, 4), PER_BOX),
    (NMS, "float32", None, (10, 4), PER_BOX),
    (NMS, "float32", (10,), (10, 5), f"nms: {OF_IMAGES} but boxes is float32 [10,5]"),
    (NMS, "float32", (10,), (4,), f"nms: {OF_IMAGES} but boxes is float32 [4]"),
    (NMS, "float64", (9,), (9, 4), "nms: requires float32, but y is float64"),
    (f"{NMS} | {NMS}", "float32", (9,), (9, 4), "nms (step 2): the boxes are already selected"),
    *(("nms(boxes, yxyx, background=true)", "float32", shape, (9, 4),
       "nms: background=true leaves out the only class: float32 [9") for shape in ((9,), (9, 1))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "dtype", "shape", "boxes", "said"),
    [*((steps, "float32", (-1, 10), (-1, 5), said) for steps, said in SCORES.items()), *OTHERS],
)
def test_what_is_known_to_be_wrong_is_refused(steps: str, dtype: str, shape: Shape, boxes: Shape, said: str) -> None:
    assert refusal(steps, dtype, shape, boxes).startswith(said)


@pytest.mark.parametrize(
    ("steps", "op"),
    [
        ("softmax | rescale(10) | softmax", "Identity"),
        ("assume(low=-9, high=9) | softmax", "Softmax"),
        ("sigmoid | softmax", "Identity"),
        ("softmax | squeeze(0) | top-k(2)", "Relu"),
        ("threshold(0.1)", "Relu"),
        ("argmax | clip(0, 1) | labels(names=[a, b])", "Identity"),
        ("argmax | labels(names=[a, b], other=c)", "Identity"),
        ("top-k(10)", "Softmax"),
    ],
)
def test_what_may_be_meant_is_built(steps: str, op: str) -> None:
    assert "y_postprocessed" in behind(steps, op=op)


@pytest.mark.parametrize("axis", [1, -1])
def test_the_number_of_classes_follows_from_the_model(axis: int) -> None:
    graph = Builder(
        placeholder("x", "float32", (-1, 3)), const("axis", axis, "int32"),
        typed("ArgMax", "best", "x", "axis", Tidx="int32", output_type="int64"), identity("y", "best", kind="int64"),
    ).graph("model.pb")  # fmt: skip
    assert "y_postprocessed" in gds.steps.postprocessing("labels(names=[a, b, c])", graph)
    with pytest.raises(EditError, match="labels: there is 1 name, but 3 classes"):
        gds.steps.postprocessing("labels(names=[a])", graph)


def test_probabilities_in_another_shape() -> None:
    graph = Builder(
        placeholder("x", "float32", (-1, 6)), typed("Softmax", "best", "x"), const("wide", [-1, 1, 6], "int32"),
        typed("Reshape", "same", "best", "wide", Tshape="int32"), const("halves", [-1, 2, 3], "int32"),
        typed("Reshape", "other", "best", "halves", Tshape="int32"), placeholder("shape", "int32", (2,)),
        typed("Reshape", "unknown", "same", "shape", Tshape="int32"),
    ).graph("model.pb")  # fmt: skip
    with pytest.raises(EditError, match="softmax: the values are already probabilities"):
        gds.steps.postprocessing("softmax", graph, output="same")
    assert "unknown_postprocessed" in gds.steps.postprocessing("softmax", graph, output="unknown")
    assert "other_postprocessed" in gds.steps.postprocessing("softmax", graph, output="other")
    with pytest.raises(EditError, match="sigmoid: the values are already 0"):
        gds.steps.postprocessing("sigmoid", graph, output="other")


ALL = [
    ("softmax | top-k(2) | labels(names=[a], other=b)", (-1, 10), None),
    ("log-softmax | argmax | labels(names=[a], first=3, other=c)", (-1, 10), None),
    ("sigmoid | threshold(0.5, keep=true) | threshold(0.6) | cast(uint8) | dequantize(2, 3)", (-1, 10), None),
    ("denormalize(like=keras-caffe)", (-1, 4, 4, 3), None),
    ("denormalize(like=keras-torch)", (-1, 4, 4, 3), None),
    ("denormalize(like=keras-tf) | round", (-1, 4, 4, 3), None),
    ("nms(boxes, cxcywh)", (-1, 9, 3), (-1, 9, 4)),
    ("nms(boxes, yxyx)", (9, 3), (9, 4)),
    ("from-letterbox(boxes, cxcywh)", (-1, 9, 4), (-1, 4)),
    ("nms(boxes, yxyx, per-class=false)", (-1, 9, 3), (-1, 9, 4)),
    ("nms(boxes, yxyx, per-class=false)", (9,), (9, 4)),
]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_what_is_built_is_in_tensorflow_1_15(case: tuple[str, Shape, Shape]) -> None:
    """With the attrs that it has there."""
    old = release("1.15")
    assert old is not None
    graph = behind(case[0], "float32", case[1], case[2])
    bodies = [(node.op, {*node.attr}) for function in graph.functions for node in function.node_def]
    for op, attrs in [*bodies, *((node.op, {*node.attr_keys}) for node in graph.nodes())]:
        definition = old.op_def(op)
        assert definition is not None, op
        assert attrs <= set(definition.attrs), op


@pytest.mark.parametrize(
    ("build", "steps", "said"),
    [
        (inserted, "top-k(10) | cast(float32)", "the steps also return scores, but insert replaces one tensor"),
        (inserted, NMS, "nms: requires two outputs of a model"),
        (inserted, LETTERBOX, "from-letterbox: requires two outputs of a model"),
        (preprocessing, "softmax", "softmax: this step is for use after a model, not before a model"),
    ],
)
def test_elsewhere_results_have_no_place(build: Callable[..., Graph], steps: str, said: str) -> None:
    with pytest.raises(EditError, match=said):
        build(steps, model(), *(["y"] if build is inserted else []))


def test_names_of_classes_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "l.txt"
    path.write_bytes(b"\xef\xbb\xbfant\r\n\r\nbee, big\r\n\r\n")
    steps = read_steps(f"argmax | labels(file='{path}', other=?)")
    assert files_read(steps) == [str(path)]
    path.unlink()  # it was read
    constants = [constant(node) for node in gds.steps.postprocessing(steps, model(), output="y").nodes()]
    assert [b"?", b"ant", b"", b"bee, big", b"?"] in [found.values for found in constants if found is not None]


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"a\nb\0c", "is not text: line 2 has a zero byte"), (b"a\n" * 1001, "but 10 classes: 991 names too many")],
)
def test_files_that_hold_no_names(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "l.txt"
    path.write_bytes(data)
    message = refusal(f"argmax | labels(file='{path}')")
    assert message.startswith("labels: ") and f"{path}" in message and message.endswith(said)


def test_the_ops_of_each_way_to_choose_boxes() -> None:
    assert "CombinedNonMaxSuppression" in ops(behind(NMS, "float32", (9, 3), (9, 4)))
    assert "NonMaxSuppressionV4" in ops(behind(NMS, "float32", (9,), (9, 4)))
    assert "MapDefun" in ops(behind(NMS, "float32", (-1, 9), (-1, 9, 4)))
