"""clone-scope: names, inputs, loops, branches, tables, variables and functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs, loaders
from support.cloning import KEYS, MODEL, cloned, layer, table, texts, variable
from support.desk import Desk, check_error
from support.expecting import check_graph, expect, from_command_line, refused, sound
from support.function_savers import TABLE, model
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    RESOURCE,
    STRING,
    X,
    add,
    call,
    const,
    define,
    function,
    graph,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
    tensor,
    typed,
)
from support.meta_graphs import read
from support.patience import within
from support.random_records import dags
from support.renaming import QUICK
from support.running import outcome, run
from support.shipped import Shipped
from support.v1_control_flow import LOOP, taken_both_ways

import gdsurgeon as gds
from gdsurgeon.edits.claims import SameGiven, SameOutputs
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.errors import EditError, GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes

# -- plain -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), [("s", "t"), ("s/", "t/"), ("s", "deep/er/t")])
def test_everything_under_the_scope_once_more(source: str, target: str) -> None:
    found, result = cloned(MODEL, source, target)
    check_graph(found, *MODEL, *layer(target.rstrip("/"), "x"))
    name = f"{target.rstrip('/')}/add"
    assert run(found, "y", name, x=[1.0, 2.0]) == [[-3.0, -7.0], [3.0, 7.0]]
    same, given_ = result.claims
    assert same == SameOutputs(as_graphs=True)
    assert isinstance(given_, SameGiven)
    assert given_.outputs == (("s/add", name),) and given_.given.get("x", "x") == "x"
    assert given_.statement == f"{target.rstrip('/')}(x) == s(x)"


NAMED = [X, neg("s", "x"), neg("s/a", "s"), neg("s_1", "s/a"), neg("s_1/a", "s_1")]


@pytest.mark.parametrize(
    ("records", "source", "target", "added"),
    [
        (NAMED, "s", "t", [neg("t", "x"), neg("t/a", "t")]),
        (NAMED, "s_1", "u", [neg("u", "s/a"), neg("u/a", "u")]),
        (MODEL, "y", "y2", [neg("y2", "s/add")]),
        ([X, neg("a.b/y", "x"), neg("axb/y", "x")], "a.b", "t", [neg("t/y", "x")]),
        (MODEL, "s", "s/again", layer("s/again", "x")),
    ],
    ids=["a node named like the scope", "another", "a single node", "scopes are literal", "under its own original"],
)
def test_what_is_under_a_scope(records: list[bytes], source: str, target: str, added: list[bytes]) -> None:
    found, _ = cloned(records, source, target)
    check_graph(found, *records, *added)


# -- names -------------------------------------------------------------------------------------------------


def test_a_fresh_scope_is_fresh_as_a_whole() -> None:
    records = [*MODEL, *(const(name, [1]) for name in ("t/x", "t_1", "t_2/y/z", "t_4", "t_3x"))]
    found, _ = cloned(records, unique=True)
    check_graph(found, *records, *layer("t_3", "x"))


TOWER = [X, *layer("tower/block_1", "x")]
CONSTANTS = [X, const("s/w", [1]), const("s/b", [1])]
OTHERS = [*MODEL, placeholder("i", INT32, (2,)), placeholder("three", FLOAT, (3,))]


@pytest.mark.parametrize(
    ("records", "scopes", "options", "code", "facts"),
    [
        (MODEL, ("s/ad", "t"), {}, "no-such-scope", {"name": "s/ad"}),
        (TOWER, ("tower/blok_1", "t"), {}, "no-such-scope", {"name": "tower/blok_1", "near": "tower/block_1"}),
        (MODEL, ("s", "s"), {}, "bad-name", {"name": "s"}),
        (MODEL, ("s", "_t"), {}, "bad-name", {"name": "_t/w"}),
        (MODEL, ("s", "a b"), {}, "bad-name", {"name": "a b/w"}),
        (MODEL, ("s", "x"), {}, "name-taken", {"name": "x"}),
        (OTHERS, ("s", "t"), {"inputs": [("x", "z"), ("x", "y")]}, "given-twice", {"tensor": "x"}),
        (OTHERS, ("s", "t"), {"inputs": [("y", "z")]}, "no-consumers", {"tensor": "y"}),
        (OTHERS, ("s", "t"), {"inputs": [("s/add", "z")]}, "no-consumers", {"tensor": "s/add"}),
        (OTHERS, ("s", "t"), {"inputs": [("x", "i")]}, "dtype-mismatch", {"tensor": "x", "replacement": "i"}),
        (OTHERS, ("s", "t"), {"inputs": [("x", "three")]}, "shape-mismatch", {"tensor": "x", "replacement": "three"}),
        (OTHERS, ("s", "t"), {"inputs": [("x", "nope")]}, "no-such-node", {"node": "nope"}),
        (OTHERS, ("s", "t"), {"inputs": [("^x", "z")]}, "bad-tensor-name", {"tensor": "^x"}),
        (MODEL, ("s", "t"), {"share": ["mul"]}, "not-a-constant", {"node": "s/mul"}),
        (MODEL, ("s", "t"), {"share": ["."]}, "not-a-constant", {"node": "s/mul"}),
        (MODEL, ("s", "t"), {"share": ["w$", "nothing"]}, "nothing-matched", {"value": "nothing"}),
        (MODEL, ("s", "t"), {"share": ["^x$"]}, "nothing-matched", {"value": "^x$"}),
        (CONSTANTS, ("s", "t"), {"share": ["."]}, "nothing-left", {"name": "s"}),
    ],
)
def test_what_cannot_be_cloned(
    records: list[bytes], scopes: tuple[str, str], options: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    edit = partial(clone_scope, source=scopes[0], target=scopes[1], **options)
    refused(graph(*records), code, edit, error=GdsurgeonError, **facts)


# -- other inputs ------------------------------------------------------------------------------------------


def test_tensors_may_be_given_as_tensors() -> None:
    edit = lambda g: clone_scope(g, "s", "t", inputs=[(g["x"].output, g["z"].output)])  # noqa: E731
    expect(MODEL, edit, [*MODEL, *layer("t", "z")])
    found, other = graph(*MODEL), graph(*MODEL)
    for old, new, name in ((found["x"], other["z"], "z"), (other["x"], found["z"], "x")):
        edit = partial(clone_scope, source="s", target="t", inputs=[(old.output, new.output)])
        refused(found, "other-graph", edit, other, tensor=name)


def test_an_input_of_a_type_that_is_not_known() -> None:
    found, result = cloned([*MODEL, node("u", "MyOp")], inputs=[("x", "u")])
    assert graphs.inputs(found)["t/mul"] == ["u", "t/w"]
    (warning,) = result.warnings
    check_error(warning, "unknown-dtype", {"tensor": "x", "replacement": "u"})


# -- sharing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "added", "count"), [(["/w$"], ["t/mul", "t/b", "t/add"], 1), (["w$", "b$"], ["t/mul", "t/add"], 2)]
)
def test_constants_can_be_shared(share: list[str], added: list[str], count: int) -> None:
    found, result = cloned(MODEL, share=share)
    assert graphs.inputs(found)["t/mul"] == ["x", "s/w"] and result.intent.added == added
    assert [note.as_json() for note in result.notes] == [{"code": "shared", "count": count}]
    assert run(found, "t/add", x=[1.0, 2.0]) == [[3.0, 7.0]]


# -- edges and places --------------------------------------------------------------------------------------


SPLIT = [
    X, scalar("axis", 0, INT32), typed("Split", "split", "axis", "x", num_split=2),
    add("s/a", "split", "split:1"), add("s/b", "split:1", "s/a", "^split"), neg("other", "x"), neg("more", "x"),
]  # fmt: skip
COMPUTED = [X, const("s/w", [1, 2]), neg("s/minus", "s/w"), add("s/y", "x", "s/minus")]
CONTROLS = [X, neg("before", "x"), neg("s/a", "x", "^before"), neg("s/b", "s/a", "^s/a", "^before"),
            node("s/group", "NoOp", ["^s/b"]), neg("after", "x", "^s/b")]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "options", "inputs"),
    [
        (SPLIT, {"inputs": [("split:1", "other"), ("split:0", "more:0")]},
         {"t/a": ["more", "other"], "t/b": ["other", "t/a", "^split"]}),
        (MODEL, {"inputs": [("s/mul", "z")]},
         {"t/w": [], "t/mul": ["x", "t/w"], "t/b": [], "t/add": ["z", "t/b"]}),
        (MODEL, {"inputs": [("x", "s/add")]},
         {"t/w": [], "t/mul": ["s/add", "t/w"], "t/b": [], "t/add": ["t/mul", "t/b"]}),
        (COMPUTED, {"share": ["minus"]}, {"t/w": [], "t/y": ["x", "s/minus"]}),
        (COMPUTED, {"share": ["s/(w|minus)"]}, {"t/y": ["x", "s/minus"]}),
        (MODEL, {"share": ["w$"], "inputs": [("s/w", "z")]},
         {"t/mul": ["x", "z"], "t/b": [], "t/add": ["t/mul", "t/b"]}),
        (MODEL[::-1], {}, {"t/add": ["t/mul", "t/b"], "t/b": [], "t/mul": ["x", "t/w"], "t/w": []}),
        (CONTROLS, {}, {"t/a": ["x", "^before"], "t/b": ["t/a", "^t/a", "^before"], "t/group": ["^t/b"]}),
    ],
    ids=["several inputs and outputs of one node", "a tensor inside, as to cut a clone in two", "the original",
         "shared", "all that is computed from constants shared", "another tensor for a shared one",
         "consumers first", "control edges"],
)  # fmt: skip
def test_what_the_clone_reads(records: list[bytes], options: dict[str, Any], inputs: dict[str, list[str]]) -> None:
    found, _ = cloned(records, **options)
    assert {name: read for name, read in graphs.inputs(found).items() if name.startswith("t/")} == inputs


def test_colocations() -> None:
    records = [X, neg("ext", "x"), neg("s/a", "x", _class=["loc:@ext"]), neg("s/b", "s/a", _class=["loc:@s/a", "k"]),
               neg("out", "s/b", _class=["loc:@s/b"])]  # fmt: skip
    found, _ = cloned(records)
    there = {"s/a": [b"loc:@ext"], "s/b": [b"loc:@s/a", b"k"], "out": [b"loc:@s/b"]}
    assert graphs.colocations(found) == {**there, "t/a": [b"loc:@ext"], "t/b": [b"loc:@t/a", b"k"]}


# -- the command -------------------------------------------------------------------------------------------


def test_options() -> None:
    taken = graphs.graph_bytes(*MODEL, const("t/x", [1, 1]))
    made = graphs.inputs(from_command_line("clone-scope s t --unique --share w$ --share /b$ --map x=z", taken))
    clone = {"t_1/mul": ["z", "s/w"], "t_1/add": ["t_1/mul", "s/b"]}
    assert {name: read for name, read in made.items() if name.startswith("t_1/")} == clone


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("records", "shown"),
    [
        ([X, placeholder("p", "bool", ()), typed("Switch", "sides", "x", "p"), neg("s/a", "sides:1"),
          typed("Merge", "y", "sides", "s/a", N=2)], []),
        ([const("s/init", [0.0, 0.0]), node("s/v", "VariableV2", dtype=FLOAT, shape=(2,)),
          typed("Assign", "s/assign", "s/v", "s/init")], ["edited(x) == original(x)"]),
        ([placeholder("x", FLOAT, (0, 2)), neg("s/a", "x"), identity("y", "s/a")], ["edited(x) == original(x)"]),
    ],
    ids=["a branch", "initialisers only", "no elements"],
)  # fmt: skip
def test_what_the_comparison_of_the_graphs_alone_shows(desk: Desk, records: list[bytes], shown: list[str]) -> None:
    desk.put("model.pb", graphs.graph_bytes(*records))
    proof = desk.report("clone-scope", "model.pb", "s", "t", "-o", "out.pb")["proof"]
    assert [*proof["by_comparison"]] == [*shown, "t(x) == s(x)"]


@pytest.mark.tensorflow
def test_a_graph_that_runs_on_no_feed_is_given_up_soon(desk: Desk) -> None:
    """Sounds are made for the input, and not by the million where its shape is not known."""
    wav = node("s/wav", "DecodeWav", ["sound"], desired_channels=1, desired_samples=-1)
    cut = typed("Reshape", "s/cut", "s/wav", "s/odd", Tshape=INT32)
    records = [placeholder("sound", STRING), wav, const("s/odd", [7, 11, 13], INT32), cut, identity("y", "s/cut")]
    desk.put("model.pb", graphs.graph_bytes(*records))
    with within(15):
        desk.refused(7, "unfeedable", "clone-scope", "model.pb", "s", "t", "-o", "out.pb", node="s/cut")


# -- loops and branches ------------------------------------------------------------------------------------


def test_two_clones_of_a_loop_run_in_one_session() -> None:
    found = graph(*LOOP, scalar("other", 10))
    first = clone_scope(found, "w", "v")
    second = clone_scope(found, "w", "u/w", inputs=[("start", "other")])
    for result, frame in ((first, "v"), (second, "u/w")):
        check_error(result.notes[0], "while-loop", {"renamed": {"w": frame}})
    for n, value, other in ((0, 1.0, 10.0), (1, 5.0, 23.0), (3, 29.0, 101.0)):
        assert run(found, "w/Exit_v", "v/Exit_v", "out", "u/w/Exit_v", n=n) == [value] * 3 + [other]


def test_a_frame_whose_name_is_in_use() -> None:
    """The name of a frame is no name of a node: it may be taken where the scope is free."""
    taken = typed("Enter", "other/Enter", "start", frame_name="v", is_constant=True, parallel_iterations=10)
    _, result = cloned([*LOOP, taken], "w", "v")
    check_error(result.notes[0], "while-loop", {"renamed": {"w": "v_1"}})


def half(*names: str) -> Graph:
    """LOOP with the nodes NAMES of the loop under another scope."""
    found = graph(*LOOP)
    found.rename({found[f"w/{name}"]: f"half/{name}" for name in names})
    return from_bytes(graphs.written(found))


@pytest.mark.parametrize(
    ("names", "facts"),
    [
        (["Enter", "Merge", "Switch", "i"], {"node": "half/Merge", "input": "w/NextIteration"}),
        (["Merge"], {"node": "half/Merge"}),
        (["NextIteration"], {"node": "half/NextIteration"}),
    ],
)
def test_half_a_loop_is_refused(names: list[str], facts: dict[str, str]) -> None:
    refused(half(*names), "crosses-loop", partial(clone_scope, source="half", target="t"), loop="w", **facts)


def test_what_is_computed_in_a_loop_is_cloned() -> None:
    found = half("two", "double", "plus")
    clone_scope(found, "half", "t")
    assert sound(found)


def test_a_part_of_a_branch_is_cloned_into_the_branch() -> None:
    records = [placeholder("p", BOOL, ()), X, typed("Switch", "switch", "x", "p"),
               node("s/k", "Const", ["^pivot"], dtype=FLOAT, value=tensor([3, 4])), identity("pivot", "switch:1"),
               typed("Mul", "s/mul", "switch:1", "s/k"), identity("y", "s/mul")]  # fmt: skip
    found, _ = cloned(records)
    assert taken_both_ways(found, "t/mul") == taken_both_ways(found, "y") == [[[3.0, 8.0]], "a dead value"]


def test_a_whole_conditional() -> None:
    records = [placeholder("p", BOOL, ()), X, placeholder("z", FLOAT, (2,)),
               typed("Switch", "s/switch", "x", "p"), neg("s/a", "s/switch:1"),
               identity("s/b", "s/switch"), typed("Merge", "s/merge", "s/b", "s/a", N=2),
               identity("y", "s/merge")]  # fmt: skip
    found, _ = cloned(records, inputs=[("x", "z")])
    for p, values in ((True, [[-1.0, -2.0], [-3.0, -4.0]]), (False, [[1.0, 2.0], [3.0, 4.0]])):
        assert run(found, "y", "t/merge", x=[1.0, 2.0], z=[3.0, 4.0], p=p) == values


# -- state -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", ["s/init", "init"], ids=["filled inside", "filled from outside"])
@pytest.mark.parametrize("shared_name", ["", "s/table", "elsewhere"])
def test_a_table_is_the_clones_own(init: str, shared_name: str) -> None:
    records = [KEYS, *table("s", shared_name, init), node("all", "NoOp", [f"^{init}/fill"]),
               identity("y", "s/find")]  # fmt: skip
    found, result = cloned(records)
    fill = "t/init/fill"
    assert fill in found and graphs.inputs(found)[fill] == ["t/table", "t/init/keys", "t/init/values"]
    names = {n.name: n.attr["shared_name"].s for n in graphs.parsed(found).node if n.op == "HashTableV2"}
    assert shared_name == "" or names["t/table"] != names["s/table"]
    assert init == "s/init" or {"code": "run-before", "nodes": [fill]} in [note.as_json() for note in result.notes]
    assert graphs.inputs(found)["all"] == [f"^{init}/fill"]
    for ready, other in (("t/find", "y"), ("y", "t/find")):
        how: Any = {"initialisers": [fill if other == "y" else f"{init}/fill"], "k": [2, 7]}
        assert run(found, ready, **how) == [[6.0, -1.0]]
        assert "not initialized" in outcome(found, other, **how)


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("init", ["s/init", "init"], ids=["inside", "outside"])
def test_a_variable_is_the_clones_own(init: str, resource: bool) -> None:
    records = [X, *variable("s", init, resource=resource), node("init_all", "NoOp", [f"^{init}/Assign"]),
               identity("y", "s/mul")]  # fmt: skip
    found, result = cloned(records)
    inputs = graphs.inputs(found)
    assert inputs["t/init/Assign"] == ["t/v", "t/init/twice"]
    assert inputs["t/init/twice"] == ["t/init/value"] * 2
    notes = [note.as_json() for note in result.notes]
    assert {"code": "variables-cloned", "count": 1} in notes
    assert {"code": "run-before", "nodes": ["t/init/Assign"]} in notes
    how: Any = {"initialisers": ["t/init/Assign"], "x": [1.0, 2.0]}
    assert run(found, "t/mul", **how) == [[6.0, 16.0]]
    assert "ninitialized" in outcome(found, "y", **how)
    how["initialisers"].append("init_all")
    assert run(found, "y", "t/mul", **how) == [[6.0, 16.0]] * 2
    if not resource:
        assert graphs.colocations(found)["t/init/Assign"] == [b"loc:@t/v"]


def test_an_initial_value_that_others_use_is_not_cloned() -> None:
    records = [X, *variable("s", "init"), neg("other", "init/twice"), identity("y", "s/mul")]
    found, _ = cloned(records)
    assert graphs.inputs(found)["t/init/Assign"] == ["t/v", "init/twice"]
    assert "t/init/twice" not in found and "t/init/value" not in found
    assert run(found, "t/mul", initialisers=["t/init/Assign"], x=[1.0, 1.0]) == [[6.0, 8.0]]


def test_two_variables_with_one_initial_value() -> None:
    records = [X, *variable("s", "init"), node("s/v2", "VariableV2", dtype=FLOAT, shape=(2,)),
               typed("Assign", "init/Assign2", "s/v2", "init/twice")]  # fmt: skip
    found, _ = cloned(records)
    inputs = graphs.inputs(found)
    assert inputs["t/init/Assign"] == ["t/v", "t/init/twice"] and inputs["t/init/Assign2"] == ["t/v2", "t/init/twice"]


def test_an_initialiser_outside_named_like_one_inside() -> None:
    """Outside `init/Assign`, inside `s/init/...`: both would be cloned under `t/init`."""
    records = [X, *variable("s", "init"), const("s/init/Assign", [1, 1]), add("s/sum", "s/mul", "s/init/Assign"),
               identity("y", "s/sum")]  # fmt: skip
    found, _ = cloned(records)
    (assign,) = [n.name for n in graphs.parsed(found).node if n.op == "Assign" and n.name != "init/Assign"]
    assert run(found, "t/sum", initialisers=[assign], x=[1.0, 1.0]) == [[7.0, 9.0]]


def test_a_shared_name_that_nodes_outside_use_too() -> None:
    """The table is filled by way of another handle of it, which is not under the scope."""
    records = [KEYS, *table("s", "the_table", "s/unused"), *table("filler", "the_table", "init")]
    records.append(identity("y", "s/find"))
    records = [r for r in records if b"s/unused" not in r and b"filler/find" not in r]
    found, _ = cloned(records)
    assert run(found, "y", "t/find", initialisers=["init/fill"], k=[2, 7]) == [[6.0, -1.0]] * 2


def test_a_temporary_variable_is_the_clones_own() -> None:
    """Its name stands in an attr of what ends it."""
    records = [X, node("s/tmp", "TemporaryVariable", dtype=FLOAT, shape=(2,), var_name=""),
               typed("Assign", "s/set", "s/tmp", "x"), typed("AssignAdd", "s/more", "s/set", "x"),
               typed("DestroyTemporaryVariable", "s/end", "s/more", var_name="s/tmp"),
               identity("y", "s/end")]  # fmt: skip
    found, _ = cloned(records)
    for fetches in (["y"], ["t/end"], ["y", "t/end"]):
        assert outcome(found, *fetches, x=[1.0, 2.0]) == [[2.0, 4.0]] * len(fetches)


def test_functions_with_state_are_copied_and_others_shared() -> None:
    holding = define(
        "count", {"x": FLOAT}, {"o": (FLOAT, "get:value:0")},
        node("h", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name="counter"),
        node("set", "AssignVariableOp", ["h:resource:0", "x"], dtype=FLOAT),
        node("get", "ReadVariableOp", ["h:resource:0", "^set"], dtype=FLOAT), effects=["set", "get"], stateful=True,
    )  # fmt: skip
    records = [X, call("s/a", "count", ["x"], [FLOAT], [FLOAT], stateful=True),
               call("s/b", "plain", ["s/a"], [FLOAT], [FLOAT]), identity("y", "s/b"),
               library(holding, function("plain", neg("y", "x")))]  # fmt: skip
    found = graph(*records)
    (copied,) = clone_scope(found, "s", "t").intent.functions.added
    assert [graphs.attrs(found, name)["f"].func.name for name in ("t/a", "t/b")] == [copied, "plain"]
    assert len(list(found.functions)) == 3
    assert run(found, "y", "t/b", x=[1.0, 2.0]) == [[-1.0, -2.0]] * 2


# -- any graph ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.tensorflow
@given(dags(), st.sampled_from(["s", "t", "t/u"]))
def test_a_clone_computes_what_the_original_computes(case: tuple[list[bytes], list[str]], scope: str) -> None:
    records, _ = case
    found = graph(*records)
    try:
        result = clone_scope(found, scope, "clone")
    except EditError as error:
        assert error.code == "no-such-scope"
        return
    claim = result.claims[1]
    assert isinstance(claim, SameGiven)
    fetches = [n for pair in claim.outputs for n in pair if found[n.partition(":")[0]].output_dtypes]
    values = outcome(found, *fetches, x=[0.75, -2.0]) if fetches else []
    assert isinstance(values, list), values
    assert values[::2] == values[1::2]


# -- the graph ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clones", "inputs", "saved"),
    [
        ([("net", "copy", {})], {"copy/call": ["x", "copy/w"], "copy/sum": ["copy/call", "u/read"]}, {b"copy/w": b""}),
        ([("net", "copy", {"variables": "all"})],
         {"copy/sum": ["copy/call", "copy/u/read"], "copy/u/read": ["copy/u"]}, {b"copy/w": b"", b"copy/u": b"4 0,2"}),
        ([("net", "copy", {"variables": "share"}), ("net", "third", {"inputs": [("w", "u")]})],
         {"copy/call": ["x", "w"], "third/call": ["x", "u"], "restore": ["file", "w", "u", "twin"]}, {}),
        ([("net", "copy", {}), ("copy", "third", {})], {"third/call": ["x", "third/w"]},
         {b"copy/w": b"", b"third/w": b""}),
    ],
    ids=["those that calls are given", "all that it reads, if asked for", "shared and replaced ones are not", "twice"],
)  # fmt: skip
def test_variables_of_functions(clones: list[Any], inputs: dict[str, list[str]], saved: dict[bytes, bytes]) -> None:
    found = model()
    for source, target, options in clones:
        clone_scope(found, source, target, **options)
    assert inputs.items() <= graphs.inputs(found).items()
    assert ("saver/restore" in found) == bool(saved)
    if saved:
        keys, slices = (texts(found, f"saver/{name}")[3:] for name in ("names", "slices"))
        assert dict(zip(keys, slices, strict=True)) == saved


def test_nodes_restore_and_save_in_the_place_of_functions() -> None:
    """Two variables that are restored from one tensor are saved as two."""
    found = model()
    result = clone_scope(found, "net", "copy")
    assert found["copy/w"].text_attr("shared_name") == "copy/w"
    assert {"code": "stays-common", "nodes": ["u"]} in [note.as_json() for note in result.notes]
    keys = [b"net/w", b"u", b"twin", b"copy/w"]
    assert texts(found, "saver/names") == keys and texts(found, "saver/slices") == [b"", b"4 0,2", b"", b""]
    inputs = graphs.inputs(found)
    variables = ["w", "u", "twin", "copy/w"]
    assert [inputs[f"saver/Assign_{n}"][0] for n in range(4)] == variables
    assert inputs["saver/SaveV2"][3:] == [f"saver/Read_{n}" for n in range(4)]
    assert {"file", "save", "restore"}.isdisjoint(found.names())
    assert [f.signature.name for f in found.functions] == ["compute"]
    assert result.intent.functions.removed == ["restoring", "saving"]
    assert found.serving is not None
    (copied,) = found.serving.copies
    assert copied.keys == {"copy/w": "net/w", "twin": "net/w"}


def test_nodes_that_one_node_outside_waits_for_are_cloned_in_linear_time() -> None:
    many = [scalar(f"s/c{number}", 1.0) for number in range(16_000)]
    found = graph(*many, node("init", "NoOp", [f"^s/c{number}" for number in range(16_000)]))
    with within(30):
        clone_scope(found, "s", "t")


def test_many_names_are_one_line() -> None:
    names = [f"v{number}" for number in range(9)]
    body = define("f", dict.fromkeys(names, RESOURCE), {"y": (FLOAT, "r:value:0")},
                    node("r", "ReadVariableOp", ["v0"], dtype=FLOAT))  # fmt: skip
    handles = [node(name, "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name=name) for name in names]
    found = graph(*handles, call("s/call", "f", names, [RESOURCE] * 9, [FLOAT]), neg("y", "s/call"), library(body))
    (note,) = [note for note in clone_scope(found, "s", "t").notes if note.code == "shared-name"]
    assert note.facts["renamed"] == {name: f"t/{name}" for name in names}


def test_what_functions_restore_besides_variables_is_refused() -> None:
    found = model(TABLE)
    edit = partial(clone_scope, source="net", target="copy")
    refused(found, "outside-uses", edit, node="other", op="MutableHashTableV2")
    clone_scope(found, "net", "copy", variables="share")


# -- the model ---------------------------------------------------------------------------------------------


def test_objects_have_no_place_for_variables(desk: Desk, saved_models: Shipped) -> None:
    path = saved_models.path("dense")
    arguments = ["clone-scope", path, "StatefulPartitionedCall", "copy", "-o", "out", *QUICK]
    desk.refused(4, "not-served", *arguments, variables=["copy/b", "copy/w"])
    desk.done(*arguments, "--variables", "share")
    assert read("out").meta_graphs[0].object_graph_def.nodes


@pytest.mark.parametrize("name", ["dense", "keras", "keras_saved"])
def test_tensorflow_runs_both(desk: Desk, tf: Any, saved_models: Shipped, name: str) -> None:
    """The signature is what it was for all loaders, and the copy has variables of its own."""
    tf.get_logger().setLevel("ERROR")
    call = "StatefulPartitionedCall_1" if name == "keras" else "StatefulPartitionedCall"
    report = desk.report("clone-scope", saved_models.path(name), call, "copy", "--as-v1", "-o", "out")
    assert report["passed"] and [*report["claims"]] == ["SameOutputs", "SameGiven", "OwnVariables"]
    recorded = saved_models.recorded(name)
    wanted = {key: value.tolist() for key, value in recorded.outputs.items()}
    for load in loaders.ALL:
        assert load(tf, "out", "serving_default", recorded.inputs) == wanted, load
    found = tf.saved_model.load("out").variables
    assert {v.name for v in found} > {f"copy/{v.name}" for v in found if f"copy/{v.name}" in {w.name for w in found}}


def test_what_was_inlined_is_cloned_with_what_it_reads(desk: Desk, saved_models: Shipped) -> None:
    desk.done("inline", saved_models.path("dense"), "--as-v1", "-o", "inlined", *QUICK)
    (product,) = [node.name for node in gds.load("inlined").nodes() if node.op == "MatMul"]
    scope = product.rpartition("/")[0]
    report = desk.report("clone-scope", "inlined", scope, "copy", "--variables", "all", "-o", "out")
    assert report["passed"] and [*report["claims"]] == ["SameOutputs", "SameGiven", "OwnVariables"]


@pytest.mark.tensorflow
def test_a_clone_that_reads_what_depends_on_its_original_is_proven() -> None:
    """The outside node `o` is not cloned: the clone reads it, too."""
    found = graph(placeholder("s/x", FLOAT, (2,)), neg("o", "s/x"), add("s/y", "s/x", "o"))
    proof = gds.prove(found.pristine(), found, clone_scope(found, "s", "t"))
    assert {output.after for output in proof.compared} == {"s/y", "t/x", "t/y"}
