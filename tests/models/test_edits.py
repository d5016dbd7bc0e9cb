"""Small edits of published graphs: loops of version 1, smaller weights, and simplify, each proven by running."""

from __future__ import annotations

import numpy as np
from support import graphs
from support.published import FOLDER, needs_models
from support.running import outcome

from gdsurgeon.edits.downgrade.control_flow import lower
from gdsurgeon.graph.load import load

pytestmark = needs_models


def test_a_recurrent_network_in_control_flow_of_version_1() -> None:
    """Its loop goes round five times, with lists of tensors; on no row, one and three."""
    found = load(str(FOLDER / "lstm_tf2_frozen_lib.pb"))
    before = graphs.written(found)
    assert lower(found) == {"StatelessWhile": 1}
    assert not len(found.functions) and {"Enter", "Exit", "Merge"} <= set(graphs.ops(found).values())
    for rows in (0, 1, 3):
        given = np.random.default_rng(rows).normal(size=(rows, 5, 3)).astype(np.float32)
        wanted = outcome(before, "Identity", input_1=given)
        assert not isinstance(wanted, str) and outcome(found, "Identity", input_1=given) == wanted
