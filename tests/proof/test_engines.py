"""A different engine runs a graph next to TensorFlow; failures while a proof runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from support.desk import check_error
from support.engines import does, engine_in
from support.failing import crashing, renaming, simple
from support.graphs import (
    FLOAT,
    INT32,
    STRING,
    add,
    const,
    counting_loop,
    graph,
    identity,
    node,
    placeholder,
    scalar,
    typed,
)
from support.operating import operated, refused
from support.paths import ROOT
from support.patience import LONG_ENOUGH, impatient_with

import gdsurgeon as gds
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import EditError, GdsurgeonError, NotValidatedError, UsageError, ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.elsewhere import EngineRequest, EngineRun, agreement, run_in_engine, told
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.runtime.compare import CHANNELS_FIRST
from gdsurgeon.runtime.failures import Stage
from gdsurgeon.runtime.packages import MODULES, PACKAGES, engine_at, is_in

pytestmark = pytest.mark.tensorflow


X = placeholder("x", shape=(-1, 3))
TWICE = add("y", "x", "x")


@pytest.fixture
def here() -> Iterator[Executor]:
    with Executor(Settings()) as executor:
        yield executor


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A replacement for OpenCV: one process of it serves many tests."""
    return engine_in(tmp_path_factory.mktemp("engine"))


def ran(executor: Executor, place: str, *records: bytes, **request: float) -> EngineRun:
    what = graph(X, *(records if len(records) > 1 else (TWICE, *records)))
    return run_in_engine(executor, what, Overrides(), EngineRequest("opencv", place, **request))  # type: ignore[arg-type]


def test_an_engine_that_gives_the_same(here: Executor, engine: str) -> None:
    """An Identity at the end is no layer of OpenCV's; the second sample is a batch of two."""
    for records in ((), (TWICE, identity("z", "y"))):
        found = ran(here, engine, *records)
        assert (found.called, found.samples, found.wrong) == ("OpenCV 9.8.7", 2, [])
        assert agreement(found) == "1 output, 2 input sets, bit-identical" and list(found.feeds) == ["x"]


def test_an_engine_that_gives_something_else(here: Executor, engine: str) -> None:
    far = does(run="x + x + 0.5")
    (wrong,) = ran(here, engine, far).wrong
    assert told(wrong).startswith("largest difference 5.0e-01 (") and wrong.name == "y"
    assert ran(here, engine, far, TWICE, atol=0.6).wrong == []
    short = ran(here, engine, does(run="(x + x)[:, :2]"))
    assert short.wrong[0].reason == "shapes [1,3] and [1,2]"
    assert told(ran(here, engine, does(run="x * np.nan")).wrong[0]).startswith("one is a number")


def test_what_is_near_enough_where_nobody_says(here: Executor, engine: str) -> None:
    near = does(run="(x + x) * np.float32(1.0005)")
    found = ran(here, engine, near)
    assert found.wrong == [] and 4e-4 < (found.outputs["y"].relative or 0) < 6e-4
    assert ran(here, engine, near, TWICE, rtol=1e-4).wrong and not ran(here, engine, near, TWICE, rtol=1e-3).wrong
    assert ran(here, engine, does(run="(x + x) * np.float32(1.01)")).wrong


def fault(kind: type[GdsurgeonError], *arguments: Any, **options: Any) -> GdsurgeonError:
    """The error of `ran`, or of `run_in_engine` for a graph."""
    with pytest.raises(kind) as caught:
        (run_in_engine if isinstance(arguments[1], Graph) else ran)(*arguments, **options)
    return caught.value


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ({"load": "fail('Unknown layer')"}, "Unknown layer"),
        ({"run": "fail('no memory\\nat all')"}, "no memory"),
        ({"run": "1 + None"}, "unsupported operand"),
        ({"load": "os.abort()"}, "SIGABRT"),
        ({"run": "ctypes.string_at(0)"}, "SIGSEGV"),
        ({"run": "os._exit(3)"}, "exit code 3"),
    ],
)
def test_an_engine_that_does_not_take_it(here: Executor, engine: str, way: dict[str, str], why: str) -> None:
    error = fault(EditError, here, engine, does(**way))
    assert error.code == "not-loadable" and why in error.facts["why"]


