"""fuse-ops: the selection becomes a function, with its own body or another, and the graph returns the same values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from support import graphs
from support.desk import check_error
from support.expecting import account, refused
from support.fusing import GRADS, chain, check_calls, fused, tanh, tanh_grad2
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    VARIABLE,
    X,
    add,
    body_of,
    call,
    const,
    define,
    dtypes,
    g8,
    graph,
    identity,
    library,
    neg,
    node,
    only_function,
    placeholder,
    scalar,
    typed,
)
from support.running import outcome, run
from support.system import is_linear
from support.v1_control_flow import BOTH_WAYS, LOOP, cond, taken_both_ways, while_loop

import gdsurgeon as gds
from gdsurgeon.analysis.checks.check import check
from gdsurgeon.compare.intent import Rewired
from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.parts import insert
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.proof.executor import Refused

# -- plain -------------------------------------------------------------------------------------------------


def same(
    records: list[bytes], chosen: str | list[str], fetches: Sequence[str], *fed: dict[str, Any], **options: Any
) -> Any:
    """The graph and the result of an edit after which FETCHES are what they were, whatever is fed."""
    found = graph(*records)
    result = fused(found, chosen, **options)
    for given in fed:
        assert outcome(found, *fetches, **given) == outcome(graph(*records), *fetches, **given)
    return found, result


def test_the_selection_becomes_a_call() -> None:
    found, result = same(chain(), ["sum", "neg", "mul"], "y", {"x": [3.0, 4.0]})
    name = only_function(found).signature.name
    called = call("call", name, ["x", "one"], [FLOAT, FLOAT], [FLOAT])
    check_calls(found, X, const("one", [1, 2]), called, identity("y", "call"))
    assert run(found, "y", x=[3.0, 4.0]) == [[-16.0, -36.0]]
    assert result.intent.rewired == [Rewired("y", 0, "mul", "call")]
    assert (result.intent.moved, result.intent.functions.added) == ({"mul": "call"}, [name])
    assert result.claims == (SameOutputs(also=("mul",)),)


@pytest.mark.parametrize(("options", "expected"), [({}, True), ({"inline": True}, False), ({"xla": True}, False)])
def test_it_is_not_inlined_unless_that_is_asked_for(options: dict[str, Any], expected: bool) -> None:
    found = graph(*chain())
    fused(found, "neg|mul", **options)
    assert only_function(found).attr["_noinline"].b is expected


# -- several outputs ---------------------------------------------------------------------------------------


SEVERAL = [
    placeholder("x", FLOAT, (4,)), scalar("k", 2, INT32), typed("TopKV2", "top", "x", "k", sorted=True),
    typed("Unique", "unique", "x", out_idx=INT32), identity("values", "top"),
    identity("indices", "top:1", kind=INT32), identity("places", "unique:1", kind=INT32),
    add("both", "top:1", "k", kind=INT32),
]  # fmt: skip
LISTS = [
    X, const("i", [3, 4], INT32), node("pass", "IdentityN", ["x", "i", "x"], T=dtypes(FLOAT, INT32, FLOAT)),
    typed("Pack", "pack", "pass", "pass:2", "x", N=3), typed("Unpack", "unpack", "pack", num=3),
    typed("AddN", "sum", "unpack:2", "unpack", "pass:2", N=3), identity("y", "sum"), neg("z", "unpack:1"),
    identity("j", "pass:1", kind=INT32),
]  # fmt: skip
DEFAULTS = [
    placeholder("x", FLOAT, (2, 3)), typed("Shape", "shape", "x"), typed("Size", "size", "x"),
    typed("ArgMax", "best", "x", "axis"), scalar("axis", 1, INT32), identity("a", "shape", kind=INT32),
    identity("b", "size", kind=INT32), identity("c", "best", kind=INT64),
]  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("records", "chosen", "returned", "x"),
    [
        (SEVERAL, "top|unique", {"top:indices:0": 3, "top:values:0": 1, "unique:idx:0": 3}, [3.0, 1.0, 3.0, 2.0]),
        (LISTS, "^(pass|pack|unpack|sum)$", {"pass:output:1": 3, "sum:sum:0": 1, "unpack:output:1": 1}, [1.0, 2.0]),
        (DEFAULTS, "shape|size|best|axis", {"shape:output:0": 3, "size:output:0": 3, "best:output:0": 9},
         [[1.0, 5.0, 2.0], [7.0, 1.0, 0.0]]),
    ],
    ids=["several arguments", "arguments that stand for lists", "attrs that are left at their defaults"],
)  # fmt: skip
def test_outputs(records: list[bytes], chosen: str, returned: dict[str, int], x: list[Any]) -> None:
    fetches = [name for name, op in graphs.ops(graph(*records)).items() if op in ("Identity", "Neg", "AddV2")]
    made = only_function(same(records, chosen, fetches, {"x": x})[0])
    assert {made.ret[a.name]: a.type for a in made.signature.output_arg} == returned


# -- names -------------------------------------------------------------------------------------------------


TWICE = library(define("twice", {"a": FLOAT}, {"o": (FLOAT, "s:z:0")}, add("s", "a", "a")))
PARTED = [X, scalar("axis", 0, INT32), typed("Split", "s", "axis", "x", num_split=2)]
NEGS = [X, neg("a", "x"), neg("y", "a")]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("records", "chosen", "options", "inputs", "fetches"),
    [
        ([*NEGS, typed("Abs", "z", "a")], ["a", "y", "z"], {}, {"call": ["x"], "y": ["call"], "z": ["call:1"]}, "yz"),
        (PARTED, ["s"], {}, {"axis": [], "call": ["axis", "x"], "s": ["call", "call:1"]}, ["s", "s:1"]),
        ([X, neg("y", "x"), node("init", "NoOp", ["^y"])], ["y"], {},
         {"call": ["x"], "y": ["call"], "init": ["^call"]}, "y"),
        (chain(), ["sum", "neg", "mul"], {"keep": ["sum", "mul"]},
         {"one": [], "call": ["x", "one"], "sum": ["call"], "mul": ["call:1"], "y": ["call:1"]}, ["sum", "mul", "y"]),
        (NEGS, ["a", "y"], {"name": "y"}, {"y": ["x"]}, "y"),
        ([X, node("t", "twice", ["x"]), neg("y", "t"), identity("z", "y"), TWICE], ["t", "y"], {},
         {"call": ["x"], "z": ["call"]}, "z"),
    ],
    ids=["outputs", "all of several outputs", "what only waits reads nothing", "kept", "the call is the first output",
         "a call by the name of a function"],
)  # fmt: skip
def test_names_that_stay(
    records: list[bytes], chosen: list[str], options: dict[str, Any], inputs: dict[str, list[str]],
    fetches: Sequence[str],
) -> None:  # fmt: skip
    found, result = same(records, chosen, fetches, {"x": [1.0, -2.0]}, **options)
    assert graphs.inputs(found) == {"x": [], **inputs}
    names = set(graphs.inputs(graph(*records)))
    assert {*result.intent.added} == {"call" if "call" in inputs else "y", *(inputs.keys() & {*chosen})}
    assert {*result.intent.removed} == names - inputs.keys() - {"x"} and not result.intent.moved.keys() & inputs.keys()


@pytest.mark.parametrize("name", ["a/b.c-d", "1", "Neg"])
def test_names_that_are_no_names_of_functions(name: str) -> None:
    found = graph(*chain())
    fused(found, "neg|mul", name)
    made = only_function(found).signature.name
    assert made.replace("_", "a").isalnum() and made[0].isalpha() and found.op_def(made) is not None


def test_calls_whose_names_differ_in_punctuation_only_have_their_own_functions() -> None:
    """Two bodies that read alike, but for what the function is that both call `f`."""

    def body(op: str) -> Graph:
        inner = define("f", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, typed(op, "n", "a"))
        return graph(placeholder("i"), call("c", "f", ["i"], [FLOAT], [FLOAT]), library(inner), name="body.pb")

    found = graph(X, neg("p", "x"), neg("q", "x"))
    fused(found, ["p"], "block/x", body=body("Square"))
    fused(found, ["q"], "block_x", body=body("Abs"))
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0, 4.0], [1.0, 2.0]]


# -- refusals ----------------------------------------------------------------------------------------------


TABLE = node("t", "HashTableV2", key_dtype=INT32, value_dtype=FLOAT, shared_name="t")
SWITCH = [X, placeholder("p", BOOL, ()), typed("Switch", "switch", "x", "p")]
WAITING = [X, neg("a", "x"), node("w", "NoOp", ["^a"]), neg("b", "x", "^w"), identity("y", "b")]
ENDS = [X, neg("a", "x"), neg("y", "a"), neg("z", "a")]
DEFAULT = node("d", "PlaceholderWithDefault", ["k"], dtype=FLOAT, shape=(2,))


@pytest.mark.parametrize(
    ("records", "chosen", "options", "code", "facts"),
    [
        (g8(), ["foo/c", "foo/bar/f", "foo/bar/h"], {}, "path-outside", {"nodes": ["foo/c", "foo/bar/g", "foo/bar/h"]}),
        (WAITING, ["a", "b"], {}, "path-outside", {"nodes": ["a", "w", "b"]}),
        (chain(), "neg", {"keep": ["y"]}, "not-selected", {"node": "y"}),
        (chain(), "neg", {"keep": ["nge"]}, "no-such-node", {"node": "nge"}),
        (chain(), "neg|mul", {"name": "_call"}, "bad-name", {"name": "_call"}),
        (chain(), "neg|mul", {"name": ""}, "bad-name", {"name": ""}),
        (ENDS, "^[ayz]$", {"name": "z"}, "name-taken", {"name": "z"}),
        (chain(), "neg|mul", {"name": "x"}, "name-taken", {"name": "x", "op": "Placeholder"}),
        (PARTED, ["s"], {"name": "s"}, "name-taken", {"name": "s"}),
        ([X, const("w", [1.0] * 20000), add("s", "x", "w")], ["w", "s"], {"name": "w"}, "name-taken",
         {"name": "w", "op": "Const"}),
        (chain(), "nothing", {}, "nothing-matched", {}),
        (chain(), [], {}, "nothing-selected", {}),
        ([X, neg("y", "x")], ["x", "y"], {}, "is-input", {"node": "x", "op": "Placeholder"}),
        ([X, DEFAULT, const("k", [1, 2]), neg("y", "d")], ["d", "y"], {}, "is-input", {"node": "d"}),
        ([VARIABLE, identity("y", "v")], ["v"], {}, "is-reference", {"node": "v", "op": "VariableV2"}),
        ([X, VARIABLE, typed("Assign", "set", "v", "x")], ["set"], {}, "is-reference", {"node": "set"}),
        ([TABLE], ["t"], {}, "shared-state", {"node": "t"}),
        ([node("h", "VarHandleOp", dtype=FLOAT, shape=(2,))], ["h"], {}, "shared-state", {"node": "h"}),
        ([node("q", "FIFOQueueV2", component_types=dtypes(FLOAT))], ["q"], {}, "shared-state", {"node": "q"}),
        ([X, node("u", "MyOp", ["x"])], ["u"], {}, "no-such-op", {"node": "u", "op": "MyOp"}),
        (SWITCH, ["switch"], {}, "control-flow", {"node": "switch"}),
        ([*SWITCH, typed("Merge", "merge", "switch", "switch:1", N=2)], ["merge"], {}, "control-flow",
         {"node": "merge"}),
        *((graphs.loop(), [f"w/{op}"], {}, "control-flow", {"node": f"w/{op}", "op": op}) for op in
          ("Enter", "Merge", "LoopCond", "Switch", "NextIteration", "Exit")),
        ([X, node("y", "Neg", ["x"])], ["y"], {}, "unknown-dtype", {"tensor": "y"}),
        ([node("u", "MyOp"), node("y", "Pack", ["u"], N=1)], ["y"], {}, "unknown-dtype", {"tensor": "u"}),
    ],
)  # fmt: skip
def test_what_cannot_be_fused(
    records: list[bytes], chosen: str | list[str], options: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    refused(graph(*records), code, partial(fused, nodes=chosen, **options), **facts)


# -- size --------------------------------------------------------------------------------------------------


def test_many_nodes_and_many_outputs_take_linear_time() -> None:
    def fusion(count: int) -> Callable[[], object]:
        found = graph(X, *(neg(f"n{i}", "x") for i in range(count)))
        return lambda: fused(found, "^n")

    assert is_linear(fusion, 100, 800)


@pytest.mark.tensorflow
def test_another_body_that_needs_fewer_inputs() -> None:
    body = tanh_grad2()
    before = graphs.written(body)
    found, result = same(tanh(), GRADS, ["a1_grad"], {"x": [0.3, -0.7], "dy": [1.0, 0.5]}, name="tanh_grad2", body=body)
    assert graphs.written(body) == before and not body.is_changed
    made = only_function(found)
    name = made.signature.name
    assert name.startswith("tanh_grad2_")
    called = call("tanh_grad2", name, ["dy", "a2"], [FLOAT] * 2, [FLOAT])
    check_calls(found, *tanh()[:5], called, typed("TanhGrad", "a1_grad", "a1", "tanh_grad2"))
    assert [note.as_json() for note in result.notes] == [{"code": "not-needed", "tensor": "a3"}]
    assert body_of(made) == {"again": ["a2"], "step": ["again:y:0", "dy"], "a2_grad": ["a2", "step:z:0"]}


SUB, SUB_Y = typed("Sub", "d", "x", "y"), typed("Sub", "d", "y", "x")


@pytest.mark.parametrize(
    ("record", "body", "pairs", "expected"),
    [
        (SUB, [placeholder("x"), placeholder("y"), SUB], [("x", "y"), ("y", "x")], [-3.0, -2.0]),
        (SUB_Y, [placeholder("late"), placeholder("early"), typed("Sub", "e", "early", "late")], [],
         [-3.0, -2.0]),
        (SUB_Y, [placeholder("x"), placeholder("y"), neg("n", "x"), add("d", "n", "y")], [], [-3.0, -2.0]),
    ],
    ids=["as mapped, before what has the same name", "by the order of first use", "by name, whatever the order"],
)  # fmt: skip
def test_a_body_is_paired(
    record: bytes, body: list[bytes], pairs: list[tuple[str, str]], expected: list[float]
) -> None:
    """Placeholders in the order in which the body's nodes read them, inputs in the selection's."""
    found = graph(X, placeholder("y", FLOAT, (2,)), record, identity("o", "d"))
    fused(found, ["d"], body=graph(*body), mapped=pairs)
    assert graphs.inputs(found)["call"] == (["x", "y"] if record is SUB else ["y", "x"])
    assert run(found, "o", x=[5.0, 5.0], y=[2.0, 3.0]) == [expected]


def small(*records: bytes, result: str = "") -> Graph:
    """A body of one input, `i`, to which RESULT is added."""
    return graph(placeholder("i"), *records, *([add("o", "i", result)] if result else []), name="body.pb")


TWO = [placeholder("a2"), placeholder("dy")]
CAST = [add("s", "a2", "dy"), node("a2_grad", "Cast", ["s"], SrcT=FLOAT, DstT=DOUBLE)]
RESULTS = graph(*TWO[::-1], neg("r1", "dy"), neg("r2", "a2"))
LONGER = graph(TWO[0], placeholder("dy", FLOAT, (3,)), add("a2_grad", "a2", "dy"))
ONE = [X, neg("n", "x"), identity("y", "n")]
OPTIONAL = [const("k", [1, 2]), node("d", "PlaceholderWithDefault", ["k"], dtype=FLOAT, shape=(2,))]
HANDLE = [node("h", "VarHandleOp", dtype=FLOAT, shape=(2,)), node("r", "ReadVariableOp", ["h"], dtype=FLOAT)]
QUEUE = [node("q", "FIFOQueueV2", component_types=dtypes(FLOAT)), node("s", "QueueSizeV2", ["q"]),
         node("f", "Cast", ["s"], SrcT=INT32, DstT=FLOAT)]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "body", "pairs", "code", "facts"),
    [
        (tanh(), tanh_grad2("p", "q"), [], "ambiguous-pairs", {"inputs": ["a3", "dy", "a2"], "found": ["p", "q"]}),
        ([*tanh(), identity("g3", "a3_grad")], tanh_grad2(), [], "no-result", {"tensors": ["a3_grad"]}),
        (tanh(), RESULTS, [], "ambiguous-pairs", {"outputs": ["a2_grad"], "found": ["r1", "r2"]}),
        (tanh(), tanh_grad2(), [("a1", "a2")], "not-at-boundary",
         {"tensor": "a1", "boundary": ["a3", "dy", "a2", "a2_grad"]}),
        (tanh(), tanh_grad2(), [("a3", "again")], "not-at-boundary", {"tensor": "a3"}),
        (tanh(), tanh_grad2(), [("a2", "a2"), ("a3", "a2")], "given-twice", {"tensor": "a3", "name": "a2"}),
        (tanh(), tanh_grad2(), [("a2", "a2"), ("a2", "dy")], "given-twice", {"tensor": "a2", "name": "dy"}),
        (tanh(), tanh_grad2(), [("a2_grad", "a2_grad"), ("a2_grad", "step")], "given-twice", {"name": "step"}),
        (tanh(), tanh_grad2(), [("a2", "nope")], "no-such-node", {"node": "nope"}),
        (tanh(), tanh_grad2(), [("a2:1", "a2")], "no-such-tensor", {"tensor": "a2:1", "op": "Tanh"}),
        (tanh(), tanh_grad2(kind=DOUBLE), [], "dtype-mismatch",
         {"tensor": "dy", "expected": "float32 [2]", "name": "dy", "found": "float64"}),
        (tanh(), LONGER, [], "shape-mismatch", {"tensor": "dy", "expected": "float32 [2]", "found": "float32 [3]"}),
        (tanh(), graph(*TWO, *CAST), [], "dtype-mismatch", {"tensor": "a2_grad", "found": "float64"}),
        (ONE, small(node("u", "MyOp"), result="u"), [], "unknown-op", {"node": "u", "op": "MyOp"}),
        (ONE, small(placeholder("more"), result="more"), [], "ambiguous-pairs",
         {"inputs": ["x"], "found": ["i", "more"]}),
        (ONE, small(*OPTIONAL, result="d"), [], "no-such-input", {"node": "d"}),
        (ONE, small(VARIABLE, identity("r", "v"), result="r"), [], "is-reference", {"node": "v"}),
        (ONE, small(*HANDLE, result="r"), [], "shared-state", {"node": "h"}),
        (ONE, small(*QUEUE, result="f"), [], "shared-state", {"node": "q"}),
    ],
)  # fmt: skip
def test_bodies_that_do_not_fit(
    records: list[bytes], body: Graph, pairs: list[tuple[str, str]], code: str, facts: dict[str, Any]
) -> None:
    """What cannot be fused cannot come in with a body either."""
    edit = partial(fused, nodes=f"{GRADS}|^n$", body=body, mapped=pairs)
    error = refused(graph(*records), code, edit, body, **facts)
    assert not code.endswith("-mismatch") or f" of {body.source_name} (" in str(error)


RELU = typed("Relu", "r", "i")


@pytest.mark.parametrize(
    ("body", "pairs", "p", "q"),
    [
        ([typed("Square", "b", "i"), typed("Relu", "a", "i")], [], [1.0, 0.0], [1.0, 4.0]),
        ([typed("Square", "r", "i"), typed("Relu", "s", "i")], [], [1.0, 4.0], [1.0, 0.0]),
        ([scalar("axis", 0, INT32), typed("Split", "s", "axis", "i", num_split=2)], [], [1.0], [-2.0]),
        ([RELU], [("a", "r"), ("b", "r")], [1.0, 0.0], [1.0, 0.0]),
        ([RELU], [("a", "i"), ("b", "r")], [1.0, -2.0], [1.0, 0.0]),
    ],
    ids=["by name", "by order", "two outputs of one node", "one result for both", "a result that is an input"],
)
def test_a_body_with_several_results(
    body: list[bytes], pairs: list[tuple[str, str]], p: list[float], q: list[float]
) -> None:
    found = graph(X, neg("a", "x"), typed("Abs", "b", "x"), identity("p", "a"), identity("q", "b"))
    fused(found, ["a", "b"], body=small(*body), mapped=pairs)
    assert run(found, "p", "q", x=[1.0, -2.0]) == [p, q]


def test_a_body_with_weights_of_its_own() -> None:
    body = small(*COLUMN, result="column")
    found = graph(*ONE)
    result = fused(found, ["n"], body=body)
    assert graphs.inputs(found) == {"x": [], "call/weights": [], "call": ["x", "call/weights"], "y": ["call"]}
    assert "call/weights" in result.intent.added
    assert run(found, "y", x=[1.0, 2.0]) == [[10_001.0, 10_002.0]]


COLUMN = [const("weights", [1.0] * 20_000, shape=(2, 10_000)), const("axis", [1], INT32),
          typed("Sum", "column", "weights", "axis", Tidx=INT32)]  # fmt: skip


def test_a_body_in_a_loop_that_does_not_need_what_changes_in_it() -> None:
    """The call belongs to the iteration, whatever it reads: without that the loop does not end."""
    found = graph(*LOOP)
    fused(found, ["w/double", "w/plus"], body=small(neg("o", "i")), mapped=[("w/three", "i")])
    assert run(found, "out", n=2) == [-3.0]


@pytest.mark.parametrize("needs", ["x", ""])
def test_a_body_in_a_branch_that_does_not_need_what_is_decided(needs: str) -> None:
    """The call belongs to the branch, whatever it reads: otherwise both sides of the conditional give a value."""
    records = cond(typed("Mul", "c/both", "c/x_t:1", "x"), identity("only", "c/both"))
    found = graph(*records)
    body = graph(placeholder("i"), neg("o", "i")) if needs else graph(const("k", [7, 7]), neg("o", "k"))
    fused(found, ["c/both"], body=body, mapped=[("x", "i")] if needs else [])
    assert taken_both_ways(found, "only") == [[[-1.0, -2.0] if needs else [-7.0, -7.0]], "a dead value"]


IDLE = [add("w/plus", "w/v", "w/three"), typed("Sub", "w/same", "w/plus", "w/three")]
ONE_RESULT = [placeholder("n", INT32, ()), scalar("nothing", 0), node("f", "Cast", ["n"], SrcT=INT32, DstT=FLOAT),
              typed("Mul", "none", "f", "nothing"), scalar("one", 1), add("r", "none", "one")]  # fmt: skip


EXITS = "^(w/|zero|start|three)"


@pytest.mark.tensorflow
def test_an_exit_without_consumers_needs_no_result() -> None:
    """The loop counts up to n, and v stays 1."""
    found = graph(*while_loop(*IDLE, result="w/same", exits=["w/Switch_v"]))
    result = fused(found, EXITS, body=graph(*ONE_RESULT))
    account(found, result)
    assert [note.as_json()["tensor"] for note in result.notes] == ["w/Exit", "w/Exit_0"]
    assert graphs.inputs(found) == {"n": [], "call": ["n"], "out": ["call"]}
    proof = gds.prove(found.pristine(), found, result)
    assert [output.after for output in proof.outputs] == ["out", "call"]


def test_an_exit_without_consumers_may_have_a_result() -> None:
    """Nodes that are outputs, or that are kept, or that are the whole graph."""
    body, idle = graph(*ONE_RESULT), while_loop(*IDLE, result="w/same")
    found = graph(*idle)
    account(found, fused(found, EXITS, body=graph(*ONE_RESULT, identity("w/Exit", "n", kind=INT32))))
    assert graphs.inputs(found)["w/Exit"] == ["call"]
    refused(graph(*idle), "ambiguous-pairs", partial(fused, nodes=EXITS, body=body, keep=["w/Exit"]), body)


# -- loops -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "chosen",
    [
        ["w/double", "w/plus"],
        ["w/two", "w/double", "w/plus"],
        ["w/one", "w/Add"],
        ["w/one", "w/two"],
        ["w/one", "w/Add", "w/two", "w/double", "w/plus"],
        ["w/i", "w/one", "w/Add"],
        ["w/Less"],
        ["w/i", "w/v", "w/one", "w/Add", "w/two", "w/double", "w/plus"],
    ],
    ids=lambda chosen: " ".join(name[2:] for name in chosen),
)
def test_a_part_of_a_loop_body(chosen: list[str]) -> None:
    found = graph(*LOOP)
    fused(found, chosen)
    assert [run(found, "out", "w/Exit", n=n) for n in (0, 1, 3)] == [[1.0, 0], [5.0, 1], [29.0, 3]]


def other_loop() -> list[bytes]:
    """A second loop like LOOP, with its own names and its own frame."""
    records = [r.replace(b"w/", b"u/").replace(b"\x12\x01w", b"\x12\x01u") for r in LOOP]
    return [r for r in records if r not in LOOP and b"out" not in r]


# -- conditionals ------------------------------------------------------------------------------------------


OUTSIDE = [r for r in cond() if b"c/two" not in r]
OUTSIDE += [scalar("two", 2), neg("minus", "two"), typed("Mul", "c/mul", "c/x_t:1", "minus")]
"""A value that only one branch needs can be computed in this branch."""
NESTED = cond(
    placeholder("q", BOOL, ()), typed("Switch", "d/Switch", "c/mul", "q"), neg("d/neg", "d/Switch:1"),
    typed("Abs", "d/abs", "d/Switch"), typed("Merge", "d/Merge", "d/abs", "d/neg", N=2), identity("z", "d/Merge"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("records", "chosen", "fetch", "values"),
    [
        *((cond(), chosen, "y", BOTH_WAYS) for chosen in (
            ["c/mul"], ["c/neg", "c/sub"], ["c/neg"], ["c/two", "c/mul"], ["c/neg", "c/ten", "c/sub"],
            ["c/ten", "c/sub"])),
        (OUTSIDE, ["minus", "two", "c/mul"], "y", [[[-2.0, -4.0]], BOTH_WAYS[1]]),
        (cond(identity("only", "c/two")), ["c/two"], "only", [[2.0], "a dead value"]),
    ],
    ids=lambda chosen: " ".join(chosen) if isinstance(chosen, list) and isinstance(chosen[0], str) else "",
)  # fmt: skip
def test_a_part_of_a_branch(records: list[bytes], chosen: list[str], fetch: str, values: list[Any]) -> None:
    found = graph(*records)
    fused(found, chosen)
    assert taken_both_ways(found, fetch) == values


@pytest.mark.tensorflow
def test_branches_of_two_conditionals_that_are_not_in_one_another() -> None:
    """Consumers of both branches run if both are taken; consumers of one do not depend on the other."""
    for fetch in ("y", "z"):
        same(TWO_CONDITIONALS, ["b", "c"], fetch,
             *({"p": p, "q": q, "x": [1.0, 2.0]} for p in (True, False) for q in (True, False)))  # fmt: skip


TWO_CONDITIONALS = [
    placeholder("p", BOOL, ()), placeholder("q", BOOL, ()), X, typed("Switch", "where_p", "x", "p"),
    typed("Switch", "where_q", "x", "q"), neg("a", "where_p:1"), add("b", "a", "where_q:1"), neg("c", "b"),
    identity("y", "a"), identity("z", "c"),
]  # fmt: skip
ON_ONE_NODE = [
    placeholder("both", BOOL, (2,)), X, typed("Unpack", "u", "both", kind=BOOL, num=2, axis=0),
    identity("second", "u:1", kind=BOOL), typed("Switch", "where_p", "x", "u"),
    typed("Switch", "where_q", "x", "u:1"), typed("Switch", "where_second", "x", "second"),
    neg("p", "where_p:1"), neg("q", "where_q:1"), neg("r", "where_second:1"),
    *(identity(f"y_{name}", name) for name in "pqr"),
]  # fmt: skip
BESIDE = cond(neg("aside", "x"))
BESIDE_AND_READ = cond(neg("aside", "x"), add("c/more", "c/mul", "aside"), identity("m", "c/more"))


@pytest.mark.parametrize(
    ("records", "chosen", "options", "code", "facts"),
    [
        ([*LOOP, neg("aside", "three")], ["w/plus", "aside"], {}, "crosses-loop", {"loop": "w"}),
        (LOOP, ["w/plus", "out"], {}, "crosses-loop", {"loop": "w"}),
        ([*LOOP, *other_loop()], ["w/double", "u/double"], {}, "crosses-loop", {"loop": "u"}),
        (LOOP, ["w/Less", "w/Add"], {}, "path-outside",
         {"nodes": ["w/Less", "w/LoopCond", "w/Switch", "w/i", "w/Add"]}),
        (cond(), ["c/mul", "c/neg"], {}, "crosses-branch", {"nodes": ["c/neg", "c/mul"]}),
        (cond(), ["c/two", "c/ten"], {}, "crosses-branch", {"nodes": ["c/ten", "c/two"]}),
        *(([*OUTSIDE, reader], ["minus", "c/mul"], {}, "crosses-branch", {"nodes": ["minus", "c/mul"]})
          for reader in (neg("outside", "minus"), node("waiting", "NoOp", ["^minus"]))),
        (BESIDE, ["c/mul", "aside"], {}, "crosses-branch", {"nodes": ["aside", "c/mul"]}),
        (BESIDE_AND_READ, ["c/mul", "aside", "c/more"], {"keep": ["aside"]}, "crosses-branch",
         {"nodes": ["aside", "c/mul"]}),
        (NESTED, ["d/neg", "c/neg"], {}, "crosses-branch", {"nodes": ["c/neg", "d/neg"]}),
        (TWO_CONDITIONALS, ["a", "b"], {}, "crosses-branch", {"nodes": ["a", "b"]}),
        (ON_ONE_NODE, ["p", "q"], {}, "crosses-branch", {"nodes": ["q", "p"]}),
        (ON_ONE_NODE, ["p", "r"], {}, "crosses-branch", {"nodes": ["r", "p"]}),
        (ON_ONE_NODE, ["p", "r", "q"], {"body": graph(*ONE_RESULT)}, "crosses-branch", {"nodes": ["p", "q", "r"]}),
        (LOOP, ["w/plus"], {"keep": ["out", "start", "three", "n", "zero"]}, "not-selected", {"node": "out"}),
    ],
)  # fmt: skip
def test_what_does_not_go_together(
    records: list[bytes], chosen: list[str], options: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    """Nodes inside and outside of a loop, of two loops, and of two branches; an output exists whatever is decided."""
    assert check(graph(*records)).faults == []
    refused(graph(*records), code, partial(fused, nodes=chosen, **options), **facts)


@pytest.mark.parametrize(("records", "chosen"), [(ON_ONE_NODE, ["q", "r"]), (WAITING, ["a", "w", "b"])])
def test_what_goes_together(records: list[bytes], chosen: list[str]) -> None:
    """Branches on one output of a node; nodes with all that lies on the paths between them."""
    fused(graph(*records), chosen)


def test_a_switch_that_leads_nowhere_is_no_internal_fault() -> None:
    """A broken graph is repaired by edits."""
    for records in ([typed("Switch", "s", "x", "gone")], [typed("Switch", "s", "x")],
                    [identity("i", "gone", kind=BOOL), typed("Switch", "s", "x", "i")]):  # fmt: skip
        found = graph(X, *records, neg("a", "s:1"), neg("b", "x"), identity("y", "b"))
        fused(found, ["b"])
        assert graphs.inputs(found)["y"] == ["call"]


def test_what_an_earlier_edit_has_added_in_a_branch_holds_the_call_there() -> None:
    found = graph(placeholder("p", BOOL, ()), X, typed("Switch", "s", "x", "p"), neg("a", "s:1"),
                  neg("b", "a"), identity("y", "b"))  # fmt: skip
    fused(found, ["a"], "first")
    fused(found, ["b"], "second")
    assert graphs.inputs(found)["second"] == ["first"] and len(graphs.names(found)) == 6


# -- calls in calls ----------------------------------------------------------------------------------------


def test_a_call_can_be_fused_in_turn() -> None:
    found = graph(*chain())
    fused(found, ["neg", "mul"], "inner")
    fused(found, ["sum", "inner"], "outer")
    assert graphs.inputs(found) == {"x": [], "one": [], "outer": ["x", "one"], "y": ["outer"]}
    assert len(list(found.functions)) == 2
    assert run(found, "y", x=[3.0, 4.0]) == [[-16.0, -36.0]]
    again = from_bytes(graphs.written(found))
    fused(again, ["outer"], "outermost")
    assert run(again, "y", x=[3.0, 4.0]) == [[-16.0, -36.0]]


# -- state and effects -------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_stateful_nodes_make_a_stateful_call() -> None:
    drawn = typed("RandomUniform", "r", "shape", kind=INT32, dtype=FLOAT, seed=7, seed2=3)
    records = [placeholder("shape", INT32, (1,)), drawn, neg("n", "r"), identity("y", "n")]
    found, _ = same(records, ["r", "n"], "y", {"shape": [3]})
    made = only_function(found)
    assert made.signature.is_stateful
    assert dict(made.control_ret) == {"r": "r"} and list(made.signature.control_output) == ["r"]
    assert graphs.ops(found)["call"] == "StatefulPartitionedCall"


CHECKED = [X, placeholder("ok", BOOL, ()), node("check", "Assert", ["ok", "x"], T=dtypes(FLOAT), summarize=3)]
GOOD, BAD = ({"x": [1.0, 2.0], "ok": ok} for ok in (True, False))


def test_control_edges_in_and_out() -> None:
    records = [*CHECKED, neg("a", "x"), neg("b", "a", "^check"), neg("c", "b", "^a", "^check"),
               identity("after", "x", "^a", "^c"), identity("y", "c")]  # fmt: skip
    found, result = same(records, ["a", "b", "c"], ["y", "after"], GOOD)
    inputs = graphs.inputs(found)
    assert (inputs["call"], inputs["after"]) == (["x", "^check"], ["x", "^call"])
    made = only_function(found)
    assert body_of(made) == {"a": ["x"], "b": ["a:y:0"], "c": ["b:y:0", "^a"]}
    assert set(made.control_ret.values()) == {"a", "c"}
    assert result.intent.changed == ["after"]
    for fetch in ("y", "after"):
        assert "assertion failed" in str(outcome(found, fetch, **BAD))


def test_what_waited_for_an_effect_inside_waits_for_it_still() -> None:
    records = [*CHECKED, node("group", "NoOp", ["^check"]), identity("y", "x", "^group")]
    found, _ = same(records, ["check", "group"], "y", GOOD)
    assert graphs.inputs(found)["y"] == ["x", "^call"]
    assert "assertion failed" in str(outcome(found, "y", **BAD))


def test_a_group_that_nobody_reads_can_still_be_run_under_its_name() -> None:
    """A NoOp at the end, such as an init or a train op, is what is run by name."""
    found, _ = same([*CHECKED, node("init", "NoOp", ["^check"])], ["check", "init"], "x", GOOD, keep=["init"])
    run(found, targets=["init"], **GOOD)
    with pytest.raises(Refused, match="assertion failed"):
        run(found, targets=["init"], **BAD)


@pytest.mark.parametrize(
    "chosen",
    [["array", "write"], ["array", "write", "stored"], ["write", "stored"], ["set", "get", "minus"], ["get"]],
    ids=" ".join,
)
def test_state_that_is_handed_in_and_out(chosen: list[str]) -> None:
    """A TensorArray lives in a step, and a function's steps are its own."""
    records = [
        X, *graphs.through_array("x"), identity("y", "stored"),
        node("h", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name="h"),
        node("set", "AssignVariableOp", ["h", "x"], dtype=FLOAT),
        node("get", "ReadVariableOp", ["h", "^set"], dtype=FLOAT), neg("minus", "get"), identity("z", "minus"),
    ]  # fmt: skip
    found = graph(*records)
    if "array" in chosen:
        refused(found, "step-state", partial(fused, nodes=chosen), node="array")
        return
    fused(found, chosen)
    assert outcome(found, "y", "z", x=[1.0, 2.0]) == [[1.0, 2.0], [-1.0, -2.0]]


