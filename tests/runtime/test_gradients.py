"""The reverse walk returns what tf.compat.v1.gradients returns, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.reverse_walking import Array, X, built, derive, numbers, placeholder, same, version_1

from gdsurgeon.runtime.base import Derivation

pytestmark = pytest.mark.tensorflow

Build = Callable[[Any, Any], object]
CASES: dict[str, Any] = {}


def case(*asked: str, feeds: dict[str, Array] = X, shape: Any = (4, 6), **how: Any) -> Callable[[Build], Build]:
    """Adds a graph, made of TensorFlow and a placeholder x, to CASES; ASKED: targets and sources, such as 'y z / x'."""

    def add(build: Build) -> Build:
        CASES[build.__name__] = lambda tf: build(tf, placeholder(tf, "x", shape)), asked, feeds, how
        return build

    return add


@case("y / x", "x / x", "x y / y x")
def a_single_op(tf: Any, x: Any) -> None:
    tf.square(x, name="y")


@case("y / x")
def uses_of_different_depth(tf: Any, x: Any) -> None:
    h = x
    for i in range(7):
        h = tf.tanh(h * x + float(i))
    tf.identity(h * x, name="y")


@case("y / x a b", "z y a / b x a y")
def several_targets_and_sources_above_each_other(tf: Any, x: Any) -> None:
    a = tf.sin(x, name="a")
    b = tf.multiply(a, x, name="b")
    tf.identity(tf.tanh(b) + a, name="y")
    tf.reduce_sum(b * x, name="z")


@case("y z / x g", feeds=X | {"g": numbers(4, 6, seed=1)}, grad_ys=["g", "y"])
def given_gradients(tf: Any, x: Any) -> None:
    tf.sin(x, name="y")
    tf.cos(x * placeholder(tf, "g"), name="z")


@case("y / x", grad_ys=["x"])
def a_given_gradient_that_is_the_source(tf: Any, x: Any) -> None:
    tf.sin(x, name="y")


@case("y / x", shape=None)
def an_unknown_rank(tf: Any, x: Any) -> None:
    tf.reduce_sum(tf.sin(x), name="y")


@case("y / x")
def casts_between_floats(tf: Any, x: Any) -> None:
    tf.identity(tf.cast(tf.sin(tf.cast(x, tf.float16)), tf.float64), name="y")


@case("y / x", "z y / x", "y / split split:2 x")
def split_and_unpack(tf: Any, x: Any) -> None:
    a, _, c = tf.split(x, 3, axis=1, name="split")
    rows = tf.unstack(x, name="rows")
    tf.identity(tf.sin(a) * c, name="y")
    tf.identity(rows[1] * tf.exp(rows[3] / 100.0), name="z")


@case("y / x")
def top_k(tf: Any, x: Any) -> None:
    tf.sin(tf.math.top_k(x, 3)[0], name="y")


@case("y / x", "none_0 none_1 none_5 none_6 none_8 / x", *(f"none_{i} / x" for i in range(9)))
def what_is_not_differentiable(tf: Any, x: Any) -> None:
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


@case("y / x z y", feeds=X | {"z": numbers(4, 6, seed=2)})
def what_nothing_depends_on(tf: Any, x: Any) -> None:
    with tf.control_dependencies([x]):
        tf.sin(placeholder(tf, "z"), name="y")


@case(
    *("one / x", "two / x", "mixed / x", "columns / x", "below / x", "one two mixed columns below / x"),
    feeds={"x": numbers(5, 4)},
    shape=(5, 4),
)
def gathers(tf: Any, x: Any) -> None:
    one, two = tf.gather(x, [0, 2, 2, 4]), tf.gather(x, [[1, 2], [4, 4]])
    tf.reduce_sum(tf.sin(one), name="one")
    tf.identity(tf.reduce_sum(tf.sin(one)) + tf.reduce_sum(tf.exp(two / 50.0)), name="two")
    tf.identity(tf.reduce_sum(tf.sin(one) * 3.0) + tf.reduce_sum(tf.cos(x)), name="mixed")
    tf.reduce_sum(tf.sin(tf.gather(x, [3, 3], axis=1)), name="columns")
    tf.gather(tf.square(x), [1, 1], name="below")


@case("y / x", feeds={"x": numbers(3, 4)}, shape=(None, 4))
def gathers_of_an_open_table(tf: Any, x: Any) -> None:
    tf.identity(tf.gather(x, [0, 2]) * tf.gather(x, [2, 2]), name="y")


@case("y / x", "y z / x")
def while_loops(tf: Any, x: Any) -> None:
    def loop(start: Any) -> Any:
        return tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.sin(s) * x), [0, start])[1]

    tf.identity(loop(x) * x, name="y")
    tf.identity(loop(tf.tanh(x)) + loop(loop(x)), name="z")


@case("y / x", own=False)
def calls_are_left_to_tensorflow(tf: Any, x: Any) -> None:
    twice = tf.function(lambda a: tf.sin(a) * a, autograph=False)
    tf.identity(twice(x) + twice(twice(x)), name="y")
    tf.square(x, name="z")


CASES["calls that are not on the way"] = (CASES["calls_are_left_to_tensorflow"][0], ["z / x"], X, {})


@case("y / v x", init=["init"])
def variables_that_are_references(tf: Any, x: Any) -> None:
    v1 = tf.compat.v1
    v = version_1(tf, lambda: v1.get_variable("v", initializer=tf.constant(numbers(4, 6, seed=3))))
    tf.identity(tf.sin(v) * x + v.read_value(), name="y")
    v1.global_variables_initializer()


@case("y / x", init=["init"])
def variables_that_are_resources(tf: Any, x: Any) -> None:
    v1 = tf.compat.v1
    v = v1.get_variable("v", initializer=tf.constant(numbers(4, 6, seed=3)), use_resource=True)
    tf.identity(tf.sin(v.read_value()) * x, name="y")
    v1.global_variables_initializer()


ONES = np.ones((4, 6), np.float32)
RESULTS: dict[str, list[Array | None]] = {
    "a_single_op: y / x": [2 * X["x"]],
    "a_single_op: x / x": [ONES],
    "a_single_op: x y / y x": [ONES, 1 + 2 * X["x"]],
    "what_is_not_differentiable: none_0 none_1 none_5 none_6 none_8 / x": [None],
}


@pytest.mark.parametrize("name", CASES)
def test_same_gradients(tf: Any, name: str) -> None:
    build, asked, feeds, how = CASES[name]
    for pair in asked:
        ys, xs = pair.split(" / ")
        found = same(tf, build, ys.split(), xs.split(), feeds, **how)
        for gradient, expected in zip(found, RESULTS.get(f"{name}: {pair}", found), strict=True):
            assert gradient is expected or gradient.tobytes() == expected.tobytes()
        if name == "what_nothing_depends_on":
            assert [gradient is None for gradient in found] == [True, False, False]


def test_an_open_batch(tf: Any) -> None:
    def build(tf: Any) -> None:
        x, b = placeholder(tf, "x", (None, 6)), placeholder(tf, "b", (6,))
        tf.reduce_mean(tf.nn.softmax(x * b + b) * x, axis=0, name="y")

    for batch in (1, 5):
        same(tf, build, ["y"], ["x", "b"], {"x": numbers(batch, 6), "b": numbers(6)})


@pytest.mark.parametrize("shapes", [((4, 1), (1, 6)), ((), (4, 6)), ((6,), (4, 6)), ((1,), ()), ((0, 6), (1, 6))])
def test_broadcasting(tf: Any, shapes: Any) -> None:
    def build(tf: Any) -> None:
        a, b = (placeholder(tf, name, shape) for name, shape in zip("ab", shapes, strict=True))
        tf.identity(a * b + a / (b + 30.0) - tf.maximum(a, b), name="y")

    same(tf, build, ["y"], ["a", "b"], {n: numbers(*s) for n, s in zip("ab", shapes, strict=True)})


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "complex64"])
def test_other_dtypes(tf: Any, dtype: str) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x", dtype=dtype)
        tf.identity(tf.tanh(x) * x + x * x * x, name="y")
        tf.ones_like(x, name="one")

    grad_ys = ["one"] if dtype == "complex64" else []
    same(tf, build, ["y"], ["x"], {"x": numbers(4, 6).clip(-2, 2)}, grad_ys=grad_ys)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cross_entropies(tf: Any, sign: float) -> None:
    """The second output is the gradient itself; without a gradient it counts for nothing, not even for a zero."""

    def build(tf: Any) -> None:
        x, labels = placeholder(tf, "x"), placeholder(tf, "l")
        tf.identity(sign * tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=x), name="y")
        number = tf.compat.v1.placeholder(tf.int32, (4,), "n")
        tf.identity(sign * tf.nn.sparse_softmax_cross_entropy_with_logits(labels=number, logits=x), name="z")
        both = tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=labels)
        tf.identity(tf.reduce_sum(both.loss * sign) + tf.reduce_sum(tf.sin(both.backprop)), name="both")

    logits = np.array([[1, 1, 1, 1, 1, 1], [200, 0, 0, 0, 0, 0], [-300, 0, 0, 0, 0, 1], [0, 1, 2, 3, 4, 5]], np.float32)
    several: list[Array] = [np.full((4, 6), 1 / 6, np.float32), np.eye(6, dtype=np.float32)[:4]]
    for labels in several:
        feeds = {"x": logits, "l": labels, "n": np.array([0, 0, 2, 5])}
        same(tf, build, ["y", "z"], ["x"], feeds)
        same(tf, build, ["y"], ["x", "l"], feeds)
        same(tf, build, ["both"], ["x"], feeds)


@pytest.mark.parametrize("training", [True, False])
def test_fused_batch_normalisation(tf: Any, training: bool) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x", (2, 3, 3, 4))
        scale, offset, mean, variance = (placeholder(tf, name, (4,)) for name in "somv")
        empty = tf.constant([], tf.float32)
        normal = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=scale,
            offset=offset,
            mean=empty if training else mean,
            variance=empty if training else variance,
            is_training=training,
            name="normal",
        )
        tf.tanh(normal.y, name="y")
        tf.identity(normal.y * normal.batch_mean * normal.batch_variance, name="z")

    feeds = {name: numbers(4, seed=1) for name in "som"} | {"x": numbers(2, 3, 3, 4), "v": np.full(4, 0.5, np.float32)}
    same(tf, build, ["y"], ["x", "s", "o"], feeds)
    same(tf, build, ["z"], ["x", "s", "o"], feeds)
    assert same(tf, build, ["y"], ["x", "m", "v"], feeds)[1:] == [None, None]


def test_an_op_without_gradient_is_named(tf: Any) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x", (4,))
        tf.identity(unbatched(tf, x, "lonely") + unbatched(tf, tf.sin(x), "other"), name="y")

    found = derive(built(tf, build).SerializeToString(), Derivation(("y",), ("x",)))
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
    found = derive(graph_def.SerializeToString(), Derivation(("y",), ("x",)))
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
    found = derive(graph_def.SerializeToString(), Derivation(("y",), ("x",)))
    assert [tuple(item) for item in found.missing] == [("mine", "IdentityN", "CustomGradient-1234567")]


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
    found = derive(built(tf, build).SerializeToString(), Derivation(("y", "n"), ("x",)))
    assert found.missing and all(item.node.startswith("on/") for item in found.missing)


def test_every_op_is_differentiated_once(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from gdsurgeon.runtime import gradients

    walked: list[str] = []
    function = gradients.get_gradient_function
    monkeypatch.setattr(gradients, "get_gradient_function", lambda op: walked.append(op.name) or function(op))
    with tf.Graph().as_default():
        x = h = placeholder(tf, "x")
        for _ in range(20):  # 2 ** 20 paths
            h = h + h
        gradients.reverse_walk(gradients.path([h], [x]), [h], [tf.ones_like(h)], [x])
    assert len(walked) == len(set(walked)) == 20
