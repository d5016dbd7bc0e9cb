"""Faults of the disk: all is written, or nothing, whichever call of the system fails."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support.desk import Desk, Ran, check_said, finished
from support.graphs import node
from support.hostile import HEAVY, PLAIN
from support.renaming import EARLIER, QUICK, RENAME_TWO, TO_OUT, renamed
from support.system import Fault, can_trace, counted_calls, faults

from gdsurgeon.wire.text import to_text

FAULTS = [
    ("write", errno.ENOSPC), ("copy_file_range", errno.EIO), ("fsync", errno.EIO), ("close", errno.EDQUOT),
    ("open", errno.EACCES), ("fchmod", errno.EPERM), ("replace", errno.EXDEV), ("link", errno.EPERM),
]  # fmt: skip
OTHER_FAULTS = [
    ("write", errno.EDQUOT), ("write", errno.EIO), ("copy_file_range", errno.ENOSPC), ("replace", errno.EACCES),
]  # fmt: skip
"""The same calls, which fail for other reasons: nothing is made of the reason but a text."""


PLACES = {
    "new": ("-o", "new.pb"),
    "earlier": ("-o", "out.pb"),
    "in-place": ("-i",),
    "backup": ("-i", "--backup", ".bak"),
    "report": ("-o", "out.pb", "--report", "report.json"),
    "all": ("-i", "--backup", ".bak", "--report", "report.json"),
    "first-report": ("-i", "--backup", ".new", "--report", "new.json"),
    "stream": ("-o", "-", "--report", "report.json"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize(("call", "code"), FAULTS, ids=[f"{call}-{errno.errorcode[code]}" for call, code in FAULTS])
def test_all_or_nothing_whichever_call_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, call: str, code: int, for_ever: bool, place: str
) -> None:
    check_all_or_nothing(desk, faults(monkeypatch, call, code, for_ever), place)


@pytest.mark.parametrize(("call", "code"), OTHER_FAULTS)
def test_all_or_nothing_whatever_the_reason(desk: Desk, monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    check_all_or_nothing(desk, faults(monkeypatch, call, code), "all")


@pytest.mark.parametrize("place", ["new", "all", "stream"])
def test_all_or_nothing_whichever_read_fails(desk: Desk, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    check_all_or_nothing(desk, faults(monkeypatch, "pread", errno.EIO), place)


def check_all_or_nothing(desk: Desk, tried: Iterable[Fault], place: str) -> None:
    before = {"model.pb": HEAVY, "out.pb": EARLIER, "model.pb.bak": EARLIER, "report.json": EARLIER}
    for fault in tried:
        desk.restore(before)
        with fault:
            ran = desk.run(*RENAME_TWO, *PLACES[place])
        after: dict[str, Any] = desk.files()
        assert desk.temporary_files() == [], f"call {fault.at}"
        if ran.code:
            assert ran.code in (3, 6) and fault.struck, ran
            check_said(ran)
            assert os.strerror(fault.code).lower() in ran.err.lower()
            for name in ("report.json", "new.json"):
                if ran.code == 3 and name in PLACES[place] and after.get(name) != before.get(name):
                    assert json.loads(after.pop(name))["passed"] is False
                    after |= {name: before[name]} if name in before else {}
            assert after == before, f"call {fault.at}"
        else:
            _check_whole(place, before, after)


def _check_whole(place: str, before: dict[str, bytes], after: dict[str, Any]) -> None:
    """The folder after success."""
    written = {"new": "new.pb", "earlier": "out.pb", "report": "out.pb", "stream": ""}.get(place, "model.pb")
    wanted = before | ({written: renamed(HEAVY, y="q", v="r")} if written else {})
    options = PLACES[place]
    if "--backup" in options:
        wanted["model.pb" + options[options.index("--backup") + 1]] = HEAVY
    if "--report" in options:
        name = options[-1]
        wanted[name] = after[name]
        assert json.loads(after[name])["passed"] is True
    assert after == wanted


def _short(real: Callable[..., int], position: int, most: int) -> Callable[..., int]:
    """REAL, with at most MOST bytes a call; POSITION is where among the arguments the bytes or their count stand."""

    def call(*args: Any) -> int:
        wanted = args[position]
        less = min(wanted, most) if isinstance(wanted, int) else wanted[:most]
        return real(*args[:position], less, *args[position + 1 :])

    return call


def _fails(code: int) -> Callable[..., int]:
    def call(*_: Any) -> int:
        raise OSError(code, os.strerror(code))

    return call


SHORT = {
    "write": {"write": _short(os.write, 1, 100)},
    "pread": {"pread": _short(os.pread, 1, 100)},
    "copy_file_range": {"copy_file_range": _short(os.copy_file_range, 2, 3000)},
    "copy_file_range-nothing": {"copy_file_range": lambda *_: 0},
    "sendfile": {"copy_file_range": _fails(errno.EXDEV), "sendfile": _short(os.sendfile, 3, 3000)},
    **{
        f"neither-{errno.errorcode[code]}": {"copy_file_range": _fails(code), "sendfile": _fails(errno.EINVAL)}
        for code in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
    },
    "neither-and-short": {
        "copy_file_range": _fails(errno.ENOSYS),
        "sendfile": _fails(errno.ENOSYS),
        "write": _short(os.write, 1, 1000),
        "pread": _short(os.pread, 1, 1000),
    },
}


@pytest.mark.parametrize("case", SHORT)
def test_short_and_missing_calls_change_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    desk.put("model.pb", HEAVY)
    for name, call in SHORT[case].items():
        monkeypatch.setattr(os, name, call)
    assert desk.run(*TO_OUT).code == 0
    monkeypatch.undo()
    assert (desk.folder / "out.pb").read_bytes() == renamed(HEAVY)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_text_is_written_whole_or_not_at_all(desk: Desk, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("out.pb", EARLIER)
    arguments = (*TO_OUT, "--format", "text")
    with next(faults(monkeypatch, call, errno.ENOSPC)):
        desk.refused(6, "unwritable", *arguments, file="out.pb", reason="ENOSPC")
    assert desk.run(*arguments).code == 0
    assert desk.files()["out.pb"] == to_text(renamed(PLAIN))


@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize("call", ["sendfile", "write", "pread"])
def test_faults_behind_a_missing_call(desk: Desk, monkeypatch: pytest.MonkeyPatch, call: str, for_ever: bool) -> None:
    """Where copy_file_range is missing the next way is taken, and fails as cleanly."""
    desk.put("model.pb", HEAVY)
    desk.put("out.pb", EARLIER)
    monkeypatch.setattr(os, "copy_file_range", _fails(errno.ENOSYS))
    if call != "sendfile":
        monkeypatch.setattr(os, "sendfile", _fails(errno.ENOSYS))
    for fault in faults(monkeypatch, call, errno.EIO, for_ever):
        with fault:
            ran = desk.run(*TO_OUT)
        if not fault.struck:
            assert ran.code == 0
            assert desk.files()["out.pb"] == renamed(HEAVY)
            return
        assert ran.code == (3 if call == "pread" else 6)
        check_said(ran)
        assert "input/output error" in ran.err.lower()
        assert desk.files() == {"model.pb": HEAVY, "out.pb": EARLIER}


@pytest.mark.parametrize("room", [0, 4096, 1 << 16])
def test_no_room_for_standard_input(desk: Desk, room: int) -> None:
    """A graph from a pipe that is too big for memory goes to a temporary file, and there may be no room for that."""
    script = (
        "import resource, signal, sys; import gdsurgeon.wire.source as source; from gdsurgeon.cli.main import run;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), -1));"
        "source.SPOOL_IN_MEMORY = 100; run()"
    )
    desk.put("out.pb", EARLIER)
    data = HEAVY if room > 4096 else PLAIN + b"".join(node(f"n{i}", "NoOp") for i in range(300))
    arguments = ("-c", script, str(room), "rename", "-", "y=q", *QUICK, "-o", "out.pb")
    process = desk.fork_python(*arguments, stdin=subprocess.PIPE)
    ran = finished(process, data)
    assert ran.code in (3, 6), ran
    check_said(ran, "<stdin>", "temporary")
    assert desk.files() == {"out.pb": EARLIER}
    assert desk.temporary_files() == []


KILLS = int(os.environ.get("GDSURGEON_KILLS", "6"))
EACH_CALL = "GDSURGEON_EACH_CALL" in os.environ
CALLS = {
    "write": errno.ENOSPC,
    "copy_file_range": errno.EIO,
    "fsync": errno.EIO,
    "rename": errno.EACCES,
    "link": errno.EPERM,
    "openat": errno.EACCES,
    "mmap": errno.ENOMEM,
    "ftruncate": errno.EIO,
    "close": errno.EIO,
    "fchmod": errno.EPERM,
    "pread64": errno.EIO,
}
TRACED = {
    "all": ("-i", "--backup", ".bak", "--report", "report.json"),
    "stream": ("-o", "-"),
}
BEFORE = {"model.pb": HEAVY, "out.pb": EARLIER, "model.pb.bak": EARLIER, "report.json": EARLIER}


def traced(desk: Desk, options: list[str], place: str) -> Ran:
    return desk.traced(options, *RENAME_TWO, *TRACED[place])


def calls_on_files(desk: Desk, place: str, trace: Path) -> list[tuple[str, int]]:
    """The calls of a run that are about a file in the folder: which, and the how-manyeth of its kind it is."""
    desk.restore(BEFORE)
    names = ",".join(CALLS)
    ran = traced(desk, ["-y", "-o", str(trace), "-e", f"trace={names}"], place)
    assert ran.code == 0, ran
    found = [
        (call, count)
        for line, call, count in counted_calls(trace, CALLS)
        if f"{desk.folder}/" in line or re.search(r'"(\./)?\.?(model|out|report)', line)
    ]
    return found if EACH_CALL else list(dict(found).items())


@pytest.mark.skipif(not can_trace(), reason="strace is not here, or may not trace")
@pytest.mark.parametrize("place", TRACED)
def test_all_or_nothing_whichever_system_call_fails(desk: Desk, tmp_path: Path, place: str) -> None:
    calls = calls_on_files(desk, place, tmp_path / "trace")
    assert len(dict(calls)) >= (2 if place == "stream" else 6), calls
    for name, at in calls:
        desk.restore(BEFORE)
        error = errno.errorcode[CALLS[name]]
        inject = ["-o", os.devnull, "-e", f"trace={name}", "-e", f"inject={name}:error={error}:when={at}"]
        ran = traced(desk, inject, place)
        where = f"{name} {at}"
        assert desk.temporary_files() == [], where
        after = desk.files()
        if ran.code == 0:
            assert after["model.pb"] == (renamed(HEAVY, y="q", v="r") if place == "all" else HEAVY), where
            continue
        assert ran.code in (3, 6), (where, ran)
        check_said(ran)
        if ran.code == 3:
            after["report.json"] = EARLIER  # which says what is wrong
        assert after == BEFORE, where


def test_killed_at_any_instant(desk: Desk) -> None:
    """The files are the earlier ones or the new ones; other files have temporary names."""
    draw = random.Random(7)
    desk.restore(BEFORE)
    started = time.monotonic()
    assert desk.forked(*RENAME_TWO, *TRACED["all"]).code == 0
    took = time.monotonic() - started
    wanted = desk.files()
    for number in range(KILLS):
        desk.restore(BEFORE)
        process = desk.fork(*RENAME_TWO, *TRACED["all"])
        time.sleep(draw.uniform(0, took))
        process.send_signal(
            signal.SIGKILL if number % 3 == 0 else draw.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        )
        ran = finished(process)
        after = {name: data for name, data in desk.files().items() if not re.search(r"\.gdsurgeon-\w+\.tmp$", name)}
        assert after["out.pb"] == EARLIER
        if ran.code != -signal.SIGKILL:
            del after["report.json"]  # which tells the time
            assert after.items() <= BEFORE.items() or after.items() <= wanted.items(), ran
            assert desk.temporary_files() == []
        assert after["model.pb"] in (HEAVY, wanted["model.pb"])
        assert after["model.pb.bak"] in (EARLIER, HEAVY)
        if after["model.pb"] != HEAVY:
            assert after["model.pb.bak"] == HEAVY  # the old model is never lost
