"""Runs a graph in TensorFlow like an application: default session, optimizer on.

run_graph.py MODEL ELEMENTS RUNS    feeds ELEMENTS floats to `x` and fetches `out`, RUNS times
"""

from __future__ import annotations

import sys


def main() -> None:
    import numpy as np
    import tensorflow as tf

    path, elements, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    graph_def = tf.compat.v1.GraphDef()
    with open(path, "rb") as file:
        graph_def.ParseFromString(file.read())
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    feed = np.linspace(-1.0, 1.0, elements, dtype=np.float32)
    with tf.compat.v1.Session(graph=graph) as session:
        call = session.make_callable(graph.get_tensor_by_name("out:0"), [graph.get_tensor_by_name("x:0")])
        for _ in range(runs):
            call(feed)


if __name__ == "__main__":
    main()
