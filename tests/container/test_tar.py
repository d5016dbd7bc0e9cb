"""A SavedModel in a pipe: a tar stream of its folder comes in and goes out, and nothing is left of it."""

from __future__ import annotations

import errno
import io
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.desk import Desk, Ran, check_error, check_said
from support.hostile import PLAIN
from support.meta_graphs import meta_graph, put, saved_model
from support.renaming import QUICK

RENAME = ("rename", "-", "x=pixels", *QUICK)
FILES = {
    "saved_model.pb",
    "assets/words.txt",
    "variables/variables.index",
    "variables/variables.data-00000-of-00001",
}


def tarred(folder: Path, root: str = ".") -> bytes:
    """FOLDER as `tar -c` has it, under the name ROOT."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(folder, root)
    return out.getvalue()


def members(data: bytes) -> dict[str, bytes]:
    """The files in an archive; each must lie below a folder that comes before it."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        listed = archive.getmembers()
        folders = {"", *(member.name for member in listed if member.isdir())}
        assert all(os.path.dirname(member.name) in folders for member in listed)
        found = ((member.name, archive.extractfile(member)) for member in listed)
        return {name: file.read() for name, file in found if file is not None}


@pytest.fixture
def model(desk: Desk) -> Path:
    return put(desk.folder / "model")


def named(data: bytes) -> set[str]:
    """The nodes in a saved_model.pb."""
    return {node.name for node in type(saved_model()).FromString(data).meta_graphs[0].graph_def.node}


@pytest.mark.parametrize("root", [".", "model", "some/where"])
def test_in_and_out(desk: Desk, model: Path, root: str) -> None:
    before = desk.files()
    ran = desk.run(*RENAME, data=tarred(model, root))
    if "/" in root:  # neither its content nor one folder with it
        check_error(ran.error, "wrong-format", {"file": "<stdin>", "found": ["some"]})
        return
    assert ran.code == 0, ran.err
    found = members(ran.out)
    assert found.keys() == FILES
    assert "pixels" in named(found["saved_model.pb"])
    assert all(data == before[f"model/{name}"] for name, data in found.items() if name != "saved_model.pb")
    assert desk.files() == before
    assert desk.temporary_files() == []


def test_from_folder_to_folder(desk: Desk, model: Path) -> None:
    out = desk.run("rename", "model", "x=pixels", *QUICK, "-o", "-")
    assert out.code == 0, out.err
    assert desk.run("rename", "-", "y=q", *QUICK, "-o", "again", data=out.out).code == 0
    assert {str(path.relative_to(desk.folder / "again")) for path in (desk.folder / "again").rglob("*.*")} == FILES
    assert {"pixels", "q"} <= named((desk.folder / "again" / "saved_model.pb").read_bytes())
    desk.done("rename", "again", "pixels=x", *QUICK, "-o", "back")


def test_the_same_each_time(desk: Desk, model: Path) -> None:
    first = desk.run("rename", "model", "x=pixels", *QUICK, "-o", "-").out
    for path in model.rglob("*"):
        os.utime(path, (1, 1))
    assert desk.run("rename", "model", "x=pixels", *QUICK, "-o", "-").out == first


def test_it_can_be_asked(desk: Desk, model: Path) -> None:
    data = tarred(model)
    assert b"serving_default" in desk.run("inspect", "-", data=data).out
    assert desk.run("select", "-", "--node", "y", data=data).out == b"y\n"
    assert desk.run("validate", "-", *QUICK, data=data).code == 0
    desk.refused(3, "no-such-tag", "inspect", "-", "--tags", "tpu", data=data, file="<stdin>", name="tpu")


def test_a_file_at_standard_input(desk: Desk, model: Path) -> None:
    desk.put("m.tar", tarred(model))
    with open(desk.folder / "m.tar", "rb") as file:
        ran = desk.forked(*RENAME, "-o", "out", stdin=file)
    assert ran.code == 0, ran.err
    assert (desk.folder / "out" / "saved_model.pb").is_file()
    ran = desk.refused(3, "wrong-format", "inspect", "m.tar", found="tar")
    assert ran.error is not None and ran.error.advice == ("tar-stream",)


