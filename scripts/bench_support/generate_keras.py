"""Freezes a Keras application with seeded random weights.

generate_keras.py MobileNetV2|ResNet50 0 PATH
"""

from __future__ import annotations

import sys

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2


def main() -> None:
    name, _, path = sys.argv[1:]
    tf.keras.utils.set_random_seed(1)
    model = getattr(tf.keras.applications, name)(weights=None)
    image = tf.TensorSpec([None, 224, 224, 3], tf.float32, name="image")
    function = tf.function(lambda image: model(image, training=False)).get_concrete_function(image)
    graph_def = convert_variables_to_constants_v2(function).graph.as_graph_def()
    with open(path, "wb") as out:
        out.write(graph_def.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
