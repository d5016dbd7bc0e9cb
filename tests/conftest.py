"""Fixtures: processes that live through many tests, and a place to run the command line in."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.desk import Desk
from support.workers import lend_workers

from gdsurgeon.cli.terminal import terminal
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.settings import Settings
from gdsurgeon.runtime.differentiation.differentiator import Differentiator


@pytest.fixture(scope="session")
def executor() -> Iterator[Executor]:
    """A process that lives through all tests: they must not kill it."""
    with pytest.MonkeyPatch.context() as patch:
        lend_workers(patch, lend=False)  # whoever asks for it first: it is never given back
        started = Executor(Settings(timeout=120)).start()
    with started:
        yield started


@pytest.fixture(scope="module")
def one_worker() -> Iterator[None]:
    """All that the tests of a module run in this process is run by one worker, for which TensorFlow loads once.

    Not for tests of what becomes of the worker itself.
    """
    with pytest.MonkeyPatch.context() as patch:
        lend_workers(patch)
        yield


@pytest.fixture(scope="session")
def tf() -> Any:
    """TensorFlow, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow

    return tensorflow


@pytest.fixture(scope="session")
def differentiator() -> Iterator[Differentiator]:
    """A process that differentiates through all tests: they must not kill it."""
    with pytest.MonkeyPatch.context() as patch:
        lend_workers(patch, lend=False)
        started = Differentiator(timeout=120)
    with started:
        yield started


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Desk]:
    folder, scratch = tmp_path / "work", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    lend_workers(monkeypatch)
    yield Desk(folder, scratch, capfdbinary.readouterr)
    terminal.__init__()  # type: ignore[misc]
