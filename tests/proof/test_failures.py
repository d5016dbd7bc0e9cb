"""What goes wrong around the proof: crashes, hangs, kills, no TensorFlow, no GPU; and what is published."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.tf_graphs import Builder, attr, body_node, counting_loop, operated, refused

import gdsurgeon as gds
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.edit import Request, operate
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.wire.text import to_binary

pytestmark = pytest.mark.tensorflow


def children() -> list[int]:
    """The processes that this one has started and that are still there, zombies included."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += [int(pid) for pid in (task / "children").read_text().split()]
        except OSError:
            pass  # the thread has ended since it was listed; its children are another's now
    return found


@pytest.fixture(autouse=True)
def no_child_is_left() -> Any:
    before = set(children())
    yield
    assert set(children()) <= before


def simple() -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (1, 3))
    m.node("y", "Neg", ["x"], T="float32")
    return m


def renaming(graph: Graph) -> EditResult:
    return gds.rename(graph, [("y", "z")])


def crashing(graph: Graph) -> EditResult:
    """Adds a call of a function that calls itself: TensorFlow's loader overflows its stack."""
    result = renaming(graph)
    library = Builder()
    function = library.function("endless", {}, {})
    body_node(function, "again", "endless")
    graph.functions.add(function)
    graph.add("call", "endless")
    return result


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gdsurgeon", *arguments],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
        **options,
    )


def one_sentence(error: gds.GdsurgeonError) -> bool:
    return "\n" not in error.message and not error.details


# -- a process that dies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["load", "run"])
def test_a_result_that_crashes_tensorflow(level: str, tmp_path: Path) -> None:
    error = refused(tmp_path, simple(), crashing, level=level)
    assert error.exit_code == 5
    assert error.message == "TensorFlow crashed (SIGSEGV) while loading edited"
    assert one_sentence(error)


def test_a_loop_without_end_is_ended(tmp_path: Path) -> None:
    error = refused(tmp_path, counting_loop(endless=True), renaming, timeout=6.0)
    assert error.exit_code == 5
    assert error.message == "TensorFlow did not finish running original within 6 s"
    assert hint_of(error) == "--timeout gives it longer"


def test_a_result_with_a_loop_without_end_is_ended(tmp_path: Path) -> None:
    """Only the edited graph hangs: its loop goes on for ever."""

    def endless(graph: Graph) -> EditResult:
        result = renaming(graph)
        graph.set_inputs(graph["condition"], [graph.tensor("always")])
        return result

    error = refused(tmp_path, counting_loop(), endless, timeout=6.0)
    assert error.exit_code == 5
    assert error.message == "TensorFlow did not finish running edited within 6 s"


@pytest.mark.parametrize("victim", [ORIGINAL, EDITED])
def test_a_process_that_is_killed_in_the_middle(victim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel does where memory runs out."""
    before = set(children())
    run = Executor.run

    def killing(self: Executor, key: str, *arguments: Any) -> Any:
        pending = run(self, key, *arguments)
        if key == victim:
            for pid in set(children()) - before:
                os.kill(pid, signal.SIGSTOP)  # so that it cannot answer first
                os.kill(pid, signal.SIGKILL)
        return pending

    # What has been asked for is not answered yet: the run is an endless one.
    monkeypatch.setattr(Executor, "run", killing)

    def endless(graph: Graph) -> EditResult:
        result = renaming(graph)
        graph.set_inputs(graph["condition"], [graph.tensor("always")])
        return result

    error = refused(tmp_path, counting_loop(endless=victim == ORIGINAL), endless)
    assert error.exit_code == 5
    assert re.fullmatch(r"TensorFlow was killed \(SIGKILL, most likely out of memory\) while [a-z ]+", error.message), (
        error.message
    )
    assert one_sentence(error)


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return found


def cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def started_and_busy(arguments: list[str]) -> tuple[subprocess.Popen[str], int]:
    """The command, and its child once that has spent more time than TensorFlow needs to load."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gdsurgeon", *arguments],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up and process.poll() is None:
        busy = [pid for pid in descendants(process.pid) if cpu_seconds(pid) > 2.0]
        if busy:
            return process, busy[0]
        time.sleep(0.05)
    process.kill()
    pytest.fail(f"its child never got to work: {process.communicate()}")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        if not is_alive(pid):
            return True
        time.sleep(0.02)
    return False


def test_a_child_that_is_killed_while_it_runs(tmp_path: Path) -> None:
    model, out = counting_loop(endless=True).write(tmp_path / "model.pb"), tmp_path / "out.pb"
    process, child = started_and_busy(["rename", model, "y=z", "-o", str(out)])
    os.kill(child, signal.SIGKILL)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 5
    # Both graphs may be running at once; which one ended it cannot be told then.
    assert re.fullmatch(
        r"Error: TensorFlow was killed \(SIGKILL, most likely out of memory\) "
        r"while running original( or running edited)?\n",
        error,
    ), error
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pb"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_ended_while_it_proves_takes_its_child_along(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    model, out = counting_loop(endless=True).write(tmp_path / "model.pb"), tmp_path / "out.pb"
    out.write_bytes(b"an earlier output")
    process, child = started_and_busy(["rename", model, "y=z", "-o", str(out)])
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in error
    assert gone(child)
    assert out.read_bytes() == b"an earlier output"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pb", "out.pb"]


