"""What the tests of extract cut parts out of."""

from __future__ import annotations

from support import graphs
from support.graphs import (
    FLOAT,
    INT32,
    const,
    graph_bytes,
    identity,
    node,
    placeholder,
)


def model() -> list[bytes]:
    """x -> conv -> relu -> (head, aux); and a part that has nothing to do with it."""
    return [
        placeholder("x", FLOAT, (-1, 2)),
        const("w", [1, 2, 3, 4, 5, 6], FLOAT, (2, 3)),
        node("conv", "MatMul", ["x", "w"], T=FLOAT, transpose_a=False, transpose_b=False),
        node("relu", "Relu", ["conv"], T=FLOAT),
        const("k", [10, 20, 30]),
        node("head", "Mul", ["relu", "k"], T=FLOAT),
        node("aux", "Neg", ["relu"], T=FLOAT),
        placeholder("other", INT32, ()),
        identity("apart", "other", kind=INT32),
    ]


def named(*names: str) -> list[bytes]:
    """The records of model() of those names."""
    by_name = dict(zip(graphs.names(graph_bytes(*model())), model(), strict=True))
    return [by_name[name] for name in names]
