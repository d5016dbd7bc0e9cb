"""Edits of small graphs. Together they run the code of nearly all edits; the tests plant mistakes in that code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from edits import test_simplify_bodies as in_bodies
from edits import test_simplify_decided as decided
from edits import test_simplify_folds as in_folds
from edits import test_simplify_for_engines as for_engines
from edits import test_simplify_same_shape as of_shapes
from edits.test_simplify_inlining import AROUND
from support import every_edit, function_savers
from support.cloning import KEYS, layer, table
from support.evaluating import Evaluations
from support.folding import as_function, atrous, conv, fused, image, joined, numbers, relu, spelt_out, whole
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    STRING,
    X,
    add,
    call,
    const,
    define,
    dtype,
    func,
    function,
    graph,
    graph_bytes,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
    tensor,
    typed,
    versions,
)
from support.inlining import LESS_ONE
from support.mutants import Accounted
from support.trained_model import opened
from support.v1_control_flow import cond, while_loop

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Key, Restoring, Served, Serving
from gdsurgeon.registry import COMMANDS

Edit = Callable[[Graph], EditResult]
F1 = [FLOAT]


def of(edit: Edit, *records: bytes, trailer: bytes = versions(1882), less: bool = False) -> Accounted:
    return Accounted(graph_bytes(*records, trailer=trailer), edit, may_do_less=less)


# -- edits of the model on which every edit has something to do

LARGE = every_edit.built(every_edit.model)
MORE: dict[str, Edit] = {
    "rename by a pattern": lambda g: gds.rename(g, patterns=[("t", "uu")]),
    "reroute swap": lambda g: gds.reroute(g, [("t/scaled", "t/difference")], swap=True),
    "set-attr op": lambda g: gds.set_attr(g, ["map"], [("op", "Elu")]),
    "set-attr list": lambda g: gds.set_attr(g, ["flat"], [("_sizes:list(int)", "[1,2,3]")]),
    "set-attr remove": lambda g: gds.set_attr(g, ["sum"], remove=["_class"]),
    "freeze-input arrays": lambda g: gds.freeze_input(g, {"x": np.ones((1, 4), np.float32), "z": [[1, 2]]}),
    "strip-weights": lambda g: gds.strip_weights(g, keep="k"),
    "compat 1.15": lambda g: gds.compat(g, "1.15"),
}
SEVERAL = ("clone-scope --map", "fuse-ops", "fuse-ops --xla", "import", "remove --bypass")
"""Edits that run the same code as other edits of the list."""
CASES = {name: Accounted(LARGE, edit) for name, edit in (every_edit.EDITS | MORE).items() if name not in SEVERAL}
for command, entry in COMMANDS.items():
    module = f"edits.test_{entry.function}"
    own = getattr(import_module(module), "MUTATED", {}) if find_spec(module) is not None else {}
    CASES |= {f"{command} {name}": case for name, case in own.items()}

# -- edits of graphs with features that this model lacks

AXIS = scalar("axis", 0, INT32)
SPLIT = [AXIS, typed("Split", "halves", "axis", "x", num_split=2)]


def holding(name: str, held: str, *, stateful: bool = True) -> Any:
    """A function that creates a table with the shared name `held` and returns its argument."""
    kept = node("h", "HashTableV2", key_dtype=STRING, value_dtype=INT32, container="", shared_name=held)
    return define(name, {"x": FLOAT}, {"o": (FLOAT, "x")}, kept, effects=["h"], stateful=stateful)


def library_of(op: str, *more: Any, **gradients: str) -> bytes:
    """A library: `f` applies `op`, `g` calls `f`, and the functions `more`."""
    f = define("f", {"x": FLOAT}, {"o": (FLOAT, "n:y:0")}, typed(op, "n", "x"))
    g = define("g", {"x": FLOAT}, {"o": (FLOAT, "c:output:0")}, call("c", "f", ["x"], F1, F1))
    return library(f, g, *more, gradients=gradients)


def with_functions() -> Graph:
    """A graph to import. It has functions with the names of the model's, one with a gradient, and one with a table."""
    d = define("d", {"x": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "x"))
    back = define("back", {"x": FLOAT, "dy": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "dy"))
    calls = [call(name, name, ["p"], F1, F1, stateful=name == "holds") for name in ("g", "d", "holds")]
    functions = library_of("Square", d, back, holding("holds", "t"), d="back")
    return graph(placeholder("p", FLOAT, ()), *calls, functions, trailer=versions(21), name="other.pb")


