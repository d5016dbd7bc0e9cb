"""add-gradients: gradients of networks and control flow are TensorFlow's; wrong ones are found from outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.adding_gradients import (
    FEEDS,
    LONG,
    Array,
    Lab,
    attention,
    chain,
    convolutions,
    equal,
    mlp,
    numbers,
    placeholder,
    small,
    version_2_flow,
)
from support.desk import check_error
from support.expecting import refused
from support.graphs import Builder, doubling_loop, names, parsed, written
from support.operating import operated
from support.operating import refused as not_written
from support.spoiling import Edit

import gdsurgeon.edits.add_gradients
import gdsurgeon.gradients.request
import gdsurgeon.proof.gradients
from gdsurgeon.errors import ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.gradients.request import weights_of
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.change import edited
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.runtime.base import Derivation
from gdsurgeon.wire.write import read_chunks

pytestmark = pytest.mark.tensorflow


# -- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "feeds"),
    [(mlp, numbers(3, 7)), (convolutions, numbers(2, 8, 8, 3)), (attention, numbers(5, 6))],
    ids=["mlp", "convolutions", "attention"],
)
@pytest.mark.parametrize("checkpoints", ["none", "speed", "memory"])
def test_networks(lab: Lab, build: Callable[[Any], None], feeds: Array, checkpoints: str) -> None:
    data = lab.built(build)
    lab.same(data, [names(data)[-1]], ["x"], {"x": feeds}, weights=True, checkpoints=checkpoints)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_dtypes(lab: Lab, dtype: str) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, dtype=dtype)
        # oneDNN has no softmax in bfloat16 for AVX2.
        end = tf.sigmoid if dtype == "bfloat16" else tf.nn.softmax
        end(tf.tanh(x) * x + x * x, name="y")
        tf.identity(placeholder(tf, "z", dtype=dtype), name="z2")

    made = lab.same(lab.built(build), ["y"], ["x", "z"], {"x": numbers(LONG), "z": numbers(LONG)}, unconnected="zero")
    assert made.result.facts["gradients"]["unconnected"] == ["z"]


def test_y_is_x(lab: Lab) -> None:
    m = small()
    made = lab.same(m.bytes(), ["x"], ["x"], FEEDS)
    assert (lab.run(made, made.results, FEEDS)[0] == 1).all()
    lab.same(m.bytes(), ["sum", "y"], ["sum", "x"], FEEDS)


def test_calls(lab: Lab) -> None:
    """A call without a gradient of its own: TensorFlow's own gradients, and that is told."""

    def build(tf: Any) -> None:
        twice = tf.function(lambda a: tf.sin(tf.cos(a)) * a, autograph=False)
        x = placeholder(tf)
        tf.identity(twice(x) + twice(twice(x)), name="y")

    data = lab.built(build)
    made = lab.same(data, ["y"], ["x"], {"x": numbers(LONG)})
    assert made.result.facts["gradients"]["by"] == "tf.gradients"
    error = refused(from_bytes(written(made.graph)), "no-gradient", lab.adding(["y", "gradients/x"], ["x"]))
    ops = [(reason["code"], reason["op"]) for reason in error.facts["reasons"]]
    assert ops == [("no-gradient", "SymbolicGradient")] * 3  # what TensorFlow has made for the calls


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("checkpoints", ["none", "memory", ["h"]], ids=str)
def test_loops_and_conditions_of_version_2(lab: Lab, taken: bool, checkpoints: Any) -> None:
    data = lab.built(version_2_flow)
    made = lab.same(data, ["y"], ["x", "h"], {"x": numbers(LONG), "p": taken}, checkpoints=checkpoints)
    flow = {"While", "StatelessWhile", "If", "StatelessIf"}
    assert {made.graph[name].op for name in made.result.intent.changed} <= flow
    if checkpoints != "none":
        assert not {made.graph[name].op for name in made.again} & flow
        wanted = lab.run(data, ["y"], {"x": numbers(LONG), "p": taken})
        equal(lab.run(made, ["y"], {"x": numbers(LONG), "p": taken}), wanted)


def test_loops_whose_functions_are_numbered_high(lab: Lab) -> None:
    """The functions that TensorFlow makes do not take the names of those that are there."""
    data = lab.built(version_2_flow)
    once = lab.edit(data, ["y"], ["x"])
    twice = lab.edit(written(once.graph), ["y"], ["h"])
    functions = [function.signature.name for function in parsed(twice.graph).library.function]
    assert len(functions) == len(set(functions))
    lab.same(written(once.graph), ["gradients/x"], ["x"], {"x": numbers(LONG), "p": True})


