"""The rows of a batch: what several runs give, as one run on all of them has to give it."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.runtime.tensor import Tensor, joined_tensors


def as_batch(rows: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    """What ROWS, a tensor for each row, come to for the batch.

    They are joined along the axis along which they give SHAPE, the shape that was found for the batch. What is the
    same for each row may be the same for the batch. Where nothing fits they are joined along the first axis.
    """
    first = rows[0]
    ranks = {len(row.shape) for row in rows}
    if ranks != {len(first.shape)}:
        return first
    if first.shape == shape and all(row.tobytes() == first.tobytes() for row in rows):
        return first
    axes = [axis for axis in range(len(first.shape)) if _fits(rows, axis)]
    wanted = (
        [axis for axis in axes if sum(row.shape[axis] for row in rows) == shape[axis]] if ranks == {len(shape)} else []
    )
    return joined_tensors(rows, (wanted or axes)[0]) if wanted or axes else first


def _fits(rows: Sequence[Tensor], axis: int) -> bool:
    """Whether the rows have all other dimensions in common."""
    return len({(*row.shape[:axis], *row.shape[axis + 1 :]) for row in rows}) == 1
