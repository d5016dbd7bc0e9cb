"""A graph with one small change, of every kind that values can miss: a comparison must report it by name."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
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


def _op(node: Any) -> bool:
    if node.op not in EXCHANGED:
        return False
    node.op = EXCHANGED[node.op]
    return True


def _padding(node: Any) -> bool:
    if node.attr["padding"].s not in (b"SAME", b"VALID") if "padding" in node.attr else True:
        return False
    node.attr["padding"].s = b"VALID" if node.attr["padding"].s == b"SAME" else b"SAME"
    return True


def _flag(node: Any) -> bool:
    for key in (
        "transpose_a",
        "transpose_b",
        "keep_dims",
        "half_pixel_centers",
        "align_corners",
        "Truncate",
        "exclusive",
    ):
        if key in node.attr:
            node.attr[key].b = not node.attr[key].b
            return True
    return False


def _epsilon(node: Any) -> bool:
    for key in ("epsilon", "alpha", "iou_threshold", "seed", "seed2"):
        if key in node.attr:
            which = node.attr[key].WhichOneof("value")
            if which == "f":
                node.attr[key].f *= 1.01
            elif which == "i":
                node.attr[key].i += 1
            return which in ("f", "i")
    return False


def _swapped_inputs(node: Any) -> bool:
    data = [name for name in node.input if not name.startswith("^")]
    if (
        len(data) != 2
        or data[0] == data[1]
        or node.op not in ("Sub", "RealDiv", "Div", "MatMul", "Pow", "Less", "Greater")
    ):
        return False
    node.input[0], node.input[1] = data[1], data[0]
    return True


def _control_edge(node: Any) -> bool:
    kept = [name for name in node.input if not name.startswith("^")]
    if len(kept) == len(node.input):
        return False
    del node.input[:]
    node.input.extend(kept)
    return True


def _content(node: Any, at: Callable[[int], int], change: Callable[[bytes], bytes]) -> bool:
    tensor = node.attr["value"].tensor if node.op == "Const" else None
    if tensor is None or tensor.dtype != 1:
        return False
    if len(tensor.tensor_content) >= 4:
        place = at(len(tensor.tensor_content) // 4) * 4
        data = bytearray(tensor.tensor_content)
        data[place : place + 4] = change(bytes(data[place : place + 4]))
        tensor.tensor_content = bytes(data)
    elif len(tensor.float_val):
        place = at(len(tensor.float_val))
        (tensor.float_val[place],) = struct.unpack("<f", change(struct.pack("<f", tensor.float_val[place])))
    else:
        return False
    return True


def _ulp(node: Any) -> bool:
    return _content(node, lambda n: n // 2, lambda d: (int.from_bytes(d, "little") ^ 1).to_bytes(4, "little"))


def _sign(node: Any) -> bool:
    return _content(node, lambda n: n // 3, lambda d: (int.from_bytes(d, "little") ^ 1 << 31).to_bytes(4, "little"))


def _channels(node: Any) -> bool:
    tensor = node.attr["value"].tensor if node.op == "Const" else None
    channels = tensor.tensor_shape.dim[-1].size if tensor is not None and tensor.tensor_shape.dim else 0
    if tensor is None or tensor.dtype != 1 or channels < 2 or len(tensor.tensor_content) < 8:
        return False
    content = tensor.tensor_content
    row = 4 * channels
    rows = (content[i : i + row] for i in range(0, len(content), row))
    tensor.tensor_content = b"".join(r[4:8] + r[:4] + r[8:] for r in rows)
    return True


def _branches(node: Any) -> bool:
    if node.op in ("If", "StatelessIf"):
        attrs = node.attr
        attrs["then_branch"].func.name, attrs["else_branch"].func.name = (
            attrs["else_branch"].func.name,
            attrs["then_branch"].func.name,
        )
        return True
    first = {"Merge": 0, "Select": 1, "SelectV2": 1}.get(node.op)
    if first is None:
        return False
    node.input[first], node.input[first + 1] = node.input[first + 1], node.input[first]
    return True


def _output(node: Any) -> bool:
    for i, name in enumerate(node.input):
        producer, _, index = name.partition(":")
        if index == "1":
            node.input[i] = producer
            return True
    return False


def _integer(node: Any) -> bool:
    tensor = node.attr["value"].tensor if node.op == "Const" else None
    if tensor is None or tensor.dtype != 3 or not len(tensor.int_val):
        return False
    tensor.int_val[0] += 1
    return True


def _text(node: Any) -> bool:
    tensor = node.attr["value"].tensor if node.op == "Const" else None
    if tensor is None or tensor.dtype != 7 or not len(tensor.string_val):
        return False
    tensor.string_val[0] += b"!"
    return True


def _device(node: Any) -> bool:
    node.device = "/device:CPU:0" if node.device != "/device:CPU:0" else ""
    return True


KINDS: dict[str, Callable[[Any], bool]] = {
    "op": _op, "padding": _padding, "flag": _flag, "epsilon": _epsilon, "inputs exchanged": _swapped_inputs,
    "control edges dropped": _control_edge, "a weight by one ulp": _ulp, "a weight's sign": _sign,
    "channels exchanged": _channels, "branches exchanged": _branches, "another output": _output,
    "an integer": _integer, "a text": _text, "device": _device,
}  # fmt: skip


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
            if change(node):
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
