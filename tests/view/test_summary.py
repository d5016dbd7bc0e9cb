"""What is said of an edit, to the letter; seconds and what depends on TensorFlow's version are masked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdsurgeon.cli.main import exit_code
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.operation.validate import Checked, ValidateRequest, Verdict
from gdsurgeon.proof.proof import OutputProof, Proof, merged
from gdsurgeon.runtime.compare import Comparison, compare
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.text import change, listed, ops, size
from gdsurgeon.view.summary import chance, equality, proof_entries, tensor_entries
from gdsurgeon.view.verdict import verdict_lines

LABELS = "ant bee cat dog elk fox gnu hen ibis jay".split()


def masked(text: str) -> str:
    text = re.sub(r"\d+\.\d s\)", "0.0 s)", text)
    return re.sub(r"TensorFlow [\d.a-z]+ \([^)]*\)", "TensorFlow 0.0 (C API)", text)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command says on standard error; nothing may be on standard output."""
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
def test_add_preprocessing(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "add-preprocessing", "classifier.pb", "decode_jpeg.pb")
    assert re.sub(r"= \[[^]]+\]", "= [0]", text) == (
        "classifier.edited.pb  198.9 KiB, 392 nodes (+8), 20 op types (+5)\n"
        "  input    image  float32 [?,64,64,3]  ->  string []\n"
        "  output   classes int64\n"
        "  added    8 nodes: Cast, DecodeJpeg, ExpandDims, RealDiv, ResizeBilinear, Const x 3\n"
        "  changed  1 node: image\n"
        "  rewired  MobilenetV2/input/sub input 0: image  ->  image_preprocessed\n"
        "  fed      image string []\n"
        "  returned classes  int64 [1] = [0]\n"
        "  behind   probabilities  float32 [1,10] = [0]\n"
        "  proven   edited(raw) = original(pre(raw)): 1 output and 1 tensor behind it, 2 samples, "
        "bit-identical (CPU, 0.0 s)\n"
    )


@pytest.mark.tensorflow
def test_add_postprocessing(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "add-postprocessing", "classifier.pb", "label_lookup.pb", "-o", "served.pb")
    label = re.search(r"= \[([a-z]+)\]", text)
    number = re.search(r"= \[(\d)\]", text)
    assert label is not None and number is not None and LABELS[int(number[1])] == label[1]
    assert re.sub(r"= \[[^]]+\]", "= [0]", text) == (
        "served.pb  198.6 KiB, 387 nodes (+3), 16 op types (+1)\n"
        "  input    image float32 [?,64,64,3]\n"
        "  output   classes  int64  ->  string\n"
        "  renamed  classes  ->  classes_raw\n"
        "  added    3 nodes: GatherV2, Const x 2\n"
        "  note     the raw value of 'classes' is now 'classes_raw'\n"
        "  fed      image float32 [1,64,64,3]\n"
        "  returned classes  string [1] = [0]\n"
        "  returned classes_raw  int64 [1] = [0]\n"
        "  behind   probabilities  float32 [1,10] = [0]\n"
        "  proven   edited(x) = post(original(x)): 2 outputs and 1 tensor behind it, 2 samples (batches of 1 and 2), "
        "bit-identical (CPU, 0.0 s)\n"
    )


RENAMED = ("rename", "control_edges.pb", "values=v", "-o", "out.pb")
RENAMED_LINES = (
    "  input    v  float32 [?,4]  (was values)\n  output   total float32, swapped float32\n  renamed  values  ->  v\n"
)


@pytest.mark.tensorflow
def test_rename(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, *RENAMED, "--feed", "values=[[1, 2, 3, 4]]")
    assert text == (
        "out.pb  1.1 KiB, 14 nodes, 11 op types\n"
        + RENAMED_LINES
        + "  fed      v float32 [1,4]\n"
        + "  returned total  float32 [] = 7\n"
        + "  returned swapped  float32 [1,4] = [3, 4, 1, 2]\n"
        + "  proven   edited(x) = original(x) under the new names: 2 outputs, 1 sample, bit-identical (CPU, 0.0 s)\n"
    )


