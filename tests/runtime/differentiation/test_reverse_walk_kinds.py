"""The reverse walk where no gradient flows, and through slices, control flow and variables."""

from __future__ import annotations

from typing import Any

import pytest
from support.reverse_walking import X, built, numbers, placeholder, same, version_1

from gdsurgeon.runtime.differentiation.gradients import Derivation, derive

pytestmark = pytest.mark.tensorflow


# -- where none flows ---------------------------------------------------------------------------------------------


def test_what_is_not_differentiable(tf: Any) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x")
        cut = [
            tf.cast(tf.argmax(x, 1), tf.float32)[:, None],
            tf.stop_gradient(tf.sin(x)),
            tf.round(x),
            tf.floor(x),
            tf.sign(x),
            tf.cast(tf.cast(x, tf.int32), tf.float32),
            tf.cast(x > 0.0, tf.float32),
            tf.zeros_like(x),
            tf.cast(tf.shape(x)[0], tf.float32),
        ]
        for i, none in enumerate(cut):
            tf.identity(none, name=f"none_{i}")
        tf.identity(sum(none * x for none in cut), name="y")

    same(tf, build, ["y"], ["x"], X)
    assert same(tf, build, [f"none_{i}" for i in (0, 1, 5, 6, 8)], ["x"], X) == [None]
    for i in range(9):
        same(tf, build, [f"none_{i}"], ["x"], X)


def test_what_nothing_depends_on(tf: Any) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x")
        with tf.control_dependencies([x]):
            tf.sin(placeholder(tf, "z"), name="y")

    found = same(tf, build, ["y"], ["x", "z", "y"], X | {"z": numbers(4, 6, seed=2)})
    assert found[0] is None and found[1] is not None and (found[2] == 1).all()


def test_an_op_without_gradient_is_named(tf: Any) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x", (4,))
        tf.identity(unbatched(tf, x, "lonely") + unbatched(tf, tf.sin(x), "other"), name="y")

    found = derive(tf, built(tf, build).SerializeToString(), Derivation(("y",), ("x",)))
    assert {(item.node, item.op, item.reason) for item in found.missing} == {
        ("lonely", "Unbatch", ""), ("other", "Unbatch", "")
    }  # fmt: skip
    assert not found.graph


def unbatched(tf: Any, x: Any, name: str) -> Any:
    """An op that has no gradient."""
    index, batch = tf.zeros([1, 3], tf.int64), tf.zeros([], tf.int64)
    return tf.raw_ops.Unbatch(batched_tensor=x, batch_index=index, id=batch, timeout_micros=10, name=name)


@pytest.mark.parametrize("cut", ["stop_gradient", "floor", "round", "zeros_like"])
def test_an_op_without_gradient_into_which_none_flows(tf: Any, cut: str) -> None:
    """TensorFlow asks for a gradient function only where there is a gradient to give it."""

    def build(tf: Any) -> None:
        x = placeholder(tf, "x", (4,))
        batched = unbatched(tf, x, "lonely")
        cutting = {"floor": tf.floor, "round": tf.round, "stop_gradient": tf.stop_gradient, "zeros_like": tf.zeros_like}
        tf.identity(tf.reduce_sum(cutting[cut](batched)) + tf.sin(x), name="y")

    graph_def = built(tf, build)
    with tf.Graph().as_default() as graph:
        tf.compat.v1.import_graph_def(graph_def, name="")
        y, x = graph.get_tensor_by_name("y:0"), graph.get_tensor_by_name("x:0")
        assert tf.compat.v1.gradients(y, x) != [None]
    found = derive(tf, graph_def.SerializeToString(), Derivation(("y",), ("x",)))
    assert found.missing == ()
    assert found.results != (None,)


def test_a_gradient_that_is_python(tf: Any) -> None:
    def build(tf: Any) -> None:
        a, b = tf.raw_ops.IdentityN(input=[placeholder(tf, "x")] * 2, name="mine")
        tf.multiply(a, b, name="y")

    graph_def = built(tf, build)
    same(tf, build, ["y"], ["x"], X)
    (node,) = [node for node in graph_def.node if node.name == "mine"]
    node.attr["_gradient_op_type"].s = b"CustomGradient-1234567"
    found = derive(tf, graph_def.SerializeToString(), Derivation(("y",), ("x",)))
    assert [tuple(item) for item in found.missing] == [("mine", "IdentityN", "CustomGradient-1234567")]


# -- slices -------------------------------------------------------------------------------------------------------


