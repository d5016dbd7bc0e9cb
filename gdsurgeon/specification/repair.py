"""repair: what wanted a variable gives the same of a value, colocations with nobody are gone, the rest is as it was."""

from __future__ import annotations

from collections.abc import Iterator

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import REF, RESOURCE

BECOMES = {
    "Assign": ("Identity", 1), "AssignAdd": ("Add", 0), "AssignSub": ("Sub", 0), "ReadVariableOp": ("Identity", 0),
    "ResourceGather": ("Gather", 0), "IsVariableInitialized": ("Const", 9), "VarIsInitializedOp": ("Const", 9),
    "AssignVariableOp": ("NoOp", 9), "AssignAddVariableOp": ("NoOp", 9), "AssignSubVariableOp": ("NoOp", 9),
    "ResourceGatherNd": ("GatherNd", 0), "VariableShape": ("Shape", 0),
    **{f"ScatterNd{what}": (f"TensorScatter{what}", 0) for what in ("Add", "Sub", "Update")},
}  # fmt: skip
"""What an op that wants a variable is of a value, and the first of its inputs that it still reads."""


def violations(comparison: Comparison, custom_ops: bool = False) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del custom_ops  # what is refused is not written
    before, after = comparison.before, comparison.after
    intent = Intent()
    for name, altered in comparison.facts.altered.items():
        old, new = before[name], after[name]
        gone = [other.name for other in old.colocated if other.exists]
        if "colocated" in altered:
            intent.changed.append(name)
            intent.altered.append(Altered(name, "colocated", tuple(gone)))
        if "op" in altered:
            intent.changed.append(name)
            intent.altered += _op(old, new)
            if new.op == "NoOp" and any(read.node is old for user in old.graph.users(old) for read in user.inputs):
                yield f"{quoted(name)} has no outputs any more, but has consumers"
            if _reads_variable(new, old):
                yield f"{quoted(name)} reads a variable, but is not an op of variables any more"
        if new.op == "Const":
            value = constant(new)
            if value is None or value.values != [True] or value.shape:
                yield f"{quoted(name)} should be true"
    intent.changed = [*dict.fromkeys(intent.changed)]
    yield from audit(comparison, intent)
    for node in after.nodes():
        if any(not other.exists for other in node.colocated):
            yield f"{quoted(node.name)} is still colocated with a missing node"
        wants = node.input_dtypes or ()
        for read, wanted in zip(node.inputs, wants, strict=False):
            if wanted > REF and 0 < read.dtype < REF:
                yield f"{quoted(node.name)} still needs a variable, but reads the value {quoted(read.name)}"


def _op(old: Node, new: Node) -> list[Altered]:
    """What a node is that wanted a variable."""
    op, first = BECOMES.get(old.op, (old.op.removeprefix("Ref"), 0))
    if "Apply" in old.op or (old.op not in BECOMES and "Scatter" in old.op):  # which nobody reads: see below
        op, first = "NoOp", 9
    reads = tuple(read.name for read in old.inputs)
    out = [Altered(new.name, "op", op), Altered(new.name, "inputs", reads[first:])]
    if op == "NoOp":
        waits = [read.node.name for read in old.inputs] + [control.name for control in old.controls]
        out.append(Altered(new.name, "controls", tuple(dict.fromkeys(waits))))
    if not old.op.startswith("Ref"):
        keys = dict.fromkeys((*old.attr_keys, *new.attr_keys))
        out += [Altered(new.name, f"attr {key}", new.attr_bytes(key)) for key in keys if not key.startswith("_")]
    return out


def _reads_variable(new: Node, old: Node) -> bool:
    """Whether what a node read first is a variable, so that there was nothing to mend."""
    read = old.inputs[0]
    now = new.graph.base_node(read.node.name)
    dtype = next((output.dtype for output in now.outputs[read.index :]), 0) if now.exists else 0
    return dtype > REF or dtype == RESOURCE
