"""Random chains of steps after a model: a graph runs and returns what the builder predicts, or the chain is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.behind import Shape, model, results
from support.stepping import Array, check_as_said

from gdsurgeon.errors import EditError
from gdsurgeon.proof.executor import Refused
from gdsurgeon.steps.build import postprocessed
from gdsurgeon.steps.catalog import BEHIND, catalog, read_steps

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


def opened(shape: tuple[int, ...]) -> Shape:
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
    before = model(dtype, opened(shape) if is_open else shape, opened(boxes) if is_open else boxes)
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
