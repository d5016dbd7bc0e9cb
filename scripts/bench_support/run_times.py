"""Measures runs of a graph in TensorFlow, start-up left out.

run_times.py MODEL FIGURES NAME=SHAPE FETCH on|off|on-1    with TensorFlow's optimiser on or off; on, and one thread

The median time of 30 runs after five others, and the process's peak of memory, are written to FIGURES as JSON.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
RUNS, BEFORE = 30, 5


def session_config(how: str) -> v1.ConfigProto:
    """Returns the configuration of a session."""
    threads = 1 if how == "on-1" else 0
    config = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    if how == "off":
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    return config


def main() -> None:
    path, figures, feed, fetch, how = sys.argv[1:]
    name, _, shape = feed.partition("=")
    graph_def = v1.GraphDef()
    with open(path, "rb") as file:
        graph_def.ParseFromString(file.read())
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    value = np.random.default_rng(0).random([int(size) for size in shape.split(",")], np.float32)
    times = []
    with v1.Session(graph=graph, config=session_config(how)) as session:
        call = session.make_callable(graph.get_tensor_by_name(f"{fetch}:0"), [graph.get_tensor_by_name(f"{name}:0")])
        for _ in range(BEFORE + RUNS):
            started = time.perf_counter()
            call(value)
            times.append(time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    with open(figures, "w", encoding="utf-8") as file:
        json.dump({"seconds": statistics.median(times[BEFORE:]), "bytes": peak}, file)


if __name__ == "__main__":
    main()