CALLED = define(
    "outer", {"a": FLOAT, "b": FLOAT}, {"o": (FLOAT, "d:z:0"), "p": (FLOAT, "n:y:0")}, neg("n", "a"), scalar("k", 1),
    node("own", "NoOp"), call("in", "f", ["b"], F1, F1), node("late", "NoOp", ["^k"]),
    typed("Sub", "d", "in:output:0", "k:output:0", "^own", device="/cpu:1", _class=["loc:@n"], _note="kept"),
    effects=["late"], stateful=True,
)  # fmt: skip
CALLS = [
    X, placeholder("z", FLOAT, (2,)), node("ready", "NoOp"), node("set", "NoOp"),
    call("c", "outer", ["x", "z", "^ready", "^set"], F1 * 2, F1 * 2, stateful=True, device="/cpu:0"), neg("y", "c:1"),
    typed("Sub", "w", "x", "c", "^c", "^other"), node("other", "NoOp"),
    call("e", "outer", ["z", "x"], F1 * 2, F1 * 2, stateful=True), library_of("Neg", CALLED, g="f"),
]  # fmt: skip

SCOPE = [
    X, placeholder("z", FLOAT, (4,)), *SPLIT[:1], typed("Split", "parts", "axis", "z", num_split=2),
    node("ready", "NoOp"), *layer("s", "x"), *layer("s_2", "x"),
    add("s/sum", "s/add", "x", "^s/b", "^ready", device="/cpu:0", _class=["loc:@s/w", "loc:@x"]), neg("s", "s/sum"),
    node("s/tmp", "TemporaryVariable", dtype=FLOAT, shape=(2,), var_name=""), neg("y", "s/sum"),
    typed("Assign", "s/set", "s/tmp", "x"), typed("DestroyTemporaryVariable", "s/end", "s/set", var_name="s/tmp"),
    node("s/v", "VarHandleOp", dtype=FLOAT, shape=(2,)), node("s/read", "ReadVariableOp", ["s/v"], dtype=FLOAT),
]  # fmt: skip
OLD = [
    placeholder("x", FLOAT, (1, 4, 4, 4)), placeholder("x2", FLOAT, (1, 4, 4, 4)), add("a", "x", "x2", "^w"),
    const("w", [1.0] * 4, shape=(1, 1, 4, 1)), const("g", [1.0, 2.0, 3.0, 4.0], shape=(1, 1, 2, 2)),
    *(typed("Conv2D", name, "a", name[1:], strides=[1, 1, 1, 1], padding="EXPLICIT", dilations=[1, 1, 1, 1],
            explicit_paddings=[0, 0, 1, 2, 0, 3, 0, 0]) for name in ("cw", "cg")),
    const("d", [1.0, 2.0, 3.0, 4.0] * 2, shape=(1, 2, 1, 4)), const("one", [1.0]), scalar("i", 1, INT32),
    typed("Conv2D", "cd", "a", "d", strides=[1, 1, 1, 1], padding="SAME"), library_of("Neg"),
    typed("LeakyRelu", "l", "cw", alpha=0.5),
    typed("FusedBatchNormV3", "s", "l", *["one"] * 4, U=FLOAT, is_training=False),
    node("k", "Cast", ["s"], SrcT=FLOAT, DstT=INT32, Truncate=False),
    node("choice", "Case", ["i", "x"], Tin=F1, Tout=F1, branches=[func("f"), func("g")]),
]  # fmt: skip


def looping() -> list[bytes]:
    """A loop and a call of a function, each with a consumer and a control dependency."""
    kinds = {"i": INT32, "v": FLOAT}
    less = define("less", kinds, {"go": (BOOL, "l:z:0")}, scalar("k", 3, INT32),
                    typed("Less", "l", "i", "k:output:0", kind=INT32))  # fmt: skip
    step = define("step", kinds, {"j": (INT32, "a:z:0"), "w": (FLOAT, "b:z:0")}, scalar("one", 1, INT32),
                    add("a", "i", "one:output:0", kind=INT32), add("b", "v", "v"))  # fmt: skip
    state = {"T": [INT32, FLOAT], "cond": func("less"), "body": func("step")}
    return [
        placeholder("x", FLOAT, (2,)), scalar("z", 0, INT32), node("w", "While", ["z", "x", "^x"], **state),
        call("c", "f", ["w:1"], F1, F1), identity("y", "c", "^x", "^c"), identity("late", "x", "^w"),
        library_of("Neg", less, step),
    ]  # fmt: skip