def test_a_command_that_is_killed_takes_its_child_along(tmp_path: Path) -> None:
    """Nobody is there to end the child then: it notices by itself, though it is in the middle of a run."""
    model = counting_loop(endless=True).write(tmp_path / "model.pb")
    process, child = started_and_busy(["rename", model, "y=z", "-o", str(tmp_path / "out.pb")])
    process.kill()
    process.communicate(timeout=60)
    ended = gone(child)
    if not ended:
        os.kill(child, signal.SIGKILL)
    assert ended


# -- no TensorFlow, no GPU -----------------------------------------------------------------------------------


def test_without_tensorflow_there_is_no_proof(tmp_path: Path) -> None:
    """The packages that are needed are there, one by one, and TensorFlow is not."""
    import click
    import google.protobuf

    place = tmp_path / "packages"
    place.mkdir()
    (place / "click").symlink_to(Path(click.__file__).parent)
    (place / "google").symlink_to(Path(google.protobuf.__file__).parent.parent)
    (place / "gdsurgeon").symlink_to(ROOT / "gdsurgeon")
    model, out = simple().write(tmp_path / "model.pb"), tmp_path / "out.pb"
    boot = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gdsurgeon.cli.main import run; run()"

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-c", boot, str(place), "rename", model, "y=z", "-o", str(out), *options],
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            cwd=tmp_path,
        )

    for level in ("load", "run"):
        done = run("--validate", level)
        assert done.returncode == 7, done.stderr
        lines = done.stderr.splitlines()
        assert lines[0].startswith("Error: ") and "TensorFlow" in lines[0]
        assert lines[0].endswith("the result cannot be run here")
        assert lines[1:] == ["Hint: --validate structure does without TensorFlow"]
        assert not out.exists()
    done = run("--validate", "structure", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert "z" in gds.load(str(out))


def test_a_tensorflow_that_cannot_be_imported_is_as_good_as_none(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tensorflow.py").write_text("raise ImportError('a library is missing')\n")
    model, out = simple().write(tmp_path / "model.pb"), tmp_path / "out.pb"
    environment = {**os.environ, "PYTHONPATH": str(broken)}
    done = command("rename", model, "y=z", "-o", str(out), env=environment)
    assert done.returncode == 7, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and lines[0].startswith("Error: ") and "TensorFlow" in lines[0]
    assert lines[1] == "Hint: --validate structure does without TensorFlow"
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
        assert re.fullmatch(rf"TensorFlow sees no {wanted} here, only CPU:0(, .*)?", error.message)
        assert hint_of(error) == "--device cpu runs it on the CPU"


def test_the_cpu_by_its_device_name(tmp_path: Path) -> None:
    outcome = operated(tmp_path, simple(), renaming, device="/device:CPU:0")
    assert outcome.proof.device == "CPU:0" and outcome.proof.compared


# -- levels --------------------------------------------------------------------------------------------------


def falls_over(graph: Graph) -> EditResult:
    """A result that loads, and fails whenever it is run."""
    result = renaming(graph)
    kind = {"T": attr("float32").SerializeToString()}
    minus = graph.add("minus", "Neg", [graph.tensor("x")], attrs=kind)
    log = graph.add("log", "Log", [minus.output], attrs=kind)
    graph.set_op(graph["z"], "CheckNumerics")
    graph.set_attr(graph["z"], "message", attr(b"not a number").SerializeToString())
    graph.set_inputs(graph["z"], [log.output])
    return result


def not_an_op(graph: Graph) -> EditResult:
    result = renaming(graph)
    graph.set_op(graph["z"], "NobodyKnowsThisOp")
    result.intent.changed.append("z")
    return result


def not_a_dtype(graph: Graph) -> EditResult:
    result = renaming(graph)
    graph.set_attr(graph["z"], "T", b"\x30\x07")
    return result


def test_loading_shows_only_that_it_loads(tmp_path: Path) -> None:
    outcome = operated(tmp_path, simple(), falls_over, level="load")
    assert outcome.proof.level == "load" and outcome.proof.outputs == []
    (tmp_path / "out.pb").unlink()
    error = refused(tmp_path, simple(), falls_over, level="run")
    assert error.exit_code == 5
    assert error.message.startswith("the result does not run: ")


@pytest.mark.parametrize("level", ["load", "run"])
def test_what_does_not_load_is_found_by_loading(level: str, tmp_path: Path) -> None:
    error = refused(tmp_path, simple(), not_a_dtype, level=level)
    assert error.exit_code == 5
    assert error.message.startswith("the result does not load: ")
    assert hint_of(error) is None


@pytest.mark.parametrize("level", ["load", "run"])
def test_an_op_that_this_tensorflow_lacks(level: str, tmp_path: Path) -> None:
    error = refused(tmp_path, simple(), not_an_op, level=level)
    assert error.exit_code == 7
    assert "NobodyKnowsThisOp" in error.message
    assert hint_of(error) is not None and "--op-lib" in hint_of(error)


@pytest.mark.parametrize("level", ["none", "structure"])
def test_the_lower_levels_start_no_process(level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: Executor) -> Executor:
        raise AssertionError("TensorFlow was started")

    monkeypatch.setattr(Executor, "start", start)
    outcome = operated(tmp_path, simple(), crashing, level=level)
    assert (outcome.proof.level, outcome.proof.runtime) == (level, "")
    assert (tmp_path / "out.pb").is_file()


def test_an_original_that_does_not_run_is_not_blamed_on_the_edit(tmp_path: Path) -> None:
    m = simple()
    m.node("log", "Log", ["y"], T="float32")
    m.node("w", "CheckNumerics", ["log"], T="float32", message=b"not a number")
    error = refused(tmp_path, m, lambda g: gds.rename(g, [("w", "v")]))
    assert error.exit_code == 7
    assert error.message.startswith(f"{tmp_path / 'model.pb'} does not run on the feeds made for it (x [1,3]): ")


# -- what is published -----------------------------------------------------------------------------------------


def staged_hashes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes the hash of what TensorFlow is given as the edited graph."""
    seen: list[str] = []
    load_file, load_bytes = Executor.load_file, Executor.load_bytes

    def file(self: Executor, key: str, path: str) -> None:
        if key == EDITED:
            seen.append(hashlib.sha256(Path(path).read_bytes()).hexdigest())
        load_file(self, key, path)

    def data(self: Executor, key: str, content: bytes) -> None:
        if key == EDITED:
            seen.append(hashlib.sha256(content).hexdigest())
        load_bytes(self, key, content)

    monkeypatch.setattr(Executor, "load_file", file)
    monkeypatch.setattr(Executor, "load_bytes", data)
    return seen


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_bytes_that_were_proven_are_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = staged_hashes(monkeypatch)
    operated(tmp_path, simple(), renaming)
    assert seen == [sha256((tmp_path / "out.pb").read_bytes())]


def test_in_place_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = staged_hashes(monkeypatch)
    path = simple().write(tmp_path / "model.pb")
    operate(Request(path, in_place=True, backup=".old"), renaming)
    assert seen == [sha256(Path(path).read_bytes())] != [sha256(simple().bytes())]
    assert Path(path + ".old").read_bytes() == simple().bytes()


def test_and_of_a_text_what_a_reader_of_the_text_will_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = staged_hashes(monkeypatch)
    path = simple().write(tmp_path / "model.pb")
    operate(Request(path, out=str(tmp_path / "out.pbtxt")), renaming)
    written = (tmp_path / "out.pbtxt").read_bytes()
    assert b'name: "z"' in written
    assert seen == [sha256(to_binary(written, "out.pbtxt"))]


def test_and_on_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    seen = staged_hashes(monkeypatch)
    path = simple().write(tmp_path / "model.pb")
    operate(Request(path, out="-"), renaming)
    assert seen == [sha256(capfdbinary.readouterr().out)]


def test_a_dry_run_proves_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = staged_hashes(monkeypatch)
    outcome = operated(tmp_path, simple(), renaming, dry_run=True)
    assert outcome.proof.compared and len(seen) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["model.pb"]
    operated(tmp_path, simple(), renaming)
    assert seen[0] == seen[1] == sha256((tmp_path / "out.pb").read_bytes())


def test_an_earlier_output_stays_where_the_proof_fails(tmp_path: Path) -> None:
    (tmp_path / "out.pb").write_bytes(b"an earlier output")
    refused(tmp_path, simple(), falls_over)
    assert (tmp_path / "out.pb").read_bytes() == b"an earlier output"


def test_nothing_is_at_the_output_before_the_proof_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    comparisons = Executor.comparisons

    def looking(self: Executor, pending: Any) -> Any:
        found.append((tmp_path / "out.pb").exists())
        return comparisons(self, pending)

    monkeypatch.setattr(Executor, "comparisons", looking)
    operated(tmp_path, simple(), renaming)
    assert found and not any(found)
    assert (tmp_path / "out.pb").exists()


def test_an_input_that_changes_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def changing(graph: Graph) -> EditResult:
        result = renaming(graph)
        with open(tmp_path / "model.pb", "ab") as file:
            file.write(b"\x0a\x00")
        return result

    simple().write(tmp_path / "model.pb")
    with pytest.raises(gds.GdsurgeonError) as caught:
        operated(tmp_path, simple(), changing)
    assert caught.value.exit_code == 3
    assert not (tmp_path / "out.pb").exists()


def test_tensorflow_says_nothing_on_the_way(tmp_path: Path) -> None:
    model = simple().write(tmp_path / "model.pb")
    done = command("rename", model, "y=z", "-o", str(tmp_path / "out.pb"), "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_threads_of_this_process_are_not_needed(tmp_path: Path) -> None:
    """The proof is made from whatever thread asks for it."""
    caught: list[BaseException] = []

    def work() -> None:
        try:
            operated(tmp_path, simple(), renaming)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(120)
    assert not thread.is_alive() and caught == []
    assert (tmp_path / "out.pb").is_file()
