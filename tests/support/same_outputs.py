"""Edits that change no value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.edits.control_edges import control_edges
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.edits.inline import inline
from gdsurgeon.edits.rename import rename
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection
from gdsurgeon.values import Tolerance
from support.graphs import Builder, const, define, func, library, node, placeholder, through_array, typed
from support.spoiling import (
    Edit,
    Spoil,
)

DIFFERS, FAILS, UNLOADABLE = "differs", "does-not-run", "does-not-load"


def model() -> Builder:
    """`x` -> a scope `t`, calls of functions, an array -> `y` and `called`; also `apart`."""
    call = {"Tin": ["float32", "float32"], "Tout": ["float32", "float32"], "f": func("outer")}
    return Builder(
        placeholder("x", "float32", (1, 4)), const("axis", 1, "int32"),
        typed("Split", "halves", "axis", "x", num_split=2), const("t/scale", [2.0, 3.0]),
        typed("Mul", "t/scaled", "halves:1", "t/scale"), typed("Sub", "t/difference", "halves", "t/scaled"),
        typed("Split", "t/parts", "axis", "t/difference", num_split=2),
        typed("ConcatV2", "t/joined", "t/parts:1", "t/parts", "axis", N=2, Tidx="int32"),
        library(taken_from("inner", 7.0), outer("inner")),
        node("called", "PartitionedCall", ["t/joined", "halves"], **call), typed("Sub", "sum", "called", "called:1"),
        *through_array("sum"),
        # Reads the write as data and serves nothing, so it is not fetched: only the control edge runs it.
        const("true", True, "bool"), node("check", "Assert", ["true", "write"], T=["float32"], summarize=3),
        typed("Neg", "y", "stored"), const("k", 5.0), typed("Sub", "apart", "x", "k"),
    )  # fmt: skip


def taken_from(name: str, value: float) -> Any:
    """The function of that NAME, which takes its argument from VALUE."""
    body = const("number", value), typed("Sub", "r", "number:output:0", "a")
    return define(name, {"a": "float32"}, {"out": ("float32", "r:z:0")}, *body)


def outer(inner: str, *waits: str, device: str = "") -> Any:
    """outer(a, b) = (INNER(a) - b, b)."""
    pair, types = {"a": "float32", "b": "float32"}, {"Tin": ["float32"], "Tout": ["float32"]}
    body = (node("in", "PartitionedCall", ["a"], f=func(inner), **types),
            typed("Sub", "minus", "in:output:0", "b", *waits, device=device))  # fmt: skip
    return define("outer", pair, {"first": ("float32", "minus:z:0"), "second": ("float32", "b")}, *body)


def body() -> Builder:
    """What `t/scaled` and `t/difference` come to: a - b (2, 3)."""
    return Builder(
        placeholder("b", "float32", (1, 2)), placeholder("a", "float32", (1, 2)), const("w", [2.0, 3.0]),
        typed("Mul", "times", "b", "w"), typed("Sub", "result", "a", "times"),
    )  # fmt: skip


def part() -> Builder:
    return Builder(placeholder("in", "float32", (1, 4)), typed("Neg", "out", "in"))


FUSED = Selection(nodes=("t/scaled", "t/difference"))


MAPPED = [("halves:1", "b"), ("halves", "a")]


EDITS: dict[str, Edit] = {
    "rename": lambda g: rename(g, [("y", "z"), ("t/difference", "d"), ("called", "c")]),
    "rename --rename-scope": lambda g: rename(g, scopes=[("t", "u")]),
    "fuse-ops": lambda g: fuse_ops(g, FUSED, "f"),
    "fuse-ops --inline": lambda g: fuse_ops(g, FUSED, "f", inline=True),
    "fuse-ops of outputs": lambda g: fuse_ops(g, Selection(nodes=("apart", "k")), "f"),
    "fuse-ops --with": lambda g: fuse_ops(g, FUSED, "f", body=body().graph("body.pb"), mapped=MAPPED),
    "inline": lambda g: inline(g),
    "inline --keep-names": lambda g: inline(g, keep_names=True),
    "control-edges --add": lambda g: control_edges(g, add=[("apart", "^sum")]),
    "control-edges --remove": lambda g: control_edges(g, remove=[("apart", "^true")]),
    "clone-scope": lambda g: clone_scope(g, "t", "u"),
    "import": lambda g: import_graph(g, part().graph("part.pb"), connect=[("x", "in")]),
}


def model_for(name: str) -> Builder:
    m = model()
    if name == "control-edges --remove":
        next(n for n in m.graph_def.node if n.name == "apart").input.append("^true")
    return m


def claiming(edit: Edit, **changes: Any) -> Edit:
    """EDIT, with CHANGES to what it claims."""

    tolerance = Tolerance(changes.pop("rtol", 0.0), changes.pop("atol", 0.0))

    def claimed(graph: Graph) -> EditResult:
        result = edit(graph)
        result.claims = tuple(
            replace(c, tolerance=tolerance, **changes) if isinstance(c, SameOutputs) else c for c in result.claims
        )
        return result

    return claimed


def in_function(change: Callable[[Any], None], name: str = "") -> Spoil:
    """CHANGE done to the function NAME, or to the one that the edit has added."""

    def spoil(graph: Graph, result: EditResult) -> None:
        found = graph.functions.get(name or result.intent.functions.added[0])
        copy = type(found)()
        copy.CopyFrom(found)
        change(copy)
        assert copy != found
        graph.functions.replace(copy)

    return spoil


def node_of(function: Any, op: str) -> Any:
    return next(node for node in function.node_def if node.op == op)


def numbers() -> Builder:
    """y = x + 1, z = x k; only `y` is an output."""
    return Builder(
        placeholder("x", "float32", (2,)), const("one", [1.0, 1.0]), const("k", [3.0, 3.0]),
        typed("Mul", "z", "x", "k"), typed("Shape", "hidden", "z", out_type="int32"), typed("AddV2", "y", "x", "one"),
        typed("Neg", "size", "hidden", kind="int32"),
    )  # fmt: skip


def renaming(graph: Graph) -> EditResult:
    return rename(graph, [("y", "served"), ("z", "inner")])


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
