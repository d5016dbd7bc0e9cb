"""repair: what keeps an old graph from being loaded is put right."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from gdsurgeon.analysis.checks.check import refusals
from gdsurgeon.analysis.queries.compatibility import LegacyProblem, legacy_problems
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.decorator import edit
from gdsurgeon.edits.replacing import use_value
from gdsurgeon.errors import EditError, Json, NothingToDo, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.text import Entry, counted
from gdsurgeon.wire.write import ChunkSource

SHOWN = 3
"""Warnings of one kind that are told one by one."""
_CHANGES = re.compile("^Assign|Scatter")


@edit()
def repair(graph: Graph, *, custom_ops: bool = False) -> EditResult:
    """Makes a graph one that TensorFlow loads, as far as what is wrong is of a few kinds.

    Ops that want a variable, and read a value where the graph was frozen, become those that give the same of a value;
    colocations with nodes that are not there go. What cannot be mended is told.

    Args:
        graph: changed in place; see `gdsurgeon.graph.load.uniquely_named` for names that several nodes have.
        custom_ops: whether ops that TensorFlow does not know may come from a library; else they are faults.

    Raises:
        EditError: something is left for which TensorFlow would refuse the graph; all of it is in the details, and the
            graph is as it was.
        NothingToDo: nothing is wrong that is known here.
    """
    found = legacy_problems(graph)
    _mend(trial := _copy(graph), found)
    faults = refusals(_copy(trial), custom_ops=custom_ops)
    left = [each.text for each in found if not each.is_mendable]
    if faults:
        raise EditError(
            f"not all faults of {printable(graph.source_name)} can be repaired:",
            code="not-mendable",
            nodes=[each.node for each in found if not each.is_mendable],
            details=tuple(faults),
        )
    if len(left) == len(found) and not graph.mended:
        why = "its faults cannot be repaired" if left else "it has no known fault"
        raise NothingToDo(
            f"nothing would change: {why}" + "".join(f"; {text}" for text in left[:3]),
            code="not-mendable" if left else "nothing-to-do",
            nodes=[each.node for each in found],
        )
    left += _no_longer_changed(graph, found)
    _mend(graph, found)
    changed = [node.name for node in graph.touched()]
    counts = Counter(each.kind for each in found if each.is_mendable)
    facts: dict[str, Json] = {
        "faults": [
            {"kind": each.kind, "node": each.node, "text": each.text, "mended": each.is_mendable} for each in found
        ]
        + [{"kind": "name", "node": "", "text": text, "mended": True} for text in graph.mended],
    }
    told = [
        *(Entry("renamed", text) for text in graph.mended),
        *(Entry("fixed", _told(found, kind, n)) for kind, n in counts.items()),
    ]
    if graph.mended:
        left.append(
            "several nodes had the same name, which TensorFlow refuses; the result is compared with the renamed graph"
        )
    return EditResult(Intent(changed=changed), (SameOutputs(even_alone=True),), warnings=left, told=told, facts=facts)


def _copy(graph: Graph) -> Graph:
    """The same graph, to be changed or checked in its place."""
    return Graph(ChunkSource(graph.chunks(), graph.source_name))


def _told(found: Sequence[LegacyProblem], kind: str, count: int) -> str:
    if kind == "colocation":
        return counted(count, "colocation") + " with missing nodes"
    ops = Counter(each.becomes for each in found if each.kind == kind and each.is_mendable)
    return f"{counted(count, 'node')} that needed a variable: now {', '.join(f'{op} x {n}' for op, n in ops.items())}"


def _no_longer_changed(graph: Graph, found: Sequence[LegacyProblem]) -> list[str]:
    """What assignments changed that others read, too: a value is not changed."""
    out: list[str] = []
    for each in found:
        node = graph[each.node]
        if each.is_mendable and each.kind == "reference" and _CHANGES.search(node.op):
            changed = node.inputs[0]
            if any(user is not node and changed in user.inputs for user in graph.users(changed.node)):
                what = f"{quoted(changed.name)} is no longer changed by {quoted(node.name)}"
                text = f"{what}: its other consumers read the value from the file"
                out.append(Remark(text, "no-longer-changed", node=node.name, tensor=changed.name))
    return out if len(out) <= SHOWN else [*out[:SHOWN], f"the same holds for {len(out) - SHOWN} more"]


def _mend(graph: Graph, found: Sequence[LegacyProblem]) -> None:
    for each in found:
        node = graph[each.node]
        if each.kind == "colocation":
            graph.set_colocated(node, [other for other in node.colocated if other.exists])
        elif each.becomes:
            dtype = next((base_dtype(read.dtype) for read in node.inputs if read.dtype), 0)
            inputs = node.inputs[1:] if node.op == "Assign" else node.inputs
            if each.becomes == "NoOp":
                graph.set_controls(node, [*(read.node for read in inputs), *node.controls])
                inputs = ()
            use_value(graph, node, each.becomes, dtype, inputs)
