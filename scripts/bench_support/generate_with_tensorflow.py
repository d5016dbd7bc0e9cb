"""Writes models for the bench with TensorFlow, with seeded random weights.

generate_with_tensorflow.py MobileNetV2|ResNet50|DenseNet169 0 PATH      a frozen Keras application
generate_with_tensorflow.py saved-tf1|saved-tf2|saved-keras BYTES FOLDER  a SavedModel

saved-tf1 and saved-tf2 multiply by ten square matrices, their variables, one after the other; saved-keras is
MobileNetV2.
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

MATRICES = 10


def main() -> None:
    kind, size, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    tf.keras.utils.set_random_seed(1)
    if kind in SAVED:
        SAVED[kind](int((size / MATRICES / 4) ** 0.5), path)
    else:
        freeze(kind, path)


def freeze(name: str, path: str) -> None:
    model = getattr(tf.keras.applications, name)(weights=None)
    image = tf.TensorSpec([None, 224, 224, 3], tf.float32, name="image")
    function = tf.function(lambda image: model(image, training=False)).get_concrete_function(image)
    graph_def = convert_variables_to_constants_v2(function).graph.as_graph_def()
    with open(path, "wb") as out:
        out.write(graph_def.SerializeToString(deterministic=True))


def of_tensorflow_2(side: int, folder: str) -> None:
    module = tf.Module()
    module.weights = [tf.Variable(tf.random.normal([side, side]), name=f"layer_{n}/kernel") for n in range(MATRICES)]

    @tf.function(input_signature=[tf.TensorSpec([None, side], tf.float32, name="x")])
    def serve(x: Any) -> dict[str, Any]:
        for weight in module.weights:
            x = tf.tanh(x @ weight)
        return {"y": x}

    module.serve = serve
    tf.saved_model.save(module, folder, signatures=serve)


def of_tensorflow_1(side: int, folder: str) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = given = v1.placeholder(tf.float32, [None, side], name="x")
        for n in range(MATRICES):
            start = tf.random.normal([side, side])
            x = tf.tanh(x @ v1.get_variable(f"layer_{n}/kernel", initializer=start, use_resource=False))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, folder, {"x": given}, {"y": tf.identity(x, name="y")})


def of_keras(_side: int, folder: str) -> None:
    tf.keras.applications.MobileNetV2(weights=None).export(folder, verbose=False)


SAVED = {"saved-tf1": of_tensorflow_1, "saved-tf2": of_tensorflow_2, "saved-keras": of_keras}

if __name__ == "__main__":
    main()
