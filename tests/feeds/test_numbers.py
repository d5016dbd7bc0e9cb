"""Numbers that are fed: pixels, sparse tensors, settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.feeding import CALL, SAMPLES, fed, made, values
from support.graphs import Builder, body_node, func
from support.paths import MODELS

import gdsurgeon as gds
from gdsurgeon.feeds.input_spec import input_seed, make_feed
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.subject import Subject
from gdsurgeon.runtime.tensor import Tensor

MTCNN = MODELS / "mtcnn.pb"


# -- pixels ------------------------------------------------------------------------------------------------


def image(dtype: str = "float32", shape: tuple[int, ...] = (1, 16, 12, 3)) -> Builder:
    m = Builder()
    m.placeholder("x", dtype, shape)
    return m


def resized(m: Builder, source: str = "x", op: str = "ResizeBilinear") -> str:
    m.const("size", [8, 8], "int32")
    return m.typed(op, "resized", source, "size")


def cropped(m: Builder) -> str:
    m.const("boxes", [[0.0, 0.0, 1.0, 1.0]])
    m.const("which", [0], "int32")
    m.const("size", [8, 8], "int32")
    return m.typed("CropAndResize", "y", "x", "boxes", "which", "size")


def contrast(m: Builder) -> str:
    m.const("factor", 1.5)
    return m.typed("AdjustContrastv2", "y", "x", "factor")


def boxes_drawn(m: Builder) -> str:
    m.const("boxes", [[[0.0, 0.0, 1.0, 1.0]]])
    return m.typed("DrawBoundingBoxes", "y", "x", "boxes")


def arithmetic(op: str, constant: Any, *, swapped: bool = False) -> Callable[[Builder], str]:
    def build(m: Builder) -> str:
        m.const("c", constant)
        return m.node("y", op, ["c", "x"] if swapped else ["x", "c"], T="float32")

    return build


def normalised(m: Builder) -> str:
    for name, value in (("scale", 1.0), ("offset", 0.0), ("mean", 110.0), ("variance", 1.0)):
        m.const(name, [value] * 3)
    inputs = ["x", "scale", "offset", "mean", "variance"]
    return m.node("y", "FusedBatchNorm", inputs, T="float32", is_training=False)


def split_and_centred(m: Builder) -> str:
    m.const("axis", 3, "int32")
    m.const("c", 103.9)
    m.typed("Split", "parts", "axis", "x", num_split=3)
    return m.typed("Sub", "y", "parts:2", "c")


def through_others(m: Builder) -> str:
    m.const("flat", [16, 36], "int32")
    m.const("back", [1, 16, 12, 3], "int32")
    m.typed("Reshape", "reshaped", "x", "flat", Tshape="int32")
    m.typed("Reshape", "again", "reshaped", "back", Tshape="int32")
    m.typed("Identity", "same", "again")
    return resized(m, "same", "ResizeBicubic")


def in_a_function(m: Builder) -> str:
    """The image and the mean are arguments, and it is a function of that function that takes the mean away."""
    inner = m.function("inner", {"a": "float32", "b": "float32"}, {"out": "float32"})
    body_node(inner, "centred", "Sub", ["a", "b"], T="float32")
    inner.ret["out"] = "centred:z:0"
    outer = m.function("outer", {"p": "float32", "q": "float32"}, {"out": "float32"})
    types = {"Tin": ["float32", "float32"], "Tout": ["float32"]}
    body_node(outer, "call", "PartitionedCall", ["q", "p"], f=func("inner"), **types, **CALL)
    outer.ret["out"] = "call:output:0"
    m.const("mean", [123.0, 117.0, 104.0])
    return m.node("y", "StatefulPartitionedCall", ["mean", "x"], f=func("outer"), **types, **CALL)


PIXELS: dict[str, Callable[[Builder], str]] = {
    "resized": resized,
    "nearest": lambda m: resized(m, op="ResizeNearestNeighbor"),
    "cropped": cropped,
    "contrast": contrast,
    "boxes": boxes_drawn,
    "means": arithmetic("Sub", [123.7, 116.8, 103.9]),
    "negative means": arithmetic("AddV2", [-123.7, -116.8, -103.9]),
    "bias": arithmetic("BiasAdd", [-123.7, -116.8, -103.9]),
    "divided": arithmetic("RealDiv", 127.5),
    "multiplied": arithmetic("Mul", 1 / 255),
    "multiplied from the left": arithmetic("Mul", 1 / 127.5, swapped=True),
    "normalised": normalised,
    "split": split_and_centred,
    "through others": through_others,
    "in a function": in_a_function,
}


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("how", sorted(PIXELS))
def test_an_image_gets_pixels_of_0_to_255(how: str, sample: int) -> None:
    m = image()
    PIXELS[how](m)
    found = values(m, sample)
    assert found.min() >= 0 and found.max() <= 255
    assert found.max() > 240 and abs(found.mean() - 127.5) < 20
    assert made(m).startswith("pixels 0 to 255, for ")


@pytest.mark.tensorflow
@pytest.mark.parametrize("sample", SAMPLES)
def test_pixels_arrive_at_the_image_op(sample: int, executor: Executor) -> None:
    m = image()
    resized(m)
    assert 100 < fed(executor, m, "resized", sample).mean() < 155


def test_the_words_name_the_op() -> None:
    m = image()
    resized(m)
    assert made(m) == "pixels 0 to 255, for ResizeBilinear 'resized'"
    m = image()
    in_a_function(m)
    assert made(m) == "pixels 0 to 255, for Sub 'centred'"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_pixels_of_every_dtype_that_images_have(dtype: str) -> None:
    m = image(dtype)
    m.node("cast", "Cast", ["x"], SrcT=dtype, DstT="float32")
    resized(m, "cast")
    found = values(m)
    assert found.min() >= 0 and 240 < found.max() <= 255 and len(set(found.reshape(-1))) > 100


NO_PIXELS: dict[str, Callable[[Builder], str]] = {
    "centred about a half": arithmetic("Sub", 0.5),
    "doubled": arithmetic("Mul", 2.0),
    "divided by little": arithmetic("RealDiv", 4.0),
    "by a thousand": arithmetic("RealDiv", 1000.0),
    "shifted": arithmetic("AddV2", 100.0),
    "cosine": lambda m: m.typed("Cos", "y", "x"),
}


@pytest.mark.parametrize("how", sorted(NO_PIXELS))
def test_other_floats_stay_small(how: str) -> None:
    m = image()
    NO_PIXELS[how](m)
    assert values(m).max() <= 1
    assert values(m, 1).min() < -2
    assert made(m).startswith("numbers from 0 to 1")


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("op", ["RGBToHSV", "AdjustHue", "AdjustSaturation"])
def test_colours_are_between_0_and_1(op: str, sample: int) -> None:
    m = image()
    m.const("by", 0.5)
    m.node("y", op, ["x"] if op == "RGBToHSV" else ["x", "by"], T="float32")
    found = values(m, sample)
    assert found.min() >= 0 and 0.9 < found.max() <= 1
    assert made(m) == f"colours 0 to 1, for {op} 'y'"


@pytest.mark.parametrize(
    ("op", "constant", "highest"), [("Sub", 0.5, 1), ("Mul", 2.0, 1), ("Sub", 127.5, 255), ("Mul", 0.5, 255)]
)
def test_what_follows_an_image_op_tells_its_range(op: str, constant: float, highest: int) -> None:
    m = image()
    resized(m)
    m.const("c", constant)
    m.typed(op, "y", "resized", "c")
    for sample in SAMPLES:
        found = values(m, sample)
        assert found.min() >= 0 and 0.9 * highest < found.max() <= highest


# -- sparse tensors ----------------------------------------------------------------------------------------


def sparse_inputs(rank: int = 2, rows: int = 5) -> Builder:
    m = Builder()
    m.placeholder("x", "int64", (rows, rank))
    m.placeholder("weights", "float32", (rows,))
    m.placeholder("shape", "int64", (rank,))
    return m


@pytest.mark.tensorflow
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_sparse_tensor_in_parts_becomes_dense(rank: int, executor: Executor) -> None:
    """TensorFlow wants the indices in order, each once, and inside of the shape, which is an input too."""
    m = sparse_inputs(rank, rows=4)
    m.const("none", 0.0)
    m.typed("SparseToDense", "y", "x", "shape", "weights", "none", Tindices="int64", validate_indices=True)
    dense = fed(executor, m, "y")
    assert dense.shape == (4,) * rank and np.count_nonzero(dense) == 4


@pytest.mark.tensorflow
def test_a_sparse_tensor_of_a_constant_shape(executor: Executor) -> None:
    m = Builder()
    m.placeholder("x", "int64", (6, 2))
    m.const("sides", [2, 3], "int64")
    m.const("ones", np.ones(6))
    m.const("none", 0.0)
    m.typed("SparseToDense", "y", "x", "sides", "ones", "none", Tindices="int64", validate_indices=True)
    assert (fed(executor, m, "y") == np.ones((2, 3))).all()


@pytest.mark.tensorflow
def test_a_sparse_product(executor: Executor) -> None:
    m = sparse_inputs()
    m.const("dense", np.ones((4, 2)))
    m.typed("SparseTensorDenseMatMul", "y", "x", "weights", "shape", "dense", Tindices="int64")
    assert np.count_nonzero(fed(executor, m, "y")) > 0


# -- what is no data ---------------------------------------------------------------------------------------


def with_input(op: str, *inputs: Any, shape: tuple[int, ...] | None = None, **attrs: Any) -> Builder:
    """OP on constants, with the placeholder x where INPUTS have None."""
    m = Builder()
    m.placeholder("x", "int32", shape)
    names = []
    for i, value in enumerate(inputs):
        dtype = "int32" if np.asarray(value).dtype.kind == "i" else "float32"
        names.append("x" if value is None else m.const(f"c{i}", value, dtype))
    m.node("y", op, names, **attrs)
    return m


DATA = np.arange(24.0).reshape(2, 3, 4)


REDUCE: dict[str, Any] = {"T": "float32", "Tidx": "int32", "keep_dims": False}


ONES = np.array([1, 1, 1], "int32")


ALL = np.array([2, 3, 4], "int32")


IMAGE = np.ones((1, 2, 2, 3))


CLASSES = np.array([0, 3], "int32")


NMS = (np.array([[0, 0, 1, 1], [5, 5, 6, 6]], "float32"), np.array([0.9, 0.8], "float32"))


SETTINGS: dict[str, tuple[Builder, tuple[int, ...]]] = {
    "Reshape": (with_input("Reshape", DATA, None, T="float32", Tshape="int32"), (2, 3, 4)),
    "Reshape of a vector": (with_input("Reshape", DATA, None, shape=(2,), T="float32", Tshape="int32"), (24, 1)),
    "BroadcastTo": (with_input("BroadcastTo", DATA, None, T="float32", Tidx="int32"), (2, 3, 4)),
    "Fill": (with_input("Fill", None, 1.0, shape=(2,), T="float32", index_type="int32"), (2, 2)),
    "RandomUniform": (with_input("RandomUniform", None, shape=(3,), T="int32", dtype="float32"), (2, 2, 2)),
    "Tile": (with_input("Tile", DATA, None, T="float32", Tmultiples="int32"), (4, 6, 8)),
    "Transpose": (with_input("Transpose", DATA, None, T="float32", Tperm="int32"), (2, 3, 4)),
    "Sum": (with_input("Sum", DATA, None, shape=(2,), **REDUCE), (4,)),
    "Max": (with_input("Max", DATA, None, shape=(), **REDUCE), (3, 4)),
    "ArgMax": (with_input("ArgMax", DATA, None, T="float32", Tidx="int32", output_type="int64"), (3, 4)),
    "ExpandDims": (with_input("ExpandDims", DATA, None, T="float32", Tdim="int32"), (1, 2, 3, 4)),
    "ConcatV2": (with_input("ConcatV2", DATA, DATA, None, T="float32", Tidx="int32", N=2), (4, 3, 4)),
    "Split": (with_input("Split", None, DATA, T="float32", num_split=2), (1, 3, 4)),
    "GatherV2": (
        with_input("GatherV2", DATA, np.array([0], "int32"), None, Tparams="float32", Tindices="int32", Taxis="int32"),
        (1, 3, 4),
    ),
    "Slice size": (with_input("Slice", DATA, ONES, None, T="float32", Index="int32"), (1, 1, 1)),
    "Slice begin": (with_input("Slice", DATA, None, ALL, T="float32", Index="int32"), (2, 3, 4)),
    "Pad": (with_input("Pad", DATA, None, T="float32", Tpaddings="int32"), (4, 5, 6)),
    "MirrorPad": (with_input("MirrorPad", DATA, None, T="float32", Tpaddings="int32", mode="REFLECT"), (2, 3, 4)),
    "ResizeBilinear": (with_input("ResizeBilinear", IMAGE, None, shape=(2,), T="float32"), (1, 64, 64, 3)),
    "TopKV2": (with_input("TopKV2", np.ones((2, 1)), None, shape=(), T="float32", Tk="int32", sorted=True), (2, 1)),
    "NonMaxSuppressionV2": (with_input("NonMaxSuppressionV2", *NMS, None, 0.5, shape=(), T="float32"), (2,)),
    "Range": (with_input("Range", 0, None, 1, shape=(), Tidx="int32"), (5,)),
    "OneHot": (with_input("OneHot", CLASSES, None, 1.0, 0.0, shape=(), T="float32", TI="int32", axis=-1), (2, 4)),
}  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("how", sorted(SETTINGS))
def test_a_shape_an_axis_or_a_number_of_things_is_valid(how: str, executor: Executor) -> None:
    m, shape = SETTINGS[how]
    assert fed(executor, m, "y").shape == shape
    assert made(m).endswith(f", for {m.graph_def.node[-1].op} 'y'")


@pytest.mark.tensorflow
@pytest.mark.parametrize("what", ["iou", "score"])
def test_thresholds_of_boxes_let_some_through(what: str, executor: Executor) -> None:
    m = Builder()
    m.placeholder("x", "float32", ())
    for name, value in (("boxes", NMS[0]), ("scores", NMS[1]), ("most", np.int32(5)), ("half", np.float32(0.5))):
        m.const(name, value, "int32" if name == "most" else "float32")
    limits = ["x", "half"] if what == "iou" else ["half", "x"]
    m.typed("NonMaxSuppressionV3", "y", "boxes", "scores", "most", *limits, T_threshold="float32")
    assert fed(executor, m, "y").shape == (2,)


@pytest.mark.tensorflow
def test_a_part_of_a_shape_is_the_size_of_a_batch(executor: Executor) -> None:
    """The graph has the number of images as an input: [n, -1]."""
    m = Builder()
    m.placeholder("x", "int32", ())
    m.placeholder("data", "float32", (-1, 3, 4))
    m.const("rest", -1, "int32")
    m.node("shape", "Pack", ["x", "rest"], T="int32", N=2, axis=0)
    m.typed("Reshape", "y", "data", "shape", Tshape="int32")
    for sample in SAMPLES:
        assert fed(executor, m, "y", sample).shape == (1, 12)


# -- settings by their names -------------------------------------------------------------------------------


def named(name: str, dtype: str = "float32", shape: tuple[int, ...] = ()) -> Builder:
    m = Builder()
    m.placeholder(name, dtype, shape)
    m.node("y", "Identity", [name], T=dtype)
    return m


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "expected", "why"),
    [
        ("score_threshold", "float32", (), 0.001, "0.001: a threshold by its name"),
        ("thresholds", "float32", (3,), 0.001, "0.001: a threshold by its name"),
        ("thresholds", "float16", (3,), 0.001, "0.001: a threshold by its name"),
        ("keep_prob", "bfloat16", (), 1, "1: keeps all, by its name"),
        ("keep_prob", "float32", (1,), 1, "1: keeps all, by its name"),
        ("dropout_rate", "float32", (), 0, "0: drops nothing, by its name"),
        ("scale_factor", "float32", (), 0.7, "0.7: a factor by its name"),
        ("is_training", "bool", (), 0, "false: no training, by its name"),
        ("is_training", "int32", (), 0, "0: no training, by its name"),
        ("batch_size", "int32", (), 1, "1: one, as batches are made, by its name"),
        ("image_size", "int64", (), 40, "40: a size by its name"),
        ("count", "int32", (), 3, "3: a small whole number"),
    ],
)
def test_a_setting_is_what_its_name_says(
    name: str, dtype: str, shape: tuple[int, ...], expected: float, why: str
) -> None:
    m = named(name, dtype, shape)
    assert values(m, 0, name) == pytest.approx(np.full(shape, expected), rel=0.01)
    assert made(m, name) == why


def test_a_vector_of_another_name_is_data() -> None:
    for name in ("scales", "sizes", "keeps"):
        assert len(set(values(named(name, shape=(5,)), 0, name))) == 5


def test_a_float_of_no_name_is_by_chance() -> None:
    m = named("x")
    assert made(m) == "a number between 0.25 and 0.75"
    assert len({float(values(m, seed)) for seed in range(5)}) == 5
    assert all(0.25 <= float(values(m, seed)) <= 0.75 for seed in range(5))


def test_a_condition_takes_one_side_and_then_the_other() -> None:
    m = named("x", "bool")
    assert sorted(bool(values(m, sample)) for sample in SAMPLES) == [False, True]
    assert made(m) == "false and true alternating"
    training = named("train_phase", "bool")
    assert [bool(values(training, sample, "train_phase")) for sample in SAMPLES] == [False, False]


@pytest.mark.models
@pytest.mark.tensorflow
@pytest.mark.skipif(not MTCNN.is_file(), reason=f"the published graph is not there: {MTCNN}")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_detector_finds_something_in_what_is_made_for_it(seed: int, executor: Executor) -> None:
    """Three cascaded networks, each with a threshold: where one lets nothing through, all outputs are empty."""
    graph = gds.load(str(MTCNN))
    executor.load_graph("mtcnn", graph)
    subject = Subject(executor, "mtcnn", graph, plan_with(executor.settings, graph))
    executor.loaded("mtcnn")
    found: list[int] = []
    for sample in SAMPLES:
        subject.shapes = {spec.name: spec.shapes[0] for spec in subject.specs}
        feeds: dict[str, Tensor] = {}
        for spec in subject.specs:
            feed = make_feed(
                spec, spec.shapes[0], input_seed(seed + sample, spec.name), wide=sample == 1, sample=sample
            )
            assert isinstance(feed, Tensor)
            feeds[spec.name] = feed
        executor.run("mtcnn", "found", feeds, ["prob", "landmarks", "box"])
        shapes = [executor.tensor("found", i).shape for i in range(3)]
        assert len({shape[0] for shape in shapes}) == 1
        found.append(shapes[0][0])
    executor.unload("mtcnn")
    assert 0 < max(found) < 100
