"""Edits that cannot be proven together are proven one by one, and what is wrong is said of the edit that made it so."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import every_edit, proving
from support.desk import check_error
from support.several import Edit, pieces_of

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.edit import Outcome

pytestmark = pytest.mark.tensorflow


def operated(folder: Path, *edits: Edit) -> Outcome:
    path = folder / "model.pb"
    path.write_bytes(every_edit.built(proving.model))
    return gds.operate(str(path), edits, out=str(folder / "out.pb"))


def shaped(*dims: int) -> Edit:
    return lambda g: gds.set_shape(g, [("x", dims)], batch_check=False)


def test_what_the_first_graph_does_not_take_is_proven_of_each(tmp_path: Path) -> None:
    """The first graph takes one row alone, the last one two: only what is between takes both."""
    outcome = operated(tmp_path, shaped(-1, 4), shaped(2, 4))
    assert pieces_of(outcome.steps) == [2]
    assert outcome.proof.statement == "edit 1: edited(x) == original(x); edit 2: edited(x) == original(x)"
    assert (tmp_path / "out.pb").exists()


def test_the_edit_that_is_wrong_is_named(tmp_path: Path) -> None:
    def wrong(graph: Graph) -> EditResult:
        result = gds.rename(graph, [("total", "sum")])
        graph.set_op(graph["sum"], "AddV2")
        result.intent.changed.append("sum")  # it says so, and nobody has asked for it
        result.asked = None
        return result

    with pytest.raises(ValidationError) as error:
        operated(tmp_path, proving.renaming, wrong, lambda g: gds.rename(g, [("sum", "all")]))
    check_error(error.value, "differs", {"place": "edit 2"})
    assert not (tmp_path / "out.pb").exists()
