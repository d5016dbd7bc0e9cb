"""The work of TensorFlow for the bench: models, peers of gdsurgeon, and runs of graphs.

in_tensorflow.py keras APPLICATION PATH              a frozen Keras application, with seeded random weights
in_tensorflow.py saved-tf1|saved-tf2 BYTES FOLDER    a SavedModel with a product of ten matrices
in_tensorflow.py saved-keras FOLDER                  MobileNetV2 as a SavedModel
in_tensorflow.py parse MODEL OUT OLD NEW             parse the GraphDef, rename the node and its consumers, write
in_tensorflow.py gtt MODEL OUT OLD NEW               the Graph Transform Tool inside the TensorFlow package
in_tensorflow.py freeze-tf1|freeze-tf2 MODEL OUT     freeze a SavedModel whose output is y
in_tensorflow.py run MODEL ELEMENTS RUNS             feeds ELEMENTS floats to `x` and fetches `out`, RUNS times
in_tensorflow.py time MODEL FIGURES NAME=SHAPE FETCH HOW   the median time of 30 runs after five others
in_tensorflow.py make-gradients MODEL OUT Y --weights      d(Y)/d(every constant of more than one element)
in_tensorflow.py make-gradients MODEL OUT Y --xs X         d(Y)/d(X)
in_tensorflow.py time-gradients MODEL FIGURES NAME=SHAPE   the median time of three runs of the outputs under gradients/

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

import tensorflow as tf

v1 = tf.compat.v1
SCOPE = "gradients"
MATRICES = 10


def write(path: str, message: Any) -> None:
    with open(path, "wb") as file:
        file.write(message if isinstance(message, bytes) else message.SerializeToString())


# -- models -----------------------------------------------------------------------------------------------------------


def freeze(function: Any) -> Any:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    return convert_variables_to_constants_v2(function).graph.as_graph_def()


def keras(name: str, path: str) -> None:
    tf.keras.utils.set_random_seed(1)
    model = getattr(tf.keras.applications, name)(weights=None)
    image = tf.TensorSpec([None, 224, 224, 3], tf.float32, name="image")
    frozen = freeze(tf.function(lambda image: model(image, training=False)).get_concrete_function(image))
    write(path, frozen.SerializeToString(deterministic=True))


def side_of(size: str) -> int:
    """Returns the side of ten matrices that have this number of bytes together; seeds their values."""
    tf.keras.utils.set_random_seed(1)
    return int((int(size) / MATRICES / 4) ** 0.5)


def saved_by_tensorflow_2(size: str, folder: str) -> None:
    module, side = tf.Module(), side_of(size)
    module.weights = [tf.Variable(tf.random.normal([side, side]), name=f"layer_{n}/kernel") for n in range(MATRICES)]

    @tf.function(input_signature=[tf.TensorSpec([None, side], tf.float32, name="x")])
    def serve(x: Any) -> dict[str, Any]:
        for weight in module.weights:
            x = tf.tanh(x @ weight)
        return {"y": x}

    module.serve = serve
    tf.saved_model.save(module, folder, signatures=serve)


def saved_by_tensorflow_1(size: str, folder: str) -> None:
    side = side_of(size)
    with tf.Graph().as_default(), v1.Session() as session:
        x = given = v1.placeholder(tf.float32, [None, side], name="x")
        for n in range(MATRICES):
            start = tf.random.normal([side, side])
            x = tf.tanh(x @ v1.get_variable(f"layer_{n}/kernel", initializer=start, use_resource=False))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, folder, {"x": given}, {"y": tf.identity(x, name="y")})


# -- peers ------------------------------------------------------------------------------------------------------------


def parsed(path: str) -> Any:
    with open(path, "rb") as file:
        return v1.GraphDef.FromString(file.read())


def renamed_input(tensor: str, old: str, new: str) -> str:
    """Returns the input of a node, with `old` replaced if it is the name of the node that is read."""
    mark = "^" if tensor.startswith("^") else ""
    name, colon, index = tensor[len(mark) :].partition(":")
    return f"{mark}{new}{colon}{index}" if name == old else tensor


def renamed(model: str, old: str, new: str) -> Any:
    """Returns the GraphDef of a file with one node renamed, as a script of a dozen lines does it."""
    graph_def = parsed(model)
    for node in graph_def.node:
        if node.name == old:
            node.name = new
        for i, tensor in enumerate(node.input):
            if old in tensor:
                node.input[i] = renamed_input(tensor, old, new)
    return graph_def


def rename_by_graph_transform_tool(model: str, out: str, old: str, new: str) -> None:
    from tensorflow.python.util._pywrap_transform_graph import TransformGraphWithStringInputs

    with open(model, "rb") as file:
        content = file.read()
    transform = f'rename_node(old_node_name="{old}",new_node_name="{new}")'
    write(out, TransformGraphWithStringInputs(content, "", "", transform))


def freeze_tensorflow_1(model: str, out: str) -> None:
    from tensorflow.python.tools.freeze_graph import freeze_graph

    write(out, freeze_graph("", "", True, "", "y", "", "", "", True, "", input_saved_model_dir=model))


def freeze_tensorflow_2(model: str, out: str) -> None:
    loaded = tf.saved_model.load(model)  # it holds the variables
    write(out, freeze(loaded.signatures["serving_default"]))


# -- runs -------------------------------------------------------------------------------------------------------------


def imported(path: str) -> tuple[Any, Any]:
    """Returns the GraphDef in a file, and the graph."""
    graph_def, graph = parsed(path), tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    return graph_def, graph


def feed_of(text: str) -> dict[str, Any]:
    """Returns random values for NAME=SHAPE."""
    import numpy as np

    name, _, shape = text.partition("=")
    dims = [int(dim) for dim in shape.split(",")]
    return {f"{name}:0": np.random.default_rng(0).random(prod(dims), np.float32).reshape(dims)}


def measured(call: Callable[[], object], runs: int, before: int) -> float:
    """Returns the median time of some runs, after others that do not count."""
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
    feed = tf.linspace(-1.0, 1.0, int(elements)).numpy()
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
        seconds = measured(lambda: call(value), 30, 5)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    save(figures, seconds, peak)


def make_gradients(path: str, out: str, y: str, *sources: str) -> None:
    """Writes the graph with the gradients of tf.compat.v1.gradients under gradients/of/."""
    graph_def, graph = imported(path)
    names = sources[1:]
    if sources[0] == "--weights":
        constants = [graph.get_tensor_by_name(f"{node.name}:0") for node in graph_def.node if node.op == "Const"]
        names = [c.op.name for c in constants if c.dtype.is_floating and c.shape.num_elements() > 1]
    with graph.as_default():
        xs = [graph.get_tensor_by_name(f"{name}:0") for name in names]
        found = v1.gradients(graph.get_tensor_by_name(f"{y}:0"), xs, name=SCOPE)
        for name, gradient in zip(names, found, strict=True):
            if gradient is not None:
                tf.identity(gradient, name=f"{SCOPE}/of/{name}")
    write(out, graph.as_graph_def())


def time_gradients(path: str, figures: str, feed: str) -> None:
    """Measures runs of gradients."""
    graph_def, graph = imported(path)
    read = {text.lstrip("^").partition(":")[0] for node in graph_def.node for text in node.input}
    results = [n.name for n in graph_def.node if n.name.startswith(f"{SCOPE}/") and n.name not in read]
    results = [name for name in results if graph.get_operation_by_name(name).type in ("Identity", "ZerosLike")]
    options, metadata = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
    fetched, fed = [f"{result}:0" for result in results], feed_of(feed)
    with v1.Session(graph=graph) as session:
        seconds = measured(lambda: session.run(fetched, fed), 3, 1)
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


WORKS: dict[str, Callable[..., None]] = {
    "keras": keras,
    "saved-tf1": saved_by_tensorflow_1,
    "saved-tf2": saved_by_tensorflow_2,
    "saved-keras": lambda folder: tf.keras.applications.MobileNetV2(weights=None).export(folder, verbose=False),
    "parse": lambda model, out, old, new: write(out, renamed(model, old, new)),
    "gtt": rename_by_graph_transform_tool,
    "freeze-tf1": freeze_tensorflow_1,
    "freeze-tf2": freeze_tensorflow_2,
    "run": run,
    "time": time_graph,
    "make-gradients": make_gradients,
    "time-gradients": time_gradients,
}

if __name__ == "__main__":
    WORKS[sys.argv[1]](*sys.argv[2:])
