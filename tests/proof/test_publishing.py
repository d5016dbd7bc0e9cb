"""What each level of proof shows, and what is published."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.failing import crashing, renaming, simple, telling
from support.graphs import Builder, attr
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
    assert (error.exit_code, error.code) == (5, "does-not-run")


@pytest.mark.parametrize("level", ["load", "run"])
def test_what_does_not_load_is_found_by_loading(level: str, tmp_path: Path) -> None:
    error = refused(tmp_path, simple(), not_a_shape, level=level)
    assert (error.exit_code, error.code, hint_of(error)) == (5, "does-not-load", None)


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


def failing(m: Builder) -> Builder:
    """M, with an output that fails whenever it is run."""
    m.typed("Log", "log", "y")
    m.typed("CheckNumerics", "w", "log", message="not a number")
    return m


def test_an_original_that_does_not_run_is_not_blamed_on_the_edit(tmp_path: Path) -> None:
    error = refused(tmp_path, failing(simple()), lambda g: gds.rename(g, [("w", "v")]))
    assert (error.exit_code, error.code) == (7, "unfeedable")


@pytest.mark.parametrize(("level", "runs"), [("structure", True), ("load", True), ("run", True), ("run", False)])
def test_an_undeclared_change_is_reported(level: str, runs: bool, tmp_path: Path) -> None:
    """No value shows the change: the outputs are equal, or the model does not run."""
    m = simple() if runs else failing(simple())
    error = refused(tmp_path, m, spoilt(renaming, lambda g, _: g.set_device(g["z"], "/cpu:0")), level=level)
    assert (error.exit_code, error.code) == (5, "undeclared-change")


# -- what is published -----------------------------------------------------------------------------------------


def staged(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Notes what TensorFlow is given as the edited graph."""
    seen: list[bytes] = []

    load = Executor.load

    def noted(self: Executor, key: str, given: Any, **options: Any) -> None:
        if key == EDITED:
            seen.append(given if isinstance(given, bytes) else Path(given).read_bytes())
        load(self, key, given, **options)

    monkeypatch.setattr(Executor, "load", noted)
    return seen


@pytest.mark.parametrize("out", ["out.pb", "out.pbtxt", "-", None])
def test_the_bytes_that_were_proven_are_published(
    out: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """In a file, in a text as its reader will have them, at standard output, and in place."""
    seen = staged(monkeypatch)
    path = simple().write(tmp_path / "model.pb")
    to = str(tmp_path / out) if out not in (None, "-") else out
    operate(Request(path, out=to, in_place=out is None, backup=None if out else ".old"), renaming)
    written = capfdbinary.readouterr().out if out == "-" else Path(to or path).read_bytes()
    assert seen == [to_binary(written, to) if out == "out.pbtxt" else written] != [simple().bytes()]
    assert out is not None or Path(path + ".old").read_bytes() == simple().bytes()


def test_threads_of_this_process_are_not_needed(tmp_path: Path) -> None:
    """The proof is made from whatever thread asks for it."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(operated, tmp_path, simple(), renaming).result(120)
    assert (tmp_path / "out.pb").is_file()
