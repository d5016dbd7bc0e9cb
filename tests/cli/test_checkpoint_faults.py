"""Faults of the disk and signals while a checkpoint is written: all of it appears, or nothing, and nothing is lost."""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import time

import numpy as np
import pytest
from support.bundles import SMALL, files_of, values
from support.desk import Desk, check_said, finished
from support.system import Fault

from gdsurgeon.container.checkpoint.open import open_checkpoint

KILLS = int(os.environ.get("GDSURGEON_KILLS", "4"))
FAULTS = [
    ("write", errno.ENOSPC), ("copy_file_range", errno.EIO), ("fsync", errno.EIO), ("open", errno.EACCES),
    ("replace", errno.EACCES), ("link", errno.EPERM), ("pread", errno.EIO),
]  # fmt: skip
EDITS = {
    "linked": ("--rename", "step=s", "-o", "n"),
    "written": ("--drop", "^step$", "-o", "n"),
    "index": ("-i", "--backup", ".bak", "--rename", "step=s"),
    "one-more-shard": ("-i", "--set", "step=@step.npy"),
}
BEFORE = {**files_of(SMALL, "m"), "m.index.bak": b"an earlier backup"}


def laid_out(desk: Desk) -> dict[str, bytes]:
    desk.restore(BEFORE)
    np.save("step.npy", np.array(7, np.int64))
    return {**BEFORE, "step.npy": (desk.folder / "step.npy").read_bytes()}


def check_done(edit: str) -> None:
    """That the result of an edit is there, whole."""
    with open_checkpoint("n" if "-o" in EDITS[edit] else "m") as checkpoint:
        held = values(checkpoint)
    assert len(held) == (3 if edit == "written" else 4)
    assert ("s" in held) == (edit in ("linked", "index"))


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize(("call", "code"), FAULTS, ids=[call for call, _ in FAULTS])
def test_all_or_nothing_whichever_call_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, call: str, code: int, for_ever: bool, edit: str
) -> None:
    fault = Fault(call, code, for_ever)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, fault.name, fault)
    for at in range(1, 100):
        before = laid_out(desk)
        fault.arm(at)
        ran = desk.run("checkpoint", "m", *EDITS[edit])
        fault.disarm()
        assert desk.temporary_files() == [], f"call {at}"
        if ran.code:
            assert ran.code in (2, 3, 6), ran
            check_said(ran)
            assert os.strerror(fault.code).lower() in ran.err.lower()
            assert desk.files() == before, f"call {at}"
        else:
            check_done(edit)
        if not fault.struck:
            assert ran.code == 0
            return
    raise AssertionError("it does not come to an end")


@pytest.mark.parametrize("edit", EDITS)
def test_killed_at_any_instant(desk: Desk, edit: str) -> None:
    """The checkpoint is the earlier one or the new one, and can be read; other files have temporary names."""
    draw = random.Random(7)
    laid_out(desk)
    started = time.monotonic()
    assert desk.forked("checkpoint", "m", *EDITS[edit]).code == 0
    took = time.monotonic() - started
    for number in range(KILLS):
        before = laid_out(desk)
        process = desk.fork("checkpoint", "m", *EDITS[edit])
        time.sleep(draw.uniform(took / 2, took * 1.1))
        process.send_signal(signal.SIGKILL if number % 3 == 0 else draw.choice((signal.SIGTERM, signal.SIGINT)))
        ran = finished(process)
        after = {name: data for name, data in desk.files().items() if not re.search(r"\.gdsurgeon-\w+\.tmp$", name)}
        with open_checkpoint("m") as checkpoint:
            assert len(values(checkpoint)) == 4
        if ran.code == 0 or "n.index" in after:
            check_done(edit)
        elif ran.code != -signal.SIGKILL:
            assert after == before, ran
            assert desk.temporary_files() == []
