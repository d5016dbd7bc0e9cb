"""Comparison of two tensors, first bit for bit and then by value, and statistics of one tensor."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan, prod
from struct import unpack_from
from typing import Any, NamedTuple

from gdsurgeon.ops.dtypes import DTYPES, FLOAT64, STRING, dtype_name
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
        max_rel: the largest |a - b| / max(|a|, |b|); otherwise as `max_abs`.
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
    max_rel: float | None
    differing: int
    count: int  # type: ignore[assignment]  # replaces count() of tuples
    needed: float | None
    nan: bool = False
    largest: float = 0.0
    channel_part: float | None = None


def compare(a: Tensor, b: Tensor, rtol: float = 0.0, atol: float = 0.0, channels: int | None = None) -> Comparison:
    """Compares `a` with `b`; the order does not matter. O(n), and without NumPy if the bytes are the same.

    `channels`: the axis of the channels of floats, to compare each channel separately.
    """
    count, reason = a.count, ""
    if a.dtype != b.dtype:
        reason = f"dtypes {dtype_name(a.dtype)} and {dtype_name(b.dtype)}"
    elif a.shape != b.shape:
        reason = "shapes [{}] and [{}]".format(*(",".join(map(str, tensor.shape)) for tensor in (a, b)))
    if reason:
        return Comparison(False, False, reason, None, None, count, count, None)
    if a.dtype == STRING:
        differing = sum(x != y for x, y in zip(a.data, b.data, strict=True))
        return Comparison(not differing, not differing, None, None, None, differing, count, None if differing else 0.0)
    is_inexact = DTYPES[a.dtype].is_inexact
    if _same_bytes(a, b):
        return Comparison(True, True, None, 0.0, 0.0, 0, count, 0.0, is_inexact and _is_nan(a))
    is_float = is_inexact and numpy_dtype(a.dtype).kind != "u"
    found = _compare_numbers(a, b, rtol, atol, is_float=is_float)
    has_channels = channels is not None and -len(a.shape) <= channels < len(a.shape)
    return (
        found._replace(channel_part=_channel_part(a, b, channels)) if channels and has_channels and is_float else found
    )


def _same_bytes(a: Tensor, b: Tensor) -> bool:
    x, y = a.data, b.data
    assert isinstance(x, memoryview) and isinstance(y, memoryview)
    # Views compare element by element, bytes at the speed of memory.
    return all(x[i : i + _BLOCK].tobytes() == y[i : i + _BLOCK].tobytes() for i in range(0, x.nbytes, _BLOCK))


def _compare_numbers(a: Tensor, b: Tensor, rtol: float, atol: float, *, is_float: bool) -> Comparison:
    """Compares the elements of two tensors that do not have the same bytes; only floats can be close."""
    import numpy as np

    differing = 0
    max_abs = max_rel = needed = largest_of_all = 0.0
    close = is_float
    size = DTYPES[a.dtype].size
    for x, y in _blocks(a, b):
        unlike = _unlike(x, y, size)
        if is_float:
            x, y = x.astype(_wide(a)), y.astype(_wide(a))
            largest_of_all = max(largest_of_all, _largest(x))
            unlike &= ~(np.isnan(x) & np.isnan(y))
        x, y = x[unlike], y[unlike]
        if not x.size:
            continue
        differing += x.size
        with np.errstate(all="ignore"):
            if is_float:
                gap = np.where(x == y, 0.0, np.abs(x - y))
                gap[np.isnan(gap)] = np.inf  # a NaN and a number
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
            relative = np.where(bounded, gap / np.where(gap == 0, 1.0, largest), np.inf)
            both = np.where(bounded, gap / (1.0 + largest), np.inf)
            allowed = np.where(bounded, atol + rtol * largest, -1.0)
        max_abs = max(max_abs, float(gap.max()))
        max_rel = max(max_rel, float(relative.max()))
        needed = max(needed, float(both.max()))
        close = close and bool((gap <= allowed).all())
    return Comparison(
        equal=not differing,
        close=close,
        reason=None,
        max_abs=max_abs,
        max_rel=max_rel,
        differing=differing,
        count=a.count,
        needed=needed if is_float and needed != float("inf") else None,
        nan=is_float and _is_nan(a) and _is_nan(b),
        largest=largest_of_all if differing else 0.0,
    )


def _channel_part(a: Tensor, b: Tensor, channels: int) -> float:
    """Returns the largest difference of a channel relative to its largest element, of all channels."""
    import numpy as np

    wide = _wide(a)
    gaps, most = np.zeros(a.shape[channels]), np.zeros(a.shape[channels])
    for raw_x, raw_y in zip(_by_channel(a, channels), _by_channel(b, channels), strict=True):
        x, y = raw_x.astype(wide), raw_y.astype(wide)
        with np.errstate(all="ignore"):
            gap = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
            np.maximum(gaps, gap.max(axis=(0, 2), initial=0.0), out=gaps)
            np.maximum(most, _magnitudes(x).max(axis=(0, 2), initial=0.0), out=most)
    if not np.isfinite(gaps).all():
        return float("inf")
    with np.errstate(divide="ignore"):
        return float(np.max(gaps / np.where(gaps > 0, most, 1.0), initial=0.0))


def _by_channel(tensor: Tensor, channels: int) -> Iterator[Array]:
    """Yields blocks of the elements with three axes: the axes before the channel, the channel, the axes after it."""
    count, inner = tensor.shape[channels], prod(tensor.shape[channels:][1:])
    array = tensor.numpy().reshape(-1, count, inner)
    width = max(1, min(inner, _ELEMENTS // max(1, count)))
    step = max(1, _ELEMENTS // max(1, count * width))
    for i in range(0, len(array), step):
        for j in range(0, inner, width):
            yield array[i : i + step, :, j : j + width]


def _wide(tensor: Tensor) -> Any:
    """Returns the NumPy type in which the floats of `tensor` are compared."""
    import numpy as np

    return np.complex128 if DTYPES[tensor.dtype].is_complex else np.float64


def _largest(array: Array) -> float:
    """Returns the largest finite magnitude in `array`; 0 if it has no finite element."""
    return float(_magnitudes(array).max(initial=0.0))


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
    if word < size:
        unlike = np.any(unlike.reshape(len(x), -1), axis=1)
    return unlike


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
    found = [
        (compare(*_same_type(a, form), rtol, atol), called) for form, called in _forms(b.numpy(), a.shape)
    ] or [(compare(Tensor(b.dtype, a.shape, bytes(a.count * DTYPES[b.dtype].size)), b), AS_IT_IS)]  # fmt: skip
    best, called = min(found, key=lambda each: (each[0].max_abs is None, each[0].max_abs, each[0].differing))
    import numpy as np

    mine: Array = a.numpy().astype(_wide(a))
    return Likeness(best, called, b.shape, _largest(mine) if np.isfinite(mine).any() else None)


def _forms(array: Any, shape: tuple[int, ...]) -> Iterator[tuple[Any, str]]:
    """Yields the possible layouts of `array` as a tensor of `shape`."""
    import numpy as np

    if array.size == prod(shape):
        yield array.reshape(shape), AS_IT_IS if array.shape == shape else OTHER_SHAPE
        if array.ndim in (4, 5):
            yield np.moveaxis(array, 1, -1).reshape(shape), CHANNELS_FIRST


def _same_type(a: Tensor, array: Any) -> tuple[Tensor, Tensor]:
    """Returns `a` and `array` in a common type: that of `a` if it is a float, otherwise float64 if they differ."""
    import numpy as np

    mine: Any = a.numpy()
    if mine.dtype == array.dtype:
        return a, from_numpy(array, a.dtype)
    if DTYPES[a.dtype].is_inexact and not DTYPES[a.dtype].is_complex:
        return a, from_numpy(array.astype(mine.dtype), a.dtype)
    if DTYPES[a.dtype].is_complex or array.dtype.kind == "c":
        return a, from_numpy(array)
    return from_numpy(mine.astype(np.float64), FLOAT64), from_numpy(array.astype(np.float64), FLOAT64)


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
        elif block.dtype.kind not in "iub":  # types such as int4 are not integers in NumPy
            block = block.astype(np.int64)
        if block.size:
            least, most = float(block.min()), float(block.max())
            low = least if low is None else min(low, least)
            high = most if high is None else max(high, most)
    return Statistics(tensor.count, nan, infinite, low, high)


def positive_channels(tensor: Tensor, axis: int) -> bytes:
    """Returns 1 for each index along `axis` with an element above zero, otherwise 0; b'' without channels of floats."""
    if len(tensor.shape) < 2 or not tensor.count or numpy_dtype(tensor.dtype).kind != "f":
        return b""
    import numpy as np

    elements = np.moveaxis(tensor.numpy(), axis, -1).reshape(-1, tensor.shape[axis])
    found = np.zeros(tensor.shape[axis], bool)
    step = max(1, _BLOCK // tensor.shape[axis])
    for start in range(0, len(elements), step):
        found |= np.greater(elements[start : start + step], 0).any(axis=0)
    return found.tobytes()