RECORDS = [
    placeholder("s", STRING, (-1,)), const("n", [], STRING), const("k", ["a", "b"], STRING), scalar("p", 1),
    node("y", "ParseExampleV2", ["s", "n", "n", "k", "n", "p", "q"], Tdense=F1 * 2, num_sparse=0, dense_shapes=[(), ()],
         sparse_types=[], ragged_value_types=[], ragged_split_types=[]), scalar("q", 2),
]  # fmt: skip
FROZEN = [
    placeholder("x", FLOAT, (2,)), const("v", [1.0, 2.0]), typed("Assign", "a", "v", "x", "^x", _note="a"),
    node("i", "IsVariableInitialized", ["v"], dtype=FLOAT), node("n", "AssignVariableOp", ["v", "x"], dtype=FLOAT),
    typed("RefIdentity", "r", "v"), typed("ApplyGradientDescent", "t", "v", "x", "x"),
    node("real", "VariableV2", dtype=FLOAT, shape=(2,)), typed("AssignSub", "s", "real", "x"),
    add("c", "a", "x", _class=["loc:@gone", "loc:@v"]), identity("y", "c"),
]  # fmt: skip

WEIGHTS = tensor([0.37 * (i % 61) + i for i in range(1024)], FLOAT, (32, 32))
WEIGHTED = [
    placeholder("x", FLOAT, (1, 32)), const("a", [1.0]), typed("MatMul", "y", "x", "w"),
    node("w", "Const", ["^a"], dtype=FLOAT, value=WEIGHTS, device="/cpu:0", _note="a"),
    node("kept", "Const", dtype=FLOAT, value=WEIGHTS), typed("MatMul", "z", "y", "kept"),
    const("row", [0.5] * 300), const("rows", [0] * 1500, INT32), node("call", "F", ["z"]),
    node("g", "GatherV2", ["row", "rows", "axis"], Tparams=FLOAT, Tindices=INT32, Taxis=INT32), AXIS,
    library(function("F", node("w", "Const", dtype=FLOAT, value=WEIGHTS), add("y", "x", "w:output:0"))),
]  # fmt: skip


def served() -> Graph:
    """A model with three signatures, two slices of one variable, an unused variable, a table and a saver."""
    found = graph(
        placeholder("x", FLOAT, (2,)), node("v", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name="v"),
        node("v/read", "ReadVariableOp", ["v"], dtype=FLOAT), node("w", "VariableV2", dtype=FLOAT, shape=(2,)),
        identity("w/read", "w"), node("u", "VariableV2", dtype=FLOAT, shape=(2,)), add("s", "v/read", "w/read", "^x"),
        add("y", "x", "s", _class=["loc:@u"]), scalar("unused", 1), placeholder("file", STRING, ()),
        node("table", "HashTableV2", key_dtype=STRING, value_dtype=INT64, shared_name="t"),
        node("size", "LookupTableSizeV2", ["table"]), node("init", "NoOp", ["^fill"]),
        node("fill", "InitializeTableFromTextFileV2", ["table", "file"], key_index=-2, value_index=-1),
        node("r", "RestoreV2", ["file", "file", "file"], dtypes=F1), call("call", "g", ["x"], F1, F1),
        library_of("Neg", holding("holds", "h")),
    )  # fmt: skip
    found.serving = Serving(
        "SavedModel", "checkpoint",
        {"a": Served({"x": "x"}, {"y": "y"}), "b": Served({}, {"n": "size"}), "c": Served({"x": "x"}, {"z": "call"})},
        restoring=Restoring({"file": "checkpoint"}, ("r",)), initialising=Restoring({"file": "words.txt"}, ("init",)),
        keys={"v": Key("net", "4 0,2"), "w": Key("net", "4 2,2"), "u": Key("u")},
    )  # fmt: skip
    return found


