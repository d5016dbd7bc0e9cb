"""Small edits of published graphs: loops of version 1, smaller weights, and simplify, each proven by running."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support import graphs
from support.desk import Desk
from support.published import FOLDER, needs_models
from support.running import outcome

from gdsurgeon.cli.main import exit_code
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


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_detector_keeps_what_it_chooses_from(desk: Desk) -> None:
    """Boxes that a suppression puts in another order are not compared; the raw ones are, and their scores."""
    model = str(FOLDER / "od_hand_ssd_frozen_synth.pb")
    wanted = ["--dtype", "float16", "--tolerance", "0.05", "--samples", "1", "-o", "half.pb", "--report", "report.json"]
    desk.done("quantize", model, *wanted)
    report = json.loads(desk.files()["report.json"])
    compared = {each["edited"]: each["of_largest"] for each in report["proof"]["outputs"] if each["compared"]}
    assert compared.keys() == {"Postprocessor/ExpandDims_1", "Postprocessor/Slice"}
    assert 0 < max(compared.values()) < 0.05
    assert report["edit"]["bytes_after"] < 0.53 * report["edit"]["bytes_before"]


@pytest.mark.tensorflow
@pytest.mark.kernels
def test_a_detector_with_loops_finds_what_it_found(tmp_path: Path) -> None:
    """The result of the Graph Transform Tool finds nothing on these feeds, but the graph finds a face; offline
    Grappler duplicates a weight for each Enter."""
    model, out, told = FOLDER / "mtcnn.pb", tmp_path / "out.pb", tmp_path / "report.json"
    assert exit_code(["simplify", str(model), "-o", str(out), "--samples", "1", "--report", str(told), "-q"]) == 0
    proof = json.loads(told.read_text())["proof"]
    found = {output["original"]: output for output in proof["outputs"]}
    assert [found[name]["shape"][0] for name in ("prob", "landmarks", "box")] == [1, 1, 1]
    assert all(output["equal"] for output in found.values())
    assert proof["grappler"]["difference"] == 0.0
    before, after = load(str(model)), load(str(out))
    assert after.file_bytes <= before.file_bytes
    for op in ("Const", "Enter"):
        assert sum(n.op == op for n in after.nodes()) <= sum(n.op == op for n in before.nodes())
