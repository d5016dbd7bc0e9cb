"""The child process: its crashes, its silence, its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.desk import check_raised
from support.paths import ROOT, TESTS
from support.patience import LONG_ENOUGH, begun, gone, until
from support.workers import loading

from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.resources import MEMORY
from gdsurgeon.runtime import client, process
from gdsurgeon.runtime import worker as worker_module
from gdsurgeon.runtime.base import RunResult
from gdsurgeon.runtime.client import Pending, Worker
from gdsurgeon.runtime.failures import TensorFlowMissing
from gdsurgeon.runtime.process import Log
from gdsurgeon.runtime.protocol import Channel
from gdsurgeon.runtime.tensor import from_numpy

WAIT = LONG_ENOUGH
X = from_numpy(np.ones(3, np.float32))


def script(text: str) -> subprocess.CompletedProcess[str]:
    """The end of a program that has `Worker` and `graphs`. It must succeed."""
    path = os.pathsep.join([str(ROOT), str(TESTS)])
    lines = ["import os, signal, sys", "from support import graphs", "from gdsurgeon.runtime.client import Worker"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([*lines, textwrap.dedent(text)])],
        capture_output=True,
        text=True,
        timeout=WAIT,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done


def failure(pending: Pending[Any], code: str, timeout: float = WAIT, **facts: object) -> GdsurgeonError:
    """The failure of a request, which has a code and facts."""
    with pytest.raises(GdsurgeonError) as caught:
        pending.result(timeout)
    assert caught.value.code == code, caught.value
    assert {name: caught.value.facts.get(name) for name in facts} == facts
    return caught.value


def test_importing_the_client_is_cheap() -> None:
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    heavy = {"tensorflow", "numpy", "google", "multiprocessing", "subprocess", "asyncio", "ctypes", "pickle"}
    code = f"import sys, gdsurgeon.runtime.client; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], env=path).returncode == 0


@pytest.mark.tensorflow
def test_crash() -> None:
    with Worker() as worker:
        worker.load("original", graphs.hanging()).result(WAIT)
        beside = worker.run("original", "r", {}, ["y"])
        begun(beside)
        failure(worker.load("edited", graphs.CRASHING), "crashed", doing=["loading edited"], signal="SIGSEGV")
        failure(worker.info(), "crashed")  # and so does whatever comes after
        failure(beside, "crashed")


@pytest.mark.tensorflow
@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads in /proc")
def test_the_thread_of_a_graph_ends_when_the_graph_is_unloaded() -> None:
    with Worker(runtime="capi") as worker:
        counts = []
        for number in range(40):
            worker.load(f"graph {number}", graphs.doubling())
            assert worker.run(f"graph {number}", "r", {"x": X}, ["y"]).result(WAIT).outputs
            worker.unload(f"graph {number}").result(WAIT)
            counts.append(len(os.listdir(f"/proc/{worker._pid}/task")))
        again = worker.load("graph 0", graphs.doubling())
        ended, other = worker.unload("graph 0"), worker.load("graph 0", graphs.doubling())
        for request in (again, ended, other, worker.run("graph 0", "r", {"x": X}, ["y"])):
            request.result(WAIT)
    assert max(counts[5:]) <= max(counts[:5]) + 1  # the last thread may still be ending


@pytest.mark.tensorflow
def test_timeout_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(runtime="capi").start()
    worker.load("edited", graphs.hanging()).result(WAIT)
    pid = worker._pid
    assert pid is not None
    monkeypatch.setattr(client.time, "sleep", lambda _: pytest.fail("it is not waited for"))
    failure(worker.run("edited", "r", {}, ["y"]), "timed-out", 0.5, doing=["running edited"], seconds=0.5)
    monkeypatch.undo()
    assert gone(pid)
    worker.close()


@pytest.mark.tensorflow
def test_graphs_run_at_the_same_time_and_a_hanging_one_blocks_only_its_own() -> None:
    with Worker(runtime="capi") as worker:
        worker.load("stuck", graphs.hanging())
        worker.load("free", graphs.doubling())
        waiting = worker.run("stuck", "r1", {}, ["y"])
        behind = worker.signature("stuck", ["y"])
        assert worker.run("free", "r2", {"x": X}, ["y"]).result(WAIT).outputs[0].shape == (3,)
        assert not waiting.done and not behind.done
        begun(waiting)
        # What holds it up, and not what it would do.
        failure(behind, "timed-out", 0.2, doing=["running stuck"])


@pytest.mark.tensorflow
def test_killed_from_outside() -> None:
    with Worker(runtime="capi") as worker:
        worker.load("edited", graphs.hanging())
        pending = worker.run("edited", "r", {}, ["y"])
        begun(pending)
        assert worker._pid is not None
        os.kill(worker._pid, signal.SIGINT)  # is the parent's business
        assert worker.info().result(WAIT).runtime == "capi"
        os.kill(worker._pid, signal.SIGKILL)
        failure(pending, "crashed", doing=["running edited"], signal="SIGKILL")


@pytest.mark.tensorflow
@pytest.mark.parametrize("manner", ["os.kill(os.getpid(), 9)", "sys.exit()"])
def test_child_ends_with_its_parent(manner: str) -> None:
    done = script(f"""
        w = Worker(runtime="capi").start()
        w.load("g", graphs.hanging())
        w.run("g", "r", {{}}, ["y"])
        w.info().result({WAIT})
        print(w._pid, flush=True)
        {manner}
    """)
    assert done.stderr == ""
    assert gone(int(done.stdout))


@pytest.mark.tensorflow
def test_close_leaves_no_zombie_and_may_be_repeated() -> None:
    worker = Worker(runtime="capi").start()
    pid = worker._pid
    assert pid is not None
    worker.close()
    worker.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    failure(worker.info(), "closed")


@pytest.mark.slow
@pytest.mark.tensorflow
def test_nothing_is_printed_unless_it_is_to_be_shown() -> None:
    text = "Error: \x1b[31mall is lost"
    said = graphs.const("s", text, "string")
    data = {
        stream: graphs.graph_bytes(said, graphs.node("p", "PrintV2", ["s"], output_stream=stream))
        for stream in ("stdout", "stderr")
    }
    done = script(
        f"""
        for verbose in (False, True):
            with Worker(verbose=verbose) as w:
                for stream, data in {data}.items():
                    w.load(stream, data)
                    w.run(stream, "r", {{}}, [], ["p"]).result()
                assert w.log_tail().count({text!r}) == 2, w.log_tail()
            assert w.log_tail().count({text!r}) == 2
            print(verbose, file=sys.stderr, flush=True)
        assert not {{"numpy", "tensorflow"}} & set(sys.modules)
        """
    )
    first, *shown, last = done.stderr.splitlines()
    assert (done.stdout, first, last) == ("", "False", "True")
    assert shown.count(r"tensorflow: Error: \x1b[31mall is lost") == 2  # told apart from what is ours
    assert all(line.startswith("tensorflow: ") for line in shown)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("before", "then", "out"),
    [
        ("os.close(0); os.close(1)", "w.load('g', graphs.doubling()).result()", ""),
        ("", "os.fork() or sys.exit(); os.wait(); print(w.info().result().runtime)", "capi\n"),
        (
            "signal.signal(signal.SIGPIPE, signal.SIG_DFL)",
            """w.info().result()
            os.kill(w._pid, signal.SIGTERM)
            os.waitid(os.P_PID, w._pid, os.WEXITED | os.WNOWAIT)
            try:
                w.load("g", bytes(1 << 20)).result()
            except Exception as error:
                print(error.code, error.facts)""",
            "crashed {'doing': ['waiting'], 'signal': 'SIGTERM', 'reason': ''}\n",
        ),
    ],
    ids=["standard descriptors are closed", "the parent forks", "the child is dead where SIGPIPE kills"],
)
def test_what_may_be_with_the_parent(before: str, then: str, out: str) -> None:
    done = script(f"""
        {before}
        with Worker(runtime="capi") as w:
            {then}
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, out, "")


