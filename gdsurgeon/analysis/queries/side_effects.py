"""Ops that do more than compute: random ones, blocking ones, and those that reach files, networks or Python."""

from __future__ import annotations

import re

from gdsurgeon.graph.functions import FunctionLibrary, called_functions
from gdsurgeon.graph.node import Node

OUTSIDE_WORLD = frozenset(
    """
    ReadFile WriteFile MatchingFiles Save SaveSlices SaveV2 Restore RestoreSlice RestoreV2 MergeV2Checkpoints
    ShardedFilename PyFunc PyFuncStateless EagerPyFunc ImmutableConst InitializeTableFromTextFile
    InitializeTableFromTextFileV2 WholeFileReader WholeFileReaderV2 TextLineReader TextLineReaderV2 TFRecordReader
    TFRecordReaderV2 FixedLengthRecordReader FixedLengthRecordReaderV2 LMDBReader IdentityReader IdentityReaderV2
    TextLineDataset TFRecordDataset TFRecordDatasetV2 FixedLengthRecordDataset FixedLengthRecordDatasetV2
    LMDBDataset SqlDataset ExperimentalSqlDataset ExperimentalLMDBDataset MatchingFilesDataset
    ExperimentalMatchingFilesDataset SaveDataset SaveDatasetV2 LoadDataset SnapshotDataset SnapshotDatasetV2
    CacheDataset CacheDatasetV2 CreateSummaryFileWriter CreateSummaryDbWriter WriteSummary WriteScalarSummary
    DebugIdentity DebugIdentityV2 DebugIdentityV3 Abort RpcCall TryRpc BigQueryReader GenerateBigQueryReaderPartitions
    DataServiceDataset DataServiceDatasetV2 DataServiceDatasetV3 DataServiceDatasetV4 RegisterDataset
    DisableCopyOnRead LoadAndRemapMatrix GenerateVocabRemapping
    """.split()
)
"""Ops that read or write files, open connections, call Python, or end the process. Not run unless allowed."""

_BLOCKING = re.compile(
    r"Queue(Dequeue|Enqueue)|Barrier(TakeMany|InsertMany)|(Unstage|MapUnstage|OrderedMapUnstage)|Stage$|MapStage$"
    r"|TakeGrad|AccumulatorTakeGradient|ReaderRead|IteratorGetNext|MutexLock|_Recv|_HostRecv|Collective|Nccl|RecordInput"
)
_RANDOM = re.compile(
    r"(Random(Uniform|UniformInt|StandardNormal|Shuffle|Gamma|Poisson|PoissonV2|Crop|Binomial)"
    r"|TruncatedNormal|ParameterizedTruncatedNormal|Multinomial|SampleDistortedBoundingBox(V2)?"
    r"|(Uniform|LogUniform|LearnedUnigram|ThreadUnsafeUnigram|FixedUnigram|All)CandidateSampler"
    r"|Stateful(Uniform|UniformInt|UniformFullInt|StandardNormal|StandardNormalV2|TruncatedNormal|RandomBinomial)"
    r"|StochasticCastToInt|FractionalMaxPool|FractionalAvgPool|RngReadAndSkip|NonDeterministicInts"
    r"|AnonymousSeedGenerator|AnonymousRandomSeedGenerator|CudnnRNNV?[23]?|Timestamp)\Z"
)
VARIABLES = frozenset(("Variable", "VariableV2", "TemporaryVariable"))
RESOURCE_VARIABLES = frozenset(("VarHandleOp", "_VarHandlesOp"))
TABLE_INITIALIZERS = frozenset(
    """
    InitializeTable InitializeTableV2 InitializeTableFromTextFile InitializeTableFromTextFileV2 LookupTableImport
    LookupTableImportV2
    """.split()
)


def is_blocking(op: str) -> bool:
    """Whether the op may wait for something that never comes."""
    return _BLOCKING.search(op) is not None


def is_random(op: str) -> bool:
    """Whether the op gives other values each time unless it is seeded."""
    return _RANDOM.match(op) is not None


def is_seeded(node: Node) -> bool:
    """Whether a random op has a seed, so that equal sessions give equal values."""
    return any(node.plain_attr(key) for key in ("seed", "seed2"))


def ops_in_functions(node: Node, library: FunctionLibrary) -> set[str]:
    """The ops that run inside the functions that NODE calls, directly or through others."""
    value = _called_by(node, library)
    out: set[str] = set()
    seen: set[str] = set()
    while value:
        name = value.pop()
        function = library.get(name)
        if name in seen or function is None:
            continue
        seen.add(name)
        for inner in function.node_def:
            out.add(inner.op)
            value.extend(called_functions(inner, library))
    return out


def _called_by(node: Node, library: FunctionLibrary) -> list[str]:
    from gdsurgeon.graph.attrs import functions_in

    called = [node.op] if node.op in library else []
    definition = node.op_def
    if definition is not None and not any("func" in attr.kind for attr in definition.attrs.values()):
        return called
    for key in node.attr_keys:
        value = node.attr(key)
        called.extend(func.name for func in functions_in(value))
    return called
