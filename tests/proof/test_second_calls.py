"""What a graph keeps from call to call: a mistake that the first call does not show is seen in the second."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.desk import check_error
from support.graphs import Builder
from support.operating import operated, refused
from support.spoiling import Edit, Spoil, spoilt, without_controls

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.attrs import string_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.proof import DiffersError

pytestmark = pytest.mark.tensorflow


def counter(m: Builder, scope: str, table: str) -> str:
    """Adds a node that gives how often the graph was called before, kept in the TABLE."""
    m.node(f"{scope}table", "MutableHashTableV2", key_dtype="int64", value_dtype="int64", shared_name=table)
    m.const(f"{scope}key", [1], "int64")
    m.const(f"{scope}none", 0, "int64")
    m.const(f"{scope}one", [1], "int64")
    types = {"Tin": "int64", "Tout": "int64"}
    m.node(f"{scope}count", "LookupTableFindV2", [f"{scope}table", f"{scope}key", f"{scope}none"], **types)
    m.node(f"{scope}more", "AddV2", [f"{scope}count", f"{scope}one"], T="int64")
    m.node(f"{scope}keep", "LookupTableInsertV2", [f"{scope}table", f"{scope}key", f"{scope}more"], **types)
    m.node(f"{scope}calls", "Identity", [f"{scope}count", f"^{scope}keep"], T="int64")
    return f"{scope}calls"


def counting(inputs: bool = False) -> Builder:
    m = Builder()
    name = counter(m, "net/", "calls")
    if inputs:
        m.placeholder("x", "float32", (1, 3))
        m.node("z", "Neg", ["x"], T="float32")
    m.node("y", "Identity", [name], T="int64")
    return m


RENAMED: Edit = lambda g: gds.rename(g, [("y", "z2")])  # noqa: E731
CLONED: Edit = lambda g: gds.clone_scope(g, "net", "net2")  # noqa: E731


@pytest.mark.parametrize("inputs", [True, False])
@pytest.mark.parametrize("samples", [1, 2])
def test_a_right_edit_of_a_graph_that_counts_is_proven_by_two_calls(inputs: bool, samples: int, tmp_path: Path) -> None:
    outcome = operated(tmp_path, counting(inputs), RENAMED, samples=samples)
    assert outcome.proof.samples == 2 and outcome.proof.compared


@pytest.mark.parametrize("inputs", [True, False])
def test_a_control_edge_that_is_lost_shows_in_the_second_call(inputs: bool, tmp_path: Path) -> None:
    error = refused(tmp_path, counting(inputs), spoilt(RENAMED, without_controls("net/calls")), samples=1)
    assert error.exit_code == 5
    check_error(error, "differs", {"sample": 2})


def shared(graph: Graph, result: EditResult) -> None:
    """The clone counts in the table of the original, and after it: which of them is first would be left to chance."""
    graph.set_attr(graph["net2/table"], "shared_name", string_value("calls").SerializeToString())
    graph.set_controls(graph["net2/count"], [graph["net/keep"]])


def test_the_clone_of_a_counter_counts_on_its_own(tmp_path: Path) -> None:
    assert operated(tmp_path, counting(), CLONED).proof.compared


def test_a_counter_that_is_shared_with_its_clone_shows(tmp_path: Path) -> None:
    spoil: Spoil = shared
    error = refused(tmp_path, counting(), spoilt(CLONED, spoil), samples=1)
    assert error.exit_code == 5
    assert error.code == "differs"


def test_two_models_of_which_one_forgets(tmp_path: Path) -> None:
    m = counting(inputs=True)
    path = m.write(tmp_path / "model.pb")
    graph = m.graph("model.pb")
    graph.set_controls(graph["net/calls"], [])
    graph.save(str(tmp_path / "other.pb"))
    assert gds.validate(path, path).proof.samples == 2  # type: ignore[union-attr]
    with pytest.raises(DiffersError):
        gds.validate(path, str(tmp_path / "other.pb"))
