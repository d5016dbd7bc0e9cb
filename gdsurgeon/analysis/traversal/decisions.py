"""What a discrete output was decided by: the floats above an ArgMax, a threshold, a look-up."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import is_inexact
from gdsurgeon.ops.kinds import PLACEHOLDERS, READS_SHAPE

MOST_SOURCES = 16
MOST_NODES = 2000
"""Nodes that are looked at: what decides an output stands near it."""

_OF_THE_SHAPE = READS_SHAPE | PLACEHOLDERS | {"TensorArraySizeV3", "Const"}
"""Ops whose result says nothing of the values that they read."""


def deciding_nodes(outputs: Iterable[Node]) -> list[Node]:
    """The nearest nodes above those of OUTPUTS that give no floats, which give some; at most `MOST_SOURCES`.

    A class is the same for most changes of a weight: where only the class is compared, almost anything passes. The
    scores that it was taken from show the least of them.
    """
    discrete = [node for node in outputs if node.output_dtypes and not any(map(is_inexact, node.output_dtypes))]
    seen = set(discrete)
    found: dict[Node, None] = {}
    pending = list(discrete)
    for node in pending:  # grows while it is walked
        if node.op in _OF_THE_SHAPE or len(seen) > MOST_NODES:
            continue
        for read in node.inputs:
            if not read.node.exists:
                continue
            if is_inexact(read.dtype):
                if read.node.op not in _OF_THE_SHAPE:
                    found[read.node] = None
            elif read.node not in seen:
                seen.add(read.node)
                pending.append(read.node)
        if len(found) >= MOST_SOURCES:
            break
    return list(found)[:MOST_SOURCES]
