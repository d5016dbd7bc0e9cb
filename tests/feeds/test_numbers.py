"""Numbers that are fed: pixels, sparse tensors, settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.feeding import SAMPLES, fed, made, values
from support.graphs import (
    FLOAT,
    INT32,
    INT64,
    Builder,
    call,
    const,
    define,
    identity,
    library,
    node,
    placeholder,
    typed,
)

from gdsurgeon.proof.executor import Executor

# -- pixels ------------------------------------------------------------------------------------------------


def image(*records: bytes, dtype: str = "float32", shape: tuple[int, ...] = (1, 16, 12, 3)) -> Builder:
    return Builder(placeholder("x", dtype, shape), *records)


def resized(source: str = "x", op: str = "ResizeBilinear") -> list[bytes]:
    return [const("size", [8, 8], INT32), typed(op, "resized", source, "size")]


def arithmetic(op: str, constant: Any, *, swapped: bool = False) -> list[bytes]:
    return [const("c", constant), typed(op, "y", *(["c", "x"] if swapped else ["x", "c"]))]


def normalised() -> list[bytes]:
    values = {"scale": 1.0, "offset": 0.0, "mean": 110.0, "variance": 1.0}
    return [
        *(const(name, [value] * 3) for name, value in values.items()),
        typed("FusedBatchNorm", "y", "x", *values, is_training=False),
    ]


def in_a_function() -> list[bytes]:
    """The image and the mean are arguments, and it is a function of that function that takes the mean away."""
    ends: Any = [FLOAT, FLOAT], [FLOAT]
    centred = typed("Sub", "centred", "a", "b")
    inner = define("inner", {"a": FLOAT, "b": FLOAT}, {"out": (FLOAT, "centred:z:0")}, centred)
    called = call("call", "inner", ["q", "p"], *ends)
    outer = define("outer", {"p": FLOAT, "q": FLOAT}, {"out": (FLOAT, "call:output:0")}, called)
    mean = const("mean", [123.0, 117.0, 104.0])
    return [mean, call("y", "outer", ["mean", "x"], *ends, stateful=True), library(inner, outer)]


WHOLE = [0.0, 0.0, 1.0, 1.0]


PIXELS: dict[str, list[bytes]] = {
    "resized": resized(),
    "nearest": resized(op="ResizeNearestNeighbor"),
    "cropped": [
        const("boxes", [WHOLE]),
        const("which", [0], INT32),
        const("size", [8, 8], INT32),
        typed("CropAndResize", "y", "x", "boxes", "which", "size"),
    ],
    "contrast": arithmetic("AdjustContrastv2", 1.5),
    "boxes": arithmetic("DrawBoundingBoxes", [[WHOLE]]),
    "means": arithmetic("Sub", [123.7, 116.8, 103.9]),
    "negative means": arithmetic("AddV2", [-123.7, -116.8, -103.9]),
    "bias": arithmetic("BiasAdd", [-123.7, -116.8, -103.9]),
    "divided": arithmetic("RealDiv", 127.5),
    "multiplied": arithmetic("Mul", 1 / 255),
    "multiplied from the left": arithmetic("Mul", 1 / 127.5, swapped=True),
    "normalised": normalised(),
    "split": [
        const("axis", 3, INT32),
        const("c", 103.9),
        typed("Split", "parts", "axis", "x", num_split=3),
        typed("Sub", "y", "parts:2", "c"),
    ],
    "through others": [
        const("flat", [16, 36], INT32),
        const("back", [1, 16, 12, 3], INT32),
        typed("Reshape", "reshaped", "x", "flat", Tshape="int32"),
        typed("Reshape", "again", "reshaped", "back", Tshape="int32"),
        identity("same", "again"),
        *resized("same", "ResizeBicubic"),
    ],
    "in a function": in_a_function(),
}


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("how", sorted(PIXELS))
def test_an_image_gets_pixels_of_0_to_255(how: str, sample: int) -> None:
    m = image(*PIXELS[how])
    found = values(m, sample)
    assert found.min() >= 0 and found.max() <= 255
    assert found.max() > 240 and abs(found.mean() - 127.5) < 20
    assert made(m).startswith("pixels 0 to 255, for ")


@pytest.mark.tensorflow
@pytest.mark.parametrize("sample", SAMPLES)
def test_pixels_arrive_at_the_image_op(sample: int, executor: Executor) -> None:
    assert 100 < fed(executor, image(*resized()), "resized", sample).mean() < 155


def test_the_words_name_the_op() -> None:
    assert made(image(*resized())) == "pixels 0 to 255, for ResizeBilinear 'resized'"
    assert made(image(*in_a_function())) == "pixels 0 to 255, for Sub 'centred'"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_pixels_of_every_dtype_that_images_have(dtype: str) -> None:
    cast = node("cast", "Cast", ["x"], SrcT=dtype, DstT="float32")
    found = values(image(cast, *resized("cast"), dtype=dtype))
    assert found.min() >= 0 and 240 < found.max() <= 255 and len(set(found.reshape(-1))) > 100


NO_PIXELS: dict[str, list[bytes]] = {
    "centred about a half": arithmetic("Sub", 0.5),
    "doubled": arithmetic("Mul", 2.0),
    "divided by little": arithmetic("RealDiv", 4.0),
    "by a thousand": arithmetic("RealDiv", 1000.0),
    "shifted": arithmetic("AddV2", 100.0),
    "cosine": [typed("Cos", "y", "x")],
}


@pytest.mark.parametrize("how", sorted(NO_PIXELS))
def test_other_floats_stay_small(how: str) -> None:
    m = image(*NO_PIXELS[how])
    assert values(m).max() <= 1
    assert values(m, 1).min() < -2
    assert made(m).startswith("numbers from 0 to 1")


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("op", ["RGBToHSV", "AdjustHue", "AdjustSaturation"])
def test_colours_are_between_0_and_1(op: str, sample: int) -> None:
    m = image(const("by", 0.5), typed(op, "y", *(["x"] if op == "RGBToHSV" else ["x", "by"])))
    found = values(m, sample)
    assert found.min() >= 0 and 0.9 < found.max() <= 1
    assert made(m) == f"colours 0 to 1, for {op} 'y'"


@pytest.mark.parametrize(
    ("op", "constant", "highest"), [("Sub", 0.5, 1), ("Mul", 2.0, 1), ("Sub", 127.5, 255), ("Mul", 0.5, 255)]
)
def test_what_follows_an_image_op_tells_its_range(op: str, constant: float, highest: int) -> None:
    m = image(*resized(), const("c", constant), typed(op, "y", "resized", "c"))
    for sample in SAMPLES:
        found = values(m, sample)
        assert found.min() >= 0 and 0.9 * highest < found.max() <= highest


# -- sparse tensors ----------------------------------------------------------------------------------------


def to_dense(values: str, shape: str) -> list[bytes]:
    return [
        const("none", 0.0),
        typed("SparseToDense", "y", "x", shape, values, "none", Tindices="int64", validate_indices=True),
    ]


def sparse_inputs(*records: bytes, rank: int = 2, rows: int = 5) -> Builder:
    x, shape = placeholder("x", INT64, (rows, rank)), placeholder("shape", INT64, (rank,))
    return Builder(x, placeholder("weights", FLOAT, (rows,)), shape, *records)


@pytest.mark.tensorflow
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_sparse_tensor_in_parts_becomes_dense(rank: int, executor: Executor) -> None:
    """TensorFlow wants the indices in order, each once, and inside of the shape, which is an input too."""
    dense = fed(executor, sparse_inputs(*to_dense("weights", "shape"), rank=rank, rows=4), "y")
    assert dense.shape == (4,) * rank and np.count_nonzero(dense) == 4


@pytest.mark.tensorflow
def test_a_sparse_tensor_of_a_constant_shape(executor: Executor) -> None:
    x, sides, ones = placeholder("x", INT64, (6, 2)), const("sides", [2, 3], INT64), const("ones", np.ones(6))
    assert (fed(executor, Builder(x, sides, ones, *to_dense("ones", "sides")), "y") == np.ones((2, 3))).all()


@pytest.mark.tensorflow
def test_a_sparse_product(executor: Executor) -> None:
    product = typed("SparseTensorDenseMatMul", "y", "x", "weights", "shape", "dense", Tindices="int64")
    assert np.count_nonzero(fed(executor, sparse_inputs(const("dense", np.ones((4, 2))), product), "y")) > 0


# -- what is no data ---------------------------------------------------------------------------------------


def with_input(op: str, *inputs: Any, shape: tuple[int, ...] | None = None, **attrs: Any) -> Builder:
    """OP on constants, with the placeholder x where INPUTS have None."""
    given = {f"c{i}": value for i, value in enumerate(inputs) if value is not None}
    kinds = {name: INT32 if np.asarray(value).dtype.kind == "i" else FLOAT for name, value in given.items()}
    constants = [const(name, value, kinds[name]) for name, value in given.items()]
    names = ["x" if value is None else f"c{i}" for i, value in enumerate(inputs)]
    return Builder(placeholder("x", INT32, shape), *constants, node("y", op, names, **attrs))


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
@pytest.mark.parametrize("limits", [["x", "half"], ["half", "x"]], ids=["iou", "score"])
def test_thresholds_of_boxes_let_some_through(limits: list[str], executor: Executor) -> None:
    constants = [const("boxes", NMS[0]), const("scores", NMS[1]), const("most", 5, INT32), const("half", 0.5)]
    chosen = typed("NonMaxSuppressionV3", "y", "boxes", "scores", "most", *limits, T_threshold="float32")
    assert fed(executor, image(*constants, chosen, shape=()), "y").shape == (2,)


@pytest.mark.tensorflow
def test_a_part_of_a_shape_is_the_size_of_a_batch(executor: Executor) -> None:
    """The graph has the number of images as an input: [n, -1]."""
    m = Builder(
        placeholder("x", INT32, ()),
        placeholder("data", FLOAT, (-1, 3, 4)),
        const("rest", -1, INT32),
        typed("Pack", "shape", "x", "rest", kind=INT32, N=2, axis=0),
        typed("Reshape", "y", "data", "shape", Tshape="int32"),
    )
    for sample in SAMPLES:
        assert fed(executor, m, "y", sample).shape == (1, 12)


# -- settings by their names -------------------------------------------------------------------------------


def named(name: str, dtype: str = "float32", shape: tuple[int, ...] = ()) -> Builder:
    return Builder(placeholder(name, dtype, shape), identity("y", name, kind=dtype))


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
