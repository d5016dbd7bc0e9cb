"""A model on which every edit has something to do, graphs to be added to it, and an edit of each kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.edits.control_edges import control_edges
from gdsurgeon.edits.extract import extract
from gdsurgeon.edits.freeze_input import freeze_input
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.edits.inline import inline
from gdsurgeon.edits.insert import insert
from gdsurgeon.edits.parts import add_postprocessing, add_preprocessing
from gdsurgeon.edits.remove import remove
from gdsurgeon.edits.rename import rename
from gdsurgeon.edits.reroute import reroute
from gdsurgeon.edits.set_attr import set_attr
from gdsurgeon.edits.set_device import set_device
from gdsurgeon.edits.set_shape import set_shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.select import Selection
from support.graphs import Builder, body_node, const, doubling_loop, func, node, placeholder, tensor, typed

Edit = Callable[[Graph], EditResult]

KERNEL, BIAS = [[[[0.5]], [[2.0]]], [[[3.0]], [[0.75]]]], [0.125]


# -- what is edited --------------------------------------------------------------------------------------------


def model() -> Builder:
    """A scope `t` with a loop, a table, a variable, an Assert and a TensorArray; also functions and a convolution.

    `label`, `y`, `kind`, `map`, `either`, `apart` and `stored` are the outputs.
    """
    m = Builder(
        placeholder("x", "float32", (1, 4)), placeholder("x2", "float32", (1, 4)), placeholder("z", "float32", (1, 2)),
        placeholder("image", "float32", (1, 4, 4, 1)), const("nothing", 0.25), const("true", True, "bool"),
        const("axis", 1, "int32"),
    )  # fmt: skip
    _scope(m)
    _functions(m)
    call = {"Tin": ["float32", "float32"], "Tout": ["float32", "float32"], "f": func("outer")}
    m.node("called", "PartitionedCall", ["t/result", "z", "^t/check"], **call)
    m.typed("Sub", "sum", "called", "called:1", _class=["loc:@t/result"])
    m.node("go", "NoOp", ["^t/check", "^called"])
    m.typed("Sub", "y", "sum", "nothing", "^go", _output_shapes=[(1, 2)])
    m.typed("Identity", "label", "t/label", "^go", kind="string")
    # For positive numbers only: negative numbers would show the effect of the Relu.
    m.typed("Square", "positive", "image")
    m.const("kernel", KERNEL)
    m.typed("Conv2D", "convolved", "positive", "kernel", strides=[1, 1, 1, 1], padding="SAME")
    m.const("bias", BIAS)
    m.typed("BiasAdd", "biased", "convolved", "bias", data_format="NHWC")
    m.typed("Relu", "map", "biased")
    m.const("flat_shape", [1, 16], "int32")
    m.typed("Reshape", "flat", "image", "flat_shape", Tshape="int32")
    m.typed("Reshape", "flat_too", "image", "flat_shape_too", Tshape="int32")
    m.const("flat_shape_too", [1, 16], "int32")
    m.typed("Neg", "shape_itself", "flat_shape_too", kind="int32")
    m.typed("TopKV2", "values", "z", "one_of", sorted=True)
    m.const("one_of", 1, "int32")
    m.typed("Sub", "best_value", "values", "nothing")
    m.node("which", "Cast", ["values:1"], SrcT="int32", DstT="float32")
    branches = {"then_branch": func("turn"), "else_branch": func("other_turn")}
    m.node("either", "StatelessIf", ["true", "z"], Tcond="bool", Tin=["float32"], Tout=["float32"], **branches)
    m.const("k", 5.0)
    m.typed("Sub", "apart", "z", "k")
    m.typed("Sub", "apart_too", "k", "z")
    # No node reads these or waits for them: they are run by name.
    m.node("lonely", "Assert", ["true", "z", "k"], T=["float32", "float32"], summarize=3)
    m.node("all", "NoOp", ["^y", "^map"])
    return m


@cache
def built(make: Callable[..., Builder], *arguments: str | int) -> bytes:
    """The graph that MAKE builds, which is the same each time."""
    return make(*arguments).bytes()


def original() -> Graph:
    return from_bytes(built(model), "model.pb")


def _scope(m: Builder) -> None:
    m.typed("Split", "t/halves", "axis", "x", num_split=2, _class=["loc:@x"])
    m.const("t/scale", [2.0, 3.0])
    m.typed("Mul", "t/scaled", "t/halves:1", "t/scale")
    m.typed("Sub", "t/difference", "t/halves", "t/scaled")
    m.typed("Equal", "t/same", "t/difference", "t/difference", incompatible_shape_error=True)
    m.const("t/axes", [0, 1], "int32")
    m.node("t/fine", "All", ["t/same", "t/axes"], Tidx="int32", keep_dims=False)
    m.node("t/check", "Assert", ["t/fine", "t/scaled", "t/difference"], T=["float32", "float32"], summarize=3)
    m.const("t/weights", [[1.0, -2.0, 0.5], [0.25, 4.0, -1.0]])
    m.typed("MatMul", "t/scores", "t/difference", "t/weights", transpose_a=False, transpose_b=False)
    m.typed("ArgMax", "t/kind", "t/scores", "axis", Tidx="int32", output_type="int64")
    m.const("t/unknown", "?", "string")
    m.node("t/table", "HashTableV2", key_dtype="int64", value_dtype="string", shared_name="t/labels")
    m.const("t/numbers", [0, 1, 2], "int64")
    m.const("t/words", ["a", "b", "c"], "string")
    m.node("t/init", "InitializeTableV2", ["t/table", "t/numbers", "t/words"], Tkey="int64", Tval="string")
    m.node("t/label", "LookupTableFindV2", ["t/table", "t/kind", "t/unknown"], Tin="int64", Tout="string")
    m.typed("ArgMax", "t/kind2", "t/difference", "axis", "^t/check", Tidx="int32", output_type="int64")
    looped = doubling_loop(m, "t/while", "t/difference", rounds=2)
    m.node("t/v", "VariableV2", shape=(1, 2), dtype="float32", container="", shared_name="t/v")
    m.typed("Sub", "t/shifted", looped, "t/v")
    m.const("t/size", 1, "int32")
    m.const("t/first", 0, "int32")
    m.node("t/array", "TensorArrayV3", ["t/size"], dtype="float32", clear_after_read=False, tensor_array_name="t/a")
    m.node("t/turned", "PartitionedCall", ["t/shifted"], Tin=["float32"], Tout=["float32"], f=func("turn"))
    m.typed("TensorArrayWriteV3", "t/write", "t/array", "t/first", "t/turned", "t/array:1")
    m.node("t/stored", "TensorArrayReadV3", ["t/array", "t/first", "t/array:1", "^t/write"], dtype="float32")
    # Reads the write as data and serves nothing, so it is not fetched: only the control edge runs it.
    m.node("t/written", "Assert", ["true", "t/write"], T=["float32"], summarize=3)
    m.typed("Sub", "t/result", "t/stored", "t/scaled", "^t/check")
    m.graph_def.node[-1].device = "/device:CPU:0"
    # Nobody waits for it: only its name is asked for.
    m.const("t/hundred", 100.0)
    m.typed("Sub", "t/percent", "t/hundred", "t/scaled")
    m.node("t/told", "PartitionedCall", ["t/percent"], Tin=["float32"], Tout=["float32"], f=func("turn"))
    m.node("t/report", "Assert", ["t/fine", "t/told", "t/scaled", "^t/check"], T=["float32", "float32"], summarize=3)


def _functions(m: Builder) -> None:
    """outer(a, b) = (turn(a) - b, b); turn(a) = 7 - a; other_turn(a) = 9 - a; spare(a) = a, which is unused."""
    _turn(m, "turn", 7.0)
    _turn(m, "other_turn", 9.0)
    outer = m.function("outer", {"a": "float32", "b": "float32"}, {"first": "float32", "second": "float32"})
    body_node(outer, "in", "PartitionedCall", ["a"], Tin=["float32"], Tout=["float32"], f=func("turn"))
    body_node(outer, "minus", "Sub", ["in:output:0", "b", "^in"], T="float32")
    outer.node_def[-1].device = "/device:CPU:0"
    outer.ret["first"], outer.ret["second"] = "minus:z:0", "b"
    spare = m.function("spare", {"a": "float32", "b": "float32"}, {"first": "float32", "second": "float32"})
    body_node(spare, "minus", "Sub", ["a", "b"], T="float32")
    spare.ret["first"], spare.ret["second"] = "minus:z:0", "a"


def _turn(m: Builder, name: str, value: float) -> None:
    turn = m.function(name, {"a": "float32"}, {"out": "float32"})
    body_node(turn, "number", "Const", dtype="float32", value=tensor(value, "float32"))
    body_node(turn, "r", "Sub", ["number:output:0", "a"], T="float32")
    turn.ret["out"] = "r:z:0"


def part(source: str, result: str, size: int) -> Builder:
    """A separate graph with the same kinds of nodes as the model: a loop, a table and a function of the same names."""
    p = Builder(
        placeholder(source, "float32", (1, size)), const("axis", 1, "int32"), const("true", True, "bool"),
        typed("Split", "parts", "axis", source, num_split=2), const("two", 2.0),
        typed("Mul", "twice", "parts:1", "two"), typed("Sub", "less", "parts", "twice", _class=["loc:@twice"]),
        typed("ConcatV2", "joined", "less", "twice", "axis", N=2, Tidx="int32"),
        node("check", "Assert", ["true", "less", "twice", "^joined"], T=["float32", "float32"], summarize=3),
        node("report", "Assert", ["true", "less", "twice", "^check"], T=["float32", "float32"], summarize=3),
    )  # fmt: skip
    _turn(p, "turn", -3.0)
    p.node("turned", "PartitionedCall", ["joined"], Tin=["float32"], Tout=["float32"], f=func("turn"))
    looped = doubling_loop(p, "t/while", "turned", rounds=2)
    p.node("t/table", "HashTableV2", key_dtype="int64", value_dtype="float32", shared_name="t/labels")
    p.const("numbers", [1, 2], "int64")
    p.const("prices", [1.5, 2.5])
    p.node("init", "InitializeTableV2", ["t/table", "numbers", "prices"], Tkey="int64", Tval="float32")
    p.const("key", [2], "int64")
    p.const("default", -1.0)
    p.node("found", "LookupTableFindV2", ["t/table", "key", "default"], Tin="int64", Tout="float32")
    p.typed("Sub", result, looped, "found", "^check")
    p.graph_def.node[-1].device = "/device:CPU:0"
    return p


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