@pytest.mark.tensorflow
def test_proven_in_pipes(desk: Desk, model: Path) -> None:
    desk.put("m.tar", tarred(model))
    line = "cat m.tar | $g rename - y=q -o - | $g freeze - -o frozen.pb"
    script = f'set -o pipefail; g="{sys.executable} -m gdsurgeon"; {line}'
    ran = subprocess.run(
        ["bash", "-c", script], cwd=desk.folder, env=desk.environment(), capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("bit-identical") == 2
    desk.done("inspect", "frozen.pb")
    assert desk.temporary_files() == []


def test_a_new_one(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("words.txt", b"a\n")
    ran = desk.done("to-savedmodel", "model.pb", *QUICK, "-o", "-")
    assert members(ran.out).keys() == {"saved_model.pb"}


def test_to_a_terminal(desk: Desk, model: Path) -> None:
    ours, theirs = os.openpty()
    ran = desk.forked("rename", "model", "x=pixels", *QUICK, "-o", "-", stdout=theirs)
    os.close(ours)
    os.close(theirs)
    assert ran.code == 2
    check_said(ran, "binary", "terminal")


# -- what is refused ------------------------------------------------------------------------------------------


Put = Callable[[tarfile.TarFile], None]


def member(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", **more: Any) -> Put:
    def put_in(archive: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.size = kind, len(data)
        for key, value in more.items():
            setattr(info, key, value)
        archive.addfile(info, io.BytesIO(data))

    return put_in


def pax(**records: str) -> bytes:
    """A header of POSIX.1-2001 with RECORDS."""
    data = b""
    for key, value in records.items():
        line = f" {key}={value}\n".encode()
        size = len(line) + len(str(len(line)))
        data += str(size + (len(str(size)) > len(str(len(line))))).encode() + line
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, len(data)
    return info.tobuf() + data.ljust(-(-len(data) // 512) * 512, b"\0")


def raw(data: bytes) -> Put:
    def put_in(archive: tarfile.TarFile) -> None:
        assert archive.fileobj is not None
        archive.fileobj.write(data)
        archive.offset += len(data)

    return put_in


SPARSE = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x", "GNU.sparse.realsize": "9"}
EMPTY = tarfile.TarInfo("empty").tobuf()
HUGE = tarfile.TarInfo("huge")
HUGE.type, HUGE.size = tarfile.XHDTYPE, 1 << 30
HOSTILE: dict[str, tuple[Put, str, dict[str, Any]]] = {
    "absolute": (member("/tmp/gdsurgeon-was-here"), "bad-name", {"name": "/tmp/gdsurgeon-was-here"}),
    "up": (member("../out.txt", data=b"x"), "bad-name", {"name": "../out.txt"}),
    "up in between": (member("variables/../../out.txt"), "bad-name", {}),
    "a folder up": (member("..", tarfile.DIRTYPE), "bad-name", {"name": "../"}),
    "symbolic link": (
        member("assets/more", tarfile.SYMTYPE, linkname="/etc"), "link-in-savedmodel",
        {"name": "assets/more", "found": "link"},
    ),
    "hard link": (
        member("assets/more", tarfile.LNKTYPE, linkname="saved_model.pb"), "link-in-savedmodel",
        {"name": "assets/more", "found": "hard link"},
    ),
    "device": (member("more", tarfile.CHRTYPE, devmajor=1, devminor=3), "wrong-format", {"found": "device"}),
    "pipe": (member("assets/more", tarfile.FIFOTYPE), "wrong-format", {"found": "fifo"}),
    "unknown": (member("assets/more", b"V"), "wrong-format", {"name": "assets/more"}),
    "a file twice": (member("./saved_model.pb", data=b"other"), "name-taken", {"name": "./saved_model.pb"}),
    "a file where a folder is": (member("variables"), "name-taken", {"name": "variables"}),
    "a file where a folder must be": (member("saved_model.pb/x"), "name-taken", {"name": "saved_model.pb/x"}),
    "a folder where a file is": (member("saved_model.pb", tarfile.DIRTYPE), "name-taken", {"name": "saved_model.pb/"}),
    "the folder as a file": (member("./"), "name-taken", {}),
    "a name that is too long": (member("n" * 300), "bad-name", {"name": "n" * 300}),
    "a name that is far too long": (member("n" * 5000), "bad-name", {"name": "n" * 5000}),
    "a path that is too long": (member("n/" * 2500 + "n"), "bad-name", {}),
    "a long name of POSIX": (raw(pax(path="n" * 5000) + EMPTY), "bad-name", {"name": "n" * 5000}),
    "sparse": (raw(pax(**SPARSE) + EMPTY), "wrong-format", {"found": "sparse file"}),
    "sparse as of old": (member("more", tarfile.GNUTYPE_SPARSE), "wrong-format", {"found": "sparse file"}),
    "a header of 1 GiB": (raw(HUGE.tobuf()), "too-large", {}),
    "no records": (raw(pax(path="x").replace(b" path=", b" path:") + EMPTY), "corrupt", {}),
    "a record without a length": (raw(pax(path="x").replace(b"9 path", b"x path") + EMPTY), "corrupt", {}),
    "a wrong checksum": (raw(EMPTY.replace(b"empty", b"other")), "corrupt", {}),
    "a size that is no number": (raw(EMPTY.replace(b"00000000000\0", b"0000000000x\0")), "corrupt", {}),
}  # fmt: skip


def with_more(model: Path, add: Put) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(model, ".")
        add(archive)
    return out.getvalue()


@pytest.mark.parametrize(("add", "code", "facts"), HOSTILE.values(), ids=HOSTILE)
def test_what_has_no_place(desk: Desk, model: Path, add: Put, code: str, facts: dict[str, Any]) -> None:
    ran = refused(desk, with_more(model, add), code, **facts)
    assert len(ran.errors[0]) < 500
    assert not Path("/tmp/gdsurgeon-was-here").exists()


def refused(desk: Desk, data: bytes, code: str, exit_code: int = 3, **facts: Any) -> Ran:
    """DATA at standard input is refused, and nothing is left of it."""
    return desk.refused(exit_code, code, *RENAME, "-o", "out", data=data, file="<stdin>", **facts)


def test_many_headers_in_a_row(desk: Desk, model: Path) -> None:
    """Each may say something of the next member; the last one counts."""
    desk.put("asset.txt", b"a")
    data = with_more(model, raw(pax(path="n") * 3000 + pax(path="assets/more.txt") + EMPTY))
    assert desk.run(*RENAME, "-o", "out", data=data).code == 0
    assert (desk.folder / "out" / "assets" / "more.txt").read_bytes() == b""


def test_a_size_that_only_the_header_before_states(desk: Desk, model: Path) -> None:
    stated = pax(path="assets/more.txt", size="5") + EMPTY + b"hello".ljust(512, b"\0")
    data = with_more(model, raw(stated + pax(path="assets/last.txt") + EMPTY))
    assert desk.run(*RENAME, "-o", "out", data=data).code == 0
    found = {name: (desk.folder / "out" / "assets" / name).read_bytes() for name in ("more.txt", "last.txt")}
    assert found == {"more.txt": b"hello", "last.txt": b""}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_in_every_form(desk: Desk, model: Path, form: int) -> None:
    name = "/".join(["assets", "é" * 60, "b" * 90])
    path = model / name
    path.parent.mkdir()
    path.write_bytes(b"long")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, pax_headers={"comment": "for all"}) as archive:
        archive.add(model, ".")
    assert desk.run(*RENAME, "-o", "out", data=out.getvalue()).code == 0
    assert (desk.folder / "out" / name).read_bytes() == b"long"


def test_every_block_is_missed(desk: Desk, model: Path) -> None:
    """Cut behind any block before the end, or within one, nothing comes of it."""
    for cut in (600, 1500, -10_240, -9_728):
        refused(desk, tarred(model)[:cut], "corrupt", reason="it is cut short")
    data = tarred(model).rstrip(b"\0")
    for blocks in range(1, len(data) // 512 + 2):
        refused(desk, data[: blocks * 512].ljust(blocks * 512, b"\0"), "corrupt")


def test_no_model_in_it(desk: Desk, model: Path) -> None:
    put(desk.folder / "both" / "1")
    put(desk.folder / "both" / "2")
    refused(desk, tarred(desk.folder / "both"), "wrong-format", found=["1", "2"])
    shard, index = "variables.data-00000-of-00001", "variables.index"
    refused(desk, tarred(model / "variables"), "wrong-format", found=[shard, index])


def test_too_long(desk: Desk, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdsurgeon.container.tar.LONGEST_STREAM", 5000)
    refused(desk, tarred(model), "too-large")
    monkeypatch.undo()
    monkeypatch.setattr("gdsurgeon.container.tar.MOST_MEMBERS", 3)
    refused(desk, tarred(model), "too-large")


def test_a_full_disk(desk: Desk, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, *mode: int) -> None:
        if path.endswith("variables"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        mkdir(path, *mode)

    data, mkdir = tarred(model), os.mkdir
    monkeypatch.setattr(os, "mkdir", full)
    refused(desk, data, "unwritable", 6, reason="ENOSPC")


def test_permissions_are_not_taken(desk: Desk, model: Path) -> None:
    (model / "variables").chmod(0o777)
    (model / "assets" / "words.txt").chmod(0o4755)
    assert desk.run(*RENAME, "-o", "out", data=tarred(model)).code == 0
    assert stat.S_IMODE((desk.folder / "out" / "assets" / "words.txt").stat().st_mode) & 0o7111 == 0


def test_a_graph_at_standard_input_is_one(desk: Desk) -> None:
    ran = desk.run("rename", "-", "y=q", *QUICK, data=PLAIN)
    assert ran.code == 0
    meta = meta_graph().SerializeToString()
    ran = desk.run("rename", "-", "y=q", *QUICK, data=meta)
    assert ran.code == 0
    assert desk.run("inspect", "-", data=b"").code == 3
