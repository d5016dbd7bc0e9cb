"""clone-scope of loops, branches, tables, variables and functions; and of any graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.cloning import KEYS, cloned, table, variable
from support.desk import check_error
from support.expecting import refused, sound
from support.graphs import (
    BOOL,
    FLOAT,
    X,
    add,
    call,
    const,
    define,
    graph,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
    tensor,
)
from support.random_records import dags
from support.running import Runner, outcome, run
from support.v1_control_flow import LOOP, taken_both_ways

from gdsurgeon.edits.claims import SameGiven
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.executor import Refused

# -- loops and branches ------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_two_clones_of_a_loop_run_in_one_session() -> None:
    found = graph(*LOOP, scalar("other", 10))
    first = clone_scope(found, "w", "v")
    second = clone_scope(found, "w", "u/w", inputs=[("start", "other")])
    for result, frame in ((first, "v"), (second, "u/w")):
        check_error(result.notes[0], "while-loop", {"renamed": {"w": frame}})
    for n in (0, 1, 3):
        values = run(found, "w/Exit_v", "v/Exit_v", "u/w/Exit_v", "out", n=n)
        assert values[0] == values[1] == values[3] == run(graph(*LOOP), "out", n=n)[0]
        assert values[2] == {0: 10.0, 1: 23.0, 3: 101.0}[n]


def test_a_frame_whose_name_is_in_use() -> None:
    """The name of a frame is no name of a node: it may be taken where the scope is free."""
    taken = node("other/Enter", "Enter", ["start"], T=FLOAT, frame_name="v", is_constant=True, parallel_iterations=10)
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


@pytest.mark.tensorflow
def test_a_part_of_a_branch_is_cloned_into_the_branch() -> None:
    records = [placeholder("p", BOOL, ()), X, node("switch", "Switch", ["x", "p"], T=FLOAT),
               node("s/k", "Const", ["^pivot"], dtype=FLOAT, value=tensor([3, 4])), identity("pivot", "switch:1"),
               node("s/mul", "Mul", ["switch:1", "s/k"], T=FLOAT), identity("y", "s/mul")]  # fmt: skip
    found, _ = cloned(records)
    assert taken_both_ways(found, "t/mul") == taken_both_ways(found, "y") == [[[3.0, 8.0]], "a dead value"]


@pytest.mark.tensorflow
def test_a_whole_conditional() -> None:
    records = [placeholder("p", BOOL, ()), X, placeholder("z", FLOAT, (2,)),
               node("s/switch", "Switch", ["x", "p"], T=FLOAT), neg("s/a", "s/switch:1"),
               identity("s/b", "s/switch"), node("s/merge", "Merge", ["s/b", "s/a"], T=FLOAT, N=2),
               identity("y", "s/merge")]  # fmt: skip
    found, _ = cloned(records, inputs=[("x", "z")])
    for p, sign in ((True, -1), (False, 1)):
        assert run(found, "y", "t/merge", x=[1.0, 2.0], z=[3.0, 4.0], p=p) == [
            [sign * 1.0, sign * 2.0], [sign * 3.0, sign * 4.0]
        ]  # fmt: skip


# -- state -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
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
    alone = Runner()
    with pytest.raises(Exception, match="not initialized"):
        alone(found, "t/find", k=[1, 2])
    assert graphs.inputs(found)["all"] == [f"^{init}/fill"]
    data = graphs.written(found)
    assert initialised(data, [fill], "t/find", k=[2, 7]) == [[6.0, -1.0]]
    assert "not initialized" in str(failed(data, [fill], "y", k=[2, 7]))


def initialised(data: bytes, targets: Sequence[str], *fetches: str, **feeds: Any) -> list[Any]:
    """The values of FETCHES in a session in which TARGETS have run before."""
    return run(data, *fetches, initialisers=targets, **feeds)


def failed(data: bytes, targets: Sequence[str], *fetches: str, **feeds: Any) -> Exception:
    with pytest.raises(Refused) as caught:
        initialised(data, targets, *fetches, **feeds)
    return caught.value


@pytest.mark.tensorflow
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
    data = graphs.written(found)
    assert initialised(data, ["t/init/Assign"], "t/mul", x=[1.0, 2.0]) == [[6.0, 16.0]]
    assert "ninitialized" in str(failed(data, ["t/init/Assign"], "y", x=[1.0, 2.0]))
    assert initialised(data, ["t/init/Assign", "init_all"], "y", "t/mul", x=[1.0, 2.0]) == [[6.0, 16.0]] * 2
    if not resource:
        assert graphs.colocations(found)["t/init/Assign"] == [b"loc:@t/v"]


@pytest.mark.tensorflow
def test_an_initial_value_that_others_use_is_not_cloned() -> None:
    records = [X, *variable("s", "init"), neg("other", "init/twice"), identity("y", "s/mul")]
    found, _ = cloned(records)
    assert graphs.inputs(found)["t/init/Assign"] == ["t/v", "init/twice"]
    assert "t/init/twice" not in found and "t/init/value" not in found
    assert initialised(graphs.written(found), ["t/init/Assign"], "t/mul", x=[1.0, 1.0]) == [[6.0, 8.0]]


def test_two_variables_with_one_initial_value() -> None:
    records = [X, *variable("s", "init"),
               node("s/v2", "VariableV2", dtype=FLOAT, shape=(2,)),
               node("init/Assign2", "Assign", ["s/v2", "init/twice"], T=FLOAT)]  # fmt: skip
    found, _ = cloned(records)
    inputs = graphs.inputs(found)
    assert inputs["t/init/Assign"] == ["t/v", "t/init/twice"] and inputs["t/init/Assign2"] == ["t/v2", "t/init/twice"]


@pytest.mark.tensorflow
def test_an_initialiser_outside_named_like_one_inside() -> None:
    """Outside `init/Assign`, inside `s/init/...`: both would be cloned under `t/init`."""
    records = [X, *variable("s", "init"), const("s/init/Assign", [1, 1]), add("s/sum", "s/mul", "s/init/Assign"),
               identity("y", "s/sum")]  # fmt: skip
    found, _ = cloned(records)
    (assign,) = [n.name for n in graphs.parsed(found).node if n.op == "Assign" and n.name != "init/Assign"]
    assert initialised(graphs.written(found), [assign], "t/sum", x=[1.0, 1.0]) == [[7.0, 9.0]]


@pytest.mark.tensorflow
def test_a_shared_name_that_nodes_outside_use_too() -> None:
    """The table is filled by way of another handle of it, which is not under the scope."""
    records = [KEYS, *table("s", "the_table", "s/unused"), *table("filler", "the_table", "init")]
    records.append(identity("y", "s/find"))
    records = [r for r in records if b"s/unused" not in r and b"filler/find" not in r]
    found = graph(*records)
    clone_scope(found, "s", "t")
    assert initialised(graphs.written(found), ["init/fill"], "y", "t/find", k=[2, 7]) == [[6.0, -1.0]] * 2


@pytest.mark.tensorflow
def test_a_temporary_variable_is_the_clones_own() -> None:
    """Its name stands in an attr of what ends it."""
    records = [
        X,
        node("s/tmp", "TemporaryVariable", dtype=FLOAT, shape=(2,), var_name=""),
        node("s/set", "Assign", ["s/tmp", "x"], T=FLOAT),
        node("s/more", "AssignAdd", ["s/set", "x"], T=FLOAT),
        node("s/end", "DestroyTemporaryVariable", ["s/more"], T=FLOAT, var_name="s/tmp"),
        identity("y", "s/end"),
    ]
    found, _ = cloned(records)
    assert outcome(found, "y", x=[1.0, 2.0]) == [[2.0, 4.0]]
    assert outcome(found, "t/end", x=[1.0, 2.0]) == [[2.0, 4.0]]
    assert outcome(found, "y", "t/end", x=[1.0, 2.0]) == [[2.0, 4.0]] * 2


@pytest.mark.tensorflow
def test_functions_with_state_are_copied_and_others_shared() -> None:
    holding = define(
        "count", {"x": FLOAT}, {"o": (FLOAT, "get:value:0")},
        node("h", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name="counter"),
        node("set", "AssignVariableOp", ["h:resource:0", "x"], dtype=FLOAT),
        node("get", "ReadVariableOp", ["h:resource:0", "^set"], dtype=FLOAT), effects=["set", "get"], stateful=True,
    )  # fmt: skip
    plain = define("plain", {"x": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "x"))
    records = [X, call("s/a", "count", ["x"], [FLOAT], [FLOAT], stateful=True),
               call("s/b", "plain", ["s/a"], [FLOAT], [FLOAT]), identity("y", "s/b"),
               library(holding, plain)]  # fmt: skip
    found = graph(*records)
    result = clone_scope(found, "s", "t")
    assert len(result.intent.functions.added) == 1 and len(list(found.functions)) == 3
    assert graphs.attrs(found, "t/b")["f"].func.name == "plain"
    assert graphs.attrs(found, "t/a")["f"].func.name == result.intent.functions.added[0]
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
