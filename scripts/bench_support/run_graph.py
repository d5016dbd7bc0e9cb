"""Runs graphs in TensorFlow for the bench, and makes gradients as TensorFlow does.

run_graph.py run MODEL ELEMENTS RUNS                      feeds ELEMENTS floats to `x` and fetches `out`, RUNS times
run_graph.py time MODEL FIGURES NAME=SHAPE FETCH HOW      the median time of 30 runs after five others
run_graph.py make-gradients MODEL OUT Y --weights         d(Y)/d(every constant of more than one element)
run_graph.py make-gradients MODEL OUT Y --xs X            d(Y)/d(X)
run_graph.py time-gradients MODEL FIGURES NAME=SHAPE      the median time of three runs of the outputs under gradients/

HOW is ``on`` or ``off`` for TensorFlow's optimizer, or ``on-1`` with one thread. FIGURES is a JSON file with the time
and the peak of memory: of the process, or of all allocations of a further, traced run of gradients.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
SCOPE = "gradients"


def imported(path: str) -> tuple[Any, Any]:
    """Returns the GraphDef in a file, and the graph."""
    graph_def = v1.GraphDef()
    with open(path, "rb") as file:
        graph_def.ParseFromString(file.read())
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    return graph_def, graph


def feed_of(text: str) -> dict[str, Any]:
    """Returns random values for NAME=SHAPE."""
    name, _, shape = text.partition("=")
    dims = [int(dim) for dim in shape.split(",")]
    return {f"{name}:0": np.random.default_rng(0).random(prod(dims), np.float32).reshape(dims)}


def timed(call: Callable[[], object], runs: int, before: int) -> float:
    """Returns the median time of some runs, after others that are not counted."""
    times = []
    for _ in range(before + runs):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times[before:])


def save(figures: str, seconds: float, nbytes: int) -> None:
    """Writes the figures of a run."""
    with open(figures, "w", encoding="utf-8") as file:
        json.dump({"seconds": seconds, "bytes": nbytes}, file)


def run(path: str, elements: str, runs: str) -> None:
    """Runs a graph in a default session."""
    _, graph = imported(path)
    feed = np.linspace(-1.0, 1.0, int(elements), dtype=np.float32)
    with v1.Session(graph=graph) as session:
        call = session.make_callable(graph.get_tensor_by_name("out:0"), [graph.get_tensor_by_name("x:0")])
        for _ in range(int(runs)):
            call(feed)


def time_graph(path: str, figures: str, feed: str, fetch: str, how: str) -> None:
    """Measures runs of a graph, without the start of TensorFlow."""
    threads = 1 if how == "on-1" else 0
    config = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    if how == "off":
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    _, graph = imported(path)
    ((name, value),) = feed_of(feed).items()
    with v1.Session(graph=graph, config=config) as session:
        call = session.make_callable(graph.get_tensor_by_name(f"{fetch}:0"), [graph.get_tensor_by_name(name)])
        seconds = timed(lambda: call(value), 30, 5)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    save(figures, seconds, peak)


def make_gradients(path: str, out: str, y: str, *sources: str) -> None:
    """Writes the graph with the gradients of tf.compat.v1.gradients under gradients/of/."""
    graph_def, graph = imported(path)
    names = sources[1:] if sources[0] == "--xs" else [node.name for node in graph_def.node if is_weight(node, graph)]
    with graph.as_default():
        xs = [graph.get_tensor_by_name(f"{name}:0") for name in names]
        found = v1.gradients(graph.get_tensor_by_name(f"{y}:0"), xs, name=SCOPE)
        for name, gradient in zip(names, found, strict=True):
            if gradient is not None:
                tf.identity(gradient, name=f"{SCOPE}/of/{name}")
    with open(out, "wb") as file:
        file.write(graph.as_graph_def().SerializeToString())


def is_weight(node: Any, graph: Any) -> bool:
    if node.op != "Const":
        return False
    tensor = graph.get_tensor_by_name(f"{node.name}:0")
    return bool(tensor.dtype.is_floating and tensor.shape.num_elements() > 1)


def time_gradients(path: str, figures: str, feed: str) -> None:
    """Measures runs of gradients."""
    graph_def, graph = imported(path)
    read = {text.lstrip("^").partition(":")[0] for node in graph_def.node for text in node.input}
    results = [n.name for n in graph_def.node if n.name.startswith(f"{SCOPE}/") and n.name not in read]
    results = [name for name in results if graph.get_operation_by_name(name).type in ("Identity", "ZerosLike")]
    options, metadata = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
    fetched, fed = [f"{result}:0" for result in results], feed_of(feed)
    with v1.Session(graph=graph) as session:
        seconds = timed(lambda: session.run(fetched, fed), 3, 1)
        session.run(fetched, fed, options=options, run_metadata=metadata)
    save(figures, seconds, peak(metadata))


def peak(metadata: Any) -> int:
    """Returns the largest number of bytes that are allocated at the same time."""
    records = [
        (record.alloc_micros, -record.alloc_bytes)
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        for memory in node.memory
        for record in memory.allocation_records
    ]
    live = most = 0
    for _, freed in sorted(records):
        live -= freed
        most = max(most, live)
    return most


if __name__ == "__main__":
    works = {"run": run, "time": time_graph, "make-gradients": make_gradients, "time-gradients": time_gradients}
    works[sys.argv[1]](*sys.argv[2:])
