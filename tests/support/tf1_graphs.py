"""Builds with tf.compat.v1 the graphs that the tests need from TensorFlow itself. Run with -m, and a FOLDER."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

tf1 = tf.compat.v1


@contextmanager
def version_1() -> Iterator[None]:
    """Control flow of version 1, and variables that are references."""
    tf1.disable_control_flow_v2()
    tf1.disable_resource_variables()
    try:
        yield
    finally:
        tf1.enable_control_flow_v2()
        tf1.enable_resource_variables()


def sum_with_a_variable() -> None:
    a = tf.constant(1.0, name="a")
    b = tf1.get_variable("b", initializer=1.0)
    eps = tf.constant(0.001, name="eps")
    tf.identity(a + b + eps, name="c")
    tf.constant(2.0, name="a_new")
    tf1.global_variables_initializer()


def gradient() -> None:
    w = tf1.Variable(0.0, name="w")
    y = tf.multiply(tf.multiply(w, w, name="mul1"), w, name="mul2")
    tf.identity(tf1.gradients(y, w, name="grad")[0], name="result")
    tf1.global_variables_initializer()


def while_loop() -> None:
    n = tf1.placeholder(tf.int32, (), name="n")
    _, total = tf1.while_loop(lambda i, s: i <= n, lambda i, s: (i + 1, s + i), [tf.constant(1), tf.constant(0)])
    tf.identity(total, name="sum")


def conditional() -> None:
    choice = tf1.placeholder(tf.bool, (), name="choice")
    tf.identity(tf1.cond(choice, lambda: tf.constant(1), lambda: tf.constant(2)), name="result")


def built(build: Callable[[], None]) -> bytes:
    with tf.Graph().as_default() as graph:
        build()
    return bytes(graph.as_graph_def().SerializeToString())


def main(folder: Path) -> None:
    for build in (sum_with_a_variable, gradient, while_loop, conditional):
        with version_1():
            (folder / f"{build.__name__}_v1.pb").write_bytes(built(build))
    for build in (sum_with_a_variable, while_loop, conditional):
        (folder / f"{build.__name__}_v2.pb").write_bytes(built(build))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
