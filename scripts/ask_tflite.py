#!/usr/bin/env python3
"""Tests which ops TensorFlow's converter to TFLite accepts.

    python ask_tflite.py < OPS      prints TensorFlow's version, then a line for each op: OP, a tab, and the result

The result is ``yes`` if the converter accepts a graph with this op. It is ``select`` if the converter accepts such a
graph only with ops of TensorFlow that are linked into the program (SELECT_TF_OPS), and ``no`` if it accepts none.

For most ops, the graphs are one node with random inputs, dtypes and attributes that TensorFlow accepts. ``OP#1`` stands
for OP with different random graphs, for an op whose graphs make the converter crash. Ops that occur only together, such
as loops, calls and lists of tensors, are tested with functions in Python.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

GraphDef = tf.compat.v1.GraphDef
ATTEMPTS = 250
"""Maximum number of random graphs for an op."""
MOST_CONVERTED = 8
"""Maximum number of graphs of an op that are converted."""
SHAPES = [(), (1,), (2,), (4,), (2, 2), (1, 4), (2, 2, 2), (2, 2, 2, 2), (1, 4, 4, 2), (2, 2, 2, 2, 2)]
FLOAT, INT32, INT64, BOOL, STRING, RESOURCE, VARIANT = 1, 3, 9, 10, 7, 20, 21
PREFERRED = [FLOAT, FLOAT, FLOAT, INT32, INT32, INT64, BOOL, STRING, 4, 6, 8, 18]
"""DataTypes; a repeated one is sampled more often."""

SCALARS = {"axis", "dim", "split_dim", "k", "depth", "max_output_size", "iou_threshold", "score_threshold", "num",
           "soft_nms_sigma", "start", "stop", "limit", "delta", "dimension", "exclusive", "reverse", "num_rows",
           "num_cols", "on_value", "off_value", "concat_dim", "reduction_indices", "num_segments", "clip_value_min",
           "clip_value_max"}  # fmt: skip
"""Names of inputs that are usually scalars."""

WITHOUT_RESULT = {"Assert", "ControlTrigger", "NoOp", "Print", "PrintV2"}
"""Ops that have only an effect or an order; a control edge to an output keeps them."""
STATEFUL = {"StatelessWhile": "While", "While": "StatelessWhile", "StatelessIf": "If", "StatelessCase": "Case",
            "PartitionedCall": "StatefulPartitionedCall", "StatefulPartitionedCall": "PartitionedCall"}  # fmt: skip


def main() -> None:
    """Prints the version and the results."""
    out = os.fdopen(os.dup(1), "w")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    print(tf.__version__, file=out, flush=True)
    known = {op for graph_def in graphs_of_functions() for op in accepted_ops(graph_def)}
    for line in sys.stdin.read().split():
        op = line.partition("#")[0]
        print(f"{op}\t{'yes' if op in known else answer(op, line)}", file=out, flush=True)


def graphs_of_functions() -> Iterator[Any]:
    """Yields graphs of ops that need each other, or for which random graphs are useless or crash the converter.

    Each graph also comes with the stateful or stateless variants of its ops.
    """
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    lstm = tf.keras.layers.LSTM(3)
    functions = [
        lambda x: tf.while_loop(lambda i, _: i < 5, lambda i, y: (i + 1, y * 2.0), [0, x])[1],
        lambda x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: x + 1.0, lambda: x * 3.0),
        lambda x: tf.switch_case(tf.cast(x[0, 0], tf.int32), [lambda: x + 1.0, lambda: x * 3.0]),
        lambda x: tf.map_fn(lambda row: row * 2.0, x),
        lambda x: tf.function(lambda y: y + 1.0)(x),
        lambda x: tf.split(x, [1, 3])[1],
        lambda x: tf.batch_to_space(tf.reshape(x, [4, 3, 1, 1]), [2, 2], [[0, 0], [0, 0]]),
        lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[0.0, 1.0]),
        lambda x: lstm(x[tf.newaxis]),
    ]
    for function in functions:
        concrete = tf.function(function).get_concrete_function(tf.TensorSpec([4, 3], tf.float32))
        frozen = [convert_variables_to_constants_v2(concrete, lower_control_flow=lowered) for lowered in (False, True)]
        traced = [concrete] if function is not functions[-1] else []  # the LSTM has variables
        for graph_def in (each.graph.as_graph_def() for each in traced + frozen):
            yield graph_def
            variant = GraphDef.FromString(graph_def.SerializeToString())
            for nodes in (variant.node, *(function.node_def for function in variant.library.function)):
                for node in nodes:
                    node.op = STATEFUL.get(node.op, node.op)
            yield variant


def accepted_ops(graph_def: Any) -> set[str]:
    """Returns the ops of a graph if the converter accepts it; else nothing."""
    read = {name.lstrip("^").partition(":")[0] for node in graph_def.node for name in node.input}
    results = [node.name for node in graph_def.node if node.name not in read and node.op not in ("NoOp", "Const")]
    try:
        if not convert(*imported(graph_def, lambda op: op.name in results)):
            return set()
    except Exception:
        return set()
    kept = tf.compat.v1.graph_util.extract_sub_graph(graph_def, results)
    return {node.op for nodes in (kept.node, *(f.node_def for f in kept.library.function)) for node in nodes}


def answer(op: str, seed: str) -> str:
    """Returns the result for `op`."""
    definition, tried = op_def_registry.get(op), []
    for graph_def in random_graphs(definition, random.Random(seed)) if definition is not None else ():
        try:
            tried.append(imported(graph_def, lambda op: op.name.startswith("z")))
        except Exception:
            continue
        if convert(*tried[-1]):
            return "yes"
        if len(tried) == MOST_CONVERTED:
            break
    return "select" if any(convert(*each, select=True) for each in tried[:3]) else "no"


def imported(graph_def: Any, is_output: Callable[[Any], bool]) -> tuple[Any, list[Any], list[Any]]:
    """Returns a graph with its inputs and outputs. Raises the error of TensorFlow's import."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    ops = graph.get_operations()
    inputs = [op.outputs[0] for op in ops if op.type == "Placeholder"]
    return graph_def, inputs, [op.outputs[0] for op in ops if is_output(op)]


