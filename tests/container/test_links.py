"""Links, pipes, sockets and devices in a SavedModel, and assets outside of it: refused, and never in a result."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.desk import Desk
from support.hostile import PLAIN
from support.meta_graphs import meta_graph, put
from support.renaming import QUICK

from gdsurgeon.container.output import OutputFolder
from gdsurgeon.wire.folder import Folder

RENAME = ("rename", "model", "x=pixels", *QUICK)
COMMANDS: dict[str, tuple[str, ...]] = {
    "inspect": ("inspect", "model"),
    "rename": (*RENAME, "-o", "out"),
    "in place": (*RENAME, "-i", "--backup", ".bak"),
    "to a stream": (*RENAME, "-o", "-"),
    "signature": ("signature", "model", "--rename", "serving_default=main", *QUICK, "-o", "out"),
    "slim": ("slim", "model", *QUICK, "-o", "out"),
    "compat": ("compat", "model", "--for", "1.15", *QUICK, "-o", "out"),
    "convert": ("convert", "model", "-o", "out"),
    "freeze": ("freeze", "model", *QUICK, "-o", "out.pb"),
    "validate": ("validate", "model", *QUICK),
    "diff": ("diff", "model", "plain.pb"),
    "the other graph": ("add-preprocessing", "plain.pb", "model", *QUICK, "-o", "out.pb"),
}
SECRET = "secret.txt"


def link(path: Path) -> str:
    path.symlink_to(os.path.relpath(SECRET, path.parent))
    return "link"


def link_to_a_folder(path: Path) -> str:
    path.symlink_to("/etc")
    return "link"


def link_to_nothing(path: Path) -> str:
    path.symlink_to("nowhere")
    return "link"


def fifo(path: Path) -> str:
    os.mkfifo(path)
    return "fifo"


def bound(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    return "socket"


@pytest.fixture
def model(desk: Desk) -> Path:
    desk.put("plain.pb", PLAIN)
    desk.put(SECRET, b"a\nb\n")
    return put(desk.folder / "model")


def replaced(path: Path, make: Callable[[Path], str]) -> str:
    """Has PATH be what MAKE makes there; returns what that is."""
    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    return make(path)


PLACES = ("assets/words.txt", "assets", "assets.extra/more", "variables/more", "more")


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("make", [link, link_to_a_folder, link_to_nothing, fifo, bound])
def test_what_is_no_file(desk: Desk, model: Path, name: str, make: Callable[[Path], str]) -> None:
    found = replaced(model / name, make)
    code = "link-in-savedmodel" if found == "link" else "wrong-format"
    error = desk.refused(3, code, *RENAME, "-o", "out", file=f"model/{name}", found=found).error
    assert error is not None and ("cp -rL" in (error.hint or "")) == (found == "link")


def test_a_graph_that_is_a_link(desk: Desk, model: Path) -> None:
    """As hubs keep models: every file is a link to where it is stored."""
    os.rename("model/saved_model.pb", "stored")
    os.symlink("../stored", "model/saved_model.pb")
    for path in ("model", "model/saved_model.pb"):
        desk.refused(3, "link-in-savedmodel", "inspect", path, file="model/saved_model.pb")
    subprocess.run(["cp", "-rL", "model", "copy"], check=True)
    desk.done("rename", "copy", "x=pixels", *QUICK, "-o", "out")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_links(desk: Desk, model: Path, command: str) -> None:
    replaced(model / "assets" / "words.txt", link)
    desk.refused(3, "link-in-savedmodel", *COMMANDS[command], file="model/assets/words.txt")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device(desk: Desk, model: Path) -> None:
    os.mknod(model / "zero", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    desk.refused(3, "wrong-format", *RENAME, "-o", "out", file="model/zero", found="device")


def test_the_folder_itself_and_those_above_it_may_be_links(desk: Desk, model: Path) -> None:
    os.mkdir("real")
    os.rename("model", "real/model")
    os.symlink("real", "above")
    os.symlink("above/model", "model")
    desk.done(*RENAME, "-o", "out")
    desk.done(*RENAME, "-i", "--backup", ".bak")
    assert os.readlink("model") == "above/model" and sorted(os.listdir("real")) == ["model", "model.bak"]
    for folder in ("out", "real/model", "real/model.bak"):
        assert all(path.is_file() or path.is_dir() for path in Path(folder).rglob("*"))
        assert not any(path.is_symlink() for path in Path(folder).rglob("*"))


@pytest.mark.parametrize("name", ["../../../secret.txt", "../words.txt", "a/../../b", "/etc/passwd", "..", "", "a\0b"])
@pytest.mark.parametrize("old", [False, True], ids=["field", "collection"])
def test_names_of_assets(desk: Desk, model: Path, name: str, old: bool) -> None:
    meta = meta_graph()
    meta.asset_file_def[0].filename = name
    if old:  # as TensorFlow 1 had it
        meta.collection_def["saved_model_assets"].any_list.value[0].Pack(meta.asset_file_def[0])
        del meta.asset_file_def[:]
    shutil.rmtree("model")
    put(desk.folder / "model", meta)
    for command in COMMANDS.values() if name.endswith("secret.txt") else [COMMANDS["rename"]]:
        desk.refused(3, "bad-name", *command, file="model", name=name)


def test_the_file_alone_can_be_converted_to_be_mended(desk: Desk, model: Path) -> None:
    meta = meta_graph()
    meta.asset_file_def[0].filename = "../up"
    shutil.rmtree("model")
    put(desk.folder / "model", meta)
    desk.done("convert", "model/saved_model.pb", "-o", "model.pbtxt")


# -- what is exchanged between a look at it and its use -------------------------------------------------------


def exchanging(monkeypatch: pytest.MonkeyPatch, call: str, path: Path, make: Callable[[Path], str]) -> None:
    """Makes the first CALL of os with PATH happen after a different process has run MAKE."""
    real: Any = getattr(os, call)

    def late(name: Any, *args: Any, **options: Any) -> Any:
        if os.path.basename(os.fspath(name)) == path.name if not isinstance(name, int) else False:
            monkeypatch.setattr(os, call, real)
            replaced(path, make)
        return real(name, *args, **options)

    monkeypatch.setattr(os, call, late)


RESULTS = {"new": ("-o", "out"), "in place": ("-i",), "-": ("-o", "-")}
SHARD = "variables/variables.data-00000-of-00001"


@pytest.mark.parametrize(
    ("call", "name", "place"),
    [
        *(
            ("open", name, place)
            for name in (SHARD, "assets/words.txt", "assets")
            for place in ("new", "in place", "-")
        ),
        *(("link", name, place) for name in (SHARD, "assets/words.txt") for place in ("new", "in place")),
    ],
)
def test_a_link_that_comes_meanwhile_is_not_followed(
    desk: Desk, model: Path, monkeypatch: pytest.MonkeyPatch, call: str, name: str, place: str
) -> None:
    secret = os.stat(SECRET)
    stage = OutputFolder.stage
    inner = link_to_a_folder if name == "assets" else link

    def begun(self: OutputFolder, chunks: Any) -> str:
        exchanging(monkeypatch, call, model / name, inner)
        return stage(self, chunks)

    if place == "-":
        exchanging(monkeypatch, call, model / name, inner)
    else:
        monkeypatch.setattr(OutputFolder, "stage", begun)
    ran = desk.run(*RENAME, *RESULTS[place])
    assert ran.code in (3, 6), ran
    assert ran.error is not None and ran.error.code in ("link-in-savedmodel", "file-changed")
    assert not os.path.exists("out") and desk.temporary_files() == []
    assert os.stat(SECRET).st_nlink == secret.st_nlink == 1


def test_a_shard_that_is_a_link_is_copied(desk: Desk, model: Path) -> None:
    """A checkpoint can be anywhere, also behind links; no further name is derived from the targets of links."""
    os.mkdir("store")
    for name in os.listdir("model/variables"):
        os.rename(f"model/variables/{name}", f"store/{name}")
        os.symlink(f"store/{name}", name)
    desk.done("checkpoint", "variables", "--rename", "net/w=v", "-o", "out")
    assert Path("out.data-00000-of-00001").read_bytes() == Path("store/variables.data-00000-of-00001").read_bytes()
    assert not os.path.islink("out.data-00000-of-00001")
    assert all(path.stat().st_nlink == 1 for path in Path("store").iterdir())


def test_a_folder_is_reached_through_its_descriptor(desk: Desk, model: Path) -> None:
    with Folder("model") as folder:
        os.rename("model", "moved")
        os.symlink("/etc", "model")
        found = [entry.path for entry in folder.entries()]
        assert "assets/words.txt" in found and "passwd" not in found
        with folder.source("assets/words.txt") as source:
            assert source.read(0, source.size) == Path("moved/assets/words.txt").read_bytes()
