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
from support.graphs import FLOAT, INT32, X, add, const, graph, identity, neg, node, placeholder, scalar, unary


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
        node("mul", "Mul", ["neg", "sum"], T=FLOAT, _note="kept"),
        identity("y", "mul"),
    ]


def split() -> list[bytes]:
    """A Split whose outputs 1 and 2 are read outside, out of order, and a sum of 0 and 1."""
    return [
        placeholder("x", FLOAT, (6,)),
        scalar("axis", 0, INT32),
        node("s", "Split", ["axis", "x"], T=FLOAT, num_split=3),
        add("sum", "s", "s:1"),
        neg("late", "s:2"),
        neg("early", "s:1"),
        neg("of_sum", "sum"),
    ]


def tanh(backward: bool = True) -> list[bytes]:
    """A chain of tanh and its backward pass, in the order in which TensorFlow would have made them."""
    records = [placeholder("x", FLOAT, (2,)), unary("Tanh", "a1", "x"), unary("Tanh", "a2", "a1")]
    records.append(unary("Tanh", "a3", "a2"))
    if backward:
        records += [
            placeholder("dy", FLOAT, (2,)),
            node("a3_grad", "TanhGrad", ["a3", "dy"], T=FLOAT),
            node("a2_grad", "TanhGrad", ["a2", "a3_grad"], T=FLOAT),
            node("a1_grad", "TanhGrad", ["a1", "a2_grad"], T=FLOAT),
        ]
    return records


def tanh_grad2(y: str = "a2", dy: str = "dy", result: str = "a2_grad", kind: bytes = FLOAT) -> Graph:
    """Two steps of the backward pass that need only the inner tanh: the outer one is computed again."""
    return graph(
        placeholder(y, kind),
        placeholder(dy, kind),
        unary("Tanh", "again", y, kind=kind),
        node("step", "TanhGrad", ["again", dy], T=kind),
        node(result, "TanhGrad", [y, "step"], T=kind),
        name="body.pb",
    )


GRADS = "a3_grad|a2_grad"
