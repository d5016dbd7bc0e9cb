"""Comparison of the numbers of a different engine with TensorFlow's, whatever their shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gdsurgeon.ops.dtypes import DTYPES, FLOAT64, STRING
from gdsurgeon.runtime.compare import Comparison, compare
from gdsurgeon.runtime.tensor import Tensor, from_numpy

AS_IT_IS, CHANNELS_FIRST, OTHER_SHAPE = "", "channels first", "another shape"


class Likeness(NamedTuple):
    """How a tensor of an engine compares with TensorFlow's.

    Attributes:
        comparison: of the numbers.
        form: how they came: `AS_IT_IS`, `CHANNELS_FIRST` (and were turned), `OTHER_SHAPE` (of as many elements).
        shape: as which they came.
        largest: the largest finite magnitude of TensorFlow's numbers; None if no number is finite.
    """

    comparison: Comparison
    form: str
    shape: tuple[int, ...]
    largest: float | None


def likeness(a: Tensor, b: Tensor, rtol: float = 0.0, atol: float = 0.0) -> Likeness:
    """Compares B, of an engine, with A. Of several forms that B may have come in the one counts in which it is nearest.

    Integers and floats are compared as numbers: an engine may know floats alone.
    """
    if STRING in (a.dtype, b.dtype):
        return Likeness(compare(a, b, rtol, atol), AS_IT_IS, b.shape, None)
    found = [
        (compare(*_same_type(a, form), rtol, atol), called) for form, called in _forms(b.numpy(), a.shape)
    ] or [(compare(Tensor(b.dtype, a.shape, bytes(a.count * DTYPES[b.dtype].size)), b), AS_IT_IS)]  # fmt: skip
    best, called = min(found, key=lambda each: (each[0].max_abs is None, each[0].max_abs, each[0].differing))
    return Likeness(best, called, b.shape, _largest(a))


def _forms(array: Any, shape: tuple[int, ...]) -> Iterator[tuple[Any, str]]:
    """What ARRAY may mean as a tensor of SHAPE."""
    import numpy as np

    turned = np.moveaxis(array, 1, -1) if array.ndim in (4, 5) else None
    if array.shape == shape:
        yield array, AS_IT_IS
    elif array.size == np.prod(shape, dtype=np.int64):
        yield array.reshape(shape), OTHER_SHAPE
    if turned is not None and turned.shape == shape:
        yield turned, CHANNELS_FIRST
    elif turned is not None and turned.size == np.prod(shape, dtype=np.int64):
        yield turned.reshape(shape), CHANNELS_FIRST


def _same_type(a: Tensor, array: Any) -> tuple[Tensor, Tensor]:
    """A and ARRAY in one type: that of A where it is one of floats, else float64 where they are not of one."""
    import numpy as np

    mine: Any = a.numpy()
    if mine.dtype == array.dtype:
        return a, from_numpy(array, a.dtype)
    if DTYPES[a.dtype].is_inexact and not DTYPES[a.dtype].is_complex:
        return a, from_numpy(array.astype(mine.dtype), a.dtype)
    if DTYPES[a.dtype].is_complex or array.dtype.kind == "c":
        return a, from_numpy(array)
    return from_numpy(mine.astype(np.float64), FLOAT64), from_numpy(array.astype(np.float64), FLOAT64)


def _largest(tensor: Tensor) -> float | None:
    import numpy as np

    array: Any = np.abs(np.asarray(tensor.numpy(), np.complex128 if DTYPES[tensor.dtype].is_complex else np.float64))
    finite = array[np.isfinite(array)]
    return float(finite.max()) if finite.size else None
