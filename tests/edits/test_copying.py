"""Copies of nodes, inside their graph and into another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from support import graphs
from support.cloning import table
from support.expecting import account, refused
from support.graphs import (
    FLOAT,
    INT32,
    X,
    add,
    call,
    const,
    define,
    g8,
    graph,
    identity,
    inputs,
    library,
    neg,
    node,
    random_graphs,
    typed,
)
from support.running import outcome, run
from support.v1_control_flow import LOOP, while_loop

from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.edits.node_copies import NodeCopy, copy_in, copy_nodes
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.write import SourceSpan


def copied(found: Graph, names: Sequence[str], **options: Any) -> NodeCopy:
    """Copies nodes to names with the suffix `_copy`; existing nodes must not change by a byte."""
    before = graphs.bodies_by_name(found)
    out = copy_nodes(found, [found[name] for name in names], "{}_copy".format, **options)
    after = graphs.bodies_by_name(found)
    assert {name: after.get(name) for name in before} == before
    assert set(after) - set(before) == {f"{name}_copy" for name in names}
    return out


SHORT = [X, neg("n", "x"), identity("o", "n")]
IN_LOOP = [n.name for n in graphs.parsed(graphs.graph_bytes(*LOOP)).node if n.name.startswith("w/")]


@pytest.mark.parametrize(
    ("records", "names", "name", "code", "facts"),
    [
        (SHORT, ["n", "o"], "o", "name-taken", {"node": "n", "name": "o"}),
        (SHORT, ["n", "o"], "same", "name-taken", {"node": "o", "name": "same"}),
        *((SHORT, ["n", "o"], name, "bad-name", {"name": name.format("n")}) for name in ("_{}", "", "{}:0")),
        ([X, add("y", "x", "gone")], ["y"], "{}_copy", "unsound-graph", {"node": "y", "input": "gone"}),
        ([X, identity("y", "x", "^gone")], ["y"], "{}_copy", "unsound-graph", {"node": "y", "input": "gone"}),
        *((LOOP, [n for n in IN_LOOP if n != name], "{}_copy", "crosses-loop", {"loop": "w"}) for name in
          ("w/Merge", "w/LoopCond", "w/NextIteration", "w/Switch", "w/Less", "w/Enter", "w/i")),
        *((LOOP, [name], "{}_copy", "crosses-loop", {"node": name, "loop": "w"}) for name in
          ("w/Merge", "w/LoopCond", "w/NextIteration")),
    ],
)  # fmt: skip
def test_what_is_not_copied(
    records: list[bytes], names: list[str], name: str, code: str, facts: dict[str, Any]
) -> None:
    refused(graph(*records), code, lambda g: copy_nodes(g, [g[n] for n in names], name.format), **facts)


def test_nodes_of_another_graph() -> None:
    found, other = graph(*SHORT), graph(*SHORT)
    edit = lambda g: copy_nodes(g, [other["o"], other["n"]], "{}_copy".format)  # noqa: E731
    refused(found, "other-graph", edit, other, node="o")


# -- what is copied of a node ------------------------------------------------------------------------------


# -- loops -------------------------------------------------------------------------------------------------


IN = {"T": FLOAT, "frame_name": "w/in", "parallel_iterations": 10}
NESTED = while_loop(
    node("w/in/Enter", "Enter", ["w/v"], is_constant=False, **IN),
    node("w/in/limit", "Enter", ["w/three"], is_constant=True, **IN),
    typed("Merge", "w/in/Merge", "w/in/Enter", "w/in/Next", N=2),
    typed("Less", "w/in/Less", "w/in/Merge", "w/in/limit"),
    node("w/in/Cond", "LoopCond", ["w/in/Less"]),
    typed("Switch", "w/in/Switch", "w/in/Merge", "w/in/Cond"),
    identity("w/in/v", "w/in/Switch:1"),
    add("w/in/twice", "w/in/v", "w/in/v"),
    typed("NextIteration", "w/in/Next", "w/in/twice"),
    typed("Exit", "w/in/Exit", "w/in/Switch"),
    neg("w/less", "w/in/Exit"),
    result="w/less",
)
"""In each round v is doubled until it is 3 or more, and then negated."""


def test_a_loop_in_another() -> None:
    found = graph(*NESTED)
    names = [n for n in found.names() if n.startswith("w/")]
    inner = [n for n in names if n.startswith("w/in/")]
    result = copied(found, [*names, "out"])
    assert set(result.frames) == {"w", "w/in"} and len(set(result.frames.values()) | {"w", "w/in"}) == 4
    assert [run(found, "out", "out_copy", n=n) for n in (0, 1)] == [[1.0] * 2, [-4.0] * 2]
    edit = lambda g: copy_nodes(g, [g[n] for n in names if n != "w/in/Next"], "{}_copy".format)  # noqa: E731
    refused(graph(*NESTED), "crosses-loop", edit, loop="w/in", input="w/in/Next")
    found = graph(*NESTED)
    copied(found, inner)  # into the iteration of the outer loop
    assert run(found, "out", n=1) == [-4.0]


# -- state -------------------------------------------------------------------------------------------------


def handle(name: str, shared_name: str) -> bytes:
    return node(name, "HashTableV2", key_dtype=INT32, value_dtype=FLOAT, shared_name=shared_name, container="")


def test_a_shared_name_in_a_function_and_in_the_graph_is_one_in_the_copy_too() -> None:
    """A table that is filled by a node and looked up by a function, by its name alone."""
    made = define(
        "look", {"k": INT32, "d": FLOAT}, {"o": (FLOAT, "found:values:0")}, handle("t", "the_table"),
        node("found", "LookupTableFindV2", ["t:table_handle:0", "k", "d"], Tin=INT32, Tout=FLOAT), effects=["found"],
        stateful=True,
    )  # fmt: skip
    found = graph(
        const("k", [1, 2], INT32), const("d", 0), *table("s", "the_table", "s"), handle("other", "the_table_1"),
        call("s/y", "look", ["k", "d", "^s/fill"], [INT32, FLOAT], [FLOAT], stateful=True), library(made),
    )  # fmt: skip
    copied(found, [n for n in found.names() if n.startswith("s/")])
    for name in ("s/y", "s/y_copy"):
        assert outcome(found, name) == [[5.0, 6.0]]


def test_a_node_without_definition_still_shares_with_the_copy_of_its_table() -> None:
    found = graph(handle("t", "the_table"), node("u", "MyTableReader", shared_name="the_table"))
    copied(found, ["t", "u"])
    first, second = (graphs.attrs(found, name)["shared_name"].s for name in ("t_copy", "u_copy"))
    assert first == second != b"the_table"


@given(random_graphs(), random_graphs())
def test_any_graph_beside_any_other(ours: graphs.Drawn, theirs: graphs.Drawn) -> None:
    target, other = from_bytes(ours.data), from_bytes(theirs.data)
    result = import_graph(target, other)
    account(target, result)
    names = result.intent.copied
    assert len({*names.values()}) == len(theirs.message.node) and graphs.written(other) == theirs.data
    assert graphs.bodies(target)[: len(ours.message.node)] == graphs.bodies(ours.data)


def test_names_that_are_asked_for() -> None:
    other = graph(identity("y", "k"), const("k", [1]), const("wanted", [1]))
    target = graph(*g8())
    copied = copy_in(target, other, replace={}, names={other["y"]: "wanted"})
    assert inputs(target)["wanted"] == ["k"]
    assert copied.renamed == {"wanted": "wanted_1"}


def test_weights_are_copied_by_span() -> None:
    other = graph(const("big", [1.0] * 100_000))
    target = graph(*g8(), const("big", [1]))
    copy_in(target, other, replace={})
    spans = [c for c in target.chunks() if isinstance(c, SourceSpan) and c.source is other.source]
    assert sum(c.end - c.start for c in spans) > 400_000
    assert sum(len(c) for c in target.chunks() if isinstance(c, bytes)) < 60


def test_a_dangling_colocation_is_left_behind() -> None:
    target, other = graph(*g8()), graph(const("k", [1], _class=["loc:@gone", "loc:@k", "other"]))
    copy_in(target, other, replace={})
    assert graphs.colocations(target) == {"k": [b"loc:@k", b"other"]}
