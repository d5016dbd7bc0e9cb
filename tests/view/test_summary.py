"""The exact messages about an edit; seconds and details of TensorFlow's version are masked."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.desk import Desk
from support.graphs import FLOAT, const, node

from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import brief, common_scope, first, terminal
from gdsurgeon.compare.intent import FunctionChanges, Intent, Rewired
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.rename import rename
from gdsurgeon.operation.edit import Request, operate
from gdsurgeon.operation.validate import Checked, ValidateRequest, Verdict
from gdsurgeon.proof.proof import ENCLOSED, FED, Deployed, OutputProof, Proof, merged
from gdsurgeon.runtime.compare import Comparison, compare
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.text import Entry, change, listed, size
from gdsurgeon.values import Tolerance
from gdsurgeon.view.summary import chance, equality, proof_entries, summary, tensor_entries
from gdsurgeon.view.verdict import verdict_summary


def masked(text: str) -> str:
    text = re.sub(r"\d+\.\d s\)", "0.0 s)", text)
    return re.sub(r"TensorFlow [\d.a-z]+ \([^)]*\)", "TensorFlow 0.0 (C API)", text)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The standard error of a command that prints nothing else."""
    code = exit_code(list(arguments))
    captured = capsys.readouterr()
    assert (code, captured.out) == (0, ""), captured.err
    return masked(captured.err)