@pytest.mark.tensorflow
def test_graph_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "söme graph.pb"
    path.write_bytes(graphs.doubling())
    (tmp_path / "empty.pb").write_bytes(b"")
    with Worker(runtime="capi") as worker:
        worker.load("g", str(path))
        worker.run("g", "r", {"x": X}, ["y"])
        assert worker.tensor("r", 0).result(WAIT).numpy().tolist() == [2, 2, 2]
        worker.load("empty", str(tmp_path / "empty.pb")).result(WAIT)
        failure(worker.load("g", str(tmp_path / "absent.pb")), "unreadable")
        failure(worker.signature("g", ["y"]), "failed")
        assert path.read_bytes() == graphs.doubling()


@pytest.mark.tensorflow
def test_big_tensors_travel_both_ways() -> None:
    big = from_numpy(np.arange(8_000_000, dtype=np.float32))
    with Worker(runtime="capi") as worker:
        worker.load("g", graphs.graph_bytes(graphs.placeholder("x"), graphs.identity("y", "x")))
        worker.run("g", "r", {"x": big}, ["y"])
        back = [worker.tensor("r", 0) for _ in range(3)]
        assert all(p.result(WAIT).tobytes() == big.tobytes() for p in back)


# --- another TensorFlow than the installed one ---------------------------------------------------------


def with_package(monkeypatch: pytest.MonkeyPatch, folder: Path, source: str | None) -> None:
    """Let children find a package tensorflow made of SOURCE in FOLDER, or none at all."""
    if source is not None:
        (folder / "tensorflow").mkdir()
        (folder / "tensorflow" / "__init__.py").write_text(source)
    standard = [place for place in sys.path if "site-packages" not in place]
    monkeypatch.setattr(client, "module_path", lambda: [str(folder), *standard])


