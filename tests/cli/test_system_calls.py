"""A failure is injected into the system calls themselves, one at a time; and the process is killed at any instant.

`test_disk_faults` has the calls of the library fail; here strace has the kernel's fail, where it is installed.

    GDSURGEON_KILLS=500 GDSURGEON_EACH_CALL=1 python -m pytest tests/cli/test_system_calls.py

kills as many processes, and has each call fail; otherwise it is the last of its kind.
"""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
from support.desk import Desk, Ran, check_said, finished
from support.hostile import HEAVY
from support.renaming import EARLIER, RENAME_TWO, renamed
from support.system import can_trace, counted_calls

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
PLACES = {
    "all": ("-i", "--backup", ".bak", "--report", "report.json"),
    "stream": ("-o", "-"),
}
BEFORE = {"model.pb": HEAVY, "out.pb": EARLIER, "model.pb.bak": EARLIER, "report.json": EARLIER}


def traced(desk: Desk, options: list[str], place: str) -> Ran:
    return desk.traced(options, *RENAME_TWO, *PLACES[place])


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
@pytest.mark.parametrize("place", PLACES)
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
    assert desk.forked(*RENAME_TWO, *PLACES["all"]).code == 0
    took = time.monotonic() - started
    wanted = desk.files()
    for number in range(KILLS):
        desk.restore(BEFORE)
        process = desk.fork(*RENAME_TWO, *PLACES["all"])
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
