"""What ops do with memory: which outputs have the buffer of an input, which may have it, and which never have."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.ops import kinds

SOURCES = kinds.PLACEHOLDERS | {"Const"} | (kinds.VARIABLES - kinds.TEMPORARY) | kinds.RESOURCE_VARIABLES
"""Ops whose outputs are there before the run."""

ALIASES = (kinds.PASSES_ON - {"DeepCopy"}) | kinds.RESHAPES | kinds.MERGE | {"Bitcast", "PlaceholderWithDefault"}
"""Ops whose output 0 has the buffer of their input 0."""

IN_PLACE = frozenset((
    "Abs", "Add", "AddN", "AddV2", "BiasAdd", "Cast", "Ceil", "Cos", "Div", "DivNoNan", "Elu", "EluGrad", "Erf", "Exp",
    "Expm1", "FloorDiv", "FloorMod", "Floor", "Inv", "InvGrad", "LeakyRelu", "LeakyReluGrad", "Log", "Log1p",
    "LogSoftmax", "Maximum", "Minimum", "Mul", "MulNoNan", "Neg", "Pow", "RealDiv", "Reciprocal", "ReciprocalGrad",
    "Relu", "Relu6", "Relu6Grad", "ReluGrad", "Round", "Rsqrt", "RsqrtGrad", "Selu", "SeluGrad", "Sigmoid",
    "SigmoidGrad", "Sign", "Sin", "Softmax", "Softplus", "SoftplusGrad", "Softsign", "SoftsignGrad", "Sqrt",
    "SqrtGrad", "Square", "SquaredDifference", "Sub", "Tanh", "TanhGrad", "Xdivy", "Xlogy", "ZerosLike", "OnesLike",
))  # fmt: skip
"""Ops whose kernels reuse the buffer of an input that has the size of their output and no other reader."""

HEAVY = (kinds.CONVOLUTIONS | kinds.PRODUCTS) - frozenset(
    "Conv2DBackpropFilter Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter".split()
)
"""Ops that cost more than what is behind them, so that their outputs are worth keeping.

The gradient of a convolution's input is one of them: as a transposed convolution it stands in forward passes.
"""

_HANDED_ON = frozenset((
    "All", "Any", "BroadcastTo", "Cast", "Conj", "ConjugateTranspose", "Max", "Mean", "Min", "MirrorPad", "Pad",
    "PadV2", "Prod", "Real", "Reverse", "ReverseV2", "Select", "SelectV2", "Sum", "Tile", "Transpose",
))  # fmt: skip
"""Ops that may hand an input on, which then has as many bytes as their output: where there is nothing to do, as in a
cast to the same type or a sum over no axes."""

_OWN = (
    (IN_PLACE - _HANDED_ON)
    | (kinds.CONVOLUTIONS | kinds.PRODUCTS) - {"Einsum"}
    | frozenset((
        "ArgMax", "ArgMin", "AvgPool", "AvgPoolGrad", "BiasAddGrad", "ConcatV2", "Equal", "Fill", "FusedBatchNorm",
        "FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", "FusedBatchNormV2", "FusedBatchNormV3",
        "GatherNd", "GatherV2", "Greater", "GreaterEqual", "L2Loss", "Less", "LessEqual", "MaxPool", "MaxPoolGrad",
        "NotEqual", "OneHot", "ResizeBilinear", "ResizeBilinearGrad", "Shape", "Size",
        "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "StridedSliceGrad", "TopKV2",
        "UnsortedSegmentSum",
    ))
)  # fmt: skip
"""Ops whose outputs have their own buffers, or buffers that nothing else reads any more."""


def may_have(op: str, given: int, made: Iterable[int]) -> bool:
    """Whether one of the outputs of a node may have the buffer of an input.

    An unknown op may pass one on: some kernels return a view of an input, such as a slice along the first dimension.

    Args:
        op: the node's.
        given: bytes of the input; 0 where they are not known.
        made: bytes of the outputs.
    """
    if op in _OWN or op in SOURCES:
        return False
    return op not in _HANDED_ON or not given or any(nbytes in (0, given) for nbytes in made)
