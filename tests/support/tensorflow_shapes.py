"""TensorFlow's word on shapes. Run with -m, and asked as `aside.py` says.

For each ``X.pb`` in a folder there is an ``X.json`` afterwards: what TensorFlow infers when it imports the graph
(``static``, by tensor) and what the tensors turn out to be when it runs (``actual``), unknown dims fed as FED.
"""

from __future__ import annotations

import json
import random
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
        self.tensors: list[Any] = []

    def pick(self, rank: int | None = None) -> Any:
        found = [t for t in self.tensors if rank is None or t.shape.rank == rank]
        return self.random.choice(found) if found else self.random.choice(self.tensors)

    def make(self) -> Any:
        graph = tf.Graph()
        with graph.as_default():
            for shape in ([FED, 12, 8, 6], [FED, 10, 6]):
                stated = [None if self.random.random() < 0.4 and dim == FED else dim for dim in shape]
                self.tensors.append(v1.placeholder(tf.float32, stated))
            self.tensors.append(v1.placeholder(tf.float32, [None, None, None, 3]))
            makers = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("op_")]
            for _ in range(30):
                try:
                    made = self.random.choice(makers)()
                except (ValueError, TypeError, IndexError, tf.errors.InvalidArgumentError):
                    continue  # it does not fit what was picked
                for tensor in made if isinstance(made, list | tuple) else [made]:
                    if tensor.dtype == tf.float32 and (tensor.shape.num_elements() or 0) < 100_000:
                        self.tensors.append(tensor)
        return graph.as_graph_def()

    def int(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def kernel(self, *shape: int | None) -> Any:
        if None in shape:
            raise ValueError
        return tf.constant(np.zeros(shape, np.float32))

    def padding(self) -> str:
        return self.random.choice(["SAME", "VALID"])

    def op_conv(self) -> Any:
        x, k, d = self.pick(4), self.int(1, 3), self.int(1, 2)
        taps = self.kernel(k, k + 1, x.shape[3], self.int(1, 5))
        stride = 1 if d > 1 else self.int(1, 3)
        return tf.nn.conv2d(x, taps, stride, self.padding(), dilations=d)

    def op_conv_explicit(self) -> Any:
        x = self.pick(4)
        pads = [[0, 0], [self.int(0, 2), 1], [self.int(0, 2), 2], [0, 0]]
        return tf.nn.conv2d(x, self.kernel(3, 3, x.shape[3], 2), self.int(1, 2), pads)

    def op_depthwise(self) -> Any:
        x, stride = self.pick(4), self.int(1, 2)
        taps = self.kernel(3, 3, x.shape[3], self.int(1, 3))
        return tf.nn.depthwise_conv2d(x, taps, [1, stride, stride, 1], self.padding())

    def op_transposed(self) -> Any:
        x = self.pick(4)
        shape = v1.shape(x)
        size = tf.stack([shape[0], shape[1] * 2, shape[2] * 2, 5])
        return tf.nn.conv2d_transpose(x, self.kernel(2, 2, 5, x.shape[3]), size, 2)

    def op_pool(self) -> Any:
        pool = self.random.choice([tf.nn.max_pool2d, tf.nn.avg_pool2d])
        return pool(self.pick(4), [self.int(1, 3), 2], self.int(1, 3), self.padding())

    def op_unary(self) -> Any:
        return self.random.choice([tf.nn.relu, tf.tanh, tf.identity, tf.nn.softmax, tf.exp])(self.pick())

    def op_binary(self) -> Any:
        return self.random.choice([tf.add, tf.multiply, tf.maximum])(self.pick(), self.pick())

    def op_scalar(self) -> Any:
        return self.pick() * 2.0

    def op_bias(self) -> Any:
        x = self.pick()
        return tf.nn.bias_add(x, self.kernel(x.shape[-1]))

    def op_batch_norm(self) -> Any:
        x = self.pick(4)
        c = self.kernel(x.shape[3])
        return v1.nn.fused_batch_norm(x, c, c, c, c, is_training=False)[0]

    def op_reduce(self) -> Any:
        x = self.pick()
        axes = self.random.sample(range(-x.shape.rank, 0), self.int(0, min(2, x.shape.rank)))
        return tf.reduce_mean(x, axes or None, keepdims=self.random.random() < 0.5)

    def op_argmax(self) -> Any:
        return tf.cast(tf.argmax(self.pick(), self.int(-1, 1)), tf.float32)

    def op_flatten(self) -> Any:
        x = self.pick()
        rest = int(np.prod(x.shape.as_list()[1:]))
        return tf.reshape(x, [-1, rest])

    def op_reshape_dynamic(self) -> Any:
        x = self.pick()
        shape = v1.shape(x)
        return tf.reshape(x, tf.stack([shape[0], -1, *([1] * self.int(0, 1))]))

    def op_reshape_product(self) -> Any:
        x = self.pick()
        shape = v1.shape(x)
        return tf.reshape(x, tf.concat([shape[:1], [v1.reduce_prod(shape[1:])]], 0))

    def op_squeeze(self) -> Any:
        return tf.squeeze(tf.expand_dims(self.pick(), self.int(-2, 1)), self.random.choice([[-1], [1], []]))

    def op_expand(self) -> Any:
        return tf.expand_dims(self.pick(), self.int(-2, 2))

    def op_concat(self) -> Any:
        x = self.pick()
        return tf.concat([x, tf.nn.relu(x), self.pick(x.shape.rank)][: self.int(2, 3)], self.int(-1, 2))

    def op_stack(self) -> Any:
        x = self.pick()
        return tf.stack([x, x * 2.0], self.int(-2, 2))

    def op_unstack(self) -> Any:
        return tf.unstack(self.pick(), axis=self.int(-1, 1))

    def op_split(self) -> Any:
        return tf.split(self.pick(), self.random.choice([2, 3]), self.int(-1, 1))

    def op_split_sizes(self) -> Any:
        return tf.split(self.pick(), [1, -1, 2], self.int(-1, 1))

    def op_slice(self) -> Any:
        x = self.pick()
        begins = [self.int(0, 1) for _ in range(x.shape.rank)]
        return tf.slice(x, begins, [self.random.choice([-1, 1, 2]) for _ in begins])

    def op_strided_slice(self) -> Any:
        x = self.pick()
        cuts = [
            slice(1, None),
            slice(None, -1),
            slice(None, None, 2),
            slice(None, None, -1),
            slice(-3, None, 2),
            slice(5, 1, -2),
            0,
            -1,
            tf.newaxis,
            slice(None),
        ]
        key = [self.random.choice(cuts) for _ in range(self.int(1, 3))]
        if self.random.random() < 0.5:
            key.insert(self.int(0, len(key)), ...)
        return x[tuple(key)]

    def op_strided_slice_dynamic(self) -> Any:
        x = self.pick()
        return x[:, : v1.shape(x)[1] // 2]

    def op_transpose(self) -> Any:
        x = self.pick()
        return tf.transpose(x, self.random.sample(range(x.shape.rank), x.shape.rank))

    def op_tile(self) -> Any:
        x = self.pick()
        return tf.tile(x, [self.int(1, 2) for _ in range(x.shape.rank)])

    def op_pad(self) -> Any:
        x = self.pick()
        pads = [[self.int(0, 1), self.int(0, 2)] for _ in range(x.shape.rank)]
        return tf.pad(x, pads, self.random.choice(["CONSTANT", "SYMMETRIC"]))

    def op_fill(self) -> Any:
        return tf.fill(v1.shape(self.pick()), 1.0)

    def op_range(self) -> Any:
        return tf.cast(tf.range(v1.shape(self.pick())[0], 9, 2), tf.float32)

    def op_gather(self) -> Any:
        x, axis = self.pick(), self.int(-1, 1)
        return tf.gather(x, [[0, 1, 0]] if self.random.random() < 0.5 else 0, axis=axis)

    def op_gather_batch(self) -> Any:
        x = self.pick()
        indices = tf.zeros(tf.stack([v1.shape(x)[0], 2]), tf.int32)
        return tf.gather(x, indices, axis=1, batch_dims=1)

    def op_gather_nd(self) -> Any:
        return tf.gather_nd(self.pick(), [[0, 0], [0, 1], [1, 0]])

    def op_resize(self) -> Any:
        x = self.pick(4)
        size = [self.int(2, 9), 5] if self.random.random() < 0.5 else v1.shape(x)[1:3] * 2
        return self.random.choice([v1.image.resize_bilinear, v1.image.resize_nearest_neighbor])(x, size)

    def op_one_hot(self) -> Any:
        return tf.one_hot(tf.cast(self.pick(), tf.int32), 5, axis=self.random.choice([-1, 0, 1]))

    def op_top_k(self) -> Any:
        return tf.math.top_k(self.pick(), self.int(1, 2)).values

    def op_matmul(self) -> Any:
        x = self.pick(2)
        return v1.matmul(x, self.kernel(x.shape[1], self.int(1, 4)))

    def op_matmul_transposed(self) -> Any:
        x = self.pick(2)
        return v1.matmul(x, self.kernel(3, x.shape[0]), transpose_a=True, transpose_b=True)

    def op_batch_matmul(self) -> Any:
        x = self.pick(self.int(3, 4))
        return v1.matmul(x, x, transpose_b=True) if self.random.random() < 0.5 else v1.matmul(x, self.kernel(
            x.shape[-1], 4))  # fmt: skip

    def op_einsum(self) -> Any:
        x = self.pick(3)
        return tf.einsum("abc,cd->abd", x, self.kernel(x.shape[2], 3))

    def op_space_to_batch(self) -> Any:
        x = self.pick(4)
        return tf.space_to_batch(x, [2, 2], [[0, self.int(0, 1)], [self.int(0, 1), 1]])

    def op_batch_to_space(self) -> Any:
        return tf.batch_to_space(tf.space_to_batch(self.pick(4), [2, 2], [[0, 0], [0, 0]]), [2, 2], [[0, 1], [1, 0]])

    def op_space_to_depth(self) -> Any:
        return self.random.choice([tf.nn.space_to_depth, tf.nn.depth_to_space])(self.pick(4), 2)

    def op_select(self) -> Any:
        x = self.pick()
        return tf.where(x > 0.0, x, self.pick()) if self.random.random() < 0.5 else v1.where(x > 0.0, x, -x)

    def op_broadcast(self) -> Any:
        x = self.pick()
        return tf.broadcast_to(x, tf.concat([[2], v1.shape(x)], 0))

    def op_where(self) -> Any:
        return tf.cast(tf.where(self.pick() > 0.0), tf.float32)


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
