"""Small models with batch norms, for tests of what is folded into what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gdsurgeon.ops.op_defs import op_def
from support.graphs import FLOAT, INT32, add, const, define, graph, node, placeholder, proto, scalar, typed

SIDE = 5


def numbers(name: str, shape: Sequence[int], low: float = -1.0, high: float = 1.0) -> bytes:
    """A constant of random numbers between LOW and HIGH, others for each name."""
    chance = np.random.default_rng(sum(name.encode()))
    return const(name, chance.uniform(low, high, shape).reshape(-1).tolist(), FLOAT, shape)


def statistics(name: str, count: int) -> list[bytes]:
    """The inputs of a batch norm of COUNT channels."""
    return [
        numbers(f"{name}/gamma", [count], 0.5, 1.5),
        numbers(f"{name}/beta", [count]),
        numbers(f"{name}/mean", [count]),
        numbers(f"{name}/variance", [count], 0.2, 2.0),
    ]


def fused(name: str, source: str, count: int, op: str = "FusedBatchNormV3", **attrs: Any) -> list[bytes]:
    """A fused batch norm of what SOURCE gives."""
    reads = [source, *(f"{name}/{part}" for part in ("gamma", "beta", "mean", "variance"))]
    types = {} if op == "FusedBatchNorm" else {"U": FLOAT}
    given = {"T": FLOAT, **types, "epsilon": 0.001, "is_training": False, **attrs}
    return [*statistics(name, count), node(name, op, reads, **given)]


def spelt_out(name: str, source: str, count: int, *, gamma: bool = True, beta: bool = True) -> list[bytes]:
    """A batch norm as tf.nn.batch_normalization and Keras spell it."""
    records = statistics(name, count)
    made = [
        add(f"{name}/sum", f"{name}/variance", f"{name}/epsilon"),
        scalar(f"{name}/epsilon", 0.001),
        typed("Rsqrt", f"{name}/root", f"{name}/sum"),
    ]
    factor = f"{name}/root"
    if gamma:
        made.append(typed("Mul", f"{name}/mul", factor, f"{name}/gamma"))
        factor = f"{name}/mul"
    made += [
        typed("Mul", f"{name}/mul_1", source, factor),
        typed("Mul", f"{name}/mul_2", f"{name}/mean", factor),
    ]
    if beta:
        made.append(typed("Sub", f"{name}/sub", f"{name}/beta", f"{name}/mul_2"))
        return [*records, *made, add(name, f"{name}/mul_1", f"{name}/sub")]
    return [*records, *made, typed("Sub", name, f"{name}/mul_1", f"{name}/mul_2")]


def conv(
    name: str,
    source: str,
    shape: Sequence[int],
    op: str = "Conv2D",
    *,
    padding: str = "SAME",
    strides: Sequence[int] = (1, 1, 1, 1),
    **attrs: Any,
) -> list[bytes]:
    """A convolution, with its weights."""
    listed = ints(strides)
    return [
        numbers(f"{name}/w", shape),
        typed(op, name, source, f"{name}/w", padding=padding, strides=listed, **attrs),
    ]


def ints(values: Sequence[int]) -> bytes:
    """An AttrValue that holds a list of ints."""
    from gdsurgeon.graph.attrs import ints_value

    return ints_value(values).SerializeToString()


def whole(name: str, values: Sequence[int], shape: Sequence[int] | None = None) -> bytes:
    """A constant of integers."""
    return const(name, values, INT32, shape)


def image(channels: int = 4, side: int = SIDE) -> bytes:
    """An input of pictures."""
    return placeholder("x", FLOAT, (-1, side, side, channels))


def relu(source: str, name: str = "y", op: str = "Relu") -> bytes:
    """The last nodes."""
    return typed(op, name, source)


def picture(channels: int = 4, side: int = SIDE, rows: int = 2) -> Any:
    """A value for `image`."""
    return np.random.default_rng(5).normal(size=(rows, side, side, channels)).astype(np.float32)


def joined(count: int = 2, **attrs: Any) -> list[bytes]:
    """COUNT convolutions, and `j`, which has all their channels."""
    names = [f"c{i}" for i in range(count)]
    convs = [record for i, name in enumerate(names) for record in conv(name, "x", (3, 3, 4, 2 + i), **attrs)]
    return [*convs, const("axis", 3, INT32, ()), typed("ConcatV2", "j", *names, "axis", N=count, Tidx=INT32)]


def atrous(last: str = "n") -> list[bytes]:
    """A depthwise convolution between SpaceToBatchND and BatchToSpaceND."""
    sizes = {"Tblock_shape": INT32}
    return [
        whole("block", [2, 2]), whole("pads", [2, 2, 2, 2], (2, 2)), whole("crops", [0] * 4, (2, 2)),
        typed("SpaceToBatchND", "t", "x", "block", "pads", Tpaddings=INT32, **sizes),
        *conv("c", "t", (3, 3, 4, 2), "DepthwiseConv2dNative", padding="VALID"),
        typed("BatchToSpaceND", last, "c", "block", "crops", Tcrops=INT32, **sizes),
    ]  # fmt: skip


def conv_and_norm(count: int = 3) -> Any:
    """The plainest of all models."""
    return graph(image(), *conv("c", "x", (3, 3, 4, count)), *fused("n", "c", count), relu("n"))


def as_function(name: str, *records: bytes, returned: str = "n") -> Any:
    """A function of pictures `x`; RECORDS are its nodes as in a graph."""
    nodes = {each.name: each for each in proto(*records).node}

    def spelled(text: str) -> str:
        definition = op_def(nodes[text].op) if text in nodes else None
        return text if definition is None else f"{text}:{definition.outputs[0].name}:0"

    out = define(name, {"x": FLOAT}, {"o": (FLOAT, spelled(returned))}, *records)
    for each in out.node_def:
        each.input[:] = [*map(spelled, each.input)]
    return out
