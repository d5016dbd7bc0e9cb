"""What several edits promise together: the joined claims hold where those of each hold, and say as much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from support import every_edit, proving
from support.every_edit import FUSED, beside
from support.proving import postprocessing, preprocessing
from support.several import Edit, carried_out, pieces_of, proven_pieces
from support.tf_graphs import Builder

import gdsurgeon as gds
from gdsurgeon.edits.in_functions import in_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.joining import check_shown, joined_steps
from gdsurgeon.select import Selection

SMALL = every_edit.built(proving.model)
LARGE = every_edit.built(every_edit.model)


def body(factor: float = 2.0, size: int = 2, *, name: str = "in_", result: str = "out_") -> Graph:
    """A graph that multiplies."""
    b = Builder()
    b.placeholder(name, "float32", (1, size))
    b.const("factor", factor)
    b.node(result, "Mul", [name, "factor"], T="float32")
    return b.graph("body.pb")


def named(*pairs: tuple[str, str]) -> Edit:
    return lambda g: gds.rename(g, pairs)


def inserted(tensor: str, factor: float = 2.0) -> Edit:
    return lambda g: gds.insert(g, tensor, body(factor))


def frozen(name: str, value: str) -> Edit:
    return lambda g: gds.freeze_input(g, {name: value})


def bypassed(*names: str) -> Edit:
    return lambda g: gds.remove(g, Selection(nodes=names), bypass=True)


def imported(tensor: str, placeholder: str, scope: str, other: Graph) -> Edit:
    return lambda g: gds.import_graph(g, other, connect=[(tensor, placeholder)], scope=scope)


def shaped(name: str, *dims: int) -> Edit:
    return lambda g: gds.set_shape(g, [(name, dims)], batch_check=False)


def behind(name: str) -> Edit:
    return lambda g: gds.add_postprocessing(g, body(name=name, result=f"{name}_postprocessed"))


def in_outer(edit: Edit) -> Edit:
    return lambda g: in_functions(g, ["outer"], edit)


FUSE: Edit = lambda g: gds.fuse_ops(g, FUSED, "f")  # noqa: E731
WAIT: Edit = lambda g: gds.control(g, add=[("y", "^halves")])  # noqa: E731
PART: Edit = lambda g: gds.extract(g, ["scaled"], ["y", "stored"])  # noqa: E731
ON_CPU: Edit = lambda g: gds.set_device(g, device="/cpu:0", nodes=["sum"])  # noqa: E731
INLINE: Edit = lambda g: gds.inline(g)  # noqa: E731


class Row(NamedTuple):
    """Edits of a model, and how many of them are proven together."""

    model: bytes
    edits: Sequence[Edit]
    pieces: list[int]


ROWS = {
    "two graphs in front of one input": Row(SMALL, [preprocessing, preprocessing], [2]),
    "two graphs behind one output": Row(SMALL, [postprocessing, behind("y")], [2]),
    "renames around both": Row(
        SMALL, [named(("stored", "kept")), preprocessing, postprocessing, named(("x", "input"), ("y", "res"))], [4]
    ),
    "two bodies at one tensor": Row(SMALL, [inserted("scaled"), inserted("scaled", 3.0)], [2]),
    "three bodies at one tensor": Row(SMALL, [inserted("scaled"), inserted("scaled", 3.0), inserted("scaled")], [3]),
    "a body behind, and then before": Row(SMALL, [inserted("difference"), inserted("scaled", 3.0)], [2]),
    "a body before, and then behind": Row(SMALL, [inserted("scaled"), inserted("difference", 3.0)], [2]),
    "a body at a body": Row(SMALL, [inserted("scaled"), inserted("out_", 3.0)], [1, 1]),
    "a body behind what is frozen": Row(SMALL, [frozen("scale", "[5,6]"), inserted("scaled")], [2]),
    "what is before a body is frozen": Row(SMALL, [inserted("scaled"), frozen("scale", "[5,6]")], [2]),
    "a body at what was frozen": Row(LARGE, [frozen("t/weights", "[[1,2,3],[4,5,6]]"), inserted("z")], [2]),
    "a body at a constant that was frozen": Row(LARGE, [frozen("t/scale", "[5,6]"), lambda g: gds.insert(
        g, "t/scale", vector_body())], [2]),
    "two bodies at a constant that was frozen": Row(LARGE, [frozen("t/scale", "[5,6]"), lambda g: gds.insert(
        g, "t/scale", vector_body()), lambda g: gds.insert(g, "t/scale", vector_body(5.0))], [3]),
    "a constant under a body is frozen": Row(LARGE, [lambda g: gds.insert(g, "t/scale", vector_body()),
        frozen("t/scale", "[5,6]")], [2]),
    "frozen twice": Row(SMALL, [frozen("scale", "[5,6]"), frozen("scale", "[7,6]")], [2]),
    "frozen and renamed": Row(SMALL, [frozen("scale", "[5,6]"), named(("scale", "factor"))], [2]),
    "an input with a graph in front is frozen": Row(SMALL, [preprocessing, frozen("x", "[[1,2,3,4]]")], [2]),
    "a constant of what was added is frozen": Row(SMALL, [preprocessing, frozen("seven", "6")], [1, 1]),
    "names change places": Row(
        SMALL, [named(("y", "total"), ("total", "y")), postprocessing, named(("y", "z"))], [3]
    ),
    "names change places by a third": Row(
        SMALL, [named(("y", "yy")), named(("total", "y")), named(("yy", "total"))], [3]
    ),
    "a name that was freed": Row(SMALL, [bypassed("scaled"), named(("difference", "scaled"))], [1, 1]),
    "a name that was freed, later": Row(
        SMALL, [bypassed("scaled"), named(("y", "res")), named(("difference", "scaled"))], [2, 1]
    ),
    "bypassed, and renamed": Row(SMALL, [bypassed("scaled"), named(("difference", "d"), ("y", "res"))], [2]),
    "bypassed in a row, and renamed": Row(SMALL, [bypassed("scaled", "y"), named(("x", "input"))], [2]),
    "one bypassed after another": Row(SMALL, [bypassed("scaled"), bypassed("y")], [2]),
    "a body behind what is bypassed": Row(SMALL, [bypassed("scaled"), inserted("difference")], [2]),
    "a body at what is read instead": Row(SMALL, [bypassed("scaled"), inserted("halves:1")], [2]),
    "bypassed before a body": Row(SMALL, [inserted("difference"), bypassed("scaled")], [2]),
    "a body is bypassed": Row(SMALL, [inserted("difference"), bypassed("out_")], [1, 1]),
    "a part, in the middle": Row(SMALL, [named(("x", "input")), PART, named(("scaled", "s"))], [3]),
    "a body at a cut": Row(SMALL, [PART, inserted("scaled")], [1, 1]),
    "a body at what was made an output": Row(
        SMALL, [lambda g: gds.extract(g, ["x"], ["scaled", "y"]), inserted("scaled")], [1, 1]
    ),
    "control edges and names": Row(SMALL, [WAIT, named(("halves", "h")), postprocessing], [3]),
    "a body at a raw value": Row(SMALL, [postprocessing, inserted("y_raw"), named(("y_raw", "q"))], [3]),
    "an open batch, and a graph in front": Row(SMALL, [shaped("x", -1, 4), preprocessing], [2]),
    "functions are inlined, and a body follows": Row(LARGE, [INLINE, inserted("t/shifted"), named(("y", "yy"))], [3]),
    "a body, and functions are inlined": Row(LARGE, [inserted("t/shifted"), INLINE, named(("y", "yy"))], [3]),
    "a body at what came from a function": Row(LARGE, [INLINE, inserted("t/turned/r")], [1, 1]),
    "fused and renamed": Row(LARGE, [FUSE, named(("f", "g"), ("y", "yy"))], [2]),
    "a body at what was fused": Row(LARGE, [FUSE, inserted("f")], [1, 1]),
    "names in a function": Row(LARGE, [in_outer(named(("minus", "m"))), ON_CPU, in_outer(named(("m", "minus")))], [3]),
    "a graph beside, and a body at what it reads": Row(
        LARGE, [lambda g: gds.import_graph(g, beside(), connect=[("z", "in")]), inserted("z"), named(("out", "o"))], [3]
    ),
    "a graph that reads what is in another": Row(
        LARGE, [imported("z", "in", "p", beside()), imported("p/twice", "in_", "q", body(size=1))], [2]
    ),
    "a graph that reads what another gives": Row(
        LARGE, [imported("z", "in", "p", beside()), imported("p/out", "in_", "q", body())], [2]
    ),
    "values change on purpose, between names": Row(
        SMALL, [named(("y", "res")), lambda g: gds.reroute(g, [("scaled", "halves")], only="^difference$"),
                named(("res", "y"))], [1, 1, 1]
    ),
}  # fmt: skip


def vector_body(factor: float = 2.0) -> Graph:
    b = Builder()
    b.placeholder("v", "float32", (2,))
    b.const("factor", factor)
    b.node("w", "Mul", ["v", "factor"], T="float32")
    return b.graph("vector.pb")


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ROWS)
def test_what_is_right_is_proven_together(name: str, executor: Executor) -> None:
    row = ROWS[name]
    steps = carried_out(row.model, row.edits)
    pieces = joined_steps(steps)
    assert pieces_of(steps) == row.pieces
    for piece, proof in zip(pieces, proven_pieces(executor, pieces), strict=True):
        assert all(o.comparison is not None and o.comparison.equal for o in proof.compared)
        if len(piece) > 1:
            assert proof.compared
            check_shown(piece, proof)
