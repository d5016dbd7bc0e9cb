"""How far apart the values of two constants or variables are."""

from __future__ import annotations

from math import copysign, inf, sqrt
from typing import NamedTuple

from gdsurgeon.analysis.queries.constants import BLOCK, ConstantValues, Element
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.stored import Checkpoint, StoredTensor
from gdsurgeon.errors import InputError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.elements import has_numpy, is_readable

SHOWN = 8
"""Elements up to which a value is shown, and no distance."""
MOST_FEW = 64
"""Elements up to which numbers are compared without arrays."""


class Distance(NamedTuple):
    """The distance of two values of one dtype and shape.

    Attributes:
        relative: the norm of the difference over the norm of the first value (L2); inf if that norm is 0; None for
            texts and unreadable numbers.
        largest: the largest difference of two elements; None for texts, and for unreadable numbers.
        differing: the number of elements that differ.
        count: the number of elements.
        before, after: the elements, if there are few.
    """

    relative: float | None
    largest: float | None
    differing: int
    count: int  # type: ignore[assignment]  # a tuple's own count() is of no use here
    before: tuple[Element, ...] = ()
    after: tuple[Element, ...] = ()


def distance(one: ConstantValues, other: ConstantValues) -> Distance:
    """Returns the distance of two values of one dtype and shape; large values are read in blocks."""
    count = one.count
    is_few = count <= SHOWN
    shown = (tuple(one.first(count)), tuple(other.first(count))) if is_few else ((), ())
    if one.dtype == STRING:
        differing = sum(a != b for a, b in zip(one.first(count), other.first(count), strict=True))
        return Distance(None, None, differing, count, *shown)
    if not is_readable(one.dtype):
        return Distance(None, None, count, count, *shown)
    block = _block if count > MOST_FEW and has_numpy() else _small_block
    squares = gaps = largest = 0.0
    differing = 0
    for start in range(0, count, BLOCK):
        found = block(one, other, start, min(BLOCK, count - start))
        squares, gaps = squares + found[0], gaps + found[1]
        largest, differing = max(largest, found[2]), differing + found[3]
    relative = 0.0 if not gaps else sqrt(gaps / squares) if 0 < squares < inf else inf
    return Distance(relative, largest, differing, count, *shown)


Sums = tuple[float, float, float, int]
"""The sums of the squares of the first numbers and of the differences; the largest difference; how many differ."""


def _small_block(one: ConstantValues, other: ConstantValues, start: int, size: int) -> Sums:
    squares = gaps = largest = 0.0
    differing = 0
    for a, b in zip(one.plain_numbers(start, size), other.plain_numbers(start, size), strict=True):
        if a != b and (a == a or b == b):
            gap = abs(b - a)
            gap = gap if gap == gap else inf  # a NaN against a number
            differing += 1
            largest = max(largest, gap)
            gaps += gap * gap
        elif not a and copysign(1, a.real) != copysign(1, b.real):  # a zero of the other sign
            differing += 1
        squares += abs(a) * abs(a)
    return squares, gaps, largest, differing


def _block(one: ConstantValues, other: ConstantValues, start: int, size: int) -> Sums:
    import numpy as np

    wide = np.complex128 if one.dtype.is_complex else np.float64
    with np.errstate(all="ignore"):
        a, b = (values.numbers(start, size).astype(wide) for values in (one, other))
        gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(b - a))
        gap[np.isnan(gap)] = inf  # a NaN against a number
        is_other_zero = (a == 0) & (b == 0) & (np.signbit(a.real) != np.signbit(b.real))
        differing = int(np.count_nonzero((gap != 0) | is_other_zero))
        largest = float(gap.max(initial=0.0))
        return float(np.square(np.abs(a)).sum()), float(np.square(gap).sum()), largest, differing


def has_value(graph: Graph, name: str) -> bool:
    """Returns whether `name` is a constant, or a variable with a value in a checkpoint."""
    serving = graph.serving
    if graph[name].op == "Const":
        return True
    return serving is not None and name in serving.keys and serving.keys[name].tensor in _checkpoint(graph)


def are_stored_alike(a: Graph, name: str, b: Graph, other: str) -> bool:
    """Returns whether checkpoints have equal checksums of two variables; False if the checksums are not comparable."""
    one, two = _stored(a, name), _stored(b, other)
    if one is None or two is None or (one.dtype, one.shape, one.slices) != (two.dtype, two.shape, two.slices):
        return False
    sums = [[(p.crc, p.span.end - p.span.start) for p in stored.parts] for stored in (one, two)]
    return sums[0] == sums[1] and all(crc is not None for crc, _ in sums[0])


def _stored(graph: Graph, name: str) -> StoredTensor | None:
    serving = graph.serving
    if serving is None or name not in serving.keys:
        return None
    key = serving.keys[name]
    try:
        return None if key.slice else _checkpoint(graph).tensor(key.tensor)
    except InputError:
        return None


def _checkpoint(graph: Graph) -> Checkpoint:
    """Returns the checkpoint of a graph, which is opened once. Raises InputError."""
    return graph.derived(_opened)


def _opened(graph: Graph) -> Checkpoint:
    assert graph.serving is not None
    return open_checkpoint(graph.serving.checkpoint)
