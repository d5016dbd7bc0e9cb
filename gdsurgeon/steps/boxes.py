"""Steps for detectors: non-maximum suppression, and the conversion of boxes in a letterbox."""

from __future__ import annotations

from math import inf
from typing import Annotated, TypeAlias

from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.errors import printable
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import DTYPES, FLOAT32, INT32, INT64
from gdsurgeon.steps.builder import Builder, Input, empty_graph
from gdsurgeon.steps.catalog import AFTER, step
from gdsurgeon.steps.language import Count, Flag, Number, Text, choice, number_that
from gdsurgeon.steps.value import CLASSES, Unfit, Value

BOXES = "boxes"


Fraction: TypeAlias = Annotated[float, number_that("a number from 0 to 1", lambda found: 0 <= found <= 1)]


@step("nms", side=AFTER, example="nms(boxes=detection_boxes, layout=yxyx, most=20, iou=0.5, score=0.3)")
def nms(
    build: Builder,
    value: Value,
    *,
    boxes: Text,
    layout: Annotated[str, choice("yxyx", "xyxy", "cxcywh")],
    most: Count = 100,
    iou: Fraction = 0.5,
    score: Number | None = None,
    background: Flag = False,
    per_class: Flag = True,
) -> Value:
    """Of overlapping boxes, keep only the one with the best score (non-maximum suppression).

    The current value holds the scores, [boxes] of one class or [boxes,classes]. The boxes are [boxes,4]. Both may
    have a leading dimension of images. Boxes and scores replace the two outputs. They are sorted by score and
    padded with zeros up to the maximum number. OUTPUT_count is the number of boxes, OUTPUT_classes their classes.
    per-class=true uses the op CombinedNonMaxSuppression: a box is kept once for each class whose score is high
    enough. per-class=false uses the best class of each box, and boxes of all classes compete (NonMaxSuppressionV4).
    TensorFlow 1.15 has both ops. yxyx and xyxy are corners; the result has the same layout. cxcywh is center and
    size; the result is xyxy. The result is the same as that of a plain NumPy loop that removes each box whose
    overlap with a kept box is more than iou. Of equal scores, the first is better.

    Args:
        boxes: the output of the model that holds the boxes
        layout: the order of the four numbers of a box
        most: the maximum number of boxes per image
        iou: the overlap above which the box with the lower score is removed
        score: boxes with a score not above this are removed; by default none
        background: whether class 0 is the background and left out; the other classes are then counted from 0
        per_class: whether boxes suppress only boxes of the same class
    """
    if BOXES in value.results:
        raise Unfit("the boxes are already selected")
    corners = build.other(boxes)
    has_classes = _check_shapes(value, corners)
    if background:
        shape = value.shape or ()
        if not has_classes or shape[-1] in (0, 1):
            raise Unfit(f"background=true leaves out the only class: {value.description}")
        tensor = build.add("Slice", value.tensor, (*[0] * (len(shape) - 1), 1), [-1] * len(shape))
        value = value.replace(tensor=tensor, shape=(*shape[:-1], shape[-1] - (shape[-1] > 0)))
    is_batch = corners.rank == 3
    if layout == "cxcywh":
        axis = 2 if is_batch else 1
        center, size = build.node("Split", [axis, corners.tensor], {"num_split": 2}).outputs
        half = build.add("Mul", size, 0.5)
        ends = build.add("Sub", center, half), build.add("AddV2", center, half)
        corners = corners.replace(tensor=build.add("ConcatV2", *ends, axis))
    limits = (most, iou, -3e38 if score is None else score)
    find = _each_class if has_classes and per_class else _all_classes
    kept, kept_scores, kept_classes, kept_count = find(build, corners, value, limits, is_batch)
    images: tuple[int, ...] = (corners.shape[0],) if is_batch and corners.shape is not None else ()
    count = value.shape[-1] if value.shape is not None else -1
    low, high = min(value.low, 0.0), max(value.high, 0.0)
    scores = value.replace(tensor=kept_scores, shape=(*images, most), layout="", low=low, high=high)
    results = {BOXES: corners.fresh(kept, FLOAT32, (*images, most, 4)).replace(place=boxes)}
    if kept_classes is not None:
        classes = value.fresh(kept_classes, INT32, (*images, most))
        last = float(count - 1) if count > 0 else inf
        results[CLASSES] = classes.replace(low=0.0, high=last).with_kind(CLASSES)
    results["count"] = value.fresh(kept_count, INT32, images).replace(low=0.0, high=float(most))
    return scores.with_results(**results)


def _check_shapes(scores: Value, boxes: Value) -> bool:
    """Returns whether there are several classes. Raises Unfit if the values cannot be scores and boxes."""
    message = f"{boxes.tensor.name} is {boxes.description}"
    _require_boxes(boxes, scores)
    if scores.shape is None or len(scores.shape) not in (len(boxes.dims) - 1, len(boxes.dims)):
        raise Unfit(
            "scores must be one for each box, or one for each box and class, "
            f"but they are {scores.description}; {message}"
        )
    if not compatible(scores.shape[: len(boxes.dims) - 1], boxes.dims[:-1]):
        raise Unfit(f"the scores and the boxes have different counts: the scores are {scores.description}; {message}")
    return len(scores.shape) == len(boxes.dims)


def _require_boxes(boxes: Value, other: Value) -> None:
    """Raises Unfit if `boxes` are not boxes, or if they or the `other` numbers for them are not float32."""
    for each in (boxes, other):
        if each.dtype != FLOAT32:
            raise Unfit(f"requires float32, but {each.tensor.name} is {each.description}")
    if boxes.rank not in (2, 3) or boxes.dims[-1] not in (4, -1):
        raise Unfit(f"boxes must be [boxes,4] or [images,boxes,4], but {boxes.tensor.name} is {boxes.description}")


