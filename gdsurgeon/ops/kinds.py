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
"""With which nodes a node has to be, as strings."""
STATED_SHAPES = "_output_shapes"
"""The shapes of outputs, as programs note those that they inferred; TensorFlow refuses a graph where they are wrong."""
INPUT_SHAPES = "_input_shapes"
"""The shapes of the arguments of a function, likewise; the handle of a variable is a scalar there."""
ASIDE = frozenset((COLOCATION_ATTR, STATED_SHAPES))
"""Attrs that are no part of what is computed: names of other nodes, and what an exporter knew of shapes."""

FRAME_NAME = "frame_name"
"""The name of a while loop, in the nodes that enter it."""
SHARED_NAME = "shared_name"
"""By which name a table, a queue or a variable is held; those that have one name are one."""
VAR_NAME = "var_name"
"""The same of a temporary variable."""
BY_NODE_NAME = "use_node_name_sharing"
"""Whether the name of the node is taken where there is no SHARED_NAME."""


# Inputs and constants.

UNSET_PLACEHOLDERS = frozenset(("Placeholder", "PlaceholderV2"))
"""Inputs that a run must be given."""
PLACEHOLDERS = UNSET_PLACEHOLDERS | {"PlaceholderWithDefault"}
"""Ops of inputs: a run can feed them."""

READS_SHAPE = frozenset(("Shape", "ShapeN", "Size", "Rank"))
"""Ops that want no more of a tensor than its shape."""

# Control flow of v1: the ops that the executor treats apart, as `IsSwitch` and the like in TensorFlow's graph.h do.

ENTER = frozenset(("Enter", "RefEnter"))
EXIT = frozenset(("Exit", "RefExit"))
SWITCH = frozenset(("Switch", "RefSwitch", "_SwitchN"))
MERGE = frozenset(("Merge", "RefMerge", "_XlaMerge"))
NEXT_ITERATION = frozenset(("NextIteration", "RefNextIteration"))
"""Where a value goes back to the beginning of a loop."""
LOOP_COND = "LoopCond"
LOOPS = ENTER | EXIT | NEXT_ITERATION | {LOOP_COND}
"""Ops that occur only in while loops."""
CONTROL_FLOW = LOOPS | SWITCH | MERGE

# Ops that pass on what they read.

IDENTITY = frozenset(("Identity", "RefIdentity"))
PASSES_ON = (
    IDENTITY | ENTER | EXIT | SWITCH | NEXT_ITERATION
    | frozenset("""
        CheckNumerics CheckNumericsV2 DebugGradientIdentity DebugGradientRefIdentity DeepCopy PreventGradient Print
        Snapshot StopGradient
    """.split())
)  # fmt: skip
"""Ops each of whose outputs is their input 0: the dtype, the shape and the elements are the same, whatever these are.

Not those that may give another value when they are fed, nor those that choose among several inputs.
"""
RESHAPES = frozenset(("EnsureShape", "ExpandDims", "Reshape", "Squeeze"))
"""Ops whose output has the elements of their input 0 in the same order, in another shape or in one that is surer."""

# Functions.

CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))
"""Ops that run a function as it is: their inputs are its arguments, and their outputs its results."""
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
"""Where ops hand their inputs over to functions: the attrs that name these, the first input that is an argument."""
LOWERED = (CALLED.keys() - {"BatchFunction", "RemoteCall"}) | {"SymbolicGradient"}
"""Ops in whose place TensorFlow puts what they call."""

# State.

VARIABLES = frozenset(("Variable", "VariableV2", "TemporaryVariable"))
"""Variables that are references."""
RESOURCE_VARIABLES = frozenset(("VarHandleOp", "_VarHandlesOp"))
"""Variables that are resources."""
TEMPORARY = frozenset(("TemporaryVariable", "DestroyTemporaryVariable"))
"""What makes and ends a variable that lives for one step, by a name of its own."""
TABLE_INITIALIZERS = frozenset(
    """
    InitializeTable InitializeTableV2 InitializeTableFromTextFile InitializeTableFromTextFileV2 LookupTableImport
    LookupTableImportV2
    """.split()
)
ASSIGNMENTS = TABLE_INITIALIZERS | {"Assign", "AssignVariableOp"}
"""Ops that give the variable or the table that is their input 0 the whole of its value."""
SAVES = {"Save": 2, "SaveSlices": 3, "SaveV2": 3}
"""Ops that write a checkpoint, and the first input that is a tensor to be kept."""
CHECKPOINT_WRITERS = frozenset((*SAVES, "MergeV2Checkpoints"))
RESTORES = frozenset(("Restore", "RestoreSlice", "RestoreV2"))
"""Ops that read one."""
VARIABLE_READS = IDENTITY | {"ReadVariableOp"}
"""Ops that give the value of the variable that is their input 0."""
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
"""Ops that make something which lives for one step."""


def is_table(op: str) -> bool:
    """Whether nodes of OP are look-up tables."""
    return "HashTable" in op


def is_variable(op: str) -> bool:
    """Whether nodes of OP are variables."""
    return op in VARIABLES or op in RESOURCE_VARIABLES


def holds_state(op: str) -> bool:
    """Whether nodes of OP are variables or tables."""
    return is_variable(op) or is_table(op)


def is_step(op: str) -> bool:
    """Whether the op is a step of an optimiser: input 0 is what is trained, others are its slots."""
    return re.match(r"(Resource)?(Sparse)?Apply", op) is not None


