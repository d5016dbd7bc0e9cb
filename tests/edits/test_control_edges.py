"""control; the numbers are those of the section on control inputs of the specification."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from support import graphs
from support.desk import Desk, check_error
from support.expecting import expect, refused, sound
from support.graphs import INT32, add, const, g8, graph, identity, inputs, node
from support.paths import FIXTURES
from support.v1_control_flow import cond

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.control_edges import Edge, control_edges
from gdsurgeon.graph.graph import Graph


def becomes(
    found: Graph, after: dict[str, list[str]], *, add: Sequence[Edge] = (), remove: Sequence[Edge] = ()
) -> EditResult:
    """The result of the edit, after which FOUND is sound and the nodes of AFTER have these inputs."""
    result = control_edges(found, add=add, remove=remove)
    assert {name: inputs(found)[name] for name in after} == after
    assert result.intent.changed == list(after)
    assert sound(found)
    return result


def test_removing() -> None:
    after = [*g8()[:-1], graphs.add("foo/bar/h", "foo/bar/f", "foo/bar/g")]
    command = "control-edges --remove foo/bar/h=^foo/c"
    result = expect(g8(), lambda g: control_edges(g, remove=[("foo/bar/h", "^foo/c")]), after, command=command)
    assert result.intent.changed == ["foo/bar/h"]


def test_all_control_inputs_of_a_node() -> None:
    found = graph(const("a", [1]), const("b", [1]), identity("c", "a", "^a", "^b"))
    result = becomes(found, {"c": ["a"]}, remove=[("c", "*")])
    check_error(result.notes[-1], "unused", {"node": "b"})


E, H = "foo/bar/e", "foo/bar/h"
LONE = [const("k", [1], INT32, ()), identity("kk", "k", kind=INT32)]
LOOP = graphs.loop()


@pytest.mark.parametrize(
    ("records", "edges", "code", "facts"),
    [
        (g8(), {}, "missing-argument", {}),
        (g8(), {"add": [("foo/bar/i", "a")]}, "no-such-node", {"node": "foo/bar/i", "near": H}),
        (g8(), {"add": [(H, "^aa")]}, "no-such-node", {"node": "aa"}),
        (g8(), {"add": [(H, "a:0")]}, "no-such-node", {"node": "a:0"}),
        (g8(), {"add": [(H, "^foo/c")]}, "nothing-to-do", {"node": H, "name": "foo/c"}),
        (g8(), {"add": [(H, "^foo/c")], "remove": [(H, "foo/c")]}, "nothing-to-do", {"node": H, "name": "foo/c"}),
        (g8(), {"add": [(E, "^a"), (E, "a")]}, "given-twice", {"node": E, "name": "a"}),
        (g8(), {"remove": [(H, "a")]}, "no-such-input", {"node": H, "name": "a", "found": ["foo/c"]}),
        (g8(), {"remove": [(E, "^*")]}, "no-such-input", {"node": E, "found": []}),
        (g8(), {"add": [("a", "a")]}, "waits-for-itself", {"node": "a"}),
        (g8(), {"add": [("a", H)]}, "would-cycle", {"count": 4}),
        (g8()[:2], {"add": [("a", "foo/b"), ("foo/b", "a")]}, "would-cycle", {"count": 2}),
        (LOOP, {"add": [("w/Add", "n")]}, "crosses-loop", {"node": "w/Add", "loops": ["w", None]}),
        ([*LOOP, identity("late", "n", kind=INT32)], {"add": [("late", "w/Add")]}, "crosses-loop", {"node": "late"}),
        ([*LOOP, *LONE, add("sum", "kk", "n", kind=INT32)], {"add": [("k", "w/Identity")]}, "crosses-loop",
         {"node": "sum", "inputs": ["kk", "n"]}),
        (LOOP, {"add": [("w/Merge", "w/NextIteration")]}, "crosses-loop",
         {"node": "w/Merge", "name": "w/NextIteration"}),
        (LOOP, {"add": [("w/Identity", "w/NextIteration")]}, "would-cycle", {}),
    ],
)  # fmt: skip
def test_edges_that_are_refused(
    records: list[bytes], edges: dict[str, list[Edge]], code: str, facts: dict[str, Any]
) -> None:
    refused(graph(*records), code, partial(control_edges, **edges), **facts)


def test_a_long_cycle_is_told_shortly() -> None:
    long = graph(const("n0", [1]), *(identity(f"n{i + 1}", f"n{i}") for i in range(100)))
    error = refused(long, "would-cycle", partial(control_edges, add=[("n0", "n100")]), count=101)
    assert len(error.message) < 200 and len(error.facts["nodes"]) == 20


AB = [const("a", [1]), const("b", [1])]


@pytest.mark.parametrize(
    ("records", "edges", "after"),
    [
        ([*AB, identity("c", "a", "^a", "^a")], {"remove": [("c", "a")]}, {"c": ["a"]}),
        ([*AB, identity("c", "a", "^a")], {"add": [("c", "b")], "remove": [("c", "a")]}, {"c": ["a", "^b"]}),
        ([*AB, identity("c", "a", "^gone")], {"remove": [("c", "^gone")]}, {"c": ["a"]}),
        ([*AB, identity("c", "a"), node("w", "NoOp", ["^c"])], {"add": [("c", "w")], "remove": [("w", "c")]},
         {"c": ["a", "^w"], "w": []}),
        ([node("a", "NoOp", ["^b"]), node("b", "NoOp", ["^a"])], {"remove": [("a", "b")]}, {"a": []}),
        (LOOP, {"add": [("w/Add", "w/Less"), ("out", "n"), ("w/Enter", "n"), ("w/NextIteration", "w/one")]},
         {"w/Add": ["w/Identity", "w/one", "^w/Less"], "out": ["w/Exit", "^n"], "w/Enter": ["zero", "^n"],
          "w/NextIteration": ["w/Add", "^w/one"]}),
        ([*LOOP, *LONE], {"add": [("k", "w/Identity")]}, {"k": ["^w/Identity"]}),
    ],
    ids=["given twice", "both at once", "no node stands behind it", "a cycle opened in the same edit", "opened later",
         "inside a loop", "a constant enters the frame of what it waits for"],
)  # fmt: skip
def test_control_inputs(records: list[bytes], edges: dict[str, list[Edge]], after: dict[str, list[str]]) -> None:
    becomes(graph(*records), after, **edges)


def test_waiting_for_a_branch_that_may_not_be_taken_is_warned_of() -> None:
    records = cond(identity("late", "x"))
    (warning,) = control_edges(graph(*records), add=[("late", "c/neg")]).warnings
    check_error(warning, "crosses-branch", {"node": "late", "name": "c/neg"})
    assert control_edges(graph(*records), add=[("c/neg", "c/x_f"), ("late", "c/Merge")]).warnings == []


@pytest.mark.parametrize(
    ("arguments", "code", "facts"),
    [
        (["--add", "total"], "not-a-pair", {"option": "--add", "value": "total"}),
        (["--add", "total="], "not-a-pair", {"value": "total="}),
        (["--add", "total=^"], "not-a-pair", {"value": "total=^"}),
        (["--remove", "total=values"], "bad-value", {"option": "--remove", "near": "total=^values"}),
    ],
)
def test_the_command_refuses(arguments: list[str], code: str, facts: dict[str, Any], desk: Desk) -> None:
    model = str(FIXTURES / "control_edges.pb")
    desk.refused(2, code, "control-edges", model, *arguments, "-o", "out.pb", "--validate", "structure", **facts)