def convert(graph_def: Any, inputs: list[Any], outputs: list[Any], *, select: bool = False) -> bool:
    """Returns whether the converter accepts a graph; with `select`, also with ops of TensorFlow."""
    converter = tf.compat.v1.lite.TFLiteConverter(graph_def, inputs, outputs)
    if select:
        converter.target_spec.supported_ops = [tf.lite.OpsSet.SELECT_TF_OPS]
    try:
        return bool(converter.convert())
    except Exception:
        return False


def random_graphs(definition: Any, rng: random.Random) -> Iterator[Any]:
    """Yields GraphDefs with a node `y` of the op, inputs `x0`, ..., and consumers `z0`, ...; most are invalid.

    An op without readable outputs has no graphs, because the converter accepts any graph without outputs.
    """
    if any(attr.type in ("func", "list(func)") for attr in definition.attr):
        return
    if any(arg.type in (RESOURCE, VARIANT) or arg.is_ref for arg in definition.input_arg):
        return
    for _ in range(ATTEMPTS):
        graph_def = GraphDef()
        graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
        node = graph_def.node.add(name="y", op=definition.name)
        for attr in definition.attr:
            set_attr(rng, attr, node.attr[attr.name])
        add_inputs(rng, definition, graph_def, node)
        is_folded = node.input and all(each.op == "Const" for each in graph_def.node if each is not node)
        if not is_folded and add_consumers(definition, graph_def, node, rng.choice([1, 100])):
            yield graph_def


def set_attr(rng: random.Random, attr: Any, value: Any) -> None:
    """Sets an attribute to its default or to a random value."""
    if attr.HasField("default_value") and (attr.type not in ("type", "bool") or rng.random() < 0.7):
        value.CopyFrom(attr.default_value)
        return
    allowed = list(attr.allowed_values.list.type)
    choices = [t for t in PREFERRED if not allowed or t in allowed] or allowed
    if attr.type == "type":
        value.type = rng.choice(choices)
    elif attr.type == "int":
        value.i = max(attr.minimum, rng.choice([1, 2, 2]))
    elif attr.type == "float":
        value.f = 1.0
    elif attr.type == "bool":
        value.b = rng.random() < 0.5
    elif attr.type == "string":
        value.s = rng.choice(list(attr.allowed_values.list.s) or [b"", b"SAME"])
    elif attr.type == "shape":
        for size in rng.choice(SHAPES):
            value.shape.dim.add(size=size)
    elif attr.type == "tensor":
        value.tensor.CopyFrom(tf.make_tensor_proto(1.0))
    elif attr.type == "list(type)":
        value.list.type.extend([rng.choice(choices)] * max(attr.minimum, 1))
    elif attr.type == "list(int)":
        size = rng.choice([4, 5] if "stride" in attr.name or "size" in attr.name or "rate" in attr.name else [1, 2])
        middle = rng.choice([1, 2])
        value.list.i.extend([1, *[middle] * (size - 2), 1] if size > 2 else [1] * size)
    elif attr.type == "list(shape)":
        value.list.shape.add()


