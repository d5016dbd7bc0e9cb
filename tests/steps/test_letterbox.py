"""A letterbox says where the image lies in it, and boxes come back to the image, against formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.behind import behind, results
from support.graphs import Builder
from support.running import run
from support.stepping import Array, execute, model, png

import gdsurgeon as gds
from gdsurgeon.errors import EditError
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.steps import preprocessing

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
    for name, said in (("y", "model.pb already has 'y'"), ("'a b'", "'a b' is not a legal node name")):
        with pytest.raises(EditError) as error:
            preprocessing(STEPS.replace("placed", name), model("uint8", (-1, 64, 48, 3)))
        assert error.value.message.startswith(f"letterbox: {said}")
    with pytest.raises(
        EditError, match=r"^preprocessing: letterbox \(step 2\): the placement of a different letterbox exists already$"
    ):
        preprocessing(f"{STEPS} | {STEPS}", model("uint8", (-1, 64, 48, 3)))


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
    m = Builder()
    m.placeholder("image", "uint8", (-1, 64, 48, 3))
    m.const("axes", [1, 2, 3], "int32")
    m.node("floats", "Cast", ["image"], SrcT="uint8", DstT="float32")
    m.node("sum", "Sum", ["floats", "axes"], T="float32", Tidx="int32")
    m.node("none", "ZerosLike", ["sum"], T="float32")
    m.const("row", [-1, 1, 1], "int32")
    m.node("rows", "Reshape", ["none", "row"], T="float32", Tshape="int32")
    m.const("box", [[[0.0, 8.0, 64.0, 40.0]]])
    m.node("boxes", "AddV2", ["rows", "box"], T="float32")
    return m


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
        executor._wait(executor._worker.run(key, "out", {"image": given}, ["boxes"], []))
        assert executor.tensor("out", 0).numpy().tolist() == [[[0, 0, 40, 20]]]
    assert gds.prove(made.steps[0].before, made.graph, made).samples == 2
