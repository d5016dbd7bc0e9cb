"""--changes-values: an edit that changes values on purpose; how far outputs moved is measured."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.desk import Desk
from support.graphs import Builder
from support.spoiling import Edit, caught, exchanged, proven, spoilt

from gdsurgeon.edits.claims import EditResult, on_purpose
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.insert import insert
from gdsurgeon.edits.reroute import reroute
from gdsurgeon.edits.rewrite import rewrite
from gdsurgeon.edits.set_attr import set_attr
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor
from gdsurgeon.select import Selection

pytestmark = pytest.mark.tensorflow


def model() -> Builder:
    """`y` and the choice of the largest, `best`, depend on a Relu, `apart` does not."""
    m = Builder()
    m.placeholder("x", "float32", (2, 3))
    m.const("w", [1.0, -2.0, 3.0])
    m.node("scaled", "Mul", ["x", "w"], T="float32")
    m.node("relu", "Relu", ["scaled"], T="float32")
    m.node("y", "Sub", ["relu", "w"], T="float32")
    m.const("axis", 1, "int32")
    m.node("ranked", "Mul", ["relu", "w"], T="float32")
    m.node("best", "ArgMax", ["ranked", "axis"], T="float32", Tidx="int32", output_type="int64")
    m.node("apart", "Sub", ["x", "w"], T="float32")
    return m


def body() -> Graph:
    p = Builder()
    p.placeholder("in", "float32", (2, 3))
    p.node("out", "Neg", ["in"], T="float32")
    return p.graph("body.pb")


RELU = Selection(nodes=("relu",))
EDITS: dict[str, Edit] = {
    "set-attr": lambda g: set_attr(g, RELU, [("op", "Elu")]),
    "rewrite": lambda g: rewrite(g, "Relu($x) -> Neg($x)"),
    "reroute": lambda g: reroute(g, [("relu", "scaled")]),
    "insert": lambda g: insert(g, "relu", body()),
    "insert several": lambda g: insert(g, ["relu", "scaled"], body()),
    "fuse-ops --with": lambda g: fuse_ops(g, RELU, "f", body=body()),
}


def purposely(edit: Edit) -> Edit:
    def changing(graph: Graph) -> EditResult:
        result = edit(graph)
        return replace(result, claims=on_purpose(result.claims))

    return changing


@pytest.mark.parametrize("name", EDITS)
def test_what_moves_is_measured_and_the_rest_is_the_same(name: str, executor: Executor) -> None:
    proof = proven(executor, model(), purposely(EDITS[name]))
    found = {output.before: output for output in proof.outputs}
    moved = {name for name, output in found.items() if output.moved is not None}
    assert {"y", "best"} <= moved <= {"y", "best", "ranked"}
    assert found["y"].moved is not None and (found["y"].moved.max_abs or 0.0) > 0.1
    assert found["apart"].comparison is not None and found["apart"].comparison.equal
    error = caught(executor, model(), spoilt(purposely(EDITS[name]), exchanged("apart")))
    assert error.exit_code == 5


@pytest.mark.parametrize("name", ["rewrite", "fuse-ops --with"])
def test_otherwise_they_are_to_be_the_same(name: str, executor: Executor) -> None:
    assert caught(executor, model(), EDITS[name]).code == "differs"


def test_the_result_has_to_run(executor: Executor) -> None:
    m = model()
    m.const("seven", 7, "int32")
    error = caught(executor, m, purposely(lambda g: reroute(g, [("axis", "seven")])))
    assert error.code in ("does-not-run", "does-not-load")


@pytest.mark.parametrize("script", [False, True])
def test_on_the_command_line(desk: Desk, script: bool) -> None:
    desk.put("m.pb", model().bytes())
    desk.put("s.gds", b"rename x=image\nrewrite 'Relu($x) -> Neg($x)' --changes-values\n")
    edit = ("apply", "m.pb", "s.gds") if script else ("rewrite", "m.pb", "Relu($x) -> Neg($x)", "--changes-values")
    ran = desk.run(*edit, "-o", "out.pb", "--report", "r.json")
    assert ran.code == 0, ran.err
    outputs = {o["edited"]: o for o in json.loads(desk.files()["r.json"])["proof"]["outputs"] if "measured" in o}
    assert outputs["y"]["measured"]["max_abs_difference"] > 0.1
