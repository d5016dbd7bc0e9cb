"""gds.operate and gds.prove: their results, their events, and the files after an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.desk import check_raised
from support.graphs import Builder, const, placeholder, typed
from support.spoiling import spoilt

import gdsurgeon as gds
import gdsurgeon.operation.edit  # the room does not hide the function
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.errors import EditError, UsageError, ValidationError


@pytest.fixture
def model(tmp_path: Path) -> str:
    m = Builder(placeholder("x", shape=(2,)), const("two", 2.0), typed("Mul", "y", "x", "two"))
    return m.write(tmp_path / "model.pb")


def renamed(graph: gds.Graph) -> EditResult:
    return gds.rename(graph, [("y", "out")])


def wrong(graph: gds.Graph) -> EditResult:
    """An edit that claims what is not so."""
    gds.set_attr(graph, ["y"], [("op", "AddV2")])
    return EditResult(Intent(changed=["y"]), (SameOutputs(),))


def test_the_result_is_written(model: str, tmp_path: Path) -> None:
    outcome = gds.operate(model, renamed, out=str(tmp_path / "out.pb"), level="structure")
    assert [node.name for node in gds.load(outcome.out).nodes()] == ["x", "two", "out"]
    assert (outcome.proof.level, outcome.result.intent.renamed) == ("structure", {"y": "out"})


def test_a_dry_run_and_the_default_output(model: str, tmp_path: Path) -> None:
    outcome = gds.operate(model, renamed, dry_run=True, level="none")
    assert outcome.counts_before.ops is outcome.counts_after.ops is None  # no index was made of the file
    assert [path.name for path in tmp_path.iterdir()] == ["model.pb"]
    gds.operate(model, renamed, level="none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.edited.pb", "model.pb"]


def test_what_is_refused_leaves_nothing(model: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.pb")
    with pytest.raises(EditError, match="no node 'z'"):
        gds.operate(model, lambda graph: gds.rename(graph, [("z", "a")]), out=out, level="structure")
    with pytest.raises(UsageError, match="'somewhat' is not a level"):
        gds.operate(model, renamed, out=out, level="somewhat")
    with pytest.raises(UsageError, match="'none' is not a level"):
        gds.prove(gds.load(model), gds.load(model), renamed(gds.load(model)), level="none")
    assert [path.name for path in tmp_path.iterdir()] == ["model.pb"]


@pytest.mark.tensorflow
def test_the_steps_are_told(model: str, tmp_path: Path) -> None:
    events: list[gds.Event] = []
    outcome = gds.operate(
        model, renamed, out=str(tmp_path / "out.pb"), feeds={"x": [1, 2]}, settings=gds.Settings(samples=3),
        progress=events.append,
    )  # fmt: skip
    assert outcome.proof.samples == 1  # all inputs are given: one run says all
    assert [event.step for event in events] == [
        "loading", "checking", "editing", "staging", "proving", "running", "comparing", "publishing",
    ]  # fmt: skip
    events.clear()
    gds.operate(model, renamed, dry_run=True, settings=gds.Settings(samples=3), progress=events.append)
    assert [event[1:] for event in events if event.step == "running"] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.tensorflow
def test_an_edit_is_proven_in_memory(model: str) -> None:
    graph = gds.load(model)
    result = renamed(graph)
    proof = gds.prove(graph.pristine(), graph, result, feeds={"x": np.array([1.5, 2.0])})
    assert (proof.outputs[0].value, proof.compared, proof.samples) == ("[3, 4]", proof.outputs, 1)
    assert gds.prove(graph.pristine(), graph, result, level="load").level == "load"
    with pytest.raises(UsageError):
        gds.prove(graph.pristine(), graph, result, feeds={"x": np.array(["a"])})


@pytest.mark.tensorflow
def test_a_claim_that_does_not_hold(model: str, tmp_path: Path) -> None:
    graph = gds.load(model)
    result = wrong(graph)
    with pytest.raises(ValidationError):
        gds.prove(graph.pristine(), graph, result, feeds={"x": [1, 5]})
    with pytest.raises(ValidationError):
        gds.operate(model, wrong, out=str(tmp_path / "out.pb"), feeds={"x": [1, 5]})
    assert [path.name for path in tmp_path.iterdir()] == ["model.pb"]


@pytest.mark.parametrize("place", [0, 1])
def test_an_undeclared_change_of_one_of_several_edits_is_reported(model: str, place: int) -> None:
    edits = [renamed, lambda graph: gds.rename(graph, [("out", "z")])]
    assert "z" in gds.apply(gds.load(model), edits).graph
    edits[place] = spoilt(edits[place], lambda graph, _: graph.set_device(graph["two"], "/cpu:0"))
    check_raised(ValidationError, "undeclared-change", lambda: gds.apply(gds.load(model), edits))
