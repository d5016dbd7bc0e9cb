"""Writes the small graphs in fixtures/, for the tests and the README.

    make_fixtures.py            build and run every graph, and write the files that differ
    make_fixtures.py --check    build and run every graph, write nothing, exit 1 if a file differs

| file              | purpose                                                                         |
|-------------------|---------------------------------------------------------------------------------|
| classifier.pb     | the model of the README: a frozen MobileNetV2 with narrow layers and random     |
|                   | weights. `image` float32 [?,64,64,3] in [0,1] -> `probabilities` float32 [?,10] |
|                   | and `classes` int64 [?].                                                        |
| decode_jpeg.pb    | preprocessing for it: `image` string [] (a JPEG) -> `image_preprocessed`        |
|                   | float32 [1,64,64,3].                                                            |
| label_lookup.pb   | postprocessing for it: `classes` int64 [?] -> `classes_postprocessed` string.   |
| while_v1.pb       | a loop of control flow v1 (Enter, Merge, Switch, Exit, NextIteration,           |
|                   | LoopCond): `n` int32 [] -> `sum` = 1 + 2 + ... + n.                             |
| functions_tf2.pb  | a TF 2 graph frozen with its function library: calls nested two deep, a call    |
|                   | inside a While body, a StatelessIf. `x` float32 [?,4] -> `y`, and the           |
|                   | `Identity` at the end of a graph that TF 2 has frozen, float32 [?,4].           |
| control_edges.pb  | control edges, colocation (`loc:@`), an Assert, a Split with several used       |
|                   | outputs, nodes with both data and control inputs.                               |
|                   | `values` float32 [?,4] -> `swapped` float32 [?,4], `total` float32 [].          |

The results of each graph in TensorFlow are checked before any file is written. fixtures/tiny.pbtxt is written by hand.
The bytes are the same at each run of one TensorFlow version. A different version may encode the same graph
differently, so --check compares the bytes only if both files have the same `producer`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
IMAGE_SIDE = 64
LABELS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay")

Feeds = dict[str, Any]
Run = Callable[[Feeds, list[str]], list[Any]]


# The classifier: MobileNetV2 (Sandler et al. 2018) for 64 x 64 pixels, about 45,000 weights.


def scoped(prefix: str) -> Any:
    """Returns a scope in the current name scope; the slash at its end prevents a number in the name."""
    outer = tf1.get_default_graph().get_name_scope()
    return tf1.name_scope(f"{outer}/{prefix}/" if outer else f"{prefix}/")


class FrozenLayers:
    """Layers whose weights are constants, named as a frozen TF-Slim export names them."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.RandomState(seed)

    def constant(self, name: str, value: Any) -> tf.Tensor:
        """Returns a frozen variable: a Const and the Identity that reads it."""
        frozen = tf.constant(np.asarray(value, np.float32), name=name)
        return tf.identity(frozen, name=f"{name}/read")

    def weights(self, name: str, shape: tuple[int, ...], fan_in: int) -> tf.Tensor:
        return self.constant(name, self.random.normal(0.0, (2.0 / fan_in) ** 0.5, shape))

    def batch_norm(self, x: tf.Tensor) -> tf.Tensor:
        channels = x.shape[-1]
        with scoped("BatchNorm"):
            outputs = tf1.nn.fused_batch_norm(
                x,
                self.constant("gamma", self.random.uniform(0.8, 1.2, channels)),
                self.constant("beta", self.random.uniform(-0.2, 0.4, channels)),
                self.constant("moving_mean", self.random.normal(0.0, 0.1, channels)),
                self.constant("moving_variance", self.random.uniform(0.3, 0.8, channels)),
                epsilon=0.001,
                is_training=False,
                name="FusedBatchNormV3",
            )
        return outputs[0]

    def conv(self, x: tf.Tensor, filters: int, kernel: int = 1, stride: int = 1) -> tf.Tensor:
        shape = (kernel, kernel, int(x.shape[-1]), filters)
        weights = self.weights("weights", shape, kernel * kernel * shape[2])
        return self.batch_norm(tf.nn.conv2d(x, weights, stride, "SAME", name="Conv2D"))

    def depthwise(self, x: tf.Tensor, stride: int) -> tf.Tensor:
        weights = self.weights("depthwise_weights", (3, 3, int(x.shape[-1]), 1), 9)
        strides = [1, stride, stride, 1]
        y = tf1.nn.depthwise_conv2d_native(x, weights, strides, "SAME", name="depthwise")
        return self.batch_norm(y)

    def inverted_residual(self, x: tf.Tensor, filters: int, stride: int, expansion: int) -> tf.Tensor:
        """Expands, filters each channel, and projects; adds the input if the shapes allow it."""
        y = x
        if expansion > 1:
            with scoped("expand"):
                y = tf.nn.relu6(self.conv(y, expansion * int(x.shape[-1])), name="Relu6")
        with scoped("depthwise"):
            y = tf.nn.relu6(self.depthwise(y, stride), name="Relu6")
        with scoped("project"):
            y = self.conv(y, filters)
        if stride == 1 and x.shape[-1] == filters:
            y = tf.add(y, x, name="add")
        return tf.identity(y, name="output")


