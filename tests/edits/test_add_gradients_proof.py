"""add-gradients: what the proof of added gradients finds and says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.adding_gradients import (
    LONG,
    Lab,
    attention,
    chain,
    convolutions,
    dropping,
    equal,
    mlp,
    numbers,
    placeholder,
    small,
    version_2_flow,
)
from support.graphs import Builder, names
from support.operating import operated

from gdsurgeon.edits.add_gradients import add_gradients
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import GdsurgeonError, NotValidatedError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("taken", ["true", "false"])
def test_gradients_through_a_conditional_of_version_1_are_compared(lab: Lab, tmp_path: Path, taken: str) -> None:
    def build(tf: Any) -> None:
        sides = tf.raw_ops.Switch(data=placeholder(tf), pred=tf.compat.v1.placeholder(tf.bool, (), "chosen"))
        merged = tf.raw_ops.Merge(inputs=[sides.output_false * 0.5, tf.tanh(sides.output_true)]).output
        tf.reduce_sum(merged * 3.0, name="y")

    m = Builder()
    m.graph_def.ParseFromString(lab.built(build))
    done = operated(
        tmp_path,
        m,
        lambda graph: add_gradients(graph, ["y"], ["x"], differentiator=lab.differentiator),
        overrides=Overrides({"chosen": taken}),
    )
    assert "gradients/x" in {output.after for output in done.proof.compared}


def test_gradients_that_cannot_be_compared_are_not_called_proven(lab: Lab, tmp_path: Path) -> None:
    def build(tf: Any) -> None:
        sides = tf.raw_ops.Switch(data=placeholder(tf), pred=tf.compat.v1.placeholder(tf.bool, (), "chosen"))
        inside = tf.identity(sides.output_true, name="inside")
        merged = tf.raw_ops.Merge(inputs=[sides.output_false * 0.5, tf.tanh(inside)]).output
        tf.reduce_sum(merged * 3.0, name="y")

    m = Builder()
    m.graph_def.ParseFromString(lab.built(build))

    def edit(*xs: str) -> Callable[[Graph], EditResult]:
        return lambda graph: add_gradients(graph, ["y"], xs, differentiator=lab.differentiator)

    with pytest.raises(NotValidatedError, match=r"no gradient could be compared.*branch"):
        operated(tmp_path, m, edit("inside"))
    done = operated(tmp_path, m, edit("inside", "x"))
    assert any("not all gradients were compared" in warning for warning in done.warnings)


def test_a_tolerance_that_is_given(lab: Lab, tmp_path: Path) -> None:
    m = Builder()
    m.graph_def.ParseFromString(lab.built(chain))
    done = operated(tmp_path, m, lambda g: add_gradients(g, ["y"], ["x"], rtol=1e-6, differentiator=lab.differentiator))
    assert done.proof.rtol == 1e-6 and done.proof.atol == 0.0


@pytest.mark.parametrize("checkpoints", ["none", ["a"]], ids=str)
def test_the_proof(lab: Lab, tmp_path: Path, checkpoints: Any) -> None:
    m = Builder()
    m.placeholder("x", shape=(LONG,))
    m.node("a", "Sin", ["x"], T="float32")
    m.node("b", "Mul", ["a", "x"], T="float32")
    m.node("c", "Sin", ["b"], T="float32")
    m.node("y", "Tanh", ["c"], T="float32")
    done = operated(
        tmp_path,
        m,
        lambda graph: add_gradients(
            graph, ["y"], ["x", "b"], checkpoints=checkpoints, names=["dx", "db"], differentiator=lab.differentiator
        ),
    )
    assert done.proof is not None and "tf.gradients" in done.proof.statement
    assert {"dx", "db"} <= set(names((tmp_path / "out.pb").read_bytes()))


@pytest.mark.parametrize("build", [mlp, convolutions, attention, version_2_flow, dropping])
@pytest.mark.parametrize("checkpoints", ["none", "memory"])
def test_the_proof_of_networks(lab: Lab, tmp_path: Path, build: Callable[[Any], None], checkpoints: str) -> None:
    m = Builder()
    m.graph_def.ParseFromString(lab.built(build))
    y = m.graph_def.node[-1].name
    done = operated(
        tmp_path,
        m,
        lambda graph: add_gradients(graph, [y], ["x"], checkpoints=checkpoints, differentiator=lab.differentiator),
    )
    assert done.proof is not None and "gradients/x" in str(done.proof.compared)


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
    done = operated(
        tmp_path,
        sum_of_several(),
        lambda graph: add_gradients(graph, ["y"], ["x"], differentiator=lab.differentiator),
    )
    assert done.proof is not None


def test_outputs_of_a_graph_with_a_sum_of_several(lab: Lab) -> None:
    """AddN begins with an input over which it may write: on its own the output must not show who else reads others."""
    feeds = {"x": numbers(LONG)}
    made = lab.edit(sum_of_several(), ["y"], ["x"])
    equal(lab.run(made, ["y"], feeds), lab.run(sum_of_several().bytes(), ["y"], feeds))


def test_the_proof_finds_a_wrong_gradient(lab: Lab, tmp_path: Path) -> None:
    m = small()

    def wrong(graph: Graph) -> EditResult:
        result = add_gradients(graph, ["y"], ["x", "sum"], names=["dx", "ds"], differentiator=lab.differentiator)
        dx = graph["dx"]
        graph.set_inputs(dx, [graph.output("x")])
        return result

    with pytest.raises(GdsurgeonError) as caught:
        operated(tmp_path, m, wrong)
    assert caught.value.exit_code == 5
    assert not (tmp_path / "out.pb").exists()