def test_gathers(tf: Any) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x", (5, 4))
        one, two = tf.gather(x, [0, 2, 2, 4]), tf.gather(x, [[1, 2], [4, 4]])
        tf.reduce_sum(tf.sin(one), name="one")
        tf.identity(tf.reduce_sum(tf.sin(one)) + tf.reduce_sum(tf.exp(two / 50.0)), name="two")
        tf.identity(tf.reduce_sum(tf.sin(one) * 3.0) + tf.reduce_sum(tf.cos(x)), name="mixed")
        tf.reduce_sum(tf.sin(tf.gather(x, [3, 3], axis=1)), name="columns")
        tf.gather(tf.square(x), [1, 1], name="below")

    for ys in (["one"], ["two"], ["mixed"], ["columns"], ["below"], ["one", "two", "mixed", "columns", "below"]):
        same(tf, build, ys, ["x"], {"x": numbers(5, 4)})


def test_gathers_of_an_open_table(tf: Any) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x", (None, 4))
        tf.identity(tf.gather(x, [0, 2]) * tf.gather(x, [2, 2]), name="y")

    same(tf, build, ["y"], ["x"], {"x": numbers(3, 4)})


# -- control flow -------------------------------------------------------------------------------------------------


def test_while_loops(tf: Any) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x")

        def loop(start: Any) -> Any:
            return tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.sin(s) * x), [0, start])[1]

        tf.identity(loop(x) * x, name="y")
        tf.identity(loop(tf.tanh(x)) + loop(loop(x)), name="z")

    same(tf, build, ["y"], ["x"], X)
    same(tf, build, ["y", "z"], ["x"], X)


@pytest.mark.parametrize("taken", [True, False])
def test_conditions(tf: Any, taken: bool) -> None:
    def build(tf: Any) -> None:
        x, p = placeholder(tf, "x"), placeholder(tf, "p", (), "bool")
        tf.identity(tf.cond(p, lambda: tf.sin(tf.sin(x)) * x, lambda: x + 1.0) * x, name="y")
        branches = [lambda: tf.sin(tf.cos(x)), lambda: x * x]
        tf.identity(tf.switch_case(tf.cast(p, tf.int32), branches), name="z")

    same(tf, build, ["y", "z"], ["x"], X | {"p": taken})


@pytest.mark.parametrize("taken", [True, False])
def test_conditions_of_version_1(tf: Any, taken: bool) -> None:
    def build(tf: Any) -> None:
        x, p = placeholder(tf, "x"), placeholder(tf, "p", (), "bool")
        cond = version_1(tf, lambda: tf.compat.v1.cond(p, lambda: tf.sin(x) * tf.tanh(x), lambda: tf.cos(x)))
        tf.identity(cond * x, name="y")

    same(tf, build, ["y"], ["x"], X | {"p": taken})


def test_calls_are_left_to_tensorflow(tf: Any) -> None:
    def build(tf: Any) -> None:
        twice = tf.function(lambda a: tf.sin(a) * a, autograph=False)
        x = placeholder(tf, "x")
        tf.identity(twice(x) + twice(twice(x)), name="y")
        tf.square(x, name="z")

    same(tf, build, ["y"], ["x"], X, own=False)
    same(tf, build, ["z"], ["x"], X)  # the calls are not on the way


def test_a_loop_of_version_1_is_named_and_those_beside_the_path_are_not(tf: Any) -> None:
    def build(tf: Any) -> None:
        x, z = placeholder(tf, "x", ()), placeholder(tf, "z", ())

        def loop(start: Any, name: str) -> Any:
            return version_1(
                tf, lambda: tf.compat.v1.while_loop(lambda s: s < 9.0, lambda s: s * 2.0, [start], name=name)
            )

        tf.multiply(loop(z, "beside"), tf.sin(x), name="y")
        tf.multiply(loop(x, "on"), x, name="n")

    same(tf, build, ["y"], ["x"], {"x": 0.5, "z": 2.0})
    found = derive(tf, built(tf, build).SerializeToString(), Derivation(("y", "n"), ("x",)))
    assert found.missing and all(item.node.startswith("on/") for item in found.missing)


# -- variables ----------------------------------------------------------------------------------------------------


def test_variables_that_are_references(tf: Any) -> None:
    def build(tf: Any) -> None:
        v1 = tf.compat.v1
        v = version_1(tf, lambda: v1.get_variable("v", initializer=tf.constant(numbers(4, 6, seed=3))))
        tf.identity(tf.sin(v) * placeholder(tf, "x") + v.read_value(), name="y")
        v1.global_variables_initializer()

    same(tf, build, ["y"], ["v", "x"], X, init=["init"])


def test_variables_that_are_resources(tf: Any) -> None:
    def build(tf: Any) -> None:
        v1 = tf.compat.v1
        v = v1.get_variable("v", initializer=tf.constant(numbers(4, 6, seed=3)), use_resource=True)
        tf.identity(tf.sin(v.read_value()) * placeholder(tf, "x"), name="y")
        v1.global_variables_initializer()

    same(tf, build, ["y"], ["x"], X, init=["init"])