def build_classifier() -> tf1.GraphDef:
    layers = FrozenLayers(seed=20)
    # (expansion, filters, stride of each block)
    stages = [(1, 8, (1,)), (4, 12, (2, 1)), (4, 16, (2, 1, 1)), (4, 24, (2, 1)), (4, 32, (1,))]
    with tf.Graph().as_default() as graph:
        image = tf1.placeholder(tf.float32, [None, IMAGE_SIDE, IMAGE_SIDE, 3], name="image")
        with scoped("MobilenetV2"):
            with scoped("input"):
                x = tf.multiply(tf.subtract(image, 0.5, name="sub"), 2.0, name="mul")
            with scoped("Conv"):
                x = tf.nn.relu6(layers.conv(x, 12, kernel=3, stride=2), name="Relu6")
            block = 0
            for expansion, filters, strides in stages:
                for stride in strides:
                    with scoped(f"expanded_conv_{block}" if block else "expanded_conv"):
                        x = layers.inverted_residual(x, filters, stride, expansion)
                    block += 1
            with scoped("Conv_1"):
                x = tf.nn.relu6(layers.conv(x, 128), name="Relu6")
            with scoped("Logits"):
                x = tf.reduce_mean(x, [1, 2], name="global_pool")
                weights = layers.weights("weights", (128, len(LABELS)), 8)
                x = tf.matmul(x, weights, name="MatMul")
                x = tf.nn.bias_add(x, layers.constant("biases", np.zeros(len(LABELS))), name="BiasAdd")
        probabilities = tf.nn.softmax(x, name="probabilities")
        tf.argmax(probabilities, axis=1, name="classes")
    return graph.as_graph_def()


def verify_classifier(run: Run) -> None:
    images = np.random.RandomState(1).uniform(0, 1, (5, IMAGE_SIDE, IMAGE_SIDE, 3)).astype(np.float32)
    images[1:4] = np.eye(3, dtype=np.float32)[:, None, None, :]  # all red, all green, all blue
    probabilities, classes = run({"image:0": images}, ["probabilities:0", "classes:0"])
    assert probabilities.shape == (5, 10), "probabilities: shape"
    assert probabilities.dtype == np.float32, "probabilities: dtype"
    assert np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-5), "probabilities: do not sum to 1"
    assert classes.dtype == np.int64 and (classes == probabilities.argmax(axis=1)).all(), "classes"
    assert len(set(classes.tolist())) > 1, "classes: the same for every image"
    assert float(probabilities.max()) < 0.999, "probabilities: saturated"


# Preprocessing and postprocessing.


def build_decode_jpeg() -> tf1.GraphDef:
    with tf.Graph().as_default() as graph:
        image = tf1.placeholder(tf.string, [], name="image")
        pixels = tf.io.decode_jpeg(image, channels=3, name="DecodeJpeg")
        floats = tf.cast(pixels, tf.float32, name="Cast")
        batch = tf.expand_dims(floats, 0, name="ExpandDims")
        size = tf.constant([IMAGE_SIDE, IMAGE_SIDE], name="size")
        resized = tf.raw_ops.ResizeBilinear(images=batch, size=size, name="ResizeBilinear")
        tf.divide(resized, 255.0, name="image_preprocessed")
    return graph.as_graph_def()


