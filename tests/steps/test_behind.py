"""Steps behind a model, against NumPy: alone and one after the other, batches and empty batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.behind import Shape, made, model, results
from support.graphs import Builder
from support.stepping import Array, check_as_said

import gdsurgeon as gds
from gdsurgeon.errors import EditError
from gdsurgeon.proof.executor import Refused
from gdsurgeon.steps.build import postprocessed
from gdsurgeon.steps.catalog import BEHIND, catalog, read_steps

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


def opened(value: Array, dims: int) -> tuple[int, ...]:
    """Its shape, with so many dimensions left open."""
    return (*(-1 for _ in value.shape[:dims]), *value.shape[dims:])


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", EXACT)
def test_exactly(name: str) -> None:
    steps, value, wanted = EXACT[name]
    shapes = [value.shape] if "axis" in name else [value.shape, opened(value, value.ndim - 1)]
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
    m = Builder()
    m.placeholder("x", "uint8", (-1, 3))
    m.node("y", "Bitcast", ["x"], T="uint8", type="quint8")
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
    assert here == {name for name, step in catalog().items() if step.sides == (BEHIND,)} | {"dequantize"}


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
