"""freeze: a frozen graph gives what the model gives that it was made of."""

from __future__ import annotations

import numpy as np
import pytest
from support.desk import Desk
from support.saved_models import CHECKPOINTS, TRAINED
from support.shipped import SIGNATURES, Shipped, computed

import gdsurgeon as gds
from gdsurgeon.container.load import open_model
from gdsurgeon.graph.serving import Served, Serving


def serving_of(path: str) -> Serving:
    serving = open_model(path).graph.serving
    assert serving is not None
    return serving


@pytest.mark.parametrize(("name", "key"), SIGNATURES)
def test_a_frozen_graph_gives_what_the_model_gave(desk: Desk, saved_models: Shipped, name: str, key: str) -> None:
    path = saved_models.path(name)
    serving = serving_of(path)
    served = Served(*TRAINED) if name in CHECKPOINTS else serving.called[key]
    recorded = saved_models.recorded(name, key)
    inputs = {k: v.astype("S") if v.dtype == object else v for k, v in recorded.inputs.items()}
    np.savez("feeds.npz", **{served.inputs[k].removesuffix(":0"): v for k, v in inputs.items()})
    meant = ("--outputs", "y") if name in CHECKPOINTS else ("--signature", key)
    given = ("--feeds", "feeds.npz") if name == "parsed" else ()
    ran = desk.run("freeze", path, *meant, *given, "-o", "frozen.pb")
    assert ran.code == 0, ran.err
    assert "bit-identical" in ran.err
    assert desk.temporary_files() == []
    initialising = serving.initialising if name.startswith("table") else None
    outputs = computed(str(desk.folder / "frozen.pb"), served, recorded.inputs, initialising)
    assert {k: v.tolist() for k, v in outputs.items()} == {k: v.tolist() for k, v in recorded.outputs.items()}
    frozen = gds.load("frozen.pb")
    kept = [node.op for node in frozen.nodes() if node.op.startswith(("Var", "Restore", "Save", "Assign"))]
    assert kept == (["VarHandleOp", "AssignVariableOp"] if name == "table2" else [])  # which initialise the table
    if initialising is not None:
        (tensor,) = initialising.feeds
        assert f"{tensor!r} fed with where {initialising.feeds[tensor]}" in ran.err