def verify_decode_jpeg(run: Run) -> None:
    grey = tf.io.encode_jpeg(tf.fill([20, 30, 3], tf.constant(51, tf.uint8)), quality=100).numpy()
    (image,) = run({"image:0": grey}, ["image_preprocessed:0"])
    assert image.shape == (1, IMAGE_SIDE, IMAGE_SIDE, 3) and image.dtype == np.float32, "shape, dtype"
    assert np.allclose(image, 0.2, atol=0.01), "a grey of 51/255 is not 0.2"


def build_label_lookup() -> tf1.GraphDef:
    with tf.Graph().as_default() as graph:
        classes = tf1.placeholder(tf.int64, [None], name="classes")
        tf.gather(tf.constant(LABELS, name="labels"), classes, name="classes_postprocessed")
    return graph.as_graph_def()


def verify_label_lookup(run: Run) -> None:
    (names,) = run({"classes:0": np.array([9, 0, 4])}, ["classes_postprocessed:0"])
    assert names.tolist() == [b"jay", b"ant", b"elk"], f"labels: {names}"


# Graphs with unusual structures.


def build_while_v1() -> tf1.GraphDef:
    tf1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        n = tf1.placeholder(tf.int32, [], name="n")
        _, total = tf1.while_loop(
            lambda i, _: tf.less_equal(i, n, name="LessEqual"),
            lambda i, s: (tf.add(i, 1, name="next_i"), tf.add(s, i, name="next_s")),
            [tf.constant(1, name="i"), tf.constant(0, name="s")],
            name="while",
        )
        tf.identity(total, name="sum")
    return graph.as_graph_def()


def verify_while_v1(run: Run) -> None:
    for n, total in ((0, 0), (1, 1), (100, 5050)):
        (value,) = run({"n:0": np.int32(n)}, ["sum:0"])
        assert int(value) == total, f"the sum to {n} is {value}"


def build_functions_tf2() -> tf1.GraphDef:
    tf1.enable_control_flow_v2()
    uninlined = tf.function(experimental_attributes={"_noinline": True})
    kernel = tf.Variable(np.random.RandomState(3).normal(0, 0.5, (4, 4)).astype(np.float32), name="kernel")

    @uninlined
    def scale(x: tf.Tensor) -> tf.Tensor:
        return tf.multiply(x, 0.5, name="scaled")

    @uninlined
    def dense(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.tanh(tf.matmul(x, kernel) + scale(x))

    def model(x: tf.Tensor) -> tf.Tensor:
        _, x = tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, dense(x)), [tf.constant(0), x])
        x = tf.cond(tf.reduce_sum(x) > 0.0, lambda: scale(x), lambda: tf.negative(x))
        return tf.identity(dense(x), name="y")

    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    concrete = tf.function(model).get_concrete_function(tf.TensorSpec([None, 4], tf.float32, name="x"))
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    return frozen.graph.as_graph_def()


def verify_functions_tf2(run: Run) -> None:
    x = np.random.RandomState(4).normal(0, 1, (3, 4)).astype(np.float32)
    kernel = np.random.RandomState(3).normal(0, 0.5, (4, 4)).astype(np.float32)
    want = x
    for _ in range(3):
        want = np.tanh(want @ kernel + 0.5 * want)
    want = 0.5 * want if want.sum() > 0 else -want
    want = np.tanh(want @ kernel + 0.5 * want)
    (y,) = run({"x:0": x}, ["y:0"])
    assert np.allclose(y, want, atol=1e-5), f"y: {y} instead of {want}"


