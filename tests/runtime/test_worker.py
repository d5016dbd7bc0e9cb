"""The child process: its crashes, its silence, its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from support import graphs
from support.paths import ROOT, TESTS
from support.patience import LONG_ENOUGH, begun, gone

from gdsurgeon.runtime import client
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.failures import RuntimeFailure, TensorFlowMissing, WorkerDied, WorkerTimeout
from gdsurgeon.runtime.protocol import Info
from gdsurgeon.runtime.tensor import Tensor, from_numpy

WAIT = LONG_ENOUGH
X = from_numpy(np.ones(3, np.float32))


def script(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(TESTS)])
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=WAIT,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def test_importing_the_client_is_cheap() -> None:
    done = script("""
        import sys
        import gdsurgeon.runtime.client
        heavy = {"tensorflow", "numpy", "google", "multiprocessing", "subprocess", "asyncio", "ctypes"}
        print(sorted(heavy & set(sys.modules)))
    """)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.tensorflow
@pytest.mark.parametrize("runtime", ["capi", "python"])
def test_crash(runtime: str) -> None:
    with Worker(runtime=runtime) as worker:
        fine = worker.load("original", data=graphs.doubling())
        fine.result(WAIT)
        worker.run("original", "r", {"x": X}, ["y"])
        deadly = worker.load("edited", data=graphs.CRASHING)
        with pytest.raises(WorkerDied) as caught:
            deadly.result(WAIT)
        assert str(caught.value) == "TensorFlow crashed (SIGSEGV) while loading edited"
        assert caught.value.signal_name == "SIGSEGV"
        with pytest.raises(WorkerDied):  # and so does whatever comes after
            worker.info().result(WAIT)


@pytest.mark.tensorflow
def test_crash_beside_work_on_another_graph() -> None:
    with Worker(runtime="capi") as worker:
        worker.load("original", data=graphs.hanging())
        busy = worker.run("original", "r", {}, ["y"])
        begun(busy)
        with pytest.raises(WorkerDied, match=r"^TensorFlow crashed \(SIGSEGV\) while loading edited$"):
            worker.load("edited", data=graphs.CRASHING).result(WAIT)
        with pytest.raises(WorkerDied):
            busy.result(WAIT)


@pytest.mark.tensorflow
def test_timeout_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(runtime="capi").start()
    worker.load("edited", data=graphs.hanging()).result(WAIT)
    pid = worker._pid
    assert pid is not None
    monkeypatch.setattr(client.time, "sleep", lambda _: pytest.fail("it is not waited for"))
    with pytest.raises(WorkerTimeout) as caught:
        worker.run("edited", "r", {}, ["y"]).result(0.5)
    monkeypatch.undo()
    assert str(caught.value) == "TensorFlow did not finish running edited within 0.5 s"
    assert gone(pid)
    worker.close()


@pytest.mark.tensorflow
def test_graphs_run_at_the_same_time_and_a_hanging_one_blocks_only_its_own() -> None:
    with Worker(runtime="capi") as worker:
        worker.load("stuck", data=graphs.hanging())
        worker.load("free", data=graphs.doubling())
        waiting = worker.run("stuck", "r1", {}, ["y"])
        behind = worker.signature("stuck", ["y"])
        assert worker.run("free", "r2", {"x": X}, ["y"]).result(WAIT).outputs[0].shape == (3,)
        assert not waiting.done and not behind.done
        begun(waiting)
        with pytest.raises(WorkerTimeout, match="running stuck"):  # what holds it up, not what it would do
            behind.result(0.2)


@pytest.mark.tensorflow
def test_killed_from_outside() -> None:
    with Worker(runtime="capi") as worker:
        worker.load("edited", data=graphs.hanging())
        pending = worker.run("edited", "r", {}, ["y"])
        begun(pending)
        assert worker._pid is not None
        os.kill(worker._pid, signal.SIGKILL)
        with pytest.raises(WorkerDied) as caught:
            pending.result(WAIT)
        text = "TensorFlow was killed (SIGKILL, most likely out of memory) while running edited"
        assert str(caught.value) == text
        assert caught.value.exit_status == -9


@pytest.mark.tensorflow
def test_ctrl_c_is_the_parents_business() -> None:
    with Worker(runtime="capi") as worker:
        worker.info().result(WAIT)
        assert worker._pid is not None
        os.kill(worker._pid, signal.SIGINT)
        assert worker.info().result(WAIT).runtime == "capi"


@pytest.mark.tensorflow
@pytest.mark.parametrize("manner", ["os.kill(os.getpid(), 9)", "sys.exit()", "w.close()", "os._exit(0)"])
def test_child_ends_with_its_parent(manner: str) -> None:
    done = script(f"""
        import os, sys
        from support import graphs
        from gdsurgeon.runtime.client import Worker
        w = Worker(runtime="capi").start()
        w.load("g", data=graphs.hanging())
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
    with pytest.raises(RuntimeFailure, match="has been closed"):
        worker.info().result(WAIT)


