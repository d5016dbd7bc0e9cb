"""set-attr op=: results, kept attributes, refused requests, and runs in TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.desk import Desk
from support.expecting import refused
from support.graphs import (
    FLOAT,
    INT32,
    Builder,
    add,
    const,
    dtypes,
    function,
    graph,
    graph_bytes,
    neg,
    node,
    placeholder,
    relu,
    typed,
)
from support.operating import operated
from support.running import run

import gdsurgeon as gds
from gdsurgeon.compare.comparison import compare_written
from gdsurgeon.edits.claims import Unchanged
from gdsurgeon.edits.set_attr import set_attr
from gdsurgeon.select import Selection

QUICK = ("--validate", "structure", "-o", "after.pb")
ONES = b"\x0a\x06\x1a\x04\x01\x01\x01\x01"


def unary(op: str, name: str = "y", source: str = "x", kind: bytes = FLOAT, **attrs: Any) -> bytes:
    return typed(op, name, source, kind=kind, **attrs)


X, INTS, END = placeholder("x"), [placeholder("a", INT32), placeholder("b", INT32)], unary("Neg", "z", "y")
POOL: Any = {"T": FLOAT, "ksize": ONES, "strides": ONES, "padding": "SAME", "data_format": "NHWC"}
PLACED: Any = {"T": FLOAT, "device": "/cpu:0", "_class": ["loc:@x"]}
SWAPPED: dict[str, tuple[list[bytes], str, list[bytes], dict[str, Any]]] = {
    "what fits is kept": (
        [X, unary("Relu", _note="hi"), END], "y op=Relu6", [X, unary("Relu6", _note="hi"), END],
        {"swapped": {"Relu": 1}, "dropped": {}},
    ),
    "attrs that the new op lacks are removed and reported": (
        [X, node("y", "MaxPool", ["x"], explicit_paddings=b"\x0a\x00", _output_shapes=b"\x0a\x02\x3a\x00", **POOL)],
        "--op MaxPool op=AvgPool", [X, node("y", "AvgPool", ["x"], **POOL)],
        {"dropped": {"explicit_paddings": ["y"], "_output_shapes": ["y"]}},
    ),
    "a count follows from the inputs": (
        [*INTS, node("y", "IdentityN", ["a", "b"], T=dtypes(INT32, INT32))], "y op=AddN",
        [*INTS, typed("AddN", "y", "a", "b", kind=INT32, N=2)], {"inferred": {"N": ["y"]}},
    ),
    "dtypes follow from the inputs": (
        [INTS[0], X, node("y", "TupleOf", ["a", "x"])], "y op=IdentityN",
        [INTS[0], X, node("y", "IdentityN", ["a", "x"], T=dtypes(INT32, FLOAT))], {},
    ),
    "an attr is given": (
        [X, unary("Relu")], "--op Relu op=LeakyRelu alpha=0.5", [X, unary("LeakyRelu", alpha=0.5)], {}
    ),
    "a dtype is given": (
        [X, unary("Relu")], "--op Relu op=Cast DstT=float32",
        [X, node("y", "Cast", ["x"], SrcT=FLOAT, DstT=FLOAT)], {},
    ),
    "a node of that op gets the attrs": (
        [X, unary("LeakyRelu", alpha=0.5), unary("LeakyRelu", "z", note="hi")], "--op LeakyRelu op=LeakyRelu alpha=0.5",
        [X, unary("LeakyRelu", alpha=0.5), unary("LeakyRelu", "z", note="hi", alpha=0.5)],
        {"swapped": {}, "dropped": {}, "changed": ["z"]},
    ),
    "those that are that op stay": (
        [X, unary("Abs", "a"), unary("Neg", "b", "a")], "--select ^[ab]$ op=Neg",
        [X, unary("Neg", "a"), unary("Neg", "b", "a")], {"swapped": {"Abs": 1}, "changed": ["a"]},
    ),
    "controls, colocations and devices stay": (
        [X, node("y", "Abs", ["x", "^x"], **PLACED)], "y op=Neg", [X, node("y", "Neg", ["x", "^x"], **PLACED)], {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SWAPPED)
def test_what_becomes_of_nodes(desk: Desk, what: str) -> None:
    """Node by node, and in the report."""
    before, command, after, facts = SWAPPED[what]
    desk.put("before.pb", graph_bytes(*before))
    report = desk.report("set-attr", "before.pb", *command.split(), *QUICK)
    assert graphs.parsed((desk.folder / "after.pb").read_bytes()) == graphs.proto(*after)
    assert {key: report["edit"][key] for key in facts} == facts


def test_the_notes_about_attrs_have_the_order_of_the_signature() -> None:
    result = set_attr(graph(*INTS, node("y", "Unknown", ["a", "b"])), "y", [("op", "ConcatV2")])
    assert [note.split()[1] for note in result.notes] == ["'N'", "'T'", "'Tidx'"]


MODEL = [
    placeholder("x"), unary("Relu", "a"), add("sum", "a", "x"), placeholder("n", INT32), unary("Neg", "m", "n", INT32),
    typed("Split", "split", "dim", "x", num_split=2), const("dim", [0], INT32), unary("Abs", "p", "split"),
    unary("Abs", "q", "split:1"), *graphs.loop()[1:], unary("Abs", "old", "x"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code", "facts"),
    [
        (("a", "op=nonsense"), 4, "no-such-op", {"op": "nonsense", "near": None}),
        (("sum", "op=Relu"), 4, "wrong-count", {"node": "sum", "op": "AddV2", "expected": 1, "found": 2}),
        (("m", "op=Elu"), 4, "dtype-not-allowed", {"node": "m", "attr": "T", "dtype": "int32"}),
        (("a", "op=LogicalNot"), 4, "dtype-mismatch", {"tensor": "x", "expected": "bool", "found": "float32"}),
        (("a", "op=IsNan"), 4, "dtype-mismatch", {"user": "sum", "expected": "float32", "found": "bool"}),
        (("a", "op=Cast"), 4, "attr-needed", {"node": "a", "new_op": "Cast", "key": "DstT"}),
        (("a", "op=LeakyRelu", "alpha=x"), 4, "bad-value", {"value": "x", "expected": "float"}),
        (("a", "op=LeakyRelu", "alpa=1"), 4, "no-such-attr", {"attr": "alpa", "near": "alpha"}),
        (("a", "op=LeakyRelu", "op=Elu"), 2, "given-twice", {"name": "op"}),
        (("a", "op=LeakyRelu", "--unset", "T"), 2, "conflicting-options", {"attr": ["T"]}),
        (("a", "op=Relu", "--require-change"), 4, "nothing-to-do", {}),
        (("a", "op=Enter"), 4, "control-flow", {"node": "a", "new_op": "Enter"}),
        (("a", "op=Const", "value=1"), 4, "not-text", {"attr": "value", "expected": "tensor"}),
        (("op=Relu6",), 2, "nothing-selected", {}),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], exit_code: int, code: str, facts: Any, desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(*MODEL))
    ran = desk.refused(exit_code, code, "set-attr", "model.pb", *arguments, *QUICK, **facts)
    assert ("DstT=VALUE" in ran.err) == (code == "attr-needed")


def test_an_output_that_is_read_must_stay() -> None:
    found = graph(placeholder("x"), typed("Unpack", "y", "x", num=2), unary("Abs", "z", "y:1"))
    facts = {"node": "y", "tensor": "y:1", "user": "z", "count": 1}
    refused(found, "no-such-tensor", lambda g: gds.set_attr(g, [g["y"]], [("op", "Neg")]), **facts)


def test_the_library_says_what_it_did() -> None:
    found = graph(placeholder("x"), unary("Relu"), trailer=graphs.VERSIONS)
    result = gds.set_attr(found, Selection(ops=("Relu",)), [("alpha", "0.5"), ("op", "LeakyRelu")])
    assert (result.intent.changed, result.claims) == (["y"], (Unchanged(),))
    facts = compare_written(found.pristine(), found.chunks()).facts
    assert {node: list(altered) for node, altered in facts.altered.items()} == {"y": ["op", "attr alpha"]}


def test_a_function_of_the_graph_is_an_op() -> None:
    found = graph(X, unary("Relu"), graphs.library(function("Twice", add("y", "x", "x"))))
    gds.set_attr(found, ["y"], [("op", "Twice")])
    assert graphs.ops(found)["y"] == "Twice"


# -- what TensorFlow makes of it -----------------------------------------------------------------------------


def test_in_a_loop_and_beside_calls_it_is_proven(tmp_path: Path) -> None:
    m = Builder(
        placeholder("x", shape=(2,)), *graphs.doubling_loop("w", "x"), graphs.library(function("F", neg("y", "x"))),
        node("call", "PartitionedCall", ["w/done"], Tin=["float32"], Tout=["float32"], f=graphs.func("F")),
        add("y", "call", "x"), typed("Square", "beside", "x"),
    )  # fmt: skip
    outcome = operated(tmp_path, m, lambda graph: gds.set_attr(graph, ["w/less_s", "y"], [("op", "Mul")]))
    compared = {output.after: output.comparison is not None for output in outcome.proof.outputs}
    assert compared == {"y": False, "beside": True}
    after = gds.load(str(tmp_path / "out.pb"))
    assert (after["w/less_s"].op, after["y"].op, after["w/twice"].op) == ("Mul", "Mul", "AddV2")
    assert run(after, "w/done", "y", x=[1.0, 2.0]) == [[8.0, 16.0], [-8.0, -32.0]]


@pytest.mark.tensorflow
def test_what_does_not_run_is_not_written(desk: Desk) -> None:
    """The signatures fit, and the values do not: only running shows it."""
    records = [placeholder("x", FLOAT, (2,)), const("w", [1, 2]), add("y", "x", "w")]
    desk.put("model.pb", graph_bytes(*records))
    ran = desk.refused(5, "does-not-load", "set-attr", "model.pb", "y", "op=MatMul", "-o", "out.pb")
    assert "y" in ran.err


def test_inside_a_function(desk: Desk) -> None:
    called = graphs.call("y", "F", ["x"], [FLOAT], [FLOAT])
    desk.put("before.pb", graph_bytes(X, called, graphs.library(function("F", relu("y", "x")))))
    desk.done("set-attr", "before.pb", "--in", "F", "--op", "Relu", "op=Neg", *QUICK)
    changed = graphs.only_function(gds.load("after.pb"))
    assert [body.op for body in changed.node_def] == ["Neg"] and dict(changed.ret) == {"out": "y:y:0"}