# -- large constants ---------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_large_constants_stay_outside() -> None:
    records = [X, const("small", [3, 4]), add("sum", "x", "small"), typed("Mul", "product", "sum", "column"), *COLUMN,
               identity("y", "product")]  # fmt: skip
    found, result = same(records, "weights|small|sum|product|column|axis", "y", {"x": [1.0, 2.0]})
    assert graphs.inputs(found) == {"x": [], "weights": [], "call": ["x", "weights"], "y": ["call"]}
    assert [note.as_json() for note in result.notes] == [{"code": "stays-outside", "count": 1}]
    refused(graph(*records), "nothing-left", partial(fused, nodes=["weights"]))


# -- colocation --------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_colocations_are_mended() -> None:
    records = [X, neg("a", "x", _class=["loc:@z", "other"]), neg("b", "a", _class=["loc:@a"]),
               neg("c", "b", _class=["loc:@a", "loc:@x", "loc:@b"]), neg("z", "c")]  # fmt: skip
    found, result = same(records, ["a", "b"], "z", {"x": [1.0, 2.0]})
    held = {n.name: list(n.attr["_class"].list.s) for n in only_function(found).node_def}
    assert held == {"a": [b"other"], "b": [b"loc:@a"]}
    assert graphs.colocations(found) == {"c": [b"loc:@x"]}
    check_error(result.notes[0], "colocation-lost", {"node": "c", "name": "a"})
    assert "c" in result.intent.changed


