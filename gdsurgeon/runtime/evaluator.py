"""TensorFlow for edits, in a process: it computes parts of a graph that depend only on constants, and gradients."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gdsurgeon.errors import EditError, GdsurgeonError, NotValidatedError, printable
from gdsurgeon.runtime.client import Pending, Worker
from gdsurgeon.runtime.failures import TensorFlowError, TensorFlowMissing
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.values import Closing

if TYPE_CHECKING:
    from gdsurgeon.runtime.base import Backward, Derivation, TensorSpec

T = TypeVar("T")

_KEY = "a piece of constants"
_AT_ONCE = 64
"""Tensors that are requested before waiting for the first."""
MOST_FAILURES = 32
"""Failing nodes after which no further nodes are tried."""


class Evaluator(Closing):
    """Computes nodes that depend only on constants. A context manager; its process starts with the first request.

    Args:
        timeout: seconds that one answer may take.
        op_libraries: libraries of custom ops.
        verbose: copy TensorFlow's log to standard error.
    """

    def __init__(
        self, timeout: float | None = None, op_libraries: Sequence[str] = (), *, verbose: bool = False
    ) -> None:
        self._make = partial(Worker, "cpu", op_libraries, verbose=verbose)
        self._own = self._make()
        self._lent: Worker | None = None
        self._timeout = timeout

    def borrow(self, worker: Worker) -> None:
        """Uses an existing process until that is closed."""
        self._lent = worker

    def close(self) -> None:
        """Ends the process, unless it is borrowed."""
        self._lent = None
        self._own.close()
        self._own = self._make()

    def __call__(self, data: bytes, names: Sequence[str]) -> Mapping[str, Tensor]:
        """Returns the values of the nodes that can run.

        Args:
            data: a serialised GraphDef without inputs.
            names: of its nodes.

        Raises:
            NotValidatedError: TensorFlow is not installed, or its process fails.
        """
        if self._lent is not None:
            try:
                return self._evaluated(self._lent, data, names)
            except GdsurgeonError:
                self._lent = None  # it was closed
        try:
            return self._evaluated(self._own, data, names)
        except (GdsurgeonError, TensorFlowError) as error:
            raise NotValidatedError(f"constants cannot be computed: {error}") from error

    def _evaluated(self, worker: Worker, data: bytes, names: Sequence[str]) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        try:
            worker.load(_KEY, data).result(self._timeout)
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
        """Yields the last fetched tensors, in order."""
        for start in range(0, count, _AT_ONCE):
            pending = [worker.tensor(_KEY, at) for at in range(start, min(count, start + _AT_ONCE))]
            yield from (each.result(self._timeout) for each in pending)


_WHERE = re.compile(r" for '\{\{node (\S+?)\}\} = .*' with input shapes: ")
_AT = r" at '\1', whose inputs are "
"""Replaces TensorFlow's description of a node, which only its developers need."""


class Differentiator(Closing):
    """Only TensorFlow's Python package has the gradients of its ops; it needs about two seconds to start.

    A context manager. The process starts with `start`, with `with`, or with the first request.

    Args:
        timeout: seconds that one answer may take.
        op_libraries: libraries of custom ops.
        verbose: copy TensorFlow's log to standard error.
        allow_ops: whether ops that access files, networks or Python may run.
    """

    def __init__(
        self,
        timeout: float | None = None,
        op_libraries: Sequence[str] = (),
        *,
        verbose: bool = False,
        allow_ops: bool = False,
    ) -> None:
        self._worker = Worker("cpu", op_libraries, runtime="python", verbose=verbose, allow_ops=allow_ops)
        self.allow_ops = allow_ops
        self._timeout = timeout

    def start(self) -> Differentiator:
        """Starts the process without waiting for it."""
        self._worker.start()
        return self

    def close(self) -> None:
        """Ends the process."""
        self._worker.close()

    def __enter__(self) -> Differentiator:
        return self.start()

    def derive(self, data: bytes, wanted: Derivation) -> Backward:
        """Returns the nodes that compute the gradients; see `gdsurgeon.runtime.gradients.derive`.

        Raises:
            EditError: TensorFlow refuses the graph, or to differentiate it.
            ValidationError: its process crashed, or timed out.
            NotValidatedError: TensorFlow is not installed, does not start, or lacks memory.
        """
        return self._answer(self._worker.derive(data, wanted), "TensorFlow cannot make the gradients")

    def signatures(self, data: bytes) -> dict[str, list[TensorSpec]]:
        """Returns DataType and inferred shape of every output of every node of a serialised GraphDef.

        Raises the errors of `derive`.
        """
        return self._answer(self._worker.signatures(data), "TensorFlow cannot infer the sizes for a plan")

    def _answer(self, pending: Pending[T], refused: str) -> T:
        try:
            return pending.result(self._timeout)
        except TensorFlowError as error:
            raise EditError(f"{refused}: {printable(_WHERE.sub(_AT, error.text))}") from error
        except TensorFlowMissing as missing:
            raise NotValidatedError(
                f"{missing.reason}, but gradients need its Python package",
                code="no-tensorflow",
                advice="install-tensorflow",
            ) from missing
