"""What the op that gives a tensor says of its numbers: that they are probabilities, or where they lie."""

from __future__ import annotations

from math import inf

from gdsurgeon.analysis.shapes.inference import shape_of_tensor
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import IDENTITY, RESHAPES
from gdsurgeon.steps.value import CLASSES, LOG_PROBABILITIES, PROBABILITIES, Value

_BOUNDS = {
    "Softmax": (0.0, 1.0), "Sigmoid": (0.0, 1.0), "LogSoftmax": (-inf, 0.0), "Tanh": (-1.0, 1.0), "Relu": (0.0, inf),
    "Relu6": (0.0, 6.0), "ArgMax": (0.0, inf), "ArgMin": (0.0, inf),
}  # fmt: skip
_ARE = {"Softmax": PROBABILITIES, "LogSoftmax": LOG_PROBABILITIES, "ArgMax": CLASSES, "ArgMin": CLASSES}
_FARTHEST = 16
"""So many nodes that pass on what they read are looked through."""


def known_of(model: Graph, tensor: Output, value: Value) -> Value:
    """VALUE, which is what TENSOR of MODEL gives, with what is known of its numbers."""
    same_shape = True
    node = tensor.node
    for _ in range(_FARTHEST):
        if node.op not in IDENTITY | RESHAPES or not node.inputs:
            break
        source = node.inputs[0]
        same_shape = same_shape and (node.op in IDENTITY or _last(model, source) == _last(model, node.output) != -1)
        node = source.node
    if node.op not in _BOUNDS or (node is tensor.node and tensor.index):
        return value
    low, high = _BOUNDS[node.op]
    is_of = _ARE.get(node.op, "")
    if is_of == CLASSES:
        count = _class_count(model, node)
        high = float(count - 1) if count > 0 else inf
    elif not same_shape:
        is_of = ""
    value = value.but(low=max(low, value.low), high=min(high, value.high))
    return value.being(is_of) if is_of else value


def _last(model: Graph, tensor: Output) -> int:
    """The last dimension of TENSOR; -1: it is not known."""
    shape = shape_of_tensor(model, tensor)
    return shape[-1] if shape else -1


def _class_count(model: Graph, node: Node) -> int:
    """How many values an ArgMax chooses from; -1: that is not known."""
    if len(node.inputs) != 2:
        return -1
    scores, axis = node.inputs
    shape, found = shape_of_tensor(model, scores), constant(axis.node)
    if shape is None or found is None or len(found.values) != 1:
        return -1
    place = found.values[0]
    return shape[place] if isinstance(place, int) and -len(shape) <= place < len(shape) else -1
