"""What inspect shows of the fixtures, to the letter."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gdsurgeon.cli.main import exit_code

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

TEXTS = {
    "classifier.pb": """\
classifier.pb  binary GraphDef, 198.3 KiB, 384 nodes, 15 op types, producer 2474
  inputs
    image  float32 [?,64,64,3]
  outputs
    classes  int64
  ops       ArgMax, BiasAdd, MatMul, Mean, Mul, AddV2 x 4, Const x 146, Conv2D x 19, DepthwiseConv2dNative x 9, \
FusedBatchNormV3 x 28, Identity x 151, Relu6 x 19 and 3 other ops
""",
    "control_edges.pb": """\
control_edges.pb  binary GraphDef, 1.1 KiB, 14 nodes, 11 op types, producer 2474
  inputs
    values  float32 [?,4]
  outputs
    total    float32
    swapped  float32
  ops       AddV2, All, Assert, ConcatV2, Identity, IsFinite, NoOp, Placeholder, Split, Sum, Const x 4
""",
    "decode_jpeg.pb": """\
decode_jpeg.pb  binary GraphDef, 721 bytes, 9 nodes, 7 op types, producer 2474
  inputs
    image  string []
  outputs
    image_preprocessed  float32
  ops       Cast, DecodeJpeg, ExpandDims, Placeholder, RealDiv, ResizeBilinear, Const x 3
""",
    "functions_tf2.pb": """\
functions_tf2.pb  binary GraphDef, 6.4 KiB, 16 nodes, 9 op types, 6 functions, producer 2474
  inputs
    x  float32 [?,4]
  outputs
    Identity  float32
  ops       Greater, NoOp, Placeholder, StatefulPartitionedCall, StatelessIf, Sum, While, Const x 6, Identity x 3
""",
    "label_lookup.pb": """\
label_lookup.pb  binary GraphDef, 383 bytes, 4 nodes, 3 op types, producer 2474
  inputs
    classes  int64 [?]
  outputs
    classes_postprocessed  string
  ops       GatherV2, Placeholder, Const x 2
""",
    "tiny.pbtxt": """\
tiny.pbtxt  text GraphDef, 836 bytes, 5 nodes, 4 op types, producer 1882
  inputs
    x  float32 [?,3]
  outputs
    y  float32
  ops       AddV2, Mul, Placeholder, Const x 2
""",
    "while_v1.pb": """\
while_v1.pb  binary GraphDef, 1.5 KiB, 22 nodes, 11 op types, producer 2474
  inputs
    n  int32 []
  outputs
    while/Exit  int32
    sum         int32
  ops       LessEqual, LoopCond, Placeholder, AddV2 x 2, Const x 3, Enter x 3, Exit x 2, Identity x 3, Merge x 2, \
NextIteration x 2, Switch x 2
""",
}

Tensor = tuple[str, str, list[int | None] | None, str]
SIGNATURES: dict[str, tuple[list[Tensor], list[Tensor]]] = {
    "classifier.pb": (
        [("image", "float32", [None, 64, 64, 3], "Placeholder")],
        [("classes", "int64", None, "ArgMax")],
    ),
    "control_edges.pb": (
        [("values", "float32", [None, 4], "Placeholder")],
        [("total", "float32", None, "Sum"), ("swapped", "float32", None, "Identity")],
    ),
    "decode_jpeg.pb": (
        [("image", "string", [], "Placeholder")],
        [("image_preprocessed", "float32", None, "RealDiv")],
    ),
    "functions_tf2.pb": (
        [("x", "float32", [None, 4], "Placeholder")],
        [("Identity", "float32", None, "Identity")],
    ),
    "label_lookup.pb": (
        [("classes", "int64", [None], "Placeholder")],
        [("classes_postprocessed", "string", None, "GatherV2")],
    ),
    "tiny.pbtxt": ([("x", "float32", [None, 3], "Placeholder")], [("y", "float32", None, "AddV2")]),
    "while_v1.pb": (
        [("n", "int32", [], "Placeholder")],
        [("while/Exit", "int32", None, "Exit"), ("sum", "int32", None, "Identity")],
    ),
}


@pytest.fixture
def fixtures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in FIXTURES.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_no_fixture_is_left_out() -> None:
    assert sorted(TEXTS) == sorted(SIGNATURES) == sorted(file.name for file in FIXTURES.iterdir())


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_the_text(name: str, fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["inspect", name]) == 0
    captured = capsys.readouterr()
    assert captured.out == TEXTS[name]
    assert captured.err == ""


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_the_json(name: str, fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["inspect", name, "--json"]) == 0
    captured = capsys.readouterr()
    found: dict[str, Any] = json.loads(captured.out)
    keys = ("name", "dtype", "shape", "op")
    inputs, outputs = SIGNATURES[name]
    assert list(found) == [
        "file", "format", "bytes", "nodes", "producer", "functions", "variables", "inputs", "outputs", "ops", "faults",
        "fault_count", "warnings",
    ]  # fmt: skip
    assert found["inputs"] == [dict(zip(keys, tensor, strict=True)) for tensor in inputs]
    assert found["outputs"] == [dict(zip(keys, tensor, strict=True)) for tensor in outputs]
    assert found["file"] == name
    assert found["format"] == ("text" if name.endswith(".pbtxt") else "binary")
    assert found["bytes"] == (fixtures / name).stat().st_size
    assert found["nodes"] == sum(found["ops"].values())
    assert len(found["functions"]) == (6 if name == "functions_tf2.pb" else 0)
    assert (found["variables"], found["faults"], found["fault_count"], found["warnings"]) == (0, [], 0, [])
    assert captured.err == ""


BROKEN = """\
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "y" op: "Neg" input: "nobody" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { } } } }
versions { producer: 2474 }
"""


def test_a_broken_graph_is_shown_and_its_faults_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.pbtxt").write_text(BROKEN)
    assert exit_code(["inspect", "broken.pbtxt"]) == 3
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[1:6] == ["  inputs", "    x  float32", "  outputs", "    y  float32", "    v  float32"]
    assert lines[6] == "  1 variable, whose values are not in the file"
    assert captured.err.startswith("Error: broken.pbtxt is broken: ") and "'nobody'" in captured.err

    assert exit_code(["inspect", "broken.pbtxt", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["fault_count"] == 1 == len(found["faults"]) and "'nobody'" in found["faults"][0]
    assert found["variables"] == 1


def test_a_graph_without_inputs_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("alone.pbtxt").write_text('node { name: "n" op: "NoOp" }\n')
    assert exit_code(["inspect", "alone.pbtxt"]) == 0
    assert capsys.readouterr().out == (
        "alone.pbtxt  text GraphDef, 30 bytes, 1 node, 1 op type\n  inputs  none\n  outputs  none\n  ops       NoOp\n"
    )
