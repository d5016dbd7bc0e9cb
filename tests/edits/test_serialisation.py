"""Written graphs, by the numbers of the section on serialisation of the specification."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from support import graphs
from support.graphs import add, const, g8, graph, identity, library, neg, node, random_graphs
from support.paths import FIXTURES

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.rename import rename
from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.wire.fields import encode_len

GRAPHS = sorted(FIXTURES.glob("*.pb"))


@pytest.mark.parametrize("path", GRAPHS, ids=lambda p: p.name)
def test_saving_without_an_edit_gives_the_bytes(path: Path, tmp_path: Path) -> None:
    load(str(path)).save(str(tmp_path / "out.pb"))
    assert (tmp_path / "out.pb").read_bytes() == path.read_bytes()


@given(random_graphs())
def test_looking_at_everything_changes_nothing(drawn: graphs.Drawn) -> None:
    found = from_bytes(drawn.data)
    for n in found.nodes():
        _ = n.inputs, n.controls, n.colocated, n.attr_keys, n.output_dtypes, found.users(n), found.colocated_with(n)
    check(found)
    assert not found.is_changed
    assert graphs.written(found) == drawn.data


def test_graphs_that_tensorflow_cannot_load_are_loaded_and_written() -> None:
    records = [node("u", "NotRegistered", ["gone", "^gone_too"]), const("k", [1], _class=["no location"]), *g8()]
    found = graph(*records)
    assert found["u"].inputs[0].name == "gone"
    assert graphs.written(found) == graphs.graph_bytes(*records)
    rename(found, [("k", "kk")])
    assert graphs.inputs(found)["u"] == ["gone", "^gone_too"]
    assert graphs.colocations(found) == {"kk": [b"no location"]}


def test_the_library_and_the_versions_are_carried_over() -> None:
    function = graphs.function("F", neg("y", "x"))
    tail = library(function, gradients={"F": "F"}) + graphs.versions(27) + encode_len(5, b"")
    found = graph(*g8(), trailer=tail)
    rename(found, [("a", "z")])
    assert graphs.written(found).endswith(tail)


def test_control_inputs_come_after_data_inputs() -> None:
    found = graph(const("a", [1]), const("b", [1]), add("y", "a", "a"), identity("z", "a"))
    found.set_controls(found["y"], [found["b"], found["b"]])
    found.set_inputs(found["y"], [found["a"].output, found["b"].output])
    assert graphs.inputs(found)["y"] == ["a", "b", "^b"]
