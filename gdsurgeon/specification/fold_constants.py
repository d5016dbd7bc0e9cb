"""Constant folding: each new constant depends only on constants and shapes, and runs once in each run.

The proof compares the values: each new constant keeps the name of the node that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.equivalence import BITS, Equivalence
from gdsurgeon.specification.nodes import kept_names

_SHAPE_ALONE = frozenset(("Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"))
_ATTRS = ("dtype", "value")


def fold_constants(
    comparison: Comparison, outputs: Sequence[str] = (), max_growth: int = 0, opens: bool = False
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after, facts = comparison.before, comparison.after, comparison.facts
    same = Equivalence(before, ("checks",))
    shaped = _shaped(same)
    folded = dict.fromkeys(name for name in facts.altered if after[name].op == "Const" and before[name].op != "Const")
    intent = Intent(removed=facts.removed)
    kept, gone = kept_names(before, outputs), dict.fromkeys(facts.removed)
    for name in folded:
        old, new, row = before[name], after[name], same.table.rows[name]
        if name in kept or not any(True for _ in same.table.users(row)):
            yield f"{quoted(name)} became a constant, but is an output"
        if same.branching[row] or same.dead[row]:
            yield f"{quoted(name)} became a constant, but belonged to a branch or a loop"
        if not shaped[row]:
            yield f"{quoted(name)} became a constant, but depends on more than constants and shapes"
        if old.output_dtypes != new.output_dtypes:
            yield f"{quoted(name)} became a constant of a different dtype"
        if opens and not _is_opened(same, new):
            yield f"{quoted(name)} is a shape with an open dim that the other dims do not determine"
        values = {f"attr {key}": new.attr_bytes(key) for key in (*old.attr_keys, *_ATTRS)}
        nothing = dict.fromkeys(("inputs", "controls", "colocated"), ())
        intent.alter(name, {"op": "Const", "device": old.device, "attrs": _ATTRS, **nothing, **values})
    for name in gone:
        row = same.table.rows[name]
        users = [same.table.names[user] for user in same.table.users(row)]
        if same.table.op(row) in PLACEHOLDERS or name in kept or not same.free[row]:
            yield f"{quoted(name)} was removed, but is needed for more than its consumers"
        elif not users or not all(user in gone or user in folded for user in users):
            yield f"{quoted(name)} was removed, but has other consumers, or had none"
    if after.source.size > before.source.size + max_growth:
        yield f"the file has grown by {after.source.size - before.source.size:,} bytes"
    yield from audit(comparison, intent)


def _shaped(same: Equivalence) -> bytearray:
    """Returns for each row whether it depends only on constants and the shapes of tensors."""
    table, ops = same.table, same.table.ops
    out = bytearray(len(table.names))
    inputs, constants, of_shapes = map(same.numbered, (PLACEHOLDERS, ("Const",), _SHAPE_ALONE))
    for row in same.rows:
        if same.free[row] and ops[row] not in inputs:
            producers = [code >> BITS for code in table.inputs(row) if code >= 0]
            is_shaped = ops[row] in of_shapes or all(map(out.__getitem__, producers))
            out[row] = is_shaped and bool(producers or ops[row] in constants) and not same.edges(row)[1]
    return out


def _is_opened(same: Equivalence, new: Node) -> bool:
    """Returns whether a constant is a shape with one dim of -1 that only Reshape nodes read."""
    row = same.table.rows[new.name]
    for user in same.table.users(row):
        reads, waited = same.edges(user)
        places = [at for at, code in enumerate(reads) if code >> BITS == row]
        if same.table.op(user) != "Reshape" or places != [1] or row in waited:
            return False
    value = constant(new)
    dims = [dim for dim in value.values if isinstance(dim, int)] if value is not None and len(value.shape) == 1 else []
    return dims.count(-1) == 1 and min(dims, default=0) == -1 and 0 not in dims