Limits: TypeAlias = tuple[int, float, float]
"""The maximum number of boxes, the largest overlap, and the smallest score."""
Found: TypeAlias = tuple[Output, Output, Output | None, Output]
"""The kept boxes, their scores, their classes (None if there is only one class), and their count."""


def _each_class(build: Builder, boxes: Value, scores: Value, limits: Limits, is_batch: bool) -> Found:
    """Uses CombinedNonMaxSuppression, which processes batches; all classes share the boxes."""
    most, iou, score = limits
    if not is_batch:
        boxes, scores = build.with_batch(boxes), build.with_batch(scores)
    inputs: list[Input] = [build.add("ExpandDims", boxes.tensor, 2), scores.tensor, most, most, iou, score]
    found = build.node("CombinedNonMaxSuppression", inputs, {"clip_boxes": False}).outputs
    if not is_batch:
        found = [build.add("Squeeze", tensor, squeeze_dims=[0]) for tensor in found]
    return found[0], found[1], build.add("Cast", found[2], DstT=INT32), found[3]


def _all_classes(build: Builder, boxes: Value, scores: Value, limits: Limits, is_batch: bool) -> Found:
    """Uses NonMaxSuppressionV4 with the best score of each box; for a batch, in a function that one node calls."""
    given = [boxes.tensor, scores.tensor]
    if scores.rank == boxes.rank:
        classes = build.add("ArgMax", scores.tensor, -1, output_type=INT64)
        given[1:] = [build.add("Max", scores.tensor, (-1,)), build.add("Cast", classes, DstT=INT32)]
    if is_batch:
        inner = Builder(empty_graph(), "")
        items = [
            inner.placeholder(f"item{place}", DTYPES[tensor.dtype], shape)
            for place, (tensor, shape) in enumerate(zip(given, ((-1, 4), (-1,), (-1,)), strict=False))
        ]
        shapes: list[Shape] = [(limits[0], 4), (limits[0],), (limits[0],)]
        shapes[len(given) :] = [()]
        rows = _one_image(inner, items, limits)
        results = [Value(each, DTYPES[each.dtype], shape) for each, shape in zip(rows, shapes, strict=True)]
        found = build.mapped(inner, items, results, given)
    else:
        found = _one_image(build, given, limits)
    return found[0], found[1], found[2] if len(given) > 2 else None, found[-1]


def _one_image(build: Builder, given: list[Output], limits: Limits) -> list[Output]:
    """Selects rows of `given`, which are boxes, scores and possibly classes; zeros follow.

    Returns the rows, and their number.
    """
    places, count = build.node("NonMaxSuppressionV4", [*given[:2], *limits], {"pad_to_max_output_size": True}).outputs
    is_kept = build.add("Less", build.add("Range", 0, limits[0], 1), count)
    out: list[Output] = []
    for tensor, rank in zip(given, (2, 1, 1), strict=False):
        # A padding row exists even if there are no boxes.
        padded = build.add("Pad", tensor, [(0, 1), *[(0, 0)] * (rank - 1)])
        rows = build.add("GatherV2", padded, places, 0)
        out.append(build.add("Select", is_kept, rows, build.add("ZerosLike", rows)))
    return [*out, count]


_OFFSETS = {"yxyx": (0, 1, 0, 1), "xyxy": (1, 0, 1, 0), "cxcywh": (1, 0, 4, 4)}
_FACTORS = {"yxyx": (2, 3, 2, 3), "xyxy": (3, 2, 3, 2), "cxcywh": (3, 2, 3, 2)}
"""For each number of a box, the number of the placement: top, left, factors of height and width, or 0."""


@step("from-letterbox", side=AFTER, example="from-letterbox(placed, layout=yxyx)")
def from_letterbox(
    build: Builder, value: Value, *, placement: Text, layout: Annotated[str, choice(*_OFFSETS)]
) -> Value:
    """Convert boxes in a letterbox to boxes in the original image.

    Computes (box - offset) / factor in float32, as NumPy does. The current value holds the boxes, [boxes,4] of one
    image or [images,boxes,4], in pixels of the model's input; use rescale for boxes of 0..1. The result is in
    pixels of the original image. If nms follows, it needs a separate command, or a separate line of a script.

    Args:
        placement: the output made by letterbox(placement=NAME)
        layout: the order of the four numbers of a box
    """
    placed = build.other(placement)
    message = f"{printable(placement)} is {placed.description}"
    _require_boxes(value, placed)
    if placed.shape is None or len(placed.shape) not in (1, 2) or placed.shape[-1] not in (4, -1):
        raise Unfit(f"a placement must be [4] or [images,4], but {message}")
    if len(placed.shape) == 2 and (value.rank == 2 or not compatible(placed.shape[:1], value.dims[:1])):
        raise Unfit(
            f"the boxes and the placement are not of the same images: the boxes are {value.description}; {message}"
        )
    last = len(placed.shape) - 1
    numbers = build.add("Pad", placed.tensor, [*[(0, 0)] * last, (0, 1)])
    offsets, factors = (
        build.add("ExpandDims", build.add("GatherV2", numbers, places[layout], last), last)
        for places in (_OFFSETS, _FACTORS)
    )
    tensor = build.add("RealDiv", build.add("Sub", value.tensor, offsets), factors)
    return value.fresh(tensor, FLOAT32, value.shape)
