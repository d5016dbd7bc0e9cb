"""Too little memory, too few descriptors: a sentence and an exit code, whatever it is that fails."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import FIXTURES, ROOT

from gdsurgeon.errors import UsageError
from gdsurgeon.feeds import archive
from gdsurgeon.resources import MEMORY, exhausted, lacked_at_end, memory_budget, told_of_want

MODEL = str(FIXTURES / "classifier.pb")


def chained(cause: BaseException, error: BaseException) -> BaseException:
    error.__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "out of memory"),
        (OSError(errno.EMFILE, "whatever"), "too many open files"),
        (ImportError("x.so: failed to map segment from shared object"), "out of memory"),
        (ImportError("x.so: cannot map zero-fill pages"), "out of memory"),
        (RuntimeError("can't start new thread"), "no further thread can be started"),
        (chained(OSError(errno.ENOMEM, ""), AttributeError("half a module")), "cannot allocate memory"),
        (OSError(errno.ENOENT, "no such file"), ""),
        (AttributeError("a fault"), ""),
        (ImportError("No module named 'click'"), ""),
        (None, ""),
    ],
)
def test_what_there_is_too_little_of(error: BaseException | None, said: str) -> None:
    assert exhausted(error) == said


def test_a_circle_of_exceptions_is_walked_once() -> None:
    a, b = ValueError("a"), ValueError("b")
    a.__context__, b.__context__ = b, a
    assert exhausted(a) == ""


def test_what_a_process_has_said_at_its_end() -> None:
    assert told_of_want("terminate called after throwing an instance of 'std::bad_alloc'") == "out of memory"
    assert told_of_want("Segmentation fault") == ""


def test_the_budget_is_what_is_said_or_a_part_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY, "100")
    assert memory_budget() == 100 << 20
    monkeypatch.delenv(MEMORY)
    assert 0 < memory_budget() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def ran(*arguments: str, limits: dict[int, int] | None = None, **environment: str) -> tuple[int, list[str]]:
    """Returns the exit code and the output of a command with LIMITS on its resources."""

    def limit() -> None:
        for kind, most in (limits or {}).items():
            resource.setrlimit(kind, (most, most))

    done = subprocess.run(
        [sys.executable, "-S", "-c", _BOOT, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        preexec_fn=limit,
    )
    return done.returncode, done.stderr.splitlines()


_PATH = [str(ROOT), *(place for place in sys.path if place)]
_BOOT = f"import sys; sys.path[:] = {_PATH!r}; from gdsurgeon.__main__ import run; run()"


@pytest.mark.parametrize("mebibytes", range(14, 40, 3))
def test_little_memory_is_a_sentence(mebibytes: int, tmp_path: Path) -> None:
    out = tmp_path / "out.pb"
    limits = {resource.RLIMIT_AS: mebibytes << 20}
    code, said = ran("rename", MODEL, "classes=labels", "--validate", "structure", "-o", str(out), limits=limits)
    assert code in (0, 6), said
    assert out.exists() is (code == 0)
    if code:
        assert [line.startswith("Error: ") for line in said] == [True]
    assert [path.name for path in tmp_path.iterdir()] == ["out.pb"] * (code == 0)


def test_enough_memory_is_enough(tmp_path: Path) -> None:
    limits = {resource.RLIMIT_AS: 200 << 20}
    out = str(tmp_path / "out.pb")
    assert ran("rename", MODEL, "classes=labels", "--validate", "structure", "-o", out, limits=limits)[0] == 0


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "limits",
    [{resource.RLIMIT_NOFILE: 5}, {resource.RLIMIT_NOFILE: 6}, {resource.RLIMIT_AS: 300 << 20}],
    ids=["5 files", "6 files", "300 MiB"],
)
def test_what_tensorflow_lacks_says_nothing_of_the_graph(limits: dict[int, int], tmp_path: Path) -> None:
    code, said = ran("rename", MODEL, "classes=labels", "-o", str(tmp_path / "out.pb"), limits=limits)
    assert code in (6, 7), said
    assert said[0].startswith("Error: ") and len(said) <= 2
    assert not any(tmp_path.iterdir())


def reported(tmp_path: Path, mebibytes: int) -> tuple[int, dict[str, Any]]:
    """The exit code of an edit whose proof may take so much memory, and its error in the report."""
    out, report = tmp_path / "out.pb", tmp_path / "report.json"
    arguments = ("rename", MODEL, "classes=labels", "-o", str(out), "--report", str(report))
    code, said = ran(*arguments, GDSURGEON_MEMORY=str(mebibytes))
    assert out.exists() is (code == 0), said
    return code, json.loads(report.read_text()).get("error") or {}


@pytest.mark.tensorflow
@pytest.mark.parametrize("mebibytes", [60, 80, 90])
def test_the_memory_of_tensorflows_process_has_a_limit(mebibytes: int, tmp_path: Path) -> None:
    """However the process ends without the memory it needs, that is no fault of the graph."""
    code, error = reported(tmp_path, mebibytes)
    assert code == 7, error
    assert error["code"] in ("out-of-memory", "crashed", "no-tensorflow")  # it may not even find its libraries
    if error["code"] == "out-of-memory":
        assert error["facts"]["limit"] == mebibytes << 20


@pytest.mark.tensorflow
def test_the_memory_of_tensorflows_process_is_a_number(tmp_path: Path) -> None:
    assert ran("rename", MODEL, "classes=labels", "-o", str(tmp_path / "out.pb"), GDSURGEON_MEMORY="much")[0] == 2


@pytest.mark.parametrize(
    ("status", "log", "resident", "kills", "lacked"),
    [
        (-11, "", 60 << 20, 0, "out of memory"),
        (-11, "", 40 << 20, 0, ""),
        (-6, "terminate called after throwing an instance of 'std::bad_alloc'", 0, 0, "out of memory"),
        (-6, "can't start new thread", 0, 0, "no further thread can be started"),
        (-9, "", 40 << 20, 0, ""),
        (-9, "", 40 << 20, 1, "out of memory"),
        (-9, "", 60 << 20, 0, ""),
        (-11, "", 40 << 20, 1, ""),
        (None, "", 0, 0, ""),
    ],
)
def test_what_a_process_lacked_at_its_end(
    status: int | None, log: str, resident: int, kills: int, lacked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MEMORY, "100")
    assert lacked_at_end(status, log, resident, kills) == lacked


def test_what_never_ends_is_not_read_to_its_end() -> None:
    code, said = ran("inspect", "/dev/zero", limits={resource.RLIMIT_FSIZE: 1 << 20})
    assert code == 3
    assert "/dev/zero is corrupt" in said[0]


def test_an_archive_unfolds_to_no_more_than_a_part_of_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "feeds.npz")
    np.savez_compressed(path, x=np.zeros(1 << 20, np.float32), y=np.zeros(1 << 20, np.float32))
    assert zipfile.ZipFile(path).fp is not None and os.path.getsize(path) < 1 << 16
    monkeypatch.setenv(MEMORY, "64")
    assert len(archive.load(path)[0]) == 2
    monkeypatch.setenv(MEMORY, "20")
    with pytest.raises(UsageError, match=r"needs 8\.0 MiB of memory, but only 5\.0 MiB may be used"):
        archive.load(path)
    with archive.Archive(path) as one_by_one:  # each of them is small enough
        assert [len(one_by_one.read(key).tobytes()) for key in one_by_one.keys] == [4 << 20] * 2
