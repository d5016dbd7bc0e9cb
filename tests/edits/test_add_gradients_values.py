"""add-gradients: networks, dtypes, functions and control flow have TensorFlow's gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.adding_gradients import (
    FEEDS,
    LONG,
    Array,
    Lab,
    attention,
    convolutions,
    equal,
    mlp,
    numbers,
    placeholder,
    small,
    version_2_flow,
)
from support.expecting import refused
from support.graphs import Builder, doubling_loop, names, parsed, written

from gdsurgeon.graph.load import from_bytes

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
        tf.nn.softmax(tf.tanh(x) * x + x * x, name="y")
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


def test_variables_that_are_references(lab: Lab) -> None:
    def build(tf: Any) -> None:
        v1 = tf.compat.v1
        v = lab.version_1(lambda: v1.get_variable("v", initializer=tf.constant(numbers(LONG, seed=3))))
        h = tf.sin(placeholder(tf) * v, name="h")
        tf.tanh(tf.sin(h) * v, name="y")
        v1.global_variables_initializer()

    data = lab.built(build)
    for checkpoints in ("none", "memory", ["h"]):
        lab.same(data, ["y"], ["v", "x"], {"x": numbers(LONG)}, init=["init"], checkpoints=checkpoints)


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