@pytest.mark.tensorflow
@pytest.mark.parametrize("runtime", ["capi", "python"])
def test_nothing_is_printed(runtime: str) -> None:
    said = graphs.const("s", "said by the graph", "string")
    printing = graphs.graph_bytes(said, graphs.node("p", "PrintV2", ["s"]))
    out = graphs.graph_bytes(said, graphs.node("p", "PrintV2", ["s"], output_stream="stdout"))
    done = script(
        f"""
        import sys
        from gdsurgeon.runtime.client import Worker
        with Worker() as w:
            w.load("g", data={printing!r})
            w.load("out", data={out!r})
            w.run("g", "r", {{}}, [], ["p"]).result()
            w.run("out", "r", {{}}, [], ["p"]).result()
            assert w.log_tail().count("said by the graph") == 2, w.log_tail()
        assert w.log_tail().count("said by the graph") == 2
        assert not {{"numpy", "tensorflow"}} & set(sys.modules)
        """,
        GDSURGEON_RUNTIME=runtime,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.tensorflow
def test_verbose_goes_to_standard_error_only() -> None:
    done = script("""
        from gdsurgeon.runtime.client import Worker
        with Worker(runtime="capi", verbose=True) as w:
            w.info().result()
            assert w.log_tail() == ""
    """)
    assert done.returncode == 0 and done.stdout == ""


@pytest.mark.tensorflow
def test_what_a_graph_prints_is_told_apart_from_what_is_ours() -> None:
    done = script("""
        from support import graphs
        from gdsurgeon.runtime.client import Worker
        said = graphs.const("s", "Error: \\x1b[31mall is lost", "string")
        with Worker(runtime="capi", verbose=True) as w:
            for stream in ("stdout", "stderr"):
                printing = graphs.node("p", "PrintV2", ["s"], output_stream=stream)
                w.load(stream, data=graphs.graph_bytes(said, printing))
                w.run(stream, "r", {}, [], ["p"]).result()
    """)
    assert (done.returncode, done.stdout) == (0, "")
    lines = done.stderr.splitlines()
    assert lines.count(r"tensorflow: Error: \x1b[31mall is lost") == 2
    assert all(line.startswith("tensorflow: ") for line in lines)


@pytest.mark.tensorflow
def test_standard_descriptors_may_be_closed() -> None:
    done = script("""
        import os
        from support import graphs
        for fd in (0, 1):
            os.close(fd)
        from gdsurgeon.runtime.client import Worker
        with Worker(runtime="capi") as w:
            w.load("g", data=graphs.doubling()).result()
    """)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.tensorflow
def test_graph_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "söme graph.pb"
    path.write_bytes(graphs.doubling())
    (tmp_path / "empty.pb").write_bytes(b"")
    with Worker(runtime="capi") as worker:
        worker.load("g", path=str(path))
        worker.run("g", "r", {"x": X}, ["y"])
        assert worker.tensor("r", 0).result(WAIT).numpy().tolist() == [2, 2, 2]
        worker.load("empty", path=str(tmp_path / "empty.pb")).result(WAIT)
        with pytest.raises(RuntimeFailure, match=r"cannot read .*absent.pb'"):
            worker.load("g", path=str(tmp_path / "absent.pb")).result(WAIT)
        with pytest.raises(RuntimeFailure, match="no graph 'g' is loaded"):
            worker.signature("g", ["y"]).result(WAIT)
        with pytest.raises(RuntimeFailure, match="there is no result 'nope'"):
            worker.tensor("nope", 0).result(WAIT)
        with pytest.raises(RuntimeFailure, match="no output 3"):
            worker.tensor("r", 3).result(WAIT)
        assert path.read_bytes() == graphs.doubling()


@pytest.mark.tensorflow
def test_big_tensors_travel_both_ways() -> None:
    big = from_numpy(np.arange(8_000_000, dtype=np.float32))
    with Worker(runtime="capi") as worker:
        worker.load("g", data=graphs.graph_bytes(graphs.placeholder("x"), graphs.identity("y", "x")))
        worker.run("g", "r", {"x": big}, ["y"])
        back = [worker.tensor("r", 0) for _ in range(3)]
        assert all(p.result(WAIT).tobytes() == big.tobytes() for p in back)


@pytest.mark.tensorflow
def test_dead_child_is_an_error_even_where_sigpipe_kills() -> None:
    done = script("""
        import os, signal
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        from gdsurgeon.runtime.client import Worker
        from gdsurgeon.runtime.failures import WorkerDied
        with Worker(runtime="capi") as w:
            w.info().result()
            os.kill(w._pid, signal.SIGTERM)
            os.waitid(os.P_PID, w._pid, os.WEXITED | os.WNOWAIT)
            try:
                w.load("g", data=bytes(1 << 20)).result()
            except WorkerDied as error:
                print(error)
    """)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "TensorFlow was killed (SIGTERM) while waiting\n"


@pytest.mark.tensorflow
def test_a_fork_of_the_parent_leaves_the_child_alone() -> None:
    done = script("""
        import os
        from gdsurgeon.runtime.client import Worker
        with Worker(runtime="capi") as w:
            pid = os.fork()
            if not pid:
                raise SystemExit  # runs what is registered with atexit
            os.waitpid(pid, 0)
            print(w.info().result().runtime)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "capi\n", "")


# --- another TensorFlow than the installed one ---------------------------------------------------------


def with_package(monkeypatch: pytest.MonkeyPatch, folder: Path, source: str | None) -> None:
    """Let children find a package tensorflow made of SOURCE in FOLDER, or none at all."""
    if source is not None:
        (folder / "tensorflow").mkdir()
        (folder / "tensorflow" / "__init__.py").write_text(source)
    standard = [place for place in sys.path if "site-packages" not in place]
    monkeypatch.setattr(client, "module_path", lambda: [str(folder), *standard])


@pytest.mark.tensorflow
def test_no_tensorflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_package(monkeypatch, tmp_path, None)
    for runtime in (None, "capi", "python"):
        with Worker(runtime=runtime) as worker:
            pending = worker.load("g", data=b"")
            with pytest.raises(TensorFlowMissing, match=r"^TensorFlow is not installed$"):
                pending.result(WAIT)


@pytest.mark.tensorflow
def test_broken_tensorflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_package(monkeypatch, tmp_path, "raise RuntimeError('no AVX here\\nsecond line')")
    with Worker() as worker, pytest.raises(TensorFlowMissing, match="imported: no AVX here"):
        worker.info().result(WAIT)
    with Worker(runtime="capi") as worker, pytest.raises(TensorFlowMissing, match="C API cannot be loaded"):
        worker.info().result(WAIT)


@pytest.mark.tensorflow
def test_python_stands_in_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_package(monkeypatch, tmp_path, "__version__ = '9.9'")
    with Worker() as worker:
        assert worker.info().result(WAIT) == Info("python", "9.9")


@pytest.mark.tensorflow
def test_bad_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDSURGEON_RUNTIME", "julia")
    with Worker() as worker, pytest.raises(RuntimeFailure, match="must be capi or python, not 'julia'"):
        worker.info().result(WAIT)


@pytest.mark.tensorflow
def test_interpreter_that_does_not_come_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "module_path", list)
    with Worker() as worker:
        with pytest.raises(WorkerDied, match=r"ended unexpectedly \(exit code 1\) while starting"):
            worker.info().result(WAIT)
        assert "Error" in worker.log_tail()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(RuntimeFailure, match="cannot start a process"):
        Worker().start()


def test_a_request_for_a_missing_tensor_type_is_the_callers_error() -> None:
    with pytest.raises(TypeError):
        Tensor(99, (), b"")
