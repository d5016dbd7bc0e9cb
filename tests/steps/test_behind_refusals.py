"""What is refused behind a model, in a line that names the step; and what is not; and the ops that are used."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.behind import Shape, behind, model, refusal
from support.graphs import Builder
from support.stepping import ops

import gdsurgeon as gds
from gdsurgeon.errors import EditError, InputError
from gdsurgeon.graph.constants import constant
from gdsurgeon.ops.releases import release
from gdsurgeon.steps import inserted, preprocessing
from gdsurgeon.steps.book import files_read, written

SCORES: dict[str, str] = {
    "log-softmax | softmax": "softmax: gets logarithms of probabilities already",
    "argmax | sigmoid": "sigmoid: takes scores, and gets classes",
    "argmax | argmax": "argmax (step 2): takes scores, and gets classes",
    "top-k(3) | threshold(2)": "threshold: takes scores, and gets classes: it belongs before",
    "top-k(11)": "top-k: 11 of 10 values are wanted: float32 [?,10]",
    "argmax(2)": "argmax: there is no axis 2: there are 2 dimensions",
    "softmax | threshold(0)": "threshold: all of the values reach 0: they are 0..1",
    "cast(int32) | threshold(0.5)": "threshold: 0.5 is no int32",
    "labels(names=[a, b])": "labels: takes classes, which are whole numbers, and gets float32 [?,10]: argmax, top-k or "
                            "cast(int32) comes before",
    "argmax | labels": "labels: takes file=FILE or names=[...]: one of the two",
    "argmax | labels(names=[])": "labels: names is [], and takes a list of texts",
    "dequantize(0.5)": "dequantize: takes integers, and gets float32 [?,10]",
    "cast(uint8) | dequantize(0.5, zero-point=-1)": "dequantize: zero-point -1 is no uint8",
    "cast(uint8) | dequantize([1, 2])": "dequantize: scale is for 2 channels, and the value has 10: float32 [?,10]",
    "denormalize": "denormalize: takes mean and std, or like=keras-caffe|keras-tf|keras-torch",
    "denormalize(mean=1, like=keras-tf)": "denormalize: like=keras-tf says what mean and std are",
    "denormalize(mean=[1, 2])": "denormalize: mean is for 2 channels, and the value has 10",
    "cast(uint8) | denormalize(std=2)": "denormalize: gets pixels already: uint8 [?,10] is 0..255",
    "rename": "rename: says no name",
    "rename(none)": "rename: what comes in is what the steps give: it is an output",
    "rename(scores=s)": "rename: there are no scores besides what comes in",
    "top-k(2) | rename(a, scores=a)": "rename: two results are called 'a'",
    "rename(y_raw)": "rename: model.pb has 'y_raw' already",
    "nms(y, yxyx)": "nms: 'y' is what the steps stand behind",
    "nms(boxes, xywh)":
        "nms: layout is 'xywh', and takes one of yxyx, xyxy, cxcywh. It is cxcywh where x and y are the centre; boxes "
        "by a corner and their size have no layout here.",
    "nms(boxes, yxyx, iou=2)": "nms: iou is 2, and takes a number from 0 to 1",
    "cast(int32) | from-letterbox(boxes, xyxy)": "from-letterbox: takes float32, and the boxes are int32 [?,10]; boxes "
                                                 "is float32 [?,5]",
}  # fmt: skip


@pytest.mark.parametrize("steps", SCORES)
def test_what_is_known_to_be_wrong_is_refused(steps: str) -> None:
    assert refusal(steps, boxes=(-1, 5)).startswith(SCORES[steps])


OTHERS: dict[tuple[str, str, Shape, str], str] = {
    ("softmax", "float32", (), "Identity"): "softmax: takes scores along a dimension, and gets float32 []",
    ("argmax", "float32", (-1, 0), "Identity"): "argmax: there are no classes: float32 [?,0]",
}


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_of_what_the_model_gives(case: tuple[str, str, Shape, str]) -> None:
    steps, dtype, shape, op = case
    assert refusal(steps, dtype, shape, op=op).startswith(OTHERS[case])


PLACED: dict[tuple[Shape, Shape], str] = {
    ((7, 4), (5,)): "a placement is [4], or [images,4], and boxes is float32 [5]",
    ((7, 4), (2, 3, 4)): "a placement is [4], or [images,4], and boxes is float32 [2,3,4]",
    ((7, 4), (7, 4)): "the boxes are float32 [7,4], and boxes is float32 [7,4]: they are not of the same images",
    ((3, 7, 4), (2, 4)): "the boxes are float32 [3,7,4], and boxes is float32 [2,4]: they are not of the same images",
    ((7, 5), (4,)): "boxes are [boxes,4], or [images,boxes,4], and the value is float32 [7,5]",
}


@pytest.mark.parametrize("case", PLACED, ids=str)
def test_of_boxes_and_a_placement(case: tuple[Shape, Shape]) -> None:
    assert refusal("from-letterbox(boxes, yxyx)", "float32", *case) == f"from-letterbox: {PLACED[case]}"


BOXES: dict[tuple[Shape, Shape], str] = {
    ((10,), (9, 4)): "nms: the scores are float32 [10], and boxes is float32 [9,4]: they are not of the same boxes",
    ((10, 3, 2), (10, 4)): "nms: scores are one for each box, or one for each box and class: they are float32 [10,3,2]",
    ((2,), (2, 10, 4)): "nms: scores are one for each box",
    ((10,), (10, 5)): "nms: boxes are [boxes,4]",
    ((10,), (4,)): "nms: boxes are [boxes,4]",
    (None, (10, 4)): "nms: scores are one for each box",
}


@pytest.mark.parametrize("case", BOXES, ids=str)
def test_of_scores_and_boxes(case: tuple[Shape, Shape]) -> None:
    assert refusal("nms(boxes, yxyx)", "float32", case[0], case[1]).startswith(BOXES[case])
    assert refusal("nms(boxes, yxyx)", "float64", (9,), (9, 4)).startswith("nms: takes float32, and the scores are")
    for shape in ((9,), (9, 1)):
        said = refusal("nms(boxes, yxyx, background=true)", "float32", shape, (9, 4))
        assert said.startswith("nms: background=true leaves a class out, and there are no others: float32 [9")
    twice = "nms(boxes, yxyx) | nms(boxes, yxyx)"
    assert refusal(twice, "float32", (9,), (9, 4)) == "nms (step 2): the boxes are chosen already"


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
    m = Builder()
    m.placeholder("x", "float32", (-1, 3))
    m.const("axis", axis, "int32")
    m.node("best", "ArgMax", ["x", "axis"], T="float32", Tidx="int32", output_type="int64")
    m.node("y", "Identity", ["best"], T="int64")
    graph = m.graph("model.pb")
    assert "y_postprocessed" in gds.steps.postprocessing("labels(names=[a, b, c])", graph)
    with pytest.raises(EditError, match="labels: there is 1 name, and 3 classes"):
        gds.steps.postprocessing("labels(names=[a])", graph)


def test_probabilities_in_another_shape() -> None:
    m = Builder()
    m.placeholder("x", "float32", (-1, 6))
    m.node("best", "Softmax", ["x"], T="float32")
    for name, shape in (("same", (-1, 1, 6)), ("other", (-1, 2, 3))):
        m.const(f"{name}/shape", shape, "int32")
        m.node(name, "Reshape", ["best", f"{name}/shape"], T="float32", Tshape="int32")
    m.placeholder("shape", "int32", (2,))
    m.node("unknown", "Reshape", ["same", "shape"], T="float32", Tshape="int32")
    graph = m.graph("model.pb")
    with pytest.raises(EditError, match="softmax: gets probabilities already"):
        gds.steps.postprocessing("softmax", graph, output="same")
    assert "unknown_postprocessed" in gds.steps.postprocessing("softmax", graph, output="unknown")
    assert "other_postprocessed" in gds.steps.postprocessing("softmax", graph, output="other")
    with pytest.raises(EditError, match="sigmoid: the values are 0"):
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


def test_elsewhere_results_have_no_place() -> None:
    with pytest.raises(EditError, match="the steps give scores besides: here one tensor takes the place of another"):
        inserted("top-k(10) | cast(float32)", model(), "y")
    with pytest.raises(EditError, match="nms: takes two outputs of a model: it belongs behind one"):
        inserted("nms(boxes, yxyx)", model(), "y")
    with pytest.raises(EditError, match="from-letterbox: takes two outputs of a model: it belongs behind one"):
        inserted("from-letterbox(boxes, yxyx)", model(), "y")
    with pytest.raises(EditError, match="softmax: it belongs behind a model, not in front of it"):
        preprocessing("softmax", model())


def test_names_of_classes_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "l.txt"
    path.write_bytes(b"\xef\xbb\xbfant\r\n\r\nbee, big\r\n\r\n")
    steps = written(f"argmax | labels(file='{path}', other=?)")
    assert files_read(steps) == [str(path)]
    path.unlink()  # it was read
    constants = [constant(node) for node in gds.steps.postprocessing(steps, model(), output="y").nodes()]
    assert [b"?", b"ant", b"", b"bee, big", b"?"] in [found.values for found in constants if found is not None]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a\nb\0c", "is no text: there is a byte 0 in line 2"),
        (b"a\n" * 1001, "and 10 classes: 991 names too many"),
    ],
)
def test_files_that_hold_no_names(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "l.txt"
    path.write_bytes(data)
    message = refusal(f"argmax | labels(file='{path}')")
    assert message.startswith("labels: ") and f"{path}" in message and message.endswith(said)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^labels: .*no.txt cannot be opened: no such file or directory$"):
        written(f"labels(file='{tmp_path}/no.txt')")
    with pytest.raises(InputError, match=f"^labels: {tmp_path} is a directory, not a text file$"):
        written(f"labels(file='{tmp_path}')")


def test_the_ops_of_each_way_to_choose_boxes() -> None:
    assert "CombinedNonMaxSuppression" in ops(behind("nms(boxes, yxyx)", "float32", (9, 3), (9, 4)))
    assert "NonMaxSuppressionV4" in ops(behind("nms(boxes, yxyx)", "float32", (9,), (9, 4)))
    assert "MapDefun" in ops(behind("nms(boxes, yxyx)", "float32", (-1, 9), (-1, 9, 4)))
