"""The one interface behind which TensorFlow is used, whichever way it is reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from gdsurgeon.runtime.failures import TensorFlowError
from gdsurgeon.runtime.tensor import Tensor

__all__ = [
    "Device",
    "LoadedGraph",
    "Operation",
    "RunResult",
    "Runtime",
    "SessionOptions",
    "TensorFlowError",
    "TensorSpec",
]

MAX_GRAPH_BYTES = (1 << 31) - 1  # TensorFlow parses a GraphDef through protobuf, whose sizes are int32


class Device(NamedTuple):
    """A device of this TensorFlow: full name, type ('CPU', 'GPU', ...), memory limit in bytes."""

    name: str
    type: str
    memory_bytes: int


class Operation(NamedTuple):
    """A node as TensorFlow loaded it."""

    name: str
    type: str
    n_outputs: int


class TensorSpec(NamedTuple):
    """What a tensor is: DataType number (references count as what they refer to) and inferred shape.

    An unknown dimension is -1; the shape is None where even the rank is unknown.
    """

    dtype: int
    shape: tuple[int, ...] | None


class RunResult(NamedTuple):
    """The fetched tensors in the order asked for, and the serialised RunMetadata if a trace was asked for."""

    tensors: list[Tensor]
    metadata: bytes | None


class SessionOptions(NamedTuple):
    """How sessions execute.

    Attributes:
        optimize: Grappler and the L1 optimisations, as deployed graphs run. Off, a graph is run as written.
        cpu_only: no session sees a GPU.
        intra_threads, inter_threads: size of the thread pools; 0 leaves it to TensorFlow.
        soft_placement: a node bound to a device that is missing runs elsewhere.
        target: the 'grpc://host:port' of the TensorFlow server that runs the graph; '' runs it in this process.
            The devices and thread pools are the server's then, and CPU_ONLY and the thread counts mean nothing.
    """

    optimize: bool = False
    cpu_only: bool = False
    intra_threads: int = 0
    inter_threads: int = 0
    soft_placement: bool = True
    target: str = ""

    def config_proto(self) -> bytes:
        """The serialised tensorflow.ConfigProto. The two runtimes use these same bytes."""
        level = _field(3, 0 if self.optimize else -1)  # OptimizerOptions.opt_level: L1 or L0
        graph = _field(3, level)
        if not self.optimize:
            graph += _field(10, _field(19, 1))  # RewriterConfig.disable_meta_optimizer
        config = _field(10, graph)
        if self.cpu_only:
            config += _field(1, _field(1, b"GPU") + _field(2, 0))  # device_count
        if self.target:
            # A server's sessions share their variables by name, unless told not to as those of a process do not.
            config += _field(15, 1)  # isolate_session_state
        return (
            config + _field(2, self.intra_threads) + _field(5, self.inter_threads) + _field(7, int(self.soft_placement))
        )


FULL_TRACE = b"\x08\x03"  # a serialised RunOptions with trace_level = FULL_TRACE


class LoadedGraph(Protocol):
    """A graph in a session of its own. Different graphs may be used by different threads at once."""

    def signature(self, names: Sequence[str]) -> list[TensorSpec]:
        """What the tensors NAMES ('node' or 'node:1') are.

        Raises:
            TensorFlowError: 'not_found' for a name that no node or output has.
        """
        ...

    def operations(self) -> Iterator[Operation]:
        """All nodes, in the order TensorFlow keeps them."""
        ...

    def run(
        self,
        feeds: Mapping[str, Tensor],
        fetches: Sequence[str],
        targets: Sequence[str] = (),
        trace: bool = False,
    ) -> RunResult:
        """Run once.

        Args:
            feeds: values by tensor name; dtype and shape are checked here (TensorFlow itself does not).
            fetches: tensor names; one may occur twice, and may be fed.
            targets: nodes to run without fetching anything.
            trace: whether to record a full trace.

        Raises:
            TensorFlowError: whatever TensorFlow refuses; 'invalid_argument' for an unsuitable feed or a
                fetch of a resource or variant, 'not_found' for an unknown name, 'unavailable' where the
                server that runs it has gone (see `gdsurgeon.runtime.server.Server.call`).
        """
        ...

    def close(self) -> None:
        """Give the memory back, save that of a call which a server that has gone leaves hanging.

        Idempotent; the tensors of earlier runs stay valid.
        """
        ...


class Runtime(Protocol):
    """TensorFlow, loaded into this process."""

    @property
    def name(self) -> str:
        """'capi' or 'python'."""
        ...

    @property
    def version(self) -> str:
        """TensorFlow's version."""
        ...

    def load(
        self,
        data: bytes | bytearray | memoryview,
        default_device: str = "",
        options: SessionOptions | None = None,
    ) -> LoadedGraph:
        """Import a serialised GraphDef.

        Args:
            data: the bytes; not needed any more after the call. A writable buffer is not copied.
            default_device: where nodes go that name no device themselves, such as '/device:GPU:0'.
            options: how the session executes.

        Raises:
            TensorFlowError: TensorFlow refuses the graph (a malformed one can also kill the process);
                'unavailable' where no server answers at the target, 'invalid_argument' where that is no address.
                What a server itself refuses, it refuses with the first run.
        """
        ...

    def load_op_library(self, path: str) -> None:
        """Load a library of custom ops and kernels (.so).

        Raises:
            TensorFlowError: it cannot be loaded.
        """
        ...

    def devices(self, options: SessionOptions | None = None) -> list[Device]:
        """The devices that sessions with OPTIONS see.

        Raises:
            TensorFlowError: as `load` does for the target.
        """
        ...


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, value: int | bytes) -> bytes:
    """One field of a protobuf message: VALUE as a varint or as length-delimited bytes."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value
