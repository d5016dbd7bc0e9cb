"""Sets shapes in small graphs, and looks at what that gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.set_shape import MOST_DETAILS, set_shape
from gdsurgeon.graph.attrs import Shape, attr_value, shape_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from support import graphs
from support.expecting import refused
from support.graphs import FLOAT, INT32, const, identity, node, placeholder

STRIDES = b"\x0a\x06\x1a\x04\x01\x02\x02\x01"  # [1, 2, 2, 1]


def stated(*shapes: tuple[int, ...]) -> bytes:
    """An ``_output_shapes`` attr."""
    value = attr_value(b"")
    value.list.SetInParent()
    for shape in shapes:
        proto = value.list.shape.add()
        for size in shape:
            proto.dim.add(size=size)
    return bytes(value.SerializeToString())


def reshape(name: str, source: str, target: str, **attrs: Any) -> bytes:
    return node(name, "Reshape", [source, target], T=FLOAT, Tshape=INT32, **attrs)


def weights(name: str, *shape: int) -> bytes:
    values = np.random.default_rng(len(name)).random(shape, np.float32)
    return const(name, values.reshape(-1).tolist(), FLOAT, shape)


def matmul(name: str, a: str, b: str) -> bytes:
    return node(name, "MatMul", [a, b], T=FLOAT)


def classifier(batch: int = 1, target: tuple[int, ...] = (1, 12), outputs: bool = False) -> list[bytes]:
    """A convolution, flattened to a shape with the batch in it, and weights behind that."""
    extra = {"_output_shapes": stated((batch, 4, 6, 2))} if outputs else {}
    more = {"_output_shapes": stated((batch, 5))} if outputs else {}
    return [
        placeholder("x", FLOAT, (batch, 4, 6, 2)),
        weights("filter", 1, 1, 2, 2),
        node("conv", "Conv2D", ["x", "filter"], T=FLOAT, strides=STRIDES, padding="SAME"),
        node("relu", "Relu", ["conv"], T=FLOAT),
        const("shape", list(target), INT32),
        reshape("flat", "relu", "shape"),
        weights("w", 12, 5),
        matmul("fc", "flat", "w"),
        identity("y", "fc", **more),
        node("size", "Identity", ["x"], T=FLOAT, **extra),
    ]


def misfits(found: Graph, shapes: list[tuple[str, Shape]], **options: Any) -> list[dict[str, Any]]:
    """What does not fit SHAPES, in the facts of the error, which leaves FOUND unchanged; at least one."""
    error = refused(found, "shape-mismatch", lambda g: set_shape(g, shapes, **options))
    assert len(error.details) == min(len(error.facts["misfits"]), MOST_DETAILS + 1)
    out: list[dict[str, Any]] = error.facts["misfits"]
    return out


def shape_attr(found: Graph, name: str) -> Shape:
    return shape_of(graphs.attrs(found, name)["shape"].shape)


def edited(found: Graph, name: str, shape: Shape, **options: Any) -> EditResult:
    result = set_shape(found, [(name, shape)], **options)
    assert shape_attr(found, name) == shape
    assert check(from_bytes(graphs.written(found))).faults == []
    return result
