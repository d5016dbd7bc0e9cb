"""TensorFlow's word on shapes. Run with -m, and asked as `aside.py` says.

For each ``X.pb`` in a folder there is an ``X.json`` afterwards: what TensorFlow infers when it imports the graph
(``static``, by tensor) and what the tensors turn out to be when it runs (``actual``), unknown dims fed as FED.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from support.aside import Answer, Request, serve

v1 = tf.compat.v1
FED = 4
REACHES_FILES = {"SaveV2", "RestoreV2", "MergeV2Checkpoints", "ReadFile", "WriteFile"}


def shape_of(shape: Any) -> list[int] | None:
    return None if shape.rank is None else [-1 if dim is None else dim for dim in shape.as_list()]


def examined(path: Path) -> dict[str, Any]:
    graph_def = v1.GraphDef.FromString(path.read_bytes())
    graph = tf.Graph()
    try:
        with graph.as_default():
            v1.import_graph_def(graph_def, name="")
    except Exception as error:
        return {"error": str(error)}
    tensors = [
        tensor
        for op in graph.get_operations()
        for tensor in op.outputs
        if tensor.dtype.base_dtype not in (tf.resource, tf.variant)
    ]
    out: dict[str, Any] = {"static": {tensor.name: shape_of(tensor.shape) for tensor in tensors}, "actual": {}}
    if REACHES_FILES & {op.type for op in graph.get_operations()}:
        return out
    feeds = {}
    for op in graph.get_operations():
        if op.type == "Placeholder":
            if op.outputs[0].shape.rank is None:
                return out
            dims = [FED if dim is None else dim for dim in op.outputs[0].shape.as_list()]
            feeds[op.outputs[0]] = np.ones(dims, op.outputs[0].dtype.as_numpy_dtype)
    out["actual"] = {name: list(np.shape(value)) for name, value in run(graph, tensors, feeds).items()}
    return out


def run(graph: Any, tensors: list[Any], feeds: dict[Any, Any]) -> dict[str, Any]:
    """The values of TENSORS, except those that depend on a failing op."""
    options = v1.ConfigProto()
    options.graph_options.rewrite_options.disable_meta_optimizer = True  # optimised graphs have other failing ops
    options.graph_options.optimizer_options.opt_level = -1
    failed: set[str] = set()
    with v1.Session(graph=graph, config=options) as session:
        while True:
            dead = set(failed)
            for op in graph.get_operations():  # in topological order where there are no loops
                if any(read.op.name in dead for read in op.inputs):
                    dead.add(op.name)
            wanted = {tensor.name: tensor for tensor in tensors if tensor.op.name not in dead}
            try:
                return dict(session.run(wanted, feeds))
            except tf.errors.OpError as error:
                if error.op is None or error.op.name in failed:
                    return {}
                failed.add(error.op.name)


class Random:
    """A random graph of ops as models hold them, on images and sequences with some dims unknown."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.int, self.choice = self.random.randint, self.random.choice
        self.tensors: list[Any] = []

    def pick(self, rank: int | None = None) -> Any:
        found = [t for t in self.tensors if rank is None or t.shape.rank == rank]
        return self.choice(found) if found else self.choice(self.tensors)

    def flip(self) -> bool:
        return self.random.random() < 0.5

    def make(self) -> Any:
        graph = tf.Graph()
        with graph.as_default():
            for shape in ([FED, 12, 8, 6], [FED, 10, 6]):
                stated = [None if self.random.random() < 0.4 and dim == FED else dim for dim in shape]
                self.tensors.append(v1.placeholder(tf.float32, stated))
            self.tensors.append(v1.placeholder(tf.float32, [None, None, None, 3]))
            for _ in range(30):
                try:
                    rank, build = self.choice(OPS)
                    made = build(self, self.pick(rank))
                except (ValueError, TypeError, IndexError, tf.errors.InvalidArgumentError):
                    continue  # it does not fit what was picked
                for tensor in made if isinstance(made, list | tuple) else [made]:
                    if tensor.dtype == tf.float32 and (tensor.shape.num_elements() or 0) < 100_000:
                        self.tensors.append(tensor)
        return graph.as_graph_def()

    def padding(self) -> str:
        return self.choice(["SAME", "VALID"])

    def pads(self, x: Any) -> list[list[int]]:
        return [[self.int(0, 1), self.int(0, 2)] for _ in range(x.shape.rank)]

    def convolution(self, x: Any) -> Any:
        k, d = self.int(1, 3), self.int(1, 2)
        taps = kernel(k, k + 1, x.shape[3], self.int(1, 5))
        return tf.nn.conv2d(x, taps, 1 if d > 1 else self.int(1, 3), self.padding(), dilations=d)

    def depthwise(self, x: Any) -> Any:
        stride = self.int(1, 2)
        taps = kernel(3, 3, x.shape[3], self.int(1, 3))
        return tf.nn.depthwise_conv2d(x, taps, [1, stride, stride, 1], self.padding())

    def transposed_convolution(self, x: Any) -> Any:
        shape = v1.shape(x)
        size = tf.stack([shape[0], shape[1] * 2, shape[2] * 2, 5])
        return tf.nn.conv2d_transpose(x, kernel(2, 2, 5, x.shape[3]), size, 2)

    def reduction(self, x: Any) -> Any:
        axes = self.random.sample(range(-x.shape.rank, 0), self.int(0, min(2, x.shape.rank)))
        return tf.reduce_mean(x, axes or None, keepdims=self.flip())

    def strided_slice(self, x: Any) -> Any:
        cuts = [(1, None), (None, -1), (None, None, 2), (None, None, -1), (-3, None, 2), (5, 1, -2), (None,)]
        items: list[Any] = [*(slice(*cut) for cut in cuts), 0, -1, tf.newaxis]
        key = [self.choice(items) for _ in range(self.int(1, 3))]
        if self.flip():
            key.insert(self.int(0, len(key)), ...)
        return x[tuple(key)]

    def resized(self, x: Any) -> Any:
        size = [self.int(2, 9), 5] if self.flip() else v1.shape(x)[1:3] * 2
        return self.choice([v1.image.resize_bilinear, v1.image.resize_nearest_neighbor])(x, size)


