"""Where the output goes, and what a run leaves: reports, backups, links, modes."""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any

import pytest
from support import hostile
from support.desk import Desk, check_said, finished
from support.hostile import HEAVY, PLAIN
from support.renaming import EARLIER, QUICK, RENAME, TO_OUT, as_root, renamed

# -- what a run leaves ---------------------------------------------------------------------------------------


GONE = [
    ("rename", "y=q", "-o", "out.pb"), ("rename", "y=q", "-o", "/dev/null", "--report", "out.json"),
    ("to-savedmodel", "-o", "out"), ("view", "-o", "out.html"), ("convert", "-o", "out.pbtxt"),
]  # fmt: skip


@pytest.mark.parametrize("command", GONE, ids=" ".join)
def test_a_working_folder_that_is_gone(desk: Desk, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    desk.put("model.pb", PLAIN)
    gone = desk.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    name, *options = command
    desk.refused(6, "unwritable", name, str(desk.folder / "model.pb"), *options, file=options[-1])


@pytest.mark.tensorflow
def test_an_edit_is_proven_in_a_working_folder_that_is_gone(desk: Desk) -> None:
    """In Python 3.13.0 a module that lacks a name ends in a SystemError there."""
    desk.put("model.pb", PLAIN)
    gone = desk.folder / "gone"
    gone.mkdir()
    arguments = ("rename", str(desk.folder / "model.pb"), "y=q", "-o", str(desk.folder / "out.pb"))
    ran = desk.spawn(*arguments, preexec_fn=lambda: (os.chdir(gone), gone.rmdir()))
    assert (ran.code, desk.files()["out.pb"]) == (0, renamed(PLAIN)), ran.err


def test_report_on_standard_output(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    ran = desk.run(*TO_OUT, "--report", "-")
    assert ran.code == 0
    assert json.loads(ran.out)["edit"]["renamed"] == {"y": "q"}
    assert desk.files()["out.pb"] == renamed(PLAIN)


def test_a_report_that_cannot_be_written_leaves_the_earlier_backup(desk: Desk) -> None:
    desk.restore({"model.pb": PLAIN, "model.pb.bak": EARLIER})
    for backup in (".bak", ".new"):
        arguments = (*RENAME, "-i", "--backup", backup, "--report", "/dev/full")
        desk.refused(6, "unwritable", *arguments, file="/dev/full", reason="ENOSPC")
    assert not os.path.samefile(desk.folder / "model.pb", desk.folder / "model.pb.bak")


def test_backup_that_is_a_link_to_the_model(desk: Desk) -> None:
    os.link(desk.put("model.pb", PLAIN), desk.folder / "model.pb.bak")
    assert desk.run(*RENAME, "-i", "--backup", ".bak").code == 0
    assert desk.files() == {"model.pb": renamed(PLAIN), "model.pb.bak": PLAIN}


@pytest.mark.parametrize(("suffix", "reason"), [("/nowhere/x", "ENOTDIR"), ("d", "EISDIR")])
def test_backup_that_cannot_be_written(desk: Desk, suffix: str, reason: str) -> None:
    desk.put("model.pb", PLAIN)
    (desk.folder / "model.pbd").mkdir()
    file = str(desk.folder / f"model.pb{suffix}")
    desk.refused(6, "unwritable", *RENAME, "-i", "--backup", suffix, file=file, reason=reason)


# -- row 62: too big for TensorFlow --------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["none", "structure"])
@pytest.mark.parametrize("destination", [("-o", "out.pb"), ("-i",), ("-o", "-")], ids=["out", "in-place", "stdout"])
def test_over_2_gib_is_refused_before_writing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, destination: tuple[str, ...], level: str
) -> None:
    path = desk.folder / "model.pb"
    hostile.write_huge(str(path), [4096, (1 << 30) + 8192, 1 << 30])
    before = path.stat()
    monkeypatch.setattr("gdsurgeon.wire.output.write_chunks", _must_not_be_called)
    ran = desk.run("rename", "model.pb", "y=q", "--validate", level, *destination)
    check_said(ran, "2 GiB", "largest", code=6)
    listed = [line.split()[0] for line in ran.err.splitlines() if line.startswith("  ")]
    assert listed[:2] == ["w1", "w2"]
    assert ran.out == b""
    assert os.listdir(desk.folder) == ["model.pb"]
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def _must_not_be_called(*_: Any) -> int:
    raise AssertionError("something is written")


# -- rows 67-72: where the output goes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("out", "code", "reason"),
    [
        ("folder", "is-a-folder", None),
        ("to-folder", "is-a-folder", None),
        ("model.pb/out.pb", "unwritable", "ENOTDIR"),
        ("readonly.pb", "unwritable", "read-only"),
        ("to-readonly", "unwritable", "read-only"),
        ("loop", "unwritable", "ELOOP"),
        ("loop-a", "unwritable", "ELOOP"),
        ("astray", "file-missing", None),
        ("o" * 300, "unwritable", "ENAMETOOLONG"),
        ("", "is-a-folder", None),
        ("new/", "is-a-folder", None),
    ],
)
@pytest.mark.parametrize("dry", [False, True], ids=["", "dry-run"])
def test_output_that_cannot_be_written(desk: Desk, out: str, code: str, reason: str | None, dry: bool) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("readonly.pb", EARLIER).chmod(0o444)
    (desk.folder / "folder").mkdir()
    for name, target in {
        "to-folder": "folder", "to-readonly": "readonly.pb", "loop": "loop", "loop-a": "loop-b", "loop-b": "loop-a",
        "astray": "nowhere/out.pb",
    }.items():  # fmt: skip
        (desk.folder / name).symlink_to(target)
    desk.refused(6, code, *RENAME, "-o", out, *(["--dry-run"] if dry else []), file=out, reason=reason)
    assert stat.S_IMODE((desk.folder / "readonly.pb").stat().st_mode) == 0o444


