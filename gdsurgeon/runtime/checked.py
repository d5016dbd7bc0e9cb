"""The interface of a runtime in the worker. It checks the parts of a run that TensorFlow does not check."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import NamedTuple, TypeAlias

from gdsurgeon.ops.dtypes import DTYPES, dtype_name
from gdsurgeon.runtime.base import MAX_GRAPH_BYTES, RunResult, SessionOptions, TensorSpec
from gdsurgeon.runtime.failures import TensorFlowError
from gdsurgeon.runtime.protocol import Bytes
from gdsurgeon.runtime.tensor import Tensor

TensorName: TypeAlias = "tuple[str, int]"


class Runtime(NamedTuple):
    """TensorFlow or a different engine, loaded into this process.

    Attributes:
        name: 'capi', 'python', or the name of an engine.
        version: its version.
        load: imports a serialised GraphDef, whose bytes are not needed after the call; a writable buffer is not copied.
            The other arguments are the device of nodes without a device, such as '/device:GPU:0' ('' for TensorFlow's
            choice), and how the session executes. It raises TensorFlowError if the graph is refused; a malformed graph
            can also kill the process.
        load_op_library: loads a library of custom ops and kernels (.so), or raises TensorFlowError; None if the runtime
            cannot do that.
        package: the Python package tensorflow, if it was imported, or the part of it that loads SavedModels.
    """

    name: str
    version: str
    load: Callable[[Bytes, str, SessionOptions], LoadedGraph]
    load_op_library: Callable[[str], object] | None = None
    package: ModuleType | None = None


class LoadedGraph(ABC):
    """A graph in a runtime. Threads may use different graphs at the same time."""

    @abstractmethod
    def run(
        self, feeds: Mapping[str, Tensor], fetches: Sequence[str], targets: Sequence[str] = (), trace: bool = False
    ) -> RunResult:
        """Runs the graph once.

        Args:
            feeds: values by tensor name; dtypes and shapes are checked here, because TensorFlow does not check them.
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


class TensorFlowGraph(LoadedGraph):
    """A graph in a session of TensorFlow."""

    @abstractmethod
    def devices(self) -> list[str]:
        """Returns the names of the devices that the session sees."""

    def signature(self, names: Sequence[str]) -> list[TensorSpec]:
        """Returns dtype and shape of the tensors `names` ('node' or 'node:1').

        Raises:
            TensorFlowError: 'not_found' for a name that no node or output has.
        """
        return [self._signature(parse_name(name)) for name in names]

    def run(
        self, feeds: Mapping[str, Tensor], fetches: Sequence[str], targets: Sequence[str] = (), trace: bool = False
    ) -> RunResult:
        fed: dict[TensorName, Tensor] = {}
        for name, value in feeds.items():
            key = parse_name(name)
            if key in fed:
                raise TensorFlowError("invalid_argument", f"{name!r} is fed twice")
            _check_feed(name, value, self._signature(key))
            fed[key] = value
        wanted = [parse_name(name) for name in fetches]
        for name, key in zip(fetches, wanted, strict=True):
            dtype = self._signature(key).dtype
            if dtype not in DTYPES or not DTYPES[dtype].kind:
                raise TensorFlowError("invalid_argument", f"{name!r} is a {dtype_name(dtype)}, which cannot be fetched")
        # TensorFlow refuses to fetch a fed tensor; Python's Session returns the fed value, and so does this method.
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
        """Returns dtype and shape of a tensor."""

    @abstractmethod
    def _run(
        self, feeds: dict[TensorName, Tensor], fetches: list[TensorName], targets: Sequence[str], trace: bool
    ) -> RunResult:
        """Runs with checked arguments: no fetch is repeated or fed."""


def parse_name(name: str) -> TensorName:
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


def no_node(name: str) -> TensorFlowError:
    """Returns the error for a node that does not exist."""
    return TensorFlowError("not_found", f"the graph has no node {name!r}")


def check_output(name: str, index: int, count: int) -> None:
    """Raises TensorFlowError unless node `name`, which has `count` outputs, has an output `index`."""
    if index >= count:
        has = f"has {count} output{'s' if count != 1 else ''}"
        raise TensorFlowError("not_found", f"{name!r} {has}, no output {index}")


def check_size(nbytes: int) -> None:
    """Raises TensorFlowError for a GraphDef that is too large for TensorFlow, which would misread its size."""
    if nbytes > MAX_GRAPH_BYTES:
        raise TensorFlowError(
            "invalid_argument", f"a GraphDef of {nbytes} bytes is larger than the 2 GiB that TensorFlow can load"
        )


def _check_feed(name: str, value: Tensor, expected: TensorSpec) -> None:
    if expected.dtype != value.dtype:
        line = f"{name!r} requires {dtype_name(expected.dtype)}, got {dtype_name(value.dtype)}"
        raise TensorFlowError("invalid_argument", line)
    if expected.shape is not None and (
        len(expected.shape) != len(value.shape)
        or any(want not in (-1, have) for want, have in zip(expected.shape, value.shape, strict=True))
    ):
        want = ",".join("?" if size < 0 else str(size) for size in expected.shape)
        have = ",".join(map(str, value.shape))
        raise TensorFlowError("invalid_argument", f"{name!r} requires the shape [{want}], got [{have}]")
