"""Edits to be proven, and what is wrong with others."""

from __future__ import annotations

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph
from support.graphs import Builder, const, node, placeholder, through_array, typed
from support.spoiling import Spoil


def model() -> Builder:
    """`x` -> `y` and `total` by arithmetic that no exchange leaves as it is, and `stored` by way of a TensorArray."""
    return Builder(
        placeholder("x", "float32", (1, 4)), const("axis", 1, "int32"),
        typed("Split", "halves", "axis", "x", num_split=2), const("scale", [2.0, 3.0]),
        typed("Mul", "scaled", "halves:1", "scale"), typed("Sub", "difference", "halves", "scaled"),
        typed("Neg", "y", "difference"), typed("AddV2", "doubled", "y", "y"),
        typed("Sub", "total", "doubled", "halves:1"), *through_array("y"),
        # Reads the write as data and serves nothing, so it is not fetched: only the control edge runs it.
        const("true", True, "bool"), node("check", "Assert", ["true", "write"], T=["float32"], summarize=3),
    )  # fmt: skip


def pre() -> Builder:
    """x -> 2 x - 7."""
    return Builder(
        placeholder("x", "float32", (1, 4)), const("two", 2.0), typed("Mul", "twice", "x", "two"), const("seven", 7.0),
        typed("Sub", "x_preprocessed", "twice", "seven"),
    )  # fmt: skip


def post() -> Builder:
    """y -> 10 - 3 y."""
    return Builder(
        placeholder("y", "float32", (1, 2)), const("three", 3.0), typed("Mul", "thrice", "y", "three"),
        const("ten", 10.0), typed("Sub", "y_postprocessed", "ten", "thrice"),
    )  # fmt: skip


def renaming(graph: Graph) -> EditResult:
    return gds.rename(graph, [("x", "input"), ("y", "result"), ("stored", "kept")])


def preprocessing(graph: Graph) -> EditResult:
    return gds.add_preprocessing(graph, pre().graph("pre.pb"))


def postprocessing(graph: Graph) -> EditResult:
    return gds.add_postprocessing(graph, post().graph("post.pb"))


def other_op(name: str, op: str) -> Spoil:
    def spoil(graph: Graph, _: EditResult) -> None:
        graph.set_op(graph[name], op)

    return spoil
