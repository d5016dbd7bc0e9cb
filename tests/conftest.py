"""Fixtures: processes that live through many tests, and a place to run the command line in."""

from __future__ import annotations

import gc
import itertools
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings
from support.aside import RANDOM_GRAPHS, Answers, ShapesTold
from support.desk import Desk
from support.patience import LONG_ENOUGH
from support.remembering import RememberingDifferentiator
from support.shipped import Shipped, make
from support.workers import lend_workers

from gdsurgeon.cli.terminal import terminal
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.settings import Settings
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.evaluator import Differentiator

# Random tests draw the same in every run: what fails today fails tomorrow, and what takes long is no failure.
LONG = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("steady", deadline=None, derandomize=True, max_examples=50, suppress_health_check=LONG)
# Others in every run, and many: `--hypothesis-profile=thorough`.
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=LONG)
settings.load_profile("steady")


def _without_constants(providers: Any) -> None:
    """Has Hypothesis draw no constants of the modules that happen to be loaded, which are others in each run."""
    constants, none = providers._get_local_constants, providers._local_constants
    providers._get_local_constants = lambda: none if settings.default.derandomize else constants()


_PROVIDERS = sys.modules.get("hypothesis.internal.conjecture.providers")
if hasattr(_PROVIDERS, "_get_local_constants"):  # older ones draw none
    _without_constants(_PROVIDERS)

# Fixtures that start TensorFlow: a test that asks for one is one of those that do.
STARTING = frozenset(("differentiator", "executor", "saved_models", "shapes_told", "tf", "worker"))

ALL_STARTING = re.compile(r"^pytestmark = \[?pytest\.mark\.tensorflow\b", re.MULTILINE)
"""The line of a file of tests that says that all of them do."""

MEMORY = "/dev/shm"
"""Where there is room for it, files of tests are in memory: nobody waits for a disk."""
ENOUGH = 4 << 30
"""Bytes; a run of all tests takes less than half of it."""
NUMBERS = itertools.count()

GUARD = pytest.StashKey[tuple[pytest.MonkeyPatch, bool]]()
"""What guards a test that is not marked as one of those, and whether TensorFlow was loaded before it."""


def pytest_configure() -> None:
    """Files are made in memory; processes side by side share the cores: TensorFlow takes the part of one in each."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
        os.environ.setdefault("TMPDIR", MEMORY)
        tempfile.tempdir = None  # that is found out anew
    side_by_side = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if side_by_side > 1:
        os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(max(1, (os.cpu_count() or 1) // side_by_side)))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of which all tests start TensorFlow is not read where none is wanted that does."""
    if not config.option.markexpr.startswith("not tensorflow") or collection_path.suffix != ".py":
        return None
    return True if ALL_STARTING.search(collection_path.read_text()) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if STARTING & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.tensorflow)


def pytest_collection() -> None:
    gc.disable()  # what is collected stays


def pytest_collection_finish() -> None:
    """What is there by now stays: the collector need not look at it again and again, nor often at what tests make."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)


def unmarked(*_: object, **__: object) -> NoReturn:
    pytest.fail("this test has TensorFlow work for it: it is to be marked with @pytest.mark.tensorflow")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fails a test that has TensorFlow work for it, and is not marked as one of those.

    A hook, and no fixture, which each of thousands of tests would set up.
    """
    if item.get_closest_marker("tensorflow") is None:
        patch = pytest.MonkeyPatch()
        patch.setattr(Worker, "_submit", unmarked)
        patch.setattr(Worker, "start", lambda worker: worker)  # TensorFlow would load for nothing
        item.stash[GUARD] = patch, "tensorflow" in sys.modules


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    patch, was_there = item.stash.get(GUARD, (None, True))
    if patch is not None:
        patch.undo()
    yield
    if not was_there and "tensorflow" in sys.modules:
        unmarked()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder, which is gone when the test has passed.

    pytest's own takes longer than most tests: it counts all that are there. Nor does its name say what is tested: what
    is said of it does not hold words that a test looks for.
    """
    path = tmp_path_factory.getbasetemp() / str(next(NUMBERS))
    path.mkdir()
    failed = request.session.testsfailed
    yield path
    if request.session.testsfailed == failed:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def executor() -> Iterator[Executor]:
    """A process that lives through all tests: they must not kill it."""
    with pytest.MonkeyPatch.context() as patch:
        lend_workers(patch, lend=False)  # whoever asks for it first: it is never given back
        started = Executor(Settings(timeout=LONG_ENOUGH)).start()
    with started:
        yield started


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """TensorFlow in a process that lives through all tests: they must not kill it."""
    with Worker() as started:
        yield started


@pytest.fixture(scope="session", autouse=True)
def lent_workers() -> Iterator[None]:
    """All that tests run in this process is run by few workers, for which TensorFlow loads once."""
    with pytest.MonkeyPatch.context() as patch:
        lend_workers(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def unhurried() -> Iterator[None]:
    """What is done as long as there is time for it is done to its end, however busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gdsurgeon.proof.differences.SECONDS", LONG_ENOUGH)
        yield


@pytest.fixture
def own_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test runs starts a worker each, as it does where nobody tests: for tests of what becomes of that."""
    lend_workers(monkeypatch, lend=False)


@pytest.fixture(scope="session")
def tf() -> Any:
    """TensorFlow, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        gc.disable()
        import tensorflow

    gc.freeze()
    gc.enable()
    return tensorflow


@pytest.fixture(scope="session")
def shapes_told() -> Iterator[ShapesTold]:
    """A process with TensorFlow that tells shapes through all tests."""
    with ShapesTold() as process:
        yield process


@pytest.fixture(scope="session")
def random_answers(shapes_told: ShapesTold, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What it says of random graphs."""
    return shapes_told.of(tmp_path_factory.mktemp("random_graphs"), RANDOM_GRAPHS)


@pytest.fixture(scope="session")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    """SavedModels and checkpoints of many kinds. Not to be written to."""
    return make(tmp_path_factory)


@pytest.fixture
def differentiator() -> Iterator[Differentiator]:
    """A process that differentiates, and lives on."""
    with RememberingDifferentiator(timeout=LONG_ENOUGH) as started:
        yield started


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    folder, scratch = tmp_path / "work", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield Desk(folder, scratch)
    terminal.__init__()  # type: ignore[misc]
