"""A model that changes while it is read or edited, and several runs that replace it at once."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.bundles import SMALL, files_of
from support.desk import Desk, Ran, check_failed, finished
from support.graphs import FLOAT, const, graph_bytes, identity, placeholder
from support.meta_graphs import meta_graph, put, saved_model
from support.patience import until
from support.renaming import QUICK

from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.load import load
from gdsurgeon.operation import checkpoint as on_checkpoints
from gdsurgeon.operation import edit
from gdsurgeon.wire import folder, output

X = placeholder("x", FLOAT, (-1, 4))
MODEL = graph_bytes(X, *(const(f"w{i}", [i] * 2000) for i in range(50)), identity("y", "x"))
OTHER = graph_bytes(X, identity("other", "x"))


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(identity("z", "y"))


def rewritten(path: Path) -> None:
    path.write_bytes(OTHER)


def touched(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def replaced(path: Path) -> None:
    path.with_name("new").write_bytes(OTHER)
    path.with_name("new").rename(path)


def gone(path: Path) -> None:
    path.unlink()


def run_while(desk: Desk, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], *arguments: str) -> Ran:
    """Runs a command whose model is changed by a different process between inspection and edit."""
    path = desk.put("model.pb", MODEL)
    carry_out = edit.carry_out

    def changing(*args: Any, **options: Any) -> Any:
        change(path)
        return carry_out(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(edit, "carry_out", changing)
        return desk.run(*arguments)


@pytest.mark.parametrize("change", [longer, lambda path: os.truncate(path, 100), rewritten])
@pytest.mark.parametrize("arguments", [("y=q", "-o", "out.pb"), ("y=q", "-i"), ("y=q", "-o", "-")])
def test_a_model_that_is_written_to_meanwhile(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], arguments: tuple[str, ...]
) -> None:
    ran = run_while(desk, monkeypatch, change, "rename", "model.pb", *arguments, *QUICK)
    check_failed(ran, 3, "file-changed", file="model.pb")
    assert [*desk.files()] == ["model.pb"] and desk.temporary_files() == []


@pytest.mark.tensorflow
@pytest.mark.parametrize("change", [replaced, gone])
def test_a_model_in_whose_place_there_is_another_is_edited_and_proven_as_it_was(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    ran = run_while(desk, monkeypatch, change, "rename", "model.pb", "y=q", "-o", "out.pb")
    assert ran.code == 0 and "bit-identical" in ran.err, ran
    out = desk.files()["out.pb"]
    desk.put("model.pb", MODEL)
    desk.done("rename", "model.pb", "y=q", "-o", "again.pb", *QUICK)
    assert desk.files()["again.pb"] == out


# -- in place: a model that has changed since it was read is not replaced------------------------------------------


class Kind(NamedTuple):
    """A kind of model: how it is made, its path, the edit of a node or key, and which nodes or keys it has."""

    put: Callable[[Desk], object]
    path: str
    edit: Callable[[str, str], tuple[str, ...]]
    names: Callable[[str], set[str]]
    backup: str = ""

    @property
    def kept(self) -> str:
        """The name of the backup."""
        return self.backup or self.path


def renaming(path: str) -> Callable[[str, str], tuple[str, ...]]:
    return lambda old, new: ("rename", path, f"{old}={new}", "--validate", "none")


def applying(old: str, new: str) -> tuple[str, ...]:
    Path(f"{old}.txt").write_text(f"rename {old}={new}\n")
    return ("apply", "model.pb", f"{old}.txt", "--validate", "none")


def keys(prefix: str) -> set[str]:
    """The keys of the checkpoint PREFIX, or of that whose index was kept under the name PREFIX."""
    if not prefix.endswith(".index") and not os.path.exists(f"{prefix}.index"):
        shutil.copy(prefix, "kept.index")
        prefix = "kept"
    with open_checkpoint(prefix) as checkpoint:
        found = set(checkpoint.keys)
    Path("kept.index").unlink(missing_ok=True)
    return found


def nodes(path: str) -> set[str]:
    return set(load(path).names())


FIVE = graph_bytes(X, *(identity(f"n{i}", "x") for i in range(5)))


def checkpoint_of_five(desk: Desk) -> None:
    for name, data in files_of([SMALL[0]._replace(key=f"n{i}") for i in range(5)], "m").items():
        desk.put(name, data)


def model_of_five(desk: Desk) -> None:
    meta = meta_graph()
    for i in range(5):
        meta.graph_def.node.add(name=f"n{i}", op="NoOp")
    put(desk.folder / "model", meta)


def meta_graph_of_five(desk: Desk) -> None:
    model_of_five(desk)
    data = (desk.folder / "model" / "saved_model.pb").read_bytes()
    desk.put("model.meta", saved_model().FromString(data).meta_graphs[0].SerializeToString())
    shutil.rmtree("model")


KINDS = {
    "graph": Kind(lambda desk: desk.put("model.pb", FIVE), "model.pb", renaming("model.pb"), nodes),
    "MetaGraph": Kind(meta_graph_of_five, "model.meta", renaming("model.meta"), nodes),
    "SavedModel": Kind(model_of_five, "model", renaming("model"), nodes),
    "script": Kind(lambda desk: desk.put("model.pb", FIVE), "model.pb", applying, nodes),
    "checkpoint": Kind(
        checkpoint_of_five, "m.index", lambda old, new: ("checkpoint", "m", "--rename", f"{old}={new}"), keys, "m.index"
    ),
}
of_every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def asset_rewritten(path: Path) -> None:
    (path / "assets" / "words.txt").write_bytes(b"c\n")


def index_replaced(path: Path) -> None:
    replaced(path / "variables" / "variables.index")


def file_added(path: Path) -> None:
    (path / "assets" / "more.txt").write_bytes(b"")


def exported_anew(path: Path) -> None:
    path.rename(path.with_name("moved"))
    shutil.copytree(path.with_name("moved"), path)
    shutil.rmtree(path.with_name("moved"))


CHANGES: list[tuple[str, Callable[[Path], None]]] = [
    *((kind, change) for kind in ("graph", "MetaGraph") for change in (replaced, rewritten, longer, touched, gone)),
    *(("SavedModel", change) for change in (asset_rewritten, index_replaced, file_added, exported_anew)),
    ("script", replaced), ("checkpoint", replaced), ("checkpoint", touched),
]  # fmt: skip
MOMENTS: dict[str, tuple[tuple[Any, str], tuple[Any, str]]] = {
    "before the backup": ((edit, "back_up"), (on_checkpoints, "back_up")),
    "before the exchange": ((output, "exchange_names"), (output, "exchange_names")),
}
"""When the model is changed: before what is called, and before what of a checkpoint."""


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_what_has_changed_is_not_replaced(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Path], None], moment: str
) -> None:
    """The model has the content of the other process, and an earlier backup is unchanged."""
    kind = KINDS[name]
    kind.put(desk)
    path, backup = Path(kind.path), Path(f"{kind.kept}.bak")
    (shutil.copytree if path.is_dir() else shutil.copy)(path, backup)
    command = (*kind.edit("n0", "m0"), "-i", "--backup", ".bak")
    before = desk.files()
    module, function = MOMENTS[moment][name == "checkpoint"]
    real = getattr(module, function)
    wanted: dict[str, Any] = {}

    def changing(*arguments: Any, **options: Any) -> Any:
        if not wanted and not any(str(argument).endswith(str(backup)) for argument in arguments):
            change(path)
            there = desk.files().items()
            wanted.update((file, data) for file, data in there if not file.startswith((str(backup), ".")))
        return real(*arguments, **options)

    monkeypatch.setattr(module, function, changing)
    check_failed(desk.run(*command), 6, "file-changed")
    kept = {file: data for file, data in before.items() if file.startswith(str(backup))}
    assert desk.files() == wanted | kept
    assert desk.temporary_files() == []


@of_every_kind
def test_a_system_without_locks_or_exchanges(desk: Desk, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    def fails(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "")

    kind.put(desk)
    monkeypatch.setattr(fcntl, "flock", fails)
    monkeypatch.setattr(output, "exchange_names", lambda *_: False)
    monkeypatch.setattr("gdsurgeon.container.output.exchange_names", lambda *_: False)
    desk.done(*kind.edit("n0", "m0"), "-i", "--backup", ".bak")
    assert "m0" in kind.names(kind.path) and "n0" in kind.names(f"{kind.kept}.bak")
    assert desk.temporary_files() == []


# -- several runs at once -------------------------------------------------------------------------------------


@pytest.fixture
def locked(desk: Desk, request: pytest.FixtureRequest) -> Iterator[tuple[Kind, int]]:
    kind: Kind = request.param
    kind.put(desk)
    fd = os.open(kind.path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    yield kind, fd
    os.close(fd)


def is_waiting(pid: int) -> bool:
    """Whether PID waits for a lock."""
    return any(f" {pid} " in line and "->" in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.parametrize("locked", KINDS.values(), ids=KINDS, indirect=True)
@pytest.mark.parametrize("changes", [False, True], ids=["left", "changed"])
def test_another_run_is_waited_for(desk: Desk, locked: tuple[Kind, int], changes: bool) -> None:
    """An unchanged model is edited; a changed model is not."""
    kind, fd = locked
    process = desk.fork(*kind.edit("n0", "m0"), "-i")
    assert until(lambda: is_waiting(process.pid))
    if changes:
        path = Path(kind.path)
        (asset_rewritten if path.is_dir() else touched)(path)
    fcntl.flock(fd, fcntl.LOCK_UN)
    ran = finished(process)
    assert ran.code == (6 if changes else 0), ran
    assert ("m0" in kind.names(kind.path)) == (not changes)


def check_several(desk: Desk, kind: Kind, suffixes: list[str]) -> None:
    """Runs an edit at once for each of SUFFIXES: none is lost whose run has ended well, nor what it has kept."""
    for path in desk.folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    kind.put(desk)
    first = kind.names(kind.path)
    commands = [(*kind.edit(f"n{i}", f"m{i}"), "-i", "--backup", suffix) for i, suffix in enumerate(suffixes)]
    processes = [desk.fork(*command) for command in commands]
    ran = [finished(process) for process in processes]
    done = {i for i, one in enumerate(ran) if one.code == 0}
    assert done and {one.code for one in ran} <= {0, 6}, ran
    last = kind.names(kind.path)
    assert last == first - {f"n{i}" for i in done} | {f"m{i}" for i in done}, ran
    kept = {suffix: kind.names(f"{kind.kept}{suffix}") for suffix in suffixes if os.path.exists(kind.kept + suffix)}
    if len(set(suffixes)) > 1:  # each has kept what it has replaced: from the first model an edit at a time
        assert kept.keys() == {suffixes[i] for i in done}
        states = sorted((*kept.values(), last), key=lambda names: len(names - first))
        assert states[0] == first
        assert all(len(after - before) == 1 for before, after in itertools.pairwise(states))
    else:
        (only,) = kept.values()
        assert len(last - only) == 1 and len(done) - 1 == len(only - first)
    assert desk.temporary_files() == []


def suffixes(count: int) -> list[list[str]]:
    return [[f".bak{i}" for i in range(count)], [".bak"] * count]


@of_every_kind
def test_two_at_once(desk: Desk, kind: Kind) -> None:
    for names in suffixes(2):
        check_several(desk, kind, names)


def test_five_at_once(desk: Desk) -> None:
    check_several(desk, KINDS["SavedModel"], suffixes(5)[0])


@pytest.mark.slow
@of_every_kind
def test_several_at_once(desk: Desk, kind: Kind) -> None:
    for turn in range(12):
        check_several(desk, kind, suffixes(3)[turn % 2])


def test_a_folder_that_another_run_replaces_while_it_is_listed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    model_of_five(desk)

    def listed(path: str) -> folder.State:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    monkeypatch.setattr("gdsurgeon.wire.folder.state_of", listed)
    desk.refused(6, "file-changed", *renaming("model")("n0", "m0"), "-i", file="model")


def test_a_checkpoint_and_the_model_that_it_is_a_part_of(desk: Desk) -> None:
    """Both edits are made, or one is refused."""
    model_of_five(desk)
    prefix = "model/variables/variables"
    commands = [renaming("model")("n0", "m0"), ("checkpoint", prefix, "--rename", "net/w=v")]
    ran = [finished(process) for process in [desk.fork(*command, "-i") for command in commands]]
    assert {one.code for one in ran} <= {0, 6} and 0 in {one.code for one in ran}, ran
    assert ("m0" in nodes("model")) == (ran[0].code == 0)
    assert ("v" in keys(prefix)) == (ran[1].code == 0)


def test_an_exporter_that_writes_again_and_again(desk: Desk) -> None:
    """It uses no lock: the file has its last content, or an edit of that content."""
    desk.put("model.pb", FIVE)
    process = desk.fork(*renaming("model.pb")("n0", "m0"), "-i", "--backup", ".bak")
    written = FIVE
    while process.poll() is None:
        written = FIVE + identity(f"t{time.monotonic_ns()}", "x")
        desk.put("new", written)
        os.replace("new", "model.pb")
    ran = finished(process)
    assert ran.code in (0, 3, 6), ran
    if ran.code:
        assert desk.files() == {"model.pb": written}
    else:  # it was replaced before, or after the run
        assert nodes("model.pb.bak") >= {"n0"} and (desk.files()["model.pb"] == written or "m0" in nodes("model.pb"))