CASES |= {
    "import functions": of(lambda g: gds.import_graph(g, with_functions(), connect=[("halves:1", "p")]), X, *SPLIT,
                           call("y", "g", ["x"], F1, F1), library_of("Neg", holding("h", "t"))),
    "inline all": of(gds.inline, *CALLS),
    "clone-scope more": of(lambda g: gds.clone_scope(g, "s", "t", inputs=[("x", "parts:1")], share=["s/w"]), *SCOPE),
    "clone-scope table": of(lambda g: gds.clone_scope(g, "s", "t"), KEYS, *table("s", "kept", "s/init"),
                            *table("others", "kept", "init"), identity("y", "s/find")),
    **{f"clone-scope {which}": Accounted(make, partial(gds.clone_scope, source="net", target="copy", variables=which))
       for make, which in ((opened, "clone"), (opened, "share"), (function_savers.model, "all"))},
    "extract a table": of(lambda g: gds.extract(g, [], ["y"]), KEYS, *table("s", "kept", "init"), neg("y", "s/find"),
                          neg("other", "s/find")),
    "compat old": of(lambda g: gds.compat(g, "1.4"), *OLD),
    "compat flow": of(lambda g: gds.compat(g, "1.4"), *looping()),
    "compat records": of(lambda g: gds.compat(g, "1.4"), *RECORDS),
    "repair": of(gds.repair, *FROZEN),
    "quantize": of(lambda g: gds.quantize(g, "bfloat16", keep="^kept$"), *WEIGHTED),
    "quantize int8": of(lambda g: gds.quantize(g, "int8"), *WEIGHTED),
    "strip-weights more": of(lambda g: gds.strip_weights(g, keep="^w$"), *WEIGHTED),
    "slim": Accounted(served, lambda g: gds.slim(g, signatures=["a"])),
}  # fmt: skip

# -- simplify: a result in which it has done less is right, too

PLAIN = conv("c", "x", (3, 3, 4, 3))
FOLDED = {
    "norm": [*PLAIN, *fused("n", "c", 3)],
    "sums": [*PLAIN, numbers("f", [3], 1, 2), numbers("g", [3]), typed("Sub", "d", "g", "c"),
             typed("RealDiv", "m", "d", "f"), add("n", "m", "g")],
    "matrix": [whole("flat", [-1, 4]), typed("Reshape", "r", "x", "flat", Tshape=INT32), numbers("w", [4, 4]),
               typed("MatMul", "c", "r", "w", transpose_b=True), *spelt_out("n", "c", 4)],
    "pads": [whole("pads", [0, 0, 2, 1, 0, 1, 0, 0], (4, 2)), typed("Pad", "p", "x", "pads", Tpaddings=INT32),
             *conv("n", "p", (3, 3, 4, 3), padding="VALID")],
    "gaps": [whole("block", [2, 3]), whole("pads", [2, 2, 1, 2], (2, 2)), whole("crops", [1, 0, 0, 0], (2, 2)),
             typed("SpaceToBatchND", "t", "x", "block", "pads", Tblock_shape=INT32, Tpaddings=INT32),
             *conv("c", "t", (3, 3, 4, 3), padding="VALID"),
             typed("BatchToSpaceND", "n", "c", "block", "crops", Tblock_shape=INT32, Tcrops=INT32)],
    "joined": [*joined(), *fused("n", "j", 5)],
    "moved": [*atrous("back"), numbers("f", [8], 1, 2), typed("Mul", "n", "back", "f")],
    "factor": [numbers("f", [4], 1, 2), typed("RealDiv", "m", "x", "f"), *conv("n", "m", (3, 3, 4, 3))],
}  # fmt: skip


