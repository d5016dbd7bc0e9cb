"""set-shape: inputs have the new shapes, stated shapes after them are removed, and batches in Reshapes become -1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import Shape, shape_of, shape_value, type_value
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import INT32, INT64
from gdsurgeon.ops.kinds import STATED_SHAPES
from gdsurgeon.specification.rows import Rows


def violations(
    comparison: Comparison, shapes: Sequence[tuple[str, Shape]], fix_batch: bool = False, **_: object
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after = comparison.before, comparison.after
    wanted = {name.removesuffix(":0"): shape for name, shape in shapes}
    intent = Intent()
    for name, shape in wanted.items():
        if _shape(before[name]) != shape:
            intent.alter(name, {"attr shape": shape_value(shape)})
    rows = Rows(before)
    for row in sorted(closure(map(rows.row, intent.changed), rows.consumers)):
        if before[name := rows.names[row]].has_attr(STATED_SHAPES):
            intent.alter(name, {f"attr {STATED_SHAPES}": None})
            if after[name].has_attr(STATED_SHAPES):
                yield f"{quoted(name)} still states its former output shapes"
    if fix_batch:
        yield from _opened(comparison, intent, {dims[0] for name in wanted if (dims := _shape(before[name]))})
    yield from audit(comparison, intent)


def _shape(node: Node) -> Shape:
    value = node.attr("shape")
    return None if value is None else shape_of(value.shape)


def _opened(comparison: Comparison, intent: Intent, batches: set[int]) -> Iterator[str]:
    """Declares the Reshapes whose batch becomes -1. A constant with other consumers does not change."""
    before, after = comparison.before, comparison.after
    for name, altered in comparison.facts.altered.items():
        if set(altered) == {"attr value"}:
            intent.changed.append(name)
            readers = [after[user] for user in after.store.users(name)]
            if any(user.op != "Reshape" or user.inputs[0].node.name == name for user in readers):
                yield f"{quoted(name)} was changed, but has consumers other than Reshapes"
            yield from _is_opened(before[name], after[name], batches)
    for slot in comparison.facts.rewired:
        name = slot.new
        if after[slot.node].op == "Reshape" and slot.slot == 1 and name in comparison.facts.added:
            intent.rewired.append(slot)
            source = before.tensor(slot.old)
            old = source.node
            # A control input can bind a constant to a branch, for example.
            controls = [control.name for control in old.controls] if old.op == "Const" else ()
            dtype = type_value(INT64 if source.dtype == INT64 else INT32)
            intent.add(name, "Const", (), controls, old.device, {"dtype": dtype, "value": None})
            yield from _is_opened(old, after[name], batches)


def _is_opened(old: Node, new: Node, batches: set[int]) -> Iterator[str]:
    """Yields a line unless the new shape is the old one with -1 instead of the first size that contains a batch."""
    was, now = constant(old), constant(new)
    if was is None or now is None or len(was.values) != len(now.values):
        return
    sizes = [size for size in was.values if isinstance(size, int)]
    exact = [at for at, size in enumerate(sizes) if size in batches]
    held = [at for at, size in enumerate(sizes) if any(b > 0 and size > 0 and size % b == 0 for b in batches)]
    opened = [at for at, size in enumerate(now.values) if size == -1]
    kept = all(a in (b, -1) or at in opened for at, (a, b) in enumerate(zip(was.values, now.values, strict=True)))
    if len(opened) != 1 or opened[0] not in (exact[:1] or held) or not kept:
        yield f"{quoted(new.name)} is {now.values}, but was {was.values}: this does not open a batch dim"
