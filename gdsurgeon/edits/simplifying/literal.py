"""Tensors as the value of a Const, in as few bytes as there are: one element where all are that one."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod

from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import TENSOR, constant_in, raw_value, tensor_value
from gdsurgeon.ops.dtypes import DTYPES, INT32, INT64, STRING, element_size
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.wire.fields import LEN, encode_varint
from gdsurgeon.wire.node_record import encode_node

TENSOR_CONTENT = 4
_CODES: dict[int, str] = {INT32: "i", INT64: "q"}


def whole_numbers(dtype: int, shape: Sequence[int], items: Sequence[int | None]) -> Tensor | None:
    """A tensor of int32 or int64 with ITEMS; None where one is not known, or they are not as many as SHAPE says."""
    code = _CODES.get(dtype)
    known = [item for item in items if item is not None]
    if code is None or len(known) != len(items) or len(known) != prod(shape):
        return None
    try:
        return Tensor(dtype, shape, struct.pack(f"={len(known)}{code}", *known))
    except struct.error:
        return None


def literal(value: Tensor) -> bytes:
    """The serialised AttrValue of a Const that is VALUE."""
    return b"".join(_parts(value))


def _parts(value: Tensor) -> list[bytes | memoryview]:
    """What the AttrValue of a Const that is VALUE consists of: elements, which may be many, are not copied."""
    if isinstance(value.data, list):
        return [tensor_value(STRING, value.shape, value.data).SerializeToString()]
    size, data = element_size(value.dtype), memoryview(value.data).cast("B")
    if size and len(data) > 2 * size and data[size:] == data[:-size]:
        once = _splat(value, bytes(data[:size]))
        if once is not None:
            return [once]
    head = raw_value(value.dtype, value.shape)
    if not data:
        return [head.SerializeToString()]
    tensor = head.tensor.SerializeToString()
    start = encode_varint(TENSOR_CONTENT << 3 | LEN) + encode_varint(len(data))
    inner = len(tensor) + len(start) + len(data)
    return [encode_varint(TENSOR << 3 | LEN) + encode_varint(inner) + tensor + start, data]


def constant_attrs(value: Tensor) -> dict[str, bytes]:
    """The attrs of a Const that is VALUE."""
    return {"dtype": type_value(value.dtype).SerializeToString(), "value": literal(value)}


def constant_record(name: str, device: str, value: Tensor) -> bytes:
    """A Const as a serialised NodeDef."""
    return encode_node(name, "Const", (), device, constant_attrs(value))


def constant_size(name: str, device: str, value: Tensor) -> int:
    """The bytes of a Const in a GraphDef, which is not made for that."""
    attrs = {"dtype": type_value(value.dtype).SerializeToString()}
    entry = _field_size(len(b"value")) + _field_size(sum(map(len, _parts(value))))
    return _field_size(len(encode_node(name, "Const", (), device, attrs)) + _field_size(entry))


def _field_size(length: int) -> int:
    """The bytes of a field of LENGTH bytes, whose number is below 16."""
    return 1 + len(encode_varint(length)) + length


def _splat(value: Tensor, element: bytes) -> bytes | None:
    """VALUE by one ELEMENT; None where it would not be the same bits."""
    code = DTYPES[value.dtype].code
    if not code:
        return None
    (number,) = struct.unpack(f"={code}", element)
    if number != number:
        return None  # which of the many it is gets lost
    once = tensor_value(value.dtype, value.shape, [number]).SerializeToString()
    found = constant_in(tensor_value(value.dtype, (1,), [number]).SerializeToString())
    return once if found is not None and struct.pack(f"={code}", found.values[0]) == element else None
