#!/usr/bin/env python3
"""Updates gdsurgeon/data/reach.txt, the table of the files, networks and processes that TensorFlow's ops access.

    python scripts/make_reach_table.py            write gdsurgeon/data/reach.txt, and list ops to review
    python scripts/make_reach_table.py --check    write nothing; exit 1 if there are ops to review

TensorFlow does not declare the files and networks that an op accesses: a person must read its kernel. The table
records the results, one op a line, sorted: the name, a tab, and

    none        it computes from its inputs and attrs, or keeps state in the process
    file read   it reads files, by a name in an input or an attr
    file write  it writes files, or may both read and write them
    network     it opens connections, listens, or sends to other processes
    process     it runs code that is not in the graph: a program in a string, a native function by its name; acts on a
                device that several processes share; or ends the process
    python      it calls Python
    unknown     not reviewed: the op counts as accessing files and networks

If some values of an attr prevent the access, another tab, the attr, a tab and these values as JSON follow. The first
line is "#", a tab and the TensorFlow version.

Ops of the installed TensorFlow that the table lacks are added as ``unknown``; removed ops are dropped. The check also
reports an op with ``none`` if a word of its name, its inputs or its attrs refers to files or networks, unless
`REVIEWED` lists the op with the reason.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import Any

from make_tensorflow_tables import DATA, installed_ops, is_up_to_date

TABLE = DATA / "reach.txt"

SUSPICIOUS = frozenset(
    """
    address checkpoint client command configuration connect debug descriptor dir directory download dump
    environment file filename filenames filepattern files filespec folder ftp grpc hdfs host http library listen
    load module path paths pipe plugin port programs python reader receive recv remote restore rpc save saver
    send server service shell snapshot socket subprocess target tpu upload uri url urls vocab vocabulary worker
    write writer
    """.split()
)
REVIEWED: dict[str, str] = {
    r"AnonymousMutableDenseHashTable|MutableDenseHashTable(V2)?": "max_load_factor is how full a table in memory gets",
    r"ApproxTopK": "recall_target is a number",
    r"CTCBeamSearchDecoder": "top_paths is a count",
    r"Copy|CopyHost": "debug_ops_spec only decides whether a copy is made",
    r"ConvertToSparseCore.*|GetMinibatch.*|(Sort|GetStatsFrom)ListOfSparseCoreCooTensors": "sizes and keys",
    r"ComputeDedupData.*": "a mark on a graph, without a kernel here",
    r"BoostedTreesExampleDebugOutputs|DebugGradient(Ref)?Identity|DebugNumericSummaryV2": "it computes for debugging",
    r"CudnnRNNBackpropV[23]": "host_reserved is memory",
    r"InTopK(V2)?": "targets are classes",
    r"(_Device|_Host|Host)(Const|Cast|Arg|Retval)|_CopyFrom(Gpu|Host)To(Gpu|Host)": "the host's memory",
    r"_Fused.*|_MklNativeFused.*|_QuantizedMatMul": "inputs in the host's memory",
    r"IdentityReader(V2)?": "returns its work item as the content",
    r"Reader(Num|Read|Reset|Restore|Serialize).*": "acts on a reader, which a different op makes",
    r"DisableCopyOnRead|ReadVariable.*|_ReadVariablesOp": "variables in memory",
    r"ParseSequenceExample(V2)?|ParseSingleSequenceExample|VarHandleOp|_XlaAotOnlyVarHandleOp": "debug_name is a label",
    r"RemoteCall": "runs a function on a device of the session; the function is checked",
    r"ShardedFile(name|spec)": "makes a string",
    r"Snapshot": "a copy of a tensor",
    r"SparseCross.*|NegTrain": "counts",
    r"TensorArray(Read|Write)(V[23])?": "tensors in memory",
    r"TensorSliceDataset": "is_files is a hint for the optimiser",
    r"TPU(Annotate|CopyWith|Dummy|Partitioned(In|Out)|Replic).*|_TPUReplicate": "a mark on a graph, no kernel",
}
"""By regular expressions for names of ops: the reason why these ops access nothing."""


def to_review(ops: Any, known: dict[str, str]) -> list[str]:
    """Returns a line for each op that a person must review."""
    out = []
    for op in ops:
        row = known.get(op.name, "unknown").split("\t")
        names = [op.name, *(arg.name for arg in op.input_arg), *(attr.name for attr in op.attr)]
        found = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", " ".join(names))  # MatchingFiles: matching and files
        words = {word.lower() for word in found} & SUSPICIOUS
        if row[0] == "unknown":
            out.append(f"{op.name}: not reviewed")
        elif row[0] == "none" and words and not any(re.fullmatch(pattern, op.name) for pattern in REVIEWED):
            out.append(f"{op.name}: none, although its words refer to {', '.join(sorted(words))}")
        if len(row) > 1 and row[1] not in {attr.name for attr in op.attr}:
            out.append(f"{op.name}: has no attr {row[1]}")
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if there are ops to review")
    check = parser.parse_args().check
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    ops = installed_ops()
    known = dict(line.split("\t", 1) for line in TABLE.read_text().splitlines()[1:])
    lines = [f"#\t{tf.version.VERSION}", *(f"{op.name}\t{known.get(op.name, 'unknown')}" for op in ops), ""]
    is_same = is_up_to_date(TABLE, "\n".join(lines).encode(), check)
    found = to_review(ops, known)
    print("\n".join(found))
    return int(bool(found) or (check and not is_same))


if __name__ == "__main__":
    sys.exit(main())
