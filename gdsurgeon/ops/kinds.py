"""The kinds of ops, by name, and names of attrs with the same meaning for every op.

`op_defs` has the facts that TensorFlow's table states. This file has the other facts, each only once. `reach` has the
ops that access files, networks or processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gdsurgeon.ops.op_defs import op_def

COLOCATION_ATTR = "_class"
"""The nodes with which a node must share a device, as strings."""
STATED_SHAPES = "_output_shapes"
"""The shapes of outputs, as inferred by the exporting program; TensorFlow rejects a graph if they are wrong."""
INPUT_SHAPES = "_input_shapes"
"""The shapes of the arguments of a function, as inferred by the exporting program; a variable handle is a scalar."""
ASIDE = frozenset((COLOCATION_ATTR, STATED_SHAPES))
"""Attrs that do not affect the computation: names of other nodes, and shapes that an exporter inferred."""

FRAME_NAME = "frame_name"
"""The attr of Enter nodes with the name of the while loop."""
SHARED_NAME = "shared_name"
"""The attr with the name of a table, a queue or a variable; nodes with the same name share one resource."""
VAR_NAME = "var_name"
"""The attr with the name of a temporary variable."""
BY_NODE_NAME = "use_node_name_sharing"
"""The attr that makes the node name the resource name if there is no `SHARED_NAME`."""


# Inputs and constants.

UNSET_PLACEHOLDERS = frozenset(("Placeholder", "PlaceholderV2"))
"""Inputs that a run must feed."""
PLACEHOLDERS = UNSET_PLACEHOLDERS | {"PlaceholderWithDefault"}
"""Ops of inputs, which a run can feed."""

READS_SHAPE = frozenset(("Shape", "ShapeN", "Size", "Rank"))
"""Ops that use only the shape of a tensor."""

# Control flow of v1: the ops that the executor treats specially, as `IsSwitch` and the like in TensorFlow's graph.h do.

ENTER = frozenset(("Enter", "RefEnter"))
EXIT = frozenset(("Exit", "RefExit"))
SWITCH = frozenset(("Switch", "RefSwitch", "_SwitchN"))
MERGE = frozenset(("Merge", "RefMerge", "_XlaMerge"))
NEXT_ITERATION = frozenset(("NextIteration", "RefNextIteration"))
"""Ops that return a value to the start of a loop."""
LOOP_COND = "LoopCond"
LOOPS = ENTER | EXIT | NEXT_ITERATION | {LOOP_COND}
"""Ops that occur only in while loops."""
CONTROL_FLOW = LOOPS | SWITCH | MERGE

# Ops that forward their input.

IDENTITY = frozenset(("Identity", "RefIdentity"))
PASSES_ON = (
    IDENTITY | ENTER | EXIT | SWITCH | NEXT_ITERATION
    | frozenset("""
        CheckNumerics CheckNumericsV2 DebugGradientIdentity DebugGradientRefIdentity DeepCopy PreventGradient Print
        Snapshot StopGradient
    """.split())
)  # fmt: skip
"""Ops whose outputs are all equal to input 0: in dtype, shape and elements.

