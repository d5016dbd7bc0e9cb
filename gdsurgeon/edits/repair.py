"""repair: fixes known faults of old graphs that TensorFlow refuses."""

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

SHOWN = 3
"""The largest number of warnings of one kind with a line each."""
_CHANGES = re.compile("^Assign|Scatter")


@edit()
def repair(graph: Graph, *, custom_ops: bool = False) -> EditResult:
    """Fixes known faults, so that TensorFlow loads the graph.

    Ops that require a variable, but read a value because the graph was frozen, become the equivalent ops on values.
    Colocations with missing nodes are removed. Faults that cannot be repaired are reported.

    Args:
        graph: changed in place; see `gdsurgeon.graph.load.uniquely_named` for duplicate names of nodes.
        custom_ops: accept ops that TensorFlow does not know, because a library may define them.

    Raises:
        EditError: TensorFlow would still refuse the graph; the details list all faults. The graph is unchanged.
        NothingToDo: the graph has no known fault.
    """
    found = legacy_problems(graph)
    _fix(trial := graph.copy(), found)
    faults = refusals(trial.written(), custom_ops=custom_ops)
    fixed, left = ([each for each in found if each.is_mendable == is_fixed] for is_fixed in (True, False))
    if faults:
        raise EditError(
            f"not all faults of {printable(graph.source_name)} can be repaired:",
            code="not-mendable",
            nodes=[each.node for each in left],
            details=tuple(faults),
        )
    if not fixed and not graph.repairs:
        why = "its faults cannot be repaired" if left else "it has no known fault"
        raise NothingToDo(
            f"nothing would change: {why}" + "".join(f"; {each.text}" for each in left[:3]),
            code="not-mendable" if left else "nothing-to-do",
            nodes=[each.node for each in found],
        )
    warnings = [each.text for each in left]
    lost: list[str] = []  # tensors with other consumers that an assignment changed; values are not changed
    for node in (graph[each.node] for each in fixed if each.kind == "reference"):
        changed = node.inputs[0] if _CHANGES.search(node.op) else None
        if changed is not None and any(u is not node and changed in u.inputs for u in graph.users(changed.node)):
            what = f"{quoted(changed.name)} is no longer changed by {quoted(node.name)}"
            text = f"{what}: its other consumers read the value from the file"
            lost.append(Remark(text, "no-longer-changed", node=node.name, tensor=changed.name))
    warnings += lost if len(lost) <= SHOWN else [*lost[:SHOWN], f"the same holds for {len(lost) - SHOWN} more"]
    if graph.repairs:
        text = "several nodes had the same name, which TensorFlow refuses"
        warnings.append(f"{text}; the result is compared with the renamed graph")
    _fix(graph, found)
    result = EditResult(Intent(changed=[node.name for node in graph.touched()]), (SameOutputs(even_alone=True),))
    result.warnings = warnings
    result.told = [Entry("renamed", text) for text in graph.repairs]
    for kind, count in Counter(each.kind for each in fixed).items():
        ops = Counter(each.becomes for each in fixed if each.kind == kind)
        listed = ", ".join(f"{op} x {n}" for op, n in ops.items())
        text = f"{counted(count, 'node')} that needed a variable: now {listed}"
        if kind == "colocation":
            text = f"{counted(count, 'colocation')} with missing nodes"
        result.told.append(Entry("fixed", text))
    faults_found: list[Json] = [
        {"kind": each.kind, "node": each.node, "text": each.text, "mended": each.is_mendable} for each in found
    ]
    faults_found += [{"kind": "name", "node": "", "text": text, "mended": True} for text in graph.repairs]
    result.facts = {"faults": faults_found}
    return result


def _fix(graph: Graph, found: Sequence[LegacyProblem]) -> None:
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
