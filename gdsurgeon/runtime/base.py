"""What goes to TensorFlow and comes from it, whichever way it is reached."""

from __future__ import annotations

from typing import NamedTuple

from gdsurgeon.runtime.tensor import Tensor

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
    """

    optimize: bool = False
    cpu_only: bool = False

    def config_proto(self) -> bytes:
        """The serialised tensorflow.ConfigProto. The two runtimes use these same bytes."""
        level = _field(3, 0 if self.optimize else -1)  # OptimizerOptions.opt_level: L1 or L0
        graph = _field(3, level)
        if not self.optimize:
            graph += _field(10, _field(19, 1))  # RewriterConfig.disable_meta_optimizer
        config = _field(10, graph)
        if self.cpu_only:
            config += _field(1, _field(1, b"GPU") + _field(2, 0))  # device_count
        return config + _field(7, 1)  # allow_soft_placement: a node whose device is missing runs on another one


FULL_TRACE = b"\x08\x03"  # a serialised RunOptions with trace_level = FULL_TRACE


def varint(number: int) -> bytes:
    """NUMBER as protobuf writes it."""
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
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value
