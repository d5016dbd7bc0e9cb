"""Which ops are used, and which are known."""

from __future__ import annotations

from support import graphs
from support.graphs import FLOAT, dtypes, func, function, graph, identity, node, placeholder

from gdsurgeon.analysis.queries.usage import OpUsage, op_usage


def test_ops_of_the_graph_and_of_its_functions() -> None:
    body = [node("y", "Identity", ["x"], T=FLOAT), node("z", "Odd", ["x"])]
    call = node("call", "PartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("f"))
    found = graph(placeholder("x"), call, node("direct", "f", ["x"]), identity("y", "x"), node("u", "My\nOp"),
                  trailer=graphs.library(function("f", *body)) + graphs.VERSIONS)  # fmt: skip
    assert op_usage(found) == [
        OpUsage("Identity", 1, 1, True, False),
        OpUsage("My\nOp", 1, 0, False, False),
        OpUsage("Odd", 0, 1, False, False),
        OpUsage("PartitionedCall", 1, 0, True, False),
        OpUsage("Placeholder", 1, 0, True, False),
        OpUsage("f", 1, 0, False, True),
    ]


def test_edits_are_seen() -> None:
    found = graph(placeholder("x"), identity("y", "x"), identity("z", "x"))
    found.remove([found["z"]])
    found.set_op(found["y"], "Neg")
    assert [(u.op, u.nodes) for u in op_usage(found)] == [("Neg", 1), ("Placeholder", 1)]
