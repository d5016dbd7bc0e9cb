"""PRE and POST that do not fit in shape: refused before anything is run, with both shapes."""

from __future__ import annotations

import pytest
from support.desk import Desk, check_refused
from support.graphs import FLOAT, add, const, graph_bytes, identity, placeholder

MODEL = graph_bytes(placeholder("x", FLOAT, (-1, 4)), const("c", [1, 2, 3, 4]), add("y", "x", "c"))
LOOSE = graph_bytes(placeholder("x", FLOAT), const("c", [1, 2, 3, 4]), add("y", "x", "c"))
PRE = graph_bytes(placeholder("x", FLOAT, (-1, 3)), identity("x_preprocessed", "x"))
POST = graph_bytes(placeholder("y", FLOAT, (-1, 3)), identity("y_postprocessed", "y"))
ADDING = graph_bytes(placeholder("y", FLOAT), const("c3", [1, 2, 3]), add("y_postprocessed", "y", "c3"))

MISFITS = {
    "pre": (MODEL, "add-preprocessing", PRE, ("is float32 [?,3]", "'x' of model.pb takes float32 [?,4]")),
    "pre, far": (LOOSE, "add-preprocessing", PRE, ("is float32 [?,3]", "cannot be that: [?,3] and [4] cannot be")),
    "post": (MODEL, "add-postprocessing", POST, ("'y' of model.pb is float32 [?,4]", "part.pb takes float32 [?,3]")),
    "post, far": (MODEL, "add-postprocessing", ADDING, ("is float32 [?,4]", "cannot be that: [?,4] and [3] cannot be")),
}


@pytest.mark.parametrize("case", MISFITS)
def test_what_does_not_fit_in_shape_is_refused(case: str, desk: Desk) -> None:
    model, command, part, words = MISFITS[case]
    desk.put("model.pb", model)
    desk.put("part.pb", part)
    check_refused(desk, 4, words, command, "model.pb", "part.pb", "--validate", "structure")


def test_a_part_is_not_blamed_for_what_was_wrong_before(desk: Desk) -> None:
    wrong = add("wrong", "c", "three")
    broken = (placeholder("x", FLOAT, (-1, 3)), const("c", [1, 2, 3, 4]), const("three", [1, 2, 3]), wrong)
    desk.put("model.pb", graph_bytes(*broken, identity("y", "x")))
    desk.put("part.pb", PRE)
    assert desk.run("add-preprocessing", "model.pb", "part.pb", "--validate", "none", "-o", "out.pb").code == 0
