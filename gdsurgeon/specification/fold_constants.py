"""Constant folding: each new constant depends only on constants and shapes, and runs once in each run.

Values that depend only on constants are computed again from the file with `evaluate`; for values that follow from
shapes, the proof compares the node, which keeps its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import GdsurgeonError, quoted
from gdsurgeon.graph.attrs import attr_value, shape_of
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.records import NODE
from gdsurgeon.graph.writing import encoded, node_def
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.constants import elements
from gdsurgeon.specification.equivalence import BITS, Equivalence
from gdsurgeon.specification.fuse_ops import OF_ITS_OWN
from gdsurgeon.specification.nodes import kept_names, named_by_node
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import GraphDef, NodeDef
from gdsurgeon.wire.write import read_chunks

_SHAPE_ALONE = frozenset(("Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"))
_ATTRS = ("dtype", "value")


class Value(Protocol):
    """A computed tensor."""

    dtype: int
    shape: tuple[int, ...]
    data: memoryview | list[bytes]


def fold_constants(
    comparison: Comparison,
    outputs: Sequence[str] = (),
    max_growth: int = 0,
    evaluate: Callable[[bytes, Sequence[str]], Mapping[str, Value]] | None = None,
    opens: bool = False,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after, facts = comparison.before, comparison.after, comparison.facts
    found = _Fixed(Equivalence(before, ("checks",)))
    folded = [name for name in facts.altered if after[name].op == "Const" and before[name].op != "Const"]
    intent = Intent(removed=facts.removed)
    kept = kept_names(before, outputs)
    for name in folded:
        if name in kept or not any(True for _ in found.same.table.users(found.same.table.rows[name])):
            yield f"{quoted(name)} became a constant, but is an output"
        yield from (f"{quoted(name)} became a constant, but {line}" for line in found.faults(before[name], after[name]))
        values = {f"attr {key}": after[name].attr_bytes(key) for key in (*before[name].attr_keys, *_ATTRS)}
        nothing = dict.fromkeys(("inputs", "controls", "colocated"), ())
        intent.alter(name, {"op": "Const", "attrs": _ATTRS, **nothing, **values})
    yield from _lost(comparison, found.same, {*folded}, kept)
    for name in folded if opens else ():
        if not _is_opened(comparison, found.same, name):
            yield f"{quoted(name)} is a shape with an open dim that the other dims do not determine"
    if evaluate is not None and not opens:
        yield from _others(comparison, folded, found, evaluate)
    if after.source.size > before.source.size + max_growth:
        yield f"the file has grown by {after.source.size - before.source.size:,} bytes"
    yield from audit(comparison, intent)


class _Fixed:
    """The nodes of a file that depend on no input.

    Attributes:
        same: facts about its nodes.
        shaped: for each row, whether it depends only on constants and the shapes of tensors.
        computed: for each row, whether it depends only on constants.
    """

    def __init__(self, same: Equivalence) -> None:
        self.same = same
        table, ops, size = same.table, same.table.ops, len(same.table.names)
        self.shaped, self.computed = bytearray(size), bytearray(size)
        inputs, constants, of_shapes = map(same.numbered, (PLACEHOLDERS, ("Const",), _SHAPE_ALONE))
        for row in same.rows:
            if not same.free[row] or ops[row] in inputs:
                continue
            producers = [code >> BITS for code in table.inputs(row) if code >= 0]
            is_shaped = ops[row] in of_shapes or all(map(self.shaped.__getitem__, producers))
            if is_shaped and (producers or ops[row] in constants) and not same.edges(row)[1]:
                self.shaped[row] = 1
                self.computed[row] = all(map(self.computed.__getitem__, producers))

    def faults(self, old: Node, new: Node) -> Iterator[str]:
        """Yields the faults of a constant `new` that replaces `old`."""
        row = self.same.table.rows[old.name]
        if self.same.branching[row] or self.same.dead[row]:
            yield "belonged to a branch or a loop"
        if not self.shaped[row]:
            yield "depends on more than constants and shapes"
        if old.output_dtypes != new.output_dtypes:
            yield "had a different dtype"
        if new.device != old.device:
            yield "is on a different device"


def _is_opened(comparison: Comparison, same: Equivalence, name: str) -> bool:
    """Returns whether a constant is a shape with one dim of -1 that only Reshape nodes read."""
    row = same.table.rows[name]
    for user in same.table.users(row):
        reads, waited = same.edges(user)
        places = [at for at, code in enumerate(reads) if code >> BITS == row]
        if same.table.op(user) != "Reshape" or places != [1] or row in waited:
            return False
    value = constant(comparison.after[name])
    dims = [dim for dim in value.values if isinstance(dim, int)] if value is not None and len(value.shape) == 1 else []
    return dims.count(-1) == 1 and min(dims, default=0) == -1 and 0 not in dims


def _lost(comparison: Comparison, same: Equivalence, folded: set[str], kept: set[str]) -> Iterator[str]:
    """Yields removed nodes that are needed for more than the folded values."""
    gone = {*comparison.facts.removed}
    for name in gone:
        row = same.table.rows[name]
        users = [same.table.names[user] for user in same.table.users(row)]
        if same.table.op(row) in PLACEHOLDERS or name in kept or not same.free[row]:
            yield f"{quoted(name)} was removed, but is needed for more than its consumers"
        elif not users or not all(user in gone or user in folded for user in users):
            yield f"{quoted(name)} was removed, but has other consumers, or had none"


def _others(
    comparison: Comparison,
    folded: Sequence[str],
    found: _Fixed,
    evaluate: Callable[[bytes, Sequence[str]], Mapping[str, Value]],
) -> Iterator[str]:
    """Yields the constants with wrong values."""
    rows = found.same.table.rows
    names = [name for name in folded if found.computed[rows[name]]]
    if not names:
        return
    try:
        values = evaluate(_piece(comparison, found, names), names)
    except GdsurgeonError:
        return  # a failure to run is reported elsewhere
    for name in names:
        if name in values and not _is(comparison.after[name], values[name]):
            yield f"{quoted(name)} is a constant with a wrong value"


def _piece(comparison: Comparison, found: _Fixed, names: Sequence[str]) -> bytes:
    """Returns a GraphDef that computes `names`."""
    same, rows = found.same, found.same.table.rows
    pending = [rows[name] for name in names]
    seen = dict.fromkeys(pending)
    records: list[bytes] = []
    while pending:
        row = pending.pop()
        records.append(_anywhere(comparison.before[same.table.names[row]]))
        new = [code >> BITS for code in same.edges(row)[0] if code >> BITS not in seen]
        new = list(dict.fromkeys(new))
        seen |= dict.fromkeys(new)
        pending += new
    owner = comparison.before.owner
    definition = GraphDef()
    definition.versions.CopyFrom((comparison.before if owner is None else owner).store.versions)
    functions = comparison.before.functions
    named = [name for row in seen for name in named_by_node(comparison.before[same.table.names[row]])]
    for name in functions.reachable(named) if functions else ():
        definition.library.function.add().CopyFrom(functions[name])
    for inner in (node for function in definition.library.function for node in function.node_def):
        _tell(inner)
    return b"".join([*records, definition.SerializeToString()])


def _anywhere(node: Node) -> bytes:
    """Returns the record of a node without a device."""
    if not node.device and not node.has_attr("_class") and node.op == "Const":
        return read_chunks(encoded(node))
    definition = node_def(node)
    definition.device = ""
    definition.attr.pop("_class", None)
    _tell(definition)
    return encode_len(NODE, definition.SerializeToString())


def _tell(node: NodeDef) -> None:
    """Makes a call run its function without optimization, which would round differently."""
    if node.op in ("PartitionedCall", "StatefulPartitionedCall"):
        node.attr["config_proto"].s = OF_ITS_OWN


def _is(node: Node, value: Value) -> bool:
    """Returns whether a Const has this value, bit for bit."""
    if not isinstance(value.data, list):
        return elements(node) == (value.dtype, value.shape, bytes(value.data))
    tensor = attr_value(node.attr_bytes("value") or b"").tensor
    held = tensor.dtype, shape_of(tensor.tensor_shape), list(tensor.string_val)
    return held == (STRING, value.shape, value.data)
