"""What the elements of a tensor are like: how many are no numbers, and between what the others lie."""

from __future__ import annotations

from typing import NamedTuple

from gdsurgeon.ops.dtypes import DTYPES
from gdsurgeon.ops.elements import numpy_dtype
from gdsurgeon.runtime.tensor import Tensor

_BLOCK = 1 << 20  # elements looked at in one go: their copies must not need as much as the tensor


class Statistics(NamedTuple):
    """The elements of one tensor.

    Attributes:
        count: how many there are.
        nan: how many of them are NaN; a complex one is if either part is.
        infinite: how many are infinite and not NaN.
        minimum, maximum: of the finite ones; 64-bit integers are rounded to a float, False and True are 0 and 1.
            None for strings and complex numbers, where no element is finite, and for float8 and its like where
            there is no ml_dtypes to read them.
    """

    count: int  # type: ignore[assignment]  # a tuple's own count() is of no use here
    nan: int
    infinite: int
    minimum: float | None
    maximum: float | None


def statistics(tensor: Tensor) -> Statistics:
    """The Statistics of TENSOR. O(n), in blocks; no numpy for strings."""
    dtype = DTYPES[tensor.dtype]
    unreadable = dtype.kind in ("f", "i") and numpy_dtype(tensor.dtype).kind == "u"
    if dtype.kind == "O" or unreadable or not tensor.count:
        return Statistics(tensor.count, 0, 0, None, None)
    import numpy as np

    elements = tensor.numpy().reshape(-1)
    nan = infinite = 0
    low: float | None = None
    high: float | None = None
    for start in range(0, elements.size, _BLOCK):
        block = elements[start : start + _BLOCK]
        if dtype.is_inexact:
            if dtype.size < 4:
                block = block.astype(np.float32)
            not_numbers = np.isnan(block)
            finite = np.isfinite(block)
            here = int(np.count_nonzero(not_numbers))
            nan += here
            infinite += block.size - here - int(np.count_nonzero(finite))
            if dtype.is_complex:
                continue
            block = block[finite]
        elif block.dtype.kind not in "iub":  # int4 and its like are no integers to numpy
            block = block.astype(np.int64)
        if block.size:
            least, most = float(block.min()), float(block.max())
            low = least if low is None else min(low, least)
            high = most if high is None else max(high, most)
    return Statistics(tensor.count, nan, infinite, low, high)


def positive_channels(tensor: Tensor, axis: int) -> bytes:
    """1 for each index along AXIS where an element is above zero, else 0; b'' of what has no channels of floats."""
    if len(tensor.shape) < 2 or not tensor.count or numpy_dtype(tensor.dtype).kind != "f":
        return b""
    import numpy as np

    elements = np.moveaxis(tensor.numpy(), axis, -1).reshape(-1, tensor.shape[axis])
    found = np.zeros(tensor.shape[axis], bool)
    step = max(1, _BLOCK // tensor.shape[axis])
    for start in range(0, len(elements), step):
        found |= np.greater(elements[start : start + step], 0).any(axis=0)
    return found.tobytes()
