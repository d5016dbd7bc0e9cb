"""simplify on the published graphs that other tools get wrong, each proven by running."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.published import ABSENT, FOLDER

from gdsurgeon.cli.main import exit_code
from gdsurgeon.graph.load import load

pytestmark = [
    pytest.mark.models,
    pytest.mark.tensorflow,
    pytest.mark.kernels,
    pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT),
]


def test_a_detector_with_loops_finds_what_it_found(tmp_path: Path) -> None:
    """What the Graph Transform Tool makes of it finds nothing on these feeds, where the graph finds a face; offline
    Grappler has a weight of it for each Enter."""
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
