"""A model on which every edit has something to do, graphs to be added to it, and an edit of each kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.edits.control_edges import control_edges
from gdsurgeon.edits.extract import extract
from gdsurgeon.edits.freeze_input import freeze_input
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.edits.inline import inline
from gdsurgeon.edits.parts import add_postprocessing, add_preprocessing, insert
from gdsurgeon.edits.remove import remove
from gdsurgeon.edits.rename import rename
from gdsurgeon.edits.reroute import reroute
from gdsurgeon.edits.set_attr import set_attr
from gdsurgeon.edits.set_device import set_device
from gdsurgeon.edits.set_shape import set_shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.select import Selection
from support.graphs import (
    Builder,
    const,
    define,
    doubling_loop,
    func,
    identity,
    library,
    neg,
    node,
    placeholder,
    relu,
    through_array,
    typed,
)

Edit = Callable[[Graph], EditResult]

KERNEL, BIAS = [[[[0.5]], [[2.0]]], [[[3.0]], [[0.75]]]], [0.125]


# -- what is edited --------------------------------------------------------------------------------------------


def model() -> Builder:
    """A scope `t` with a loop, a table, a variable, an Assert and a TensorArray; also functions and a convolution.

    `label`, `y`, `kind`, `map`, `either`, `apart` and `stored` are the outputs.
    """
    call = {"Tin": ["float32", "float32"], "Tout": ["float32", "float32"], "f": func("outer")}
    branches = {"then_branch": func("turn"), "else_branch": func("other_turn")}
    return Builder(
        placeholder("x", "float32", (1, 4)), placeholder("x2", "float32", (1, 4)), placeholder("z", "float32", (1, 2)),
        placeholder("image", "float32", (1, 4, 4, 1)), const("nothing", 0.25), const("true", True, "bool"),
        const("axis", 1, "int32"), *_scope(), _functions(),
        node("called", "PartitionedCall", ["t/result", "z", "^t/check"], **call),
        typed("Sub", "sum", "called", "called:1", _class=["loc:@t/result"]),
        node("go", "NoOp", ["^t/check", "^called"]),
        typed("Sub", "y", "sum", "nothing", "^go", _output_shapes=[(1, 2)]),
        identity("label", "t/label", "^go", kind="string"),
        # For positive numbers only: negative numbers would show the effect of the Relu.
        typed("Square", "positive", "image"), const("kernel", KERNEL),
        typed("Conv2D", "convolved", "positive", "kernel", strides=[1, 1, 1, 1], padding="SAME"), const("bias", BIAS),
        typed("BiasAdd", "biased", "convolved", "bias", data_format="NHWC"), relu("map", "biased"),
        const("flat_shape", [1, 16], "int32"), typed("Reshape", "flat", "image", "flat_shape", Tshape="int32"),
        typed("Reshape", "flat_too", "image", "flat_shape_too", Tshape="int32"),
        const("flat_shape_too", [1, 16], "int32"), neg("shape_itself", "flat_shape_too", kind="int32"),
        typed("TopKV2", "values", "z", "one_of", sorted=True), const("one_of", 1, "int32"),
        typed("Sub", "best_value", "values", "nothing"),
        node("which", "Cast", ["values:1"], SrcT="int32", DstT="float32"),
        node("either", "StatelessIf", ["true", "z"], Tcond="bool", Tin=["float32"], Tout=["float32"], **branches),
        const("k", 5.0), typed("Sub", "apart", "z", "k"), typed("Sub", "apart_too", "k", "z"),
        # No node reads these or waits for them: they are run by name.
        node("lonely", "Assert", ["true", "z", "k"], T=["float32", "float32"], summarize=3),
        node("all", "NoOp", ["^y", "^map"]),
    )  # fmt: skip


@cache
def built(make: Callable[..., Builder], *arguments: str | int) -> bytes:
    """The graph that MAKE builds, which is the same each time."""
    return make(*arguments).bytes()


def original() -> Graph:
    return from_bytes(built(model), "model.pb")


def _scope() -> list[bytes]:
    pair = ["float32", "float32"]
    turned = {"Tin": ["float32"], "Tout": ["float32"], "f": func("turn")}
    return [
        typed("Split", "t/halves", "axis", "x", num_split=2, _class=["loc:@x"]), const("t/scale", [2.0, 3.0]),
        typed("Mul", "t/scaled", "t/halves:1", "t/scale"), typed("Sub", "t/difference", "t/halves", "t/scaled"),
        typed("Equal", "t/same", "t/difference", "t/difference", incompatible_shape_error=True),
        const("t/axes", [0, 1], "int32"), node("t/fine", "All", ["t/same", "t/axes"], Tidx="int32", keep_dims=False),
        node("t/check", "Assert", ["t/fine", "t/scaled", "t/difference"], T=pair, summarize=3),
        const("t/weights", [[1.0, -2.0, 0.5], [0.25, 4.0, -1.0]]),
        typed("MatMul", "t/scores", "t/difference", "t/weights", transpose_a=False, transpose_b=False),
        typed("ArgMax", "t/kind", "t/scores", "axis", Tidx="int32", output_type="int64"),
        const("t/unknown", "?", "string"),
        node("t/table", "HashTableV2", key_dtype="int64", value_dtype="string", shared_name="t/labels"),
        const("t/numbers", [0, 1, 2], "int64"), const("t/words", ["a", "b", "c"], "string"),
        node("t/init", "InitializeTableV2", ["t/table", "t/numbers", "t/words"], Tkey="int64", Tval="string"),
        node("t/label", "LookupTableFindV2", ["t/table", "t/kind", "t/unknown"], Tin="int64", Tout="string"),
        typed("ArgMax", "t/kind2", "t/difference", "axis", "^t/check", Tidx="int32", output_type="int64"),
        *doubling_loop("t/while", "t/difference", rounds=2),
        node("t/v", "VariableV2", shape=(1, 2), dtype="float32", container="", shared_name="t/v"),
        typed("Sub", "t/shifted", "t/while/done", "t/v"), node("t/turned", "PartitionedCall", ["t/shifted"], **turned),
        *through_array("t/turned", "t", tensor_array_name="t/a"),
        # Reads the write as data and serves nothing, so it is not fetched: only the control edge runs it.
        node("t/written", "Assert", ["true", "t/write"], T=["float32"], summarize=3),
        typed("Sub", "t/result", "t/stored", "t/scaled", "^t/check", device="/device:CPU:0"),
        # Nobody waits for it: only its name is asked for.
        const("t/hundred", 100.0), typed("Sub", "t/percent", "t/hundred", "t/scaled"),
        node("t/told", "PartitionedCall", ["t/percent"], **turned),
        node("t/report", "Assert", ["t/fine", "t/told", "t/scaled", "^t/check"], T=pair, summarize=3),
    ]  # fmt: skip


def _functions() -> bytes:
    """outer(a, b) = (turn(a) - b, b); turn(a) = 7 - a; other_turn(a) = 9 - a; spare(a) = a, which is unused."""
    spare = define(
        "spare", {"a": "float32", "b": "float32"}, {"first": ("float32", "minus:z:0"), "second": ("float32", "a")},
        typed("Sub", "minus", "a", "b"),
    )  # fmt: skip
    turns = taken_from("turn", 7.0), taken_from("other_turn", 9.0)
    return library(*turns, outer("turn", "^in", device="/device:CPU:0"), spare)


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


def part(source: str, result: str, size: int) -> Builder:
    """A separate graph with the same kinds of nodes as the model: a loop, a table and a function of the same names."""
    pair = ["float32", "float32"]
    return Builder(
        placeholder(source, "float32", (1, size)), const("axis", 1, "int32"), const("true", True, "bool"),
        typed("Split", "parts", "axis", source, num_split=2), const("two", 2.0),
        typed("Mul", "twice", "parts:1", "two"), typed("Sub", "less", "parts", "twice", _class=["loc:@twice"]),
        typed("ConcatV2", "joined", "less", "twice", "axis", N=2, Tidx="int32"),
        node("check", "Assert", ["true", "less", "twice", "^joined"], T=pair, summarize=3),
        node("report", "Assert", ["true", "less", "twice", "^check"], T=pair, summarize=3),
        library(taken_from("turn", -3.0)),
        node("turned", "PartitionedCall", ["joined"], Tin=["float32"], Tout=["float32"], f=func("turn")),
        *doubling_loop("t/while", "turned", rounds=2),
        node("t/table", "HashTableV2", key_dtype="int64", value_dtype="float32", shared_name="t/labels"),
        const("numbers", [1, 2], "int64"), const("prices", [1.5, 2.5]),
        node("init", "InitializeTableV2", ["t/table", "numbers", "prices"], Tkey="int64", Tval="float32"),
        const("key", [2], "int64"), const("default", -1.0),
        node("found", "LookupTableFindV2", ["t/table", "key", "default"], Tin="int64", Tout="float32"),
        typed("Sub", result, "t/while/done", "found", "^check", device="/device:CPU:0"),
    )  # fmt: skip


def body() -> Builder:
    """What `t/scaled` and `t/difference` come to: (b (2, 3), a - b (2, 3))."""
    return Builder(
        placeholder("b", "float32", (1, 2)), placeholder("a", "float32", (1, 2)), const("w", [2.0, 3.0]),
        typed("Mul", "times", "b", "w"), typed("Sub", "result", "a", "times"), typed("Identity", "scaled", "times"),
    )  # fmt: skip


def beside(source: str = "in", result: str = "out", size: int = 2) -> Graph:
    return from_bytes(built(part, source, result, size), "part.pb")


def named(*names: str) -> Selection:
    return Selection(nodes=names)


FUSED = named("t/scaled", "t/difference", "t/scale")
MAPPED = [("t/halves:1", "b"), ("t/halves", "a"), ("t/difference", "result"), ("t/scaled", "scaled")]


def bodied(graph: Graph) -> EditResult:
    return fuse_ops(graph, FUSED, "f", body=from_bytes(built(body), "body.pb"), mapped=MAPPED)


EDITS: dict[str, Edit] = {
    "add-preprocessing": lambda g: add_preprocessing(g, beside("x", "x_preprocessed", 4)),
    "add-postprocessing": lambda g: add_postprocessing(g, beside("y", "y_postprocessed")),
    "clone-scope": lambda g: clone_scope(g, "t", "u"),
    "clone-scope --map": lambda g: clone_scope(g, "t", "u", inputs=[("x", "x2")]),
    "control-edges": lambda g: control_edges(g, add=[("sum", "^t/check")], remove=[("y", "^go")]),
    "extract": lambda g: extract(g, ["t/scaled"], ["y", "label", "t/kind2"]),
    "freeze-input": lambda g: freeze_input(g, {"z": "[[1, -2]]"}),
    "fuse-ops": lambda g: fuse_ops(g, FUSED, "f"),
    "fuse-ops --with": bodied,
    "fuse-ops --xla": lambda g: fuse_ops(g, FUSED, "f", xla=True),
    "import": lambda g: import_graph(g, beside()),
    "import --map": lambda g: import_graph(g, beside(), connect=[("z", "in")]),
    "inline": lambda g: inline(g),
    "insert": lambda g: insert(g, "t/scaled", beside()),
    "remove": lambda g: remove(g, named("lonely", "all", "apart"), allow_outputs=True),
    "remove --bypass": lambda g: remove(g, named("t/scaled"), bypass=True),
    "remove --dangling": lambda g: remove(g, named("t/scaled"), dangling="placeholder"),
    "rename": lambda g: rename(g, [("y", "result"), ("x", "input"), ("t/difference", "d")]),
    "rename --rename-scope": lambda g: rename(g, scopes=[("t", "u")]),
    "reroute": lambda g: reroute(g, [("t/scaled", "t/halves")], only="^t/difference$"),
    "set-attr": lambda g: set_attr(g, named("sum", "t/halves", "t/check"), [("_note:string", "a")]),
    "set-attr padding": lambda g: set_attr(g, named("convolved"), [("padding", "VALID")]),
    "set-device": lambda g: set_device(g, clear=True),
    "set-shape": lambda g: set_shape(g, [("x", (-1, 4)), ("z", (-1, 2))]),
    "set-shape --fix-batch": lambda g: set_shape(g, [("image", (2, 4, 4, 1))], fix_batch=True),
}
