"""The stage of simplify that removes nodes that return their input, given known shapes.

It is checked that each removed node can only return its input or fail. The proof compares both tensors, which shows
that the shapes are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Intent, Rewired
from gdsurgeon.errors import quoted
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import Serving
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.equivalence import BITS, PORT, Equivalence
from gdsurgeon.specification.simplify import is_lasting

_SUMMING = frozenset(("All", "Any", "Max", "Mean", "Min", "Prod", "Sum"))
_SAME_ELEMENTS = _SUMMING | {"BroadcastTo", "EnsureShape", "ExpandDims", "Reshape", "Slice", "Squeeze", "StridedSlice"}


def same_shape(comparison: Comparison, outputs: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after, facts = comparison.before, comparison.after, comparison.facts
    same = Equivalence(before, ("checks",))
    intent = Intent(removed=facts.removed, rewired=facts.rewired)
    kept = {*(before.serving or Serving()).nodes, *(parse_tensor(text).node for text in outputs)}
    for name in facts.removed:
        row = same.table.rows[name]
        is_read = any(True for _ in same.table.users(row))
        is_plain = before[name].op in _SAME_ELEMENTS or same.free[row] or not is_lasting(same, row)
        if name in kept or before[name].op in PLACEHOLDERS or not is_read or not is_plain:
            yield f"{quoted(name)} was removed, but is more than a shape"
    for slot in facts.rewired:
        if not _leads_to(comparison, same, slot):
            yield (f"{quoted(slot.node)} reads {quoted(slot.new)} instead of {quoted(slot.old)}, which is not equal")
    for name, altered in facts.altered.items():
        if "controls" in altered:
            old, new = before[name], after[name]
            intent.changed.append(name)
            controls = tuple(control.name for control in new.controls)
            intent.altered.append(Altered(name, "controls", controls))
            if {*controls} != {_awaited(same, control, {*facts.removed}) for control in old.controls}:
                yield f"{quoted(name)} has different control inputs"
    yield from audit(comparison, intent)


def _leads_to(comparison: Comparison, same: Equivalence, slot: Rewired) -> bool:
    """Returns whether only nodes that may return their input are between two tensors."""
    old, new = parse_tensor(slot.old), parse_tensor(slot.new)
    if new.node not in comparison.before:
        return False
    code, wanted = (same.table.rows[ref.node] << BITS | ref.port for ref in (old, new))
    while code != wanted:
        row = code >> BITS
        reads, waited = same.edges(row)
        node = comparison.before[same.table.names[row]]
        kept = None if waited or code & PORT else _kept(same, row, reads)
        if kept is not None:
            code = kept
            continue
        if node.op not in _SAME_ELEMENTS or waited or not all(same.free[read >> BITS] for read in reads[1:]):
            return False
        if not _may_be_whole(node):
            return False
        code = reads[0]
    return True


def _kept(same: Equivalence, row: int, reads: Sequence[int]) -> int | None:
    """Returns the tensor that dropout with probability 0 keeps; otherwise None."""
    op = same.table.op(row)
    if op in ("Select", "SelectV2") and len(reads) == 3 and _holds(same, reads[0]):
        return reads[1]
    if op != "Mul" or len(reads) != 2:
        return None
    return next((reads[1 - at] for at, code in enumerate(reads) if _is_one(same, code)), None)


def _is_one(same: Equivalence, code: int) -> bool:
    """Returns whether all elements of a tensor are 1: the floor of a number from 1 to 2, or true as a number."""
    op, reads = _plain(same, code)
    if op == "Cast":
        return _holds(same, reads[0])
    return op == "Floor" and _bounds(same, reads[0]) == (1, 2)


def _holds(same: Equivalence, code: int) -> bool:
    """Returns whether all elements of a tensor are true, because uniform values are not below a number."""
    op, reads = _plain(same, code)
    bounds = _bounds(same, reads[0]) if op == "GreaterEqual" else None
    least = _number(same, reads[1]) if bounds is not None else None
    return bounds is not None and least is not None and bounds[0] >= least


def _bounds(same: Equivalence, code: int) -> tuple[float, float] | None:
    """Returns the bounds of random values, the second one excluded."""
    plus = 0.0
    while True:
        op, reads = _plain(same, code)
        if op == "RandomUniform":
            return plus, plus + 1
        numbers = [_number(same, read) for read in reads] if op in ("Add", "AddV2") else []
        if 0 not in numbers and 1 not in numbers:
            return None
        at = next(at for at, number in enumerate(numbers) if number in (0, 1))
        plus += numbers[at] or 0
        code = reads[1 - at]


def _plain(same: Equivalence, code: int) -> tuple[str, list[int]]:
    reads, waited = same.edges(code >> BITS)
    return ("", []) if waited or code & PORT else (same.table.op(code >> BITS), reads)


def _number(same: Equivalence, code: int) -> float | None:
    found = constant(same.graph[same.table.names[code >> BITS]])
    value = found.values[0] if found is not None and found.shape == () and found.values else None
    return value if isinstance(value, float) else None


def _may_be_whole(node: Node) -> bool:
    """Returns whether a slice may be a slice of the whole tensor, or a reduction may combine single elements."""
    values = [found.values if (found := constant(read.node)) is not None else None for read in node.inputs[1:]]
    if node.op == "Slice":
        return values[0] is not None and not any(values[0])
    if node.op == "StridedSlice":
        masks = [node.setting(f"{key}_mask") for key in ("ellipsis", "new_axis", "shrink_axis")]
        return not any(masks) and values[2] is not None and all(step == 1 for step in values[2])
    if node.op in _SUMMING:
        return bool(node.setting("keep_dims")) or values[0] is None  # of a scalar nothing says so
    return True


def _awaited(same: Equivalence, control: Node, gone: set[str]) -> str:
    """Returns the control inputs that replace those from a removed node."""
    name = control.name
    while name in gone:
        reads, _ = same.edges(same.table.rows[name])
        if not reads:
            break
        name = same.table.names[reads[0] >> BITS]
    return name
