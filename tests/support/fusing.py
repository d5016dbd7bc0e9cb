"""Fuses parts of small graphs, and looks at what that gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection
from support import graphs
from support.expecting import check_graph
from support.graphs import (
    FLOAT,
    INT32,
    X,
    add,
    const,
    graph,
    identity,
    neg,
    placeholder,
    scalar,
    typed,
)


def fused(found: Graph, nodes: str | Sequence[str], name: str = "call", **options: Any) -> EditResult:
    """Fuses the nodes whose names match, or those of the names."""
    if isinstance(nodes, str):
        return fuse_ops(found, Selection(regexes=(nodes,)), name, **options)
    return fuse_ops(found, Selection(nodes=tuple(nodes)), name, **options)


def check_calls(found: Graph, *records: bytes) -> None:
    """`check_graph`, whatever functions the graph holds."""
    functions = graphs.parsed(found).library.function
    check_graph(found, *records, trailer=graphs.library(*functions) + graphs.VERSIONS)


def chain() -> list[bytes]:
    """x -> y = -(x + 1) * (x + 1), with a reader of y."""
    return [
        X,
        const("one", [1, 2]),
        add("sum", "x", "one"),
        neg("neg", "sum"),
        typed("Mul", "mul", "neg", "sum", _note="kept"),
        identity("y", "mul"),
    ]


def split() -> list[bytes]:
    """A Split whose outputs 1 and 2 are read outside, out of order, and a sum of 0 and 1."""
    return [
        placeholder("x", FLOAT, (6,)),
        scalar("axis", 0, INT32),
        typed("Split", "s", "axis", "x", num_split=3),
        add("sum", "s", "s:1"),
        neg("late", "s:2"),
        neg("early", "s:1"),
        neg("of_sum", "sum"),
    ]


def tanh() -> list[bytes]:
    """A chain of tanh and its backward pass, in the order in which TensorFlow would have made them."""
    return [
        placeholder("x", FLOAT, (2,)), *(typed("Tanh", y, x) for x, y in (("x", "a1"), ("a1", "a2"), ("a2", "a3"))),
        placeholder("dy", FLOAT, (2,)), typed("TanhGrad", "a3_grad", "a3", "dy"),
        typed("TanhGrad", "a2_grad", "a2", "a3_grad"), typed("TanhGrad", "a1_grad", "a1", "a2_grad"),
    ]  # fmt: skip


def tanh_grad2(y: str = "a2", dy: str = "dy", result: str = "a2_grad", kind: bytes = FLOAT) -> Graph:
    """Two steps of the backward pass that need only the inner tanh: the outer one is computed again."""
    return graph(
        placeholder(y, kind),
        placeholder(dy, kind),
        typed("Tanh", "again", y, kind=kind),
        typed("TanhGrad", "step", "again", dy, kind=kind),
        typed("TanhGrad", result, y, "step", kind=kind),
        name="body.pb",
    )


GRADS = "a3_grad|a2_grad"
