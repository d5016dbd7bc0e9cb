"""Numbers that are fed: an index is one that is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.feeding import SAMPLES, fed, gather, made, returned, values
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    RESOURCE,
    Builder,
    call,
    const,
    define,
    func,
    function,
    identity,
    library,
    node,
    placeholder,
    typed,
)

from gdsurgeon.proof.executor import Executor

N = 60


def indices(*records: bytes, shape: tuple[int, ...] = (N,), dtype: str = "int32") -> Builder:
    """A graph of the indices `x`, constants such as the table `rows`, and RECORDS."""
    constants = [const("rows", np.arange(6.0).reshape(3, 2)), const("zero", 0, INT32), const("one", 1, INT32)]
    return Builder(placeholder("x", dtype, shape), *constants, *records)


def gathered(index: str = "x", name: str = "y", table: str = "rows", axis: str = "zero") -> bytes:
    return gather(name, table, index, axis)


def segment_op(op: str, *, of: str = "indices", count: bool = False) -> Builder:
    inputs = ["rows", "x", "others"] if of == "indices" else ["rows", "others", "x"]
    types: dict[str, Any] = {"Tidx": "int32", "Tsegmentids": "int32", **({"Tnumsegments": "int32"} if count else {})}
    constants = [const("others", np.zeros(N), INT32), const("count", 3, INT32)]
    return indices(*constants, typed(op, "y", *inputs, *(["count"] if count else []), **types))


def plain_segments(op: str) -> Builder:
    more: dict[str, Any] = {"Tnumsegments": "int32"} if op.startswith("Unsorted") else {}
    segments = typed(op, "y", "data", "x", *(["count"] if more else []), Tindices="int32", **more)
    return indices(const("data", np.ones((N, 2))), const("count", 3, INT32), segments)


def scatter_nd(op: str) -> Builder:
    inputs = ["x", "updates", "shape"] if op == "ScatterNd" else ["rows", "x", "updates"]
    constants = [const("updates", np.ones((N, 2))), const("shape", [3, 2], INT32)]
    return indices(*constants, typed(op, "y", *inputs, Tindices="int32"), shape=(N, 1))


def column() -> Builder:
    """Of rows of indices, the second column."""
    bounds = {"begin": [0, 1], "end": [0, 2], "steps": [1, 1]}
    masks = {"begin_mask": 1, "end_mask": 1, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 2}
    strided = typed("StridedSlice", "column", "x", *bounds, kind=INT32, Index="int32", **masks)
    return indices(*(const(name, at, INT32) for name, at in bounds.items()), strided, gathered("column"), shape=(N, 2))


def cast(dtype: str) -> bytes:
    return node("cast", "Cast", ["x"], SrcT=dtype, DstT="int32")


INDICES: dict[str, Builder] = {
    "GatherNd": indices(node("y", "GatherNd", ["rows", "x"], Tparams="float32", Tindices="int32"), shape=(N, 2)),
    "SparseSegmentSum": segment_op("SparseSegmentSum"),
    "SparseSegmentMean": segment_op("SparseSegmentMean"),
    "SparseSegmentSqrtN": segment_op("SparseSegmentSqrtN"),
    "SparseSegmentSumWithNumSegments": segment_op("SparseSegmentSumWithNumSegments", count=True),
    "its segments": segment_op("SparseSegmentSumWithNumSegments", of="segments", count=True),
    "SegmentSum": plain_segments("SegmentSum"),
    "SegmentMax": plain_segments("SegmentMax"),
    "UnsortedSegmentSum": plain_segments("UnsortedSegmentSum"),
    "ScatterNd": scatter_nd("ScatterNd"),
    "TensorScatterUpdate": scatter_nd("TensorScatterUpdate"),
    "DynamicPartition": indices(
        const("data", np.ones((N, 2))),
        typed("DynamicPartition", "parts", "data", "x", num_partitions=3),
        identity("y", "parts:2"),
    ),
    "SparseSoftmaxCrossEntropyWithLogits": indices(
        const("logits", np.zeros((N, 3))),
        typed("SparseSoftmaxCrossEntropyWithLogits", "y", "logits", "x", Tlabels="int32"),
    ),
    "unique": indices(typed("Unique", "unique", "x", kind=INT32, out_idx="int32"), gathered("unique")),
    "column": column(),
    # The table is no constant; its shape follows from one: two rows.
    "computed table": indices(
        const("order", [1, 0], INT32),
        typed("Transpose", "turned", "rows", "order", Tperm="int32"),
        gathered(table="turned"),
    ),
    # The constant has more rows than columns, and columns are chosen.
    "another axis": indices(const("table", np.ones((9, 2))), gathered(table="table", axis="one")),
    # As Keras has an embedding behind an input of no dtype of its own.
    "float indices": indices(cast("float32"), gathered("cast"), dtype="float32"),
    "two tables": indices(
        const("more", np.ones((20, 2))), gathered(name="first", table="more"), gathered(name="second")
    ),
}


MOST = {"GatherNd": 1, "computed table": 1, "another axis": 1}


@pytest.mark.tensorflow
@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("how", sorted(INDICES))
def test_an_index_is_one_that_is_there(how: str, sample: int, executor: Executor) -> None:
    """Sixty of them: where they were any small numbers, TensorFlow would refuse one, or what it gives would be NaN."""
    m = INDICES[how]
    for name, value in returned(executor, m, sample=sample).items():
        assert np.isfinite(value.numpy()).all(), name
    fed = values(m, sample)
    assert fed.min() == 0 and 0 < fed.max() <= MOST.get(how, 3)


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("how", ["its segments", "SegmentSum"])
def test_segments_ascend(how: str, sample: int) -> None:
    fed = values(INDICES[how], sample)
    assert (np.diff(fed) >= 0).all() and len(set(fed)) > 2


@pytest.mark.tensorflow
def test_what_is_made_one_hot_is_hot(executor: Executor) -> None:
    one_hot = typed("OneHot", "y", "x", "depth", "on", "off", TI="int32", axis=-1)
    m = indices(const("depth", 3, INT32), const("on", 1.0), const("off", 0.0), one_hot)
    assert (fed(executor, m, "y").sum(axis=1) == 1).all()
    assert made(m) == "indices below 3, for OneHot 'y'"


HANDLE = node("table", "VarHandleOp", dtype="float32", shape=(5, 2), container="", shared_name="")


def test_a_resource_says_how_many_rows_it_has() -> None:
    m = indices(HANDLE, node("y", "ResourceGather", ["table", "x"], dtype="float32", Tindices="int32"))
    assert set(values(m)) == {0, 1, 2, 3, 4}


EMBEDDING = [
    cast("float32"),
    const("zero", 0, INT32),
    typed("Less", "below", "cast:y:0", "zero:output:0", kind=INT32),
    typed("SelectV2", "index", "below:z:0", "zero:output:0", "cast:y:0", kind=INT32),
    node("read", "ReadVariableOp", ["table"], dtype="float32"),
    gathered("index:output:0", table="read:value:0", axis="zero:output:0"),
]
"""The body of a function of indices and a table."""


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_an_embedding_behind_calls_says_how_many_rows_it_has(depth: int) -> None:
    """As Keras has it: negative indices count from the end, and the table is a variable that is an argument."""
    ends: Any = ["x", "table"], [FLOAT, RESOURCE], [FLOAT]
    m = Builder(placeholder("x", FLOAT, (N,)), HANDLE)
    for level in range(depth):
        body = [call("y", f"f{level - 1}", *ends, stateful=True)] if level else EMBEDDING
        f = define(f"f{level}", {"x": FLOAT, "table": RESOURCE}, {"y": (FLOAT, "y:output:0")}, *body)
        m.add("", library(f))
    if depth:
        m.add("y", call("y", f"f{depth - 1}", *ends, stateful=True))
    else:
        m.add("cast", cast("float32"))
        m.node("y", "ResourceGather", ["table", "cast"], dtype="float32", Tindices="int32")
    assert set(values(m)) == {0, 1, 2, 3, 4}


def test_the_rows_of_a_reference_variable() -> None:
    variable = node("table", "VariableV2", dtype="float32", shape=(5, 2), container="", shared_name="")
    assert set(values(indices(variable, identity("read", "table"), gathered(table="read")))) == {0, 1, 2, 3, 4}


def test_of_a_table_of_unknown_length_the_first_row_is_taken() -> None:
    m = indices(placeholder("table", FLOAT, (-1, 4)), gathered(table="table"))
    assert set(values(m)) == {0}
    assert made(m) == "index 0, for GatherV2 'y'"


def test_an_index_of_bytes_stays_in_a_byte() -> None:
    m = indices(cast("int8"), const("long", np.ones((3000, 1))), gathered("cast", table="long"), dtype="int8")
    assert 50 < values(m).max() < 128


@pytest.mark.tensorflow
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_scalar_index_is_one_that_is_there(sample: int, executor: Executor) -> None:
    assert fed(executor, indices(gathered(), shape=()), "y", sample).shape == (2,)


def look_up(*, table_inside: bool = False) -> bytes:
    """A library with a function of a table and an index."""
    args = {"index": INT32} if table_inside else {"table": FLOAT, "index": INT32}
    table = "table:output:0" if table_inside else "table"
    body = [
        const("axis", 0, INT32),
        identity("same", "index", kind=INT32),
        gathered("same:output:0", "emb", table, "axis:output:0"),
    ]
    if table_inside:
        body.append(const("table", np.ones((3, 2))))
    return library(define("look_up", args, {"out": (FLOAT, "emb:output:0")}, *body))


OF_A_TABLE: Any = [FLOAT, INT32], [FLOAT]


@pytest.mark.tensorflow
@pytest.mark.parametrize("table_inside", [True, False])
def test_an_embedding_in_a_function(table_inside: bool, executor: Executor) -> None:
    """The table is a constant of the body, or one of the graph that is handed over."""
    called = (
        call("y", "look_up", ["x"], [INT32], [FLOAT])
        if table_inside
        else call("y", "look_up", ["rows", "x"], *OF_A_TABLE)
    )
    m = indices(called, look_up(table_inside=table_inside))
    assert fed(executor, m, "y").shape == (N, 2)
    assert set(values(m)) == {0, 1, 2}
    assert made(m) == "indices below 3, for GatherV2 'emb'"


@pytest.mark.tensorflow
def test_an_argument_of_another_name_is_not_mistaken(executor: Executor) -> None:
    """Two inputs go into one call: only the second is an index."""
    m = indices(placeholder("data", FLOAT, (3, 2)), call("y", "look_up", ["data", "x"], *OF_A_TABLE), look_up())
    assert set(values(m)) == {0, 1, 2}
    assert len(set(values(m, name="data").reshape(-1))) == 6
    assert fed(executor, m, "y").shape == (N, 2)


@pytest.mark.tensorflow
def test_an_index_that_a_function_gives_back(executor: Executor) -> None:
    """The function only hands it through, as a layer that does nothing; the table is outside."""
    outputs = {"first": (FLOAT, "a"), "second": (INT32, "same:output:0")}
    through = define("through", {"a": FLOAT, "b": INT32}, outputs, identity("same", "b", kind=INT32))
    called = call("call", "through", ["rows", "x"], [FLOAT, INT32], [FLOAT, INT32])
    m = indices(called, gathered("call:1"), library(through))
    assert set(values(m)) == {0, 1, 2}
    assert fed(executor, m, "y").shape == (N, 2)


TYPES: dict[str, Any] = {"Tin": ["float32", "int32"], "Tout": ["float32"]}


LOOK_UP = func("look_up")


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("StatelessIf", ["true"], {"Tcond": "bool", "then_branch": LOOK_UP, "else_branch": LOOK_UP, **TYPES}),
        ("StatelessWhile", [], {"T": TYPES["Tin"], "cond": LOOK_UP, "body": LOOK_UP, "parallel_iterations": 10}),
        ("Case", ["zero"], {"branches": [LOOK_UP], **TYPES}),
    ],
)
def test_an_embedding_in_a_branch_or_a_loop(op: str, inputs: list[str], attrs: dict[str, Any]) -> None:
    m = indices(const("true", True, BOOL), node("y", op, [*inputs, "rows", "x"], **attrs), look_up())
    assert set(values(m)) == {0, 1, 2}


def test_a_function_that_calls_itself_comes_to_an_end() -> None:
    """Each call passes the table to the next call; the search does not follow all of them back."""
    f = define(
        "again",
        {"table": FLOAT, "a": INT32},
        {"out": (FLOAT, "call:output:0")},
        const("axis", 0, INT32),
        gathered("a", "emb", "table", "axis:output:0"),
        call("call", "again", ["table", "a"], *OF_A_TABLE),
    )
    m = indices(call("y", "again", ["rows", "x"], *OF_A_TABLE), library(f))
    assert made(m) == "indices below 3, for GatherV2 'emb'"


@pytest.mark.tensorflow
def test_the_branch_of_a_case_is_one_that_is_there(executor: Executor) -> None:
    branches = {"one": "Neg", "two": "Square"}
    functions = [function(name, typed(op, "y", "x")) for name, op in branches.items()]
    case = node("y", "StatelessCase", ["x", "a"], Tin=["float32"], Tout=["float32"], branches=[*map(func, branches)])
    m = Builder(placeholder("x", INT32, ()), const("a", 3.0), case, library(*functions))
    assert made(m) == "indices below 2, for StatelessCase 'y'"
    assert {float(values(m, sample)) for sample in range(8)} == {0, 1}
    assert float(fed(executor, m, "y")) in (-3, 9)
