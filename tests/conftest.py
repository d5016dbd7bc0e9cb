"""Fixtures: processes that live through many tests, and a place to run the command line in."""

from __future__ import annotations

import copy
import dis
import gc
import hashlib
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
from support import inlining, older, running, v1_control_flow
from support.aside import RANDOM_GRAPHS, Answers, ShapesTold
from support.desk import Desk
from support.patience import LONG_ENOUGH
from support.shipped import Shipped, make
from support.workers import lend_workers

from gdsurgeon.cli.terminal import terminal
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.settings import Settings
from gdsurgeon.runtime.base import Backward, Derivation
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.evaluator import Differentiator

_derived: dict[tuple[bytes, Derivation], Backward] = {}


class RememberingDifferentiator(Differentiator):
    """A differentiator that computes each backward pass once: mutants of a graph with gradients share the passes."""

    def derive(self, data: bytes, wanted: Derivation) -> Backward:
        asked = hashlib.sha256(data).digest(), wanted
        if asked not in _derived:
            _derived[asked] = super().derive(data, wanted)
        return copy.deepcopy(_derived[asked])


# Random tests draw the same in every run: what fails today fails tomorrow, and what takes long is no failure.
LONG = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("steady", deadline=None, derandomize=True, max_examples=50, suppress_health_check=LONG)
# Others in every run, and many: `--hypothesis-profile=thorough`.
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=LONG)
settings.load_profile("steady")


def _without_constants(providers: Any) -> None:
    """Makes Hypothesis ignore the constants of loaded modules, which differ between runs."""
    constants, none = providers._get_local_constants, providers._local_constants
    providers._get_local_constants = lambda: none if settings.default.derandomize else constants()


_PROVIDERS = sys.modules.get("hypothesis.internal.conjecture.providers")
if hasattr(_PROVIDERS, "_get_local_constants"):  # older ones draw none
    _without_constants(_PROVIDERS)

# Fixtures that start TensorFlow: a test that uses one of them needs the mark.
STARTING = frozenset(("differentiator", "executor", "saved_models", "shapes_told", "tf", "worker"))

RUNNERS = (running.run, running.outcome, running.outcomes, inlining.same, older.same, v1_control_flow.taken_both_ways)
RUNNING = frozenset(map(id, RUNNERS))
"""The identities of functions that run graphs: a test that calls one of them needs the mark."""

ALL_STARTING = re.compile(r"^pytestmark = \[?pytest\.mark\.tensorflow\b", re.MULTILINE)
"""The line of a file of tests that says that all of them do."""

MEMORY = "/dev/shm"
"""If there is enough space, files of tests are in memory, which is faster than a disk."""
ENOUGH = 4 << 30
"""Bytes; a run of all tests takes less than half of it."""
NUMBERS = itertools.count()

GUARD = pytest.StashKey[tuple[pytest.MonkeyPatch, bool]]()
"""The guard of a test without this mark, and whether TensorFlow was loaded before it."""


def pytest_configure() -> None:
    """Files are made in memory; processes side by side share the cores: TensorFlow takes the part of one in each."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
        os.environ.setdefault("TMPDIR", MEMORY)
        tempfile.tempdir = None  # that is found out anew
    side_by_side = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if side_by_side > 1:
        os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(max(1, (os.cpu_count() or 1) // side_by_side)))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Does not read a file whose tests all start TensorFlow, if only tests without TensorFlow are selected."""
    if not config.option.markexpr.startswith("not tensorflow") or collection_path.suffix != ".py":
        return None
    return True if ALL_STARTING.search(collection_path.read_text()) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if STARTING & set(getattr(item, "fixturenames", ())) or runs_graphs(item):
            item.add_marker(pytest.mark.tensorflow)


def runs_graphs(item: pytest.Item) -> bool:
    """Whether the code of a test calls one of `RUNNERS`."""
    code = getattr(getattr(item, "function", None), "__code__", None)
    names = [name for name in getattr(code, "co_names", ()) if id(getattr(item.module, name, None)) in RUNNING]
    steps = dis.get_instructions(code) if names else ()
    return any(step.opname == "LOAD_GLOBAL" and step.argval in names for step in steps)


def pytest_collection() -> None:
    gc.disable()  # what is collected stays


def pytest_collection_finish() -> None:
    """Freezes all existing objects, so that the collector does not scan them again."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)


def unmarked(*_: object, **__: object) -> NoReturn:
    pytest.fail("this test has TensorFlow work for it: mark it with @pytest.mark.tensorflow")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fails a test that uses TensorFlow without the mark.

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
    """A folder, which is removed when the test has passed.

    pytest's own fixture takes longer than most tests, because it counts all folders. This folder's name also does not
    contain the name of the test, so that messages with its path cannot contain the words that a test looks for.
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
        lend_workers(patch, lend=False)  # for the first user: it is never returned
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
    """Makes work with a time limit run to its end on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gdsurgeon.proof.differences.SECONDS", LONG_ENOUGH)
        yield


@pytest.fixture
def own_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the test start its own worker, as outside of tests: for tests of starting and ending workers."""
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
    """The shapes of random graphs, from TensorFlow."""
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