def nearly_nothing() -> list[bytes]:
    """Nodes that change nothing, pairs of nodes that cancel out, and nodes that look like these and are not."""
    half, z = dtype(19), placeholder("z", FLOAT, (2, 3))
    turns = [const("turn", [1, 0, 2], INT32), const("roll", [1, 2, 0], INT32), placeholder("c", FLOAT, (2, 2, 2))]
    turned = (("c", "r", "roll"), ("r", "r2", "roll"), ("c", "t", "turn"), ("t", "t2", "turn"))
    turns += [typed("Transpose", b, a, order, Tperm=INT32) for a, b, order in turned]
    casts = [node("h", "Cast", ["z"], SrcT=FLOAT, DstT=half), node("h2", "Cast", ["h"], SrcT=half, DstT=FLOAT)]
    units = [scalar("one", 1), scalar("zero", 0), typed("Mul", "m", "z", "one"), add("p", "z", "zero"),
             typed("Sub", "q", "zero", "z"), typed("Sub", "w", "z", "one")]  # fmt: skip
    pairs = [typed(op, b, a)
             for op in ("Neg", "Relu") for a, b in (("z", f"1{op}"), (f"1{op}", f"2{op}"))]  # fmt: skip
    ends = [typed("Tanh", f"y_{name}", name) for name in "h2 m p q w 2Neg 2Relu r2 t2".split()]
    return [z, *turns, *casts, *units, *pairs, *ends]


PAIRS = ("a b", "c d", "n0 n1", "l0 l1", "s s_1:1", "o0 o1", "read o2", "r1 r2")


def alike() -> list[bytes]:
    """Nodes that are equal, and nodes that differ in a value, an attr, a device, an input or a control input only."""
    named = [const(name, [1.0, 2.0, at]) for at, name in enumerate("abcd")]
    many = [const(name, [*range(2000), last]) for name, last in (("v", 7), ("u", 7), ("t", 8))]
    pairs = [neg(f"n{i}", "x", device=f"/cpu:{i}") for i in range(2)]
    pairs += [typed("LeakyRelu", f"l{i}", "x", alpha=i / 8) for i in range(2)]
    pairs += [typed("Tanh", f"o{i}", "x", *["^change"] * i) for i in range(3)]
    state = [node("v1", "VariableV2", dtype=FLOAT, shape=(2,)), typed("AssignAdd", "change", "v1", "same"),
             identity("read", "v1"), identity("same", "x"), typed("RandomUniform", "r1", "dims", kind=INT32,
                                                                  dtype=FLOAT),
             typed("RandomUniform", "r2", "dims", kind=INT32, dtype=FLOAT), const("dims", [2], INT32)]  # fmt: skip
    splits = [scalar("axis", 0, INT32), scalar("axis_1", 0, INT32)]
    splits += [typed("Split", f"s{end}", f"axis{end}", "x", num_split=2) for end in ("", "_1")]
    ends = [add(f"y_{a}", a, b) for a, b in (pair.split() for pair in PAIRS)]
    return [X, *named, *many, *pairs, *state, *splits, *ends, typed("AddN", "y", "v", "u", "t", N=3)]


def computed() -> list[bytes]:
    """Constant expressions: one to fold, one with a large result, and one in a loop."""
    weights = [const("a", [1, 2, 3]), const("b", [4, 5, 6]), typed("Mul", "c", "a", "b")]
    large = [const("times", [99], INT32), typed("Tile", "t", "a", "times")]
    inner = [typed("Mul", "w/twice", "w/three", "w/three"), add("w/plus", "w/v", "w/twice")]
    return [placeholder("x", FLOAT, (3,)), *weights, *large, add("y", "x", "c"), add("z", "t", "c"),
            *while_loop(*inner, result="w/plus")]  # fmt: skip


SUMMED = ("AddV2 i constant/c", "Sub i constant/c", "Sub constant/c i")
TOTALS = ("Add {} constant/d", "Sub {} constant/d", "Sub constant/d {}")


