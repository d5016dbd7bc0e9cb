#!/usr/bin/env python3
"""Writes frozen models of Keras with random weights, of all variables, into a folder.

python scripts/keras_models.py FOLDER NAME ...      some of MODELS, below
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

APPLICATIONS = {
    "keras_mobilenetv2": ("MobileNetV2", 96),
    "keras_mobilenetv3small": ("MobileNetV3Small", 96),
    "keras_resnet50": ("ResNet50", 64),
    "keras_densenet121": ("DenseNet121", 96),
    "keras_efficientnetb0": ("EfficientNetB0", 96),
}
"""Of keras.applications, with the height and width of their pictures."""
RECURRENT = ("keras_gru", "keras_bidirectional", "keras_groups")
"""Single layers on a sequence."""
MODELS = ("keras_lstm", "keras_transformer", *RECURRENT, *APPLICATIONS)


def make(folder: Path, names: Sequence[str] = MODELS) -> list[Path]:
    """Makes the models NAMES in FOLDER, in a process of its own: TensorFlow takes its memory with it when that ends.

    Those that are there already are left. Returns their paths.
    """
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{name}.pb" for name in names]
    missing = [path.stem for path in paths if not path.exists()]
    if missing:
        subprocess.run([sys.executable, __file__, str(folder), *missing], check=True, capture_output=True)
    return paths


def lstm() -> Any:
    """An LSTM with a Dense layer behind it."""
    import keras

    given = keras.Input((7, 5))
    return keras.Model(given, keras.layers.Dense(2)(keras.layers.LSTM(8)(given)))


def transformer() -> Any:
    """A small BERT: two blocks of attention, normalisation, and a GELU between two Dense layers."""
    import keras

    given = keras.Input((12,), dtype="int32")
    x = keras.layers.Embedding(50, 16)(given)
    for _ in range(2):
        x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(2, 8)(x, x))
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(16)(keras.layers.Dense(32, activation="gelu")(x)))
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(given, keras.layers.Dense(3, activation="softmax")(x))


def layer(name: str) -> Any:
    """A model of one of the layers `RECURRENT`."""
    import keras

    made = {
        "keras_gru": lambda: keras.layers.GRU(8),
        "keras_bidirectional": lambda: keras.layers.Bidirectional(keras.layers.LSTM(8, return_sequences=True)),
        "keras_groups": lambda: keras.layers.Conv1D(10, 3, groups=5),
    }
    given = keras.Input((7, 5))
    return keras.Model(given, made[name]()(given))


def model_of(name: str) -> Any:
    """The model NAME."""
    import keras

    if name in APPLICATIONS:
        application, side = APPLICATIONS[name]
        return getattr(keras.applications, application)(weights=None, input_shape=(side, side, 3))
    if name in RECURRENT:
        return layer(name)
    return {"keras_lstm": lstm, "keras_transformer": transformer}[name]()


def main() -> None:
    """Makes what the arguments name."""
    import keras
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    folder, *names = sys.argv[1:]
    for name in names:
        keras.utils.set_random_seed(1)
        rng = np.random.default_rng(0)
        model = model_of(name)
        for weight in model.weights:
            if "moving" in weight.path or weight.path.endswith(("beta", "gamma", "bias")):
                weight.assign(rng.uniform(0.5, 1.5, weight.shape))
        given = model.inputs[0]
        spec = tf.TensorSpec([None, *given.shape[1:]], given.dtype, name="x")
        function = tf.function(lambda x, model=model: model(x, training=False)).get_concrete_function(spec)
        frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
        (Path(folder) / f"{name}.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