def changes_variable(op: str) -> bool:
    """Whether the op, which is no step of an optimiser, changes the variable that is its input 0."""
    return re.match(r"Assign|(Resource)?(Scatter|CountUpTo)", op) is not None


_KEPT = (
    r"Mutable\w*HashTable|Queue(V2)?$|Barrier$|ConditionalAccumulator$|Stage$|Iterator|Reader(V2)?$"
    r"|DummyIterationCounter"
)


def keeps_state(op: str) -> bool:
    """Whether the op makes, or is, something that a run may change for the next one; variables are not meant."""
    return re.search(_KEPT, op) is not None


# Chance and waiting.

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
    """Whether the op gives other values each time unless it is seeded.

    That holds for stateful ops with a seed, except for those that compute a gradient or make a queue. Other ops draw
    from a generator that is a resource, from the clock, or use their seed only if an attr or input says so.
    """
    if op in _DRAWS_WITHOUT_SEED:
        return True
    definition = op_def(op)
    seeded = definition is not None and definition.is_stateful and "seed" in definition.attrs
    return seeded and op not in _SEED_FOR_OTHERS


IN_PLACE = frozenset(("InplaceAdd", "InplaceSub", "InplaceUpdate", "_ParallelConcatUpdate"))
"""Ops that write into the tensor that is their input 0, even if other nodes read it."""


def hides_state(op: str) -> bool:
    """Whether the op draws, or writes into what it reads, though TensorFlow may not call it stateful."""
    return op in _DRAWS_WITHOUT_SEED or op in IN_PLACE


_BLOCKING = (
    r"Queue(Dequeue|Enqueue)|Barrier(TakeMany|InsertMany)|(Unstage|MapUnstage|OrderedMapUnstage)|Stage$|MapStage$"
    r"|TakeGrad|AccumulatorTakeGradient|ReaderRead|IteratorGetNext|MutexLock|_Recv|_HostRecv|Collective|Nccl|RecordInput"
)


def is_blocking(op: str) -> bool:
    """Whether the op may wait for something that never comes."""
    return re.search(_BLOCKING, op) is not None  # compiled when it is first asked for, and not at each start


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
"""Products of matrices."""
FUSED_BATCH_NORMS = frozenset(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"))
"""Batch norms: of input 0, with the scale, the offset, the mean and the variance of each channel."""
SUMS = frozenset(("Add", "AddV2"))
COMMUTATIVE = SUMS | frozenset(
    """
    BitwiseAnd BitwiseOr BitwiseXor Equal LogicalAnd LogicalOr Maximum Minimum Mul NotEqual SquaredDifference
    """.split()
)
"""Ops of two inputs whose order does not matter."""

# Attrs by which this package marks nodes.

MARK = "_checkpoint"
"""Attr of a node whose outputs the checkpoints ``collection`` keep."""
RECOMPUTED = "_recomputed"
"""Attr of the nodes that wait until a segment is computed again."""


SOURCES = PLACEHOLDERS | {"Const"} | (VARIABLES - TEMPORARY) | RESOURCE_VARIABLES
"""Ops whose outputs are there before the run."""

ALIASES = (PASSES_ON - {"DeepCopy"}) | RESHAPES | MERGE | {"Bitcast", "PlaceholderWithDefault"}
"""Ops whose output 0 has the buffer of their input 0."""

REUSES_INPUT = frozenset((
    "Abs", "Add", "AddN", "AddV2", "BiasAdd", "Cast", "Ceil", "Cos", "Div", "DivNoNan", "Elu", "EluGrad", "Erf", "Exp",
    "Expm1", "FloorDiv", "FloorMod", "Floor", "Inv", "InvGrad", "LeakyRelu", "LeakyReluGrad", "Log", "Log1p",
    "LogSoftmax", "Maximum", "Minimum", "Mul", "MulNoNan", "Neg", "Pow", "RealDiv", "Reciprocal", "ReciprocalGrad",
    "Relu", "Relu6", "Relu6Grad", "ReluGrad", "Round", "Rsqrt", "RsqrtGrad", "Selu", "SeluGrad", "Sigmoid",
    "SigmoidGrad", "Sign", "Sin", "Softmax", "Softplus", "SoftplusGrad", "Softsign", "SoftsignGrad", "Sqrt",
    "SqrtGrad", "Square", "SquaredDifference", "Sub", "Tanh", "TanhGrad", "Xdivy", "Xlogy", "ZerosLike", "OnesLike",
))  # fmt: skip
"""Ops whose kernels reuse the buffer of an input that has the size of their output and no other reader."""

HEAVY = (CONVOLUTIONS | PRODUCTS) - frozenset(
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
"""Ops whose outputs have their own buffers, or buffers that nothing else reads any more."""


def may_have(op: str, given: int, made: Iterable[int]) -> bool:
    """Whether one of the outputs of a node may have the buffer of an input.

    An unknown op may pass one on: some kernels return a view of an input, such as a slice along the first dimension.

    Args:
        op: the node's.
        given: bytes of the input; 0 where they are not known.
        made: bytes of the outputs.
    """
    if op in _OWN_BUFFERS or op in SOURCES:
        return False
    return op not in _HANDED_ON or not given or any(nbytes in (0, given) for nbytes in made)


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