@pytest.mark.tensorflow
@pytest.mark.parametrize("runtime", [None, "capi", "python"])
@pytest.mark.parametrize("source", [None, "raise RuntimeError('no AVX here\\nsecond line')"])
def test_no_tensorflow_or_a_broken_one(
    runtime: str | None, source: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_package(monkeypatch, tmp_path, source)
    with Worker(runtime=runtime) as worker:
        missing = failure(worker.load("g", b""), "no-tensorflow")
        assert isinstance(missing, TensorFlowMissing) and "second line" not in str(missing)
        assert ("no AVX here" in str(missing)) is (source is not None and runtime == "python")


@pytest.mark.tensorflow
def test_interpreter_that_does_not_come_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "module_path", list)
    with Worker() as worker:
        died = failure(worker.info(), "crashed", doing=["starting"], signal=None)
        assert "(exit code 1)" in died.message
        assert "Error" in worker.log_tail()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    check_raised(GdsurgeonError, "no-tensorflow", lambda: Worker().start())


# --- large graphs --------------------------------------------------------------------------------------


def test_only_one_large_graph_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph without state is loaded again for its next request; a graph with state stays."""
    loaded: list[bytes] = []

    class Graph:
        def __init__(self, data: bytes) -> None:
            loaded.append(data)

        def run(self, *_: object) -> RunResult:
            return RunResult([], None)

        def close(self) -> None:
            pass

    class Spy:
        def load(self, data: bytes, *_: object) -> Graph:
            return Graph(bytes(data))

    monkeypatch.setattr(worker_module, "memory_budget", lambda: 1300)
    child = worker_module.Child(Channel(socket.socketpair()[0]), True)
    child.runtime = Spy()  # type: ignore[assignment]

    def in_memory(child: worker_module.Child) -> set[str]:
        return {key for key, file in child._graphs.items() if file.loaded is not None}

    small, one, two = b"small", b"1" * 101, b"2" * 102
    for key, data in (("small", small), ("one", one), ("two", two)):
        loading(child, key, data).work()
    assert in_memory(child) == {"small", "two"}
    child.run("one", "r", {}, []).work()
    child.run("small", "r", {}, []).work()
    assert in_memory(child) == {"small", "one"} and loaded == [small, one, two, one]
    child.run("one", "r", {}, [], ["init"]).work()
    child.run("two", "r", {}, []).work()
    assert in_memory(child) == {"small", "one", "two"}
    child.unload("one").work()
    with pytest.raises(KeyError):
        child.run("one", "r", {}, []).work()


def test_memory_is_taken_in_large_pieces_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(process, "is_memory_limited", lambda: False)
    monkeypatch.setenv(MEMORY, "8192")
    assert "top_pad" in process.environment(verbose=False, cpu_only=True)["GLIBC_TUNABLES"]
    monkeypatch.setenv(MEMORY, "1024")
    assert "GLIBC_TUNABLES" not in process.environment(verbose=False, cpu_only=True)
    monkeypatch.setenv(MEMORY, "8192")
    monkeypatch.setattr(process, "is_memory_limited", lambda: True)
    assert "GLIBC_TUNABLES" not in process.environment(verbose=False, cpu_only=True)


SECRETS = ("AWS_SECRET_ACCESS_KEY", "TOKEN", "LD_PRELOAD", "PASSWORD_OF_TF_", "MY_LC_ALL")
TOLD = {
    "GLIBC_TUNABLES": "glibc.malloc.perturb=1",
    "LC_TIME": "C",
    "TF_ANY": "1",
    "XLA_FLAGS": "",
    "OMP_NUM_THREADS": "2",
}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "")
    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)


def check_passed(found: Mapping[str, str]) -> None:
    assert not set(SECRETS) & set(found)
    assert {name: found.get(name) for name in TOLD} == TOLD


@pytest.mark.usefixtures("variables")
def test_a_library_is_preloaded_for_a_release_alone(tmp_path: Path) -> None:
    check_passed(process.environment(verbose=False, cpu_only=True, runtime=str(tmp_path)))
    library = tmp_path / process.PRELOADED
    library.write_bytes(b"")
    assert process.environment(verbose=False, cpu_only=True, runtime=str(tmp_path))["LD_PRELOAD"] == str(library)


@pytest.mark.tensorflow
@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize("runtime", ["capi", "python", "tflite"])
def test_a_secret_variable_does_not_reach_the_child(runtime: str) -> None:
    with Worker(runtime=runtime) as worker:
        found = until(lambda: Path(f"/proc/{worker._pid}/environ").read_text())
        check_passed(dict(line.split("=", 1) for line in found.split("\0") if line))


def test_a_log_that_the_child_has_cut_is_still_followed(capfd: pytest.CaptureFixture[str]) -> None:
    log = Log(shown=False)
    for text in (b"one\ntwo", b"x" * (3 << 15) + b"\nlast"):
        os.truncate(log.descriptor, 0)
        os.pwrite(log.descriptor, text, 0)
        log._pass_on(whole_lines=True)
    log._pass_on(whole_lines=False)
    log.close()
    shown = capfd.readouterr().err.splitlines()
    assert shown[0] == "tensorflow: one" and shown[-1] == "tensorflow: last"
    assert all(line.startswith("tensorflow: ") and len(line) < 1 << 17 for line in shown)
