"""fuse-ops: the selection becomes a function, and the graph gives what it gave."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from support import graphs
from support.counting import is_linear
from support.expecting import refused
from support.fusing import chain, check_calls, fused, split
from support.graphs import (
    BOOL,
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
    unary,
)
from support.running import run

from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.graph.graph import Graph

# -- plain -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_the_selection_becomes_a_call() -> None:
    found = graph(*chain())
    result = fused(found, ["sum", "neg", "mul"])
    name = only_function(found).signature.name
    called = call("call", name, ["x", "one"], [FLOAT, FLOAT], [FLOAT])
    check_calls(found, X, const("one", [1, 2]), called, identity("y", "call"))
    assert run(found, "y", x=[3.0, 4.0]) == run(graph(*chain()), "y", x=[3.0, 4.0]) == [[-16.0, -36.0]]
    assert result.intent.rewired == [Rewired("y", 0, "mul", "call")]
    assert result.intent.moved == {"mul": "call"}
    assert result.intent.functions.added == [name]
    assert result.claims == (SameOutputs(also=("mul",)),)


def test_the_function_holds_the_nodes_as_they_were() -> None:
    found = graph(*chain())
    fused(found, ["sum", "neg", "mul"])
    made = only_function(found)
    assert made.signature.name.startswith("call_")
    assert [(a.name, a.type) for a in made.signature.input_arg] == [("x", 1), ("one", 1)]
    (given,) = made.signature.output_arg
    assert given.type == 1 and dict(made.ret) == {given.name: "mul:z:0"}
    assert body_of(made) == {"sum": ["x", "one"], "neg": ["sum:z:0"], "mul": ["neg:y:0", "sum:z:0"]}
    assert {n.name: n.attr for n in made.node_def}["mul"]["_note"].s == b"kept"
    assert not made.signature.is_stateful and not made.control_ret


@pytest.mark.parametrize(("options", "expected"), [({}, True), ({"inline": True}, False), ({"xla": True}, False)])
def test_it_is_not_inlined_unless_that_is_asked_for(options: dict[str, Any], expected: bool) -> None:
    found = graph(*chain())
    fused(found, "neg|mul", **options)
    assert only_function(found).attr["_noinline"].b is expected


def test_under_xla_the_call_says_so() -> None:
    for given in ({}, {"rtol": 0.0, "atol": 0.0}):
        found = graph(*chain())
        (claim,) = fused(found, "neg|mul", xla=True, **given).claims
        assert graphs.attrs(found, "call")["_XlaMustCompile"].b
        assert isinstance(claim, SameOutputs) and (claim.rtol > 0) == (claim.atol > 0) == (not given)


# -- several outputs ---------------------------------------------------------------------------------------


SEVERAL = [
    placeholder("x", FLOAT, (4,)), scalar("k", 2, INT32), node("top", "TopKV2", ["x", "k"], T=FLOAT, sorted=True),
    node("unique", "Unique", ["x"], T=FLOAT, out_idx=INT32), identity("values", "top"),
    identity("indices", "top:1", kind=INT32), identity("places", "unique:1", kind=INT32),
    add("both", "top:1", "k", kind=INT32),
]  # fmt: skip
LISTS = [
    X, const("i", [3, 4], INT32), node("pass", "IdentityN", ["x", "i", "x"], T=dtypes(FLOAT, INT32, FLOAT)),
    node("pack", "Pack", ["pass", "pass:2", "x"], T=FLOAT, N=3), node("unpack", "Unpack", ["pack"], T=FLOAT, num=3),
    node("sum", "AddN", ["unpack:2", "unpack", "pass:2"], T=FLOAT, N=3), identity("y", "sum"), neg("z", "unpack:1"),
    identity("j", "pass:1", kind=INT32),
]  # fmt: skip
DEFAULTS = [
    placeholder("x", FLOAT, (2, 3)), node("shape", "Shape", ["x"], T=FLOAT), node("size", "Size", ["x"], T=FLOAT),
    node("best", "ArgMax", ["x", "axis"], T=FLOAT), scalar("axis", 1, INT32), identity("a", "shape", kind=INT32),
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
    found = graph(*records)
    fetches = [name for name, op in graphs.ops(found).items() if op in ("Identity", "Neg", "AddV2")]
    fused(found, chosen)
    made = only_function(found)
    assert {made.ret[a.name]: a.type for a in made.signature.output_arg} == returned
    assert run(found, *fetches, x=x) == run(graph(*records), *fetches, x=x)


def test_names_of_arguments_do_not_clash() -> None:
    """Arguments, results and nodes share one name space inside a function."""
    records = [
        *map(placeholder, ("a/x", "b/x", "X", "1")), add("x", "a/x", "b/x"), add("x_1", "X", "1"), add("y", "x", "x_1"),
        neg("p", "y"), neg("q", "x"),
    ]  # fmt: skip
    found = graph(*records)
    fused(found, ["x", "x_1", "y"])
    made = only_function(found)
    names = [*(a.name for a in made.signature.input_arg), *(a.name for a in made.signature.output_arg)]
    names += [n.name for n in made.node_def]
    assert len(set(names)) == len(names)
    assert all(a.name[0].islower() for a in (*made.signature.input_arg, *made.signature.output_arg))


# -- names -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_outputs_of_the_graph_keep_their_names() -> None:
    found = graph(X, neg("a", "x"), neg("y", "a"), unary("Abs", "z", "a"))
    result = fused(found, ["a", "y", "z"])
    name = only_function(found).signature.name
    check_calls(
        found, X, call("call", name, ["x"], [FLOAT], [FLOAT, FLOAT]), identity("y", "call"), identity("z", "call:1")
    )
    assert run(found, "y", "z", x=[1.0, -2.0]) == [[1.0, -2.0], [1.0, 2.0]]
    assert result.intent.added == ["y", "z", "call"] and result.intent.removed == ["a"]
    assert result.intent.moved == {}


@pytest.mark.tensorflow
def test_an_output_node_with_several_outputs_keeps_them_all() -> None:
    records = [placeholder("x", FLOAT, (6,)), scalar("axis", 0, INT32),
               node("s", "Split", ["axis", "x"], T=FLOAT, num_split=3)]  # fmt: skip
    found = graph(*records)
    fused(found, ["s"])
    name = only_function(found).signature.name
    check_calls(
        found,
        *records[:2],
        call("call", name, ["axis", "x"], [INT32, FLOAT], [FLOAT] * 3),
        node("s", "IdentityN", ["call", "call:1", "call:2"], T=dtypes(FLOAT, FLOAT, FLOAT)),
    )
    assert run(found, "s", "s:1", "s:2", x=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_what_only_waits_for_a_node_does_not_make_it_less_of_an_output() -> None:
    found = graph(X, neg("y", "x"), node("init", "NoOp", ["^y"]))
    fused(found, ["y"])
    assert graphs.ops(found) == {"x": "Placeholder", "call": "PartitionedCall", "y": "Identity", "init": "NoOp"}
    assert graphs.inputs(found)["init"] == ["^call"]


@pytest.mark.tensorflow
def test_names_that_are_to_be_kept() -> None:
    found = graph(*chain())
    result = fused(found, ["sum", "neg", "mul"], keep=["sum", "mul"])
    assert graphs.inputs(found) == {
        "x": [], "one": [], "call": ["x", "one"], "sum": ["call"], "mul": ["call:1"], "y": ["call:1"]
    }  # fmt: skip
    assert run(found, "sum", "mul", "y", x=[3.0, 4.0]) == [[4.0, 6.0], [-16.0, -36.0], [-16.0, -36.0]]
    assert result.intent.removed == ["neg"]


@pytest.mark.tensorflow
def test_the_call_may_have_the_name_of_its_first_output() -> None:
    found = graph(X, neg("a", "x"), neg("y", "a"))
    result = fused(found, ["a", "y"], "y")
    check_calls(found, X, call("y", only_function(found).signature.name, ["x"], [FLOAT], [FLOAT]))
    assert (result.intent.added, result.intent.removed, result.intent.moved) == (["y"], ["a"], {})
    assert run(found, "y", x=[1.0, 2.0]) == [[1.0, 2.0]]


def test_names_that_are_no_names_of_functions() -> None:
    for name in ("a/b.c-d", "1", "Neg"):
        found = graph(*chain())
        fused(found, "neg|mul", name)
        made = only_function(found).signature.name
        assert made.replace("_", "a").isalnum() and made[0].isalpha()
        assert found.op_def(made) is not None


@pytest.mark.tensorflow
def test_calls_whose_names_differ_in_punctuation_only_have_their_own_functions() -> None:
    """Two bodies that read alike, but for what the function is that both call `f`."""

    def body(op: str) -> Graph:
        inner = define("f", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, unary(op, "n", "a"))
        return graph(placeholder("i"), call("c", "f", ["i"], [FLOAT], [FLOAT]), library(inner), name="body.pb")

    found = graph(X, neg("p", "x"), neg("q", "x"))
    fused(found, ["p"], "block/x", body=body("Square"))
    fused(found, ["q"], "block_x", body=body("Abs"))
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0, 4.0], [1.0, 2.0]]


# -- refusals ----------------------------------------------------------------------------------------------


TABLE = node("t", "HashTableV2", key_dtype=INT32, value_dtype=FLOAT, shared_name="t")
SWITCH = [X, placeholder("p", BOOL, ()), node("switch", "Switch", ["x", "p"], T=FLOAT)]
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
        (chain(), "neg|mul", {"name": "x"}, "name-taken", {"name": "x", "op": "Placeholder"}),
        (chain(), "neg|mul", {"name": "_call"}, "bad-name", {"name": "_call"}),
        (chain(), "neg|mul", {"name": ""}, "bad-name", {"name": ""}),
        (ENDS, "^[ayz]$", {"name": "z"}, "name-taken", {"name": "z"}),
        (split()[:3], ["s"], {"name": "s"}, "name-taken", {"name": "s"}),
        (chain(), "nothing", {}, "nothing-matched", {}),
        (chain(), [], {}, "nothing-selected", {}),
        ([X, neg("y", "x")], ["x", "y"], {}, "is-input", {"node": "x", "op": "Placeholder"}),
        ([X, DEFAULT, const("k", [1, 2]), neg("y", "d")], ["d", "y"], {}, "is-input", {"node": "d"}),
        ([VARIABLE, identity("y", "v")], ["v"], {}, "is-reference", {"node": "v", "op": "VariableV2"}),
        ([X, VARIABLE, node("set", "Assign", ["v", "x"], T=FLOAT)], ["set"], {}, "is-reference", {"node": "set"}),
        ([TABLE], ["t"], {}, "shared-state", {"node": "t"}),
        ([node("h", "VarHandleOp", dtype=FLOAT, shape=(2,))], ["h"], {}, "shared-state", {"node": "h"}),
        ([node("q", "FIFOQueueV2", component_types=dtypes(FLOAT))], ["q"], {}, "shared-state", {"node": "q"}),
        ([X, node("u", "MyOp", ["x"])], ["u"], {}, "no-such-op", {"node": "u", "op": "MyOp"}),
        (SWITCH, ["switch"], {}, "control-flow", {"node": "switch"}),
        ([*SWITCH, node("merge", "Merge", ["switch", "switch:1"], T=FLOAT, N=2)], ["merge"], {}, "control-flow",
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
    refused(graph(*records), code, partial(fused, selection=chosen, **options), **facts)


def test_what_lies_on_the_path_is_fused_with_it() -> None:
    fused(graph(*WAITING), ["a", "w", "b"])


def test_nodes_of_another_graph_and_none() -> None:
    found, other = graph(*chain()), graph(*chain())
    refused(found, "nothing-selected", partial(fuse_ops, selection=[], name="call"))
    for nodes, node_ in (([other["neg"], other["mul"]], "neg"), ([found["neg"], other["mul"]], "mul")):
        refused(found, "other-graph", partial(fuse_ops, selection=nodes, name="call"), other, node=node_)


# -- size --------------------------------------------------------------------------------------------------


def test_many_nodes_and_many_outputs_take_linear_time() -> None:
    def fusion(count: int) -> Callable[[], object]:
        found = graph(X, *(neg(f"n{i}", "x") for i in range(count)))
        return lambda: fused(found, "^n")

    assert is_linear(fusion, 100, 800)