Excluded are ops that return a different value when they are fed, and ops that choose among several inputs.
"""
RESHAPES = frozenset(("EnsureShape", "ExpandDims", "Reshape", "Squeeze"))
"""Ops whose output has the elements of input 0 in the same order, in a different or more exactly known shape."""

# Functions.

CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))
"""Ops that call one function: their inputs are its arguments, and their outputs are its results."""
IFS = frozenset(("If", "StatelessIf"))
CASES = frozenset(("Case", "StatelessCase"))
WHILES = frozenset(("While", "StatelessWhile"))
CALLED: dict[str, tuple[tuple[str, ...], int]] = {
    **dict.fromkeys((*CALLS, "BatchFunction"), (("f",), 0)),
    "RemoteCall": (("f",), 1),
    **dict.fromkeys(IFS, (("then_branch", "else_branch"), 1)),
    **dict.fromkeys(CASES, (("branches",), 1)),
    **dict.fromkeys(WHILES, (("cond", "body"), 0)),
}
"""By op, the attrs that name the called functions, and the index of the first input that is an argument."""
LOWERED = (CALLED.keys() - {"BatchFunction", "RemoteCall"}) | {"SymbolicGradient"}
"""Ops that TensorFlow replaces by the functions that they call."""

# State.

VARIABLES = frozenset(("Variable", "VariableV2", "TemporaryVariable"))
"""Variables that are references."""
RESOURCE_VARIABLES = frozenset(("VarHandleOp", "_VarHandlesOp"))
"""Variables that are resources."""
TEMPORARY = frozenset(("TemporaryVariable", "DestroyTemporaryVariable"))
"""Ops that create and destroy a variable that exists for one step; it has its own name."""
TABLE_INITIALIZERS = frozenset(
    """
    InitializeTable InitializeTableV2 InitializeTableFromTextFile InitializeTableFromTextFileV2 LookupTableImport
    LookupTableImportV2
    """.split()
)
ASSIGNMENTS = TABLE_INITIALIZERS | {"Assign", "AssignVariableOp"}
"""Ops that set the whole value of the variable or table that is their input 0."""
SAVES = {"Save": 2, "SaveSlices": 3, "SaveV2": 3}
"""Ops that write a checkpoint, and the index of the first input that is a tensor to save."""
CHECKPOINT_WRITERS = frozenset((*SAVES, "MergeV2Checkpoints"))
RESTORES = frozenset(("Restore", "RestoreSlice", "RestoreV2"))
"""Ops that read a checkpoint."""
VARIABLE_READS = IDENTITY | {"ReadVariableOp"}
"""Ops that return the value of the variable that is their input 0."""
REFERENCE_OPS = {f"Ref{op}": op for op in ("Enter", "Exit", "Identity", "Merge", "NextIteration", "Switch")}
"""Ops that forward a reference, with the op that forwards a value."""
VALUE_OPS = {
    "ReadVariableOp": "Identity",
    "ResourceGatherNd": "GatherNd",
    "VarIsInitializedOp": "Const",
    "VariableShape": "Shape",
}
"""Ops on the handle of a variable, with the equivalent op on its value."""
TENSOR_ARRAYS = frozenset(("TensorArray", "TensorArrayV2", "TensorArrayV3"))
TENSOR_ARRAY_READERS = frozenset(
    f"TensorArray{what}{version}" for what in ("Read", "Gather", "Concat") for version in ("", "V2", "V3")
) | {"TensorArrayPack"}
"""Ops that read tensors from a TensorArray, and by default clear it."""
OF_A_STEP = TENSOR_ARRAYS | {"Stack", "StackV2", "TemporaryVariable"}
"""Ops that create an object that exists for one step."""


def is_table(op: str) -> bool:
    """Returns whether nodes of `op` are look-up tables."""
    return "HashTable" in op


def is_variable(op: str) -> bool:
    """Returns whether nodes of `op` are variables."""
    return op in VARIABLES or op in RESOURCE_VARIABLES


def holds_state(op: str) -> bool:
    """Returns whether nodes of `op` are variables or tables."""
    return is_variable(op) or is_table(op)


def is_step(op: str) -> bool:
    """Returns whether the op is an optimiser step: input 0 is the trained variable, other inputs are its slots."""
    return re.match(r"(Resource)?(Sparse)?Apply", op) is not None


def changes_variable(op: str) -> bool:
    """Returns whether the op changes the variable that is its input 0; not for optimiser steps."""
    return re.match(r"Assign|(Resource)?(Scatter|CountUpTo)", op) is not None


_KEPT = (
    r"Mutable\w*HashTable|Queue(V2)?$|Barrier$|ConditionalAccumulator$|Stage$|Iterator|Reader(V2)?$"
    r"|DummyIterationCounter"
)


def keeps_state(op: str) -> bool:
    """Returns whether the op creates or is state, other than a variable, that a run may change for later runs."""
    return re.search(_KEPT, op) is not None


# Randomness and blocking.

_DRAWS_WITHOUT_SEED = frozenset(
    """
    AnonymousRandomSeedGenerator AnonymousSeedGenerator FractionalAvgPool FractionalMaxPool NonDeterministicInts
    RngReadAndSkip StatefulRandomBinomial StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal
    StatefulUniform StatefulUniformFullInt StatefulUniformInt StochasticCastToInt Timestamp
    """.split()
)
_SEED_FOR_OTHERS = frozenset(
    "CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3 RandomShuffleQueue RandomShuffleQueueV2".split()
)


def is_random(op: str) -> bool:
    """Returns whether the op returns different values in each run unless it is seeded.

    That holds for stateful ops with a seed, except for ops that compute a gradient or make a queue. Listed ops also
    qualify: they sample from a generator resource, read the clock, or use their seed only if an attr or input says so.
    """
    if op in _DRAWS_WITHOUT_SEED:
        return True
    definition = op_def(op)
    seeded = definition is not None and definition.is_stateful and "seed" in definition.attrs
    return seeded and op not in _SEED_FOR_OTHERS


IN_PLACE = frozenset(("InplaceAdd", "InplaceSub", "InplaceUpdate", "_ParallelConcatUpdate"))
"""Ops that overwrite the tensor that is their input 0, even if other nodes read it."""


def hides_state(op: str) -> bool:
    """Returns whether the op is random or overwrites its input, even if TensorFlow does not declare it stateful."""
    return op in _DRAWS_WITHOUT_SEED or op in IN_PLACE


_BLOCKING = (
    r"Queue(Dequeue|Enqueue)|Barrier(TakeMany|InsertMany)|(Unstage|MapUnstage|OrderedMapUnstage)|Stage$|MapStage$"
    r"|TakeGrad|AccumulatorTakeGradient|ReaderRead|IteratorGetNext|MutexLock|_Recv|_HostRecv|Collective|Nccl|RecordInput"
)


def is_blocking(op: str) -> bool:
    """Returns whether the op may wait forever."""
    return re.search(_BLOCKING, op) is not None  # compiled at the first call, not at import


# Arithmetic.

CONVOLUTIONS = frozenset(
    """
    Conv Conv2D Conv3D DepthwiseConv2dNative FusedConv2DBiasActivation _FusedConv2D
    Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput
    Conv2DBackpropFilter Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter
    """.split()
)
"""Convolutions and their gradients."""
PRODUCTS = frozenset(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "_MklMatMul"))
"""Matrix products."""
FUSED_BATCH_NORMS = frozenset(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"))
"""Batch norms: of input 0, with the scale, the offset, the mean and the variance of each channel."""
SUMS = frozenset(("Add", "AddV2"))
COMMUTATIVE = SUMS | frozenset(
    """
    BitwiseAnd BitwiseOr BitwiseXor Equal LogicalAnd LogicalOr Maximum Minimum Mul NotEqual SquaredDifference
    """.split()
)
"""Ops of two inputs whose order does not matter."""
ANY_ORDER = COMMUTATIVE - {"Maximum", "Minimum"}
"""Ops whose result has the same bits in both orders. The Maximum of 0 and -0 has the sign of one of its inputs."""

# Attrs by which this package marks nodes.

MARK = "_checkpoint"
"""Attr of a node whose outputs the checkpoints ``collection`` keep."""
RECOMPUTED = "_recomputed"
"""Attr of the nodes that wait until a segment is recomputed."""


SOURCES = PLACEHOLDERS | {"Const"} | (VARIABLES - TEMPORARY) | RESOURCE_VARIABLES
"""Ops whose outputs exist before the run."""

ALIASES = (PASSES_ON - {"DeepCopy"}) | RESHAPES | MERGE | {"Bitcast", "PlaceholderWithDefault"}
"""Ops whose output 0 shares the buffer of input 0."""

REUSES_INPUT = frozenset((
    "Abs", "Add", "AddN", "AddV2", "BiasAdd", "Cast", "Ceil", "Cos", "Div", "DivNoNan", "Elu", "EluGrad", "Erf", "Exp",
    "Expm1", "FloorDiv", "FloorMod", "Floor", "Inv", "InvGrad", "LeakyRelu", "LeakyReluGrad", "Log", "Log1p",
    "LogSoftmax", "Maximum", "Minimum", "Mul", "MulNoNan", "Neg", "Pow", "RealDiv", "Reciprocal", "ReciprocalGrad",
    "Relu", "Relu6", "Relu6Grad", "ReluGrad", "Round", "Rsqrt", "RsqrtGrad", "Selu", "SeluGrad", "Sigmoid",
    "SigmoidGrad", "Sign", "Sin", "Softmax", "Softplus", "SoftplusGrad", "Softsign", "SoftsignGrad", "Sqrt",
    "SqrtGrad", "Square", "SquaredDifference", "Sub", "Tanh", "TanhGrad", "Xdivy", "Xlogy", "ZerosLike", "OnesLike",
))  # fmt: skip
"""Ops whose kernels reuse the buffer of an input that has the size of their output and no other consumer."""

HEAVY = (CONVOLUTIONS | PRODUCTS) - frozenset(
    "Conv2DBackpropFilter Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter".split()
)
"""Ops that cost more than the ops after them, so that their outputs are worth keeping.

