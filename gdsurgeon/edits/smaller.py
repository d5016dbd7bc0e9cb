"""Smaller forms of a constant's elements, and the exact error of each: half precision, or whole numbers and scales."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from gdsurgeon.analysis.queries.constant_values import BLOCK, ConstantValues
from gdsurgeon.errors import Json, Remark
from gdsurgeon.ops.dtypes import BFLOAT16, FLOAT16, INT8, DType
from gdsurgeon.ops.numpy_dtypes import numpy_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

LARGEST = 127
"""The largest whole number that stands for an element: as many below zero as above it."""
_ROUNDING = {FLOAT16: 2.0**-11, BFLOAT16: 2.0**-8}
"""By how much of itself a number may be off that these types have in their usual range."""


class Error(NamedTuple):
    """By how much a smaller form is off.

    Attributes:
        largest: the largest difference of an element.
        relative: the root of the squares of all differences, as a part of that of the elements.
        flushed: elements that have become 0.
    """

    largest: float
    relative: float
    flushed: int

    def as_json(self) -> dict[str, Json]:
        """For the report."""
        return {"max_error": self.largest, "relative_error": self.relative, "flushed": self.flushed}


class Smaller(NamedTuple):
    """A smaller form.

    Attributes:
        dtype: of its elements.
        content: these as they lie in memory.
        scale: what they are multiplied with, of the dtype that the constant had, as it lies in memory; b"" where they
            are only cast.
        scale_shape: its shape.
        error: of the product, or of the cast.
        problem: why it does not stand for the constant, or None.
    """

    dtype: DType
    content: bytes
    scale: bytes
    scale_shape: tuple[int, ...]
    error: Error
    problem: Remark | None


class _Off:
    """Gathers the error of blocks of elements."""

    def __init__(self) -> None:
        self.largest = self.most = self._squares = self._all = 0.0
        self.flushed = self.infinite = 0

    def add(self, exact: Array, found: Array) -> None:
        """Takes in that FOUND stands for EXACT."""
        import numpy as np

        finite = np.isfinite(exact)
        self.infinite += int((finite & ~np.isfinite(found)).sum())
        self.flushed += int(((found == 0) & (exact != 0)).sum())
        if finite.any():
            self.most = max(self.most, float(np.abs(exact[finite]).max()))
        both = finite & np.isfinite(found)
        numbers = exact[both].astype(np.float64)
        if numbers.size:
            off = np.abs(numbers - found[both].astype(np.float64))
            self.largest = max(self.largest, float(off.max()))
            with np.errstate(over="ignore"):
                self._squares += float(np.square(off).sum())
                self._all += float(np.square(numbers).sum())

    def error(self) -> Error:
        """All that was gathered."""
        if self._all and isfinite(self._all):
            relative = sqrt(self._squares / self._all)
        else:  # the squares are beyond all numbers, or below
            relative = self.largest / self.most if self.most else 0.0
        return Error(inf if self.infinite else self.largest, relative, self.flushed)


def as_half(values: ConstantValues, to: DType) -> Smaller:
    """VALUES in TO, float16 or bfloat16, rounded to the nearest; NaN and infinities stay what they are."""
    import numpy as np

    off, parts = _Off(), []
    with np.errstate(all="ignore"):
        for start in range(0, values.count, BLOCK):
            block = values.numbers(start, min(BLOCK, values.count - start))
            small = block.astype(np.float16) if to == FLOAT16 else _bfloat16(block)
            parts.append(small.tobytes())
            off.add(block, small.astype(block.dtype) if to == FLOAT16 else _widened(small).astype(block.dtype))
    problem = None
    if off.infinite:
        text = f"{off.infinite:,} of {values.count:,} elements overflow; the largest is {off.most:.3g}"
        problem = Remark(text, "overflow", count=off.infinite)
    elif off.largest > off.most * _ROUNDING[to]:
        text = f"it underflows: its largest element is {off.most:.3g}, the largest error {off.largest:.3g}"
        problem = Remark(text, "underflow")
    return Smaller(to, b"".join(parts), b"", (), off.error(), problem)


def _bfloat16(block: Array) -> Array:
    """The upper halves of float32, rounded to the nearest, to even where two are as near; NaN stays one."""
    import numpy as np

    words = block.astype(np.float32).view(np.uint32)
    rounded = (words + (0x7FFF + ((words >> 16) & 1)).astype(np.uint32)) >> 16
    missing = (words & 0x7FFFFFFF) > 0x7F800000
    out: Array = np.where(missing, (words >> 16) | 0x40, rounded).astype(np.uint16)
    return out


def _widened(words: Array) -> Array:
    """What the upper halves WORDS stand for, as float32."""
    import numpy as np

    out: Array = (words.astype(np.uint32) << 16).view(np.float32)
    return out


def as_whole_numbers(values: ConstantValues, axes: Sequence[int]) -> Smaller:
    """VALUES as int8 and scales, one for each place along AXES; the largest element there is 127 scales."""
    import numpy as np

    array: Array = values.numbers(0, values.count).reshape(values.shape)
    others = tuple(axis for axis in range(array.ndim) if axis not in axes)
    shape = tuple(size if axis in axes else 1 for axis, size in enumerate(values.shape))
    off = _Off()
    finite = int(np.isfinite(array).sum())
    if finite < values.count:
        text = (
            f"{values.count - finite:,} of {values.count:,} elements are NaN or infinite, which int8 cannot represent"
        )
        problem = Remark(text, "not-finite", count=values.count - finite)
        return Smaller(INT8, b"", b"", shape, off.error(), problem)
    with np.errstate(all="ignore"):
        most: Array = np.abs(array).max(axis=others, keepdims=True) if values.count else np.zeros(shape, array.dtype)
        scale: Array = (most / array.dtype.type(LARGEST)).astype(array.dtype)
        tiny = int(((most > 0) & (scale < np.finfo(array.dtype).tiny)).sum())
        scale = np.where(most > 0, scale, array.dtype.type(1))
        whole = np.clip(np.rint(array / np.where(scale > 0, scale, 1)), -LARGEST, LARGEST).astype(np.int8)
        off.add(array, whole.astype(array.dtype) * scale)
    unfit = None
    if off.infinite:
        unfit = Remark(f"{off.infinite:,} of {values.count:,} elements overflow", "overflow", count=off.infinite)
    elif tiny:
        text = f"it underflows: {tiny:,} of its {prod(shape):,} scales would be subnormal"
        unfit = Remark(text, "underflow", count=tiny)
    assert scale.dtype == numpy_dtype(values.dtype)
    return Smaller(INT8, whole.tobytes(), scale.tobytes(), shape, off.error(), unfit)
