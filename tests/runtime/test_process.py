"""What the child is started with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.patience import until

from gdsurgeon.resources import MEMORY
from gdsurgeon.runtime import process
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.process import Log


def test_memory_is_taken_in_large_pieces_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(process, "is_memory_limited", lambda: False)
    monkeypatch.setenv(MEMORY, "8192")
    assert "top_pad" in process.environment(verbose=False, cpu_only=True)["GLIBC_TUNABLES"]
    monkeypatch.setenv(MEMORY, "1024")
    assert "GLIBC_TUNABLES" not in process.environment(verbose=False, cpu_only=True)
    monkeypatch.setenv(MEMORY, "8192")
    monkeypatch.setattr(process, "is_memory_limited", lambda: True)
    assert "GLIBC_TUNABLES" not in process.environment(verbose=False, cpu_only=True)


SECRETS = ("AWS_SECRET_ACCESS_KEY", "TOKEN", "LD_PRELOAD", "PASSWORD_OF_TF_", "MY_LC_ALL")
TOLD = {
    "GLIBC_TUNABLES": "glibc.malloc.perturb=1",
    "LC_TIME": "C",
    "TF_ANY": "1",
    "XLA_FLAGS": "",
    "OMP_NUM_THREADS": "2",
}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "")
    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)


def check_passed(found: Mapping[str, str]) -> None:
    assert not set(SECRETS) & set(found)
    assert {name: found.get(name) for name in TOLD} == TOLD


@pytest.mark.usefixtures("variables")
def test_a_library_is_preloaded_for_a_release_alone(tmp_path: Path) -> None:
    check_passed(process.environment(verbose=False, cpu_only=True, runtime=str(tmp_path)))
    library = tmp_path / process.PRELOADED
    library.write_bytes(b"")
    assert process.environment(verbose=False, cpu_only=True, runtime=str(tmp_path))["LD_PRELOAD"] == str(library)


@pytest.mark.tensorflow
@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize("runtime", ["capi", "python", "tflite"])
def test_a_secret_variable_does_not_reach_the_child(runtime: str) -> None:
    with Worker(runtime=runtime) as worker:
        found = until(lambda: Path(f"/proc/{worker._pid}/environ").read_text())
        check_passed(dict(line.split("=", 1) for line in found.split("\0") if line))


def test_a_log_that_the_child_has_cut_is_still_followed(capfd: pytest.CaptureFixture[str]) -> None:
    log = Log(shown=False)
    for text in (b"one\ntwo", b"x" * (3 << 15) + b"\nlast"):
        os.truncate(log.descriptor, 0)
        os.pwrite(log.descriptor, text, 0)
        log._pass_on(whole_lines=True)
    log._pass_on(whole_lines=False)
    log.close()
    shown = capfd.readouterr().err.splitlines()
    assert shown[0] == "tensorflow: one" and shown[-1] == "tensorflow: last"
    assert all(line.startswith("tensorflow: ") and len(line) < 1 << 17 for line in shown)
