"""Outputs whose content is undefined: a kernel allocates the tensor and does not write it.

oneDNN's FusedBatchNormV3 copies mean and variance into its reserve spaces in inference; Eigen's leaves the memory as it
was. Two runs of one graph may therefore return different numbers for such an output, and no comparison of it means
anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Undefined(NamedTuple):
    """Outputs of an op that no kernel has to write.

    Attributes:
        always: their indices.
        unless: further indices, undefined unless the boolean attr `attr` is true.
        attr: the name of that attr, or ''.
    """

    always: frozenset[int] = frozenset()
    unless: frozenset[int] = frozenset()
    attr: str = ""


# The reserve spaces carry statistics from training to its gradient; inference does not need them.
_BATCH_NORM = Undefined(unless=frozenset((3, 4)), attr="is_training")
_BATCH_NORM_V3 = _BATCH_NORM._replace(always=frozenset((5,)))  # only cuDNN writes it
_THREE_AND_FOUR = Undefined(frozenset((3, 4)))

UNDEFINED: Mapping[str, Undefined] = {
    "FusedBatchNorm": _BATCH_NORM,
    "FusedBatchNormV2": _BATCH_NORM,
    "FusedBatchNormV3": _BATCH_NORM_V3,
    "_FusedBatchNormEx": _BATCH_NORM_V3,
    # Placeholders for the gradients of mean and variance: a scalar or an empty tensor, as the kernel likes.
    "FusedBatchNormGrad": _THREE_AND_FOUR,
    "FusedBatchNormGradV2": _THREE_AND_FOUR,
    "FusedBatchNormGradV3": _THREE_AND_FOUR,
    # Opaque bytes that cuDNN keeps for the gradient, dropout masks among them.
    "CudnnRNN": Undefined(frozenset((3,))),
    "CudnnRNNV2": _THREE_AND_FOUR,
    "CudnnRNNV3": _THREE_AND_FOUR,
    "Empty": Undefined(unless=frozenset((0,)), attr="init"),
    "_ParallelConcatStart": Undefined(frozenset((0,))),
}
"""By op. An op with some undefined elements (DynamicStitch without an index for each row) is not among these."""


def undefined_outputs(op: str, setting: Callable[[str], object]) -> frozenset[int]:
    """The indices of the outputs of a node whose content is undefined.

    Args:
        op: the op of the node.
        setting: returns the plain value of one of its attrs, or the default (`Node.setting`).
    """
    found = UNDEFINED.get(op)
    if found is None:
        return frozenset()
    return found.always if not found.attr or setting(found.attr) else found.always | found.unless
