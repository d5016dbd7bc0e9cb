"""Steps that choose boxes, and letterboxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from support.behind import behind, results
from support.graphs import Builder, add, const, node, placeholder, typed
from support.running import run
from support.stepping import Array, execute, model, png, refusal

import gdsurgeon as gds
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.steps import preprocessing

F32 = np.float32


class Case(NamedTuple):
    """What nms is asked for."""

    images: int  # -1: not a batch
    boxes: int
    classes: int  # -1: scores without a dimension of classes
    most: int
    iou: float
    score: float | None
    layout: str
    per_class: bool
    background: bool = False


def overlap(a: Array, b: Array) -> float:
    """Intersection over union of two boxes by their corners."""
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    both = np.prod(np.maximum(high - low, F32(0)))
    union = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both
    return float(both / union) if union > 0 else 0.0


def kept(boxes: Array, scores: Array, case: Case) -> list[int]:
    """The places of the boxes that stay, best first."""
    out: list[int] = []
    for place in np.argsort(-scores, kind="stable").tolist():
        if case.score is not None and not scores[place] > F32(case.score):
            continue
        if len(out) < case.most and all(overlap(boxes[place], boxes[other]) <= case.iou for other in out):
            out.append(place)
    return out


def corners(boxes: Array, layout: str) -> Array:
    if layout != "cxcywh":
        return boxes
    half = boxes[..., 2:] * F32(0.5)
    return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)


def one_image(boxes: Array, scores: Array, case: Case) -> tuple[Array, Array, Array, int]:
    """Returns the expected results for one image, padded with zeros."""
    if case.per_class and case.classes >= 0:
        found = [(scores[p, c], c, p) for c in range(case.classes) for p in kept(boxes, scores[:, c], case)]
        found.sort(key=lambda item: -item[0])
    else:
        best = scores.max(-1) if case.classes >= 0 else scores
        which = scores.argmax(-1) if case.classes >= 0 else np.zeros(len(scores), int)
        found = [(best[p], which[p], p) for p in kept(boxes, best, case)]
    found = found[: case.most]
    out = np.zeros((case.most, 4), F32), np.zeros(case.most, F32), np.zeros(case.most, np.int32)
    for row, (score, label, place) in enumerate(found):
        out[0][row], out[1][row], out[2][row] = boxes[place], score, label
    return (*out, len(found))


def random_boxes(random: np.random.Generator, case: Case) -> tuple[Array, Array]:
    """Returns boxes that sometimes overlap, and scores that are all different."""
    images = (case.images,) if case.images >= 0 else ()
    low = random.random((*images, case.boxes, 2))
    size = random.random((*images, case.boxes, 2)) * 0.5
    pair = (low + size / 2, size) if case.layout == "cxcywh" else (low, low + size)
    shape = (*images, case.boxes, *((case.classes,) if case.classes >= 0 else ()))
    scores = random.permutation(int(np.prod(shape))).reshape(shape) / max(np.prod(shape), 1)
    return np.concatenate(pair, -1).astype(F32), scores.astype(F32)


def check(case: Case, seed: int) -> None:
    boxes, scores = random_boxes(np.random.default_rng(seed), case)
    said = f"boxes, {case.layout}, most={case.most}, iou={case.iou}, per-class={str(case.per_class).lower()}"
    said += f", score={case.score}" if case.score is not None else ""
    said += ", background=true" if case.background else ""
    shapes = [(-1, *array.shape[1:]) for array in (scores, boxes)]
    graph = behind(f"nms({said})", "float32", shapes[0], shapes[1])
    found = results(graph, {"y": scores, "boxes": boxes})
    ends = corners(boxes, case.layout)
    if case.background:
        scores, case = scores[..., 1:], case._replace(classes=case.classes - 1)
    images = [one_image(*item, case) for item in zip(ends, scores, strict=True)] if case.images >= 0 else []
    empty = [np.zeros((0, case.most, 4)), np.zeros((0, case.most)), np.zeros((0, case.most)), np.zeros(0)]
    batch = [np.stack(part) for part in zip(*images, strict=True)] if images else empty
    wanted = batch if case.images >= 0 else one_image(ends, scores, case)
    names = ("boxes_postprocessed", "y_postprocessed", "y_classes", "y_count")
    for name, value in zip(names, wanted, strict=True):
        if name != "y_classes" or case.classes >= 0:
            assert found.pop(name).tolist() == np.asarray(value).tolist(), (case, name)
    assert not found


def cases() -> list[Case]:
    """Every kind of each, in a random order, with what else belongs to it."""
    random = np.random.default_rng(7)
    out = []
    for images in (-1, 0, 1, 3):
        for classes in (-1, 1, 4):
            for layout in ("yxyx", "xyxy", "cxcywh"):
                for per_class in (True, False):
                    most, boxes = int(random.integers(1, 12)), int(random.integers(1, 30))
                    score = None if random.random() < 0.3 else round(float(random.random()), 2)
                    iou = float(random.choice([0, 0.25, 0.5, 1]))
                    background = classes > 1 and bool(random.random() < 0.5)
                    out.append(Case(images, boxes, classes, most, iou, score, layout, per_class, background))
    return out


@pytest.mark.tensorflow
@pytest.mark.parametrize("per_class", [True, False])
def test_the_boxes_that_a_plain_loop_keeps(per_class: bool) -> None:
    for seed, case in enumerate(case for case in cases() if case.per_class == per_class):
        check(case, seed)


@pytest.mark.tensorflow
def test_no_box_at_all() -> None:
    for per_class in (True, False):
        check(Case(2, 0, 3, 5, 0.5, 0.1, "yxyx", per_class), 0)
    check(Case(-1, 0, -1, 5, 0.5, 0.1, "yxyx", True), 0)


@pytest.mark.tensorflow
def test_labels_are_of_the_classes_and_results_have_names() -> None:
    case = Case(1, 20, 3, 6, 0.5, 0.95, "yxyx", True)
    boxes, scores = random_boxes(np.random.default_rng(0), case)

    def found_by(steps: str) -> dict[str, Array]:
        return results(behind(steps, "float32", (-1, 20, 3), (-1, 20, 4)), {"y": scores, "boxes": boxes})

    steps = "nms(boxes, yxyx, most=6, score=0.95)"
    plain = found_by(steps)
    steps += " | labels(names=[a, b, c])"
    count = int(plain["y_count"][0])
    assert 0 < count < 6
    wanted = [b"abc"[number : number + 1] for number in plain["y_classes"][0][:count]] + [b""] * (6 - count)
    assert found_by(steps)["y_classes"].tolist() == [wanted]
    one = results(behind(steps, "float32", (20, 3), (20, 4)), {"y": scores[0], "boxes": boxes[0]})
    assert one["y_classes"].tolist() == wanted
    found = found_by(f"{steps} | rename(s, boxes=where, classes=what, count=none)")
    del found["what"]
    assert {name: value.tolist() for name, value in found.items()} == {
        "boxes_postprocessed": boxes.tolist(), "y_postprocessed": scores.tolist(),
        "where": plain["boxes_postprocessed"].tolist(), "s": plain["y_postprocessed"].tolist(),
    }  # fmt: skip


SIDES = ((40, 20), (20, 40), (5, 7), (33, 33))
STEPS = "letterbox(64, 48, like=opencv, placement=placed)"


def placement(height: int, width: int) -> Array:
    """As YOLOv5 places an image of that size in 64 x 48."""
    factor = min(64 / height, 48 / width)
    inner = round(height * factor), round(width * factor)
    begin = (64 - inner[0]) // 2, (48 - inner[1]) // 2
    return np.float32([*begin, np.float32(inner[0]) / np.float32(height), np.float32(inner[1]) / np.float32(width)])


def picture(height: int, width: int) -> Array:
    """Dark, so that what is filled shows."""
    return np.random.default_rng(height).integers(0, 50, (height, width, 3)).astype(np.uint8)


@pytest.mark.tensorflow
def test_the_placement_of_each_image_of_a_batch() -> None:
    images = [picture(*sides) for sides in SIDES]
    graph = preprocessing(f"decode-image | {STEPS}", model("uint8", (-1, 64, 48, 3)))
    placed = execute(graph, list(map(png, images)), "placed")
    assert placed.tolist() == [placement(*sides).tolist() for sides in SIDES]
    for found, place in zip(execute(graph, list(map(png, images))), placed, strict=True):
        rows, columns = (np.flatnonzero((found[..., 0] < 114).any(axis)) for axis in (1, 0))
        assert (rows[0], columns[0]) == (place[0], place[1])
    assert execute(graph, np.zeros(0, object), "placed").shape == (0, 4)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("raw", "shape", "wanted"),
    [
        ("uint8[?,?,3]", (-1, 64, 48, 3), (1, 4)),  # one image, in front of a model that takes batches
        ("uint8[?,?,3]", (64, 48, 3), (4,)),
        ("uint8[40,20,3]", (64, 48, 3), (4,)),
        ("uint8[?,?,?,3]", (-1, 64, 48, 3), (3, 4)),
    ],
)
def test_of_one_image_and_of_images_of_one_size(raw: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    graph = preprocessing(STEPS, model("uint8", shape), raw=raw)
    image = picture(40, 20)
    found = execute(graph, np.stack([image] * 3) if raw.count("?") == 3 else image, "placed")
    assert found.shape == wanted and (found == placement(40, 20)).all()


def test_a_name_that_cannot_be_and_two_letterboxes() -> None:
    for steps, said in (
        (STEPS.replace("placed", "y"), "letterbox: model.pb already has 'y'"),
        (STEPS.replace("placed", "'a b'"), "letterbox: 'a b' is not a legal node name"),
        (f"{STEPS} | {STEPS}", "letterbox (step 2): the placement of a different letterbox exists already"),
    ):
        assert refusal(steps, "uint8", (-1, 64, 48, 3)).startswith(said)


CORNERS = np.float32([[[3, 5, 40, 20], [0, 0, 64, 48]], [[10, 11, 12, 13], [-4, 7, 90, 100.5]]])
PLACES = np.stack([placement(40, 20), placement(20, 40)])


def back(boxes: Array, place: Array, layout: str) -> Array:
    top, left, high, wide = place
    zero = np.float32(0)
    if layout == "yxyx":
        return (boxes - np.stack([top, left, top, left])) / np.stack([high, wide, high, wide])
    sizes = np.stack([wide, high, wide, high])
    offsets = np.stack([left, top, left, top] if layout == "xyxy" else [left, top, zero, zero])
    return (boxes - offsets) / sizes


@pytest.mark.tensorflow
@pytest.mark.parametrize("layout", ["yxyx", "xyxy", "cxcywh"])
@pytest.mark.parametrize("is_open", [False, True])
def test_boxes_come_back(layout: str, is_open: bool) -> None:
    shape, placed = ((-1, -1, 4), (-1, 4)) if is_open else (CORNERS.shape, PLACES.shape)
    graph = behind(f"from-letterbox(boxes, {layout})", "float32", shape, placed)
    found = results(graph, {"y": CORNERS, "boxes": PLACES})
    wanted = np.stack([back(boxes, place, layout) for boxes, place in zip(CORNERS, PLACES, strict=True)])
    assert found["y_postprocessed"].tolist() == wanted.tolist()
    assert found["boxes_postprocessed"].tolist() == PLACES.tolist()
    one = behind(f"from-letterbox(boxes, {layout})", "float32", CORNERS.shape[1:], (4,))
    assert results(one, {"y": CORNERS[0], "boxes": PLACES[0]})["y_postprocessed"].tolist() == wanted[0].tolist()


def detector() -> Builder:
    """A model whose one box is always the same."""
    return Builder(
        placeholder("image", "uint8", (-1, 64, 48, 3)), const("axes", [1, 2, 3], "int32"),
        node("floats", "Cast", ["image"], SrcT="uint8", DstT="float32"),
        typed("Sum", "sum", "floats", "axes", Tidx="int32"), typed("ZerosLike", "none", "sum"),
        const("row", [-1, 1, 1], "int32"), typed("Reshape", "rows", "none", "row", Tshape="int32"),
        const("box", [[[0.0, 8.0, 64.0, 40.0]]]), add("boxes", "rows", "box"),
    )  # fmt: skip


@pytest.mark.tensorflow
def test_at_both_ends_of_a_model() -> None:
    """The box lies where the letterbox puts an image of 40 x 20: it comes back as the whole of that."""
    made = gds.apply(
        detector().graph("model.pb"),
        [
            lambda g: gds.add_preprocessing(g, preprocessing(f"decode-image | {STEPS}", g)),
            lambda g: gds.add_postprocessing(
                g, gds.steps.postprocessing("from-letterbox(placed, yxyx)", g, output="boxes")
            ),
        ],
    )
    given = from_numpy(np.array([png(picture(40, 20))], object))
    with run.session(made.graph) as (executor, key):
        executor.wait(executor._worker.run(key, "out", {"image": given}, ["boxes"], []))
        assert executor.tensor("out", 0).numpy().tolist() == [[[0, 0, 40, 20]]]
    assert gds.prove(made.steps[0].before, made.graph, made).samples == 2
