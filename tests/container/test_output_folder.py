"""Where a SavedModel is written: the folder appears whole or not at all, and nothing is lost."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.desk import Desk, Ran, check_failed, check_said, finished
from support.meta_graphs import meta_graph, put, read, saved_model
from support.renaming import QUICK
from support.system import can_trace, counted_calls, faults

from gdsurgeon.wire.folder import Folder

RENAME = ("rename", "model", "x=pixels", *QUICK)
FAULTS = ("write", "open", "fsync", "close", "link", "mkdir", "rename", "listdir", "unlink", "rmdir", "scandir")


def parsed(data: bytes | str) -> Any:
    return type(saved_model()).FromString(data)


def check_edited(folder: Path, model: dict[str, bytes | str]) -> None:
    """FOLDER must hold the edited model and all other files of MODEL, except for the fingerprint."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    graph = found.pop("saved_model.pb")
    names = {node.name for node in parsed(graph).meta_graphs[0].graph_def.node}
    assert "pixels" in names and "x" not in names
    beside = {name.removeprefix("model/"): data for name, data in model.items() if name.startswith("model/")}
    assert found == {k: v for k, v in beside.items() if k not in ("saved_model.pb", "fingerprint.pb")}


def below(files: dict[str, bytes | str], folder: str) -> dict[str, bytes | str]:
    return {name: data for name, data in files.items() if name.startswith(folder + "/")}


@pytest.fixture
def model(desk: Desk) -> dict[str, bytes | str]:
    """The files of the desk, with a model."""
    put(desk.folder / "model")
    return desk.files()


def test_a_new_folder(desk: Desk, model: dict[str, bytes | str]) -> None:
    (desk.folder / "model").chmod(0o750)
    desk.done(*RENAME, "-o", "out")
    assert below(desk.files(), "model") == model
    check_edited(desk.folder / "out", model)
    assert desk.temporary_files() == []
    assert stat.S_IMODE((desk.folder / "out").stat().st_mode) == 0o750
    shard = "variables/variables.data-00000-of-00001"
    assert (desk.folder / "out" / shard).samefile(desk.folder / "model" / shard)
    desk.done("rename", "model/saved_model.pb", "x=pixels", *QUICK, "-o", "another")
    check_edited(desk.folder / "another", model)


def test_the_default_is_beside_the_model(desk: Desk, model: dict[str, bytes | str]) -> None:
    desk.done(*RENAME)
    check_edited(desk.folder / "model.edited", model)
    desk.refused(2, "file-exists", *RENAME, file="model.edited")


@pytest.mark.parametrize("name", ["model", "model/", "model/saved_model.pb"])
def test_the_backup_is_the_old_model(desk: Desk, model: dict[str, bytes | str], name: str) -> None:
    for _ in range(2):
        put_back = below(desk.files(), "model")
        desk.done("rename", name, "x=pixels", *QUICK, "-i", "--backup", ".bak")
        check_edited(desk.folder / "model", model)
        kept = {"model" + k.removeprefix("model.bak"): v for k, v in below(desk.files(), "model.bak").items()}
        assert kept == put_back
        assert sorted(os.listdir(desk.folder)) == ["model", "model.bak"]
        desk.done("rename", "model", "pixels=x", *QUICK, "-i")


