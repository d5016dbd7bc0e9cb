"""repair: ops on variables become ops on values, and colocations with missing nodes are removed."""

from __future__ import annotations

from collections.abc import Iterator

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent, Value
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
"""Ops that require a variable, with the op on a value, and the first input that it still reads."""


def repair(comparison: Comparison, custom_ops: bool = False) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del custom_ops  # a refused graph is not written
    before, after = comparison.before, comparison.after
    intent = Intent()
    for name, altered in comparison.facts.altered.items():
        old, new = before[name], after[name]
        if "colocated" in altered:
            intent.alter(name, {"colocated": tuple(other.name for other in old.colocated if other.exists)})
        if "op" in altered:
            intent.alter(name, _expected(old, new))
            if new.op == "NoOp" and any(read.node is old for user in old.graph.users(old) for read in user.inputs):
                yield f"{quoted(name)} has no outputs any more, but has consumers"
            if _reads_variable(new, old):
                yield f"{quoted(name)} reads a variable, but is not an op of variables any more"
        if new.op == "Const":
            value = constant(new)
            if value is None or value.values != [True] or value.shape:
                yield f"{quoted(name)} should be true"
    yield from audit(comparison, intent)
    for node in after.nodes():
        if any(not other.exists for other in node.colocated):
            yield f"{quoted(node.name)} is still colocated with a missing node"
        wants = node.input_dtypes or ()
        for read, wanted in zip(node.inputs, wants, strict=False):
            if wanted > REF and 0 < read.dtype < REF:
                yield f"{quoted(node.name)} still needs a variable, but reads the value {quoted(read.name)}"


def _expected(old: Node, new: Node) -> dict[str, Value]:
    """Returns the expected fields of a node that required a variable."""
    op, first = BECOMES.get(old.op, (old.op.removeprefix("Ref"), 0))
    if "Apply" in old.op or (old.op not in BECOMES and "Scatter" in old.op):  # without consumers: see above
        op, first = "NoOp", 9
    reads = tuple(read.name for read in old.inputs)
    out: dict[str, Value] = {"op": op, "inputs": reads[first:]}
    if op == "NoOp":
        controls = [read.node.name for read in old.inputs] + [control.name for control in old.controls]
        out["controls"] = tuple(dict.fromkeys(controls))
    if not old.op.startswith("Ref"):
        keys = [key for key in (*old.attr_keys, *new.attr_keys) if not key.startswith("_")]
        out |= {f"attr {key}": new.attr_bytes(key) for key in keys}
    return out


def _reads_variable(new: Node, old: Node) -> bool:
    """Returns whether input 0 of a node is a variable, so that the node needed no repair."""
    read = old.inputs[0]
    now = new.graph.base_node(read.node.name)
    dtype = next((output.dtype for output in now.outputs[read.index :]), 0) if now.exists else 0
    return dtype > REF or dtype == RESOURCE
