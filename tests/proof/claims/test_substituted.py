"""Substituted values: what is said of the runs."""

from __future__ import annotations

import pytest
from support.spoiling import proven
from support.tf_graphs import Builder

import gdsurgeon as gds
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
