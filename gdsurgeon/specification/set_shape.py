"""set-shape: inputs have the shapes that are spelt; shapes noted behind them are gone, and batches in Reshapes open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Intent, made
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import Shape, shape_of, shape_value, type_value
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import INT32, INT64
from gdsurgeon.ops.kinds import STATED_SHAPES


def violations(
    comparison: Comparison, shapes: Sequence[tuple[str, Shape]], fix_batch: bool = False, **_: object
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after = comparison.before, comparison.after
    wanted = {name.removesuffix(":0"): shape for name, shape in shapes}
    intent = Intent()
    for name, shape in wanted.items():
        if _shape(before[name]) != shape:
            intent.changed.append(name)
            intent.altered += [Altered(name, "attr shape", shape_value(shape).SerializeToString(deterministic=True))]
    for name in _behind(before.store.table, intent.changed):
        if before[name].has_attr(STATED_SHAPES):
            intent.changed.append(name)
            intent.altered.append(Altered(name, f"attr {STATED_SHAPES}", None))
            if after[name].has_attr(STATED_SHAPES):
                yield f"{quoted(name)} still states its former output shapes"
    if fix_batch:
        yield from _opened(comparison, intent, {dims[0] for name in wanted if (dims := _shape(before[name]))})
    yield from audit(comparison, intent)


def _shape(node: Node) -> Shape:
    value = node.attr("shape")
    return None if value is None else shape_of(value.shape)


def _behind(table: Table, names: Sequence[str]) -> list[str]:
    """The nodes NAMES, and all that is computed from one, in the order of the file."""
    rows = [table.rows[name] for name in names]
    reached = closure(rows, lambda row: [user for user in table.users(row) if _reads(table, user, row)])
    return [table.names[row] for row in sorted(reached)]


def _reads(table: Table, user: int, row: int) -> bool:
    codes = (code for code in table.inputs(user) if code >> Table.PORT_BITS == row)
    return any(code & Table.CONTROL_PORT != Table.CONTROL_PORT for code in codes)


def _opened(comparison: Comparison, intent: Intent, batches: set[int]) -> Iterator[str]:
    """Reshapes that read a shape of which the batch is -1 now; a constant that others read too is left as it is."""
    after = comparison.after
    for name, altered in comparison.facts.altered.items():
        if set(altered) == {"attr value"}:
            intent.changed.append(name)
            readers = [after[user] for user in after.store.users(name)]
            if any(user.op != "Reshape" or user.inputs[0].node.name == name for user in readers):
                yield f"{quoted(name)} was changed, but has consumers other than Reshapes"
            yield from _is_opened(comparison.before[name], after[name], batches)
    for slot in comparison.facts.rewired:
        node, name = after[slot.node], slot.new
        if node.op == "Reshape" and slot.slot == 1 and name in comparison.facts.added:
            intent.rewired.append(slot)
            intent.added.append(name)
            # What holds a constant to its place, such as a branch, is a control input.
            source = comparison.before.tensor(slot.old)
            old = source.node
            waits = [control.name for control in old.controls] if old.op == "Const" else ()
            dtype = type_value(INT64 if source.dtype == INT64 else INT32).SerializeToString()
            intent.altered += made(name, "Const", (), waits, old.device, {"dtype": dtype, "value": None})
            yield from _is_opened(old, after[name], batches)
    intent.added = list(dict.fromkeys(intent.added))


def _is_opened(old: Node, new: Node, batches: set[int]) -> Iterator[str]:
    """Whether one shape is the other with -1 in the place of a batch: of the first size that is one, or holds one."""
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