# -- control flow of version 1 ------------------------------------------------------------------------------------


def test_a_loop_on_the_way_is_named(lab: Lab) -> None:
    m = Builder()
    m.placeholder("x", shape=(3,))
    m.node("a", "Sin", ["x"], T="float32")
    m.node("y", "Sin", [doubling_loop(m, "inner", "a")], T="float32")
    loops = [{"code": "crosses-loop", "loop": "inner/frame"}, {"code": "crosses-loop", "loop": "other/frame"}]
    refused(m.graph(), "no-gradient", lab.adding(["y"], ["x"]), reasons=loops[:1])
    m.node("z", "Mul", [doubling_loop(m, "other", "a"), "y"], T="float32")
    error = refused(m.graph(), "no-gradient", lab.adding(["z"], ["x"]))
    assert sorted(error.facts["reasons"], key=loops.index) == loops


@pytest.mark.parametrize("checkpoints", ["none", "speed", "memory", ["a"], ["b"]], ids=str)
def test_loops_beside_the_way_do_not_matter(lab: Lab, checkpoints: Any) -> None:
    m = Builder()
    m.placeholder("x", shape=(LONG,))
    m.placeholder("z", shape=(LONG,))
    for name, source in (("above", "x"), ("beside", "z")):
        m.node(f"{name}_known", "EnsureShape", [doubling_loop(m, name, source)], T="float32", shape=(LONG,))
    m.node("source", "Sin", ["above_known"], T="float32")
    m.node("a", "Sin", ["source"], T="float32")
    m.node("b", "Mul", ["a", "beside_known"], T="float32")
    m.node("c", "Sin", ["b"], T="float32")
    m.node("y", "Tanh", ["c"], T="float32")
    doubling_loop(m, "behind", "y")
    feeds = {"x": numbers(LONG), "z": numbers(LONG, seed=1)}
    made = lab.same(m.bytes(), ["y"], ["source"], feeds, checkpoints=checkpoints)
    if checkpoints == ["b"]:
        assert "source" in made.again
    if checkpoints != "none":
        assert not [name for name in made.again if name.startswith(("above/", "beside/"))]


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("checkpoints", ["none", "speed", "memory", ["h1"], ["h0", "h2"]], ids=str)
def test_conditions(lab: Lab, taken: bool, checkpoints: Any) -> None:
    """On the way, with an early tensor read in one branch, and beside it."""

    def build(tf: Any) -> None:
        x, z, p = placeholder(tf), placeholder(tf, "z"), placeholder(tf, "p", (), "bool")

        def cond(yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
            return lab.version_1(lambda: tf.compat.v1.cond(p, yes, no))

        beside = cond(lambda: tf.sin(z), lambda: tf.ones([LONG]))
        early = tf.tanh(x, name="h0")
        h = tf.tanh(tf.sin(early) * beside, name="h1")
        h = cond(lambda: tf.sin(h) * early, lambda: tf.cos(tf.sin(h)))
        h = tf.tanh(tf.sin(h), name="h2")
        tf.identity(tf.tanh(h * beside), name="y")

    feeds = {"x": numbers(LONG), "p": taken, "z": numbers(LONG, seed=2)}
    lab.same(lab.built(build), ["y"], ["x"], feeds, checkpoints=checkpoints)


def two_targets() -> Builder:
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
    graph = two_targets().graph("two_targets.pb")
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
    asked = gradients(lab)(two_targets().graph("two_targets.pb")).asked
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
    error = not_written(tmp_path, data, lab.adding(["y"], ["inside"]))
    check_error(error, "nothing-comparable", {"tensors": ["gradients/inside"]})
    done = operated(tmp_path, data, lab.adding(["y"], ["inside", "x"]))
    assert [warning.facts["name"] for warning in done.warnings] == ["gradients/inside"]


def test_a_tolerance_that_is_given(lab: Lab, tmp_path: Path) -> None:
    done = operated(tmp_path, lab.built(chain), lab.adding(["y"], ["x"], rtol=1e-6))
    assert done.proof.rtol == 1e-6 and done.proof.atol == 0.0
