"""Output files, reports, backups, links and modes; standard input, output and error."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import hostile
from support.desk import Desk, Ran, check_said, finished
from support.graphs import node
from support.hostile import HEAVY, PLAIN
from support.renaming import EARLIER, QUICK, RENAME, TO_OUT, as_root, renamed

# -- what a run leaves ---------------------------------------------------------------------------------------


GONE = [
    ("rename", "y=q", "-o", "out.pb"), ("rename", "y=q", "-o", "/dev/null", "--report", "out.json"),
    ("to-savedmodel", "-o", "out"), ("view", "-o", "out.html"), ("convert", "-o", "out.pbtxt"),
]  # fmt: skip


@pytest.mark.parametrize("command", GONE, ids=" ".join)
def test_a_working_folder_that_is_gone(plain: Desk, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    gone = plain.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    name, *options = command
    plain.refused(6, "unwritable", name, str(plain.folder / "model.pb"), *options, file=options[-1])


@pytest.mark.tensorflow
def test_an_edit_is_proven_in_a_working_folder_that_is_gone(plain: Desk) -> None:
    """In Python 3.13.0 a module that lacks a name ends in a SystemError there."""
    gone = plain.folder / "gone"
    gone.mkdir()
    arguments = ("rename", str(plain.folder / "model.pb"), "y=q", "-o", str(plain.folder / "out.pb"))
    ran = plain.spawn(*arguments, preexec_fn=lambda: (os.chdir(gone), gone.rmdir()))
    assert (ran.code, plain.files()["out.pb"]) == (0, renamed(PLAIN)), ran.err


def test_report_on_standard_output(plain: Desk) -> None:
    ran = plain.done(*TO_OUT, "--report", "-")
    assert json.loads(ran.out)["edit"]["renamed"] == {"y": "q"}
    assert plain.files()["out.pb"] == renamed(PLAIN)


def test_a_report_that_cannot_be_written_leaves_the_earlier_backup(desk: Desk) -> None:
    desk.restore({"model.pb": PLAIN, "model.pb.bak": EARLIER})
    for backup in (".bak", ".new"):
        arguments = (*RENAME, "-i", "--backup", backup, "--report", "/dev/full")
        desk.refused(6, "unwritable", *arguments, file="/dev/full", reason="ENOSPC")
    assert not os.path.samefile(desk.folder / "model.pb", desk.folder / "model.pb.bak")


def test_backup_that_is_a_link_to_the_model(desk: Desk) -> None:
    os.link(desk.put("model.pb", PLAIN), desk.folder / "model.pb.bak")
    desk.done(*RENAME, "-i", "--backup", ".bak")
    assert desk.files() == {"model.pb": renamed(PLAIN), "model.pb.bak": PLAIN}


@pytest.mark.parametrize(("suffix", "reason"), [("/nowhere/x", "ENOTDIR"), ("d", "EISDIR")])
def test_backup_that_cannot_be_written(plain: Desk, suffix: str, reason: str) -> None:
    (plain.folder / "model.pbd").mkdir()
    plain.put("report.json", b"earlier")
    file = str(plain.folder / f"model.pb{suffix}")
    words = ("-i", "--backup", suffix, "--report", "report.json")
    plain.refused(6, "unwritable", *RENAME, *words, file=file, reason=reason)


# -- row 62: too big for TensorFlow --------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["none", "structure"])
@pytest.mark.parametrize("destination", [("-o", "out.pb"), ("-i",), ("-o", "-")], ids=["out", "in-place", "stdout"])
def test_over_2_gib_is_refused_before_writing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, destination: tuple[str, ...], level: str
) -> None:
    path = desk.folder / "model.pb"
    hostile.write_huge(str(path), [4096, (1 << 30) + 8192, 1 << 30])
    before = path.stat()
    monkeypatch.setattr("gdsurgeon.wire.output.write_chunks", lambda *_: pytest.fail("something is written"))
    ran = desk.run("rename", "model.pb", "y=q", "--validate", level, *destination)
    check_said(ran, "2 GiB", "largest", code=6)
    listed = [line.split()[0] for line in ran.err.splitlines() if line.startswith("  ")]
    assert listed[:2] == ["w1", "w2"]
    assert ran.out == b""
    assert os.listdir(desk.folder) == ["model.pb"]
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


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
def test_output_that_cannot_be_written(plain: Desk, out: str, code: str, reason: str | None, dry: bool) -> None:
    plain.put("readonly.pb", EARLIER).chmod(0o444)
    (plain.folder / "folder").mkdir()
    for name, target in {
        "to-folder": "folder", "to-readonly": "readonly.pb", "loop": "loop", "loop-a": "loop-b", "loop-b": "loop-a",
        "astray": "nowhere/out.pb",
    }.items():  # fmt: skip
        (plain.folder / name).symlink_to(target)
    plain.refused(6, code, *RENAME, "-o", out, *(["--dry-run"] if dry else []), file=out, reason=reason)
    assert stat.S_IMODE((plain.folder / "readonly.pb").stat().st_mode) == 0o444


def test_folders_are_made_for_the_output(plain: Desk) -> None:
    plain.done(*RENAME, "-o", "a/b/out.pb", "--report", "a/r/report.json")
    assert plain.files().keys() == {"model.pb", "a/b/out.pb", "a/r/report.json"}


@pytest.mark.parametrize("failing", ["a/b/out.pb", "c/report.json"])
def test_folders_go_with_what_has_not_appeared(plain: Desk, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    replace = os.replace

    def failing_replace(path: str, other: str) -> None:
        if other.endswith(failing):
            raise OSError(errno.EIO, "input/output error")
        replace(path, other)

    monkeypatch.setattr("os.replace", failing_replace)
    assert plain.run(*RENAME, "-o", "a/b/out.pb", "--report", "c/report.json").code == 6
    assert os.listdir(plain.folder) == ["model.pb"]


def test_read_only_model_is_not_replaced(desk: Desk) -> None:
    desk.put("model.pb", PLAIN).chmod(0o444)
    desk.refused(6, "unwritable", *RENAME, "-i", file="model.pb", reason="read-only")


def test_long_name_leaves_room_for_the_temporary_one(plain: Desk) -> None:
    plain.done(*RENAME, "-o", "o" * 255)
    plain.done(*RENAME, "-o", "é" * 127)


@pytest.mark.parametrize("there", [True, False], ids=["there", "dangling"])
@pytest.mark.parametrize("target", ["real.pb", "folder/real.pb", "../beside.pb", "absolute"])
def test_link_is_followed_and_kept(plain: Desk, target: str, there: bool) -> None:
    (plain.folder / "folder").mkdir()
    if target == "absolute":
        target = str(plain.folder / "real.pb")
    (plain.folder / "link.pb").symlink_to(target)
    (plain.folder / "second.pb").symlink_to("link.pb")
    if there:
        (plain.folder / target).write_bytes(EARLIER)
    plain.done(*RENAME, "-o", "second.pb")
    assert (os.readlink("second.pb"), os.readlink("link.pb")) == ("link.pb", target)
    assert (plain.folder / target).read_bytes() == renamed(PLAIN)
    assert plain.temporary_files() == []
    assert not [name for name in os.listdir(plain.folder.parent) if ".tmp" in name]


def test_dev_null(plain: Desk) -> None:
    plain.done(*RENAME, "-o", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert plain.files() == {"model.pb": PLAIN}


def test_fifo(heavy: Desk) -> None:
    os.mkfifo(heavy.folder / "pipe")
    process = heavy.fork(*RENAME, "-o", "pipe")
    assert (heavy.folder / "pipe").read_bytes() == renamed(HEAVY)
    assert finished(process).code == 0
    assert stat.S_ISFIFO(os.stat(heavy.folder / "pipe").st_mode)
    assert heavy.temporary_files() == []


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


def test_a_stream_that_is_the_model_is_not_written(plain: Desk) -> None:
    with open(plain.folder / "model.pb", "rb") as source, open(plain.folder / "model.pb", "ab") as target:
        for ran in (
            plain.forked("rename", "-", "y=q", *QUICK, "-o", "model.pb", stdin=source),
            plain.forked(*RENAME, "-o", "-", stdout=target),
        ):
            assert (ran.code, len(ran.errors), plain.files()) == (2, 1, {"model.pb": PLAIN})


@pytest.mark.parametrize("model", ["model.pb", "hard.pb", "soft.pb"])
def test_in_place(desk: Desk, model: str) -> None:
    same_file_names(desk)
    desk.done("rename", model, "y=q", *QUICK, "-i", "--backup", "~")
    new = renamed(PLAIN)
    assert (desk.folder / model).read_bytes() == new
    # A hard link is a second name of the old file, and keeps it; a soft link is followed, and kept.
    target = "model.pb" if model == "soft.pb" else model
    other = "hard.pb" if target == "model.pb" else "model.pb"
    expected: dict[str, Any] = {target: new, other: PLAIN, "soft.pb": "-> model.pb", f"{target}~": PLAIN}
    assert desk.files() == expected


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o664, 0o755, 0o444 | 0o200], ids=oct)
@pytest.mark.parametrize("destination", ["out.pb", "in-place"])
def test_mode_is_kept(desk: Desk, destination: str, mode: int) -> None:
    desk.put("model.pb", PLAIN).chmod(mode)
    desk.put("out.pb", EARLIER).chmod(mode)
    desk.done(*RENAME, *(["-i"] if destination == "in-place" else ["-o", destination]))
    assert stat.S_IMODE(os.stat("model.pb" if destination == "in-place" else "out.pb").st_mode) == mode


def test_nobody_else_reads_what_is_written_in_the_place_of_a_private_file(
    plain: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.put("out.pb", EARLIER).chmod(0o600)
    modes = []
    real = os.fsync

    def fsync(fd: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))
        real(fd)

    def fchmod(fd: int, mode: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "fchmod", fchmod)
    plain.done(*TO_OUT)
    assert modes[:2] == [0o600, 0o600]


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664), (0o027, 0o640)])
def test_new_file_has_the_mode_of_the_umask(desk: Desk, umask: int, mode: int) -> None:
    desk.put("model.pb", PLAIN).chmod(0o600)
    before = os.umask(umask)
    try:
        desk.done(*TO_OUT, "--report", "report.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("out.pb").st_mode) == mode
    assert stat.S_IMODE(os.stat("report.json").st_mode) == mode


@pytest.mark.skipif(not as_root, reason="only root can give a folder to another group")
def test_group_of_the_folder(plain: Desk) -> None:
    (plain.folder / "shared").mkdir()
    os.chown(plain.folder / "shared", -1, 1234)
    (plain.folder / "shared").chmod(0o2775)
    out = plain.folder / "shared" / "out.pb"
    plain.done(*RENAME, "-o", str(out))
    assert out.stat().st_gid == 1234
    os.chown(out, -1, 4321)
    out.chmod(0o640)
    plain.done(*RENAME, "-o", str(out))
    assert (out.stat().st_gid, stat.S_IMODE(out.stat().st_mode)) == (4321, 0o640)


def shell(desk: Desk, line: str) -> Ran:
    """Runs LINE in bash, where $g is the program; the code is that of the first command of a pipe."""
    script = f'g="{sys.executable} -m gdsurgeon"; {line}; exit ${{PIPESTATUS[0]}}'
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=desk.folder, env=desk.environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    return finished(process)


WRITERS = {
    "graph": "rename model.pb y=q --validate structure -o -",
    "text": "rename model.pb y=q --validate structure -o - --format text",
    "report": "rename model.pb y=q --validate structure -o out.pb --report -",
    "inspect": "inspect model.pb",
    "json": "inspect model.pb --json",
    "help": "--help",
    "command-help": "rename --help",
    "version": "--version",
}


to_every_writer = pytest.mark.parametrize("writer", WRITERS)


@to_every_writer
def test_full_device(heavy: Desk, writer: str) -> None:
    with open("/dev/full", "wb") as full:
        ran = heavy.forked(*WRITERS[writer].split(), stdout=full)
    check_said(ran, "<stdout>", "no space left on device", code=6)


@pytest.mark.parametrize("writer", ["graph", "report", "inspect", "help"])
def test_closed_standard_output(heavy: Desk, writer: str) -> None:
    ran = shell(heavy, f"$g {WRITERS[writer]} >&-")
    check_said(ran, "<stdout> cannot be written", code=6)


@to_every_writer
def test_reader_has_gone(heavy: Desk, writer: str) -> None:
    reader, written = os.pipe()
    os.close(reader)
    try:
        ran = heavy.forked(*WRITERS[writer].split(), stdout=written)
    finally:
        os.close(written)
    assert ran.code == 141 and not re.search("Error|Exception ignored|Traceback", ran.err), ran


def test_reader_goes_after_a_byte(heavy: Desk) -> None:
    ran = shell(heavy, f"$g {WRITERS['graph']} | head -c1")
    assert (ran.code, ran.out) == (141, HEAVY[:1])
    assert "Exception ignored" not in ran.err


@pytest.mark.parametrize(
    ("level", "closed"),
    [
        *(("structure", closed) for closed in (">&-", "2>&-", "<&-")),
        pytest.param("run", ">&- 2>&- <&-", marks=pytest.mark.tensorflow),
    ],
)
def test_closed_streams_that_are_not_needed(heavy: Desk, level: str, closed: str) -> None:
    ran = shell(heavy, f"$g rename model.pb y=q --validate {level} -o out.pb {closed}")
    assert ran.code == 0, ran
    assert heavy.files() == {"model.pb": HEAVY, "out.pb": renamed(HEAVY)}
    assert heavy.temporary_files() == []


def test_closed_standard_input_that_is_needed(desk: Desk) -> None:
    ran = shell(desk, "$g rename - y=q --validate structure -o out.pb <&-")
    check_said(ran, "standard input is closed", code=3)


def test_error_with_nobody_to_read_it(plain: Desk) -> None:
    for closed in ("2>&-", "2>/dev/full"):
        ran = shell(plain, f"$g rename model.pb nothing=q --validate structure -o out.pb {closed}")
        assert (ran.code, ran.out, ran.err) == (4, b"", "")


def test_standard_input_is_a_terminal(desk: Desk, tty: int) -> None:
    for arguments in (("rename", "-", "y=q", "-o", "out.pb", *QUICK), ("inspect", "-")):
        ran = desk.forked(*arguments, stdin=tty)
        assert (ran.code, len(ran.errors), ran.out, desk.files()) == (2, 1, b"", {})


def test_standard_output_is_a_terminal(plain: Desk, tty: int) -> None:
    plain.refused(2, "is-a-terminal", *RENAME, "-o", os.ttyname(tty))
    for name in ("-", "/dev/stdout"):
        ran = plain.forked(*RENAME, "-o", name, stdout=tty)
        assert (ran.code, len(ran.errors)) == (2, 1)


def test_text_may_go_to_a_terminal(plain: Desk, tty: int) -> None:
    assert plain.forked(*RENAME, "-o", "-", "--format", "text", stdout=tty).code == 0
    plain.put("model.pbtxt", hostile.TEXT)
    assert plain.forked("rename", "model.pbtxt", "y=q", *QUICK, "-o", "-", stdout=tty).code == 0


@pytest.mark.parametrize("data", [b"", HEAVY[:100_000]], ids=["nothing", "half"])
def test_upstream_has_failed(desk: Desk, data: bytes) -> None:
    desk.put("out.pb", EARLIER)

    for out in ((), ("-o", "out.pb")):
        code = "corrupt" if data else "wrong-format"
        desk.refused(3, code, "rename", "-", "y=q", *QUICK, *out, data=data, file="<stdin>")


def test_pipe_there_and_back_again(heavy: Desk) -> None:
    there, back = f"$g rename - y=q {' '.join(QUICK)}", f"$g rename - q=y {' '.join(QUICK)}"
    ran = shell(heavy, f"cat model.pb | {there} | {back} > out.pb")
    assert "Error" not in ran.err
    assert heavy.files() == {"model.pb": HEAVY, "out.pb": HEAVY}
    assert heavy.temporary_files() == []


def test_standard_input_by_its_path(desk: Desk) -> None:
    try:
        ran = desk.forked("rename", "/dev/stdin", "y=q", *QUICK, data=HEAVY)
        assert (ran.code, ran.out) == (0, renamed(HEAVY))
        assert not os.path.exists("/dev/stdin.edited")
    finally:
        Path("/dev/stdin.edited").unlink(missing_ok=True)


def test_standard_input_from_a_file(desk: Desk) -> None:
    path = desk.put("model.pb", HEAVY)
    with open(path, "rb") as model:
        assert desk.forked("rename", "-", "y=q", *QUICK, stdin=model).out == renamed(HEAVY)
    with open(path, "rb") as model:
        model.seek(0)
        os.lseek(model.fileno(), 100, os.SEEK_SET)  # a part of the file is already read
        assert desk.forked("rename", "-", "y=q", *QUICK, stdin=model).code == 3


@pytest.mark.tensorflow
def test_nothing_of_tensorflow_on_the_streams(heavy: Desk) -> None:
    assert heavy.spawn("rename", "model.pb", "y=q", "-o", "out.pb").code == 0
    ran = heavy.spawn("rename", "model.pb", "y=q", "-o", "-")
    assert ran.code == 0
    assert ran.out == (heavy.folder / "out.pb").read_bytes()
    assert "tensorflow" not in ran.err.lower()
    loud = heavy.spawn("rename", "model.pb", "y=q", "-o", "-", "-v", env=heavy.environment(TF_CPP_MIN_LOG_LEVEL="0"))
    assert (loud.code, loud.out) == (0, ran.out)


THREE_COMMANDS = f"""
import sys
from gdsurgeon.cli.main import exit_code
codes = []
for number, name in enumerate(sys.argv[1:]):
    rename = ["rename", *{QUICK}, "--report", f"{{number}}.json", "--", name, "y=q"]
    for command in (rename, ["inspect", "--", name], rename):
        codes.append(exit_code(command))
        print(file=sys.stderr, end="\\f")
