"""Two graphs of which one is imported beside the other."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from support import graphs
from support.expecting import refuse
from support.graphs import FLOAT, INT32, const, node, placeholder

Pairs = Sequence[tuple[str, str]]


def refused(found: Graph, other: Graph, words: str, *, scope: str = "", connect: Pairs = ()) -> EditError:
    """The error of an import, after which both graphs are as they were."""
    return refuse(found, words, lambda g: import_graph(g, other, scope=scope, connect=connect), other)


def ours() -> list[bytes]:
    return [placeholder("x", FLOAT, (2,)), node("y", "Neg", ["x"], T=FLOAT)]


def theirs() -> list[bytes]:
    """x - 10, and a control edge, a colocation and a device."""
    return [
        placeholder("x", FLOAT, (2,)), const("k", [10, 10]), node("ready", "NoOp", ["^k"]),
        node("y", "Sub", ["x", "k", "^ready"], T=FLOAT, device="/cpu:0", _class=["loc:@k"]),
    ]  # fmt: skip


def other_loop() -> list[bytes]:
    """A loop with the frame name of the one in the model, that counts in steps of 2."""
    out = graphs.loop()
    out[9] = node("w/one", "Const", ["^w/Identity"], dtype=INT32, value=graphs.tensor([2], INT32, ()))
    return out