def test_an_engine_that_hangs(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = does(run="time.sleep(6000)")
    impatient_with(monkeypatch, Stage("running", ORIGINAL), "OpenCV")
    with Executor(Settings(timeout=0.5)) as executor, pytest.raises(ValidationError) as caught:
        ran(executor, engine, stuck)
    assert caught.value.code == "timed-out" and caught.value.advice == ("longer",)


def test_a_batch_that_it_does_not_take(here: Executor, engine: str) -> None:
    found = ran(here, engine, does(run="x + x if len(x) == 1 else fail('one at a time')"))
    said = "with a batch of two: OpenCV 9.8.7 does not run model.pb: one at a time"
    assert found.samples == 2 and found.notes == [said] and not found.wrong


def test_one_sample_that_differs_is_enough(here: Executor, engine: str) -> None:
    """The first is a batch of one, the second of two."""
    for which in (1, 2):
        assert ran(here, engine, does(run=f"x + x + (len(x) == {which})")).wrong


def test_images_are_given_channels_first(here: Executor, engine: str) -> None:
    """If a node states that they are not, they arrive in this form as well."""
    records = [placeholder("x", shape=(1, 2, 3, 4)), const("bias", [1, 2, 3, 4])]
    stated = typed("BiasAdd", "y", "x", "bias", data_format="NHWC")
    for last, reshaped, form in ((stated, ".reshape(1, 4, 1, 1)", CHANNELS_FIRST), (add("y", "x", "bias"), "", "")):
        found = graph(*records, last, does(run=f"x + np.arange(1, 5, dtype='f4'){reshaped}"))
        (output,) = run_in_engine(here, found, Overrides(), EngineRequest("opencv", engine)).outputs.values()
        assert output.agrees and output.form == form
        assert not form or output.given_shape == (1, 4, 2, 3)


def test_what_an_engine_cannot_be_given(here: Executor, engine: str) -> None:
    """Strings, and tensors that only TensorFlow can be fed: a variable with an unknown value."""
    texts = graph(placeholder("x", STRING, (2,)), node("y", "StringJoin", ["x", "x"], N=2))
    variable = node("v", "VariableV2", dtype=FLOAT, shape=(3,)), add("y", "x", "v")
    for name, error in (
        ("x", fault(EditError, here, texts, Overrides(), EngineRequest("opencv", engine))),
        ("v", fault(EditError, here, engine, *variable)),
    ):
        assert error.code == "not-loadable" and repr(name) in error.facts["why"]


def test_what_shows_nothing(here: Executor, engine: str) -> None:
    odd = scalar("nan", float("nan")), add("y", "x", "nan"), does(run="x * np.nan")
    assert fault(NotValidatedError, here, engine, *odd).code == "nothing-comparable"
    assert fault(NotValidatedError, here, engine, node("y", "NoSuchOp", ["x"]), does()).code == "does-not-load"


def test_a_sample_that_tensorflow_refuses(here: Executor, engine: str, tmp_path: Path) -> None:
    """The index of the second sample is out of range."""
    np.savez(tmp_path / "feeds.npz", **{"x": np.array([0, 1], "int32"), "x@1": np.array([0, 9], "int32")})
    gathered = node("y", "Gather", ["rows", "x"], Tparams=FLOAT, Tindices=INT32)
    found = graph(placeholder("x", INT32, (2,)), const("rows", [[1.0], [2.0]]), gathered, does(run="x[:, None] + 1.0"))
    archive = Overrides(archive=str(tmp_path / "feeds.npz"))
    assert fault(NotValidatedError, here, found, archive, EngineRequest("opencv", engine)).code == "does-not-run"


def test_an_engine_that_is_not_there(here: Executor, tmp_path: Path) -> None:
    wheel = tmp_path / "some.whl"
    wheel.write_bytes(b"no zip")
    for place in (str(tmp_path), str(wheel)):
        check_error(fault(UsageError, here, place), "wrong-format", {"path": place})
    error = fault(NotValidatedError, here, engine_in(tmp_path, "raise OSError('out of order')"))
    check_error(error, "no-engine", {"package": "opencv-python-headless"})
    assert error.advice == ("get-engine",)
    assert fault(NotValidatedError, here, graph(X, TWICE), Overrides(), EngineRequest("tfjs")).code == "no-engine"


def test_an_engine_in_a_wheel(tmp_path: Path) -> None:
    module = Path(engine_in(tmp_path)) / "cv2.py"
    with ZipFile(tmp_path / "opencv-1.whl", "w") as archive:
        archive.write(module, "cv2/__init__.py")
    with engine_at("opencv", str(tmp_path / "opencv-1.whl")) as (opened, reads):
        assert opened == f"opencv:{reads[0]}" and is_in("opencv", reads[0])
    inside = tmp_path / "venv" / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    inside.mkdir(parents=True)
    module.rename(inside / "cv2.py")
    with engine_at("opencv", str(tmp_path / "venv")) as (opened, reads):
        assert opened == f"opencv:{inside}" and reads == (str(inside),)


def test_tflite_runs_and_agrees_or_says_what_it_lacks(here: Executor) -> None:
    """The engine that comes with TensorFlow itself: several inputs, outputs and shapes; an op that it has not got."""
    request = EngineRequest("tflite")
    fixed = placeholder("x", shape=(2, 3))
    scaled = graph(fixed, placeholder("by", shape=()), typed("Mul", "y", "x", "by"), identity("z", "x"))
    found = run_in_engine(here, scaled, Overrides(), request)
    assert found.called.startswith("TFLite 2.") and found.wrong == [] and set(found.outputs) == {"y", "z"}
    error = fault(EditError, here, graph(fixed, typed("Erf", "y", "x")), Overrides(), request)
    assert error.code == "not-loadable" and "Erf" in error.facts["why"]


@pytest.mark.parametrize("engine", ["opencv", "openvino"])
def test_an_engine_that_is_installed_agrees(here: Executor, engine: str) -> None:
    if not is_in(engine, None):
        pytest.skip(f"{MODULES[engine]} is not installed: pip install {PACKAGES[engine]}")
    found = run_in_engine(here, graph(X, typed("Tanh", "y", "x")), Overrides(), EngineRequest(engine))
    assert found.wrong == [] and found.samples == 2


own_workers = pytest.mark.usefixtures("own_workers")


# -- a process that dies -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_child_is_left")
@own_workers
@pytest.mark.parametrize("level", ["load", "run"])
def test_a_result_that_crashes_tensorflow(level: str, tmp_path: Path) -> None:
    error = refused(tmp_path, simple(), crashing, level=level)
    check_error(error, "crashed", {"doing": ["loading edited"], "signal": "SIGSEGV"})
    assert error.exit_code == 5
    assert "\n" not in error.message and not error.details


@pytest.mark.usefixtures("no_child_is_left")
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


@pytest.mark.usefixtures("no_child_is_left")
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


@pytest.mark.usefixtures("no_child_is_left")
@pytest.mark.parametrize(("device", "wanted"), [("gpu", "GPU"), ("/device:GPU:7", "GPU:7"), ("/device:TPU:0", "TPU:0")])
def test_a_device_that_is_not_there(device: str, wanted: str, tmp_path: Path) -> None:
    if device == "gpu" and Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU")
    for level in ("load", "run"):
        error = refused(tmp_path, simple(), renaming, device=device, level=level)
        assert error.exit_code == 7
        check_error(error, "no-device", {"device": wanted})
        assert hint_of(error) == "--device cpu runs it on the CPU"


@pytest.mark.usefixtures("no_child_is_left")
def test_the_cpu_by_its_device_name(tmp_path: Path) -> None:
    outcome = operated(tmp_path, simple(), renaming, device="/device:CPU:0")
    assert outcome.proof.device == "CPU:0" and outcome.proof.compared
