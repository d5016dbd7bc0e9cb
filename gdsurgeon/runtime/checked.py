"""The interface of a runtime in the worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.runtime.base import MAX_GRAPH_BYTES, RunResult, SessionOptions
from gdsurgeon.runtime.failures import TensorFlowError
from gdsurgeon.runtime.protocol import Bytes
from gdsurgeon.runtime.tensor import Tensor


class Runtime(NamedTuple):
    """TensorFlow or a different engine, loaded into this process.

    Attributes:
        name: 'capi', 'python' (which loads no graphs), or the name of an engine.
        version: its version.
        load: imports a serialised GraphDef, whose bytes are not needed after the call; a writable buffer is not copied.
            The other arguments are the device of nodes without a device, such as '/device:GPU:0' ('' for TensorFlow's
            choice), and how the session executes. It raises TensorFlowError if the graph is refused; a malformed graph
            can also kill the process.
        load_op_library: loads a library of custom ops and kernels (.so), or raises TensorFlowError; None if the runtime
            cannot do that.
    """

    name: str
    version: str
    load: Callable[[Bytes, str, SessionOptions], LoadedGraph]
    load_op_library: Callable[[str], object] | None = None


class LoadedGraph(ABC):
    """A graph in a runtime. Threads may use different graphs at the same time."""

    @abstractmethod
    def run(
        self, feeds: Mapping[str, Tensor], fetches: Sequence[str], targets: Sequence[str] = (), trace: bool = False
    ) -> RunResult:
        """Runs the graph once.

        Args:
            feeds: values by tensor name.
            fetches: tensor names; they may be repeated and may be fed.
            targets: nodes to run without fetching a result.
            trace: whether to record a full trace.

        Raises:
            TensorFlowError: the run is refused; 'invalid_argument' for an unsuitable feed or a fetch of a resource or
                variant, 'not_found' for an unknown name.
        """

    @abstractmethod
    def close(self) -> None:
        """Frees the memory. Idempotent; the tensors of earlier runs stay valid."""


def parse_name(name: str) -> tuple[str, int]:
    """Returns ('node', 1) for 'node:1'; output 0 if the name has no number.

    Raises:
        TensorFlowError: the text after the colon is not an output number.
    """
    node, colon, index = name.rpartition(":")
    if not colon:
        return name, 0
    if not (index.isascii() and index.isdigit()):
        raise TensorFlowError("not_found", f"{name!r} is not a tensor name")
    return node, int(index)


def check_size(nbytes: int) -> None:
    """Raises TensorFlowError for a GraphDef that is too large for TensorFlow, which would misread its size."""
    if nbytes > MAX_GRAPH_BYTES:
        raise TensorFlowError(
            "invalid_argument", f"a GraphDef of {nbytes} bytes is larger than the 2 GiB that TensorFlow can load"
        )
