"""What becomes of a proof where a process dies, hangs, or is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.desk import check_error
from support.failing import crashing, renaming, simple
from support.graphs import counting_loop
from support.operating import operated, refused
from support.paths import ROOT
from support.patience import LONG_ENOUGH, impatient_with

import gdsurgeon as gds
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.trial import EDITED
from gdsurgeon.runtime.failures import Stage

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("no_child_is_left")]
own_workers = pytest.mark.usefixtures("own_workers")


def one_sentence(error: gds.GdsurgeonError) -> bool:
    return "\n" not in error.message and not error.details


# -- a process that dies -----------------------------------------------------------------------------------


@own_workers
@pytest.mark.parametrize("level", ["load", "run"])
def test_a_result_that_crashes_tensorflow(level: str, tmp_path: Path) -> None:
    error = refused(tmp_path, simple(), crashing, level=level)
    check_error(error, "crashed", {"doing": ["loading edited"], "signal": "SIGSEGV"})
    assert error.exit_code == 5
    assert one_sentence(error)


def test_a_result_with_a_loop_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the edited graph hangs: its loop goes on for ever."""
    impatient_with(monkeypatch, Stage("running", EDITED))

    def endless(graph: Graph) -> EditResult:
        result = renaming(graph)
        graph.set_inputs(graph["condition"], [graph.tensor("always")])
        return result

    error = refused(tmp_path, counting_loop(), endless, timeout=0.5)
    check_error(error, "timed-out", {"doing": ["running edited"]})
    assert error.exit_code == 5


# -- no TensorFlow, no GPU -----------------------------------------------------------------------------------


def test_without_tensorflow_there_is_no_proof(tmp_path: Path) -> None:
    """The packages that are needed are there, one by one, and TensorFlow is not."""
    place = tmp_path / "packages"
    place.mkdir()
    for name in ("click", "google", "google_crc32c", "pygments", "rich"):
        spec = find_spec(name)
        assert spec is not None and spec.submodule_search_locations
        (place / name).symlink_to(next(iter(spec.submodule_search_locations)))
    (place / "gdsurgeon").symlink_to(ROOT / "gdsurgeon")
    model, out = simple().write(tmp_path / "model.pb"), tmp_path / "out.pb"
    boot = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gdsurgeon.cli.main import run; run()"
    report = tmp_path / "report.json"
    write = ("-o", str(out), "--report", str(report))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-c", boot, str(place), *arguments],
            text=True,
            capture_output=True,
            timeout=LONG_ENOUGH,
            check=False,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            cwd=tmp_path,
        )

    refused = {
        ("rename", model, "y=z", "--validate", "load"): "no-tensorflow",
        ("rename", model, "y=z"): "no-tensorflow",
        ("add-gradients", model, "--ys", "y", "--xs", "x"): "no-tensorflow",
        ("quantize", model, "--dtype", "float16", "--validate", "structure"): "no-engine",
        ("simplify", model, "--fold-bn", "--validate", "structure"): "no-engine",
    }
    for arguments, code in refused.items():
        done = run(*arguments, *write)
        assert (done.returncode, json.loads(report.read_text())["error"]["code"]) == (7, code), done.stderr
        assert len(done.stderr.splitlines()) == 2 and "pip install 'gdsurgeon[tensorflow]'" in done.stderr
        assert not out.exists()
    done = run("rename", model, "y=z", "--validate", "structure", "-q", "-o", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert "z" in gds.load(str(out))
    for code, *arguments in ((0, "inspect", model), (0, "view", model), (0, "select", model), (1, "diff", model, out)):
        assert run(*map(str, arguments)).returncode == code


@pytest.mark.parametrize(("device", "wanted"), [("gpu", "GPU"), ("/device:GPU:7", "GPU:7"), ("/device:TPU:0", "TPU:0")])
def test_a_device_that_is_not_there(device: str, wanted: str, tmp_path: Path) -> None:
    if device == "gpu" and Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU")
    for level in ("load", "run"):
        error = refused(tmp_path, simple(), renaming, device=device, level=level)
        assert error.exit_code == 7
        check_error(error, "no-device", {"device": wanted})
        assert hint_of(error) == "--device cpu runs it on the CPU"


def test_the_cpu_by_its_device_name(tmp_path: Path) -> None:
    outcome = operated(tmp_path, simple(), renaming, device="/device:CPU:0")
    assert outcome.proof.device == "CPU:0" and outcome.proof.compared