def totals() -> list[bytes]:
    """Sums of integers with two constants, a chain of them, and sums that stay."""
    found = [
        const("constant/c", [3, 4], INT32),
        scalar("constant/d", 9, INT32),
        scalar("e", 0.5),
        placeholder("f", FLOAT, (2,)),
    ]
    forms = [(f"t{i}{j}", first, then) for i, first in enumerate(SUMMED) for j, then in enumerate(TOTALS)]
    forms += [("twice", "Sub i constant/d", "AddV2 {} {}"), ("awaited", "AddV2 i constant/c", "Sub {} constant/d ^{}")]
    for name, first, then in forms:
        inner, given = f"{name}/a first sum", f"{name}/i"
        op, *reads = first.replace(" i", f" {given}").split()
        last, *others = then.split()
        found += [placeholder(given, INT32, (2,)), typed(op, inner, *reads, kind=INT32),
                  typed(last, name, *(each.format(inner) for each in others), kind=INT32)]  # fmt: skip
    more = [("link 1", "t00", "constant/c"), ("link 2", "constant/d", "link 1"), ("link 3", "link 2", "constant/c")]
    found += [typed("AddV2", name, *reads, kind=INT32) for name, *reads in more]
    found += [typed("AddV2", "f0", "f", "e"), typed("AddV2", "f1", "f0", "e")]
    return [*found, *(typed("Abs", f"y_{name}", name, kind=INT32) for name in (*(form[0] for form in forms), "link 3"))]


def choices() -> list[bytes]:
    return [
        const("p", True, BOOL),
        *cond()[1:],
        placeholder("s", STRING),
        node("print", "PrintV2", ["s"]),
        scalar("k", 1),
    ]


def written() -> list[bytes]:
    """Tensors that ops overwrite in place, one of them in a nested function, and equal tensors."""
    at, row = const("at", [0], INT32), const("row", [1.0, 2.0, 3.0], FLOAT, (1, 3))
    writes = function("W", at, row, typed("InplaceAdd", "y", "x", "at:output:0", "row:output:0"))
    ends = {"Tin": F1, "Tout": F1}
    twice = [neg(name, "x") for name in ("a", "b", "d", "e")]
    call = node("c", "If", ["p", "a"], then_branch=func("V"), else_branch=func("V"), Tcond=BOOL, **ends)
    return [placeholder("x", FLOAT, (2, 3)), placeholder("p", BOOL, ()), *twice, call, at, row, identity("i", "b"),
            typed("InplaceAdd", "g", "d", "at", "row"), typed("Sub", "y", "c", "i"), typed("Sub", "z", "g", "e"),
            library(writes, function("V", node("y", "PartitionedCall", ["x"], f=func("W"), **ends)))]  # fmt: skip


# -- rewrite

REWRITTEN = [
    placeholder("x"), placeholder("z"), scalar("two", 2.0), scalar("three", 3.0), AXIS,
    typed("Mul", "a", "two", "x", device="/cpu:0"), typed("Mul", "b", "z", "three"),
    neg("c", "a", _note="hi"), neg("d", "c"), neg("e", "d"), typed("Sub", "f", "e", "b"), typed("Abs", "g", "b"),
    typed("LeakyRelu", "leaky", "f", alpha=0.5), identity("out", "right", "^g"),
    typed("Split", "split", "axis", "leaky", num_split=2), typed("Abs", "left", "split", _note="x"),
    neg("right", "split:1"), typed("Tanh", "waits", "x", "^z"), typed("Abs", "after", "waits"), neg("end", "x"),
    const("row", [1.0, 2.0], FLOAT, (1, 2)), typed("InplaceAdd", "set", "end", "axis", "row"),
]  # fmt: skip
RULES = [
    "Mul($x, 2) -> AddV2($x, Neg($x))", "Neg(Neg($x)) -> $x", "n=LeakyRelu{alpha=0.5}($x) -> LeakyRelu{=n}(Relu($x))",
    "Abs|Neg(Tanh|Mul($x, ...)) -> Relu($x)", "Mul($x, $c:scalar) -> AddV2($x, $x)",
    "Abs|LeakyRelu{alpha>=0.4}($x) -> Relu($x)", "Neg($x) -> $x",
]  # fmt: skip

CASES |= {
    f"rewrite {rule}": of(partial(gds.rewrite, pattern=rule, limit=limit), *REWRITTEN)
    for rule, limit in [*((rule, None) for rule in RULES), ("Abs($x) -> Tanh($x)", 1)]
}
CASES |= {
    f"simplify {name}{where}": of(lambda g: gds.simplify(g, passes=["unread", "bodies"], fold_bn=True), *model,
                                  const("unread", [1.0]), less=True)
    for name, records in FOLDED.items()
    for where, model in (("", [image(side=6), *records, relu("n")]),
                         (" in a function", in_folds.chosen(as_function("F", *records))))
}  # fmt: skip
CASES |= {
    f"simplify {records.__name__}": of(lambda g: gds.simplify(g, evaluate=Evaluations()), *records(), less=True)
    for records in (nearly_nothing, alike, computed, totals, choices, written)
}


