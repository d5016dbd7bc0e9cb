"""A SavedModel in the library: the written forms, and refused requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.shipped import Shipped

import gdsurgeon as gds


@pytest.mark.tensorflow
def test_a_saved_model_is_frozen_as_by_the_command(saved_models: Shipped, tmp_path: Path) -> None:
    path = saved_models.path("resource")
    graph = gds.load(path)
    with pytest.raises(gds.GdsurgeonError) as caught:
        graph.save(tmp_path / "graph.pb")
    assert (caught.value.code, caught.value.facts["kind"]) == ("wrong-format", "SavedModel")
    assert caught.value.hint and not list(tmp_path.iterdir())
    before = graph.copy()
    results = [gds.freeze(graph)]
    results.append(gds.set_device(graph, nodes=gds.Selection(ops="MatMul"), device="/cpu:0"))
    assert gds.prove(before, graph, results).compared
    graph.save(tmp_path / "saved.pb")

    def edit(found: gds.Graph) -> gds.EditResult:
        return gds.freeze(found)

    outcome = gds.operate(path, edit, out=tmp_path / "operated.pb")
    assert outcome.proof.compared and gds.load(outcome.out).serving is None
    together = [edit, lambda g: gds.set_device(g, nodes=gds.Selection(ops="MatMul"), device="/cpu:0")]
    gds.operate(path, together, out=tmp_path / "both.pb", level="structure")
    assert (tmp_path / "both.pb").read_bytes() == (tmp_path / "saved.pb").read_bytes()
    gds.operate(path, lambda g: gds.set_device(g, clear=True), out=tmp_path / "folder", level="structure")
