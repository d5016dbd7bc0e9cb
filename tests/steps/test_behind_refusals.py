"""Steps after a model: refused uses, with a line that names the step; accepted uses; and the ops of the graphs."""

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
from gdsurgeon.steps.catalog import files_read, read_steps

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
    "cast(int32) | from-letterbox(boxes, xyxy)": "from-letterbox: requires float32, but the boxes are int32",
}  # fmt: skip


@pytest.mark.parametrize("steps", SCORES)
def test_what_is_known_to_be_wrong_is_refused(steps: str) -> None:
    assert refusal(steps, boxes=(-1, 5)).startswith(SCORES[steps])


OTHERS: dict[tuple[str, str, Shape, str], str] = {
    ("softmax", "float32", (), "Identity"): "softmax: requires scores along a dimension, got float32 []",
    ("argmax", "float32", (-1, 0), "Identity"): "argmax: the value has no classes: float32 [?,0]",
}


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_of_what_the_model_gives(case: tuple[str, str, Shape, str]) -> None:
    steps, dtype, shape, op = case
    assert refusal(steps, dtype, shape, op=op).startswith(OTHERS[case])


PLACED: dict[tuple[Shape, Shape], str] = {
    ((7, 4), (5,)): "a placement must be [4] or [images,4], but boxes is float32 [5]",
    ((7, 4), (2, 3, 4)): "a placement must be [4] or [images,4], but boxes is float32 [2,3,4]",
    (
        (7, 4),
        (7, 4),
    ): "the boxes and the placement are not of the same images: the boxes are float32 [7,4]; boxes is float32 [7,4]",
    (
        (3, 7, 4),
        (2, 4),
    ): "the boxes and the placement are not of the same images: the boxes are float32 [3,7,4]; boxes is float32 [2,4]",
    ((7, 5), (4,)): "boxes must be [boxes,4] or [images,boxes,4], got float32 [7,5]",
}


@pytest.mark.parametrize("case", PLACED, ids=str)
def test_of_boxes_and_a_placement(case: tuple[Shape, Shape]) -> None:
    assert refusal("from-letterbox(boxes, yxyx)", "float32", *case) == f"from-letterbox: {PLACED[case]}"


BOXES: dict[tuple[Shape, Shape], str] = {
    ((10,), (9, 4)): "nms: the scores and the boxes have different counts: the scores are float32 [10]",
    ((10, 3, 2), (10, 4)): "nms: scores must be one for each box, or one for each box and class, but they",
    ((2,), (2, 10, 4)): "nms: scores must be one for each box, or one for each box and class, but they are",
    ((10,), (10, 5)): "nms: boxes must be [boxes,4] or [images,boxes,4], but boxes is float32 [10,5]",
    ((10,), (4,)): "nms: boxes must be [boxes,4] or [images,boxes,4], but boxes is float32 [4]",
    (None, (10, 4)): "nms: scores must be one for each box, or one for each box and class, but they are",
}


@pytest.mark.parametrize("case", BOXES, ids=str)
def test_of_scores_and_boxes(case: tuple[Shape, Shape]) -> None:
    assert refusal("nms(boxes, yxyx)", "float32", case[0], case[1]).startswith(BOXES[case])
    assert refusal("nms(boxes, yxyx)", "float64", (9,), (9, 4)).startswith("nms: requires float32, but the scores are")
    for shape in ((9,), (9, 1)):
        said = refusal("nms(boxes, yxyx, background=true)", "float32", shape, (9, 4))
        assert said.startswith("nms: background=true leaves out the only class: float32 [9")
    twice = "nms(boxes, yxyx) | nms(boxes, yxyx)"
    assert refusal(twice, "float32", (9,), (9, 4)) == "nms (step 2): the boxes are already selected"


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
    with pytest.raises(EditError, match="labels: there is 1 name, but 3 classes"):
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


def test_elsewhere_results_have_no_place() -> None:
    with pytest.raises(EditError, match="the steps also return scores, but insert replaces one tensor"):
        inserted("top-k(10) | cast(float32)", model(), "y")
    with pytest.raises(EditError, match="nms: requires two outputs of a model"):
        inserted("nms(boxes, yxyx)", model(), "y")
    with pytest.raises(EditError, match="from-letterbox: requires two outputs of a model"):
        inserted("from-letterbox(boxes, yxyx)", model(), "y")
    with pytest.raises(EditError, match="softmax: this step is for use behind a model, not in front of a model"):
        preprocessing("softmax", model())


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
    [
        (b"a\nb\0c", "is not text: line 2 has a zero byte"),
        (b"a\n" * 1001, "but 10 classes: 991 names too many"),
    ],
)
def test_files_that_hold_no_names(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "l.txt"
    path.write_bytes(data)
    message = refusal(f"argmax | labels(file='{path}')")
    assert message.startswith("labels: ") and f"{path}" in message and message.endswith(said)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^labels: .*no.txt cannot be opened: no such file or directory$"):
        read_steps(f"labels(file='{tmp_path}/no.txt')")
    with pytest.raises(InputError, match=f"^labels: {tmp_path} is a directory, not a text file$"):
        read_steps(f"labels(file='{tmp_path}')")


def test_the_ops_of_each_way_to_choose_boxes() -> None:
    assert "CombinedNonMaxSuppression" in ops(behind("nms(boxes, yxyx)", "float32", (9, 3), (9, 4)))
    assert "NonMaxSuppressionV4" in ops(behind("nms(boxes, yxyx)", "float32", (9,), (9, 4)))
    assert "MapDefun" in ops(behind("nms(boxes, yxyx)", "float32", (-1, 9), (-1, 9, 4)))
