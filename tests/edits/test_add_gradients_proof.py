"""add-gradients: what the proof of added gradients finds and says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.adding_gradients import (
    LONG,
    Lab,
    chain,
    equal,
    numbers,
    placeholder,
)
from support.desk import check_error
from support.graphs import Builder
from support.operating import operated, refused

from gdsurgeon.feeds.overrides import Overrides

pytestmark = pytest.mark.tensorflow


def conditional(tf: Any) -> None:
    sides = tf.raw_ops.Switch(data=placeholder(tf), pred=tf.compat.v1.placeholder(tf.bool, (), "chosen"))
    inside = tf.identity(sides.output_true, name="inside")
    merged = tf.raw_ops.Merge(inputs=[sides.output_false * 0.5, tf.tanh(inside)]).output
    tf.reduce_sum(merged * 3.0, name="y")


@pytest.mark.parametrize("taken", ["true", "false"])
def test_gradients_through_a_conditional_of_version_1_are_compared(lab: Lab, tmp_path: Path, taken: str) -> None:
    overrides = Overrides({"chosen": taken})
    done = operated(tmp_path, lab.built(conditional), lab.adding(["y"], ["x"]), overrides=overrides)
    assert "gradients/x" in {output.after for output in done.proof.compared}


def test_gradients_that_cannot_be_compared_are_not_called_proven(lab: Lab, tmp_path: Path) -> None:
    data = lab.built(conditional)
    error = refused(tmp_path, data, lab.adding(["y"], ["inside"]))
    check_error(error, "nothing-comparable", {"tensors": ["gradients/inside"]})
    done = operated(tmp_path, data, lab.adding(["y"], ["inside", "x"]))
    assert [warning.facts["name"] for warning in done.warnings] == ["gradients/inside"]


def test_a_tolerance_that_is_given(lab: Lab, tmp_path: Path) -> None:
    done = operated(tmp_path, lab.built(chain), lab.adding(["y"], ["x"], rtol=1e-6))
    assert done.proof.rtol == 1e-6 and done.proof.atol == 0.0


def sum_of_several() -> Builder:
    """Terms of an AddN that are kept for the backward pass, and one that is not."""
    m = Builder()
    m.placeholder("x", shape=(LONG,))
    m.const("five", 5.0)
    m.node("a", "Tanh", ["x"], T="float32")
    m.node("b", "Mul", ["x", "five"], T="float32")
    m.node("sum", "AddN", ["x", "a", "b"], T="float32", N=3)
    m.node("y", "Sin", ["sum"], T="float32")
    return m


def test_the_proof_of_a_graph_with_a_sum_of_several(lab: Lab, tmp_path: Path) -> None:
    lab.same(sum_of_several().bytes(), ["y"], ["x"], {"x": numbers(LONG)})
    assert operated(tmp_path, sum_of_several(), lab.adding(["y"], ["x"])).proof.compared


def test_outputs_of_a_graph_with_a_sum_of_several(lab: Lab) -> None:
    """AddN begins with an input over which it may write: on its own the output must not show who else reads others."""
    feeds = {"x": numbers(LONG)}
    made = lab.edit(sum_of_several(), ["y"], ["x"])
    equal(lab.run(made, ["y"], feeds), lab.run(sum_of_several().bytes(), ["y"], feeds))