@pytest.mark.parametrize("name", [".", "saved_model.pb"])
def test_from_within_the_folder(
    desk: Desk, model: dict[str, bytes | str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(desk.folder / "model")
    desk.done("rename", name, "x=pixels", *QUICK)
    check_edited(desk.folder / "model.edited", model)
    assert below(desk.files(), "model") == model


def test_a_backup_replaces_no_other_folder(desk: Desk, model: dict[str, bytes | str]) -> None:
    (desk.folder / "model.bak").mkdir()
    desk.put("model.bak/thesis.txt", b"mine")
    desk.refused(6, "not-replaceable", *RENAME, "-i", "--backup", ".bak", file=str(desk.folder / "model.bak"))


@pytest.mark.parametrize("there", ["a folder", "a file"])
def test_nothing_else_is_replaced(desk: Desk, model: dict[str, bytes | str], there: str) -> None:
    if there == "a folder":
        (desk.folder / "out").mkdir()
    desk.put("out/thesis.txt" if there == "a folder" else "out", b"mine")
    desk.refused(6, "not-replaceable", *RENAME, "-o", "out", file="out")


def test_an_empty_folder_is_filled(desk: Desk, model: dict[str, bytes | str]) -> None:
    (desk.folder / "out").mkdir()
    desk.done(*RENAME, "-o", "out")
    check_edited(desk.folder / "out", model)


def test_into_itself(desk: Desk, model: dict[str, bytes | str]) -> None:
    desk.refused(2, "would-replace", *RENAME, "-o", "model", file="model", other="model")
    desk.refused(2, "inside-model", *RENAME, "-o", "model/variables/out", model="model")


def test_the_folders_around_it(desk: Desk, model: dict[str, bytes | str]) -> None:
    """They are made, and removed again if the model does not appear."""
    before = sorted(desk.folder.iterdir())
    assert desk.run(*RENAME, "-o", "served/by/1", "--report", "/dev/full").code == 6
    assert sorted(desk.folder.iterdir()) == before
    desk.done(*RENAME, "-o", "served/by/1")
    check_edited(desk.folder / "served" / "by" / "1", model)


def fails(code: int) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_files_are_copied_where_they_cannot_be_linked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, model: dict[str, bytes | str], code: int
) -> None:
    monkeypatch.setattr(os, "link", fails(code))
    desk.done(*RENAME, "-o", "out")
    check_edited(desk.folder / "out", model)
    shard = "variables/variables.data-00000-of-00001"
    assert not (desk.folder / "out" / shard).samefile(desk.folder / "model" / shard)
    desk.done(*RENAME, "-i", "--backup", ".bak")
    assert below(desk.files(), "model.bak") == {"model.bak" + k.removeprefix("model"): v for k, v in model.items()}


PLACES = {
    "new": ("-o", "out"),
    "earlier": ("-o", "earlier"),
    "in-place": ("-i",),
    "backup": ("-i", "--backup", ".bak"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize("call", FAULTS)
def test_all_or_nothing_whichever_call_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, call: str, for_ever: bool, place: str
) -> None:
    put(desk.folder / "model")
    if place == "earlier":
        put(desk.folder / "earlier", meta_graph(lambda name: "old/" + name))
    before = desk.files()
    models = shutil.copytree(desk.folder, desk.folder.parent / "models")
    for fault in faults(monkeypatch, call, errno.EIO, for_ever):
        with fault:
            ran = desk.run(*RENAME, *PLACES[place])
        left = {k: v for k, v in desk.files().items() if ".tmp" not in k}
        if ran.code:
            assert ran.code in (3, 6) and fault.struck, ran
            check_said(ran)
            assert left == before, f"call {fault.at}"
        else:
            check_edited(desk.folder / {"new": "out", "earlier": "earlier"}.get(place, "model"), before)
        can_remove = not for_ever or call not in ("listdir", "open", "rmdir", "scandir", "unlink")
        assert not can_remove or desk.temporary_files() == [], f"call {fault.at}"
        for folder in os.listdir(desk.folder):
            shutil.rmtree(folder)
        shutil.copytree(models, desk.folder, dirs_exist_ok=True)


@pytest.mark.parametrize("place", [("-o", "out"), ("-i", "--backup", ".bak")], ids=["new", "in-place"])
def test_a_folder_that_is_replaced_while_it_is_read(
    desk: Desk, model: dict[str, bytes | str], monkeypatch: pytest.MonkeyPatch, place: tuple[str, ...]
) -> None:
    """A different process edits it in place: parts of the folder that is removed can be listed."""
    put(desk.scratch / "other")
    real = Folder.copy_to

    def reached(*arguments: Any) -> None:
        monkeypatch.setattr(Folder, "copy_to", real)
        os.rename("model", desk.scratch / "earlier")
        os.rename(desk.scratch / "other", "model")
        return real(*arguments)

    monkeypatch.setattr(Folder, "copy_to", reached)
    check_failed(desk.run(*RENAME, *place), 6 if "-i" in place else 3, "file-changed", file="model")
    assert below(desk.files(), "model") == model and os.listdir(desk.folder) == ["model"]


EXCHANGED = """\
import os, signal, sys
from gdsurgeon.cli.main import run
from gdsurgeon.container import output as output_folder
from gdsurgeon.wire import output
at, exchange = int(sys.argv.pop()), output.exchange_names
calls = 0
def exchanging(*paths):
    global calls
    calls += 1
    is_done = exchange(*paths)
    if calls == at:
        os.kill(os.getpid(), signal.SIGTERM)
    return is_done
output.exchange_names = output_folder.exchange_names = exchanging
run()
"""


@pytest.mark.parametrize(("at", "code"), [(1, 143), (2, 0)], ids=["backup", "model"])
def test_a_signal_when_two_folders_have_just_changed_names(desk: Desk, at: int, code: int) -> None:
    """The state is read from the disk: the backup is moved back, or the model has appeared and is kept."""
    put(desk.folder / "model")
    desk.done(*RENAME, "-o", "model.bak")
    before = desk.files()
    ran = finished(desk.fork_python("-c", EXCHANGED, *RENAME, "-i", "--backup", ".bak", str(at)))
    assert ran.code == code, ran
    assert ran.code == code, ran
    assert sorted(os.listdir(desk.folder)) == ["model", "model.bak"]
    if code:
        assert desk.files() == before
    else:
        model = below(before, "model")
        check_edited(desk.folder / "model", model)
        kept = {"model" + k.removeprefix("model.bak"): v for k, v in below(desk.files(), "model.bak").items()}
        assert kept == model


def test_what_tensorflow_2_would_not_see(desk: Desk) -> None:
    """A node of a signature, if the objects have no signatures; a node that no signature needs does not matter."""
    put(desk.folder / "model", meta_graph(objects=True))
    removing = ("remove", "model", "--node", "unused", *QUICK, "-o", "unseen")
    desk.done(*removing)
    assert read("unseen").meta_graphs[0].HasField("object_graph_def")
    moving = ("set-device", "model", "--assign", "/cpu:0", "--select", "^y$", *QUICK, "-o", "out")
    desk.refused(4, "not-served", *moving)
    desk.done(*moving, "--as-v1")
    meta = read("out").meta_graphs[0]
    assert not meta.HasField("object_graph_def")
    assert next(node for node in meta.graph_def.node if node.name == "y").device == "/device:CPU:0"
    assert "serving_default" in meta.signature_def


TRACED = {"in-place": ("-i", "--backup", ".bak"), "new": ("-o", "out")}
CALLS = {
    "mkdir": "ENOSPC", "linkat": "EMLINK", "rename": "EACCES", "renameat2": "EACCES", "fsync": "EIO", "write": "ENOSPC",
    "copy_file_range": "EIO", "openat": "ENOSPC", "unlink": None, "unlinkat": None, "rmdir": None,
}  # fmt: skip
"""With what each fails; None: it takes away what is no longer wanted."""
OLD, NEW = {"x", "y"}, {"pixels", "y"}


def traced(desk: Desk, place: str, *options: str) -> Ran:
    return desk.traced(options, *RENAME, *TRACED[place])


def begin_anew(desk: Desk) -> None:
    for name in os.listdir(desk.folder):
        shutil.rmtree(desk.folder / name)
    put(desk.folder / "model")


def calls_on_the_folder(desk: Desk, place: str, trace: Path) -> list[tuple[str, int]]:
    """The calls of a run that are about the folder: which, and the how-manyeth of its kind it is."""
    begin_anew(desk)
    options = ("-y", "-o", str(trace), "-e", f"trace={','.join(CALLS)}")
    assert traced(desk, place, *options).code == 0
    found = [
        (call, count)
        for line, call, count in counted_calls(trace, CALLS)
        if f"{desk.folder}/" in line and (call != "openat" or "O_CREAT" in line)
    ]
    return found if "GDSURGEON_EACH_CALL" in os.environ else list(dict(found).items())


def graph(folder: Path) -> set[str]:
    """Returns which of x, pixels and y the model in FOLDER has; all its other files must exist."""
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert there >= {"assets/words.txt", "variables/variables.index", "variables/variables.data-00000-of-00001"}
    return {node.name for node in read(folder).meta_graphs[0].graph_def.node} & {"x", "pixels", "y"}


def check_whole(desk: Desk, place: str, where: str) -> bool:
    """The folders that are no leftovers are wholly old or new; returns whether they are new."""
    left = {name for name in os.listdir(desk.folder) if not name.endswith(".tmp")}
    assert "model" in left, where
    if place == "new":
        assert graph(desk.folder / "model") == OLD, where
        assert "out" not in left or graph(desk.folder / "out") == NEW, where
        return "out" in left
    is_new = graph(desk.folder / "model") == NEW
    assert is_new or graph(desk.folder / "model") == OLD, where
    assert not is_new or graph(desk.folder / "model.bak") == OLD, where  # the old model is never lost
    return is_new


@pytest.mark.skipif(not can_trace(), reason="strace is not here, or may not trace")
@pytest.mark.parametrize("place", TRACED)
def test_whichever_call_is_the_last_or_fails(desk: Desk, tmp_path: Path, place: str) -> None:
    calls = calls_on_the_folder(desk, place, tmp_path / "trace")
    assert {"mkdir", "linkat", "fsync"} < dict(calls).keys()
    for name, at in calls:
        begin_anew(desk)
        inject = f"inject={name}:signal=KILL:when={at}"
        ran = traced(desk, place, "-o", os.devnull, "-e", f"trace={name}", "-e", inject)
        assert ran.code in (-signal.SIGKILL, 128 + signal.SIGKILL), ran
        check_whole(desk, place, f"killed at {name} {at}")
        if CALLS[name] is None:
            continue
        begin_anew(desk)
        inject = f"inject={name}:error={CALLS[name]}:when={at}"
        ran = traced(desk, place, "-o", os.devnull, "-e", f"trace={name}", "-e", inject)
        is_new = check_whole(desk, place, f"{name} {at} failed")
        assert desk.temporary_files() == [], (name, at, ran)
        assert is_new == (ran.code == 0), (name, at, ran)
        if ran.code:
            assert ran.code == 6, (name, at, ran)
            check_said(ran, "cannot be written")
            assert not (desk.folder / "model.bak").exists()


def test_a_reader_sees_the_old_or_the_new(desk: Desk) -> None:
    """By its path the folder is there at any time, and all that is in it."""
    put(desk.folder / "model")
    seen: list[bytes] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            seen.append((desk.folder / "model" / "saved_model.pb").read_bytes())
            seen.append((desk.folder / "model" / "variables" / "variables.index").read_bytes())

    wanted = set()
    for name in ("saved_model.pb", "variables/variables.index"):
        wanted.add((desk.folder / "model" / name).read_bytes())
    reader = threading.Thread(target=look)
    reader.start()
    try:
        for turn in range(20):
            pair = "x=pixels" if turn % 2 == 0 else "pixels=x"
            desk.done("rename", "model", pair, *QUICK, "-i")
            wanted.add((desk.folder / "model" / "saved_model.pb").read_bytes())
    finally:
        is_over.set()
        reader.join()
    assert len(seen) > 20
    assert set(seen) <= wanted
