"""Compares the declared changes of an edit with the actual changes.

Execution shows the values of tensors. A control edge, a device or a colocation may be lost without any change of
values, and an output that is compared with the wrong counterpart proves nothing. Therefore the actual changes are found
by a comparison of the graphs that has no information about the edit, and each of them must be declared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator

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
    # Added nodes that have the name of a removed node may differ in everything.
    replaced = {name for name in intent.added if name in before and name not in intent.renamed}
    changed, added = frozenset(intent.changed), frozenset(intent.added)
    declared: dict[str, dict[str, Value]] = defaultdict(dict)
    for item in intent.altered:
        declared[item.node][item.what] = item.value

    def may_differ(node: str, what: str) -> bool:
        """Returns whether `what` of the node is declared as changed. Without details, all of the node may differ."""
        return node in replaced or (node in changed and (node not in declared or what in declared[node]))

    faults = [
        *_added_and_removed(facts, intent, replaced, unsaid),
        *_rewirings(facts, after, intent, may_differ, unsaid),
    ]
    for name, altered in facts.altered.items():
        for what, (was, now) in altered.items():
            is_neighbor_lost = what == "colocated" and tuple(each for each in was or () if each not in replaced) == now
            if not may_differ(name, what) and not is_neighbor_lost:
                faults.append(f"{quoted(name)} differs: {difference_text(what, was, now)}")
    faults += _other_fields(facts, intent, replaced, unsaid)
    for name, values in declared.items():
        node = after.find(name)
        if node is None:
            faults.append(f"{quoted(name)} is missing in the result")
            continue
        verb = "was added" if name in added else "was changed"
        for what, value in values.items():
            if _property(node, what, is_set=isinstance(value, frozenset)) != value:
                faults.append(f"{quoted(name)} {verb}, but its {what} is not as declared")
    faults += _functions(facts, after, intent, unsaid)
    for copies in intent.copies:
        from gdsurgeon.compare.copies import differing_copies

        faults += differing_copies(copies, before, after, intent)
    return faults


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
    added, new = {*facts.added}, {*intent.added} - replaced
    yield from _compared("added", added, new, new - added, unsaid)
    # Sets of a million names need much memory.
    if facts.removed != intent.removed or not replaced.isdisjoint(intent.removed):
        removed, lost = {*facts.removed}, {*intent.removed} - replaced
        yield from _compared("removed", removed - added, lost, lost - removed, unsaid)
    for old, name in facts.renamed.items():
        if intent.after(old) != name:
            yield f"{quoted(old)} was renamed to {quoted(name)}, but {unsaid}"
    for old, name in intent.renamed.items():
        if facts.renamed.get(old) != name:
            yield f"{quoted(old)} was declared as renamed to {quoted(name)}, but was not"


def _rewirings(
    facts: Facts, after: Graph, intent: Intent, may_differ: Callable[[str, str], bool], unsaid: str
) -> Iterator[str]:
    if facts.rewired == intent.rewired:
        return
    declared = {(slot.node, slot.slot): slot.new for slot in intent.rewired}
    for name, slot, _, new in facts.rewired:
        if declared.get((name, slot), new if may_differ(name, "inputs") else None) != new:
            yield f"input {slot} of {quoted(name)} is {quoted(new)}, but {unsaid}"
    found = {(slot.node, slot.slot) for slot in facts.rewired}
    for (name, slot), new in declared.items():
        node = after.find(name)
        if (name, slot) not in found and node is not None and [r.name for r in node.inputs[slot : slot + 1]] != [new]:
            yield f"input {slot} of {quoted(name)} was declared as {quoted(new)}, but is different"


def _other_fields(facts: Facts, intent: Intent, replaced: set[str], unsaid: str) -> Iterator[str]:
    """Yields the undeclared differences of a graph outside its nodes and functions."""
    implied = {f"gradient of {name}" for name in (*intent.functions.removed, *intent.functions.added)}
    implied |= {f"place of {name}" for name in replaced}
    for what, (was, now) in facts.graph_fields.items():
        if what in implied or (intent.is_sorted and what.startswith("place of ")):
            continue
        if what not in intent.graph_fields or intent.graph_fields[what] != now:
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