@pytest.mark.parametrize(
    ("level", "head", "lines", "proven"),
    [
        ("none", "out.pb  1.1 KiB, 14 nodes\n", "  renamed  values  ->  v\n", "nothing: neither checked nor run"),
        ("structure", "out.pb  1.1 KiB, 14 nodes, 11 op types\n", RENAMED_LINES, "structure only: not run"),
        pytest.param(
            "load",
            "out.pb  1.1 KiB, 14 nodes, 11 op types\n",
            RENAMED_LINES,
            "it loads (TensorFlow 0.0 (C API), 0.0 s); not run",
            marks=pytest.mark.tensorflow,
        ),
    ],
)
def test_the_lower_levels_claim_no_more_than_they_show(
    level: str, head: str, lines: str, proven: str, fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, *RENAMED, "--validate", level) == f"{head}{lines}  proven   {proven}\n"


@pytest.mark.tensorflow
def test_many_renames_are_counted(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "rename", "while_v1.pb", "--regex", "^while/=loop/", "-o", "out.pb", "--feed", "n=4")
    assert text == (
        "out.pb  1.5 KiB, 22 nodes, 11 op types\n"
        "  input    n int32 []\n"
        "  output   loop/Exit  int32\n"
        "  output   sum int32\n"
        "  renamed  while/Enter  ->  loop/Enter\n"
        "  renamed  while/Enter_1  ->  loop/Enter_1\n"
        "  renamed  while/Merge  ->  loop/Merge\n"
        "  renamed  while/Merge_1  ->  loop/Merge_1\n"
        "  renamed  while/LessEqual  ->  loop/LessEqual\n"
        "  renamed  while/LessEqual/Enter  ->  loop/LessEqual/Enter\n"
        "  renamed  while/LoopCond  ->  loop/LoopCond\n"
        "  renamed  while/Switch  ->  loop/Switch\n"
        "  renamed  and 10 more\n"
        "  fed      n int32 []\n"
        "  returned loop/Exit  int32 [] = 5\n"
        "  returned sum  int32 [] = 10\n"
        "  proven   edited(x) = original(x) under the new names: 2 outputs, 1 sample, bit-identical (CPU, 0.0 s)\n"
    )


@pytest.mark.tensorflow
def test_reroute(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "reroute", "control_edges.pb", "split=split:1", "-n", "--feed", "values=[[1, 2, 3, 4]]")
    assert text == (
        "control_edges.edited.pb (dry run: nothing written)  1.1 KiB, 14 nodes, 11 op types\n"
        "  input    values float32 [?,4]\n"
        "  output   total float32, swapped float32\n"
        "  rewired  shifted input 0: split  ->  split:1\n"
        "  fed      values float32 [1,4]\n"
        "  returned total  float32 [] = 7\n"
        "  returned swapped  float32 [1,4] = [3, 4, 3, 4]  (not compared: downstream of the edit)\n"
        "  proven   outputs that the edit does not reach = original(x): "
        "1 output, 1 sample, bit-identical (CPU, 0.0 s)\n"
    )
    assert not (fixtures / "control_edges.edited.pb").exists()


@pytest.mark.tensorflow
def test_reroute_of_all_there_is(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "reroute", "tiny.pbtxt", "scaled=x", "--only", "^y$", "-n", "--feed", "x=[[1, 2, 3]]")
    head, rest = text.split("\n", 1)
    assert re.fullmatch(r"tiny\.edited\.pbtxt \(dry run: nothing written\)  [\d.]+ KiB, 5 nodes, 4 op types", head)
    assert rest == (
        "  input    x float32 [?,3]\n"
        "  output   scaled  float32\n"
        "  output   y float32\n"
        "  rewired  y input 0: scaled  ->  x\n"
        "  fed      x float32 [1,3]\n"
        "  returned y  float32 [1,3] = [2, 3, 4]  (not compared: downstream of the edit)\n"
        "  returned scaled  float32 [1,3] = [2, 4, 6]  (not compared: not an output before)\n"
        "  proven   it loads and runs: 2 outputs, none compared (downstream of the edit, not an output before)"
        " (CPU, 0.0 s)\n"
    )


def test_the_size_that_is_told_is_that_of_the_file(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("tiny.pbtxt", "x=input"), ("control_edges.pb", "values=v", "-o", "out.pbtxt")):
        name = "tiny.edited.pbtxt" if arguments[0] == "tiny.pbtxt" else "out.pbtxt"
        text = said(capsys, "rename", *arguments, "--validate", "structure")
        assert text.startswith(f"{name}  {size((fixtures / name).stat().st_size)}, ")


def test_quiet_says_nothing(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gdsurgeon.cli.terminal import terminal

    try:
        assert said(capsys, *RENAMED, "--validate", "structure", "-q") == ""
    finally:
        terminal.quiet = False


def test_names_with_control_characters_are_escaped(tmp_path: Path) -> None:
    proof = Proof("run", equations=["a = b"], samples=1, device="CPU")
    proof.feeds = {"in\x1b[31m": "float32 []"}
    proof.outputs = [OutputProof("a\nb", "a\nb", 7, (), "\x1b]0;title\x07", None, "because\x00")]
    text = "\n".join(f"{label} {line}" for label, line in proof_entries(proof))
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)
    assert text.count("\n") == 2


