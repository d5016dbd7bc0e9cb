"""Numbers that are fed: an index is one that is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.feeding import CALL, SAMPLES, fed, made, returned, values
from support.graphs import Builder, body_node, func, tensor

from gdsurgeon.proof.executor import Executor

N = 60
TAKEN: Any = {"Tin": ["float32", "resource"], "Tout": ["float32"]}


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
    m.typed("DynamicPartition", "parts", "data", "x", num_partitions=3)
    m.typed("Identity", "y", "parts:2")
    return m


def labels() -> Builder:
    m = indices()
    m.const("logits", np.zeros((N, 3)))
    m.typed("SparseSoftmaxCrossEntropyWithLogits", "y", "logits", "x", Tlabels="int32")
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
    m.typed("Transpose", "turned", "rows", "order", Tperm="int32")
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


def another_axis() -> Builder:
    """The constant has more rows than columns, and columns are chosen."""
    m = indices()
    m.const("table", np.ones((9, 2)))
    types = {"Tparams": "float32", "Tindices": "int32", "Taxis": "int32"}
    m.node("y", "GatherV2", ["table", "x", "one"], **types)
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
    "another axis": another_axis,
    "float indices": float_indices,
    "two tables": two_tables,
}


MOST = {"GatherNd": 1, "computed table": 1, "another axis": 1}


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
    m.typed("OneHot", "y", "x", "depth", "on", "off", TI="int32", axis=-1)
    assert (fed(executor, m, "y").sum(axis=1) == 1).all()
    assert made(m) == "indices below 3, for OneHot 'y'"


def test_a_resource_says_how_many_rows_it_has() -> None:
    m = indices()
    m.node("table", "VarHandleOp", dtype="float32", shape=(5, 2), container="", shared_name="")
    m.node("y", "ResourceGather", ["table", "x"], dtype="float32", Tindices="int32")
    assert set(values(m)) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_an_embedding_behind_calls_says_how_many_rows_it_has(depth: int) -> None:
    """As Keras has it: negative indices count from the end, and the table is a variable that is an argument."""
    m = Builder()
    m.placeholder("x", "float32", (N,))
    table = m.node("table", "VarHandleOp", dtype="float32", shape=(5, 2), container="", shared_name="")
    for level in range(depth):
        f = m.function(f"f{level}", {"x": "float32", "table": "resource"}, {"y": "float32"})
        if level:
            body_node(f, "y", "StatefulPartitionedCall", ["x", "table"], f=func(f"f{level - 1}"), **TAKEN)
            f.ret["y"] = "y:output:0"
            continue
        body_node(f, "cast", "Cast", ["x"], SrcT="float32", DstT="int32")
        body_node(f, "zero", "Const", [], dtype="int32", value=tensor(0, "int32"))
        body_node(f, "below", "Less", ["cast:y:0", "zero:output:0"], T="int32")
        body_node(f, "index", "SelectV2", ["below:z:0", "zero:output:0", "cast:y:0"], T="int32")
        body_node(f, "read", "ReadVariableOp", ["table"], dtype="float32")
        types = {"Tparams": "float32", "Tindices": "int32", "Taxis": "int32"}
        body_node(f, "y", "GatherV2", ["read:value:0", "index:output:0", "zero:output:0"], **types)
        f.ret["y"] = "y:output:0"
    if depth:
        m.node("y", "StatefulPartitionedCall", ["x", table], f=func(f"f{depth - 1}"), **TAKEN)
    else:
        m.node("cast", "Cast", ["x"], SrcT="float32", DstT="int32")
        m.node("y", "ResourceGather", [table, "cast"], dtype="float32", Tindices="int32")
    assert set(values(m)) == {0, 1, 2, 3, 4}


def test_the_rows_of_a_reference_variable() -> None:
    m = indices()
    m.node("table", "VariableV2", dtype="float32", shape=(5, 2), container="", shared_name="")
    m.typed("Identity", "read", "table")
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
    return {"Tin": list(args.values()), "Tout": ["float32"], "f": func("look_up"), **CALL}


def attr_tensor(array: Any) -> Any:
    from support.graphs import tensor

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
    m.node("call", "PartitionedCall", ["rows", "x"], f=func("through"), **types, **CALL)
    gathered(m, "call:1")
    assert set(values(m)) == {0, 1, 2}
    assert fed(executor, m, "y").shape == (N, 2)


@pytest.mark.parametrize("op", ["StatelessIf", "StatelessWhile", "Case"])
def test_an_embedding_in_a_branch_or_a_loop(op: str) -> None:
    m = indices()
    function_of_a_table(m, table_inside=False)
    m.const("true", True, "bool")
    types = {"Tin": ["float32", "int32"], "Tout": ["float32"]}
    branch = func("look_up")
    if op == "StatelessIf":
        m.node("y", op, ["true", "rows", "x"], Tcond="bool", then_branch=branch, else_branch=branch, **types)
    elif op == "Case":
        m.node("y", op, ["zero", "rows", "x"], branches=[branch], **types)
    else:
        m.node("y", op, ["rows", "x"], T=["float32", "int32"], cond=branch, body=branch, parallel_iterations=10)
    assert set(values(m)) == {0, 1, 2}


def test_a_function_that_calls_itself_comes_to_an_end() -> None:
    """Each call passes the table to the next call; the search does not follow all of them back."""
    m = indices()
    f = m.function("again", {"table": "float32", "a": "int32"}, {"out": "float32"})
    attrs = {"Tin": ["float32", "int32"], "Tout": ["float32"], "f": func("again"), **CALL}
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
    for name in ("one", "two"):
        f = m.function(name, {"a": "float32"}, {"out": "float32"})
        body_node(f, "same", "Neg" if name == "one" else "Square", ["a"], T="float32")
        f.ret["out"] = "same:y:0"
    m.const("a", 3.0)
    m.node("y", "StatelessCase", ["x", "a"], Tin=["float32"], Tout=["float32"], branches=[func("one"), func("two")])
    assert made(m) == "indices below 2, for StatelessCase 'y'"
    assert {float(values(m, sample)) for sample in range(8)} == {0, 1}
    assert float(fed(executor, m, "y")) in (-3, 9)