def reported(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert exit_code([*arguments, "--report", "report.json"]) == 0
    capsys.readouterr()
    report = json.loads(Path("report.json").read_text(), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert isinstance(report.pop("seconds"), float)
    proof = report["proof"]
    assert isinstance(proof.pop("seconds"), float)
    if proof["runtime"] is not None:
        assert re.fullmatch(r"TensorFlow [\d.a-z]+ \(C API\)", proof.pop("runtime"))
    return dict(report)


# -- the summary -------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_the_summary_of_an_edit(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "add-postprocessing", "classifier.pb", "label_lookup.pb", "-o", "served.pb")
    value = " = [0]"
    lines = re.sub(r" = \[[^]]+\]", value, text).splitlines()
    assert [line for line in lines if not line.startswith("  note ")] == [
        "served.pb  198.6 KiB, 387 nodes (+3), 16 op types (+1)",
        "  input    image float32 [?,64,64,3]",
        "  output   classes  int64  ->  string",
        "  renamed  classes  ->  classes_raw",
        "  added    3 nodes: labels, classes_postprocessed/axis, classes",
        "  fed      image float32 [1,64,64,3]",
        f"  returned classes  string [1]{value}",
        f"  returned classes_raw  int64 [1]{value}",
        f"  also compared  probabilities  float32 [1,10]{value}",
        "  proven   edited(x) == post(original(x)): 2 outputs and 1 inner tensor, 2 input sets (batch 1 and 2), "
        "bit-identical (CPU, 0.0 s)",
    ]


RENAMED = ("rename", "control_edges.pb", "values=v", "-o", "out.pb")


def test_the_size_that_is_told_is_that_of_the_file(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("tiny.pbtxt", "x=input"), ("control_edges.pb", "values=v", "-o", "out.pbtxt")):
        name = "tiny.edited.pbtxt" if arguments[0] == "tiny.pbtxt" else "out.pbtxt"
        text = said(capsys, "rename", *arguments, "--validate", "structure")
        assert text.startswith(f"{name}  {size((fixtures / name).stat().st_size)}, ")


def test_quiet_says_nothing(
    fixtures: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "quiet", False)
    assert said(capsys, *RENAMED, "--validate", "structure", "-q") == ""


@pytest.mark.parametrize("verbose", [False, True])
def test_names_with_control_characters_are_escaped(
    verbose: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "verbose", verbose)
    proof = Proof("run", equations=["a = b"], samples=1, device="CPU")
    proof.feeds = {"in\x1b[31m": "float32 []"}
    proof.outputs = [OutputProof("a\nb", "a\nb", 7, (), "\x1b]0;title\x07", None, "because\x00")]
    terminal.summary(["head"], list(proof_entries(proof)))
    text = capsys.readouterr().err
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)
    assert text.count("\n") == 4


# -- its length ----------------------------------------------------------------------------------------------

LONG = "scope/" * 30 + "n" * 20


def many_outputs(count: int) -> Proof:
    equation = f"edited(x, {', '.join(f'{LONG}{i} := {LONG}' for i in range(3))}, ...) == original(x)"
    proof = Proof("run", [equation, *(f"{LONG}{i}(x) == y(x)" for i in range(9))], samples=2, device="CPU", seconds=9.0)
    proof.feeds = {f"{LONG}{i}": "float32 [1,2,3]" for i in range(count)}
    proof.random_nodes = {f"{LONG}r{i}": FED for i in range(count)}
    for i in range(count):
        found = EQUAL if i % 3 else None
        proof.outputs.append(
            OutputProof(
                f"{LONG}{i}", f"{LONG}{i}", 1, (1,), "[" + "1.23456, " * 6 + "...]", found, "random", i % 5 == 0
            )
        )
    proof.skipped = [(f"{LONG}{i}", "inside a while loop") for i in range(count)]
    proof.deployed = Deployed(1e-4, 1e-6)
    proof.served, proof.released = f"returns the same for {LONG}", f"TensorFlow 2.4: the same for {LONG}"
    return proof


EQUAL = Comparison(True, True, None, 0.0, 0, 1, 0.0)
SPECIAL = [Entry(label, f"{LONG}{i} " + "words " * 40) for i in range(40) for label in ("line", "not folded", "error")]


@pytest.mark.parametrize("count", [3, 400])
@pytest.mark.parametrize("proof", [Proof("none"), Proof("structure"), many_outputs(2), many_outputs(300)])
def test_a_summary_has_at_most_12_lines_of_160_characters(
    count: int, proof: Proof, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{LONG}/{i}" for i in range(count)]
    intent = Intent(
        renamed={f"{name}/old": name for name in names}, added=names, removed=names, changed=names,
        rewired=[Rewired(name, 0, f"{name}/old", f"{name}/new") for name in names],
        moved={name: f"{name}:1" for name in names},
        functions=FunctionChanges(added=names, removed=names, changed=names),
    )  # fmt: skip
    records = [graphs.relu(name, "x") for name in names]
    (tmp_path / "m.pb").write_bytes(graphs.graph_bytes(graphs.placeholder("x"), *records))
    request = Request(str(tmp_path / "m.pb"), out=str(tmp_path / ("o" * 200)), level="structure", dry_run=True)
    outcome = operate(request, lambda graph: rename(graph, patterns=[("^", "renamed/")]))
    lines = {}
    for verbose in (False, True):
        for result in (outcome.result, EditResult(intent, told=SPECIAL * (count // 3), notes=names)):
            monkeypatch.setattr(terminal, "verbose", verbose)
            terminal.warn([f"{name} was left: " + "it would change " * 20 for name in names])
            head, entries = summary(replace(outcome, result=result, proof=proof))
            terminal.summary([head], entries)
            lines[verbose] = capsys.readouterr().err.splitlines()
            assert sum(re.match("  proven ", line) is not None for line in lines[verbose])
            if not verbose:
                assert len(lines[False]) <= 12 and max(map(len, lines[False])) <= 160
    shown = "\n".join(lines[True])
    assert all(name in shown for name in names) and len(lines[False]) < len(lines[True])


def test_outputs_that_only_initialize_or_save_are_counted(desk: Desk) -> None:
    variable = [node("v", "VariableV2", dtype=FLOAT, shape=(2,)), const("w", [1.0, 2.0], FLOAT, (2,))]
    sums = [node(f"a{i}", "Assign", ["v", "w"], T=FLOAT) for i in range(9)]
    records = [graphs.placeholder("x"), *variable, *sums, graphs.relu("wanted", "x")]
    desk.put("m.pb", graphs.graph_bytes(*records))
    ran = desk.run("rename", "m.pb", "w=z", "-n", "--validate", "structure")
    lines = [line.split()[1:3] for line in ran.err.splitlines() if line.startswith("  output ")]
    assert lines == [["wanted", "float32"], ["9", "assignments"]]


def test_of_many_names_the_common_scope_is_shown() -> None:
    assert brief([Entry("removed", "4 nodes", [f"a/b/{n}" for n in ("c", "d", "e/f", "g")])]) == [
        ("removed", "4 nodes in a/b/: c, d, e/f and 1 more")
    ]
    assert common_scope(["a/b", "a/bc"]) == "a/" and common_scope(["ab/c", "a/c"]) == common_scope(["a", "a/b"]) == ""


def test_of_many_entries_of_one_label_the_first_are_shown() -> None:
    lines = first([Entry("loaded", "x"), *(Entry("fed", f"{LONG}{i} {LONG}") for i in range(20)), Entry("ran", "y")])
    assert [label for label, _ in lines] == ["loaded", *["fed"] * 8, "ran"] and lines[8] == ("fed", "and 13 more")
    assert max(len(text) for _, text in lines) <= 160 - len("  fed      ")


# -- the statement of the proof -------------------------------------------------------------------------------


def entries(proof: Proof) -> list[tuple[str, str]]:
    return [(label, masked(text)) for label, text, _ in proof_entries(proof)]


def test_what_an_input_read_is_called_as_the_model_had_it() -> None:
    intent = Intent(rewired=[Rewired("y", 0, "x", "new")]).then(Intent(renamed={"x": "z"}))
    assert [entry.names for entry in tensor_entries(intent) if entry.label == "rewired"] == [["y input 0: x  ->  new"]]


# -- the report ------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_the_report_of_a_rename(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = reported(capsys, *RENAMED, "--feed", "values=[[1, 2, 3, 4]]")
    counts = {
        "Const": 4, "AddV2": 1, "All": 1, "Assert": 1, "ConcatV2": 1, "Identity": 1, "IsFinite": 1, "NoOp": 1,
        "Placeholder": 1, "Split": 1, "Sum": 1,
    }  # fmt: skip
    outputs = [
        {"name": "total", "dtype": "float32", "shape": None, "op": "Sum"},
        {"name": "swapped", "dtype": "float32", "shape": None, "op": "Identity"},
    ]
    placeholder = {"dtype": "float32", "shape": [None, 4], "op": "Placeholder"}
    proven = {"dtype": "float32", "compared": True, "inner": False, "equal": True, "max_abs_difference": 0.0,
              "tolerance_needed": 0.0, "differing": 0}  # fmt: skip
    assert report == {
        "command": "rename",
        "passed": True,
        "error": None,
        "model": "control_edges.pb",
        "output": "out.pb",
        "changed": True,
        "nothing_to_do": None,
        "dry_run": False,
        "bytes": (fixtures / "out.pb").stat().st_size,
        "nodes": {"before": 14, "after": 14},
        "ops": {"before": counts, "after": counts},
        "before": {"inputs": [{"name": "values", **placeholder}], "outputs": outputs},
        "after": {"inputs": [{"name": "v", **placeholder}], "outputs": outputs},
        "edit": {
            "renamed": {"values": "v"},
            "added": [],
            "removed": [],
            "rewired": [],
            "changed": [],
            "moved": {},
            "functions": {"added": [], "removed": [], "changed": [], "renamed": {}},
            "notes": [],
        },
        "claims": ["SameOutputs"],
        "proof": {
            "level": "run",
            "statement": "edited(x) == original(x) under the new names",
            "optimized": False,
            "samples": 1,
            "batches": [1],
            "device": "CPU",
            "feeds": {"v": "float32 [1,4]"},
            "feed_origins": {"v": "given"},
            "random": [],
            "outputs": [
                {"original": "total", "edited": "total", "shape": [], "value": "7", "elements": 1, **proven},
                {"original": "swapped", "edited": "swapped", "shape": [1, 4], "value": "[3, 4, 1, 2]", "elements": 4}
                | proven,
            ],
            "compared": 2,
            "largest_difference": 0.0,
            "tolerance": None,
            "judged": True,
            "memory": None,
            "skipped": [],
        },
        "warnings": [],
    }


@pytest.mark.tensorflow
def test_the_report_of_a_reroute(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = reported(capsys, "reroute", "control_edges.pb", "split=split:1", "-n", "--feed", "values=[[1, 2, 3, 4]]")
    assert report["dry_run"] is True and report["claims"] == ["Unchanged"]
    assert report["edit"]["rewired"] == [{"node": "shifted", "slot": 0, "old": "split", "new": "split:1"}]
    assert [(o["edited"], o["compared"], o.get("reason")) for o in report["proof"]["outputs"]] == [
        ("total", True, None),
        ("swapped", False, "downstream of the edit"),
    ]


@pytest.mark.parametrize("level", ["none", "structure"])
def test_the_report_of_what_was_not_run(level: str, fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = reported(capsys, *RENAMED, "--validate", level)
    proof = report["proof"]
    assert proof.pop("level") == level and proof.pop("judged")
    assert not any(proof.values()) and {"statement", "runtime", "outputs", "tolerance"} <= proof.keys()
    assert (report["before"] is None) == (report["after"] is None) == (level == "none")


# -- words -----------------------------------------------------------------------------------------------------


def test_changes_and_lists() -> None:
    assert [change(5, n) for n in (5, 6, 4, 5005)] == ["", " (+1)", " (-1)", " (+5,000)"]
    assert listed([]) == "" and listed("abc", 3) == "a, b, c" and listed("abcd", 3) == "a, b, c and 1 more"


def test_random_ops_are_named() -> None:
    proof = Proof("run", random_nodes={"noise": FED, "w/chance": ENCLOSED, "mask": FED})
    assert re.fullmatch("noise, mask: .*both graphs; w/chance: .*", chance(proof))
    assert "both" not in chance(proof, two=False)
    assert ("random", chance(proof)) in entries(proof)
    assert "random" not in dict(entries(Proof("run", as_graphs={"a = b": "c"})))


def test_the_time_of_a_validation_is_that_of_all_of_it() -> None:
    proof = Proof("run", samples=2, device="CPU", seconds=1.0, outputs=[OutputProof("y", "y", 1, ())])
    verdict = Verdict(ValidateRequest("m.pb"), graphs=[Checked("m.pb", 1, 1)], proof=proof, seconds=3.0)
    assert verdict_summary(verdict)[1][-1].text.endswith("3.0 s)")


@pytest.mark.parametrize(("zero", "text"), [(0.0, "bit-identical"), (-0.0, "equal except for signs of zeros")])
def test_a_zero_of_another_sign_is_not_bit_identical(zero: float, text: str) -> None:
    """Within a part of the largest element it may have one; 0 is the difference of the two."""
    proof = Proof("run", tolerance=Tolerance(of_largest=1e-4))
    one, other = (from_numpy(np.array([value, 1.0], np.float32)) for value in (0.0, zero))
    proof.note([OutputProof("y", "y", 1, (2,), comparison=compare(one, other))])
    assert equality(proof) == equality(merged([Proof("run"), proof])) == text
