"""What each level of proof shows, and what is published."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.failing import command, crashing, renaming, simple, telling
from support.graphs import FLOAT, attr, graph, identity, neg, placeholder
from support.operating import operated, refused

import gdsurgeon as gds
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.rename import rename
from gdsurgeon.errors import GdsurgeonError, NotValidatedError, ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation import proving
from gdsurgeon.operation.edit import Request, operate
from gdsurgeon.operation.proving import Proving
from gdsurgeon.proof import prove as module
from gdsurgeon.proof.change import Step
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.trial import EDITED, Trial
from gdsurgeon.wire.text import to_binary

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


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
def test_loading_shows_only_that_it_loads(tmp_path: Path) -> None:
    outcome = operated(tmp_path, simple(), falls_over, level="load")
    assert outcome.proof.level == "load" and outcome.proof.outputs == []
    (tmp_path / "out.pb").unlink()
    error = refused(tmp_path, simple(), falls_over, level="run")
    assert error.exit_code == 5
    assert error.code == "does-not-run"


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
@pytest.mark.parametrize("level", ["load", "run"])
def test_what_does_not_load_is_found_by_loading(level: str, tmp_path: Path) -> None:
    error = refused(tmp_path, simple(), not_a_shape, level=level)
    assert error.exit_code == 5
    assert error.code == "does-not-load"
    assert hint_of(error) is None


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
@pytest.mark.parametrize("level", ["load", "run"])
def test_an_op_that_this_tensorflow_lacks(level: str, tmp_path: Path) -> None:
    error = refused(tmp_path, simple(), not_an_op, level=level)
    assert error.exit_code == 7
    assert "NobodyKnowsThisOp" in error.message
    assert hint_of(error) is not None and "--op-lib" in hint_of(error)


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
@pytest.mark.parametrize("level", ["none", "structure"])
def test_the_lower_levels_start_no_process(level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: Executor) -> Executor:
        raise AssertionError("TensorFlow was started")

    monkeypatch.setattr(Executor, "start", start)
    outcome = operated(tmp_path, simple(), crashing, level=level)
    assert (outcome.proof.level, outcome.proof.runtime) == (level, "")
    assert (tmp_path / "out.pb").is_file()


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
def test_an_original_that_does_not_run_is_not_blamed_on_the_edit(tmp_path: Path) -> None:
    m = simple()
    m.typed("Log", "log", "y")
    m.typed("CheckNumerics", "w", "log", message="not a number")
    error = refused(tmp_path, m, lambda g: gds.rename(g, [("w", "v")]))
    assert error.exit_code == 7
    assert error.code == "unfeedable"


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


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
def test_the_bytes_that_were_proven_are_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = staged_hashes(monkeypatch)
    operated(tmp_path, simple(), renaming)
    assert seen == [sha256((tmp_path / "out.pb").read_bytes())]


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
def test_in_place_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = staged_hashes(monkeypatch)
    path = simple().write(tmp_path / "model.pb")
    operate(Request(path, in_place=True, backup=".old"), renaming)
    assert seen == [sha256(Path(path).read_bytes())] != [sha256(simple().bytes())]
    assert Path(path + ".old").read_bytes() == simple().bytes()


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
def test_and_of_a_text_what_a_reader_of_the_text_will_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = staged_hashes(monkeypatch)
    path = simple().write(tmp_path / "model.pb")
    operate(Request(path, out=str(tmp_path / "out.pbtxt")), renaming)
    written = (tmp_path / "out.pbtxt").read_bytes()
    assert b'name: "z"' in written
    assert seen == [sha256(to_binary(written, "out.pbtxt"))]


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
def test_and_on_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    seen = staged_hashes(monkeypatch)
    path = simple().write(tmp_path / "model.pb")
    operate(Request(path, out="-"), renaming)
    assert seen == [sha256(capfdbinary.readouterr().out)]


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
def test_a_dry_run_proves_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = staged_hashes(monkeypatch)
    outcome = operated(tmp_path, simple(), renaming, dry_run=True)
    assert outcome.proof.compared and len(seen) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["model.pb"]
    operated(tmp_path, simple(), renaming)
    assert seen[0] == seen[1] == sha256((tmp_path / "out.pb").read_bytes())


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
def test_an_earlier_output_stays_where_the_proof_fails(tmp_path: Path) -> None:
    (tmp_path / "out.pb").write_bytes(b"an earlier output")
    refused(tmp_path, simple(), falls_over)
    assert (tmp_path / "out.pb").read_bytes() == b"an earlier output"


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
def test_nothing_is_at_the_output_before_the_proof_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    compare = Executor.compare

    def looking(self: Executor, *args: Any, **options: Any) -> Any:
        found.append((tmp_path / "out.pb").exists())
        return compare(self, *args, **options)

    monkeypatch.setattr(Executor, "compare", looking)
    operated(tmp_path, simple(), renaming)
    assert found and not any(found)
    assert (tmp_path / "out.pb").exists()


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
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


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
def test_tensorflow_says_nothing_on_the_way(tmp_path: Path) -> None:
    model = simple().write(tmp_path / "model.pb")
    done = command("rename", model, "y=z", "-o", str(tmp_path / "out.pb"), "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.tensorflow
@pytest.mark.usefixtures("no_child_is_left")
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


WRONG = ValidationError("more is different than was said")
NOT_RUN = NotValidatedError("it cannot be run here")


def proven(monkeypatch: pytest.MonkeyPatch, found: GdsurgeonError | None, run: Callable[[], Proof]) -> list[str]:
    """The steps in order, if the accounting has FOUND a fault and the graphs RUN this way."""
    done: list[str] = []

    def tried(*_: Any) -> Trial:
        done.append("run")
        trial = Trial(Executor(Settings()), "", [], [], {})
        trial.proof = run()
        return trial

    def accounted(*_: Any) -> GdsurgeonError | None:
        done.append("accounted for")
        return found

    monkeypatch.setattr(Executor, "load_bytes", lambda *_: done.append("loading"))
    monkeypatch.setattr(Executor, "check_device", lambda _: "CPU")
    monkeypatch.setattr(module, "_proven", tried)
    monkeypatch.setattr(module, "finish", lambda *_: None)
    monkeypatch.setattr(proving, "_unaccounted", accounted)
    model = graph(placeholder("x", FLOAT, (2,)), identity("a", "x"), neg("y", "a"))
    result = rename(model, [("a", "b")])
    steps = [Step(model.pristine(), model, result)]
    Proving(Settings(), Overrides(), "run").prove(steps, model.chunks(), b"")
    return done


def failing(error: GdsurgeonError) -> Callable[[], Proof]:
    def run() -> Proof:
        raise error

    return run


def test_it_is_accounted_for_once_and_before_anything_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proven(monkeypatch, None, lambda: Proof("run")) == ["loading", "accounted for", "run"]


@pytest.mark.parametrize(
    ("found", "run", "told"),
    [
        (WRONG, lambda: Proof("run"), WRONG),
        (WRONG, failing(NOT_RUN), WRONG),
        (None, failing(NOT_RUN), NOT_RUN),
        (WRONG, failing(differs := ValidationError("the result differs")), differs),
    ],
)
def test_what_a_run_shows_is_told_of_first(
    found: GdsurgeonError | None, run: Callable[[], Proof], told: GdsurgeonError, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GdsurgeonError) as error:
        proven(monkeypatch, found, run)
    assert error.value is told
