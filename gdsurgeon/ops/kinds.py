"""What kind an op is, by its name.

What TensorFlow says of an op is in its table, see `op_defs`. What it does not say stands here, once; what decides
whether an op belongs to a kind stands with it. What ops do with memory is in `buffers`, and what they reach outside of
the graph in `reach`.
"""

from __future__ import annotations

import re

from gdsurgeon.ops.op_defs import op_def

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