def add_inputs(rng: random.Random, definition: Any, graph_def: Any, node: Any) -> None:
    """Adds a Placeholder or a Const for each input of `node`."""
    manner, base = rng.choice(["same", "vectors", "any"]), rng.choice(SHAPES)
    inputs = [(arg.name, dtype) for arg in definition.input_arg for dtype in dtypes_of(arg, node)]
    for position, (name, dtype) in enumerate(inputs):
        shape = rng.choice(SHAPES) if manner == "any" else base[-1:] if manner == "vectors" and position else base
        is_integer, values = dtype in (INT32, INT64), None
        probability = 0.8 if is_integer else 0.3
        if name in SCALARS and rng.random() < 0.8:
            shape, probability = (), 1.0
        pairs = rng.choice([2, max(len(base), 1)])
        fixed = {"paddings": (pairs, 2), "crops": (pairs, 2), "block_shape": (pairs,), "boxes": (2, 4), "scores": (2,)}
        shape = fixed.get(name, shape)
        if is_integer and ("size" in name or "shape" in name) and name not in SCALARS and rng.random() < 0.5:
            values, shape, probability = base, (len(base),), 1.0
        if len(inputs) > 1 and rng.random() < probability:
            add_constant(rng, graph_def, f"x{position}", dtype, shape, values)
        else:
            add_placeholder(graph_def, f"x{position}", dtype, shape)
        node.input.append(f"x{position}")


def add_placeholder(graph_def: Any, name: str, dtype: int, shape: tuple[int, ...]) -> None:
    node = graph_def.node.add(name=name, op="Placeholder")
    node.attr["dtype"].type = dtype
    for size in shape:
        node.attr["shape"].shape.dim.add(size=size)


def add_constant(
    rng: random.Random, graph_def: Any, name: str, dtype: int, shape: tuple[int, ...], given: tuple[int, ...] | None
) -> None:
    """Adds a Const with the values `given`, or with random values."""
    count = int(np.prod(shape))
    if dtype == STRING:
        values = np.array([b"a"] * count, object)
    else:
        kinds = [np.zeros(count), np.ones(count), np.arange(count), np.full(count, 2)]
        chosen = rng.choice(kinds) if given is None else np.array(given)
        values = chosen.astype(tf.dtypes.as_dtype(dtype).as_numpy_dtype)
    node = graph_def.node.add(name=name, op="Const")
    node.attr["dtype"].type = dtype
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(values.reshape(shape), dtype=dtype, shape=shape))


def add_consumers(definition: Any, graph_def: Any, node: Any, most: int) -> bool:
    """Adds consumers of the first `most` outputs of `node`, or a control edge; returns False if neither is possible."""
    dtypes = [dtype for arg in definition.output_arg for dtype in dtypes_of(arg, node)]
    readable = [(index, dtype) for index, dtype in enumerate(dtypes[:most]) if dtype not in (RESOURCE, VARIANT)]
    consumers = [(f"z{index}", [f"y:{index}"], dtype) for index, dtype in readable]
    if definition.name in WITHOUT_RESULT:
        given = f"x{len(node.input)}"
        add_placeholder(graph_def, given, FLOAT, (2,))
        consumers.append(("z", [given, "^y"], FLOAT))
    for name, inputs, dtype in consumers:
        graph_def.node.add(name=name, op="Identity", input=inputs).attr["T"].type = dtype
    return bool(consumers)


def dtypes_of(arg: Any, node: Any) -> list[int]:
    """Returns the DataType of each tensor of an argument."""
    if arg.type_list_attr:
        return list(node.attr[arg.type_list_attr].list.type)
    dtype = int(node.attr[arg.type_attr].type) if arg.type_attr else int(arg.type)
    return [dtype] * (int(node.attr[arg.number_attr].i) if arg.number_attr else 1)


if __name__ == "__main__":
    main()