assert codes == [0, 0, 2] * (len(sys.argv) - 1), codes  # at last the output is there
"""
NAMES = (b"m\xff.pb", "modèle.pb".encode(), b"a b\tc\nd.pb", b"-model.pb", b"'$(x)*.pb")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_names_of_files(desk: Desk, locale: str) -> None:
    paths = [os.path.join(os.fsencode(desk.folder), name) for name in NAMES]
    for path in paths:
        Path(os.fsdecode(path)).write_bytes(PLAIN)
    environment = desk.environment(LC_ALL=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    ran = finished(desk.start_python("-c", THREE_COMMANDS, *NAMES, env=environment))
    assert ran.code == 0, ran
    said = iter(ran.err.split("\f"))
    for number, (name, path) in enumerate(zip(NAMES, paths, strict=True)):
        stem, suffix = os.path.splitext(path)
        assert Path(os.fsdecode(stem + b".edited" + suffix)).read_bytes() == renamed(PLAIN)
        assert os.fsencode(json.loads((desk.folder / f"{number}.json").read_bytes())["model"]) == name
        assert [len(next(said).splitlines()) for _ in range(2)] == [5, 0]
        check_said(Ran(2, b"", next(said)), "-o")


@pytest.mark.parametrize("environment", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}], ids=["C", "ascii"])
def test_names_in_graphs(desk: Desk, environment: dict[str, str]) -> None:
    """Ops may be called anything; what cannot be printed is escaped."""
    desk.put("modèle.pb", PLAIN + node("n", "Öp", ["x"]))
    for arguments in (("inspect", "modèle.pb"), ("rename", "modèle.pb", "y=q", *QUICK, "-o", "out.pb")):
        ran = desk.spawn(*arguments, env=desk.environment(**environment))
        assert ran.code == 0, ran


@pytest.mark.tensorflow
def test_file_name_that_is_not_utf8_is_executed(desk: Desk) -> None:
    path = os.path.join(os.fsencode(desk.folder), b"-m\xff.pb")
    with open(path, "wb") as file:
        file.write(PLAIN)
    ran = desk.spawn("rename", "--", b"-m\xff.pb", "y=q", env=desk.environment(LC_ALL="C"))
    assert ran.code == 0, ran
    assert "bit-identical" in ran.err


def test_dash_as_the_name_of_a_file(desk: Desk) -> None:
    desk.put("-", PLAIN)
    desk.done("rename", "./-", "y=q", *QUICK, "-o", "./-x")
    assert desk.files()["-x"] == renamed(PLAIN)


def test_in_a_pipe_an_error_names_the_command_and_the_model(heavy: Desk) -> None:
    ran = shell(heavy, "$g rename model.pb nothing=q --validate structure -o - | $g remove - --op Relu | $g inspect -")
    assert ran.code == 4
    assert sorted(ran.errors) == [
        "Error: inspect: <stdin> is empty (0 bytes)",
        "Error: remove: <stdin> is empty (0 bytes)",
        "Error: rename: model.pb has no node 'nothing' (6 nodes).",
    ]


def test_a_pipe_into_which_nothing_is_written(heavy: Desk) -> None:
    ran = shell(heavy, "$g rename model.pb y=q --validate none -q | $g inspect -")
    check_said(ran, "Error: inspect: <stdin> is empty", "Hint: the command before the pipe", "-o -", code=0)


def test_outside_of_a_pipe_nothing_is_said_of_the_command(heavy: Desk) -> None:
    ran = shell(heavy, "$g rename - nothing=q --validate structure < model.pb > out.pb")
    assert ran.errors == ["Error: <stdin> has no node 'nothing' (6 nodes)."]


@pytest.mark.parametrize("name", ["--level", "--validate"])
def test_how_far_to_go_has_two_names_and_one_is_shown(heavy: Desk, name: str) -> None:
    assert "structure only" in heavy.run("rename", "model.pb", "y=q", name, "structure", "-o", "out.pb").err
    assert "checked  the structure is sound" in heavy.run("validate", "model.pb", name, "structure").err
    for command in ("rename", "validate"):
        assert "--level" not in heavy.run(command, "--help").out.decode()
        heavy.refused(2, "bad-value", command, "model.pb", name, "x", option="--validate")