def build_control_edges() -> tf1.GraphDef:
    with tf.Graph().as_default() as graph:
        values = tf1.placeholder(tf.float32, [None, 4], name="values")
        # Inside the scopes below, these constants would get the control edges instead of their consumers.
        columns = tf.constant(1, name="columns")
        everything = tf.constant([0, 1], name="everything")
        with scoped("check"):
            finite = tf.reduce_all(tf.math.is_finite(values, name="IsFinite"), everything, name="All")
            message = tf.constant("values must be finite", name="message")
            checked = tf.raw_ops.Assert(condition=finite, data=[message, values], name="Assert")
        left, right = tf.split(values, 2, columns, name="split")
        with graph.colocate_with(left.op):
            offset = tf.constant(0.0, name="offset")
            with tf.control_dependencies([checked]):
                shifted = tf.add(left, offset, name="shifted")
        with tf.control_dependencies([shifted]):
            ready = tf.no_op(name="ready")
        with tf.control_dependencies([ready, values]):
            swapped = tf.concat([right, shifted], columns, name="concat")
        with graph.colocate_with(shifted.op), tf.control_dependencies([checked, left]):
            tf.reduce_sum(right, everything, name="total")
        with tf.control_dependencies([right]):
            tf.identity(swapped, name="swapped")
    return graph.as_graph_def()


def verify_control_edges(run: Run) -> None:
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    swapped, total = run({"values:0": values}, ["swapped:0", "total:0"])
    assert (swapped == values[:, [2, 3, 0, 1]]).all(), f"swapped: {swapped}"
    assert float(total) == values[:, 2:].sum(), f"total: {total}"
    try:
        run({"values:0": values * np.float32("nan")}, ["swapped:0"])
    except tf.errors.InvalidArgumentError:
        return
    raise SystemExit("control_edges.pb: the Assert let a NaN through")


# Building, running, writing.


# The TF 2 graph comes first, because the numbers in names of functions increase during the process.
ALL: dict[str, tuple[Callable[[], tf1.GraphDef], Callable[[Run], None]]] = {
    "functions_tf2.pb": (build_functions_tf2, verify_functions_tf2),
    "classifier.pb": (build_classifier, verify_classifier),
    "decode_jpeg.pb": (build_decode_jpeg, verify_decode_jpeg),
    "label_lookup.pb": (build_label_lookup, verify_label_lookup),
    "while_v1.pb": (build_while_v1, verify_while_v1),
    "control_edges.pb": (build_control_edges, verify_control_edges),
}
"""By file: a function that builds the graph, and a function that checks the results of a run."""


def encode(graph_def: tf1.GraphDef) -> bytes:
    """Returns the bytes of the file, in an order that does not depend on any hash table."""
    functions = sorted(graph_def.library.function, key=lambda function: function.signature.name)
    if functions:
        del graph_def.library.function[:]
        graph_def.library.function.extend(functions)
    return graph_def.SerializeToString(deterministic=True)


def runner(content: bytes) -> Run:
    """Returns a function that runs the graph in the bytes of a file."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf1.GraphDef.FromString(content), name="")

    def run(feeds: Feeds, fetches: list[str]) -> list[Any]:
        with tf1.Session(graph=graph) as session:
            return session.run(fetches, feeds)

    return run


def make_all() -> dict[str, bytes]:
    """Returns the bytes of every file, after a check of its results."""
    # All graphs are built before the first one runs: sessions increase the numbers in names of functions.
    contents = {name: encode(build()) for name, (build, _) in ALL.items()}
    for name, (_, verify) in ALL.items():
        try:
            verify(runner(contents[name]))
        except (AssertionError, tf.errors.OpError) as fault:
            raise SystemExit(f"{name}: {fault}") from fault
    return contents


def state(name: str, content: bytes) -> str:
    """Returns how the file on disk compares with the built one: same, missing, differs, other version."""
    path = FIXTURES / name
    if not path.exists():
        return "missing"
    on_disk = path.read_bytes()
    versions = [tf1.GraphDef.FromString(data).versions.producer for data in (on_disk, content)]
    return "same" if on_disk == content else "differs" if versions[0] == versions[1] else "other version"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    check = parser.parse_args().check
    contents = make_all()
    states = {name: state(name, content) for name, content in contents.items()}
    for name, content in sorted(contents.items()):
        if not check and states[name] != "same":
            (FIXTURES / name).write_bytes(content)
        print(f"{name:18} {len(content):8,} bytes  {states[name]}")
    return int(check and any(found in ("missing", "differs") for found in states.values()))


if __name__ == "__main__":
    sys.exit(main())
