#!/usr/bin/env python3
"""Writes frozen models with random weights into a folder: models of Keras, and small functions of TensorFlow 2.

python scripts/keras_models.py FOLDER NAME ...      names of KERAS; "functions" for all of `functions`
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

APPLICATIONS = {
    "keras_mobilenetv2": ("MobileNetV2", 96),
    "keras_mobilenetv3small": ("MobileNetV3Small", 96),
    "keras_resnet50": ("ResNet50", 64),
    "keras_densenet121": ("DenseNet121", 96),
    "keras_efficientnetb0": ("EfficientNetB0", 96),
}
"""Models of keras.applications, with the height and width of their images."""


def make(folder: Path, names: Sequence[str]) -> None:
    """Makes the models that the folder lacks, in a process that returns TensorFlow's memory when it ends."""
    folder.mkdir(exist_ok=True)
    if missing := [name for name in names if not any(folder.glob(f"{name.replace('functions', 'tf_*')}.pb"))]:
        subprocess.run([sys.executable, __file__, str(folder), *missing], check=True, capture_output=True)


def lstm(layers: Any) -> Any:
    """An LSTM, then a Dense layer."""
    return lambda x: layers.Dense(2)(layers.LSTM(8)(x))


def transformer(layers: Any) -> Any:
    """A small BERT: two blocks of attention, normalisation, and a GELU between two Dense layers."""

    def call(x: Any) -> Any:
        x = layers.Embedding(50, 16)(x)
        for _ in range(2):
            x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
            x = layers.LayerNormalization()(x + layers.Dense(16)(layers.Dense(32, activation="gelu")(x)))
        return layers.Dense(3, activation="softmax")(layers.GlobalAveragePooling1D()(x))

    return call


SMALL: dict[str, Callable[[Any], Any]] = {
    "keras_lstm": lstm,
    "keras_transformer": transformer,
    "keras_gru": lambda layers: layers.GRU(8),
    "keras_bidirectional": lambda layers: layers.Bidirectional(layers.LSTM(8, return_sequences=True)),
    "keras_groups": lambda layers: layers.Conv1D(10, 3, groups=5),
}
"""Models on a sequence."""
KERAS = (*SMALL, *APPLICATIONS)


def keras_model(name: str) -> Any:
    """Returns a model of `KERAS`, with random values for all variables."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(0)
    if name in APPLICATIONS:
        application, side = APPLICATIONS[name]
        model = getattr(keras.applications, application)(weights=None, input_shape=(side, side, 3))
    else:
        given = keras.Input((12,), dtype="int32") if name == "keras_transformer" else keras.Input((7, 5))
        model = keras.Model(given, SMALL[name](keras.layers)(given))
    for weight in model.weights:
        if "moving" in weight.path or weight.path.endswith(("beta", "gamma", "bias")):
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
    return model


def functions() -> dict[str, Any]:
    """Returns functions of TensorFlow with their inputs, by ops that they need and that older releases often lack."""
    import tensorflow as tf

    def images(rows: int | None = None) -> tf.TensorSpec:
        return tf.TensorSpec((rows, 8, 9, 3), tf.float32, name="images")

    matrix, numbers = tf.TensorSpec((4, 3), tf.float32, name="x"), tf.TensorSpec((None,), tf.int32, name="n")
    texts, text = tf.TensorSpec((None,), tf.string, name="s"), tf.TensorSpec((), tf.string, name="s")
    features = {"a": tf.io.FixedLenFeature([2], tf.float32, [0.0, 0.0]), "b": tf.io.VarLenFeature(tf.int64)}
    around, wide = [[0, 0], [1, 2], [0, 3], [0, 0]], tf.ones([3, 3, 3, 2])
    boxes, scores = tf.TensorSpec((1, None, 1, 4), tf.float32), tf.TensorSpec((1, None, 2), tf.float32)
    return {
        "batch_dims": (lambda x: tf.gather(x, [[0, 1]] * 4, axis=1, batch_dims=1), matrix),
        "bincount": (lambda n: tf.math.bincount(n, minlength=5), numbers),
        "combined_nms": (lambda b, s: tf.image.combined_non_max_suppression(b, s, 5, 5)[0], boxes, scores),
        "decode_image": (lambda s: tf.image.decode_image(s, expand_animations=False), text),
        "diag": (lambda x: tf.linalg.diag(x) + tf.linalg.set_diag(tf.zeros([4, 3, 3]), x), matrix),
        "dilated": (lambda x: tf.nn.conv2d(x, wide, 1, "SAME", dilations=2), images()),
        "equal": (lambda a, b: tf.cast(a == b, tf.int32), numbers, tf.TensorSpec((None,), tf.int32, name="m")),
        "lanczos": (lambda x: tf.image.resize(x, (5, 7), "lanczos3", antialias=True), images()),
        "lower_case": (tf.strings.lower, texts),
        "padded": (lambda x: tf.nn.conv2d(x, wide, 2, around), images()),
        "parse_example": (lambda s: tf.io.parse_example(s, features)["a"], texts),
        "ragged": (lambda x: tf.ragged.boolean_mask(x, x > 0).to_tensor(0.0), matrix),
        "resize_bicubic": (lambda x: tf.image.resize(x, (5, 7), "bicubic"), images()),
        "resize_bilinear": (lambda x: tf.image.resize(x, (5, 17)), images()),
        "resize_nearest": (lambda x: tf.image.resize(x, (5, 17), "nearest"), images()),
        "scan": (lambda x: tf.scan(lambda a, row: a + row, x), tf.TensorSpec((None, 3), tf.float32, name="x")),
        "stateless_random": (lambda x: x + tf.random.stateless_uniform([3], [1, 2]), matrix),
        "switch_case": (lambda x: tf.switch_case(tf.cast(x[0, 0], tf.int32), [lambda: x, lambda: -x]), matrix),
    }


def save(path: Path, function: Callable[..., Any], *specs: Any) -> None:
    """Writes a function of tensors, frozen, with the loops and conditionals of TensorFlow 2."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    traced = tf.function(function).get_concrete_function(*specs)
    frozen = convert_variables_to_constants_v2(traced, lower_control_flow=False)
    path.write_bytes(frozen.graph.as_graph_def().SerializeToString(deterministic=True))


def main() -> None:
    """Makes the models that the arguments name."""
    import tensorflow as tf

    folder, names = Path(sys.argv[1]), sys.argv[2:]
    for name in names:
        if name == "functions":
            for function, parts in functions().items():
                save(folder / f"tf_{function}.pb", *parts)
            continue
        model = keras_model(name)
        spec = tf.TensorSpec([None, *model.inputs[0].shape[1:]], model.inputs[0].dtype, name="x")
        save(folder / f"{name}.pb", lambda x, model=model: model(x, training=False), spec)


if __name__ == "__main__":
    main()
