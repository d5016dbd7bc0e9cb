"""Substituted values: what is said of the runs."""

from __future__ import annotations

import pytest
from support.graphs import Builder, body_node
from support.spoiling import caught, proven, spoilt

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor

pytestmark = pytest.mark.tensorflow


def test_a_batch_that_the_edited_graph_does_not_take_is_not_counted(executor: Executor) -> None:
    m = Builder()
    m.placeholder("x", "float32", (-1, 4))
    m.const("one", [1, 4], "int32")
    m.node("rows", "Reshape", ["x", "one"], T="float32", Tshape="int32")
    m.node("n", "Neg", ["rows"], T="float32")
    m.node("y", "Exp", ["n"], T="float32")
    m.node("side", "Relu", ["x"], T="float32")
    part = Builder()
    part.placeholder("in", "float32")
    part.node("out", "Abs", ["in"], T="float32")
    proof = proven(executor, m, lambda g: gds.insert(g, "n", part.graph()))
    assert proof.samples == 2 and proof.batches == [1]


def test_a_part_behind_what_draws_in_a_function_is_fed_in_the_shape_that_tensorflow_knows(executor: Executor) -> None:
    m = Builder()
    m.placeholder("x", "float32", (-1, 4))
    noise = m.function("noise", {"a": "float32"}, {"b": "float32"})
    body_node(noise, "shape", "Shape", ["a"], T="float32", out_type="int32")
    body_node(noise, "drawn", "RandomUniform", ["shape:output:0"], T="int32", dtype="float32")
    body_node(noise, "sum", "AddV2", ["a", "drawn:output:0"], T="float32")
    noise.ret["b"] = "sum:z:0"
    call = m.graph_def.node.add(name="noisy", op="StatefulPartitionedCall", input=["x"])
    call.attr["f"].func.name = "noise"
    call.attr["Tin"].list.type.append(1)
    call.attr["Tout"].list.type.append(1)
    m.node("y", "Neg", ["noisy"], T="float32")
    m.node("beside", "Exp", ["x"], T="float32")
    part = Builder()
    part.placeholder("in", "float32")
    part.node("out", "Abs", ["in"], T="float32")

    def edit(g: Graph) -> EditResult:
        return gds.insert(g, "noisy", part.graph())

    assert {"out", "beside"} <= {output.after for output in proven(executor, m, edit).compared}
    assert caught(executor, m, spoilt(edit, lambda g, _: g.set_op(g["out"], "Neg"))).exit_code == 5


def test_one_image_is_one_text_where_the_shape_of_the_raw_input_is_unknown(executor: Executor) -> None:
    m = Builder()
    m.placeholder("x", "float32", (-1, -1, 3))
    m.node("y", "Neg", ["x"], T="float32")
    pre = Builder()
    pre.placeholder("x", "string")
    pre.node("decoded", "DecodeJpeg", ["x"], channels=3)
    pre.node("x_preprocessed", "Cast", ["decoded"], SrcT="uint8", DstT="float32")
    proof = proven(executor, m, lambda g: gds.add_preprocessing(g, pre.graph()))
    assert proof.feeds["x"].startswith("string []")
