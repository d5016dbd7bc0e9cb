"""The only interface to TensorFlow in the package; it checks the parts of a run that TensorFlow does not check."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from gdsurgeon.ops.dtypes import DTYPES, dtype_name
from gdsurgeon.runtime.base import MAX_GRAPH_BYTES, Device, Operation, RunResult, SessionOptions, TensorSpec
from gdsurgeon.runtime.failures import TensorFlowError
from gdsurgeon.runtime.tensor import Tensor

TensorName = tuple[str, int]


def parse_name(name: str) -> TensorName:
    """('node', 1) of 'node:1'; output 0 where none is named.

    Raises:
        TensorFlowError: the text after the colon is not an output number.
    """
    node, colon, index = name.rpartition(":")
    if not colon:
        return name, 0
    if not (index.isascii() and index.isdigit()):
        raise TensorFlowError("not_found", f"{name!r} is not a tensor name")
    return node, int(index)


def no_node(name: str) -> TensorFlowError:
    """The error for a node that is not there."""
    return TensorFlowError("not_found", f"the graph has no node {name!r}")


def check_output(name: str, index: int, count: int) -> None:
    """Raise TensorFlowError unless node NAME, which has COUNT outputs, has an output INDEX."""
    if index >= count:
        has = f"has {count} output{'s' if count != 1 else ''}"
        raise TensorFlowError("not_found", f"{name!r} {has}, no output {index}")


def check_size(nbytes: int) -> None:
    """Raise TensorFlowError for a GraphDef too big for TensorFlow, which would misread its size."""
    if nbytes > MAX_GRAPH_BYTES:
        raise TensorFlowError(
            "invalid_argument", f"a GraphDef of {nbytes} bytes is larger than the 2 GiB that TensorFlow can load"
        )


class Runtime(ABC):
    """TensorFlow, loaded into this process.

    Attributes:
        name: 'capi' or 'python'.
        version: TensorFlow's version.
    """

    name: str
    version: str

    @abstractmethod
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
            TensorFlowError: TensorFlow refuses the graph (a malformed one can also kill the process).
        """

    @abstractmethod
    def load_op_library(self, path: str) -> None:
        """Load a library of custom ops and kernels (.so).

        Raises:
            TensorFlowError: it cannot be loaded.
        """

    def devices(self, options: SessionOptions | None = None) -> list[Device]:
        """The devices that sessions with OPTIONS see."""
        graph = self.load(b"", options=options)
        try:
            return graph.devices()
        finally:
            graph.close()


class LoadedGraph(ABC):
    """A graph in a session of its own. Different graphs may be used by different threads at once."""

    @abstractmethod
    def devices(self) -> list[Device]:
        """The devices that the session sees."""

    @abstractmethod
    def close(self) -> None:
        """Give the memory back. Idempotent; the tensors of earlier runs stay valid."""

    @abstractmethod
    def operations(self) -> Iterator[Operation]:
        """All nodes, in the order TensorFlow keeps them."""

    def signature(self, names: Sequence[str]) -> list[TensorSpec]:
        """What the tensors NAMES ('node' or 'node:1') are.

        Raises:
            TensorFlowError: 'not_found' for a name that no node or output has.
        """
        return [self._signature(parse_name(name)) for name in names]

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
                fetch of a resource or variant, 'not_found' for an unknown name.
        """
        fed: dict[TensorName, Tensor] = {}
        for name, value in feeds.items():
            key = parse_name(name)
            if key in fed:
                raise TensorFlowError("invalid_argument", f"{name!r} is fed twice")
            _check_feed(name, value, self._signature(key))
            fed[key] = value
        wanted = [parse_name(name) for name in fetches]
        for name, key in zip(fetches, wanted, strict=True):
            _check_fetch(name, self._signature(key))
        # TensorFlow refuses to fetch what is fed; Python's Session gives the fed value back, and so do we.
        asked = list(dict.fromkeys(key for key in wanted if key not in fed))
        if not asked and not targets:
            if not wanted:
                raise TensorFlowError("invalid_argument", "a run needs something to fetch or to run")
            return RunResult([fed[key] for key in wanted], b"" if trace else None)
        tensors, metadata = self._run(fed, asked, targets, trace)
        got = fed | dict(zip(asked, tensors, strict=True))
        return RunResult([got[key] for key in wanted], metadata)

    @abstractmethod
    def _signature(self, key: TensorName) -> TensorSpec:
        """What a tensor is."""

    @abstractmethod
    def _run(
        self, feeds: dict[TensorName, Tensor], fetches: list[TensorName], targets: Sequence[str], trace: bool
    ) -> RunResult:
        """Run with everything checked: no fetch occurs twice or is fed."""


def _check_feed(name: str, value: Tensor, takes: TensorSpec) -> None:
    if takes.dtype != value.dtype:
        raise TensorFlowError(
            "invalid_argument",
            f"{name!r} requires {dtype_name(takes.dtype)}, got {dtype_name(value.dtype)}",
        )
    if takes.shape is not None and (
        len(takes.shape) != len(value.shape)
        or any(want not in (-1, have) for want, have in zip(takes.shape, value.shape, strict=True))
    ):
        want = ",".join("?" if size < 0 else str(size) for size in takes.shape)
        have = ",".join(map(str, value.shape))
        raise TensorFlowError("invalid_argument", f"{name!r} requires the shape [{want}], got [{have}]")


def _check_fetch(name: str, gives: TensorSpec) -> None:
    dtype = DTYPES.get(gives.dtype)
    if dtype is None or not dtype.kind:
        raise TensorFlowError("invalid_argument", f"{name!r} is a {dtype_name(gives.dtype)}, which cannot be fetched")
