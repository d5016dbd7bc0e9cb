"""Compares the declared changes of an edit with the actual changes.

Execution shows the values of tensors. A control edge, a device or a colocation may be lost without any change of
values, and an output that is compared with the wrong counterpart proves nothing. Therefore the actual changes are found
by a comparison of the graphs that has no information about the edit, and each of them must be declared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

from gdsurgeon.compare.comparison import Comparison, difference_text
from gdsurgeon.compare.intent import Facts, Intent, Value
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node


def audit(comparison: Comparison, intent: Intent, unsaid: str = "this was not requested") -> list[str]:
    """Returns one line for each difference between the graphs that is not declared, and for each wrong declaration.

    Args:
        comparison: of the graph before the edit and the written graph.
        intent: the declared changes.
        unsaid: the words for a change that is not declared.
    """
    before, after, facts = comparison.before, comparison.after, comparison.facts
    declared = _Declared(intent, before)
    faults = [
        *_added_and_removed(facts, intent, declared.replaced, unsaid),
        *_rewirings(facts, after, declared, unsaid),
        *(
            f"{quoted(node)} differs: {difference_text(what, was, now)}"
            for node, altered in facts.altered.items()
            for what, (was, now) in altered.items()
            if not declared.may_differ(node, what) and not declared.is_lost_neighbor(what, was, now)
        ),
        *_other_fields(facts, intent, declared.replaced, unsaid),
    ]
    for name in dict.fromkeys(item.node for item in intent.altered):
        node = after.find(name)
        faults += declared.mismatched(node) if node is not None else [f"{quoted(name)} is missing in the result"]
    faults += _functions(facts, after, intent, unsaid)
    for copies in intent.copies:
        from gdsurgeon.compare.copies import differing_copies

        faults += differing_copies(copies, before, after, intent)
    return faults


class _Declared:
    """The declarations of an edit by node.

    Attributes:
        replaced: the added nodes that have the name of a removed node: they may differ in everything.
        slots: the declared inputs; `rewired` has the input of each slot.
    """

    def __init__(self, intent: Intent, before: Graph) -> None:
        self.replaced = {name for name in intent.added if name in before and name not in intent.renamed}
        self.slots = intent.rewired
        self._changed = frozenset(intent.changed)
        self._added = frozenset(intent.added)
        self._altered: dict[str, dict[str, Value]] = {}
        for item in intent.altered:
            self._altered.setdefault(item.node, {})[item.what] = item.value

    @cached_property
    def rewired(self) -> dict[tuple[str, int], str]:
        return {(slot.node, slot.slot): slot.new for slot in self.slots}

    def mismatched(self, node: Node) -> list[str]:
        """Returns one line for each property of `node` that is not as declared."""
        verb = "was added" if node.name in self._added else "was changed"
        return [
            f"{quoted(node.name)} {verb}, but its {what} is not as declared"
            for what, value in self._altered.get(node.name, {}).items()
            if _property(node, what, is_set=isinstance(value, frozenset)) != value
        ]

    def may_differ(self, node: str, what: str) -> bool:
        """Returns whether the edit declares `what` of the node as changed.

        Without details, all of the node may differ.
        """
        return node in self.replaced or (
            node in self._changed and (node not in self._altered or what in self._altered[node])
        )

    def is_lost_neighbor(self, what: str, before: Value, now: Value) -> bool:
        """Returns whether the only change is that replaced nodes are not colocated with it any more."""
        is_colocated = what == "colocated" and isinstance(before, tuple)
        return is_colocated and tuple(name for name in before or () if name not in self.replaced) == now


def _property(node: Node, what: str, *, is_set: bool) -> Value:
    if what.startswith("attr "):
        return node.attr_bytes(what[5:])
    if what in ("op", "device"):
        return node.op if what == "op" else node.device
    if what == "attrs":
        return tuple(sorted(node.attr_keys))
    return (frozenset if is_set else tuple)(other.name for other in getattr(node, what))


def _compared(
    verb: str, found: Collection[str], declared: Collection[str], missing: Collection[str], unsaid: str, kind: str = ""
) -> Iterator[str]:
    """Yields the names that were added or removed without a declaration, and the `missing` declared ones."""
    for name in sorted({*found} - {*declared}):
        yield f"{kind}{quoted(name)} was {verb}, but {unsaid}"
    for name in sorted(missing):
        yield f"{kind}{quoted(name)} was declared as {verb}, but {'is missing' if verb == 'added' else 'still exists'}"


def _added_and_removed(facts: Facts, intent: Intent, replaced: set[str], unsaid: str) -> Iterator[str]:
    added, removed = {*facts.added}, {*facts.removed}
    new, lost = {*intent.added} - replaced, {*intent.removed} - replaced
    yield from _compared("added", added, new, new - added, unsaid)
    yield from _compared("removed", removed - added, lost, lost - removed, unsaid)
    for old, name in facts.renamed.items():
        if intent.after(old) != name:
            yield f"{quoted(old)} was renamed to {quoted(name)}, but {unsaid}"
    for old, name in intent.renamed.items():
        if facts.renamed.get(old) != name:
            yield f"{quoted(old)} was declared as renamed to {quoted(name)}, but was not"


def _rewirings(facts: Facts, after: Graph, declared: _Declared, unsaid: str) -> Iterator[str]:
    if facts.rewired == declared.slots:
        return
    for name, slot, _, new in facts.rewired:
        if declared.rewired.get((name, slot), new if declared.may_differ(name, "inputs") else None) != new:
            yield f"input {slot} of {quoted(name)} is {quoted(new)}, but {unsaid}"
    found = {(slot.node, slot.slot) for slot in facts.rewired}
    for (name, slot), new in declared.rewired.items():
        node = after.find(name)
        if (name, slot) not in found and node is not None and [r.name for r in node.inputs[slot : slot + 1]] != [new]:
            yield f"input {slot} of {quoted(name)} was declared as {quoted(new)}, but is different"


def _other_fields(facts: Facts, intent: Intent, replaced: set[str], unsaid: str) -> Iterator[str]:
    """Yields the undeclared differences of a graph outside its nodes and functions."""
    implied = {f"gradient of {name}" for name in (*intent.functions.removed, *intent.functions.added)}
    implied |= {f"place of {name}" for name in replaced}
    for what, (was, now) in facts.graph_fields.items():
        if what not in implied and (what not in intent.graph_fields or intent.graph_fields[what] != now):
            change = "was added" if was is None else "was removed" if now is None else "was changed"
            yield f"the {printable(what)} {change}, but {unsaid}"
    for what in intent.graph_fields:
        if what not in facts.graph_fields:
            yield f"the {what} were declared as changed, but are unchanged"


def _functions(facts: Facts, after: Graph, intent: Intent, unsaid: str) -> Iterator[str]:
    declared, found, library = intent.functions, facts.functions, after.functions
    missing = [name for name in declared.added if name not in library]
    yield from _compared("added", found.added, declared.added, missing, unsaid, "the function ")
    kept = [name for name in declared.removed if name in library]
    yield from _compared("removed", found.removed, declared.removed, kept, unsaid, "the function ")
    changed = {*declared.changed, *declared.added}
    yield from _compared("changed", found.changed, changed, (), unsaid, "the function ")
