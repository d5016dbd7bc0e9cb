"""Two tensors side by side: bit for bit first, and how far apart they are only where they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isnan, prod
from struct import unpack_from

from gdsurgeon.ops.dtypes import DTYPES, STRING, dtype_name
from gdsurgeon.ops.elements import numpy_dtype
from gdsurgeon.runtime.tensor import Array, Tensor

_BLOCK = 1 << 20
"""Bytes that are looked at at a time, to see whether they are the same."""
_ELEMENTS = 1 << 15
"""Elements compared at a time: their float64 copies are to stay in the cache of the processor."""


@dataclass(frozen=True)
class Comparison:
    """How tensors A and B compare.

    Attributes:
        equal: every element has the same bits, save that a NaN equals any NaN.
        close: they are equal; or all floating-point or complex elements satisfy
            |a - b| <= atol + rtol * max(|a|, |b|). Infinities are close to themselves only.
        reason: why the elements could not be compared ('float32 against int32', ...), or None.
        max_abs: the largest |a - b|; inf where only one is infinite or NaN; None for strings, and where
            REASON is given.
        max_rel: the largest |a - b| / max(|a|, |b|); otherwise as max_abs.
        differing: number of elements that are not equal. 0.0 and -0.0 are not, yet are 0 apart.
        count: number of elements.
        needed: the smallest number that, given as both atol and rtol, makes them close; None where none
            does, as with integers, strings, a NaN against a number.
        nan: whether there are elements, and all of them are NaN in both: on such tensors all graphs agree.
        largest: the largest finite |a| if floats differ somewhere, otherwise 0.
        channel_part: if channels were given, the largest |a - b| divided by the largest |a| of the same channel; inf
            if |a - b| is infinite, or only one is NaN.
    """

    equal: bool
    close: bool
    reason: str | None
    max_abs: float | None
    max_rel: float | None
    differing: int
    count: int
    needed: float | None
    nan: bool = False
    largest: float = 0.0
    channel_part: float | None = None


def compare(a: Tensor, b: Tensor, rtol: float = 0.0, atol: float = 0.0, channels: int | None = None) -> Comparison:
    """Compare A with B; the order does not matter. O(n), and no numpy where the bytes are the same.

    CHANNELS: the axis of the channels of floats, to compare each channel by itself.
    """
    count = a.count
    if a.dtype != b.dtype:
        reason = f"dtypes {dtype_name(a.dtype)} and {dtype_name(b.dtype)}"
        return Comparison(False, False, reason, None, None, count, count, None)
    if a.shape != b.shape:
        reason = f"shapes {_shape(a)} and {_shape(b)}"
        return Comparison(False, False, reason, None, None, count, count, None)
    if a.dtype == STRING:
        differing = sum(x != y for x, y in zip(a.data, b.data, strict=True))
        return Comparison(not differing, not differing, None, None, None, differing, count, None if differing else 0.0)
    is_inexact = DTYPES[a.dtype].is_inexact
    if _same_bytes(a, b):
        return Comparison(True, True, None, 0.0, 0.0, 0, count, 0.0, is_inexact and _is_nan(a))
    if is_inexact and numpy_dtype(a.dtype).kind != "u":
        found = _compare_inexact(a, b, rtol, atol)
        has_channels = channels is not None and -len(a.shape) <= channels < len(a.shape)
        return replace(found, channel_part=_channel_part(a, b, channels)) if channels and has_channels else found
    return _compare_exact(a, b)


def _shape(tensor: Tensor) -> str:
    return "[" + ",".join(map(str, tensor.shape)) + "]"


def _same_bytes(a: Tensor, b: Tensor) -> bool:
    x, y = a.data, b.data
    assert isinstance(x, memoryview) and isinstance(y, memoryview)
    # Views compare element by element, bytes at the speed of memory.
    return all(x[i : i + _BLOCK].tobytes() == y[i : i + _BLOCK].tobytes() for i in range(0, x.nbytes, _BLOCK))


def _compare_inexact(a: Tensor, b: Tensor, rtol: float, atol: float) -> Comparison:
    import numpy as np

    differing = 0
    max_abs = max_rel = needed = largest_of_all = 0.0
    close = True
    size = DTYPES[a.dtype].size
    wide = np.complex128 if DTYPES[a.dtype].is_complex else np.float64
    for raw_x, raw_y in _blocks(a, b):
        x, y = raw_x.astype(wide), raw_y.astype(wide)
        largest_of_all = max(largest_of_all, _largest(x))
        unlike = np.logical_and(_unlike(raw_x, raw_y, size), ~(np.isnan(x) & np.isnan(y)))
        x, y = x[unlike], y[unlike]
        if not x.size:
            continue
        differing += x.size
        with np.errstate(all="ignore"):
            gap = np.where(x == y, 0.0, np.abs(x - y))
            gap[np.isnan(gap)] = np.inf  # a NaN against a number
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
        needed=needed if needed != float("inf") else None,
        nan=_is_nan(a) and _is_nan(b),
        largest=largest_of_all if differing else 0.0,
    )


def _channel_part(a: Tensor, b: Tensor, channels: int) -> float:
    """The largest difference of a channel as a part of its largest element, of all channels the largest."""
    import numpy as np

    wide = np.complex128 if DTYPES[a.dtype].is_complex else np.float64
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
    """Blocks of TENSOR's elements with three axes: the axes before the channel, the channel, the axes after it."""
    count, inner = tensor.shape[channels], prod(tensor.shape[channels:][1:])
    array = tensor.numpy().reshape(-1, count, inner)
    width = max(1, min(inner, _ELEMENTS // max(1, count)))
    step = max(1, _ELEMENTS // max(1, count * width))
    for i in range(0, len(array), step):
        for j in range(0, inner, width):
            yield array[i : i + step, :, j : j + width]


def _largest(array: Array) -> float:
    """The largest finite magnitude in ARRAY; 0 if it has no finite element."""
    return float(_magnitudes(array).max(initial=0.0))


def _magnitudes(array: Array) -> Array:
    """The magnitudes of the elements of ARRAY, with 0 for those that are not finite."""
    import numpy as np

    out = np.abs(array)
    finite = np.isfinite(out)
    return out if finite.all() else np.where(finite, out, 0.0)


def _is_nan(tensor: Tensor) -> bool:
    """Whether the tensor has elements and all are NaN. If the first is not NaN, the others are not read."""
    assert isinstance(tensor.data, memoryview)
    code = DTYPES[tensor.dtype].code
    if not tensor.count or (code and not isnan(unpack_from(code, tensor.data)[0])):
        return False
    import numpy as np

    return all(bool(np.isnan(x).all()) for x, _ in _blocks(tensor, tensor))


def _compare_exact(a: Tensor, b: Tensor) -> Comparison:
    import numpy as np

    size = DTYPES[a.dtype].size
    differing = 0
    max_abs = max_rel = 0.0
    for raw_x, raw_y in _blocks(a, b):
        unlike = _unlike(raw_x, raw_y, size)
        x, y = raw_x[unlike], raw_y[unlike]
        if not x.size:
            continue
        differing += x.size
        if x.dtype.kind not in "iu":  # bools, and the small types that are no integers to numpy
            x, y = x.astype(np.int64), y.astype(np.int64)
        # The difference of two integers need not fit their type; as unsigned words it does.
        unsigned = f"u{x.dtype.itemsize}"
        gap = (np.maximum(x, y).view(unsigned) - np.minimum(x, y).view(unsigned)).astype(np.float64)
        largest = np.maximum(np.abs(x.astype(np.float64)), np.abs(y.astype(np.float64)))
        max_abs = max(max_abs, float(gap.max()))
        max_rel = max(max_rel, float((gap / np.maximum(largest, 1.0)).max()))
    return Comparison(False, False, None, max_abs, max_rel, differing, a.count, None)


def _blocks(a: Tensor, b: Tensor) -> Iterator[tuple[Array, Array]]:
    x, y = a.numpy().reshape(-1), b.numpy().reshape(-1)
    return ((x[i : i + _ELEMENTS], y[i : i + _ELEMENTS]) for i in range(0, x.size, _ELEMENTS))


def _unlike(x: Array, y: Array, size: int) -> Array:
    """Which elements, of SIZE bytes, have other bits."""
    import numpy as np

    word = min(size, 8)
    unlike: Array = np.not_equal(x.view(f"u{word}"), y.view(f"u{word}"))
    if word < size:
        unlike = np.any(unlike.reshape(len(x), -1), axis=1)
    return unlike
