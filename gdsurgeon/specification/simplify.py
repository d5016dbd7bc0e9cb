"""simplify: remaining nodes read tensors with the same values and keep their control dependencies; effects are kept.

A tensor that replaces a different one must be equal to it in the original file, by rules of a second implementation
(`equivalence`). Then all values are the same, by induction along the edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Intent, Rewired
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import Serving
from gdsurgeon.ops.dtypes import RESOURCE, VARIANT, base_dtype
from gdsurgeon.ops.kinds import CONTROL_FLOW, PLACEHOLDERS, is_random
from gdsurgeon.specification.equivalence import BITS, PORT, REFUSING, Equivalence
from gdsurgeon.specification.sharing import calling_nodes, named_by_node
from gdsurgeon.specification.spelt_constants import not_spelt_out

_ALL = ("inline", "unread", "control-edges", "conditions", "checks", "stop-gradients", "identities", "neutral", "pairs",
        "equal-nodes", "functions")  # fmt: skip


def simplify(
    comparison: Comparison,
    outputs: Sequence[str] = (),
    passes: Sequence[str] = (),
    skip: Sequence[str] = (),
    *,
    engine: str = "",
    **folding: object,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`; `folding` has arguments of other stages."""
    del folding
    facts = comparison.facts
    rules = [name for name in passes or _ALL if name not in skip]
    same = Equivalence(comparison.before, rules)
    used = _used(comparison.after)
    intent = Intent(removed=facts.removed)
    intent.functions.removed = [name for name in facts.functions.removed if name not in used]
    yield from _lost(comparison, same, outputs)
    for slot in facts.rewired:
        intent.rewired.append(slot)
        if not _may_read(comparison, same, slot):
            yield (f"{quoted(slot.node)} reads {quoted(slot.new)} instead of {quoted(slot.old)}, which is not equal")
    for name, altered in facts.altered.items():
        old, new = comparison.before[name], comparison.after[name]
        joined = _is_joined(same, old, new)
        mine = [what for what in altered if what == "controls" or (joined and _of_a_merge(what))]
        if "controls" in altered:
            yield from _waits(comparison, same, old, new)
        intent.changed += [name] if mine else []
        intent.altered += [Altered(name, what, altered[what][1]) for what in mine if what != "controls"]
        if "controls" in mine:
            intent.altered.append(Altered(name, "controls", tuple(control.name for control in new.controls)))
    yield from audit(comparison, intent)
    if engine:
        yield from not_spelt_out(comparison.after)


def _used(graph: Graph) -> set[str]:
    """Returns the functions that the nodes of a file call, directly or indirectly, with their gradients."""
    if not graph.functions:
        return set()
    named = dict.fromkeys(name for node in calling_nodes(graph) for name in named_by_node(node))
    return set(graph.functions.reachable(named, gradients=True))


def _lost(comparison: Comparison, same: Equivalence, outputs: Sequence[str]) -> Iterator[str]:
    """Yields removed nodes that must be kept."""
    serving = comparison.before.serving or Serving()
    named = {*serving.nodes}
    ends = {parse_tensor(text).node for text in outputs}
    for name in sorted(ends - {node for node in ends if node in comparison.after}):
        yield f"{quoted(name)} was removed, but is an output"
    for name in comparison.facts.removed:
        row = same.table.rows[name]
        if same.table.op(row) in PLACEHOLDERS:
            yield f"{quoted(name)} was removed, but is an input"
        elif name in named:
            yield f"{quoted(name)} was removed, but the model's signatures or saver use it"
        elif not outputs and not same.dead[row]:
            if _lasts(same, row):
                yield f"{quoted(name)} was removed, but has a lasting effect"
            elif not serving.called and not comparison.before.ends and _is_output(same, row):
                yield f"{quoted(name)} was removed, but has no consumers, so it is an output"


def _lasts(same: Equivalence, row: int) -> bool:
    op, serving = same.table.op(row), same.graph.serving
    if (op == "NoOp" or serving is not None) and not any(True for _ in same.table.users(row)):
        waited = same.edges(row)[1]
        if op == "NoOp" and same.waits(waited):
            return True  # it may be fetched to run its control inputs
        if serving is not None and any(is_lasting(same, other) for other in waited):
            return True  # a saver fetches it
    return is_lasting(same, row)


def is_lasting(same: Equivalence, row: int) -> bool:
    """Returns whether a row has an effect after the run, or controls other nodes."""
    op = same.table.op(row)
    if op in CONTROL_FLOW or same.is_quiet(row) or (op in REFUSING and "checks" in same.rules):
        return False
    definition = same.graph.op_def(op)
    draws = definition is not None and is_random(op) and all(arg.dtype != RESOURCE for arg in definition.inputs)
    return not draws


def _is_output(same: Equivalence, row: int) -> bool:
    """Returns whether a node without consumers may be fetched."""
    if row not in same.table.unread or same.table.op(row) == "Const" or same.branching[row]:
        return False
    dtypes = same.graph[same.table.names[row]].output_dtypes
    is_value = dtypes is None or not all(base_dtype(dtype) in (RESOURCE, VARIANT) for dtype in dtypes)
    return is_value and dtypes != []


def _code(same: Equivalence, text: str) -> int | None:
    """Returns the code of a tensor of the file; None if the node does not exist."""
    row, port = same.table.rows.get(text), 0
    if row is None:
        name, port = parse_tensor(text)
        row = same.table.rows.get(name)
    return None if row is None else row << BITS | port


def _may_read(comparison: Comparison, same: Equivalence, slot: Rewired) -> bool:
    old, new = (_code(same, text) for text in (slot.old, slot.new))
    if old is None or new is None:
        return False
    if same.is_same(old, new) or (same.is_dead(old) and same.is_dead(new)):
        return True
    shapes = comparison.before[slot.node].op == "Reshape" and slot.slot == 0 and "pairs" in same.rules
    return shapes and same.is_same(same.elements(old), same.elements(new))


def _is_joined(same: Equivalence, old: Node, new: Node) -> bool:
    """Returns whether a Merge became an Identity of its only live input."""
    if (old.op, new.op) != ("Merge", "Identity") or len(new.inputs) != 1:
        return False
    row = same.table.rows.get(new.inputs[0].node.name)
    code = same.table.rows[old.name] << BITS
    return row is not None and same.normal(code) != code and same.is_same(code, row << BITS | new.inputs[0].index)


def _of_a_merge(what: str) -> bool:
    return what in ("op", "inputs", "attr N", "attr _output_shapes")


def _waits(comparison: Comparison, same: Equivalence, old: Node, new: Node) -> Iterator[str]:
    """Yields missing and undeclared control dependencies of a node; a data input counts as one."""
    rows = same.table.rows
    read = [code for output in new.inputs if (code := _code(same, output.name)) is not None]
    waited = [rows[control.name] for control in old.controls]
    had, needed = same.waits(waited), same.waits_beside(read, waited)
    now = same.waits([rows[control.name] for control in new.controls if control.name in rows])
    new_ones = now - had
    there = {*new_ones, *map(same.normal, read), *(code >> BITS << BITS | PORT for code in read)}
    for code in sorted(needed - now):
        if not any(same.is_same(code, other) for other in there):
            yield (
                f"{quoted(new.name)} lacks the required control dependency on {quoted(same.table.names[code >> BITS])}"
            )
    for code in sorted(new_ones):
        if not any(same.is_same(code, other) for other in had):
            yield (
                f"{quoted(new.name)} has a control dependency on {quoted(same.table.names[code >> BITS])}, "
                "which was not requested"
            )