def test_a_colocation_with_a_renamed_node_is_kept() -> None:
    found = graph(X, neg("a", "x"), neg("b", "a", _class=["loc:@a"]), neg("c", "b"))
    found.rename({found["a"]: "first"})
    fused(found, ["first", "b"])
    held = {n.name: list(n.attr["_class"].list.s) for n in only_function(found).node_def}
    assert held == {"first": [], "b": [b"loc:@first"]}


# -- the order of the nodes --------------------------------------------------------------------------------


def test_nodes_may_be_listed_in_any_order() -> None:
    found = graph(*chain())
    account(found, fuse_ops(found, ["neg", "sum"], "call"))
    assert graphs.inputs(found)["mul"] == ["call:1", "call"]


def test_new_nodes_are_fused_in_the_order_in_which_they_are_written() -> None:
    found = graph(*chain())
    insert(found, "sum", graph(placeholder("p"), neg("n", "p")), scope="new")
    before = found.written()
    result = fused(found, ["neg", "new/n"])
    check_accounted(before, result, found.chunks())
    assert graphs.inputs(found)["mul"] == ["call:1", "call"]


def test_the_call_is_where_the_new_nodes_were() -> None:
    found = graph(*chain())
    insert(found, "sum", graph(placeholder("p"), neg("n", "p")), scope="new")
    fused(found, ["new/n"])
    assert graphs.names(found) == ["x", "one", "sum", "call", "neg", "mul", "y"]
