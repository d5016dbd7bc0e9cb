"""Graphs to differentiate, with seeded random weights. Imported where TensorFlow has been imported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

IMAGE = 64
TOKENS, WIDTH, HEADS, HIDDEN, CLASSES = 16, 32, 4, 128, 10
WORDS, EMBEDDED = 40, 8
CHAIN, SIDE = 200, 512
THINNER = 4
SEED = 20


def keras_application(name: str) -> Any:
    """A classifier of small pictures, from `image` to its softmax, and `grad_ys`: what may come in for that.

    It has all the layers, and a part of the channels: what takes time is copying weights, of which nothing is learnt.
    """
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(SEED)
    thinner = {"alpha": 1 / THINNER} if name.startswith("MobileNet") else {}
    with contextlib.nullcontext() if thinner else thin_convolutions():
        model = getattr(tf.keras.applications, name)(weights=None, input_shape=(IMAGE, IMAGE, 3), **thinner)
    image = tf.TensorSpec([None, IMAGE, IMAGE, 3], tf.float32, name="image")
    function = tf.function(lambda image: model(image, training=False)).get_concrete_function(image)
    frozen = convert_variables_to_constants_v2(function).graph.as_graph_def()
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(frozen, name="")
        tf.compat.v1.placeholder(tf.float32, [None, 1000], name="grad_ys")
    return graph.as_graph_def()


@contextlib.contextmanager
def thin_convolutions() -> Iterator[None]:
    """Has each convolution that is made meanwhile give a part of the channels that it is asked for."""
    whole = tf.keras.layers.Conv2D.__init__

    def thin(layer: Any, filters: int, *arguments: Any, **named: Any) -> None:
        whole(layer, filters // THINNER, *arguments, **named)

    tf.keras.layers.Conv2D.__init__ = thin
    try:
        yield
    finally:
        tf.keras.layers.Conv2D.__init__ = whole


def transformer() -> None:
    """Two blocks of attention and MLP over `x`: layer norm behind the residual first, then before it."""
    weight = _weights()

    def norm(x: Any, name: str) -> Any:
        mean = tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
        scaled = (x - mean) * tf.math.rsqrt(variance + 1e-5)
        return scaled * (1.0 + weight(f"{name}_gamma", WIDTH)) + weight(f"{name}_beta", WIDTH)

    def attention(x: Any, name: str) -> Any:
        heads = [
            tf.einsum("btd,dhk->bhtk", x, weight(f"{name}_{part}", WIDTH, HEADS, WIDTH // HEADS))
            for part in ("query", "key", "value")
        ]
        scores = tf.nn.softmax(tf.matmul(heads[0], heads[1], transpose_b=True) * (WIDTH // HEADS) ** -0.5)
        mixed = tf.matmul(scores, heads[2])
        return tf.einsum("bhtk,hkd->btd", mixed, weight(f"{name}_output", HEADS, WIDTH // HEADS, WIDTH))

    def mlp(x: Any, name: str, approximate: bool) -> Any:
        hidden = tf.einsum("btd,dm->btm", x, weight(f"{name}_in", WIDTH, HIDDEN)) + weight(f"{name}_in_bias", HIDDEN)
        active = tf.nn.gelu(hidden, approximate=approximate)
        return tf.einsum("btm,md->btd", active, weight(f"{name}_out", HIDDEN, WIDTH))

    x = tf.compat.v1.placeholder(tf.float32, [None, TOKENS, WIDTH], name="x")
    first = tf.identity(norm(x + attention(x, "attention_1"), "norm_1"), name="attended")
    first = norm(first + mlp(first, "mlp_1", True), "norm_2")
    first = tf.identity(first, name="block_1")
    second = first + attention(norm(first, "norm_3"), "attention_2")
    second = tf.add(second, mlp(norm(second, "norm_4"), "mlp_2", False), name="block_2")
    pooled = tf.reduce_mean(second, 1)
    logits = tf.matmul(pooled, weight("classifier", WIDTH, CLASSES), name="logits")
    tf.nn.softmax(logits, name="probabilities")


def embedding() -> None:
    """Two lookups in `table` and a dense layer: `scores` as the layer gives them, `tied` over the table itself."""
    weight = _weights()
    table = weight("table", WORDS, EMBEDDED)
    left, right = (tf.compat.v1.placeholder(tf.int32, [None, TOKENS], name=name) for name in ("left", "right"))
    features = tf.compat.v1.placeholder(tf.float32, [None, EMBEDDED], name="features")
    pooled = tf.reduce_mean(tf.gather(table, left), 1) * tf.reduce_max(tf.gather(table, right), 1)
    hidden = tf.tanh(tf.matmul(pooled + features, weight("dense", EMBEDDED, EMBEDDED)), name="hidden")
    tf.matmul(hidden, weight("classifier", EMBEDDED, CLASSES), name="scores")
    tf.matmul(hidden, table, transpose_b=True, name="tied")


def tanh_chain() -> None:
    """`x`, and tanh of it over and over; every tensor has 1 MiB."""
    x = tf.compat.v1.placeholder(tf.float32, [None, SIDE], name="x")
    for number in range(CHAIN):
        x = tf.tanh(x, name=f"tanh_{number}")


def _weights() -> Callable[..., Any]:
    """A function from a name and a shape to a constant of that name."""
    random = np.random.default_rng(SEED)

    def weight(name: str, *shape: int) -> Any:
        scale = (1.0 if len(shape) == 1 else shape[0]) ** -0.5
        return tf.constant((random.standard_normal(shape) * scale).astype(np.float32), name=name)

    return weight


LAYERS: Mapping[str, Callable[[], None]] = {
    "transformer": transformer,
    "embedding": embedding,
    "tanh_chain": tanh_chain,
}


def build(name: str) -> Any:
    """The GraphDef of one of LAYERS, or else of a Keras application."""
    if name not in LAYERS:
        return keras_application(name)
    with tf.Graph().as_default() as graph:
        LAYERS[name]()
    return graph.as_graph_def()
