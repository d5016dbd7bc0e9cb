"""Processes that live through many tests."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from gdsurgeon.execute.executor import Executor
from gdsurgeon.execute.settings import Settings
from gdsurgeon.runtime.client import Pending, RuntimeFailure, Worker


@pytest.fixture(scope="session")
def executor() -> Iterator[Executor]:
    """A process that lives through all tests: they must not kill it."""
    with Executor(Settings(timeout=120)) as started:
        yield started


class LentWorker(Worker):
    """A worker that forgets graphs and results where another would end: the next user finds it as if it were new.

    It ends where it may not be as good as new: where somebody has waited for it in vain, where it does not come back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lent = False
        self._graphs: set[str] = set()
        self._results: set[str] = set()

    def submit(self, method: str, **arguments: Any) -> Pending[Any]:
        if method == "load":
            self._graphs.add(arguments["key"])
        elif method in ("run", "put"):
            self._results.add(arguments["result_id"])
        return super().submit(method, **arguments)

    @property
    def ended(self) -> bool:
        return self._failure is not None

    def close(self) -> None:
        if self.lent and not self.ended:
            for key in self._graphs:
                self.unload(key)
            for result in self._results:
                self.drop(result)
            self._graphs.clear()
            self._results.clear()
            for pending in list(self._pending.values()):
                try:
                    pending.result(5.0)
                except RuntimeFailure:
                    continue  # what nobody has asked for
        else:
            super().close()
        self.lent = False


_worker = LentWorker()


def lent_worker(device: str = "cpu", op_libraries: Sequence[str] = (), **options: Any) -> Worker:
    """What stands in for Worker: the one that is lent, if it is free and one like it is asked for."""
    global _worker
    special = device != "cpu" or op_libraries or any(options.values()) or os.environ.get("GDSURGEON_RUNTIME")
    if special or _worker.lent:
        return Worker(device, op_libraries, **options)
    if _worker.ended:
        _worker = LentWorker()
    _worker.lent = True
    return _worker


@pytest.fixture
def one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is run in this process is run by one worker, one after the other: TensorFlow is loaded once.

    Not for tests of what becomes of the worker itself.
    """
    monkeypatch.setattr("gdsurgeon.execute.executor.Worker", lent_worker)
