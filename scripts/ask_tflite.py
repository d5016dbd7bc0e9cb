#!/usr/bin/env python3
"""Says of each op that standard input names what TensorFlow's converter to TFLite makes of it.

    python ask_tflite.py < OPS      prints the version, then a line for each: OP, a tab, and what

OP#1 stands for OP with different random graphs, for an op whose graphs make the converter crash.

``yes``: a graph was found that has a node of the op, and that the converter takes with TFLite's own ops alone.
``select``: none was, and it takes one where ops of TensorFlow may be linked into the program (SELECT_TF_OPS).
``no``: it took none. For most ops the graphs are a node whose inputs, types and attrs are drawn until TensorFlow takes
them; what only goes together (loops, calls, lists of tensors) is of functions, written out in Python below.
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
DRAWS = 250
"""How many graphs are drawn of an op."""
MOST_CONVERTED = 8
"""Maximum number of graphs of an op that are converted."""
SHAPES = [(), (1,), (2,), (4,), (2, 2), (1, 4), (2, 2, 2), (2, 2, 2, 2), (1, 4, 4, 2), (2, 2, 2, 2, 2)]
FLOAT, INT32, INT64, BOOL, STRING, RESOURCE, VARIANT = 1, 3, 9, 10, 7, 20, 21
PREFERRED = [FLOAT, FLOAT, FLOAT, INT32, INT32, INT64, BOOL, STRING, 4, 6, 8, 18]
"""DataTypes, as often as they are drawn."""


SCALARS = {"axis", "dim", "split_dim", "k", "depth", "max_output_size", "iou_threshold", "score_threshold", "num",
           "soft_nms_sigma", "start", "stop", "limit", "delta", "dimension", "exclusive", "reverse", "num_rows",
           "num_cols", "on_value", "off_value", "concat_dim", "reduction_indices", "num_segments", "clip_value_min",
           "clip_value_max"}  # fmt: skip
"""Arguments that are numbers, by their names."""

WAITED_FOR = {"Assert", "ControlTrigger", "NoOp", "Print", "PrintV2"}
"""Ops that are there for what they do, or for order."""
STATEFUL = {"StatelessWhile": "While", "While": "StatelessWhile", "StatelessIf": "If", "StatelessCase": "Case",
            "PartitionedCall": "StatefulPartitionedCall", "StatefulPartitionedCall": "PartitionedCall"}  # fmt: skip


def main() -> None:
    """Prints what is asked for."""
    out = os.fdopen(os.dup(1), "w")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    print(tf.__version__, file=out, flush=True)
    known = {op for graph_def in together() for op in of_graph(graph_def)}
    for line in sys.stdin.read().split():
        op = line.partition("#")[0]
        print(f"{op}\t{'yes' if op in known else answer(op, line)}", file=out, flush=True)


def together() -> Iterator[Any]:
    """Yields graphs of ops that need each other, or for which random graphs are useless or crash the converter."""
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
        if function is not functions[-1]:  # it has variables
            yield from renamed(concrete.graph.as_graph_def())
        for lowered in (False, True):
            frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=lowered)
            yield from renamed(frozen.graph.as_graph_def())


def renamed(graph_def: Any) -> Iterator[Any]:
    """The graph with the ops that it has, and with those that are the same but for a promise about state."""
    yield graph_def
    again = GraphDef.FromString(graph_def.SerializeToString())
    for node in [*again.node, *(node for function in again.library.function for node in function.node_def)]:
        node.op = STATEFUL.get(node.op, node.op)
    yield again


def of_graph(graph_def: Any) -> set[str]:
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
    """Returns the answer of the converter for `op`."""
    definition, tried = op_def_registry.get(op), []
    for graph_def in drawn(definition, random.Random(seed)) if definition is not None else ():
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


def drawn(definition: Any, dice: random.Random) -> Iterator[Any]:
    """GraphDefs with a node ``y`` of the op and ``z...`` that read what it gives; most make no sense.

    No graphs for an op without readable outputs: the converter accepts any graph without outputs.
    """
    if any(attr.type in ("func", "list(func)") for attr in definition.attr):
        return
    if any(arg.type in (RESOURCE, VARIANT) or arg.is_ref for arg in definition.input_arg):
        return
    for _ in range(DRAWS):
        graph_def = GraphDef()
        graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
        node = graph_def.node.add(name="y", op=definition.name)
        for attr in definition.attr:
            draw_attr(dice, attr, node.attr[attr.name])
        draw_inputs(dice, definition, graph_def, node)
        is_folded = node.input and all(each.op == "Const" for each in graph_def.node if each is not node)
        if not is_folded and add_readers(definition, graph_def, node, dice.choice([1, 100])):
            yield graph_def


def draw_inputs(dice: random.Random, definition: Any, graph_def: Any, node: Any) -> None:
    """Adds the inputs of the node."""
    manner, base = dice.choice(["same", "vectors", "any"]), dice.choice(SHAPES)
    inputs = [(arg.name, dtype) for arg in definition.input_arg for dtype in types_of(arg, node)]
    for place, (name, dtype) in enumerate(inputs):
        shape = dice.choice(SHAPES) if manner == "any" else base[-1:] if manner == "vectors" and place else base
        is_integer, values = dtype in (INT32, INT64), None
        chance = 0.8 if is_integer else 0.3
        if name in SCALARS and dice.random() < 0.8:
            shape, chance = (), 1.0
        pairs = dice.choice([2, max(len(base), 1)])
        fixed = {"paddings": (pairs, 2), "crops": (pairs, 2), "block_shape": (pairs,), "boxes": (2, 4), "scores": (2,)}
        shape = fixed.get(name, shape)
        if is_integer and ("size" in name or "shape" in name) and name not in SCALARS and dice.random() < 0.5:
            values, shape, chance = base, (len(base),), 1.0
        add_input(dice, graph_def, place, dtype, shape, len(inputs) > 1 and dice.random() < chance, values)
        node.input.append(f"x{place}")


def add_readers(definition: Any, graph_def: Any, node: Any, most: int) -> bool:
    """Adds consumers of the first `most` outputs of `node`, or a control edge; returns False if neither is possible."""
    types = [dtype for arg in definition.output_arg for dtype in types_of(arg, node)]
    readable = [(index, dtype) for index, dtype in enumerate(types[:most]) if dtype not in (RESOURCE, VARIANT)]
    for index, dtype in readable:
        graph_def.node.add(name=f"z{index}", op="Identity", input=[f"y:{index}"]).attr["T"].type = dtype
    if definition.name in WAITED_FOR:
        add_input(random.Random(0), graph_def, len(node.input), FLOAT, (2,), False)
        reader = graph_def.node.add(name="z", op="Identity", input=[f"x{len(node.input)}", "^y"])
        reader.attr["T"].type = FLOAT
    return bool(readable) or definition.name in WAITED_FOR


def draw_attr(dice: random.Random, attr: Any, value: Any) -> None:
    """Puts something into the attr of a node."""
    if attr.HasField("default_value") and (attr.type not in ("type", "bool") or dice.random() < 0.7):
        value.CopyFrom(attr.default_value)
        return
    allowed = list(attr.allowed_values.list.type)
    choices = [t for t in PREFERRED if not allowed or t in allowed] or allowed
    if attr.type == "type":
        value.type = dice.choice(choices)
    elif attr.type == "int":
        value.i = max(attr.minimum, dice.choice([1, 2, 2]))
    elif attr.type == "float":
        value.f = 1.0
    elif attr.type == "bool":
        value.b = dice.random() < 0.5
    elif attr.type == "string":
        value.s = dice.choice(list(attr.allowed_values.list.s) or [b"", b"SAME"])
    elif attr.type == "shape":
        for size in dice.choice(SHAPES):
            value.shape.dim.add(size=size)
    elif attr.type == "tensor":
        value.tensor.CopyFrom(tf.make_tensor_proto(1.0))
    elif attr.type == "list(type)":
        value.list.type.extend([dice.choice(choices)] * max(attr.minimum, 1))
    elif attr.type == "list(int)":
        size = dice.choice([4, 5] if "stride" in attr.name or "size" in attr.name or "rate" in attr.name else [1, 2])
        middle = dice.choice([1, 2])
        value.list.i.extend([1, *[middle] * (size - 2), 1] if size > 2 else [1] * size)
    elif attr.type == "list(shape)":
        value.list.shape.add()


def types_of(arg: Any, node: Any) -> list[int]:
    """Returns the DataType of each tensor of an argument."""
    if arg.type_list_attr:
        return list(node.attr[arg.type_list_attr].list.type)
    dtype = int(node.attr[arg.type_attr].type) if arg.type_attr else int(arg.type)
    return [dtype] * (int(node.attr[arg.number_attr].i) if arg.number_attr else 1)


def add_input(
    dice: random.Random,
    graph_def: Any,
    place: int,
    dtype: int,
    shape: tuple[int, ...],
    is_constant: bool,
    given: tuple[int, ...] | None = None,
) -> None:
    """Adds what the node reads at PLACE; GIVEN: its values."""
    node = graph_def.node.add(name=f"x{place}", op="Const" if is_constant else "Placeholder")
    node.attr["dtype"].type = dtype
    if not is_constant:
        for size in shape:
            node.attr["shape"].shape.dim.add(size=size)
        return
    count = int(np.prod(shape))
    if dtype == STRING:
        values = np.array([b"a"] * count, object)
    else:
        kinds = [np.zeros(count), np.ones(count), np.arange(count), np.full(count, 2)]
        chosen = dice.choice(kinds) if given is None else np.array(given)
        values = chosen.astype(tf.dtypes.as_dtype(dtype).as_numpy_dtype)
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(values.reshape(shape), dtype=dtype, shape=shape))


if __name__ == "__main__":
    main()