# -- what the proof is said to be ----------------------------------------------------------------------------

EQUAL = Comparison(True, True, None, 0.0, 0.0, 0, 1, 0.0)


def entries(proof: Proof) -> list[tuple[str, str]]:
    return [(label, masked(text)) for label, text in proof_entries(proof)]


def test_many_outputs_are_counted() -> None:
    proof = Proof("run", ["a = b"], samples=2, device="CPU", seconds=1.26)
    proof.outputs = [OutputProof(f"o{i}", f"o{i}", 1, (1,), "", EQUAL) for i in range(11)]
    found = entries(proof)
    assert found[:2] == [("returned", "o0  float32 [1]"), ("returned", "o1  float32 [1]")]
    assert found[8:] == [
        ("returned", "and 3 outputs more"),
        ("proven", "a = b: 11 outputs, 2 samples, bit-identical (CPU, 0.0 s)"),
    ]
    for output in proof.outputs[1:]:
        output.inside = True
    assert ("behind", "and 3 tensors more") in entries(proof)


def test_what_an_input_read_is_called_as_the_model_had_it() -> None:
    intent = Intent(rewired=[Rewired("y", 0, "x", "new")]).then(Intent(renamed={"x": "z"}))
    assert [text for label, text in tensor_entries(intent) if label == "rewired"] == ["y input 0: x  ->  new"]


def test_what_was_not_run_is_said() -> None:
    proof = Proof("run", ["a = b"], samples=1, device="CPU", outputs=[OutputProof("y", "y", 1, (), "1", EQUAL)])
    proof.skipped = [(f"s{i}", "inside a while loop") for i in range(5)]
    assert entries(proof) == [
        ("returned", "y  float32 [] = 1"),
        *(("not run", f"s{i}: inside a while loop") for i in range(3)),
        ("not run", "and 2 outputs more"),
        ("proven", "a = b: 1 output, 1 sample, bit-identical (CPU, 0.0 s)"),
    ]


def test_many_feeds_are_counted() -> None:
    proof = Proof("run", ["a = b"], samples=1, device="CPU", outputs=[OutputProof("y", "y", 1, (), "1", EQUAL)])
    proof.feeds = {f"x{i}": "float32 []" for i in range(6)}
    assert entries(proof)[0] == ("fed", "x0 float32 [], x1 float32 [], x2 float32 [], x3 float32 [] and 2 more")


def test_outputs_that_were_not_compared_for_chance_are_not_said_to_be_downstream() -> None:
    proof = Proof(
        "run", ["a = b"], samples=1, device="CPU", outputs=[OutputProof("y", "y", 1, (), "1", None, "random: noise")]
    )
    label, text = entries(proof)[-1]
    assert label == "proven" and text.startswith("it loads and runs: 1 output")
    assert "downstream of the edit" not in text


