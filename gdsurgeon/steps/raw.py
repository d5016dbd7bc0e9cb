"""What comes in: as a user spells it, and what can be told of it by its type and shape."""

from __future__ import annotations

import re

from gdsurgeon.errors import UsageError, quoted
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import DTYPES, NUMBERS, UINT8, DType, base_dtype
from gdsurgeon.steps.step import Raw
from gdsurgeon.steps.value import Value

_RAW = re.compile(r"\s*([a-z][a-z0-9_]*)\s*(?:\[([^\[\]]*)\])?\s*")
IMAGE_CHANNELS = (1, 3, 4)


def parse_raw(text: str) -> Raw:
    """``uint8[?,?,3]``: a type and a shape; a type alone is a scalar, ``[...]`` an unknown rank.

    Raises:
        UsageError: it is something else.
    """
    found = _RAW.fullmatch(text) if isinstance(text, str) else None
    dtype = NUMBERS.get(found[1]) if found is not None else None
    if found is None or dtype is None or not dtype.kind:
        raise UsageError(f"raw {quoted(str(text))} is not a dtype with a shape, such as uint8[?,?,3] or string")
    inner = (found[2] or "").strip()
    if inner == "...":
        return Raw(dtype, None)
    dims = [dim.strip() for dim in inner.split(",")] if inner else []
    if not all(dim == "?" or (dim.isdecimal() and dim.isascii() and len(dim) < 10) for dim in dims):
        raise UsageError(f"raw {quoted(text)} has no valid shape: dimensions must be numbers, or ? if open")
    return Raw(dtype, tuple(-1 if dim == "?" else int(dim) for dim in dims))


def known_dtype(number: int) -> DType | None:
    """Returns the DType of a DataType or of a reference to it; None if unknown."""
    return DTYPES.get(base_dtype(number))


def layout_of(shape: Shape) -> str:
    """The layout of an image, or a batch of them, of SHAPE; '' where its dimensions do not show which it is."""
    if shape is None or len(shape) not in (3, 4):
        return ""
    batch = "N" if len(shape) == 4 else ""
    if shape[-1] in IMAGE_CHANNELS:
        return batch + "HWC"
    return batch + "CHW" if shape[-3] == 3 else ""


def value_of(tensor: Output, raw: Raw, *, is_declared: bool = False) -> Value:
    """What is known of TENSOR, of the type and shape RAW, which its user has spelt where it IS_DECLARED.

    Three dimensions alone are no image yet: they may be a sequence of vectors.
    """
    is_image = is_declared or (raw.shape is not None and len(raw.shape) == 4)
    value = Value(tensor, raw.dtype, raw.shape, layout_of(raw.shape) if is_image else "")
    return value.but(low=0.0, high=255.0) if raw.dtype == UINT8 else value
