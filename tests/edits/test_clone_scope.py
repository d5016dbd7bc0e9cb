"""clone-scope; the numbers are those of the section on copying of the specification."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import graphs
from support.expecting import check_graph, expect, refuse
from support.function_defs import X, call, function, neg
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    STRING,
    add,
    const,
    graph,
    graph_bytes,
    identity,
    library,
    node,
    placeholder,
    scalar,
    tensor,
)
from support.patience import within
from support.random_records import dags
from support.running import Runner, outcome, run
from support.v1_control_flow import LOOP, taken_both_ways

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.operation.edit import Request, operate


def cloned(records: Sequence[bytes], source: str = "s", target: str = "t", **options: Any) -> tuple[Graph, EditResult]:
    """The graph with the clone; what was there must not have changed by a byte, and stands before it."""
    found = graph(*records)
    result = clone_scope(found, source, target, **options)
    data = graphs.written(found)
    before, after = graphs.bodies(graph_bytes(*records)), graphs.bodies(data)
    assert after[: len(before)] == before
    assert [n.name for n in graphs.parsed(data).node][len(before) :] == result.intent.added
    assert check(from_bytes(data)).faults == []
    return found, result


def refused(records: Sequence[bytes], words: str, source: str = "s", target: str = "t", **options: Any) -> EditError:
    return refuse(graph(*records), re.escape(words), lambda g: clone_scope(g, source, target, **options))


def layer(scope: str, source: str, *, weights: Sequence[float] = (2, 3)) -> list[bytes]:
    """source * w + b"""
    return [
        const(f"{scope}/w", weights),
        node(f"{scope}/mul", "Mul", [source, f"{scope}/w"], T=FLOAT),
        const(f"{scope}/b", [1, 1]),
        add(f"{scope}/add", f"{scope}/mul", f"{scope}/b"),
    ]


MODEL = [X, placeholder("z", FLOAT, (2,)), *layer("s", "x"), neg("y", "s/add")]


# -- plain -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize(("source", "target"), [("s", "t"), ("s/", "t/"), ("s", "deep/er/t")])
def test_everything_under_the_scope_once_more(source: str, target: str) -> None:
    found, result = cloned(MODEL, source, target)
    check_graph(found, *MODEL, *layer(target.rstrip("/"), "x"))
    name = f"{target.rstrip('/')}/add"
    assert run(found, "y", name, x=[1.0, 2.0]) == [[-3.0, -7.0], [3.0, 7.0]]
    same, given_ = result.claims
    assert same == SameOutputs()
    assert isinstance(given_, SameGiven)
    assert given_.outputs == (("s/add", name),) and given_.given.get("x", "x") == "x"
    assert given_.statement == f"{target.rstrip('/')}(x) = s(x)"


def test_the_node_named_like_the_scope_belongs_to_it() -> None:
    records = [X, neg("s", "x"), neg("s/a", "s"), neg("s_1", "s/a"), neg("s_1/a", "s_1")]
    found, _ = cloned(records)
    check_graph(found, *records, neg("t", "x"), neg("t/a", "t"))
    found, _ = cloned(records, "s_1", "u")
    check_graph(found, *records, neg("u", "s/a"), neg("u/a", "u"))


def test_a_single_node_can_be_cloned() -> None:
    found, _ = cloned(MODEL, "y", "y2")
    check_graph(found, *MODEL, neg("y2", "s/add"))


def test_scopes_are_literal() -> None:
    records = [X, neg("a.b/y", "x"), neg("axb/y", "x")]
    found, _ = cloned(records, "a.b", "t")
    check_graph(found, *records, neg("t/y", "x"))


@pytest.mark.tensorflow
def test_what_comes_from_outside_comes_from_there_again() -> None:
    records = [X, neg("ext", "x"), neg("s/a", "ext"), add("s/b", "s/a", "ext"), identity("y", "s/b")]
    found, _ = cloned(records)
    assert graphs.inputs(found)["t/a"] == ["ext"] and graphs.inputs(found)["t/b"] == ["t/a", "ext"]
    assert run(found, "y", "t/b", x=[1.0, 2.0]) == [[0.0, 0.0]] * 2


@pytest.mark.tensorflow
def test_nodes_in_any_order() -> None:
    records = list(reversed(MODEL))
    found, _ = cloned(records)
    assert graphs.inputs(found)["t/add"] == ["t/mul", "t/b"]
    assert run(found, "t/add", x=[1.0, 2.0]) == [[3.0, 7.0]]


def test_a_clone_under_its_own_original() -> None:
    found, _ = cloned(MODEL, "s", "s/again")
    check_graph(found, *MODEL, *layer("s/again", "x"))
    again = from_bytes(graphs.written(found))
    clone_scope(again, "s", "t")
    assert {n for n in graphs.names(again) if n.startswith("t/")} == {
        f"t/{scope}{n}" for scope in ("", "again/") for n in ("w", "mul", "b", "add")
    }


@pytest.mark.tensorflow
def test_a_clone_of_an_edited_graph() -> None:
    found = graph(*MODEL)
    found.rename({found["s/mul"]: "s/product"})
    found.set_inputs(found["s/product"], [found["z"].output, found["s/w"].output])
    added = found.add("s/extra", "Neg", [found["s/add"].output], attrs={"T": FLOAT})
    found.remove([found["y"]])
    clone_scope(found, "s", "t")
    clone_scope(found, "t", "u")
    assert graphs.inputs(found)["u/product"] == ["z", "u/w"] and graphs.inputs(found)["u/extra"] == ["u/add"]
    assert run(found, added.name, "u/extra", z=[1.0, 2.0]) == [[-3.0, -7.0]] * 2


# -- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", ["t/w", "t/other", "t/deep/er", "t"])
def test_a_scope_that_is_in_use(taken: str) -> None:
    records = [*MODEL, const(taken, [1])]
    error = refused(records, "the scope 't' is in use")
    assert hint_of(error) is not None and "--unique" in hint_of(error)
    found, _ = cloned(records, unique=True)
    check_graph(found, *records, *layer("t_1", "x"))


def test_a_fresh_scope_is_fresh_as_a_whole() -> None:
    records = [*MODEL, *(const(name, [1]) for name in ("t/x", "t_1", "t_2/y/z", "t_4", "t_3x"))]
    found, _ = cloned(records, unique=True)
    check_graph(found, *records, *layer("t_3", "x"))


def test_a_scope_that_only_begins_like_one_in_use_is_free() -> None:
    records = [*MODEL, const("tt/x", [1]), const("t_1/x", [1]), const("u/t/x", [1])]
    for unique in (False, True):
        found, _ = cloned(records, unique=unique)
        check_graph(found, *records, *layer("t", "x"))


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("r", "t", "there is no scope 'r'"),
        ("s/ad", "t", "there is no scope 's/ad'"),
        ("", "t", "the scope to clone is empty: name one"),
        ("/", "t", "the scope to clone is empty: name one"),
        ("s", "", "the scope of the clone is empty: name one"),
        ("s", "s", "'s' cannot be cloned onto itself"),
        ("s/", "s", "cannot be cloned onto itself"),
        ("s", "_t", "'_t/w' is not a legal node name"),
        ("s", "a b", "is not a legal node name"),
        ("s", "x", "the scope 'x' is in use"),
    ],
)
def test_names_that_are_no_scopes(source: str, target: str, words: str) -> None:
    refused(MODEL, words, source, target)


def test_a_missing_scope_is_said_with_the_nearest() -> None:
    records = [X, *layer("tower/block_1", "x")]
    assert refused(records, "", "tower/blok_1").message == (
        "there is no scope 'tower/blok_1'. Did you mean 'tower/block_1'?"
    )
    assert "Did you mean 'tower'?" in refused(records, "", "towr").message


# -- other inputs ------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_the_clone_can_read_something_else() -> None:
    found, result = cloned(MODEL, inputs=[("x", "z")])
    check_graph(found, *MODEL, *layer("t", "z"))
    assert run(found, "y", "t/add", x=[1.0, 2.0], z=[5.0, 6.0]) == [[-3.0, -7.0], [11.0, 19.0]]
    claim = result.claims[1]
    assert isinstance(claim, SameGiven) and claim.given["x"] == "z"


def test_several_inputs_and_outputs_of_one_node() -> None:
    records = [
        X,
        scalar("axis", 0, INT32),
        node("split", "Split", ["axis", "x"], T=FLOAT, num_split=2),
        add("s/a", "split", "split:1"),
        add("s/b", "split:1", "s/a", "^split"),
        neg("other", "x"),
        neg("more", "x"),
    ]
    found, _ = cloned(records, inputs=[("split:1", "other"), ("split:0", "more:0")])
    assert graphs.inputs(found)["t/a"] == ["more", "other"]
    assert graphs.inputs(found)["t/b"] == ["other", "t/a", "^split"]


def test_a_tensor_inside_the_scope_can_be_replaced() -> None:
    """As to cut a clone in two: its second half reads what is outside."""
    found, _ = cloned(MODEL, inputs=[("s/mul", "z")])
    assert graphs.inputs(found)["t/add"] == ["z", "t/b"] and graphs.inputs(found)["t/mul"] == ["x", "t/w"]


def test_the_clone_can_read_the_original() -> None:
    """As to put two blocks of one kind one behind the other."""
    found, _ = cloned(MODEL, inputs=[("x", "s/add")])
    check_graph(found, *MODEL, *layer("t", "s/add"))


def test_tensors_may_be_given_as_tensors() -> None:
    found = graph(*MODEL)
    expect(
        found, lambda g: clone_scope(g, "s", "t", inputs=[(g["x"].output, g["z"].output)]), [*MODEL, *layer("t", "z")]
    )
    found, other = graph(*MODEL), graph(*MODEL)
    for pair in ((found["x"].output, other["z"].output), (other["x"].output, found["z"].output)):
        with pytest.raises(EditError):
            clone_scope(found, "s", "t", inputs=[pair])
        assert not found.is_changed


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("x", "z"), ("x", "y")], "'x' cannot become two tensors at once"),
        ([("x", "z"), ("x:0", "y")], "'x' cannot become two tensors at once"),
        ([("y", "z")], "nothing under the scope reads 'y'"),
        ([("z", "x")], "nothing under the scope reads 'z'"),
        ([("s/add", "z")], "nothing under the scope reads 's/add'"),
        ([("x", "i")], "'x' (float32 [2]) cannot give way to 'i' (int32 [2]): dtypes differ"),
        ([("x", "three")], "'x' (float32 [2]) cannot give way to 'three' (float32 [3]): shapes differ"),
        ([("x", "nope")], "has no node 'nope'"),
        ([("nope", "x")], "has no node 'nope'"),
        ([("x", "z:1")], "has 1 output"),
        ([("^x", "z")], "'^x' is not the name of a tensor"),
    ],
)
def test_inputs_that_make_no_sense(pairs: list[tuple[str, str]], words: str) -> None:
    records = [*MODEL, placeholder("i", INT32, (2,)), placeholder("three", FLOAT, (3,))]
    refused(records, words, inputs=pairs)


def test_an_input_of_a_type_that_is_not_known() -> None:
    found, result = cloned([*MODEL, node("u", "MyOp")], inputs=[("x", "u")])
    assert graphs.inputs(found)["t/mul"] == ["u", "t/w"]
    assert result.warnings == ["the types of 'x' and 'u' are not both known: not compared"]


@pytest.mark.tensorflow
def test_an_input_from_within_a_loop_is_refused_or_works() -> None:
    """A node runs in the frame of what it reads."""
    records = [*LOOP, scalar("k", 1), neg("s/a", "k"), identity("y", "s/a")]
    found = graph(*records)
    try:
        clone_scope(found, "s", "t", inputs=[("k", "w/v")])
    except EditError:
        assert not found.is_changed
        return
    assert outcome(found, "y", n=2) == [-1.0]


# -- sharing -----------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_constants_can_be_shared() -> None:
    found, result = cloned(MODEL, share=["/w$"])
    assert graphs.inputs(found)["t/mul"] == ["x", "s/w"] and "t/w" not in found and "t/b" in found
    assert "1 node shared with the original" in result.notes
    assert run(found, "t/add", x=[1.0, 2.0]) == [[3.0, 7.0]]
    found, result = cloned(MODEL, share=["w$", "b$"])
    assert result.intent.added == ["t/mul", "t/add"]
    assert "2 nodes shared with the original" in result.notes


def test_what_is_computed_from_constants_can_be_shared() -> None:
    records = [X, const("s/w", [1, 2]), neg("s/minus", "s/w"), add("s/y", "x", "s/minus")]
    found, _ = cloned(records, share=["minus"])
    assert graphs.inputs(found)["t/y"] == ["x", "s/minus"]
    found, _ = cloned(records, share=["s/(w|minus)"])
    assert graphs.names(found)[len(records) :] == ["t/y"]


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (["mul"], "'s/mul' cannot be shared: it depends on more than constants"),
        (["."], "'s/mul' cannot be shared"),
        (["w$", "nothing"], "share 'nothing' matched 0 nodes of the scope"),
        (["^x$"], "share '^x$' matched 0 nodes of the scope"),
        (["("], "is not a regular expression"),
    ],
)
def test_what_cannot_be_shared(share: list[str], words: str) -> None:
    refused(MODEL, words, share=share)


def test_nothing_is_left_to_clone() -> None:
    refused([X, const("s/w", [1]), const("s/b", [1])], "nothing would be cloned: all under 's' is shared", share=["."])


def test_a_shared_constant_cannot_be_replaced_where_nothing_cloned_reads_it() -> None:
    found, _ = cloned(MODEL, share=["w$"], inputs=[("s/w", "z")])
    assert graphs.inputs(found)["t/mul"] == ["x", "z"]


# -- edges and places --------------------------------------------------------------------------------------


def test_control_edges() -> None:
    records = [X, neg("before", "x"), neg("s/a", "x", "^before"), neg("s/b", "s/a", "^s/a", "^before"),
               node("s/group", "NoOp", ["^s/b"]), neg("after", "x", "^s/b")]  # fmt: skip
    found, _ = cloned(records)
    assert graphs.inputs(found)["t/a"] == ["x", "^before"]
    assert graphs.inputs(found)["t/b"] == ["t/a", "^t/a", "^before"]
    assert graphs.inputs(found)["t/group"] == ["^t/b"]
    assert graphs.inputs(found)["after"] == ["x", "^s/b"]


def test_colocations() -> None:
    records = [X, neg("ext", "x"), neg("s/a", "x", _class=["loc:@ext"]), neg("s/b", "s/a", _class=["loc:@s/a", "k"]),
               neg("out", "s/b", _class=["loc:@s/b"])]  # fmt: skip
    found, _ = cloned(records)
    assert graphs.colocations(found) == {
        "s/a": [b"loc:@ext"], "s/b": [b"loc:@s/a", b"k"], "out": [b"loc:@s/b"], "t/a": [b"loc:@ext"],
        "t/b": [b"loc:@t/a", b"k"],
    }  # fmt: skip


# -- loops and branches ------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_two_clones_of_a_loop_run_in_one_session() -> None:
    found = graph(*LOOP, scalar("other", 10))
    first = clone_scope(found, "w", "v")
    second = clone_scope(found, "w", "u/w", inputs=[("start", "other")])
    assert "while loop 'w' runs as 'v' in the clone" in first.notes
    assert "while loop 'w' runs as 'u/w' in the clone" in second.notes
    for n in (0, 1, 3):
        values = run(found, "w/Exit_v", "v/Exit_v", "u/w/Exit_v", "out", n=n)
        assert values[0] == values[1] == values[3] == run(graph(*LOOP), "out", n=n)[0]
        assert values[2] == {0: 10.0, 1: 23.0, 3: 101.0}[n]


@pytest.mark.tensorflow
def test_a_clone_of_a_clone_of_a_loop() -> None:
    found = graph(*LOOP)
    clone_scope(found, "w", "v")
    found = from_bytes(graphs.written(found))
    clone_scope(found, "v", "u")
    frames = {n.name.split("/")[0]: n.attr["frame_name"].s for n in graphs.parsed(found).node if n.op == "Enter"}
    assert len(set(frames.values())) == 3
    assert run(found, "w/Exit_v", "v/Exit_v", "u/Exit_v", n=3) == [29.0] * 3


def test_a_frame_whose_name_is_in_use() -> None:
    """The name of a frame is no name of a node: it may be taken where the scope is free."""
    taken = node("other/Enter", "Enter", ["start"], T=FLOAT, frame_name="v", is_constant=True, parallel_iterations=10)
    _, result = cloned([*LOOP, taken], "w", "v")
    assert "while loop 'w' runs as 'v_1' in the clone" in result.notes


def test_half_a_loop_is_refused() -> None:
    def renamed(names: Sequence[str]) -> list[bytes]:
        found = graph(*LOOP)
        found.rename({found[f"w/{name}"]: f"half/{name}" for name in names})
        return [graphs.node("unused_", "NoOp"), *[b"\x0a" + _varint(len(b)) + b for b in graphs.bodies(found)]]

    refused(renamed(["Enter", "Merge", "Switch", "i"]), "the while loop 'w'", "half")
    refused(renamed(["Merge"]), "cannot be copied without the rest of the while loop 'w'", "half")
    refused(renamed(["NextIteration"]), "cannot be copied without the rest of the while loop 'w'", "half")
    cloned(renamed(["two", "double", "plus"]), "half")


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


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


def table(scope: str, shared_name: str, init: str) -> list[bytes]:
    """A table, what fills it (INIT, with its own keys and values), and what looks it up."""
    return [
        node(f"{scope}/table", "HashTableV2", key_dtype=INT32, value_dtype=FLOAT, shared_name=shared_name),
        const(f"{init}/keys", [1, 2], INT32),
        const(f"{init}/values", [5, 6]),
        node(f"{init}/fill", "LookupTableImportV2", [f"{scope}/table", f"{init}/keys", f"{init}/values"], Tin=INT32,
             Tout=FLOAT),
        scalar(f"{scope}/default", -1),
        node(f"{scope}/find", "LookupTableFindV2", [f"{scope}/table", "k", f"{scope}/default"], Tin=INT32, Tout=FLOAT),
    ]  # fmt: skip


KEYS = placeholder("k", INT32, (2,))


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
    assert init == "s/init" or any("to be initialised by 't/init/fill'" in note for note in result.notes)
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
    from gdsurgeon.proof.executor import Refused

    with pytest.raises(Refused) as caught:
        initialised(data, targets, *fetches, **feeds)
    return caught.value


def variable(scope: str, init: str, *, resource: bool = False) -> list[bytes]:
    """A variable with its initial value (twice 3 and 4) under INIT, and what reads it."""
    value = [const(f"{init}/value", [3, 4]), add(f"{init}/twice", f"{init}/value", f"{init}/value")]
    if resource:
        return [
            node(f"{scope}/v", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name=f"{scope}/v"),
            *value,
            node(f"{init}/Assign", "AssignVariableOp", [f"{scope}/v", f"{init}/twice"], dtype=FLOAT),
            node(f"{scope}/read", "ReadVariableOp", [f"{scope}/v"], dtype=FLOAT),
            node(f"{scope}/mul", "Mul", ["x", f"{scope}/read"], T=FLOAT),
        ]
    return [
        node(f"{scope}/v", "VariableV2", dtype=FLOAT, shape=(2,), shared_name="", container=""),
        *value,
        node(f"{init}/Assign", "Assign", [f"{scope}/v", f"{init}/twice"], T=FLOAT, _class=[f"loc:@{scope}/v"]),
        identity(f"{scope}/read", f"{scope}/v", _class=[f"loc:@{scope}/v"]),
        node(f"{scope}/mul", "Mul", ["x", f"{scope}/read"], T=FLOAT),
    ]


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
    assert "1 variable cloned" in result.notes
    assert any("'t/init/Assign'" in note for note in result.notes)
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
    """The table is filled by way of another handle of it, which is not under the scope: refused, or the clone works."""
    records = [KEYS, *table("s", "the_table", "s/unused"), *table("filler", "the_table", "init")]
    records.append(identity("y", "s/find"))
    records = [r for r in records if b"s/unused" not in r and b"filler/find" not in r]
    found = graph(*records)
    try:
        clone_scope(found, "s", "t")
    except EditError:
        assert not found.is_changed
        return
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
    holding = function(
        "count", {"x": FLOAT}, {"o": (FLOAT, "get:value:0")},
        node("h", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name="counter"),
        node("set", "AssignVariableOp", ["h:resource:0", "x"], dtype=FLOAT),
        node("get", "ReadVariableOp", ["h:resource:0", "^set"], dtype=FLOAT), effects=["set", "get"], stateful=True,
    )  # fmt: skip
    plain = function("plain", {"x": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "x"))
    records = [X, call("s/a", "count", ["x"], [FLOAT], [FLOAT], stateful=True),
               call("s/b", "plain", ["s/a"], [FLOAT], [FLOAT]), identity("y", "s/b"),
               library(holding, plain)]  # fmt: skip
    found = graph(*records)
    result = clone_scope(found, "s", "t")
    assert len(result.intent.functions.added) == 1 and len(list(found.functions)) == 3
    assert graphs.attrs(found, "t/b")["f"].func.name == "plain"
    assert graphs.attrs(found, "t/a")["f"].func.name == result.intent.functions.added[0]
    assert run(found, "y", "t/b", x=[1.0, 2.0]) == [[-1.0, -2.0]] * 2


def test_a_placeholder_under_the_scope() -> None:
    records = [X, placeholder("s/in", FLOAT, (2,)), add("s/sum", "s/in", "x"), identity("y", "s/sum")]
    found, _ = cloned(records)
    check_graph(found, *records, placeholder("t/in", FLOAT, (2,)), add("t/sum", "t/in", "x"))


# -- any graph ---------------------------------------------------------------------------------------------


@settings(max_examples=120)
@given(graphs.random_graphs(), st.sampled_from(["a", "b", "a/b", "x", "node"]), st.booleans())
def test_a_clone_leaves_every_byte_of_the_originals(drawn: graphs.Drawn, scope: str, unique: bool) -> None:
    found = from_bytes(drawn.data)
    under = [n.name for n in drawn.message.node if n.name == scope or n.name.startswith(f"{scope}/")]
    try:
        result = clone_scope(found, scope, "b", unique=unique)
    except EditError:
        used = any(n.name == "b" or n.name.startswith("b/") for n in drawn.message.node)
        assert not under or scope == "b" or (used and not unique)
        assert graphs.written(found) == drawn.data
        return
    after = graphs.bodies(found)
    assert after[: len(drawn.message.node)] == graphs.bodies(drawn.data)
    assert len(result.intent.added) == len(under) == len(after) - len(drawn.message.node)
    assert set(result.intent.added).isdisjoint(n.name for n in drawn.message.node)
    assert check(from_bytes(graphs.written(found))).faults == []


@pytest.mark.tensorflow
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(dags(), st.sampled_from(["s", "t", "t/u"]))
def test_a_clone_computes_what_the_original_computes(case: tuple[list[bytes], list[str]], scope: str) -> None:
    records, _ = case
    found = graph(*records)
    try:
        result = clone_scope(found, scope, "clone")
    except EditError as error:
        assert "there is no scope" in error.message
        return
    claim = result.claims[1]
    assert isinstance(claim, SameGiven)
    fetches = [n for pair in claim.outputs for n in pair if found[n.partition(":")[0]].output_dtypes]
    values = outcome(found, *fetches, x=[0.75, -2.0]) if fetches else []
    assert isinstance(values, list), values
    assert values[::2] == values[1::2]


# -- the command -------------------------------------------------------------------------------------------


class Command:
    """`gdsurgeon clone-scope model.pb s t`, with what it says and writes."""

    def __init__(self, folder: Path, read: Callable[[], Any]) -> None:
        self.folder, self._read = folder, read

    def __call__(self, records: Sequence[bytes], *options: str) -> tuple[int, str, dict[str, Any]]:
        terminal.__init__()  # type: ignore[misc]
        self._read()
        model, out, report = (self.folder / name for name in ("model.pb", "out.pb", "report.json"))
        model.write_bytes(graph_bytes(*records))
        for old in (out, report):
            old.unlink(missing_ok=True)
        code = exit_code(["clone-scope", str(model), *options, "-o", str(out), "--report", str(report)])
        said = self._read().err
        assert "Traceback" not in said and "internal fault" not in said, said
        assert out.exists() == (code == 0) and report.exists() == (code in (0, 3, 4, 5, 7)), said
        return code, said, json.loads(report.read_text()) if code == 0 else {}


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys.readouterr)


def pairs_of(report: dict[str, Any]) -> set[tuple[str, str]]:
    return {(o["original"], o["edited"]) for o in report["proof"]["outputs"] if o["compared"] and o["equal"]}


@pytest.mark.tensorflow
def test_a_clone_is_proven(command: Command) -> None:
    code, said, report = command(MODEL, "s", "t", "--input", "x=z")
    assert code == 0, said
    assert report["proof"]["statement"] == "edited(x) = original(x), t(x) = s(x)"
    assert pairs_of(report) == {("y", "y"), ("s/add", "t/add")}
    assert "bit-identical" in said


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "records",
    [
        [X, *layer("s", "x"), neg("y", "s/add")],
        [X, placeholder("s/in", FLOAT, (2,)), add("s/sum", "s/in", "x"), identity("y", "s/sum")],
        [KEYS, *table("s", "s/table", "s/init"), identity("y", "s/find")],
        [KEYS, *table("s", "s/table", "init"), identity("y", "s/find")],
        [X, *variable("s", "s/init"), identity("y", "s/mul")],
        [X, *variable("s", "init"), identity("y", "s/mul")],
        [r.replace(b"w/", b"s/") for r in LOOP],
        [X, const("s/n", [2], INT32), node("s/r", "RandomUniform", ["s/n"], T=INT32, dtype=FLOAT),
         node("s/mul", "Mul", ["s/r", "x"], T=FLOAT), identity("y", "s/mul")],
    ],
    ids=["layer", "placeholder", "table", "table filled outside", "variable", "variable set outside", "loop", "random"],
)  # fmt: skip
def test_scopes_of_all_kinds_are_proven(command: Command, records: list[bytes]) -> None:
    code, said, report = command(records, "s", "t")
    assert code == 0, said
    assert any(new.startswith("t/") for _, new in pairs_of(report)), report["proof"]


@pytest.mark.tensorflow
def test_a_clone_that_is_wrong_is_caught(tmp_path: Path) -> None:
    (tmp_path / "model.pb").write_bytes(graph_bytes(*MODEL))

    def spoilt(how: Callable[[Graph], None]) -> Callable[[Graph], EditResult]:
        def edit(found: Graph) -> EditResult:
            result = clone_scope(found, "s", "t", inputs=[("x", "z")])
            how(found)
            return result

        return edit

    def weight(found: Graph) -> None:
        found.set_attr(found["t/w"], "value", tensor([2.000001, 3]))

    def op(found: Graph) -> None:
        found.set_op(found["t/add"], "Sub")

    def source(found: Graph) -> None:
        found.set_inputs(found["t/mul"], [found["x"].output, found["t/w"].output])

    def original(found: Graph) -> None:
        found.set_attr(found["s/w"], "value", tensor([2.000001, 3]))

    for how in (weight, op, source, original):
        with pytest.raises(Exception, match="the result differs"):
            operate(Request(str(tmp_path / "model.pb"), out=str(tmp_path / "out.pb")), spoilt(how))
        assert not (tmp_path / "out.pb").exists()


@pytest.mark.tensorflow
def test_a_graph_that_runs_on_no_feed_is_given_up_soon(command: Command) -> None:
    """Sounds are made for the input, and not by the million where its shape is not known."""
    records = [
        node("sound", "Placeholder", dtype=STRING),
        node("s/wav", "DecodeWav", ["sound"], desired_channels=1, desired_samples=-1),
        const("s/odd", [7, 11, 13], INT32),
        node("s/cut", "Reshape", ["s/wav", "s/odd"], T=FLOAT, Tshape=INT32),
        identity("y", "s/cut"),
    ]
    with within(15):
        code, said, _ = command(records, "s", "t")
    assert code == 7 and "does not run on the feeds made for it" in said


@pytest.mark.tensorflow
def test_options(command: Command) -> None:
    taken = [*MODEL, const("t/x", [1, 1])]
    code, said, _ = command(taken, "s", "t")
    assert code == 4 and "the scope 't' is in use" in said and "--unique" in said
    code, said, report = command(taken, "s", "t", "--unique", "--share", "w$", "--share", "/b$")
    assert code == 0, said
    assert sorted(report["edit"]["added"]) == ["t_1/add", "t_1/mul"]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["s"], 2, "DST"),
        (["s", "t", "--input", "x"], 2, "'x' is not a pair OLD=NEW"),
        (["s", "t", "--input", "x=d"], 4, "dtypes differ"),
        (["tower", "t"], 4, "there is no scope 'tower'"),
        (["s", "t", "--share", "mul"], 4, "'s/mul' cannot be shared"),
    ],
)
def test_errors(command: Command, options: list[str], code: int, words: str) -> None:
    found, said, _ = command([*MODEL, placeholder("d", DOUBLE, (2,))], *options, "--validate", "none")
    assert found == code and words in said