def of_functions(*functions: Any) -> list[bytes]:
    """A graph whose If calls the first of the functions or the last. Another call passes a constant."""
    constant = [const("given", [1.0, 2.0]), call("of constant", functions[0].signature.name, ["given"], F1, F1)]
    return [*in_bodies.chosen(*functions), *constant, neg("z", "of constant"), identity("i", "x"), neg("end", "i")]


def behind(records: list[bytes]) -> list[bytes]:
    """A graph in which an edit of `last` leaves the outputs, and in which a Reshape changes nothing."""
    return [placeholder("x", FLOAT, (-1, 4, 3)), placeholder("w", FLOAT, (-1, 0)), *records, relu("last", "again"),
            *of_shapes.reshape("all", "x", -1, 4, 3), typed("AddN", "y", "again", "all", N=2)]  # fmt: skip


X23 = placeholder("x", FLOAT, (2, 3))
EMPTY = [scalar("none", 0, INT32), typed("Pack", "empty", "n", "none", kind=INT32, N=2, axis=0)]
EMPTY = [*of_shapes.FLATTEN, *EMPTY, typed("Reshape", "z", "w", "empty")]
TWICE = [X23, for_engines.splat("k", 2.5, (2, 3)), add("a", "x", "k"), typed("AddN", "y", "a", "k", "k", N=3),
         for_engines.splat("n", None, (3,)), add("z", "n", "x"), const("one", 1, _class=["loc:@k"]), neg("end", "b"),
         typed("AddN", "b", "one", "one", N=2), node("late", "Const", ["^one"], dtype=FLOAT, device="/cpu:1",
         value=tensor([1.0, 2.0, 3.0])), add("c", "late", "x"), add("d", "late", "c")]  # fmt: skip
STOP = const("k", False, BOOL)
LOOPS = {"stops": [STOP], "turns": [const("k", True, BOOL)], "given": [decided.SAID[0], neg("k", "x")],
         "prints": [*decided.SAID, STOP]}  # fmt: skip
LOOKED_INTO = in_bodies.body("F")
LOOKED_INTO.attr["api_implements"].s = b"some"
SIMPLIFIED = [
    *((f"{make.__name__} {part}", [X23, *make(part), identity("a", "x"), neg("b", "a")], ["dropout", "identities"])
      for make in (decided.of_version_1, decided.of_version_2, decided.selecting) for part in (0, 0.5, 1)),
    *((name, behind(records), ["same-shape"]) for name, records in (of_shapes.GOES | of_shapes.STAYS).items()),
    ("open dim", behind(of_shapes.FLATTEN), []),
    ("empty dims", behind(EMPTY), []),
    *((f"inside {make.__name__} {name}", make(identity("e", "x"), *nodes, returned=returned, more=more), passes)
      for name, (nodes, returned, more, _) in in_bodies.INSIDE.items()
      for make in (in_bodies.chosen_in, in_bodies.looping)
      for passes in ([], ["bodies", "identities"])),
    ("bodies", of_functions(in_bodies.body("F")), []),
    ("bodies looked into", of_functions(LOOKED_INTO), []),
    ("inline", [X, call("c", "less_one", ["x"], F1, F1), call("d", "around", ["c"], F1, F1), neg("y", "d"),
                library(LESS_ONE, AROUND)], []),
    *((f"decided {name}", data, ["conditions"] if name == "stops" else ["conditions", "identities"])
      for name, data in [*((name, data) for name, (data, _) in decided.CASES.items()),
                         *((name, decided.looping(*nodes, op="While")) for name, nodes in LOOPS.items())]),
]  # fmt: skip
for name, model, passes in SIMPLIFIED:
    data = model if isinstance(model, bytes) else graph_bytes(*model, trailer=versions(1882))
    edit = partial(gds.simplify, passes=passes, evaluate=Evaluations())
    CASES[f"simplify {name} {' '.join(passes)}"] = Accounted(data, edit, may_do_less=True)
CASES["simplify for an engine"] = of(partial(gds.simplify, engine="opencv"), *TWICE)
