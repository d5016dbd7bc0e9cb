"""compat: lists of tensors as TensorArrays, in loops of version 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    add,
    const,
    define,
    dtypes,
    func,
    library,
    node,
    placeholder,
    scalar,
)
from support.older import check_reason, older, same

LIST = "variant"
OF = {"element_dtype": FLOAT}
STATE = {"i": INT32, "n": INT32, "given": LIST, "out": LIST, "last": LIST}
LESS = define("less", STATE, {"go": (BOOL, "l:z:0")}, node("l", "Less", ["i", "n"], T=INT32))
STEP = define(
    "step", STATE,
    {"a": (INT32, "j:z:0"), "b": (INT32, "n"), "c": (LIST, "given"), "d": (LIST, "set:output_handle:0"),
     "e": (LIST, "kept:output_handle:0")},
    scalar("one", 1, INT32), scalar("zero", 0, INT32), const("es", [2], INT32),
    add("j", "i", "one:output:0", kind=INT32), node("get", "TensorListGetItem", ["given", "i", "es:output:0"], **OF),
    node("square", "Mul", ["get:item:0", "get:item:0"], T=FLOAT),
    node("set", "TensorListSetItem", ["out", "i", "square:z:0"], **OF),
    node("kept", "TensorListSetItem", ["last", "zero:output:0", "square:z:0"], **OF),
)  # fmt: skip
MADE = [
    placeholder("x", shape=(-1, 2)), placeholder("n", INT32, ()), scalar("zero", 0, INT32), scalar("one", 1, INT32),
    const("es", [2], INT32), node("given", "TensorListFromTensor", ["x", "es"], **OF, shape_type=INT32),
    node("out", "TensorListReserve", ["es", "n"], **OF, shape_type=INT32),
    node("last", "TensorListReserve", ["es", "one"], **OF, shape_type=INT32, _output_shapes=[()]),
]  # fmt: skip
ENDS = [
    node("all", "TensorListStack", ["while:3", "es"], **OF),
    node("only", "TensorListStack", ["while:4", "es"], **OF, num_elements=1),
    node("places", "TensorListLength", ["while:3"]),
]


def loop(state: Sequence[str] = ("zero", "n", "given", "out", "last")) -> bytes:
    return node("while", "StatelessWhile", state, cond=func("less"), body=func("step"), T=dtypes(*STATE.values()))


def fed(*rows: int) -> list[dict[str, Any]]:
    return [{"x": np.arange(2 * n, dtype=np.float32).reshape(n, 2), "n": n} for n in rows]


@pytest.mark.tensorflow
@pytest.mark.parametrize("target", ["1.4", "1.12"])
def test_lists_that_go_round(target: str) -> None:
    """One is read, one written place by place, and one of one place again and again; no time, once, five times."""
    records = [*MADE, loop(), *ENDS, library(LESS, STEP)]
    found = same(records, target, "all", "only", "places", feeds=fed(0, 1, 5))
    assert not [op for op in graphs.ops(found).values() if op.startswith("TensorList")]
    entered = [n for n in graphs.parsed(found).node if n.op == "Enter" and n.attr["is_constant"].b]
    assert len(entered) == 2 and {n.attr["frame_name"].s for n in entered} == {b"while"}


@pytest.mark.tensorflow
def test_a_list_that_is_written_before_the_loop() -> None:
    """As tf.scan does: the first place is written in front, read behind, and the loop begins with the second."""
    first = [
        node("first", "TensorListGetItem", ["given", "zero", "es"], **OF),
        node("begun", "TensorListSetItem", ["out", "zero", "first"], **OF),
    ]
    again = node("again", "TensorListGetItem", ["while:3", "zero", "es"], **OF)
    records = [*MADE, *first, loop(["one", "n", "given", "begun", "last"]), *ENDS, again, library(LESS, STEP)]
    same(records, "1.4", "all", "again", feeds=fed(1, 2, 4))


@pytest.mark.tensorflow
def test_a_list_that_grows_as_it_is_written() -> None:
    """As tf.TensorArray(dynamic_size=True) is in TensorFlow 2: it begins with no places."""
    begun = node("begun", "TensorListReserve", ["es", "zero"], **OF, shape_type=INT32)
    grows = {**OF, "resize_if_index_out_of_bounds": True}
    first = node("first", "TensorListGetItem", ["given", "zero", "es"], **OF)
    grown = [node("a", "TensorListSetItem", ["begun", "zero", "first"], **grows),
             node("b", "TensorListSetItem", ["a", "one", "first"], **grows)]  # fmt: skip
    records = [*MADE, begun, first, *grown, node("all", "TensorListStack", ["b", "es"], **OF)]
    found = same(records, "1.4", "all", feeds=[{"x": np.ones((1, 2), np.float32), "n": 1}])
    arrays = [each for each in graphs.parsed(found).node if each.op == "TensorArrayV3"]
    assert [each.name for each in arrays if each.attr["dynamic_size"].b] == ["begun/array"]


def test_releases_that_have_them_keep_them() -> None:
    found = older([*MADE, loop(), *ENDS, library(LESS, STEP)], "1.15")
    assert graphs.ops(found)["given"] == "TensorListFromTensor" and graphs.ops(found)["while"] == "StatelessWhile"


TWO = [node("s", "Switch", ["out", "p"], T=LIST), placeholder("p", BOOL, ()),
       node("m", "Merge", ["s", "given"], T=LIST, N=2)]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "code", "facts"),
    [
        ([node("pushed", "TensorListPushBack", ["out", "x"], **OF)], "unsupported-op",
         {"node": "pushed", "op": "TensorListPushBack"}),
        ([node("asked", "TensorListLength", ["last"])], "value-unknown", {"node": "asked"}),
        (TWO, "several-lists", {"tensor": "m"}),
    ],
)  # fmt: skip
def test_what_no_array_can_be_is_refused(records: list[bytes], code: str, facts: dict[str, str]) -> None:
    check_reason([*MADE, *records], "1.4", code, **facts)
