"""What becomes of a proof where a process dies, hangs, or is not there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.desk import check_error
from support.failing import children, command, crashing, renaming, simple
from support.graphs import counting_loop
from support.operating import operated, refused
from support.paths import ROOT
from support.patience import LONG_ENOUGH, gone, impatient_with, until

import gdsurgeon as gds
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.trial import EDITED, ORIGINAL
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


def test_a_loop_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient_with(monkeypatch, Stage("running", ORIGINAL))
    error = refused(tmp_path, counting_loop(endless=True), renaming, timeout=0.5)
    check_error(error, "timed-out", {"doing": ["running original"]})
    assert error.exit_code == 5 and error.advice == ("longer",)


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


@own_workers
@pytest.mark.parametrize("victim", [ORIGINAL, EDITED])
def test_a_process_that_is_killed_in_the_middle(victim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel does where memory runs out."""
    before = set(children())
    begin = Executor.begin

    def killing(self: Executor, key: str, *arguments: Any) -> Any:
        pending = begin(self, key, *arguments)
        if key == victim:
            for pid in set(children()) - before:
                os.kill(pid, signal.SIGSTOP)  # so that it cannot answer first
                os.kill(pid, signal.SIGKILL)
        return pending

    # What has been asked for is not answered yet: the run is an endless one.
    monkeypatch.setattr(Executor, "begin", killing)

    def endless(graph: Graph) -> EditResult:
        result = renaming(graph)
        graph.set_inputs(graph["condition"], [graph.tensor("always")])
        return result

    error = refused(tmp_path, counting_loop(endless=victim == ORIGINAL), endless)
    check_error(error, "crashed", {"signal": "SIGKILL"})
    assert error.exit_code == 5
    assert one_sentence(error)


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return found


SAID = "it turns"


def printed(pid: int) -> bytes:
    """The output of a child, in a file without a name."""
    log = Path(f"/proc/{pid}/fd/2")
    try:
        return log.read_bytes() if log.is_file() else b""  # a pipe before it has been started, in which one would wait
    except OSError:
        return b""  # it has ended


def turning(out: Path) -> tuple[subprocess.Popen[str], int]:
    """A command that proves a renaming of a loop without end into OUT, and its child once both graphs run there."""
    model = counting_loop(endless=True, says=SAID).write(out.parent / "model.pb")
    process = subprocess.Popen(
        [sys.executable, "-m", "gdsurgeon", "rename", model, "y=z", "-o", str(out)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # ignored in the background of a shell
    )

    found: list[int] = []

    def turns() -> bool:
        found.extend(pid for pid in descendants(process.pid) if printed(pid).count(SAID.encode()) == 2)
        return bool(found) or process.poll() is not None

    until(turns)
    if found:
        return process, found[0]
    process.kill()
    pytest.fail(f"its child never got to work: {process.communicate()}")


def test_a_child_that_is_killed_while_it_runs(tmp_path: Path) -> None:
    process, child = turning(tmp_path / "out.pb")
    os.kill(child, signal.SIGKILL)
    _, error = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 5
    # Both graphs are running at once; which one ended it cannot be told then.
    assert error == (
        "Error: TensorFlow was killed (SIGKILL, most likely out of memory) while running original or running edited\n"
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pb"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_ended_while_it_proves_takes_its_child_along(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    out = tmp_path / "out.pb"
    out.write_bytes(b"an earlier output")
    process, child = turning(out)
    process.send_signal(number)
    _, error = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == code
    assert "Traceback" not in error
    assert gone(child)
    assert out.read_bytes() == b"an earlier output"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pb", "out.pb"]


def test_a_command_that_is_killed_takes_its_child_along(tmp_path: Path) -> None:
    """No process ends the child then: it notices this itself, even during a run."""
    process, child = turning(tmp_path / "out.pb")
    process.kill()
    process.communicate(timeout=LONG_ENOUGH)
    ended = gone(child)
    if not ended:
        os.kill(child, signal.SIGKILL)
    assert ended


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


def test_a_tensorflow_that_cannot_be_imported_is_as_good_as_none(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tensorflow.py").write_text("raise ImportError('a library is missing')\n")
    model, out = simple().write(tmp_path / "model.pb"), tmp_path / "out.pb"
    environment = {**os.environ, "PYTHONPATH": str(broken)}
    done = command("rename", model, "y=z", "-o", str(out), env=environment)
    assert done.returncode == 7, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and lines[0].startswith("Error: ") and lines[1].startswith("Hint: ")
    assert not out.exists()


def test_a_runtime_that_there_is_not(tmp_path: Path) -> None:
    model, out = simple().write(tmp_path / "model.pb"), tmp_path / "out.pb"
    environment = {**os.environ, "GDSURGEON_RUNTIME": "something"}
    done = command("rename", model, "y=z", "-o", str(out), env=environment)
    assert done.returncode in (2, 7), done.stderr
    assert "GDSURGEON_RUNTIME must be capi or python, not 'something'" in done.stderr
    assert not out.exists()


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
