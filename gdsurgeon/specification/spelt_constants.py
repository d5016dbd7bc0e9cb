"""simplify for a different engine: each constant stores all its elements, unchanged, and has one consumer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Intent, made
from gdsurgeon.errors import quoted
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import DTYPES
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.specification.constants import elements


def spelt_constants(comparison: Comparison, outputs: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del outputs
    before, after, facts = comparison.before, comparison.after, comparison.facts
    intent = Intent(added=facts.added, changed=[])
    originals: dict[str, str] = {}
    for slot in facts.rewired:
        if slot.new in facts.added and originals.setdefault(slot.new, slot.old) == slot.old:
            intent.rewired.append(slot)
    for name in facts.added:
        old = before.find(originals.get(name, ""))
        if old is None or old.op != "Const":
            yield f"{quoted(name)} was added, but is not a copy of a constant"
            continue
        yield from _faults(old, after[name])
        keys = dict.fromkeys(key for key in old.attr_keys if key != COLOCATION_ATTR)
        attrs = {key: old.attr_bytes(key) if key != "value" else None for key in keys}
        intent.altered += made(name, "Const", (), [each.name for each in old.controls], old.device, attrs)
    for name in facts.altered:
        if before[name].op == "Const":
            yield from _faults(before[name], after[name])
            intent.changed.append(name)
            intent.altered.append(Altered(name, "attr value", after[name].attr_bytes("value")))
    yield from audit(comparison, intent)
    yield from not_spelt_out(after)


def not_spelt_out(graph: Graph) -> Iterator[str]:
    """Yields a line for each constant of `graph` that several inputs read or that does not store each element."""
    read = Counter(output.node.name for node in graph.nodes() for output in node.inputs)
    for node in graph.nodes():
        if node.op == "Const" and read[node.name] > 1:
            yield f"{quoted(node.name)} has {read[node.name]} consumers"
        if node.op == "Const" and not _is_whole(node):
            yield f"{quoted(node.name)} does not spell out all its elements"


def _is_whole(node: Node) -> bool:
    """Returns whether a constant of numbers stores each of its elements; true for any other constant."""
    header = constant_header(node)
    dtype = DTYPES.get(header.dtype) if header is not None else None
    if header is None or header.content_bytes or dtype is None or not dtype.size:
        return True
    return header.values >= header.elements or header.dims is None or min(header.dims, default=0) < 0


def _faults(old: Node, new: Node) -> Iterator[str]:
    if new.attr_bytes("value") == old.attr_bytes("value"):
        return
    was, now = elements(old), elements(new)
    if was is None or was != now:
        yield f"{quoted(new.name)} does not have the elements of {quoted(old.name)}"
