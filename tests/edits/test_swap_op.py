"""swap-op: what a node becomes, what it keeps, what is refused, and what TensorFlow makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.desk import Desk, check_refused
from support.graphs import DOUBLE, FLOAT, INT32, Builder, add, const, dtypes, graph, graph_bytes, node, placeholder
from support.operating import operated
from support.running import run

import gdsurgeon as gds
from gdsurgeon.comparison.compare import compare_written
from gdsurgeon.edits.claims import Unchanged
from gdsurgeon.errors import EditError
from gdsurgeon.select import Selection

QUICK = ("--validate", "structure", "-o", "after.pb")
ONES = b"\x0a\x06\x1a\x04\x01\x01\x01\x01"
HALF = graphs.dtype(19)


def expect(desk: Desk, before: list[bytes], command: tuple[str, ...], after: list[bytes]) -> str:
    """BEFORE becomes AFTER, node by node; returns what is said."""
    desk.put("before.pb", graph_bytes(*before))
    ran = desk.run("swap-op", "before.pb", *command, *QUICK)
    assert ran.code == 0, ran.err
    assert graphs.parsed((desk.folder / "after.pb").read_bytes()) == graphs.proto(*after)
    return ran.err


def unary(op: str, name: str = "y", source: str = "x", kind: bytes = FLOAT, **attrs: Any) -> bytes:
    return node(name, op, [source], T=kind, **attrs)


def test_what_fits_is_kept(desk: Desk) -> None:
    x, z = placeholder("x"), unary("Neg", "z", "y")
    said = expect(desk, [x, unary("Relu", _note="hi"), z], ("--node", "y", "Relu6"), [x, unary("Relu6", _note="hi"), z])
    assert "Relu  ->  Relu6: 1 node" in said


def test_attrs_that_the_new_op_lacks_go_and_are_told(desk: Desk) -> None:
    x = placeholder("x")
    pool = {"T": FLOAT, "ksize": ONES, "strides": ONES, "padding": "SAME", "data_format": "NHWC"}
    more = {"explicit_paddings": b"\x0a\x00", "_output_shapes": b"\x0a\x02\x3a\x00"}
    before = [x, node("y", "MaxPool", ["x"], **pool, **more)]
    said = expect(desk, before, ("--op", "MaxPool", "AvgPool"), [x, node("y", "AvgPool", ["x"], **pool)])
    assert "attr 'explicit_paddings' is none of the new op's and goes: 'y'" in said
    assert "attr '_output_shapes' says what the old op gave and goes: 'y'" in said


def test_dtypes_and_counts_follow_from_the_inputs(desk: Desk) -> None:
    a, b = placeholder("a", INT32), placeholder("b", INT32)
    several = node("y", "IdentityN", ["a", "b"], T=dtypes(INT32, INT32))
    said = expect(desk, [a, b, several], ("--node", "y", "AddN"), [a, b, node("y", "AddN", ["a", "b"], N=2, T=INT32)])
    assert "attr 'N' follows from the inputs: 'y'" in said


def test_a_list_of_dtypes_follows_from_the_inputs(desk: Desk) -> None:
    a, b = placeholder("a", INT32), placeholder("b", FLOAT)
    group = node("y", "IdentityN", ["a", "b"], T=dtypes(INT32, FLOAT))
    before = node("y", "TupleOf", ["a", "b"])
    expect(desk, [a, b, before], ("--node", "y", "IdentityN"), [a, b, group])


def test_attrs_are_given(desk: Desk) -> None:
    x = placeholder("x")
    command = ("--op", "Relu", "LeakyRelu", "--set", "alpha=0.5")
    expect(desk, [x, unary("Relu")], command, [x, unary("LeakyRelu", alpha=0.5)])
    command = ("--op", "Relu", "Cast", "--set", "DstT=float32")
    expect(desk, [x, unary("Relu")], command, [x, node("y", "Cast", ["x"], SrcT=FLOAT, DstT=FLOAT)])


def test_nodes_that_change_together_are_checked_together(desk: Desk) -> None:
    x = placeholder("x")
    before = [x, unary("Abs", "a"), unary("Abs", "b", "a"), unary("Sign", "c", "b")]
    after = [x, unary("Neg", "a"), unary("Neg", "b", "a"), unary("Sign", "c", "b")]
    assert "Abs  ->  Neg: 2 nodes" in expect(desk, before, ("--op", "Abs", "Neg"), after)


def test_those_that_are_that_op_stay(desk: Desk) -> None:
    x = placeholder("x")
    before = [x, unary("Abs", "a"), unary("Neg", "b", "a")]
    said = expect(desk, before, ("--select", "^[ab]$", "Neg"), [x, unary("Neg", "a"), unary("Neg", "b", "a")])
    assert "1 of the 2 nodes stay as they were" in said


def test_controls_colocations_and_devices_stay(desk: Desk) -> None:
    x = placeholder("x")
    more = {"device": "/cpu:0", "_class": b"\x0a\x08\x12\x06loc:@x"}
    before = [x, node("y", "Abs", ["x", "^x"], T=FLOAT, **more)]
    expect(desk, before, ("--node", "y", "Neg"), [x, node("y", "Neg", ["x", "^x"], T=FLOAT, **more)])


MODEL = [
    placeholder("x"), unary("Relu", "a"), add("sum", "a", "x"), placeholder("n", INT32), unary("Neg", "m", "n", INT32),
    node("split", "Split", ["dim", "x"], T=FLOAT, num_split=2), const("dim", [0], INT32), unary("Abs", "p", "split"),
    unary("Abs", "q", "split:1"), *graphs.loop()[1:], unary("Abs", "old", "x"),
]  # fmt: skip
REFUSALS = {
    "no such op, but one like it": (("--node", "a", "Reluu"), ("no op 'Reluu'", "Did you mean 'Relu'?")),
    "no such op": (("--node", "a", "nonsense"), ("there is no op 'nonsense'",)),
    "no such node": (("--node", "aa", "Relu6"), ("'aa'",)),
    "too few inputs": (("--node", "a", "AddV2"), ("'a' (Relu) cannot become AddV2", "takes 2 inputs", "has 1")),
    "too many inputs": (("--node", "sum", "Relu"), ("takes 1 input, and the node has 2",)),
    "a dtype that is not allowed": (("--node", "m", "Elu"), ("its T cannot be int32", "float16, float32")),
    "an input of another dtype": (("--node", "a", "LogicalNot"), ("takes bool as input 0, and 'x' is float32",)),
    "a reader of another dtype": (("--node", "a", "IsNan"), ("gives bool, and 'sum' reads that as float32",)),
    "an output that is read": (("--node", "split", "AddV2"), ("takes",)),
    "an attr without a default": (("--node", "a", "Cast"), ("needs an attr 'DstT' (type)", "--set DstT=VALUE")),
    "an attr of another kind": (("--node", "a", "LeakyRelu", "--set", "alpha=x"), ("kind float: 'x' is not a float",)),
    "an attr that is not there": (("--node", "a", "LeakyRelu", "--set", "alpa=1"), ("'alpa'", "Did you mean 'alpha'?")),
    "an attr that is given twice": (("--node", "a", "LeakyRelu", "--set", "alpha=1", "--set", "alpha=1"), ("once",)),
    "an attr that contradicts": (("--node", "a", "Relu6", "--set", "T=float64"), ("takes float64 as input 0",)),
    "what is that already": (("--node", "a", "Relu", "--require-change"), ("nothing would change",)),
    "control flow": (("--node", "w/Switch", "Identity"), ("loops and conditions belong together",)),
    "to control flow": (("--node", "a", "Enter"), ("loops and conditions belong together",)),
    "a value that is no text": (("--node", "a", "Const", "--set", "value=1"), ("of kind tensor, which cannot be",)),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_refused(case: str, desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(*MODEL))
    command, words = REFUSALS[case]
    check_refused(desk, 4, words, "swap-op", "model.pb", *command, "-o", "out.pb", "--validate", "structure")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("Relu6",), "no nodes are selected"), (("--node", "a", "Relu6", "--set", "alpha"), "is not a pair KEY=VALUE")],
)
def test_a_call_that_makes_no_sense(arguments: tuple[str, ...], words: str, desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(*MODEL))
    check_refused(desk, 2, (words,), "swap-op", "model.pb", *arguments, "-o", "out.pb")


def test_an_output_that_is_read_must_stay() -> None:
    found = graph(placeholder("x"), node("y", "Unpack", ["x"], T=FLOAT, num=2), unary("Abs", "z", "y:1"))
    with pytest.raises(EditError, match="gives 1 output, and 'z' reads y:1") as caught:
        gds.swap_op(found, [found["y"]], "Neg")
    assert not found.is_changed
    assert (caught.value.code, caught.value.facts["node"]) == ("does-not-fit", "y")


def test_the_library_says_what_it_did() -> None:
    found = graph(placeholder("x"), unary("Relu"), trailer=graphs.VERSIONS)
    result = gds.swap_op(found, Selection(ops=("Relu",)), "LeakyRelu", [("alpha", "0.5")])
    assert (result.intent.changed, result.claims) == (["y"], (Unchanged(),))
    facts = compare_written(found.pristine(), found.chunks()).facts
    assert {node: list(altered) for node, altered in facts.altered.items()} == {"y": ["op", "attr alpha"]}


def test_an_unknown_dtype_is_taken_as_it_is() -> None:
    found = graph(node("x", "MyOp"), unary("Relu", kind=HALF), unary("Abs", "z", kind=DOUBLE))
    gds.swap_op(found, [found["y"], found["z"]], "Neg")
    assert graphs.ops(found) == {"x": "MyOp", "y": "Neg", "z": "Neg"}
    assert graphs.attrs(found, "y")["T"].type == 19


def test_a_function_of_the_graph_is_an_op(desk: Desk) -> None:
    library = graphs.library(graphs.function("Twice", add("y", "x", "x")))
    found = graph(placeholder("x"), unary("Relu"), trailer=library + graphs.VERSIONS)
    gds.swap_op(found, [found["y"]], "Twice")
    assert graphs.ops(found)["y"] == "Twice"


# -- what TensorFlow makes of it -----------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_values() -> None:
    found = graph(placeholder("x"), unary("Relu", "a"), add("y", "a", "x"), unary("Neg", "z"))
    gds.swap_op(found, [found["a"]], "Relu6")
    gds.swap_op(found, [found["y"]], "Add")
    assert run(found, "a", "y", "z", x=[-1.0, 7.0]) == [[0.0, 6.0], [-1.0, 13.0], [1.0, -7.0]]


@pytest.mark.tensorflow
def test_pooling() -> None:
    found = graph(
        placeholder("x"),
        node("y", "MaxPool", ["x"], T=FLOAT, ksize=b"\x0a\x06\x1a\x04\x01\x02\x02\x01", strides=ONES, padding="VALID"),
    )
    gds.swap_op(found, [found["y"]], "AvgPool")
    assert run(found, "y", x=[[[[1.0], [2.0]], [[3.0], [6.0]]]]) == [[[[[3.0]]]]]


@pytest.mark.tensorflow
def test_in_a_loop_and_beside_calls_it_is_proven(tmp_path: Path) -> None:
    m = Builder()
    m.placeholder("x", shape=(2,))
    graphs.doubling_loop(m, "w", "x")
    function = m.function("F", {"a": "float32"}, {"b": "float32"})
    graphs.body_node(function, "n", "Neg", ["a"], T="float32")
    function.ret["b"] = "n:y:0"
    m.node("call", "PartitionedCall", ["w/done"], Tin=["float32"], Tout=["float32"], f=graphs.func("F"))
    m.node("y", "AddV2", ["call", "x"], T="float32")
    m.node("beside", "Square", ["x"], T="float32")
    outcome = operated(tmp_path, m, lambda graph: gds.swap_op(graph, [graph["w/less_s"], graph["y"]], "Mul"))
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
    check_refused(desk, 5, ("y",), "swap-op", "model.pb", "--node", "y", "MatMul", "-o", "out.pb")


def test_inside_a_function(desk: Desk) -> None:
    library = graphs.library(graphs.function("F", node("y", "Relu", ["x"], T=FLOAT), ret="y:activations:0"))
    call = node("y", "PartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=graphs.func("F"))
    desk.put("before.pb", graph_bytes(placeholder("x"), call, trailer=library + graphs.VERSIONS))
    ran = desk.run("swap-op", "before.pb", "--in", "F", "--op", "Relu", "Neg", *QUICK)
    assert ran.code == 0, ran.err
    after = graphs.parsed((desk.folder / "after.pb").read_bytes())
    assert [body.op for body in after.library.function[0].node_def] == ["Neg"]
    assert dict(after.library.function[0].ret) == {"out": "y:y:0"}
