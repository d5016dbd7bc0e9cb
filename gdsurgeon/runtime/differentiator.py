"""TensorFlow's Python package in a process of its own, which makes the nodes of backward passes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from gdsurgeon.errors import EditError, NotValidatedError, printable
from gdsurgeon.runtime.client import Pending, Worker
from gdsurgeon.runtime.failures import TensorFlowError, TensorFlowMissing
from gdsurgeon.values import Closing

if TYPE_CHECKING:
    from gdsurgeon.runtime.base import Backward, Derivation, TensorSpec

T = TypeVar("T")

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
        key = "the graph for its shapes"
        refused = "TensorFlow cannot infer the sizes for a plan"
        self._answer(self._worker.load(key, data=data), refused)
        operations = self._answer(self._worker.operations(key), refused)
        names = [f"{item.name}:{index}" for item in operations for index in range(item.n_outputs)]
        found = iter(self._answer(self._worker.signature(key, names), refused))
        self._worker.unload(key)
        return {item.name: [next(found) for _ in range(item.n_outputs)] for item in operations}

    def _answer(self, pending: Pending[T], refused: str) -> T:
        try:
            return pending.result(self._timeout)
        except TensorFlowError as error:
            line = (error.message.strip().splitlines() or ["no reason reported"])[0]
            raise EditError(f"{refused}: {printable(_WHERE.sub(_AT, line))}") from error
        except TensorFlowMissing as missing:
            raise NotValidatedError(
                f"{missing.reason}, but gradients need its Python package",
                code="no-tensorflow",
                advice="install-tensorflow",
            ) from missing