def test_an_output_of_an_unknown_shape_and_a_long_value() -> None:
    proof = Proof(
        "run", ["a = b"], samples=1, device="GPU:0", outputs=[OutputProof("y", "z", 22, (2, 3), "[1, 2, ...]", EQUAL)]
    )
    assert entries(proof) == [
        ("returned", "z  uint32 [2,3] = [1, 2, ...]"),
        ("proven", "a = b: 1 output, 1 sample, bit-identical (GPU:0, 0.0 s)"),
    ]


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
    assert report == {
        "command": "rename",
        "passed": True,
        "error": None,
        "model": "control_edges.pb",
        "output": "out.pb",
        "changed": True,
        "idle": None,
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
            "statement": "edited(x) = original(x) under the new names",
            "optimized": False,
            "samples": 1,
            "batches": [1],
            "device": "CPU",
            "feeds": {"v": "float32 [1,4]"},
            "made": {"v": "given"},
            "random": [],
            "outputs": [
                {
                    "original": "total",
                    "edited": "total",
                    "dtype": "float32",
                    "shape": [],
                    "value": "7",
                    "compared": True,
                    "inside": False,
                    "equal": True,
                    "max_abs_difference": 0.0,
                    "tolerance_needed": 0.0,
                    "differing": 0,
                    "elements": 1,
                },
                {
                    "original": "swapped",
                    "edited": "swapped",
                    "dtype": "float32",
                    "shape": [1, 4],
                    "value": "[3, 4, 1, 2]",
                    "compared": True,
                    "inside": False,
                    "equal": True,
                    "max_abs_difference": 0.0,
                    "tolerance_needed": 0.0,
                    "differing": 0,
                    "elements": 4,
                },
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
def test_the_report_of_added_graphs(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = reported(capsys, "add-preprocessing", "classifier.pb", "decode_jpeg.pb")
    assert report["claims"] == ["Preprocessed"]
    assert report["nodes"] == {"before": 384, "after": 392}
    assert [i["dtype"] for i in (*report["before"]["inputs"], *report["after"]["inputs"])] == ["float32", "string"]
    assert report["edit"]["rewired"] == [
        {"node": "MobilenetV2/input/sub", "slot": 0, "old": "image", "new": "image_preprocessed"}
    ]
    assert sorted(report["edit"]["added"]) == sorted(
        ["DecodeJpeg", "Cast", "ExpandDims/dim", "ExpandDims", "size", "ResizeBilinear", "image_preprocessed/y",
         "image_preprocessed"]
    )  # fmt: skip
    assert report["proof"]["compared"] == 1

    report = reported(capsys, "add-postprocessing", "classifier.pb", "label_lookup.pb", "-o", "served.pb")
    assert report["claims"] == ["Postprocessed"]
    assert report["edit"]["renamed"] == {"classes": "classes_raw"}
    assert report["edit"]["notes"] == ["the raw value of 'classes' is now 'classes_raw'"]
    assert [(o["original"], o["edited"], o["dtype"]) for o in report["proof"]["outputs"]] == [
        ("post(classes)", "classes", "string"),
        ("classes", "classes_raw", "int64"),
        ("probabilities", "probabilities", "float32"),
    ]
    assert report["proof"]["outputs"][0]["max_abs_difference"] is None


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


def test_the_bytes_in_the_report_are_those_of_the_file(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = reported(capsys, "rename", "tiny.pbtxt", "x=input", "--validate", "structure")
    assert report["bytes"] == (fixtures / "tiny.edited.pbtxt").stat().st_size


# -- words -----------------------------------------------------------------------------------------------------


def test_changes_and_lists() -> None:
    assert [change(5, n) for n in (5, 6, 4, 5005)] == ["", " (+1)", " (-1)", " (+5,000)"]
    assert listed([]) == "" and listed("abc", 3) == "a, b, c" and listed("abcd", 3) == "a, b, c and 1 more"
    assert ops({"Const": 4, "Neg": 1, "Abs": 1}) == "Abs, Neg, Const x 4"
    assert ops(dict.fromkeys("ABCDE", 1), 3) == "A, B, C and 2 other ops"
    assert ops(dict.fromkeys("ABCD", 1), 3) == "A, B, C and 1 other op"


def test_random_ops_are_named() -> None:
    names = ["noise", "w/chance", "mask"]
    proof = Proof("run", chance=names, drawn=["noise", "mask"], enclosed=["w/chance"])
    assert chance(proof) == "noise, mask: drawn once, and fed to both; w/chance: in a loop or a function"
    assert chance(Proof("run", chance=["noise"])) == "noise: drawn by one of the two alone"
    assert chance(proof, two=False).startswith("noise, mask: drawn anew in each run")
    assert ("random", chance(proof)) in list(proof_entries(proof))
    assert "random" not in dict(proof_entries(Proof("run")))


def test_the_time_of_a_validation_is_that_of_all_of_it() -> None:
    proof = Proof("run", samples=2, device="CPU", seconds=1.0, outputs=[OutputProof("y", "y", 1, ())])
    verdict = Verdict(ValidateRequest("m.pb"), graphs=[Checked("m.pb", 1, 1)], proof=proof, seconds=3.0)
    assert verdict_lines(verdict)[-1].endswith("3.0 s)")


@pytest.mark.parametrize(("zero", "text"), [(0.0, "bit-identical"), (-0.0, "equal, but for the signs of zeros")])
def test_a_zero_of_another_sign_is_not_bit_identical(zero: float, text: str) -> None:
    """Within a part of the largest element it may have one; 0 is the difference of the two."""
    proof = Proof("run", of_largest=1e-4)
    one, other = (from_numpy(np.array([value, 1.0], np.float32)) for value in (0.0, zero))
    proof.note([OutputProof("y", "y", 1, (2,), comparison=compare(one, other))])
    assert equality(proof) == equality(merged([Proof("run"), proof])) == text
