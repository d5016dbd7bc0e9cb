"""Runs small graphs in one process that lives on, and says what they give."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.settings import Settings
from gdsurgeon.runtime.tensor import from_numpy
from support import graphs
from support.patience import LONG_ENOUGH
from support.workers import is_large


class Runner:
    """Runs graphs in a process that is started when it is needed, and again where a run did not come back."""

    def __init__(self) -> None:
        self._executor: Executor | None = None
        self._count = 0
        self._open = 0  # sessions

    def __call__(
        self,
        what: Graph | bytes,
        *fetches: str,
        initialisers: Sequence[str] = (),
        targets: Sequence[str] = (),
        **feeds: Any,
    ) -> list[Any]:
        """The values of FETCHES as lists, in a session of their own in which INITIALISERS have been run before.

        A node's ``/`` is ``__`` in the name of a feed.

        Raises:
            Refused: TensorFlow does not load or run it.
            GdsurgeonError: it does not come back.
        """
        with self.session(what) as (executor, key):
            executor.initialize(key, initialisers)
            return values(executor, key, fetches, targets, feeds)

    @contextlib.contextmanager
    def session(self, what: Graph | bytes) -> Iterator[tuple[Executor, str]]:
        """A graph that is loaded: where, and under which key."""
        if self._executor is None:
            self._executor = Executor(Settings(timeout=LONG_ENOUGH)).start()
        executor = self._executor
        self._count += 1
        self._open += 1
        key = f"graph {self._count}"
        try:
            executor.load(key, graphs.written(what))
            executor.loaded(key)
            yield executor, key
        except GdsurgeonError:
            executor.close()
            self._executor = None
            raise
        finally:
            executor.unload(key)
            self._open -= 1
            if not self._open and is_large(executor._worker):
                executor.close()
                self._executor = None


def fitting(value: Any) -> Any:
    """VALUE as an array of float32, int32 or bool."""
    array = np.asarray(value)
    narrow = {"float64": np.float32, "int64": np.int32}
    return array.astype(narrow.get(str(array.dtype), array.dtype))


def values(
    executor: Executor, key: str, fetches: Sequence[str], targets: Sequence[str], feeds: Mapping[str, Any]
) -> list[Any]:
    given = {name.replace("__", "/"): from_numpy(fitting(value)) for name, value in feeds.items()}
    executor.wait(executor._worker.run(key, "out", given, list(fetches), list(targets)))
    return [executor.tensor("out", i).numpy().tolist() for i in range(len(fetches))]


run = Runner()


def outcome(what: Graph | bytes, *fetches: str, **feeds: Any) -> list[Any] | str:
    """The values, or what TensorFlow says against running it (without what only names places)."""
    try:
        return run(what, *fetches, **feeds)
    except Refused as refused:
        return reason(refused)


def outcomes(what: Graph | bytes, fetches: Sequence[str], feeds: Sequence[Mapping[str, Any]]) -> list[list[Any] | str]:
    """The `outcome` of each of FETCHES alone with each of FEEDS, of a graph that has no state: in one session."""
    found: list[list[Any] | str] = []
    with run.session(what) as (executor, key):
        for given in feeds:
            for fetch in fetches:
                try:
                    found.append(values(executor, key, [fetch], [], given))
                except Refused as refused:
                    found.append(reason(refused))
    return found


def reason(refused: Refused) -> str:
    text = refused.text.rpartition("}}")[2].strip()
    return "a dead value" if "does not have value" in text else text