def kernel(*shape: int | None) -> Any:
    if None in shape:
        raise ValueError
    return tf.constant(np.zeros(shape, np.float32))


OPS: list[tuple[int | None, Callable[[Random, Any], Any]]] = [
    (4, Random.convolution),
    (4, lambda r, x: tf.nn.conv2d(x, kernel(3, 3, x.shape[3], 2), r.int(1, 2), [[0, 0], *r.pads(x)[:2], [0, 0]])),
    (4, Random.depthwise),
    (4, Random.transposed_convolution),
    (4, lambda r, x: r.choice([tf.nn.max_pool2d, tf.nn.avg_pool2d])(x, [r.int(1, 3), 2], r.int(1, 3), r.padding())),
    (None, lambda r, x: r.choice([tf.nn.relu, tf.tanh, tf.identity, tf.nn.softmax, tf.exp])(x)),
    (None, lambda r, x: r.choice([tf.add, tf.multiply, tf.maximum])(x, r.pick())),
    (None, lambda r, x: x * 2.0),
    (None, lambda r, x: tf.nn.bias_add(x, kernel(x.shape[-1]))),
    (4, lambda r, x: v1.nn.fused_batch_norm(x, *[kernel(x.shape[3])] * 4, is_training=False)[0]),
    (None, Random.reduction),
    (None, lambda r, x: tf.cast(tf.argmax(x, r.int(-1, 1)), tf.float32)),
    (None, lambda r, x: tf.reshape(x, [-1, int(np.prod(x.shape.as_list()[1:]))])),
    (None, lambda r, x: tf.reshape(x, tf.stack([v1.shape(x)[0], -1, *([1] * r.int(0, 1))]))),
    (None, lambda r, x: tf.reshape(x, tf.concat([v1.shape(x)[:1], [v1.reduce_prod(v1.shape(x)[1:])]], 0))),
    (None, lambda r, x: tf.squeeze(tf.expand_dims(x, r.int(-2, 1)), r.choice([[-1], [1], []]))),
    (None, lambda r, x: tf.expand_dims(x, r.int(-2, 2))),
    (None, lambda r, x: tf.concat([x, tf.nn.relu(x), r.pick(x.shape.rank)][: r.int(2, 3)], r.int(-1, 2))),
    (None, lambda r, x: tf.stack([x, x * 2.0], r.int(-2, 2))),
    (None, lambda r, x: tf.unstack(x, axis=r.int(-1, 1))),
    (None, lambda r, x: tf.split(x, r.choice([2, 3]), r.int(-1, 1))),
    (None, lambda r, x: tf.split(x, [1, -1, 2], r.int(-1, 1))),
    (None, lambda r, x: tf.slice(x, *zip(*[(r.int(0, 1), r.choice([-1, 1, 2])) for _ in x.shape], strict=True))),
    (None, Random.strided_slice),
    (None, lambda r, x: x[:, : v1.shape(x)[1] // 2]),
    (None, lambda r, x: tf.transpose(x, r.random.sample(range(x.shape.rank), x.shape.rank))),
    (None, lambda r, x: tf.tile(x, [r.int(1, 2) for _ in range(x.shape.rank)])),
    (None, lambda r, x: tf.pad(x, r.pads(x), r.choice(["CONSTANT", "SYMMETRIC"]))),
    (None, lambda r, x: tf.fill(v1.shape(x), 1.0)),
    (None, lambda r, x: tf.cast(tf.range(v1.shape(x)[0], 9, 2), tf.float32)),
    (None, lambda r, x: tf.gather(x, [[0, 1, 0]] if r.flip() else 0, axis=r.int(-1, 1))),
    (None, lambda r, x: tf.gather(x, tf.zeros(tf.stack([v1.shape(x)[0], 2]), tf.int32), axis=1, batch_dims=1)),
    (None, lambda r, x: tf.gather_nd(x, [[0, 0], [0, 1], [1, 0]])),
    (4, Random.resized),
    (None, lambda r, x: tf.one_hot(tf.cast(x, tf.int32), 5, axis=r.choice([-1, 0, 1]))),
    (None, lambda r, x: tf.math.top_k(x, r.int(1, 2)).values),
    (2, lambda r, x: v1.matmul(x, kernel(x.shape[1], r.int(1, 4)))),
    (2, lambda r, x: v1.matmul(x, kernel(3, x.shape[0]), transpose_a=True, transpose_b=True)),
    (3, lambda r, x: v1.matmul(x, x, transpose_b=True) if r.flip() else v1.matmul(x, kernel(x.shape[-1], 4))),
    (4, lambda r, x: v1.matmul(x, x, transpose_b=True)),
    (3, lambda r, x: tf.einsum("abc,cd->abd", x, kernel(x.shape[2], 3))),
    (4, lambda r, x: tf.space_to_batch(x, [2, 2], [[0, r.int(0, 1)], [r.int(0, 1), 1]])),
    (4, lambda r, x: tf.batch_to_space(tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]), [2, 2], [[0, 1], [1, 0]])),
    (4, lambda r, x: r.choice([tf.nn.space_to_depth, tf.nn.depth_to_space])(x, 2)),
    (None, lambda r, x: tf.where(x > 0.0, x, r.pick()) if r.flip() else v1.where(x > 0.0, x, -x)),
    (None, lambda r, x: tf.broadcast_to(x, tf.concat([[2], v1.shape(x)], 0))),
    (None, lambda r, x: tf.cast(tf.where(x > 0.0), tf.float32)),
]
"""The rank of the input of an op, None for any, and a function that adds the op."""


def examine(request: Request) -> Answer:
    """Examines the graphs in a folder; `random` graphs are made there first."""
    folder = Path(request["folder"])
    for seed in range(request["random"]):
        (folder / f"random_{seed}.pb").write_bytes(Random(seed).make().SerializeToString(deterministic=True))
    for path in folder.glob("*.pb"):
        path.with_suffix(".json").write_text(json.dumps(examined(path)))
    return {}


if __name__ == "__main__":
    serve({"examine": examine})
