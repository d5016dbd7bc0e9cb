"""TensorFlow by itself, asked line by line: makes models, differentiates them, and runs graphs beside that.

Run with -m, and asked as `aside.py` says. Nothing of gdsurgeon is in use here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from support.aside import Answer, Request, serve
from support.gradient_models import build

v1 = tf.compat.v1

DRAWS = 2
WRONG = 1e300
"""An error that is no number, which JSON does not have."""


def make(request: Request) -> Answer:
    """Writes a model."""
    with open(request["path"], "wb") as out:
        out.write(build(request["model"]).SerializeToString(deterministic=True))
    return {}


def compare(request: Request) -> Answer:
    """Differentiates the graph that is `original`, and runs it and the graphs that are `edited` on the same feeds.

    The answer, for each edited graph: whose gradients (or targets) are other bytes with Grappler off, and the relative
    errors of the gradients with the default ConfigProto, where that is asked for. They are the least of all draws of
    the feeds: where a value is within a rounding of the kink of a ReLU, the gradient is a matter of chance. And of the
    original: where two runs of it differ (then it is no reference), which gradients are IndexedSlices or all zeros,
    and which weights a gradient flows to.
    """
    ys, xs, grad_ys = request["ys"], request["xs"], request["grad_ys"]
    original = imported(request["original"])
    found = gradients(original, ys, xs, grad_ys)
    with original.as_default():
        dense = [tf.convert_to_tensor(gradient) for gradient in found]
    fetches = [*ys, *(tensor.name for tensor in dense)]
    draws = [drawn(original, request["feeds"], number) for number in range(DRAWS)]
    expected = values_of(original, fetches, draws)
    deployed = values_of(original, fetches, draws, optimize=True)
    again = values_of(original, fetches, draws)
    edits = []
    for path, names, deploy in request["edited"]:
        graph = imported(path)
        fetches = [*ys, *(f"{name}:0" for name in names)]
        values = values_of(graph, fetches, draws)
        optimized = values_of(graph, fetches, draws, optimize=True) if deploy else deployed
        errors = [list(map(error, *both)) for both in zip(optimized, deployed, strict=True)]
        least = [min(draws) for draws in zip(*errors, strict=True)][len(ys) :]
        edits.append(
            {
                "different": different([*ys, *xs], values, expected),
                "errors": dict(zip(xs, least, strict=True)),
            }
        )
    weights = weights_of(original)
    others = [name for name in weights if name not in xs]
    left_out = gradients(imported(request["original"]), ys, others, grad_ys) if others else []
    flows = dict(zip([*xs, *others], [*found, *left_out], strict=True))
    return {
        "edits": edits,
        "unsteady": different([*ys, *xs], again, expected),
        "zeros": [x for x, value in zip(xs, expected[0][len(ys) :], strict=True) if not np.any(value)],
        "slices": [x for x, gradient in zip(xs, found, strict=True) if isinstance(gradient, tf.IndexedSlices)],
        "weights": [name for name in weights if flows[name] is not None],
    }


def trace(request: Request) -> Answer:
    """Writes the RunMetadata of a run with the default ConfigProto, which is not the first one."""
    graph = imported(request["path"])
    feeds = drawn(graph, request["feeds"])
    metadata = v1.RunMetadata()
    with session(graph, optimize=True) as runs:
        runs.run(request["fetches"], feeds)
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        runs.run(request["fetches"], feeds, options=options, run_metadata=metadata)
    with open(request["metadata"], "wb") as out:
        out.write(metadata.SerializeToString())
    return {}


def gradients(graph: Any, ys: Sequence[str], xs: Sequence[str], grad_ys: Sequence[str]) -> Any:
    """What tf.compat.v1.gradients gives for the tensors of these names; it comes into GRAPH."""
    tensors = [[graph.get_tensor_by_name(name) for name in names] for names in (ys, xs, grad_ys)]
    with graph.as_default():
        return v1.gradients(tensors[0], tensors[1], tensors[2] or None)


def imported(path: str) -> Any:
    """The graph in a file."""
    graph = tf.Graph()
    with open(path, "rb") as file, graph.as_default():
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(file.read()), name="")
    return graph


def weights_of(graph: Any) -> list[str]:
    """The floating constants of more than one element."""
    constants = [op.outputs[0] for op in graph.get_operations() if op.type == "Const"]
    return [tensor.name for tensor in constants if tensor.dtype.is_floating and tensor.shape.num_elements() > 1]


def drawn(graph: Any, feeds: Mapping[str, Sequence[int]], seed: int = 0) -> dict[str, Any]:
    """Random values for placeholders of these shapes; those of integers are indices of a short table."""
    random = np.random.default_rng(seed)
    out = {}
    for name, shape in feeds.items():
        dtype = graph.get_tensor_by_name(name).dtype
        values = random.standard_normal(shape) if dtype.is_floating else random.integers(0, 20, shape)
        out[name] = values.astype(dtype.as_numpy_dtype)
    return out


def session(graph: Any, *, optimize: bool) -> Any:
    """A session as deployed graphs have it; or one that runs the nodes that are written, and no others."""
    config = v1.ConfigProto()
    if not optimize:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
    return v1.Session(graph=graph, config=config)


def values_of(
    graph: Any, fetches: Sequence[str], draws: Sequence[Mapping[str, Any]], *, optimize: bool = False
) -> list[list[Any]]:
    """The values of the fetches, for each draw of the feeds."""
    with session(graph, optimize=optimize) as runs:
        return [runs.run(fetches, feeds) for feeds in draws]


def different(names: Sequence[str], values: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]) -> list[str]:
    """The names of the tensors whose values are not the expected ones, bit by bit, in some draw."""
    out = {
        name: None
        for these, those in zip(values, expected, strict=True)
        for name, a, b in zip(names, these, those, strict=True)
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes()
    }
    return list(out)


def error(value: Any, expected: Any) -> float:
    """The L2 norm of the difference, relative to that of what is expected; `WRONG` where there is no such number."""
    if value.shape != expected.shape:
        return WRONG
    if value.tobytes() == expected.tobytes():
        return 0.0
    norm = float(np.linalg.norm(expected.astype(np.float64)))
    distance = float(np.linalg.norm(value.astype(np.float64) - expected))
    if not norm:
        return WRONG if distance else 0.0
    return distance / norm if np.isfinite(distance / norm) else WRONG


DOES: Mapping[str, Callable[[Request], Answer]] = {"make": make, "compare": compare, "trace": trace}

if __name__ == "__main__":
    serve(DOES)