The gradient of a convolution's input is included: forward passes use it as a transposed convolution.
"""

_HANDED_ON = frozenset((
    "All", "Any", "BroadcastTo", "Cast", "Conj", "ConjugateTranspose", "Max", "Mean", "Min", "MirrorPad", "Pad",
    "PadV2", "Prod", "Real", "Reverse", "ReverseV2", "Select", "SelectV2", "Sum", "Tile", "Transpose",
))  # fmt: skip
"""Ops that forward an input if they have nothing to do, such as a cast to the same type or a sum over no axes.

The input then has as many bytes as the output.
"""

_OWN_BUFFERS = (
    (REUSES_INPUT - _HANDED_ON)
    | (CONVOLUTIONS | PRODUCTS) - {"Einsum"}
    | frozenset((
        "ArgMax", "ArgMin", "AvgPool", "AvgPoolGrad", "BiasAddGrad", "ConcatV2", "Equal", "Fill", "FusedBatchNorm",
        "FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", "FusedBatchNormV2", "FusedBatchNormV3",
        "GatherNd", "GatherV2", "Greater", "GreaterEqual", "L2Loss", "Less", "LessEqual", "MaxPool", "MaxPoolGrad",
        "NotEqual", "OneHot", "ResizeBilinear", "ResizeBilinearGrad", "Shape", "Size",
        "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "StridedSliceGrad", "TopKV2",
        "UnsortedSegmentSum",
    ))
)  # fmt: skip
"""Ops whose outputs have new buffers, or reuse buffers that no other node reads later."""


def may_have(op: str, given: int, made: Iterable[int]) -> bool:
    """Returns whether an output of a node may share the buffer of an input.

    An unknown op may share it: some kernels return a view of an input, such as a slice along the first dimension.

    Args:
        op: the op of the node.
        given: bytes of the input; 0 if unknown.
        made: bytes of each output; 0 if unknown.
    """
    if op in _OWN_BUFFERS or op in SOURCES:
        return False
    return op not in _HANDED_ON or not given or any(nbytes in (0, given) for nbytes in made)


class Undefined(NamedTuple):
    """Outputs of an op that kernels need not write.

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
    # Placeholders for the gradients of mean and variance: a scalar or an empty tensor, depending on the kernel.
    "FusedBatchNormGrad": _THREE_AND_FOUR,
    "FusedBatchNormGradV2": _THREE_AND_FOUR,
    "FusedBatchNormGradV3": _THREE_AND_FOUR,
    # Opaque bytes that cuDNN keeps for the gradient, including dropout masks.
    "CudnnRNN": Undefined(frozenset((3,))),
    "CudnnRNNV2": _THREE_AND_FOUR,
    "CudnnRNNV3": _THREE_AND_FOUR,
    "Empty": Undefined(unless=frozenset((0,)), attr="init"),
    "_ParallelConcatStart": Undefined(frozenset((0,))),
}
"""By op. An op with only some undefined elements (DynamicStitch without an index for each row) is not included."""


def undefined_outputs(op: str, setting: Callable[[str], object]) -> frozenset[int]:
    """Returns the indices of the outputs of a node whose content is undefined.

    Args:
        op: the op of the node.
        setting: returns the plain value of one of its attrs, or the default (`Node.setting`).
    """
    found = UNDEFINED.get(op)
    if found is None:
        return frozenset()
    return found.always if not found.attr or setting(found.attr) else found.always | found.unless
