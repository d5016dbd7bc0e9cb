"""Faults in the kernel's calls about a folder, readers in it, and several who write: it is wholly old or wholly new.

GDSURGEON_EACH_CALL=1 has the process killed at each call, and each call fail; otherwise it is the last of its kind.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest
from support.desk import Desk, Ran, check_said
from support.meta_graphs import put, read
from support.renaming import QUICK
from support.system import can_trace, counted_calls

RENAME = ("rename", "model", "x=pixels", *QUICK)
PLACES = {"in-place": ("-i", "--backup", ".bak"), "new": ("-o", "out")}
CALLS = {
    "mkdir": "ENOSPC", "linkat": "EMLINK", "rename": "EACCES", "renameat2": "EACCES", "fsync": "EIO", "write": "ENOSPC",
    "copy_file_range": "EIO", "openat": "ENOSPC", "unlink": None, "unlinkat": None, "rmdir": None,
}  # fmt: skip
"""With what each fails; None: it takes away what is no longer wanted."""
OLD, NEW = {"x", "y"}, {"pixels", "y"}


def traced(desk: Desk, place: str, *options: str) -> Ran:
    return desk.traced(options, *RENAME, *PLACES[place])


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
    """Which of x, pixels and y the model in FOLDER has; all that it has beside its graph must be there."""
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
@pytest.mark.parametrize("place", PLACES)
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
            assert desk.run("rename", "model", pair, *QUICK, "-i").code == 0
            wanted.add((desk.folder / "model" / "saved_model.pb").read_bytes())
    finally:
        is_over.set()
        reader.join()
    assert len(seen) > 20
    assert set(seen) <= wanted
