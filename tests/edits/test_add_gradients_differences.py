"""Gradients that the code which makes them gets wrong are found from outside: by what was asked, and by differences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.adding_gradients import Lab, chain, placeholder
from support.desk import check_error
from support.graphs import Builder
from support.operating import operated, refused
from support.spoiling import Edit

import gdsurgeon.edits.add_gradients
import gdsurgeon.gradients.request
import gdsurgeon.proof.claims.gradients
from gdsurgeon.errors import ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.gradients.weights import weights_of
from gdsurgeon.proof.change import edited
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.runtime.differentiation.gradients import Derivation
from gdsurgeon.wire.write import read_chunks

pytestmark = pytest.mark.tensorflow


def model() -> Builder:
    """y = sin(x w) and z = x^2 v."""
    m = Builder()
    m.placeholder("x", shape=(8,))
    m.placeholder("g", shape=(8,))
    m.placeholder("h", shape=(8,))
    m.const("w", [1.5, -2.0, 0.5, 3.0, 1.0, -0.5, 2.0, 0.25])
    m.const("v", [0.5, 2.0, -1.5, 1.0, 3.0, 0.75, -2.0, 1.25])
    m.node("xw", "Mul", ["x", "w"], T="float32")
    m.node("y", "Sin", ["xw"], T="float32")
    m.node("xx", "Square", ["x"], T="float32")
    m.node("z", "Mul", ["xx", "v"], T="float32")
    return m


def gradients(lab: Lab, **options: Any) -> Edit:
    return lab.adding(["y", "z"], **{"xs": ["x", "xw"], "grad_ys": ["g", "h"], "names": ["dx", "dxw"], **options})


def tried(executor: Executor, edit: Edit, asked: Any = None) -> Proof:
    """The proof of EDIT, held against what it was asked or against ASKED."""
    graph = model().graph("model.pb")
    executor.load_source(ORIGINAL, graph)
    result = edit(graph)
    result.asked = asked or result.asked
    executor.load_bytes(EDITED, read_chunks(graph.chunks()))
    return prove(executor, edited(graph, result), Overrides())


@pytest.mark.parametrize("options", [{}, {"weights": True, "names": (), "xs": ()}, {"grad_ys": ()}])
def test_right_gradients_pass(lab: Lab, executor: Executor, options: dict[str, Any]) -> None:
    assert tried(executor, gradients(lab, **options)).compared


@pytest.mark.parametrize(
    ("mistake", "wrong"),
    [
        ({"grad_ys": ()}, ["grad_ys"]),
        ({"grad_ys": ["h", "g"]}, ["grad_ys"]),
        ({"names": ["dxw", "dx"]}, ["names"]),
        ({"xs": ["xw", "x"]}, ["xs"]),
        ({"xs": ["x"], "names": ["dx"]}, ["xs", "names"]),
        ({"names": ()}, ["names"]),
    ],
)
def test_what_was_asked_decides(lab: Lab, executor: Executor, mistake: dict[str, Any], wrong: list[str]) -> None:
    """The edit does another thing and says so, and the reference is made from what it says."""
    asked = gradients(lab)(model().graph("model.pb")).asked
    with pytest.raises(ValidationError) as caught:
        tried(executor, gradients(lab, **mistake), asked)
    check_error(caught.value, "unrequested-change", {"names": wrong})


WRONG: dict[str, Callable[[Derivation], Derivation]] = {
    "gradients that come in are given to each other's targets": lambda w: w._replace(grad_ys=w.grad_ys[::-1]),
    "gradients that come in are not looked at": lambda w: w._replace(grad_ys=()),
    "results have each other's names": lambda w: w._replace(xs=w.xs[::-1]),
    "only the first target is differentiated": lambda w: w._replace(ys=w.ys[:1], grad_ys=w.grad_ys[:1]),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_differences_decide(lab: Lab, executor: Executor, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where TensorFlow is asked for something else, both times, the reference is wrong as the gradients are."""
    right = lab.differentiator.derive
    monkeypatch.setattr(lab.differentiator, "derive", lambda data, wanted: right(data, WRONG[mistake](wanted)))
    with pytest.raises(ValidationError) as caught:
        tried(executor, gradients(lab))
    check_error(caught.value, "differs", {"node": "x", "name": "dx"})


def test_a_weight_that_is_left_out_is_missed(lab: Lab, executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_first(*arguments: Any) -> Any:
        found = weights_of(*arguments)
        return found._replace(constants=found.constants[1:])

    monkeypatch.setattr(gdsurgeon.gradients.request, "weights_of", without_the_first)
    with pytest.raises(ValidationError) as caught:
        tried(executor, gradients(lab, weights=True, xs=(), names=()))
    check_error(caught.value, "differs", {"node": "w", "name": None})


def conditional(tf: Any) -> None:
    sides = tf.raw_ops.Switch(data=placeholder(tf), pred=tf.compat.v1.placeholder(tf.bool, (), "chosen"))
    inside = tf.identity(sides.output_true, name="inside")
    merged = tf.raw_ops.Merge(inputs=[sides.output_false * 0.5, tf.tanh(inside)]).output
    tf.reduce_sum(merged * 3.0, name="y")


def test_gradients_that_cannot_be_compared_are_not_called_proven(lab: Lab, tmp_path: Path) -> None:
    data = lab.built(conditional)
    error = refused(tmp_path, data, lab.adding(["y"], ["inside"]))
    check_error(error, "nothing-comparable", {"tensors": ["gradients/inside"]})
    done = operated(tmp_path, data, lab.adding(["y"], ["inside", "x"]))
    assert [warning.facts["name"] for warning in done.warnings] == ["gradients/inside"]


def test_a_tolerance_that_is_given(lab: Lab, tmp_path: Path) -> None:
    done = operated(tmp_path, lab.built(chain), lab.adding(["y"], ["x"], rtol=1e-6))
    assert done.proof.rtol == 1e-6 and done.proof.atol == 0.0
