"""The interface of a runtime in the worker, and the records that the command and its worker exchange."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.runtime.failures import TensorFlowError
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.wire.fields import encode_len, encode_varint

if TYPE_CHECKING:
    from gdsurgeon.runtime.protocol import Bytes

MAX_GRAPH_BYTES = (1 << 31) - 1  # TensorFlow parses a GraphDef through protobuf, whose sizes are int32
MEMORY_OF_GRAPH = 6.5
"""Bytes of memory with which TensorFlow loads and runs a graph of large constants, for each byte of the graph."""


class TensorSpec(NamedTuple):
    """The DataType number of a tensor (of a reference: of its value), and its inferred shape.

    An unknown dimension is -1; the shape is None if the rank is unknown.
    """

    dtype: int
    shape: tuple[int, ...] | None


class RunResult(NamedTuple):
    """The fetched tensors in the requested order, and the serialised RunMetadata if a trace was requested."""

    tensors: list[Tensor]
    metadata: bytes | None


class SessionOptions(NamedTuple):
    """The execution of sessions.

    Attributes:
        optimize: run Grappler and the L1 optimizations, as in deployment. Otherwise the graph runs as written.
        cpu_only: no session sees a GPU.
    """

    optimize: bool = False
    cpu_only: bool = False

    def config_proto(self) -> bytes:
        """Returns the serialised tensorflow.ConfigProto."""
        graph = encode_len(3, _varint_field(3, 0 if self.optimize else -1))  # OptimizerOptions.opt_level: L1 or L0
        if not self.optimize:
            graph += encode_len(10, _varint_field(19, 1))  # RewriterConfig.disable_meta_optimizer
        config = encode_len(10, graph)
        if self.cpu_only:
            config += encode_len(1, encode_len(1, b"GPU") + _varint_field(2, 0))  # device_count
        return config + _varint_field(7, 1)  # allow_soft_placement: a node whose device is missing runs elsewhere


FULL_TRACE = b"\x08\x03"  # a serialised RunOptions with trace_level = FULL_TRACE


def _varint_field(number: int, value: int) -> bytes:
    return encode_varint(number << 3) + encode_varint(value)


# -- the runtime ------------------------------------------------------------------------------------------------------


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


# -- requests and answers ---------------------------------------------------------------------------------------------


class SignatureCall(NamedTuple):
    """A call of the signature `key` with `inputs`, by their names."""

    key: str
    inputs: Mapping[str, Tensor]


class Served(NamedTuple):
    """The results of calls of a loaded model.

    Attributes:
        outputs: the outputs of each call by name.
        not_loaded: why the model was not loaded, or ''.
        refused: why the call after these outputs was refused, or ''.
        loader: the loader that did not load it.
    """

    outputs: list[dict[str, Tensor]]
    not_loaded: str = ""
    refused: str = ""
    loader: str = ""


class Derivation(NamedTuple):
    """A request for gradients: the outputs to differentiate, and the tensors to differentiate by.

    Attributes:
        ys: tensors (``node`` or ``node:1``), whose sum is differentiated.
        xs: tensors to differentiate by.
        grad_ys: the incoming gradient of each of `ys`; () for ones.
        scope: the name scope for the new nodes.
        own: use the reverse walk if all function calls on the path have gradient functions. Otherwise
            `tf.compat.v1.gradients` makes the nodes.
    """

    ys: tuple[str, ...]
    xs: tuple[str, ...]
    grad_ys: tuple[str, ...] = ()
    scope: str = "gradients"
    own: bool = True


SEED = "grad_ys_"
"""The names of the incoming gradients of the targets begin with this, under the scope, as in TensorFlow."""


class NoGradient(NamedTuple):
    """An operation on the path without a gradient: its name, its op, and the custom gradient that it refers to."""

    node: str
    op: str
    reason: str


class Backward(NamedTuple):
    """A backward pass.

    Attributes:
        graph: a serialised GraphDef: the new nodes, the existing nodes that changed, and the new functions.
        changed: names of the existing nodes that changed.
        results: the gradient of each source, or None if no gradient reaches it.
        missing: operations on the path without a gradient; if there are any, the other fields are empty.
        own: whether the reverse walk made it; otherwise tf.compat.v1.gradients did.
        calls: the function calls on the path that have no gradient function of their own.
    """

    graph: bytes = b""
    changed: tuple[str, ...] = ()
    results: tuple[str | None, ...] = ()
    missing: tuple[NoGradient, ...] = ()
    own: bool = True
    calls: tuple[str, ...] = ()
