"""Processes that live through many tests."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.runtime.base import SessionOptions
from gdsurgeon.runtime.client import Pending, Worker
from gdsurgeon.runtime.failures import TensorFlowError
from gdsurgeon.runtime.process import unnamed_file
from gdsurgeon.runtime.worker import Child, Job
from support.paths import MODELS

MOST_USES = 500
"""After this many a worker ends, since TensorFlow keeps some memory of each graph."""
MOST_IDLE = 4
"""Idle workers of this process. If there are more, the least recently used worker ends."""
MOST_MEMORY = 900 << 20
"""Bytes of a worker that is kept. TensorFlow does not return the memory of a large graph to the system."""


class LentWorker(Worker):
    """A worker that forgets graphs and results where another would end: the next user finds it as if it were new.

    It ends where it may not be as good as new: where it has been waited for in vain, where a message was interrupted.
    """

    def __init__(self, runtime: str | None, reads: Sequence[str] = (), *, onednn: bool = True) -> None:
        super().__init__(runtime=runtime, reads=reads, onednn=onednn)
        self.lent = False
        self.uses = 0
        self.given_back = 0
        self._talking = False  # left so where an exception has come in between
        self._graphs: set[str] = set()
        self._results: set[str] = set()

    def _submit(self, method: str, arguments: Mapping[str, Any], descriptor: int | None = None) -> Pending[Any]:
        if method == "load":
            self._graphs.add(arguments["key"])
        elif method in ("run", "put"):
            self._results.add(arguments["result_id"])
        self._talking = True
        pending = super()._submit(method, arguments, descriptor)
        self._talking = False
        return pending

    def _wait(self, wanted: Pending[Any], timeout: float | None) -> None:
        self._talking = True
        super()._wait(wanted, timeout)
        self._talking = False

    @property
    def ended(self) -> bool:
        return self._failure is not None

    def close(self) -> None:
        if self.lent and self.uses < MOST_USES and not self.ended and not self._talking and not is_large(self):
            for key in self._graphs:
                self.unload(key)
            for result in self._results:
                self.drop(result)
            self._graphs.clear()
            self._results.clear()
            for pending in list(self._pending.values()):
                try:
                    pending.result(5.0)
                except (GdsurgeonError, TensorFlowError):
                    continue  # a result without a reader
        else:
            super().close()
        self.lent = False
        self.given_back = next(_COUNT)
        for worker in sorted(_idle(), key=lambda worker: worker.given_back)[:-MOST_IDLE]:
            Worker.close(worker)


def loading(child: Child, key: str, data: bytes, options: SessionOptions | None = None) -> Job[None]:
    """The work of the request to load DATA, which is not done yet."""
    descriptor = unnamed_file()
    os.write(descriptor, data)
    child._channel._descriptors.append(descriptor)
    return child.load(key, options=options)


def is_large(worker: Worker) -> bool:
    """Returns whether the process of `worker` uses more memory than a process that is kept."""
    try:
        pages = int(Path(f"/proc/{worker._pid}/statm").read_text().split()[1])
    except OSError:
        return False
    return pages * os.sysconf("SC_PAGE_SIZE") > MOST_MEMORY


_COUNT = itertools.count(1)
_workers: dict[tuple[object, ...], list[LentWorker]] = {}
"""By their differences: runtime, readable files, and environment variables."""
_TOLD = ("TF_", "GDSURGEON_")
"""Prefixes of the environment variables that a worker reads."""


@cache
def readable() -> tuple[str, ...]:
    """Readable folders of the workers for tests that read files; tests work in the second."""
    return f"{MODELS}{os.sep}", f"{tempfile.gettempdir()}{os.sep}"


def lent_worker(
    device: str = "cpu",
    op_libraries: Sequence[str] = (),
    runtime: str | None = None,
    verbose: bool = False,
    reads: Sequence[str] = (),
    onednn: bool = True,
    **opening: Any,
) -> Worker:
    """Replaces Worker: returns a free worker, or a new one; a separate worker for special options."""
    is_special = bool(device != "cpu" or op_libraries or verbose or any(opening.values()))
    is_elsewhere = any(not os.path.abspath(path).startswith(readable()) for path in reads)
    if is_special or is_elsewhere:
        return Worker(device, op_libraries, runtime, verbose, reads=reads, onednn=onednn, **opening)
    # TensorFlow's Python package takes seconds to come up: one process is for those who read files and for others.
    read = readable() if reads or runtime == "python" else ()
    told = tuple((key, os.environ[key]) for key in sorted(os.environ) if key.startswith(_TOLD))
    kind = (runtime, read, told, onednn)
    workers = [worker for worker in _workers.get(kind, ()) if not worker.ended]
    worker = next((worker for worker in workers if not worker.lent), None)
    if worker is None:
        worker = LentWorker(runtime, read, onednn=onednn)
        workers.append(worker)
    _workers[kind] = workers
    worker.lent = True
    worker.called = {}
    worker.uses += 1
    return worker


def _idle() -> list[LentWorker]:
    return [worker for kind in _workers.values() for worker in kind if worker._pid and not worker.lent]


def idle_workers() -> set[int]:
    """The processes of returned workers, which wait for the next user."""
    return {worker._pid for worker in _idle() if worker._pid}


def lend_workers(patch: pytest.MonkeyPatch, *, lend: bool = True) -> None:
    """Has all that is run in this process be run by workers that are lent; or not, where that was so."""
    readable()  # a test may have another folder for temporary files
    for module in ("proof.executor", "proof.served", "runtime.evaluator"):
        patch.setattr(f"gdsurgeon.{module}.Worker", lent_worker if lend else Worker)
