"""A graph with one small change, of every kind that values can miss: a comparison must report it by name."""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from gdsurgeon.compare.comparison import compare_files
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.differences import listed_differences
from gdsurgeon.wire.protos import GraphDef


class Changed(NamedTuple):
    """A graph with a change.

    Attributes:
        kind: the kind of change.
        where: the function that holds the node, or ''.
        node: its name.
        data: the graph.
    """

    kind: str
    where: str
    node: str
    data: bytes


EXCHANGED = {
    "Relu": "Relu6", "Relu6": "Relu", "Less": "LessEqual", "LessEqual": "Less", "Greater": "GreaterEqual",
    "GreaterEqual": "Greater", "Minimum": "Maximum", "Maximum": "Minimum", "Sub": "SquaredDifference", "Max": "Min",
    "Sum": "Mean", "Mean": "Sum", "Sigmoid": "Tanh", "Tanh": "Sigmoid", "Floor": "Round", "MaxPool": "AvgPool",
    "Exp": "Expm1", "Log": "Log1p", "Elu": "Selu", "LogicalAnd": "LogicalOr", "All": "Any",
}  # fmt: skip


def _op(node: Any) -> None:
    node.op = EXCHANGED[node.op]


def _padding(node: Any) -> None:
    node.attr["padding"].s = {b"SAME": b"VALID", b"VALID": b"SAME"}[node.attr["padding"].s]


def _first_attr(node: Any, keys: str) -> Any:
    """Returns the value of the first of the attrs that the node has."""
    found = [key for key in keys.split() if key in node.attr]
    return node.attr[found[0]]


def _flag(node: Any) -> None:
    value = _first_attr(node, "transpose_a transpose_b keep_dims half_pixel_centers align_corners Truncate exclusive")
    value.b = not value.b


def _epsilon(node: Any) -> None:
    value = _first_attr(node, "epsilon alpha iou_threshold seed seed2")
    if value.WhichOneof("value") == "f":
        value.f *= 1.01
    else:
        value.i += 1


def _exchange(items: Any, a: int, b: int) -> None:
    items[a], items[b] = items[b], items[a]


def _swapped_inputs(node: Any) -> None:
    data = [name for name in node.input if not name.startswith("^")]
    if len(data) == 2 and node.op in ("Sub", "RealDiv", "Div", "MatMul", "Pow", "Less", "Greater"):
        _exchange(node.input, 0, 1)


def _control_edge(node: Any) -> None:
    kept = [name for name in node.input if not name.startswith("^")]
    del node.input[:]
    node.input.extend(kept)


def _constant(node: Any, dtype: int) -> Any:
    """Returns the tensor of a constant of the dtype."""
    if node.op != "Const" or node.attr["value"].tensor.dtype != dtype:
        raise LookupError
    return node.attr["value"].tensor


def _bit(node: Any, part: int, bit: int) -> None:
    """Inverts a bit of a float at a fraction of the elements."""
    tensor = _constant(node, 1)
    values = array("f", tensor.tensor_content) if tensor.tensor_content else array("f", tensor.float_val)
    at = len(values) // part
    changed = int.from_bytes(struct.pack("<f", values[at]), "little") ^ bit
    (values[at],) = struct.unpack("<f", changed.to_bytes(4, "little"))
    if tensor.tensor_content:
        tensor.tensor_content = values.tobytes()
    else:
        tensor.float_val[at] = values[at]


def _channels(node: Any) -> None:
    tensor = _constant(node, 1)
    row, content = 4 * tensor.tensor_shape.dim[-1].size, tensor.tensor_content
    if row >= 8:
        rows = (content[i : i + row] for i in range(0, len(content), row))
        tensor.tensor_content = b"".join(r[4:8] + r[:4] + r[8:] for r in rows)


def _branches(node: Any) -> None:
    if node.op in ("If", "StatelessIf"):
        branches = [node.attr[key].func for key in ("then_branch", "else_branch")]
        branches[0].name, branches[1].name = branches[1].name, branches[0].name
    else:
        first = {"Merge": 0, "Select": 1, "SelectV2": 1}[node.op]
        _exchange(node.input, first, first + 1)


def _output(node: Any) -> None:
    at = [name.partition(":")[2] for name in node.input].index("1")
    node.input[at] = node.input[at].removesuffix(":1")


def _integer(node: Any) -> None:
    _constant(node, 3).int_val[0] += 1


def _text(node: Any) -> None:
    _constant(node, 7).string_val[0] += b"!"


def _device(node: Any) -> None:
    node.device = "/device:CPU:0" if node.device != "/device:CPU:0" else ""


KINDS: dict[str, Callable[[Any], None]] = {
    "op": _op, "padding": _padding, "flag": _flag, "epsilon": _epsilon, "inputs exchanged": _swapped_inputs,
    "control edges dropped": _control_edge, "a weight by one ulp": lambda node: _bit(node, 2, 1),
    "a weight's sign": lambda node: _bit(node, 3, 1 << 31), "channels exchanged": _channels,
    "branches exchanged": _branches, "another output": _output, "an integer": _integer, "a text": _text,
    "device": _device,
}  # fmt: skip
"""By kind: a function that changes a node. LookupError or ValueError: the kind does not fit the node."""


def small_changes(data: bytes, *, each: int = 3, seed: int = 0) -> Iterator[Changed]:
    """The graph DATA with one change, EACH times of every kind that it allows, at the top and in functions."""
    chance = random.Random(seed)
    original, kept = (GraphDef.FromString(data) for _ in range(2))
    places = [("", *pair) for pair in zip(original.node, kept.node, strict=True)]
    for function, its in zip(original.library.function, kept.library.function, strict=True):
        places += [(its.signature.name, *pair) for pair in zip(function.node_def, its.node_def, strict=True)]
    for kind, change in KINDS.items():
        done = 0
        for where, node, was in chance.sample(places, len(places)):
            if done == each:
                break
            with suppress(LookupError, ValueError):
                change(node)
                if node != was:
                    done += 1
                    yield Changed(kind, where, was.name, original.SerializeToString(deterministic=True))
            node.CopyFrom(was)


def unnamed(data: bytes, each: int) -> list[Changed]:
    """The small changes of a graph that the comparison does not name."""
    before = from_bytes(GraphDef.FromString(data).SerializeToString(deterministic=True), "a.pb")
    out = []
    for changed in small_changes(data, each=each):
        found = listed_differences(compare_files(before, from_bytes(changed.data, "b.pb")))
        if (changed.where, changed.node) not in {(item.where, item.name) for item in found}:
            out.append(changed)
    return out
