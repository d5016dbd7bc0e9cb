"""Edits to be proven, and what is wrong with others."""

from __future__ import annotations

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph
from support.graphs import Builder
from support.spoiling import Edit, Spoil


def model() -> Builder:
    """`x` -> `y` and `total` by arithmetic that no exchange leaves as it is, and `stored` by way of a TensorArray."""
    m = Builder()
    m.placeholder("x", "float32", (1, 4))
    m.const("axis", 1, "int32")
    m.typed("Split", "halves", "axis", "x", num_split=2)
    m.const("scale", [2.0, 3.0])
    m.typed("Mul", "scaled", "halves:1", "scale")
    m.typed("Sub", "difference", "halves", "scaled")
    m.typed("Neg", "y", "difference")
    m.typed("AddV2", "doubled", "y", "y")
    m.typed("Sub", "total", "doubled", "halves:1")
    m.const("size", 1, "int32")
    m.const("zero", 0, "int32")
    m.node("array", "TensorArrayV3", ["size"], dtype="float32", clear_after_read=False)
    m.typed("TensorArrayWriteV3", "write", "array", "zero", "y", "array:1")
    m.node("stored", "TensorArrayReadV3", ["array", "zero", "array:1", "^write"], dtype="float32")
    # Reads the write as data and serves nothing, so it is not fetched: only the control edge runs it.
    m.const("true", True, "bool")
    m.node("check", "Assert", ["true", "write"], T=["float32"], summarize=3)
    return m


def pre() -> Builder:
    """x -> 2 x - 7."""
    p = Builder()
    p.placeholder("x", "float32", (1, 4))
    p.const("two", 2.0)
    p.typed("Mul", "twice", "x", "two")
    p.const("seven", 7.0)
    p.typed("Sub", "x_preprocessed", "twice", "seven")
    return p


def post() -> Builder:
    """y -> 10 - 3 y."""
    p = Builder()
    p.placeholder("y", "float32", (1, 2))
    p.const("three", 3.0)
    p.typed("Mul", "thrice", "y", "three")
    p.const("ten", 10.0)
    p.typed("Sub", "y_postprocessed", "ten", "thrice")
    return p


def renaming(graph: Graph) -> EditResult:
    return gds.rename(graph, [("x", "input"), ("y", "result"), ("stored", "kept")])


def preprocessing(graph: Graph) -> EditResult:
    return gds.add_preprocessing(graph, pre().graph("pre.pb"))


def postprocessing(graph: Graph) -> EditResult:
    return gds.add_postprocessing(graph, post().graph("post.pb"))


def rerouting(graph: Graph) -> EditResult:
    return gds.reroute(graph, [("scaled", "halves")], only="^difference$")


EDITS: dict[str, Edit] = {
    "rename": renaming,
    "add-preprocessing": preprocessing,
    "add-postprocessing": postprocessing,
    "reroute": rerouting,
}


def other_op(name: str, op: str) -> Spoil:
    def spoil(graph: Graph, _: EditResult) -> None:
        graph.set_op(graph[name], op)

    return spoil


DIFFERENT = "differs"
