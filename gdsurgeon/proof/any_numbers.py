"""What is fed in the place of what a run has given, so that more is seen than the model's own values show."""

from __future__ import annotations

from math import prod

from gdsurgeon.feeds.make.numbers import numbers, numbers_of_all_sizes
from gdsurgeon.ops.dtypes import FLOAT16, FLOAT32, FLOAT64
from gdsurgeon.proof.trial import AnyNumbers
from gdsurgeon.runtime.protocol import OutputInfo
from gdsurgeon.runtime.tensor import Tensor

_FLOATS = (FLOAT16, FLOAT32, FLOAT64)


def any_numbers(source: AnyNumbers, info: OutputInfo, seed: int) -> Tensor | None:
    """Numbers as SOURCE says, of the dtype and shape of INFO; None where these are no floats."""
    dtype, shape = info.dtype, info.shape
    if dtype not in _FLOATS:
        return None
    if not source.of_all_sizes:
        return Tensor(dtype, shape, numbers(dtype, prod(shape), 0, seed, wide=True))
    rows = prod(shape[:-1])
    if shape and rows < source.rows:
        shape = (shape[0] * -(-source.rows // max(rows, 1)), *shape[1:])
    return Tensor(dtype, shape, numbers_of_all_sizes(dtype, prod(shape), seed, large=source.large))
