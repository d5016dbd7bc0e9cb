"""The published graphs run, renamed; what TensorFlow refuses is not passed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.published import EXECUTABLE, FOLDER, NOT_EXECUTABLE, needs_models

import gdsurgeon as gds
from gdsurgeon.cli.main import exit_code
from gdsurgeon.operation.edit import Request, operate
from gdsurgeon.proof.settings import Settings

pytestmark = [*needs_models, pytest.mark.slow, pytest.mark.tensorflow]


@pytest.mark.parametrize("name", sorted(EXECUTABLE))
def test_a_renamed_graph_is_proven(name: str, tmp_path: Path) -> None:
    model = EXECUTABLE[name]
    renamed = {model.outputs[0]: "served/by_test"}
    for fed in list(model.inputs)[:1]:
        renamed[fed] = "taken/by_test"
    out = tmp_path / f"renamed{'.pbtxt' if model.text else '.pb'}"
    request = Request(str(FOLDER / name), out=str(out), settings=Settings(samples=1, timeout=120))
    proof = operate(request, lambda graph: gds.rename(graph, list(renamed.items()))).proof

    proven = {output.before: output for output in proof.outputs}
    for wanted in model.outputs:
        assert proven[wanted].comparison is not None and proven[wanted].comparison.equal
        assert proven[wanted].after == renamed.get(wanted, wanted)
    for fed in list(model.inputs)[:1]:
        assert renamed[fed] in proof.feeds and fed not in proof.feeds


REFUSALS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    # A frozen Variable is a Const, and Assign wants a reference.
    "dl4j_scatter_nd_update_locking_rank1shape_1indices.pb": ((3, 5, 7), ("Assign", "ref")),
    "tfjs_iris_fused_raw.pb": ((3,), ("_FusedConv2D", "'TArgs'")),
}
"""Graphs that cannot be run: the possible exit codes, and words of the message."""


@pytest.mark.parametrize("level", ["load", "run"])
@pytest.mark.parametrize("name", sorted(NOT_EXECUTABLE))
def test_a_graph_that_tensorflow_refuses_is_not_passed(
    name: str, level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = f"{NOT_EXECUTABLE[name].outputs[0]}=served"
    out = tmp_path / "out.pb"
    code = exit_code(["rename", str(FOLDER / name), pair, "-o", str(out), "--validate", level])
    error = capsys.readouterr().err
    codes, words = REFUSALS[name]
    assert code in codes and error.startswith("Error: ")
    assert all(word in error for word in words), error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [*sorted(NOT_EXECUTABLE), "model_explorer_foo.pbtxt"])
def test_what_cannot_be_run_can_still_be_edited(name: str, tmp_path: Path) -> None:
    out = tmp_path / f"out{Path(name).suffix}"
    old = "foo" if name.startswith("model") else NOT_EXECUTABLE[name].outputs[0]
    assert exit_code(["rename", str(FOLDER / name), f"{old}=served", "-o", str(out), "--validate", "none", "-q"]) == 0
    assert "served" in gds.load(str(out)) and old not in gds.load(str(out))
