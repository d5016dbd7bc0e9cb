"""The reverse walk gives what tf.compat.v1.gradients gives: sums, outputs, and what is walked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.reverse_walking import Array, X, built, merged, numbers, placeholder, run, same

from gdsurgeon.runtime.differentiation.gradients import Derivation, Modules, derive
from gdsurgeon.runtime.differentiation.reverse_walk import ReverseWalk, path

pytestmark = pytest.mark.tensorflow


# -- one use, many uses -------------------------------------------------------------------------------------------


def test_a_single_op(tf: Any) -> None:
    (gradient,) = same(tf, lambda tf: tf.square(placeholder(tf, "x"), name="y"), ["y"], ["x"], X)
    assert gradient.tolist() == (2 * X["x"]).tolist()


@pytest.mark.parametrize("uses", range(2, 13))
def test_the_order_of_sums(tf: Any, uses: int) -> None:
    """With three and more uses the order decides on the bits."""

    def build(tf: Any) -> None:
        x = placeholder(tf, "x")
        ops = [tf.sin, tf.cos, tf.exp, tf.tanh, tf.square, tf.sigmoid]
        made = [ops[i % 6](x * (10.0 ** (i % 5 - 2)) if i % 3 else x) for i in range(uses)]
        total = made[0]
        for i, term in enumerate(made[1:]):
            total = total * term if i % 2 else total + term
        tf.identity(total, name="y")

    same(tf, build, ["y"], ["x"], X)


def test_uses_of_different_depth(tf: Any) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x")
        h = x
        for i in range(7):
            h = tf.tanh(h * x + float(i))
        tf.identity(h * x, name="y")

    same(tf, build, ["y"], ["x"], X)


def test_several_targets_and_sources_above_each_other(tf: Any) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x")
        a = tf.sin(x, name="a")
        b = tf.multiply(a, x, name="b")
        tf.identity(tf.tanh(b) + a, name="y")
        tf.reduce_sum(b * x, name="z")

    same(tf, build, ["y"], ["x", "a", "b"], X)
    same(tf, build, ["z", "y", "a"], ["b", "x", "a", "y"], X)


def test_the_target_is_the_source(tf: Any) -> None:
    (gradient,) = same(tf, lambda tf: placeholder(tf, "x"), ["x"], ["x"], X)
    assert (gradient == 1).all()
    two = same(tf, lambda tf: tf.square(placeholder(tf, "x"), name="y"), ["x", "y"], ["y", "x"], X)
    assert (two[0] == 1).all() and two[1].tobytes() == (1 + 2 * X["x"]).tobytes()


def test_given_gradients(tf: Any) -> None:
    def build(tf: Any) -> None:
        x, g = placeholder(tf, "x"), placeholder(tf, "g")
        tf.sin(x, name="y")
        tf.cos(x * g, name="z")

    feeds = X | {"g": numbers(4, 6, seed=1)}
    same(tf, build, ["y", "z"], ["x", "g"], feeds, grad_ys=["g", "y"])
    same(tf, build, ["y"], ["x"], feeds, grad_ys=["x"])


def test_an_open_batch(tf: Any) -> None:
    def build(tf: Any) -> None:
        x, b = placeholder(tf, "x", (None, 6)), placeholder(tf, "b", (6,))
        tf.reduce_mean(tf.nn.softmax(x * b + b) * x, axis=0, name="y")

    for batch in (1, 5):
        same(tf, build, ["y"], ["x", "b"], {"x": numbers(batch, 6), "b": numbers(6)})


def test_an_unknown_rank(tf: Any) -> None:
    same(tf, lambda tf: tf.reduce_sum(tf.sin(placeholder(tf, "x", None)), name="y"), ["y"], ["x"], X)


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


def test_casts_between_floats(tf: Any) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x")
        tf.identity(tf.cast(tf.sin(tf.cast(x, tf.float16)), tf.float64), name="y")

    same(tf, build, ["y"], ["x"], X)


# -- several outputs ----------------------------------------------------------------------------------------------


def test_split_and_unpack(tf: Any) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, "x")
        a, _, c = tf.split(x, 3, axis=1, name="split")
        rows = tf.unstack(x, name="rows")
        tf.identity(tf.sin(a) * c, name="y")
        tf.identity(rows[1] * tf.exp(rows[3] / 100.0), name="z")

    same(tf, build, ["y"], ["x"], X)
    same(tf, build, ["z", "y"], ["x"], X)
    same(tf, build, ["y"], ["split", "split:2", "x"], X)


def test_an_output_that_nothing_reads(tf: Any) -> None:
    """TensorFlow gives zeros for it where it is beside one that is read, and None where it is not."""

    def build(tf: Any) -> None:
        parts = tf.split(placeholder(tf, "x"), 3, axis=1, name="split")
        tf.sin(parts[0], name="y")

    found = derive(tf, built(tf, build).SerializeToString(), Derivation(("y",), ("split:1", "split")))
    assert found.results[0] is None and found.results[1] is not None


def test_top_k(tf: Any) -> None:
    def build(tf: Any) -> None:
        values, _ = tf.math.top_k(placeholder(tf, "x"), 3)
        tf.sin(values, name="y")

    same(tf, build, ["y"], ["x"], X)


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


def test_only_a_statistic_of_a_normalisation(tf: Any) -> None:
    def build(tf: Any) -> None:
        empty = tf.constant([], tf.float32)
        normal = tf.raw_ops.FusedBatchNormV3(
            x=placeholder(tf, "x", (2, 3, 3, 4)),
            scale=tf.ones(4),
            offset=tf.zeros(4),
            mean=empty,
            variance=empty,
            is_training=True,
        )
        tf.sin(normal.batch_mean, name="y")

    graph_def = built(tf, build)
    found = [outcome(tf, graph_def, walk, {"x": numbers(2, 3, 3, 4)}) for walk in (True, False)]
    assert found[0] == found[1]


def outcome(tf: Any, graph_def: Any, walk: bool, feeds: dict[str, Array]) -> str | bytes:
    """The bytes of the gradient of y with respect to x, or the kind of error."""
    try:
        made = derive(tf, graph_def.SerializeToString(), Derivation(("y",), ("x",), own=walk))
        (name,) = made.results
        return "None" if name is None else bytes(run(tf, merged(tf, graph_def, made), [name], feeds)[0].tobytes())
    except Exception as error:
        return type(error).__name__


# -- what is walked -----------------------------------------------------------------------------------------------


def note(modules: Modules, walked: list[str]) -> None:
    """Has WALKED be the operations whose gradient functions are asked for."""
    function = modules.gradient_function

    def noted(operation: Any) -> Any:
        walked.append(operation.name)
        return function(operation)

    modules.gradient_function = noted


def test_only_what_lies_between_is_differentiated(tf: Any) -> None:
    with tf.Graph().as_default():
        x = placeholder(tf, "x")
        above = tf.sin(x, name="above")
        middle = tf.cos(above, name="middle")
        y = tf.tanh(middle, name="y")
        tf.exp(y, name="behind")
        tf.exp(middle, name="beside")
        modules = Modules(tf)
        walked: list[str] = []
        found = path(modules, [y], [above])
        assert [op.name for op in found.operations] == ["y", "middle", "above"]
        note(modules, walked)
        (gradient,) = ReverseWalk(modules, found, [above]).run([y], [tf.ones_like(y)])
        assert walked == ["y", "middle"] and gradient is not None


def test_every_op_is_differentiated_once(tf: Any) -> None:
    with tf.Graph().as_default():
        x = h = placeholder(tf, "x")
        for _ in range(20):  # 2 ** 20 paths
            h = h + h
        modules = Modules(tf)
        walked: list[str] = []
        note(modules, walked)
        ReverseWalk(modules, path(modules, [h], [x]), [x]).run([h], [tf.ones_like(h)])
        assert len(walked) == len(set(walked)) == 20


def random_graph(tf: Any, seed: int) -> tuple[Any, list[str], list[str]]:
    """A random graph, its targets and its sources."""
    random = np.random.RandomState(seed)
    unary = [tf.sin, tf.tanh, tf.identity, tf.stop_gradient, tf.round, tf.nn.relu, lambda t: t * t]
    with tf.Graph().as_default() as graph:
        tensors = [placeholder(tf, "x"), placeholder(tf, "z")]
        for _ in range(random.randint(4, 16)):
            kind = random.randint(4)
            a, b = (tensors[-1 - random.randint(min(len(tensors), 6))] for _ in range(2))
            if kind == 0:
                tensors.append(unary[random.randint(len(unary))](a))
            elif kind == 1:
                tensors.extend(t * 0.5 for t in tf.split(tf.concat([a, b], 0), 2))
            elif kind == 2:
                tensors.append(tf.tanh(a * b))
            else:
                terms = [tensors[random.randint(len(tensors))] for _ in range(random.randint(2, 5))]
                tensors.append(tf.add_n(terms))
        names = [tensor.name.removesuffix(":0") for tensor in tensors]
    ys = sorted({names[-1], names[random.randint(len(names))]})
    xs = sorted({"x", *(names[random.randint(len(names))] for _ in range(2))})
    return graph.as_graph_def(), ys, xs


@pytest.mark.parametrize("seed", range(25))
def test_random_graphs(tf: Any, seed: int) -> None:
    graph_def, ys, xs = random_graph(tf, seed)
    feeds = X | {"z": numbers(4, 6, seed=1)}

    def build(tf: Any) -> None:
        tf.compat.v1.import_graph_def(graph_def, name="")

    same(tf, build, ys, xs, feeds)
