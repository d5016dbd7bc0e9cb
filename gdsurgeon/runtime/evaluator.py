"""What pieces of a graph give that take no input: they are run once, in TensorFlow's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from gdsurgeon.errors import NotValidatedError
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.failures import RuntimeFailure, TensorFlowError
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.values import Closing

_KEY = "a piece of constants"
_AT_ONCE = 64
"""Tensors that are asked for before the first one is waited for."""
MOST_FAILURES = 32
"""Nodes that do not run after which no more are tried."""


class Evaluator(Closing):
    """Computes what depends on constants alone. A context manager; its process starts when it is first asked.

    Args:
        timeout: seconds that one answer may take.
        op_libraries: libraries of custom ops.
        verbose: let TensorFlow's own log through to standard error.
    """

    def __init__(
        self, timeout: float | None = None, op_libraries: Sequence[str] = (), *, verbose: bool = False
    ) -> None:
        self._make: Callable[[], Worker] = lambda: Worker("cpu", op_libraries, verbose=verbose)
        self._own: Worker | None = None
        self._lent: Worker | None = None
        self._timeout = timeout

    def borrow(self, worker: Worker) -> None:
        """Has another's process be asked, for as long as that lives."""
        self._lent = worker

    def close(self) -> None:
        """Ends the process, where it is its own."""
        self._lent = None
        if self._own is not None:
            self._own.close()
            self._own = None

    def __call__(self, data: bytes, names: Sequence[str]) -> Mapping[str, Tensor]:
        """What nodes give, of those that run at all.

        Args:
            data: a serialised GraphDef without inputs.
            names: of nodes of it.

        Raises:
            NotValidatedError: there is no TensorFlow, or its process does not come back.
        """
        try:
            return self._evaluated(self._worker(), data, names)
        except RuntimeFailure as failure:
            if self._lent is None or isinstance(failure, TensorFlowError):
                raise NotValidatedError(f"constants cannot be computed: {failure}") from failure
        self._lent = None  # it has been closed meanwhile
        return self(data, names)

    def _worker(self) -> Worker:
        if self._lent is not None:
            return self._lent
        if self._own is None:
            self._own = self._make()
        return self._own

    def _evaluated(self, worker: Worker, data: bytes, names: Sequence[str]) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        try:
            worker.load(_KEY, data=data).result(self._timeout)
        except TensorFlowError:
            return out
        pending, failures = [list(names)], 0
        while pending and failures < MOST_FAILURES:
            some = pending.pop()
            try:
                worker.run(_KEY, _KEY, {}, some).result(self._timeout)
                out |= zip(some, self._tensors(worker, len(some)), strict=True)
            except TensorFlowError:
                failures += len(some) == 1
                half = len(some) // 2
                pending += [some[:half], some[half:]] if half else []
        worker.drop(_KEY)
        worker.unload(_KEY)
        return out

    def _tensors(self, worker: Worker, count: int) -> Iterator[Tensor]:
        """The tensors that were fetched last, in order."""
        for start in range(0, count, _AT_ONCE):
            pending = [worker.tensor(_KEY, at) for at in range(start, min(count, start + _AT_ONCE))]
            yield from (each.result(self._timeout) for each in pending)
