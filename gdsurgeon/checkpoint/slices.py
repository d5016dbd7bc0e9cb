"""Slices of tensors: a stretch of each dimension, as TensorFlow spells, stores and sorts them."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.errors import InputError, quoted
from gdsurgeon.wire import protos

Slice = tuple[tuple[int, "int | None"], ...]
"""For each dimension where it begins, and its length; None: all of the dimension."""
Extents = tuple[tuple[int, int], ...]
"""For each dimension of a tensor where a part of it begins, and its length."""


def parse_slice_spec(text: str) -> tuple[tuple[int, ...], Slice | None]:
    """A slice as graphs name it (an element of RestoreV2's `shape_and_slices`): the shape of the whole, and the slice.

    ``4 6 0,2:0,6`` is the first two rows of a tensor of shape [4, 6], and so is ``4 6 0,2:-``. The slice is None where
    it takes everything; the empty text has no shape: ``()`` and None.

    Raises:
        InputError: `text` is not a shape with a slice.
    """
    if not text:
        return (), None
    *dims, last = text.split(" ")
    try:
        shape = tuple(int(dim) for dim in dims)
        part = tuple(_parse_extent(extent) for extent in last.split(":")) if last else ()
        is_fit = len(shape) == len(part) and all(
            start >= 0 and (length is None or (length >= 0 and start + length <= dim))
            for (start, length), dim in zip(part, shape, strict=True)
        )
    except ValueError:
        is_fit = False
    if not is_fit:
        raise InputError(f"{quoted(text)} is not a shape with a slice, such as '4 6 0,2:0,6'")
    return shape, None if extents(part, shape) == whole(shape) else part


def _parse_extent(text: str) -> tuple[int, int | None]:
    if text == "-":
        return 0, None
    start, length = text.split(",")
    return int(start), int(length)


def spell(part: Slice) -> str:
    """A slice as graphs spell it: ``0,2:-``."""
    return ":".join("-" if length is None else f"{start},{length}" for start, length in part)


def whole(shape: Sequence[int]) -> Extents:
    """All of a tensor of SHAPE."""
    return tuple((0, dim) for dim in shape)


def extents(part: Slice | None, shape: Sequence[int]) -> Extents:
    """Where PART (None: everything) lies in a tensor of SHAPE, which has as many dimensions."""
    if part is None:
        return whole(shape)
    return tuple(
        (start, dim - start if length is None else length) for (start, length), dim in zip(part, shape, strict=True)
    )


def sizes(part: Extents) -> tuple[int, ...]:
    """The shape of a part."""
    return tuple(length for _, length in part)


def from_proto(proto: protos.TensorSliceProto) -> Slice:
    """The slice that a message holds."""
    return tuple((extent.start, extent.length if extent.HasField("length") else None) for extent in proto.extent)


def into_proto(part: Slice, proto: protos.TensorSliceProto) -> None:
    """Has an empty message hold PART."""
    for start, length in part:
        extent = proto.extent.add(start=start)
        if length is not None:
            extent.length = length


def slice_key(key: bytes, part: Slice) -> bytes:
    """The key under which a slice of KEY is stored: numbers and text in an encoding that sorts as they do.

    Source: tensorflow/core/util/saved_tensor_slice_util.cc (EncodeTensorNameSlice) and
    tensorflow/core/lib/strings/ordered_code.cc.
    """
    out = b"\0" + _ordered_text(key) + _ordered_count(len(part))
    for start, length in part:
        out += _ordered_number(start) + _ordered_number(-1 if length is None else length)
    return out


def is_slice_key(key: bytes) -> bool:
    """Whether KEY is that of a slice: it begins with the number 0, in the encoding that sorts."""
    return key[:1] == b"\0"


def _ordered_text(text: bytes) -> bytes:
    """A text with its end: bytes 0 and 255, which mark that, are followed by each other."""
    return b"".join({0: b"\0\xff", 255: b"\xff\0"}.get(byte, bytes((byte,))) for byte in text) + b"\0\1"


def _ordered_count(number: int) -> bytes:
    """A number of no sign: how many bytes it takes, and these, the highest first."""
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes((len(data),)) + data


def _ordered_number(number: int) -> bytes:
    """A number with a sign in n bytes: n ones (zeros for a negative one), then 7 n - 1 bits and the sign."""
    magnitude = number if number >= 0 else ~number
    count = magnitude.bit_length() // 7 + 1
    value = number & (1 << 8 * count) - 1
    ones = (1 << 8 * count) - (1 << 7 * count)
    return (value ^ ones).to_bytes(count, "big")
