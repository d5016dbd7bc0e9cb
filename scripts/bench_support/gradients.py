"""Makes gradients as TensorFlow does, and measures a run of gradients.

gradients.py make MODEL OUT Y --weights        d(Y)/d(every constant of more than one element)
gradients.py make MODEL OUT Y --xs X           d(Y)/d(X)
gradients.py run MODEL FIGURES NAME=SHAPE      runs the outputs under gradients/ in a default session

A run is measured with the optimiser on: the median time of three, and the peak of what a further one, traced in full,
allocates. Both are written to FIGURES as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
SCOPE = "gradients"
RUNS = 3


def imported(path: str) -> tuple[Any, Any]:
    """The GraphDef in a file, and the graph."""
    graph_def = v1.GraphDef()
    with open(path, "rb") as file:
        graph_def.ParseFromString(file.read())
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    return graph_def, graph


def make(path: str, out: str, y: str, sources: Sequence[str]) -> None:
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


def run(path: str, figures: str, feed: str) -> None:
    """Runs the gradients and writes what that takes."""
    graph_def, graph = imported(path)
    read = {text.lstrip("^").partition(":")[0] for node in graph_def.node for text in node.input}
    results = [n.name for n in graph_def.node if n.name.startswith(f"{SCOPE}/") and n.name not in read]
    results = [name for name in results if graph.get_operation_by_name(name).type in ("Identity", "ZerosLike")]
    name, shape = feed.split("=")
    dims = [int(dim) for dim in shape.split(",")]
    value = np.random.default_rng(0).random(prod(dims), np.float32).reshape(dims)
    options, metadata = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
    with v1.Session(graph=graph) as session:
        fetched = [f"{result}:0" for result in results]
        fed = {f"{name}:0": value}
        session.run(fetched, fed)
        times = []
        for _ in range(RUNS):
            started = time.perf_counter()
            session.run(fetched, fed)
            times.append(time.perf_counter() - started)
        session.run(fetched, fed, options=options, run_metadata=metadata)
    with open(figures, "w", encoding="utf-8") as file:
        json.dump({"seconds": statistics.median(times), "bytes": peak(metadata)}, file)


def peak(metadata: Any) -> int:
    """The most bytes that were allocated at a time."""
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


def main() -> None:
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
    else:
        run(*sys.argv[2:5])


if __name__ == "__main__":
    main()