def test_folders_are_made_for_the_output(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    assert desk.run(*RENAME, "-o", "a/b/out.pb", "--report", "a/r/report.json").code == 0
    assert desk.files().keys() == {"model.pb", "a/b/out.pb", "a/r/report.json"}


@pytest.mark.parametrize("failing", ["a/b/out.pb", "c/report.json"])
def test_folders_go_with_what_has_not_appeared(desk: Desk, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    desk.put("model.pb", PLAIN)
    replace = os.replace

    def failing_replace(path: str, other: str) -> None:
        if other.endswith(failing):
            raise OSError(errno.EIO, "input/output error")
        replace(path, other)

    monkeypatch.setattr("os.replace", failing_replace)
    assert desk.run(*RENAME, "-o", "a/b/out.pb", "--report", "c/report.json").code == 6
    assert os.listdir(desk.folder) == ["model.pb"]


def test_read_only_model_is_not_replaced(desk: Desk) -> None:
    desk.put("model.pb", PLAIN).chmod(0o444)
    desk.refused(6, "unwritable", *RENAME, "-i", file="model.pb", reason="read-only")


def test_long_name_leaves_room_for_the_temporary_one(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    assert desk.run(*RENAME, "-o", "o" * 255).code == 0
    assert desk.run(*RENAME, "-o", "é" * 127).code == 0


@pytest.mark.parametrize("there", [True, False], ids=["there", "dangling"])
@pytest.mark.parametrize("target", ["real.pb", "folder/real.pb", "../beside.pb", "absolute"])
def test_link_is_followed_and_kept(desk: Desk, target: str, there: bool) -> None:
    desk.put("model.pb", PLAIN)
    (desk.folder / "folder").mkdir()
    if target == "absolute":
        target = str(desk.folder / "real.pb")
    (desk.folder / "link.pb").symlink_to(target)
    (desk.folder / "second.pb").symlink_to("link.pb")
    if there:
        (desk.folder / target).write_bytes(EARLIER)
    assert desk.run(*RENAME, "-o", "second.pb").code == 0
    assert (os.readlink("second.pb"), os.readlink("link.pb")) == ("link.pb", target)
    assert (desk.folder / target).read_bytes() == renamed(PLAIN)
    assert desk.temporary_files() == []
    assert not [name for name in os.listdir(desk.folder.parent) if ".tmp" in name]


def test_dev_null(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    assert desk.run(*RENAME, "-o", "/dev/null").code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert desk.files() == {"model.pb": PLAIN}


def test_fifo(desk: Desk) -> None:
    desk.put("model.pb", HEAVY)
    os.mkfifo(desk.folder / "pipe")
    process = desk.fork(*RENAME, "-o", "pipe")
    assert (desk.folder / "pipe").read_bytes() == renamed(HEAVY)
    assert finished(process).code == 0
    assert stat.S_ISFIFO(os.stat(desk.folder / "pipe").st_mode)
    assert desk.temporary_files() == []


def test_fifo_as_model(desk: Desk) -> None:
    os.mkfifo(desk.folder / "pipe")
    process = desk.fork("rename", "pipe", "y=q", *QUICK, "-o", "out.pb")
    (desk.folder / "pipe").write_bytes(HEAVY)
    assert finished(process).code == 0
    assert (desk.folder / "out.pb").read_bytes() == renamed(HEAVY)


def same_file_names(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    (desk.folder / "folder").mkdir()
    os.link(desk.folder / "model.pb", desk.folder / "hard.pb")
    (desk.folder / "soft.pb").symlink_to("model.pb")


@pytest.mark.parametrize("out", ["model.pb", "./model.pb", "folder/../model.pb", "hard.pb", "soft.pb"])
def test_model_is_not_its_own_output(desk: Desk, out: str) -> None:
    same_file_names(desk)
    desk.refused(2, "would-replace", *RENAME, "-o", out, file=out, other="model.pb")
    desk.refused(2, "would-replace", "rename", out, "y=q", *QUICK, "-o", "model.pb", file="model.pb", other=out)


def test_standard_input_is_not_its_own_output(desk: Desk) -> None:
    with open(desk.put("model.pb", PLAIN), "rb") as model:
        ran = desk.forked("rename", "-", "y=q", *QUICK, "-o", "model.pb", stdin=model)
    assert (ran.code, len(ran.errors), desk.files()) == (2, 1, {"model.pb": PLAIN})


@pytest.mark.parametrize("model", ["model.pb", "hard.pb", "soft.pb"])
def test_in_place(desk: Desk, model: str) -> None:
    same_file_names(desk)
    assert desk.run("rename", model, "y=q", *QUICK, "-i", "--backup", "~").code == 0
    new = renamed(PLAIN)
    assert (desk.folder / model).read_bytes() == new
    # A hard link is a second name of the old file, and keeps it; a soft link is followed, and kept.
    target = "model.pb" if model == "soft.pb" else model
    other = "hard.pb" if target == "model.pb" else "model.pb"
    expected: dict[str, Any] = {target: new, other: PLAIN, "soft.pb": "-> model.pb", f"{target}~": PLAIN}
    assert desk.files() == expected


MODES = [0o640, 0o600, 0o664, 0o755, 0o444 | 0o200]


@pytest.mark.parametrize("mode", MODES, ids=oct)
@pytest.mark.parametrize("destination", ["out.pb", "in-place"])
def test_mode_is_kept(desk: Desk, destination: str, mode: int) -> None:
    desk.put("model.pb", PLAIN).chmod(mode)
    desk.put("out.pb", EARLIER).chmod(mode)
    assert desk.run(*RENAME, *(["-i"] if destination == "in-place" else ["-o", destination])).code == 0
    assert stat.S_IMODE(os.stat("model.pb" if destination == "in-place" else "out.pb").st_mode) == mode


def test_nobody_else_reads_what_is_written_in_the_place_of_a_private_file(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("out.pb", EARLIER).chmod(0o600)
    modes = []
    real = os.fsync

    def fsync(fd: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))
        real(fd)

    def fchmod(fd: int, mode: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "fchmod", fchmod)
    assert desk.run(*TO_OUT).code == 0
    assert modes[:2] == [0o600, 0o600]


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664), (0o027, 0o640)])
def test_new_file_has_the_mode_of_the_umask(desk: Desk, umask: int, mode: int) -> None:
    desk.put("model.pb", PLAIN).chmod(0o600)
    before = os.umask(umask)
    try:
        assert desk.run(*TO_OUT, "--report", "report.json").code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("out.pb").st_mode) == mode
    assert stat.S_IMODE(os.stat("report.json").st_mode) == mode


@pytest.mark.skipif(not as_root, reason="only root can give a folder to another group")
def test_group_of_the_folder(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    (desk.folder / "shared").mkdir()
    os.chown(desk.folder / "shared", -1, 1234)
    (desk.folder / "shared").chmod(0o2775)
    out = desk.folder / "shared" / "out.pb"
    assert desk.run(*RENAME, "-o", str(out)).code == 0
    assert out.stat().st_gid == 1234
    os.chown(out, -1, 4321)
    out.chmod(0o640)
    assert desk.run(*RENAME, "-o", str(out)).code == 0
    assert (out.stat().st_gid, stat.S_IMODE(out.stat().st_mode)) == (4321, 0o640)
