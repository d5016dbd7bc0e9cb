"""Records of commands: normalisation, and the differences that a comparison finds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
from record_commands import FIELDS, compare, normalised, ran

CALL = ("model.pb", "rename {models}/model.pb")


def run(**fields: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {CALL: {**dict.fromkeys(FIELDS), "verdict": "proven", "exit": 0, "nodes": 40, **fields}}


def test_a_report_is_normalised() -> None:
    report = {
        "seconds": 1.2,
        "model": "/models/a.pb",
        "proof": {"runtime": "TensorFlow", "samples": 2, "memory": {"peak": 1}},
        "/work/x": ["read /work/x/temporary/tmp8_a/part.pb in 0.37 s", 0.37],
    }
    assert normalised(report, {"/models": "{models}", "/work/x": "{here}"}) == {
        "model": "{models}/a.pb",
        "proof": {"samples": 2},
        "{here}": ["read {temporary}/part.pb in … s", 0.37],
    }


def test_values_of_models_with_random_ops_are_not_compared() -> None:
    old, new = ({"optimized_proof": {"outputs": [{"value": value}]}} for value in ("[1]", "[2]"))
    assert len(compare(run(report=old), run(report=new))) == 4
    assert len(compare(run(report={**old, "proof": {"random": []}}), run(report={**new, "proof": {"random": []}}))) == 4
    assert (
        compare(run(report={**old, "proof": {"random": ["a"]}}), run(report={**new, "proof": {"random": ["a"]}})) == []
    )


def test_equal_records_have_no_differences() -> None:
    assert compare(run(report={"x": [0.1]}), run(report={"x": [0.100001]})) == []


def test_rounding_is_no_difference() -> None:
    old = run(report={"value": "[0.440772, 1, 2.5e-09, ...]", "text": "40 of 1234567 nodes"})
    assert (
        compare(old, run(report={"value": "[0.440773, 0.999999, 2.4e-09, ...]", "text": "40 of 1234567 nodes"})) == []
    )
    for value, text in (
        ("[0.440772, 1, 2.5e-09, ...]", "40 of 1234568 nodes"),
        ("[0.450772, 1, 2.5e-09, ...]", "40 of 1234567 nodes"),
        ("[0.440772, 1, 2.5e-09, 3, ...]", "40 of 1234567 nodes"),
    ):
        assert len(compare(old, run(report={"value": value, "text": text}))) == 4


def test_every_field_is_compared() -> None:
    for field in FIELDS:
        lines = compare(run(), run(**{field: "new"}))
        assert lines[0] == f"1 runs differ in {field}"
        assert any(line.startswith(f"  {field}:") for line in lines)
        assert compare(run(), run(**{field: "new"}), [field]) == []


def test_differences_in_reports_have_paths() -> None:
    old = run(report={"proof": {"outputs": [{"name": "a"}, {"name": "b"}], "inputs": ["x"]}, "bytes": 3})
    new = run(report={"proof": {"outputs": [{"name": "a"}, {"name": "c"}], "inputs": ["x", "y"]}})
    lines = compare(old, new)
    assert lines[4:] == [
        "model.pb: rename {models}/model.pb",
        '  report.proof.outputs.[].name: "b" -> "c"',
        '  report.proof.inputs: [] -> ["y"]',
        "  report.bytes: 3 -> null",
    ]
    assert compare(old, new, ["report.proof.*", "report.bytes"]) == []


def test_a_missing_run_is_a_difference() -> None:
    assert compare(run(), {})[0] == "1 runs differ in run"
    assert compare({}, run())[0] == "1 runs differ in run"


def test_a_run_has_the_result_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    tree, fixtures = Path(__file__).parents[1], Path(__file__).parents[1] / "fixtures"
    places = {"{models}": str(fixtures), "{here}": str(tmp_path)}

    def done(*words: str) -> dict[str, Any]:
        call = {"model": "classifier.pb", "arguments": words, "files": {}}
        return ran(call, tree, places, timeout=300)

    edit = ["rename", "{models}/classifier.pb", "--regex", "^=all/", "--validate", "none"]
    first, second = (done(*edit, "-o", "{here}/out.pb", "--report", "{here}/report.json") for _ in range(2))
    assert first == second
    assert (first["exit"], first["code"], first["report"]["model"]) == (0, None, "{models}/classifier.pb")
    assert first["nodes"] == first["report"]["nodes"]["before"] > 0
    assert first["result"] is not None
    missing = done("inspect", "{models}/missing.pb", "--json")
    assert (missing["verdict"], missing["exit"], missing["code"]) == (
        "bad input",
        3,
        missing["report"]["error"]["code"],
    )
    assert missing["code"]
