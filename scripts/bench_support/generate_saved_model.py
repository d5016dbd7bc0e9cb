"""Writes a SavedModel for the bench: generate_saved_model.py tf1|tf2|keras BYTES FOLDER.

tf1 and tf2 multiply by ten square matrices, their variables, one after the other; keras is MobileNetV2.
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

MATRICES = 10


def main() -> None:
    kind, size, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    side = int((size / MATRICES / 4) ** 0.5)
    tf.keras.utils.set_random_seed(1)
    {"tf1": of_tensorflow_1, "tf2": of_tensorflow_2, "keras": of_keras}[kind](side, folder)


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


def of_keras(side: int, folder: str) -> None:
    del side
    tf.keras.applications.MobileNetV2(weights=None).export(folder, verbose=False)


if __name__ == "__main__":
    main()
