"""What each level of proof shows, and what is published."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest
from support.failing import command, crashing, renaming, simple, telling
from support.graphs import attr
from support.operating import operated, refused
from support.spoiling import spoilt

import gdsurgeon as gds
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.edit import Request, operate
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.trial import EDITED
from gdsurgeon.wire.text import to_binary

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("no_child_is_left")]

# -- levels --------------------------------------------------------------------------------------------------


@telling
def falls_over(graph: Graph) -> EditResult:
    """A result that loads, and fails whenever it is run."""
    result = renaming(graph)
    kind = {"T": attr("float32")}
    minus = graph.add("minus", "Neg", [graph.tensor("x")], attrs=kind)
    log = graph.add("log", "Log", [minus.output], attrs=kind)
    graph.set_op(graph["z"], "CheckNumerics")
    graph.set_attr(graph["z"], "message", attr("not a number"))
    graph.set_inputs(graph["z"], [log.output])
    return result


@telling
def not_an_op(graph: Graph) -> EditResult:
    result = renaming(graph)
    graph.set_op(graph["z"], "NobodyKnowsThisOp")
    result.intent.changed.append("z")
    return result


def not_a_shape(graph: Graph) -> EditResult:
    """A product of matrices that do not fit: only shape inference shows that."""
    result = renaming(graph)
    graph.set_op(graph["z"], "MatMul")
    graph.set_inputs(graph["z"], [graph.tensor("x"), graph.tensor("x")])
    return result


def test_loading_shows_only_that_it_loads(tmp_path: Path) -> None:
    outcome = operated(tmp_path, simple(), falls_over, level="load")
    assert outcome.proof.level == "load" and outcome.proof.outputs == []
    (tmp_path / "out.pb").unlink()
    error = refused(tmp_path, simple(), falls_over, level="run")
    assert error.exit_code == 5
    assert error.code == "does-not-run"


@pytest.mark.parametrize("level", ["load", "run"])
def test_what_does_not_load_is_found_by_loading(level: str, tmp_path: Path) -> None:
    error = refused(tmp_path, simple(), not_a_shape, level=level)
    assert error.exit_code == 5
    assert error.code == "does-not-load"
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
    m.typed("Log", "log", "y")
    m.typed("CheckNumerics", "w", "log", message="not a number")
    error = refused(tmp_path, m, lambda g: gds.rename(g, [("w", "v")]))
    assert error.exit_code == 7
    assert error.code == "unfeedable"


@pytest.mark.parametrize(("level", "runs"), [("structure", True), ("load", True), ("run", True), ("run", False)])
def test_an_undeclared_change_is_reported(level: str, runs: bool, tmp_path: Path) -> None:
    """No value shows the change: the outputs are equal, or the model does not run."""
    m = simple()
    if not runs:
        m.typed("Log", "log", "y")
        m.typed("CheckNumerics", "w", "log", message="not a number")
    error = refused(tmp_path, m, spoilt(renaming, lambda g, _: g.set_device(g["z"], "/cpu:0")), level=level)
    assert (error.exit_code, error.code) == (5, "undeclared-change")


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


@pytest.mark.parametrize("out", ["out.pb", "out.pbtxt", "-", None])
def test_the_bytes_that_were_proven_are_published(
    out: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """In a file, in a text as its reader will have them, at standard output, and in place."""
    seen = staged_hashes(monkeypatch)
    path = simple().write(tmp_path / "model.pb")
    to = str(tmp_path / out) if out not in (None, "-") else out
    operate(Request(path, out=to, in_place=out is None, backup=None if out else ".old"), renaming)
    written = capfdbinary.readouterr().out if out == "-" else Path(to or path).read_bytes()
    assert seen == [sha256(to_binary(written, to) if out == "out.pbtxt" else written)] != [sha256(simple().bytes())]
    assert out is not None or Path(path + ".old").read_bytes() == simple().bytes()


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
