"""GraphDefs for the tests, encoded by hand: a few nodes, no TensorFlow, no protobuf."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.runtime.tensor import Tensor

# A node that calls a function that calls itself: TensorFlow overflows its stack when it loads this.
CRASHING = base64.b64decode("CgYKAW4SAUYSFwoVCgMKAUYaBgoBYRIBRhoGCgFiEgFG")


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def a_type(name: str) -> bytes:
    return field(6, NUMBERS[name])


def a_types(*names: str) -> bytes:
    return field(1, b"".join(field(6, NUMBERS[name]) for name in names))


def a_string(text: str) -> bytes:
    return field(2, text)


def a_shape(shape: Sequence[int] | None) -> bytes:
    return field(7, shape_proto(shape))


def shape_proto(shape: Sequence[int] | None) -> bytes:
    if shape is None:
        return field(3, 1)
    return b"".join(field(2, field(1, size)) for size in shape)


def a_tensor(value: Tensor) -> bytes:
    proto = field(1, value.dtype) + field(2, shape_proto(value.shape))
    if isinstance(value.data, list):
        proto += b"".join(field(8, text) for text in value.data)
    else:
        proto += field(4, value.tobytes())
    return field(8, proto)


def node(name: str, op: str, inputs: Sequence[str] = (), **attrs: bytes) -> bytes:
    body = field(1, name) + field(2, op) + b"".join(field(3, source) for source in inputs)
    return field(1, body + b"".join(field(5, field(1, k) + field(2, v)) for k, v in attrs.items()))


VERSIONS = field(4, field(1, 1286))  # a producer for which a scalar placeholder is one


def graph(*nodes: bytes) -> bytes:
    return b"".join(nodes) + VERSIONS


def placeholder(name: str, dtype: str, shape: Sequence[int] | None) -> bytes:
    return node(name, "Placeholder", dtype=a_type(dtype), shape=a_shape(shape))


def const(name: str, value: Tensor, dtype: str) -> bytes:
    return node(name, "Const", dtype=a_type(dtype), value=a_tensor(value))


def identity(dtype: str, shape: Sequence[int] | None = None) -> bytes:
    """x -> y."""
    return graph(placeholder("x", dtype, shape), node("y", "Identity", ["x"], T=a_type(dtype)))


def doubling(shape: Sequence[int] | None = None) -> bytes:
    """float32 x -> y = x + x."""
    return graph(placeholder("x", "float32", shape), node("y", "AddV2", ["x", "x"], T=a_type("float32")))


def hanging(says: bytes = b"") -> bytes:
    """Fetching y prints what it SAYS, and waits for an element of an empty queue for ever."""
    return graph(
        const("s", Tensor(NUMBERS["string"], (), [says]), "string"),
        node("said", "PrintV2", ["s"]),
        node("q", "FIFOQueueV2", component_types=a_types("float32"), shapes=b"\x0a\x00"),
        node("y", "QueueDequeueV2", ["q", *(["^said"] if says else [])], component_types=a_types("float32")),
    )
