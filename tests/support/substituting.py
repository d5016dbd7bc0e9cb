"""Edits that substitute values."""

from __future__ import annotations

from typing import Any

from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.edits.extract import extract
from gdsurgeon.edits.freeze_input import freeze_input
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.edits.parts import insert
from gdsurgeon.edits.remove import remove
from gdsurgeon.select import Selection
from support.graphs import Builder, const, define, doubling_loop, func, library, node, placeholder, through_array, typed
from support.spoiling import Edit

DIFFERS, FAILS, UNLOADABLE = "differs", "does-not-run", "does-not-load"


def model() -> Builder:
    """`x` -> `t/..` -> `y` and `stored`, whose values every exchange changes; also `apart`."""
    return Builder(
        placeholder("x", "float32", (1, 4)), placeholder("x2", "float32", (1, 4)), placeholder("z", "float32", (1, 2)),
        const("axis", 1, "int32"), typed("Split", "t/halves", "axis", "x", num_split=2), const("t/scale", [2.0, 3.0]),
        typed("Mul", "t/scaled", "t/halves:1", "t/scale"), typed("Sub", "t/difference", "t/halves", "t/scaled"),
        *doubling_loop("t/while", "t/difference"), typed("Exit", "t/while/done_i", "t/while/switch_i", kind="int32"),
        *through_array("t/while/done", "t"),
        # Reads the write as data and serves nothing, so it is not fetched: only the control edge runs it.
        const("true", True, "bool"), node("t/check", "Assert", ["true", "t/write"], T=["float32"], summarize=3),
        typed("Sub", "t/result", "t/stored", "t/scaled"), typed("Sub", "y", "t/result", "z"), const("k", 5.0),
        typed("Sub", "apart", "z", "k"),
    )  # fmt: skip


def part() -> Builder:
    """in -> 2 in - 7, where the name of the constant is one that the model has."""
    return Builder(
        placeholder("in", "float32", (1, 2)), const("two", 2.0), typed("Mul", "twice", "in", "two"), const("k", 7.0),
        typed("Sub", "out", "twice", "k"),
    )  # fmt: skip


def named(*names: str) -> Selection:
    return Selection(nodes=names)


EDITS: dict[str, Edit] = {
    "clone": lambda g: clone_scope(g, "t", "u"),
    "clone --map": lambda g: clone_scope(g, "t", "u", inputs=[("x", "x2")]),
    "remove --bypass": lambda g: remove(g, named("t/scaled"), bypass=True),
    "remove --dangling": lambda g: remove(g, named("t/scaled"), dangling="placeholder"),
    "extract": lambda g: extract(g, ["t/scaled"], ["y"]),
    "extract output 1": lambda g: extract(g, ["t/halves:1"], ["y", "t/result"]),
    "import": lambda g: import_graph(g, part().graph("part.pb")),
    "import --map": lambda g: import_graph(g, part().graph("part.pb"), connect=[("z", "in")], scope="p"),
    "insert": lambda g: insert(g, "t/scaled", part().graph("part.pb")),
    "insert into an input": lambda g: insert(g, "z", part().graph("part.pb"), scope="p"),
    "insert several": lambda g: insert(g, named("t/scaled", "t/difference", "z"), part().graph("part.pb")),
    "freeze-input": lambda g: freeze_input(g, {"z": "[[1, -2]]"}),
}


def negative(given: str = "in", result: str = "out", size: int = 1) -> Builder:
    return Builder(placeholder(given, "float32", (size,)), typed("Neg", result, given))


def without_comparable_outputs(y: str) -> dict[str, Builder]:
    """Returns models whose output `y` cannot be compared, by the reason; `y` reads ``t/same``, an Identity of ``x``."""

    def ending_in(op: str, *more: bytes, **attrs: Any) -> Builder:
        reads = placeholder("x", "float32", (2,)), typed("Identity", "t/same", "x")
        return Builder(*reads, node(y, op, ["t/same"], **attrs), *more)

    types = {"Tin": ["float32"], "Tout": ["float32"]}
    noise = define(
        "noise", {"a": "float32"}, {"out": ("float32", "out:y:0")},
        typed("Shape", "shape", "a", out_type="int32"),
        node("draw", "NonDeterministicInts", ["shape:output:0"], shape_dtype="int32", dtype="int32"),  # takes no seed
        node("out", "Cast", ["draw:output:0"], SrcT="int32", DstT="float32"), stateful=True,
    )  # fmt: skip
    return {
        "random": ending_in("StatefulPartitionedCall", library(noise), f=func("noise"), **types),
        "unknown op": ending_in("MyOwnOp"),
        "outside world": ending_in("PyFunc", token="t", **types),
    }
