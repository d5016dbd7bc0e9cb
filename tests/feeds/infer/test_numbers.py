"""Numbers for an input by what consumes it: pixels, indices, shapes and axes; settings by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.feeding import feed_of, returned, spec_of
from support.paths import MODELS
from support.tf_graphs import Builder, Shape, attr, body_node, function_attr

import gdsurgeon as gds
from gdsurgeon.feeds.input_spec import description, input_seed, make_feed
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.subject import Subject
from gdsurgeon.runtime.tensor import Tensor

MTCNN = MODELS / "mtcnn.pb"
SAMPLES = (0, 1)
CALL: dict[str, Any] = {"config": b"", "config_proto": b"", "executor_type": b""}


def made(m: Builder, name: str = "x") -> str:
    return description(spec_of(m.graph(), name))


def values(m: Builder, sample: int = 0, name: str = "x") -> Any:
    return feed_of(m, sample, name, sample=sample).numpy().astype(np.float64)


def fed(executor: Executor, m: Builder, name: str, sample: int = 0) -> Any:
    """A tensor of the graph, as it is when the graph runs on what is made for it."""
    return returned(executor, m, sample=sample)[name].numpy()


# -- pixels ------------------------------------------------------------------------------------------------


def image(dtype: str = "float32", shape: tuple[int, ...] = (1, 16, 12, 3)) -> Builder:
    m = Builder()
    m.placeholder("x", dtype, shape)
    return m


def resized(m: Builder, source: str = "x", op: str = "ResizeBilinear") -> str:
    m.const("size", [8, 8], "int32")
    return m.node("resized", op, [source, "size"], T="float32")


def cropped(m: Builder) -> str:
    m.const("boxes", [[0.0, 0.0, 1.0, 1.0]])
    m.const("which", [0], "int32")
    m.const("size", [8, 8], "int32")
    return m.node("y", "CropAndResize", ["x", "boxes", "which", "size"], T="float32")


def contrast(m: Builder) -> str:
    m.const("factor", 1.5)
    return m.node("y", "AdjustContrastv2", ["x", "factor"], T="float32")


def boxes_drawn(m: Builder) -> str:
    m.const("boxes", [[[0.0, 0.0, 1.0, 1.0]]])
    return m.node("y", "DrawBoundingBoxes", ["x", "boxes"], T="float32")


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
    m.node("parts", "Split", ["axis", "x"], T="float32", num_split=3)
    return m.node("y", "Sub", ["parts:2", "c"], T="float32")


def through_others(m: Builder) -> str:
    m.const("flat", [16, 36], "int32")
    m.const("back", [1, 16, 12, 3], "int32")
    m.node("reshaped", "Reshape", ["x", "flat"], T="float32", Tshape="int32")
    m.node("again", "Reshape", ["reshaped", "back"], T="float32", Tshape="int32")
    m.node("same", "Identity", ["again"], T="float32")
    return resized(m, "same", "ResizeBicubic")


def in_a_function(m: Builder) -> str:
    """The image and the mean are arguments, and it is a function of that function that takes the mean away."""
    inner = m.function("inner", {"a": "float32", "b": "float32"}, {"out": "float32"})
    body_node(inner, "centred", "Sub", ["a", "b"], T="float32")
    inner.ret["out"] = "centred:z:0"
    outer = m.function("outer", {"p": "float32", "q": "float32"}, {"out": "float32"})
    types = {"Tin": ["float32", "float32"], "Tout": ["float32"]}
    body_node(outer, "call", "PartitionedCall", ["q", "p"], f=function_attr("inner"), **types, **CALL)
    outer.ret["out"] = "call:output:0"
    m.const("mean", [123.0, 117.0, 104.0])
    return m.node("y", "StatefulPartitionedCall", ["mean", "x"], f=function_attr("outer"), **types, **CALL)


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
    "cosine": lambda m: m.node("y", "Cos", ["x"], T="float32"),
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
    m.node("y", op, ["resized", "c"], T="float32")
    for sample in SAMPLES:
        found = values(m, sample)
        assert found.min() >= 0 and 0.9 * highest < found.max() <= highest


# -- indices -----------------------------------------------------------------------------------------------

N = 60


def indices(shape: tuple[int, ...] = (N,), dtype: str = "int32") -> Builder:
    m = Builder()
    m.placeholder("x", dtype, shape)
    m.const("rows", np.arange(6.0).reshape(3, 2))
    m.const("zero", 0, "int32")
    m.const("one", 1, "int32")
    return m


def gathered(m: Builder, index: str, name: str = "y", table: str = "rows", dtype: str = "int32") -> str:
    types = {"Tparams": "float32", "Tindices": dtype, "Taxis": "int32"}
    return m.node(name, "GatherV2", [table, index, "zero"], **types)


def segment_op(op: str, *, of: str, count: bool = False) -> Builder:
    m = indices()
    m.const("others", np.zeros(N), "int32")
    m.const("count", 3, "int32")
    inputs = ["rows", "x", "others"] if of == "indices" else ["rows", "others", "x"]
    types: dict[str, Any] = {"T": "float32", "Tidx": "int32", "Tsegmentids": "int32"}
    if count:
        types["Tnumsegments"] = "int32"
    m.node("y", op, [*inputs, "count"] if count else inputs, **types)
    return m


def plain_segments(op: str) -> Builder:
    m = indices()
    m.const("data", np.ones((N, 2)))
    m.const("count", 3, "int32")
    types: dict[str, Any] = {"T": "float32", "Tindices": "int32"}
    if op.startswith("Unsorted"):
        m.node("y", op, ["data", "x", "count"], Tnumsegments="int32", **types)
    else:
        m.node("y", op, ["data", "x"], **types)
    return m


def gather_nd() -> Builder:
    m = indices((N, 2))
    m.node("y", "GatherNd", ["rows", "x"], Tparams="float32", Tindices="int32")
    return m


def scatter_nd(op: str) -> Builder:
    m = indices((N, 1))
    m.const("updates", np.ones((N, 2)))
    m.const("shape", [3, 2], "int32")
    inputs = ["x", "updates", "shape"] if op == "ScatterNd" else ["rows", "x", "updates"]
    m.node("y", op, inputs, T="float32", Tindices="int32")
    return m


def partition() -> Builder:
    m = indices()
    m.const("data", np.ones((N, 2)))
    m.node("parts", "DynamicPartition", ["data", "x"], T="float32", num_partitions=3)
    m.node("y", "Identity", ["parts:2"], T="float32")
    return m


def labels() -> Builder:
    m = indices()
    m.const("logits", np.zeros((N, 3)))
    m.node("y", "SparseSoftmaxCrossEntropyWithLogits", ["logits", "x"], T="float32", Tlabels="int32")
    return m


def unique() -> Builder:
    m = indices()
    m.node("unique", "Unique", ["x"], T="int32", out_idx="int32")
    gathered(m, "unique")
    return m


def column() -> Builder:
    """Of rows of indices, the second column."""
    m = indices((N, 2))
    for name, value in (("begin", [0, 1]), ("end", [0, 2]), ("steps", [1, 1])):
        m.const(name, value, "int32")
    masks = {"begin_mask": 1, "end_mask": 1, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 2}
    m.node("column", "StridedSlice", ["x", "begin", "end", "steps"], T="int32", Index="int32", **masks)
    gathered(m, "column")
    return m


def computed_table() -> Builder:
    """The table is no constant; its shape follows from one: two rows."""
    m = indices()
    m.const("order", [1, 0], "int32")
    m.node("turned", "Transpose", ["rows", "order"], T="float32", Tperm="int32")
    gathered(m, "x", table="turned")
    return m


def float_indices() -> Builder:
    """As Keras has an embedding behind an input of no dtype of its own."""
    m = indices(dtype="float32")
    m.node("cast", "Cast", ["x"], SrcT="float32", DstT="int32")
    gathered(m, "cast")
    return m


def two_tables() -> Builder:
    m = indices()
    m.const("more", np.ones((20, 2)))
    gathered(m, "x", "first", "more")
    gathered(m, "x", "second", "rows")
    return m


INDICES: dict[str, Callable[[], Builder]] = {
    "GatherNd": gather_nd,
    "SparseSegmentSum": lambda: segment_op("SparseSegmentSum", of="indices"),
    "SparseSegmentMean": lambda: segment_op("SparseSegmentMean", of="indices"),
    "SparseSegmentSqrtN": lambda: segment_op("SparseSegmentSqrtN", of="indices"),
    "SparseSegmentSumWithNumSegments": lambda: segment_op("SparseSegmentSumWithNumSegments", of="indices", count=True),
    "its segments": lambda: segment_op("SparseSegmentSumWithNumSegments", of="segments", count=True),
    "SegmentSum": lambda: plain_segments("SegmentSum"),
    "SegmentMax": lambda: plain_segments("SegmentMax"),
    "UnsortedSegmentSum": lambda: plain_segments("UnsortedSegmentSum"),
    "ScatterNd": lambda: scatter_nd("ScatterNd"),
    "TensorScatterUpdate": lambda: scatter_nd("TensorScatterUpdate"),
    "DynamicPartition": partition,
    "SparseSoftmaxCrossEntropyWithLogits": labels,
    "unique": unique,
    "column": column,
    "computed table": computed_table,
    "float indices": float_indices,
    "two tables": two_tables,
}
MOST = {"GatherNd": 1, "computed table": 1}


@pytest.mark.tensorflow
@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("how", sorted(INDICES))
def test_an_index_is_one_that_is_there(how: str, sample: int, executor: Executor) -> None:
    """Sixty of them: where they were any small numbers, TensorFlow would refuse one, or what it gives would be NaN."""
    m = INDICES[how]()
    for name, value in returned(executor, m, sample=sample).items():
        assert np.isfinite(value.numpy()).all(), name
    fed = values(m, sample)
    assert fed.min() == 0 and 0 < fed.max() <= MOST.get(how, 3)


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("how", ["its segments", "SegmentSum"])
def test_segments_ascend(how: str, sample: int) -> None:
    fed = values(INDICES[how](), sample)
    assert (np.diff(fed) >= 0).all() and len(set(fed)) > 2


@pytest.mark.tensorflow
def test_what_is_made_one_hot_is_hot(executor: Executor) -> None:
    m = indices()
    m.const("depth", 3, "int32")
    m.const("on", 1.0)
    m.const("off", 0.0)
    m.node("y", "OneHot", ["x", "depth", "on", "off"], T="float32", TI="int32", axis=-1)
    assert (fed(executor, m, "y").sum(axis=1) == 1).all()
    assert made(m) == "indices below 3, for OneHot 'y'"


def test_a_resource_says_how_many_rows_it_has() -> None:
    m = indices()
    m.node("table", "VarHandleOp", dtype="float32", shape=Shape((5, 2)), container=b"", shared_name=b"")
    m.node("y", "ResourceGather", ["table", "x"], dtype="float32", Tindices="int32")
    assert set(values(m)) == {0, 1, 2, 3, 4}


def test_the_rows_of_a_reference_variable() -> None:
    m = indices()
    m.node("table", "VariableV2", dtype="float32", shape=Shape((5, 2)), container=b"", shared_name=b"")
    m.node("read", "Identity", ["table"], T="float32")
    gathered(m, "x", table="read")
    assert set(values(m)) == {0, 1, 2, 3, 4}


def test_of_a_table_of_unknown_length_the_first_row_is_taken() -> None:
    m = indices()
    m.placeholder("table", "float32", (-1, 4))
    gathered(m, "x", table="table")
    assert set(values(m)) == {0}
    assert made(m) == "index 0, for GatherV2 'y'"


def test_an_index_of_bytes_stays_in_a_byte() -> None:
    m = indices(dtype="int8")
    m.node("cast", "Cast", ["x"], SrcT="int8", DstT="int32")
    m.const("long", np.ones((3000, 1)))
    gathered(m, "cast", table="long")
    assert 50 < values(m).max() < 128


@pytest.mark.tensorflow
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_scalar_index_is_one_that_is_there(sample: int, executor: Executor) -> None:
    m = indices((), "int32")
    gathered(m, "x")
    assert fed(executor, m, "y", sample).shape == (2,)


def function_of_a_table(m: Builder, *, table_inside: bool) -> dict[str, Any]:
    args = {"index": "int32"} if table_inside else {"table": "float32", "index": "int32"}
    f = m.function("look_up", args, {"out": "float32"})
    if table_inside:
        body_node(f, "table", "Const", dtype="float32", value=attr_tensor(np.ones((3, 2))))
    body_node(f, "axis", "Const", dtype="int32", value=attr_tensor(np.int32(0)))
    body_node(f, "same", "Identity", ["index"], T="int32")
    source = "table:output:0" if table_inside else "table"
    types = {"Tparams": "float32", "Tindices": "int32", "Taxis": "int32"}
    body_node(f, "emb", "GatherV2", [source, "same:output:0", "axis:output:0"], **types)
    f.ret["out"] = "emb:output:0"
    return {"Tin": list(args.values()), "Tout": ["float32"], "f": function_attr("look_up"), **CALL}


def attr_tensor(array: Any) -> Any:
    from support.tf_graphs import tensor

    return tensor(array, "int32" if np.asarray(array).dtype.kind == "i" else "float32")


@pytest.mark.tensorflow
@pytest.mark.parametrize("table_inside", [True, False])
def test_an_embedding_in_a_function(table_inside: bool, executor: Executor) -> None:
    """The table is a constant of the body, or one of the graph that is handed over."""
    m = indices()
    attrs = function_of_a_table(m, table_inside=table_inside)
    m.node("y", "PartitionedCall", ["x"] if table_inside else ["rows", "x"], **attrs)
    assert fed(executor, m, "y").shape == (N, 2)
    assert set(values(m)) == {0, 1, 2}
    assert made(m) == "indices below 3, for GatherV2 'emb'"


@pytest.mark.tensorflow
def test_an_argument_of_another_name_is_not_mistaken(executor: Executor) -> None:
    """Two inputs go into one call: only the second is an index."""
    m = indices()
    m.placeholder("data", "float32", (3, 2))
    m.node("y", "PartitionedCall", ["data", "x"], **function_of_a_table(m, table_inside=False))
    assert set(values(m)) == {0, 1, 2}
    assert len(set(values(m, name="data").reshape(-1))) == 6
    assert fed(executor, m, "y").shape == (N, 2)


@pytest.mark.tensorflow
def test_an_index_that_a_function_gives_back(executor: Executor) -> None:
    """The function only hands it through, as a layer that does nothing; the table is outside."""
    m = indices()
    f = m.function("through", {"a": "float32", "b": "int32"}, {"first": "float32", "second": "int32"})
    body_node(f, "same", "Identity", ["b"], T="int32")
    f.ret["first"] = "a"
    f.ret["second"] = "same:output:0"
    types = {"Tin": ["float32", "int32"], "Tout": ["float32", "int32"]}
    m.node("call", "PartitionedCall", ["rows", "x"], f=function_attr("through"), **types, **CALL)
    gathered(m, "call:1")
    assert set(values(m)) == {0, 1, 2}
    assert fed(executor, m, "y").shape == (N, 2)


@pytest.mark.parametrize("op", ["StatelessIf", "StatelessWhile", "Case"])
def test_an_embedding_in_a_branch_or_a_loop(op: str) -> None:
    m = indices()
    function_of_a_table(m, table_inside=False)
    m.const("true", True, "bool")
    types = {"Tin": ["float32", "int32"], "Tout": ["float32"]}
    branch = function_attr("look_up")
    if op == "StatelessIf":
        m.node("y", op, ["true", "rows", "x"], Tcond="bool", then_branch=branch, else_branch=branch, **types)
    elif op == "Case":
        branches = attr([])
        branches.list.func.add().name = "look_up"
        m.node("y", op, ["zero", "rows", "x"], branches=branches, **types)
    else:
        m.node("y", op, ["rows", "x"], T=["float32", "int32"], cond=branch, body=branch, parallel_iterations=10)
    assert set(values(m)) == {0, 1, 2}


def test_a_function_that_calls_itself_comes_to_an_end() -> None:
    """The table is handed over from call to call: nobody goes back all the way to look at it."""
    m = indices()
    f = m.function("again", {"table": "float32", "a": "int32"}, {"out": "float32"})
    attrs = {"Tin": ["float32", "int32"], "Tout": ["float32"], "f": function_attr("again"), **CALL}
    body_node(f, "axis", "Const", dtype="int32", value=attr_tensor(np.int32(0)))
    types = {"Tparams": "float32", "Tindices": "int32", "Taxis": "int32"}
    body_node(f, "emb", "GatherV2", ["table", "a", "axis:output:0"], **types)
    body_node(f, "call", "PartitionedCall", ["table", "a"], **attrs)
    f.ret["out"] = "call:output:0"
    m.node("y", "PartitionedCall", ["rows", "x"], **attrs)
    assert made(m) == "indices below 3, for GatherV2 'emb'"


@pytest.mark.tensorflow
def test_the_branch_of_a_case_is_one_that_is_there(executor: Executor) -> None:
    m = Builder()
    m.placeholder("x", "int32", ())
    branches = attr([])
    for name in ("one", "two"):
        f = m.function(name, {"a": "float32"}, {"out": "float32"})
        body_node(f, "same", "Neg" if name == "one" else "Square", ["a"], T="float32")
        f.ret["out"] = "same:y:0"
        branches.list.func.add().name = name
    m.const("a", 3.0)
    m.node("y", "StatelessCase", ["x", "a"], Tin=["float32"], Tout=["float32"], branches=branches)
    assert made(m) == "indices below 2, for StatelessCase 'y'"
    assert {float(values(m, sample)) for sample in range(8)} == {0, 1}
    assert float(fed(executor, m, "y")) in (-3, 9)


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
    m.node(
        "y", "SparseToDense", ["x", "shape", "weights", "none"], T="float32", Tindices="int64", validate_indices=True
    )
    dense = fed(executor, m, "y")
    assert dense.shape == (4,) * rank and np.count_nonzero(dense) == 4


@pytest.mark.tensorflow
def test_a_sparse_tensor_of_a_constant_shape(executor: Executor) -> None:
    m = Builder()
    m.placeholder("x", "int64", (6, 2))
    m.const("sides", [2, 3], "int64")
    m.const("ones", np.ones(6))
    m.const("none", 0.0)
    m.node("y", "SparseToDense", ["x", "sides", "ones", "none"], T="float32", Tindices="int64", validate_indices=True)
    assert (fed(executor, m, "y") == np.ones((2, 3))).all()


@pytest.mark.tensorflow
def test_a_sparse_product(executor: Executor) -> None:
    m = sparse_inputs()
    m.const("dense", np.ones((4, 2)))
    m.node("y", "SparseTensorDenseMatMul", ["x", "weights", "shape", "dense"], T="float32", Tindices="int64")
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
    "MirrorPad": (with_input("MirrorPad", DATA, None, T="float32", Tpaddings="int32", mode=b"REFLECT"), (2, 3, 4)),
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
    m.node("y", "NonMaxSuppressionV3", ["boxes", "scores", "most", *limits], T="float32", T_threshold="float32")
    assert fed(executor, m, "y").shape == (2,)


@pytest.mark.tensorflow
def test_a_part_of_a_shape_is_the_size_of_a_batch(executor: Executor) -> None:
    """As a graph has it that is told how many images there are: [n, -1]."""
    m = Builder()
    m.placeholder("x", "int32", ())
    m.placeholder("data", "float32", (-1, 3, 4))
    m.const("rest", -1, "int32")
    m.node("shape", "Pack", ["x", "rest"], T="int32", N=2, axis=0)
    m.node("y", "Reshape", ["data", "shape"], T="float32", Tshape="int32")
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
    assert made(m) == "false and true in turn"
    training = named("train_phase", "bool")
    assert [bool(values(training, sample, "train_phase")) for sample in SAMPLES] == [False, False]


@pytest.mark.models
@pytest.mark.tensorflow
@pytest.mark.skipif(not MTCNN.is_file(), reason=f"the published graph is not there: {MTCNN}")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_detector_finds_something_in_what_is_made_for_it(seed: int, executor: Executor) -> None:
    """Three cascaded networks, each with a threshold: where one lets nothing through, all outputs are empty."""
    graph = gds.load(str(MTCNN))
    executor.load_source("mtcnn", graph)
    subject = Subject(executor, "mtcnn", graph, overrides=Overrides())
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
        executor.wait(executor.run("mtcnn", "found", feeds, ["prob", "landmarks", "box"]))
        shapes = [executor.tensor("found", i).shape for i in range(3)]
        assert len({shape[0] for shape in shapes}) == 1
        found.append(shapes[0][0])
    executor.unload("mtcnn")
    assert 0 < max(found) < 100
