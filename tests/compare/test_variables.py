"""Values of variables: in checkpoints, in none, and in a frozen graph as constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import meta_graphs
from support.desk import Desk
from support.graphs import FLOAT, const, graph, identity, node, placeholder

from gdsurgeon.compare.diff import diff
from gdsurgeon.container.load import load
from gdsurgeon.view.difference import counts, lines


@pytest.fixture
def models(desk: Desk) -> Path:
    """Two SavedModels that are the same but for the value of a variable."""
    for name in ("one", "two"):
        meta_graphs.put(desk.folder / name)
    np.save(desk.folder / "v.npy", np.array([3, 5], "float32"))
    prefix = "two/variables/variables"
    assert desk.run("checkpoint", prefix, "--set", f"{meta_graphs.KEY}=@v.npy", "-o", "new").code == 0
    for path in desk.folder.glob("new.*"):
        path.rename(desk.folder / "two/variables" / path.name.replace("new", "variables"))
    return desk.folder


def test_values_in_checkpoints(models: Path) -> None:
    found = diff(load(str(models / "one")), load(str(models / "two")))
    (value,) = found.values
    assert found.names(value.i, value.j) == ("w", "w")
    assert value.distance is not None and value.distance.after == (3.0, 5.0)
    assert (found.weights, found.unread, counts(found).values) == (2, 0, 1)  # the initial value, too
    assert diff(load(str(models / "one")), load(str(models / "two")), {"weights"}).is_empty


def test_equal_values_in_checkpoints(models: Path) -> None:
    found = diff(load(str(models / "one")), load(str(models / "one")))
    assert found.is_empty and (found.weights, found.unread) == (2, 0)


def test_values_that_are_nowhere_are_counted(tmp_path: Path) -> None:
    folder = str(meta_graphs.put(tmp_path / "sm", values=False))
    found = diff(load(folder), load(folder))
    assert found.is_empty and found.unread == 1
    assert lines(found)[-1].endswith("1 variable not compared: no checkpoint has the values")


def test_a_frozen_graph_and_what_it_was_frozen_from() -> None:
    variable = [node("w", "VariableV2", dtype=FLOAT, shape=(2,)), identity("w/read", "w")]
    start = [const("w/initial", [0, 0]), node("w/Assign", "Assign", ["w", "w/initial"], T=FLOAT)]
    trained = graph(placeholder("x"), *variable, *start, node("y", "Mul", ["x", "w/read"], T=FLOAT))
    frozen = graph(placeholder("x"), const("w", [1, 2]), node("y", "Mul", ["x", "w"], T=FLOAT))
    found = diff(trained, frozen)
    assert [(found.names(c.i, c.j), c.details[0][2:4]) for c in found.changes] == [
        (("w", "w"), ("VariableV2", "Const"))
    ]
    assert found.matching is not None
    assert sorted(found.matching.a.names[i] for i in found.removed) == ["w/Assign", "w/initial", "w/read"]
    assert not found.added
