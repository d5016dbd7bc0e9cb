"""Steps for detectors: of boxes over each other the best one is kept, and boxes come back from a letterbox."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.edits.functions import make_function, name_function
from gdsurgeon.errors import printable
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.graph import graph_of
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import FLOAT32, INT32, INT64
from gdsurgeon.steps.builder import Builder, empty_graph
from gdsurgeon.steps.kinds import FLAG, NUMBER, TEXT, Kind, choice, whole
from gdsurgeon.steps.parse import Literal
from gdsurgeon.steps.step import BEHIND, Parameter, step
from gdsurgeon.steps.value import CLASSES, Result, Unfit, Value

BOXES = "boxes"


def _overlap(literal: Literal) -> object:
    number = NUMBER.read(literal)
    if not isinstance(number, float) or not 0 <= number <= 1:
        raise ValueError
    return number


class Limits(NamedTuple):
    """What is kept: at most so many boxes; of two that overlap by more than `iou` one; none of a lower score."""

    most: int
    iou: float
    score: float


@step(
    "nms",
    "Of overlapping boxes, keep only the one with the best score (non-maximum suppression).",
    Parameter("boxes", TEXT, "the output of the model that holds the boxes"),
    Parameter("layout", choice("yxyx", "xyxy", "cxcywh"), "the order of the four numbers of a box"),
    Parameter("most", whole(1), "the maximum number of boxes per image", 100),
    Parameter(
        "iou",
        Kind("a number from 0 to 1", _overlap),
        "the overlap above which the box with the lower score is removed",
        0.5,
    ),
    Parameter("score", NUMBER, "boxes with a score not above this are removed; by default none", None),
    Parameter(
        "background",
        FLAG,
        "whether class 0 is the background and left out; the other classes are then counted from 0",
        False,
    ),
    Parameter("per-class", FLAG, "whether boxes suppress only boxes of the same class", True),
    sides=(BEHIND,),
    example="nms(boxes=detection_boxes, layout=yxyx, most=20, iou=0.5, score=0.3)",
    explanation="The current value holds the scores, [boxes] of one class or [boxes,classes]. The boxes are "
    "[boxes,4]. Both may have a leading dimension of images. Boxes and scores replace the two "
    "outputs. They are sorted by score and padded with zeros up to the maximum number. "
    "OUTPUT_count is the number of boxes, OUTPUT_classes their classes. per-class=true uses the "
    "op CombinedNonMaxSuppression: a box is kept once for each class whose score is high enough. "
    "per-class=false uses the best class of each box, and boxes of all classes compete "
    "(NonMaxSuppressionV4). TensorFlow 1.15 has both ops. yxyx and xyxy are corners; the result "
    "has the same layout. cxcywh is center and size; the result is xyxy. The result is the same "
    "as that of a plain NumPy loop that removes each box whose overlap with a kept box is more "
    "than iou. Of equal scores, the first is better.",
)
def nms(
    build: Builder,
    value: Value,
    *,
    boxes: str,
    layout: str,
    most: int,
    iou: float,
    score: float | None,
    background: bool,
    per_class: bool,
) -> Value:
    if build.other is None:
        raise Unfit("requires two outputs of a model, so it must be added after a model")
    if BOXES in value.results:
        raise Unfit("the boxes are already selected")
    corners = build.other(boxes)
    has_classes = _check_shapes(value, corners)
    if background:
        value = _without_background(build, value, has_classes)
    is_batch = corners.rank == 3
    if layout == "cxcywh":
        corners = _corners(build, corners)
    limits = Limits(most, iou, -3e38 if score is None else score)
    if has_classes and per_class:
        found = _each_class(build, corners, value, limits, is_batch)
    else:
        found = _all_classes(build, corners, value, limits, is_batch)
    images: tuple[int, ...] = (corners.shape[0],) if is_batch and corners.shape is not None else ()
    count = value.shape[-1] if value.shape is not None else -1
    low, high = min(value.low, 0.0), max(value.high, 0.0)
    scores = value.but(tensor=found.scores, shape=(*images, most), layout="", low=low, high=high)
    results = {BOXES: Result(corners.anew(found.boxes, FLOAT32, (*images, most, 4)), place=boxes)}
    if found.classes is not None:
        classes = value.anew(found.classes, INT32, (*images, most)).but(results={}, name="")
        last = float(count - 1) if count > 0 else inf
        results[CLASSES] = Result(classes.but(low=0.0, high=last).being(CLASSES))
    results["count"] = Result(value.anew(found.number, INT32, images).but(low=0.0, high=float(most)))
    return scores.but(results={**value.results, **results})


def _check_shapes(scores: Value, boxes: Value) -> bool:
    """Whether there are scores of several classes. Raises Unfit where the two cannot be scores and boxes."""
    told = f"{boxes.tensor.name} is {boxes.told}"
    if scores.dtype != FLOAT32 or boxes.dtype != FLOAT32:
        raise Unfit(f"requires float32, but the scores are {scores.told}; {told}")
    if boxes.shape is None or len(boxes.shape) not in (2, 3) or boxes.shape[-1] not in (4, -1):
        raise Unfit(f"boxes must be [boxes,4] or [images,boxes,4], but {told}")
    if scores.shape is None or len(scores.shape) not in (len(boxes.shape) - 1, len(boxes.shape)):
        raise Unfit(
            f"scores must be one for each box, or one for each box and class, but they are {scores.told}; {told}"
        )
    both = list(zip(scores.shape, boxes.shape[:-1], strict=False))
    if any(a != b and min(a, b) >= 0 for a, b in both):
        raise Unfit(f"the scores and the boxes have different counts: the scores are {scores.told}; {told}")
    return len(scores.shape) == len(boxes.shape)


def _without_background(build: Builder, scores: Value, has_classes: bool) -> Value:
    """SCORES of all classes but the first. Raises Unfit where there are no others."""
    assert scores.shape is not None
    if not has_classes or scores.shape[-1] in (0, 1):
        raise Unfit(f"background=true leaves out the only class: {scores.told}")
    start = [0] * (len(scores.shape) - 1)
    tensor = build.add("Slice", scores.tensor, build.axes(*start, 1), build.axes(*(-1 for _ in scores.shape)))
    return scores.but(tensor=tensor, shape=(*scores.shape[:-1], scores.shape[-1] - (scores.shape[-1] > 0)))


def _corners(build: Builder, boxes: Value) -> Value:
    """Corners of centres and sizes."""
    assert boxes.shape is not None
    last = build.constant(INT32, len(boxes.shape) - 1)
    centre, size = build.node("Split", [last, boxes.tensor], {"num_split": 2}).outputs
    half = build.add("Mul", size, build.constant(FLOAT32, 0.5))
    ends = build.add("Sub", centre, half), build.add("AddV2", centre, half)
    return boxes.but(tensor=build.add("ConcatV2", *ends, last))


class Found(NamedTuple):
    """Tensors: the kept boxes, and their count; classes are None if there is only one class."""

    boxes: Output
    scores: Output
    classes: Output | None
    number: Output


def _each_class(build: Builder, boxes: Value, scores: Value, limits: Limits, is_batch: bool) -> Found:
    """CombinedNonMaxSuppression, which works on batches of boxes that all classes share."""
    rows, table = boxes.tensor, scores.tensor
    if not is_batch:
        rows, table = (build.add("ExpandDims", tensor, build.constant(INT32, 0)) for tensor in (rows, table))
    shared = build.add("ExpandDims", rows, build.constant(INT32, 2))
    numbers = [build.constant(INT32, limits.most), build.constant(INT32, limits.most)]
    numbers += [build.constant(FLOAT32, limits.iou), build.constant(FLOAT32, limits.score)]
    node = build.node("CombinedNonMaxSuppression", [shared, table, *numbers], {"clip_boxes": False})
    found = node.outputs
    if not is_batch:
        found = [build.add("Squeeze", tensor, squeeze_dims=[0]) for tensor in found]
    return Found(found[0], found[1], build.add("Cast", found[2], DstT=INT32), found[3])


def _all_classes(build: Builder, boxes: Value, scores: Value, limits: Limits, is_batch: bool) -> Found:
    """NonMaxSuppressionV4 with the best score of each box, for each image of a batch."""
    best, classes = scores.tensor, None
    if scores.rank == boxes.rank:
        best = build.add("Max", scores.tensor, build.axes(-1))
        classes = build.add("ArgMax", scores.tensor, build.constant(INT32, -1), output_type=INT64)
        classes = build.add("Cast", classes, DstT=INT32)
    given = [boxes.tensor, best] if classes is None else [boxes.tensor, best, classes]
    found = _image_by_image(build, given, limits) if is_batch else _one_image(build, given, limits)
    return Found(found[0], found[1], found[2] if classes is not None else None, found[-1])


def _one_image(build: Builder, given: list[Output], limits: Limits) -> list[Output]:
    """What is kept of the rows of boxes, scores and what else is GIVEN, zeros behind it; and how many rows that is."""
    numbers = [build.constant(INT32, limits.most)]
    numbers += [build.constant(FLOAT32, number) for number in (limits.iou, limits.score)]
    node = build.node("NonMaxSuppressionV4", [*given[:2], *numbers], {"pad_to_max_output_size": True})
    places, count = node.outputs
    ranks = [build.constant(INT32, number) for number in (0, limits.most, 1)]
    is_kept = build.add("Less", build.add("Range", *ranks), count)
    out: list[Output] = []
    for tensor, rank in zip(given, (2, 1, 1), strict=False):
        ends = build.constant(INT32, [0, 1] + [0, 0] * (rank - 1), (rank, 2))
        padded = build.add("Pad", tensor, ends)  # where there are no rows, there is one that can be read
        rows = build.add("GatherV2", padded, places, build.constant(INT32, 0))
        out.append(build.add("Select", is_kept, rows, build.add("ZerosLike", rows)))
    return [*out, count]


def _image_by_image(build: Builder, given: list[Output], limits: Limits) -> list[Output]:
    """The same of each image of a batch: one function, and one node that calls it."""
    inner = Builder(empty_graph(), "")
    shapes: list[Shape] = [(-1, 4), (-1,), (-1,)]
    items = [
        inner.node("Placeholder", (), {"dtype": tensor.dtype, "shape": shape}, f"item{place}").output
        for place, (tensor, shape) in enumerate(zip(given, shapes, strict=False))
    ]
    found = _one_image(inner, items, limits)
    nodes = [node for node in graph_of(found[0]).nodes() if node.op != "Placeholder"]
    function = make_function(nodes, items, found, attrs={})
    name_function(function, f"{build.scope}/{build.step}")
    build.graph.functions.add(function)
    made: list[Shape] = [(limits.most, 4), (limits.most,), (limits.most,)]
    node = build.node(
        "MapDefun",
        given,
        {
            "Targuments": [tensor.dtype for tensor in given],
            "Tcaptured": [],
            "output_types": [tensor.dtype for tensor in found],
            "output_shapes": [*made[: len(given)], ()],
            "f": function.signature.name,
        },
    )
    return list(node.outputs)


_OFFSETS = {"yxyx": (0, 1, 0, 1), "xyxy": (1, 0, 1, 0), "cxcywh": (1, 0, 4, 4)}
_FACTORS = {"yxyx": (2, 3, 2, 3), "xyxy": (3, 2, 3, 2), "cxcywh": (3, 2, 3, 2)}
"""For each number of a box what belongs to it of top, left, the factors of height and width, and 0."""


@step(
    "from-letterbox",
    "Convert boxes in a letterbox to boxes in the original image.",
    Parameter("placement", TEXT, "the output made by letterbox(placement=NAME)"),
    Parameter("layout", choice(*_OFFSETS), "the order of the four numbers of a box"),
    sides=(BEHIND,),
    example="from-letterbox(placed, layout=yxyx)",
    explanation="Computes (box - offset) / factor in float32, as NumPy does. The current value holds the "
    "boxes, [boxes,4] of one image or [images,boxes,4], in pixels of the model's input; use "
    "rescale for boxes of 0..1. The result is in pixels of the original image. If nms follows, "
    "it needs a separate command, or a separate line of a script.",
)
def from_letterbox(build: Builder, value: Value, *, placement: str, layout: str) -> Value:
    if build.other is None:
        raise Unfit("requires two outputs of a model, so it must be added after a model")
    placed = build.other(placement)
    told = f"{printable(placement)} is {placed.told}"
    if value.dtype != FLOAT32 or placed.dtype != FLOAT32:
        raise Unfit(f"requires float32, but the boxes are {value.told}; {told}")
    if value.shape is None or len(value.shape) not in (2, 3) or value.shape[-1] not in (4, -1):
        raise Unfit(f"boxes must be [boxes,4] or [images,boxes,4], got {value.told}")
    if placed.shape is None or len(placed.shape) not in (1, 2) or placed.shape[-1] not in (4, -1):
        raise Unfit(f"a placement must be [4] or [images,4], but {told}")
    if len(placed.shape) == 2 and (len(value.shape) == 2 or not compatible(placed.shape[:1], value.shape[:1])):
        raise Unfit(f"the boxes and the placement are not of the same images: the boxes are {value.told}; {told}")
    last = len(placed.shape) - 1
    ends = build.constant(INT32, [0, 0] * last + [0, 1], (last + 1, 2))
    numbers = build.add("Pad", placed.tensor, ends)
    offsets, factors = (
        build.add(
            "ExpandDims",
            build.add("GatherV2", numbers, build.axes(*places[layout]), build.constant(INT32, last)),
            build.constant(INT32, last),
        )
        for places in (_OFFSETS, _FACTORS)
    )
    tensor = build.add("RealDiv", build.add("Sub", value.tensor, offsets), factors)
    return value.anew(tensor, FLOAT32, value.shape)
