"""Comparison of two tensors, first bit for bit and then by value, and statistics of one tensor."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan
from struct import unpack_from
from typing import Any, NamedTuple

from gdsurgeon.ops.dtypes import DTYPES, STRING, dtype_name
from gdsurgeon.ops.elements import numpy_dtype
from gdsurgeon.runtime.tensor import Array, Tensor, from_numpy

_BLOCK = 1 << 20
"""Bytes that are compared at a time, and elements that statistics read at a time, to limit memory."""
_ELEMENTS = 1 << 15
"""Elements that are compared at a time, so that their float64 copies stay in the cache of the processor."""


class Comparison(NamedTuple):
    """The result of a comparison of the tensors a and b.

    Attributes:
        equal: every element has the same bits, except that a NaN equals any NaN.
        close: they are equal; or all floating-point or complex elements satisfy
            |a - b| <= atol + rtol * max(|a|, |b|). Infinities are close to themselves only.
        reason: why the elements could not be compared ('dtypes float32 and int32', ...), or None.
        max_abs: the largest |a - b|; inf if only one is infinite or NaN; None for strings, and with a `reason`.
        differing: number of elements that are not equal. 0.0 and -0.0 are not equal, but their difference is 0.
        count: number of elements.
        needed: the smallest number that, as both atol and rtol, makes them close; None if no number does, as for
            integers, strings, and a NaN and a number.
        nan: whether there are elements, and all of them are NaN in both: such tensors do not show a difference.
        largest: the largest finite |a| if floats differ, otherwise 0.
        channel_part: if channels were given, the largest |a - b| divided by the largest |a| of the same channel; inf
            if |a - b| is infinite, or only one is NaN.
    """

    equal: bool
    close: bool
    reason: str | None
    max_abs: float | None
    differing: int
    count: int  # type: ignore[assignment]  # replaces count() of tuples
    needed: float | None
    nan: bool = False
    largest: float = 0.0
    channel_part: float | None = None


def compare(a: Tensor, b: Tensor, rtol: float = 0.0, atol: float = 0.0, channels: int | None = None) -> Comparison:
    """Compares `a` with `b`. O(n), and without NumPy if the bytes are the same.

    Only `largest` and `channel_part` depend on the order. `channels`: the axis of the channels of floats, to compare
    each channel separately.
    """
    count, reason = a.count, ""
    if a.dtype != b.dtype:
        reason = f"dtypes {dtype_name(a.dtype)} and {dtype_name(b.dtype)}"
    elif a.shape != b.shape:
        reason = "shapes [{}] and [{}]".format(*(",".join(map(str, tensor.shape)) for tensor in (a, b)))
    if reason:
        return Comparison(False, False, reason, None, count, count, None)
    if isinstance(a.data, list) or isinstance(b.data, list):
        differing = sum(x != y for x, y in zip(a.data, b.data, strict=True))
        return Comparison(not differing, not differing, None, None, differing, count, None if differing else 0.0)
    is_float = DTYPES[a.dtype].is_inexact
    # Views compare element by element, bytes at the speed of memory.
    pieces = ((a.data[i : i + _BLOCK], b.data[i : i + _BLOCK]) for i in range(0, a.nbytes, _BLOCK))
    if all(x.tobytes() == y.tobytes() for x, y in pieces):
        return Comparison(True, True, None, 0.0, 0, count, 0.0, is_float and _is_nan(a))
    if numpy_dtype(a.dtype).kind == "u":
        is_float = False
    found = _compare_numbers(a, b, rtol, atol, is_float=is_float)
    if is_float and channels and -len(a.shape) <= channels < len(a.shape):
        return found._replace(channel_part=_channel_part(a, b, channels))
    return found


def _compare_numbers(a: Tensor, b: Tensor, rtol: float, atol: float, *, is_float: bool) -> Comparison:
    """Compares the elements of two tensors that do not have the same bytes; only floats can be close."""
    import numpy as np

    differing, close = 0, is_float
    max_abs = needed = most = 0.0
    for x, y in _blocks(a, b):
        unlike = _unlike(x, y, DTYPES[a.dtype].size)
        if is_float:
            x, y = x.astype(_wide(a)), y.astype(_wide(a))
            most = max(most, _magnitudes(x).max(initial=0.0))
            unlike &= ~(np.isnan(x) & np.isnan(y))
        x, y = x[unlike], y[unlike]
        if not x.size:
            continue
        differing += x.size
        with np.errstate(all="ignore"):
            if is_float:
                gap = _gap(x, y)
            else:
                if x.dtype.kind not in "iu":  # bools, and small types that are not integers in NumPy
                    x, y = x.astype(np.int64), y.astype(np.int64)
                # The difference of two integers need not fit their type; as unsigned words it does.
                unsigned = f"u{x.dtype.itemsize}"
                gap = (np.maximum(x, y).view(unsigned) - np.minimum(x, y).view(unsigned)).astype(np.float64)
                x, y = x.astype(np.float64), y.astype(np.float64)
            largest = np.maximum(np.abs(x), np.abs(y))
            largest[np.isnan(largest)] = np.inf
            bounded = np.isfinite(gap)
            max_abs = max(max_abs, float(gap.max()))
            needed = max(needed, float(np.where(bounded, gap / (1.0 + largest), np.inf).max()))
            close = close and bool((gap <= np.where(bounded, atol + rtol * largest, -1.0)).all())
    return Comparison(
        equal=not differing,
        close=close,
        reason=None,
        max_abs=max_abs,
        differing=differing,
        count=a.count,
        needed=needed if is_float and needed != inf else None,
        nan=is_float and _is_nan(a) and _is_nan(b),
        largest=float(most) if differing else 0.0,
    )


def _channel_part(a: Tensor, b: Tensor, channels: int) -> float:
    """Returns the largest difference of a channel relative to its largest element, of all channels."""
    import numpy as np

    x, y = (
        np.moveaxis(tensor.numpy().astype(_wide(a)), channels, 0).reshape(a.shape[channels], -1) for tensor in (a, b)
    )
    gaps, most = _gap(x, y).max(axis=1, initial=0.0), _magnitudes(x).max(axis=1, initial=0.0)
    if not np.isfinite(gaps).all():
        return inf
    with np.errstate(divide="ignore"):
        return float(np.max(gaps / np.where(gaps > 0, most, 1.0), initial=0.0))


def _gap(x: Array, y: Array) -> Array:
    """Returns the differences of the elements of two arrays: 0 for two NaNs, inf for a NaN and a number."""
    import numpy as np

    with np.errstate(all="ignore"):
        gap = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
    gap[np.isnan(gap)] = np.inf
    return gap


def _wide(tensor: Tensor) -> Any:
    """Returns the NumPy type in which the floats of `tensor` are compared."""
    import numpy as np

    return np.complex128 if DTYPES[tensor.dtype].is_complex else np.float64


def _magnitudes(array: Array) -> Array:
    """Returns the magnitudes of the elements of `array`, with 0 for infinities and NaNs."""
    import numpy as np

    out = np.abs(array)
    finite = np.isfinite(out)
    return out if finite.all() else np.where(finite, out, 0.0)


def _is_nan(tensor: Tensor) -> bool:
    """Returns whether the tensor has elements and all are NaN. If the first is not NaN, the others are not read."""
    assert isinstance(tensor.data, memoryview)
    code = DTYPES[tensor.dtype].code
    if not tensor.count or (code and not isnan(unpack_from(code, tensor.data)[0])):
        return False
    import numpy as np

    return all(bool(np.isnan(x).all()) for x, _ in _blocks(tensor, tensor))


def _blocks(a: Tensor, b: Tensor) -> Iterator[tuple[Array, Array]]:
    x, y = a.numpy().reshape(-1), b.numpy().reshape(-1)
    return ((x[i : i + _ELEMENTS], y[i : i + _ELEMENTS]) for i in range(0, x.size, _ELEMENTS))


def _unlike(x: Array, y: Array, size: int) -> Array:
    """Returns which elements, of `size` bytes, have different bits."""
    import numpy as np

    word = min(size, 8)
    unlike: Array = np.not_equal(x.view(f"u{word}"), y.view(f"u{word}"))
    return unlike if word == size else np.any(unlike.reshape(len(x), -1), axis=1)


# -- tensors of other engines ----------------------------------------------------------------------------------------

AS_IT_IS, CHANNELS_FIRST, OTHER_SHAPE = "", "channels first", "another shape"


class Likeness(NamedTuple):
    """The comparison of a tensor of an engine with TensorFlow's.

    Attributes:
        comparison: of the numbers.
        form: the layout of the engine's tensor: `AS_IT_IS`, `CHANNELS_FIRST` (it was transposed), or `OTHER_SHAPE`
            (with as many elements).
        shape: of the engine's tensor.
        largest: the largest finite magnitude of TensorFlow's numbers; None if no number is finite.
    """

    comparison: Comparison
    form: str
    shape: tuple[int, ...]
    largest: float | None


def likeness(a: Tensor, b: Tensor, rtol: float = 0.0, atol: float = 0.0) -> Likeness:
    """Compares `b`, of an engine, with `a`. If several layouts of `b` are possible, the closest one counts.

    Integers and floats are compared as numbers, because an engine may only have floats.
    """
    if STRING in (a.dtype, b.dtype):
        return Likeness(compare(a, b, rtol, atol), AS_IT_IS, b.shape, None)
    import numpy as np

    array = b.numpy()
    forms = [(array, AS_IT_IS)]
    if array.size == a.count:
        forms = [(array.reshape(a.shape), AS_IT_IS if array.shape == a.shape else OTHER_SHAPE)]
        if array.ndim in (4, 5):
            forms.append((np.moveaxis(array, 1, -1).reshape(a.shape), CHANNELS_FIRST))
    found = [(compare(*_same_type(a, form), rtol, atol), called) for form, called in forms]
    best, called = min(found, key=lambda each: (each[0].max_abs is None, each[0].max_abs, each[0].differing))
    mine: Array = a.numpy().astype(_wide(a))
    largest = float(_magnitudes(mine).max(initial=0.0)) if np.isfinite(mine).any() else None
    return Likeness(best, called, b.shape, largest)


def _same_type(a: Tensor, array: Any) -> tuple[Tensor, Tensor]:
    """Returns `a` and `array` in a common type: that of `a` if it is a float, otherwise float64 if they differ."""
    import numpy as np

    mine = a.numpy()
    kind = DTYPES[a.dtype]
    if mine.dtype == array.dtype or (kind.is_inexact and not kind.is_complex):
        return a, from_numpy(array.astype(mine.dtype), a.dtype)
    if kind.is_complex or array.dtype.kind == "c":
        return a, from_numpy(array)
    return from_numpy(mine.astype(np.float64)), from_numpy(array.astype(np.float64))


# -- one tensor -------------------------------------------------------------------------------------------------------


class Statistics(NamedTuple):
    """The numbers of one tensor.

    Attributes:
        count: the number of elements.
        nan: the number of NaNs; a complex number is NaN if one of its parts is.
        infinite: the number of infinite elements that are not NaN.
        minimum, maximum: of the finite elements; 64-bit integers are rounded to a float, False and True are 0 and 1.
            None for strings and complex numbers, if no element is finite, and for types such as float8 if ml_dtypes is
            not installed.
    """

    count: int  # type: ignore[assignment]  # replaces count() of tuples
    nan: int
    infinite: int
    minimum: float | None
    maximum: float | None


def statistics(tensor: Tensor) -> Statistics:
    """Returns the statistics of `tensor`. O(n), in blocks; without NumPy for strings."""
    dtype = DTYPES[tensor.dtype]
    unreadable = dtype.kind in ("f", "i") and numpy_dtype(tensor.dtype).kind == "u"
    if dtype.kind == "O" or unreadable or not tensor.count:
        return Statistics(tensor.count, 0, 0, None, None)
    import numpy as np

    elements = tensor.numpy().reshape(-1)
    nan = infinite = 0
    bounds: list[float] = []
    for start in range(0, elements.size, _BLOCK):
        block = elements[start : start + _BLOCK]
        if dtype.is_inexact:
            block = block.astype(np.float32) if dtype.size < 4 else block
            here, finite = int(np.count_nonzero(np.isnan(block))), np.isfinite(block)
            nan += here
            infinite += block.size - here - int(np.count_nonzero(finite))
            block = block[finite & (not dtype.is_complex)]
        elif block.dtype.kind not in "iub":  # types such as int4 are not integers in NumPy
            block = block.astype(np.int64)
        if block.size:
            bounds += float(block.min()), float(block.max())
    return Statistics(tensor.count, nan, infinite, min(bounds, default=None), max(bounds, default=None))
