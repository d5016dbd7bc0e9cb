"""Compares the declared changes of an edit with the actual ones: nothing undeclared was added, removed or changed.

Execution shows what the values are. A control edge, a device or a colocation may be lost and no value show it; and an
output that is compared with the wrong counterpart proves nothing. So what is different is found by a comparison of the
graphs that knows nothing of the edit, and each difference must be one that was intended.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Facts, Intent, Value
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.text import an, or_nothing


def audit(comparison: Comparison, intent: Intent, unsaid: str = "this was not requested") -> list[str]:
    """What differs between the graphs and is not intended, a line each; [] where all is accounted for.

    Args:
        comparison: of the graph without the edit and the graph with it, as it is written.
        intent: the declared changes.
        unsaid: the words for what is not.
    """
    before, after, facts = comparison.before, comparison.after, comparison.facts
    # A new node that took the place and the name of one: all about it may be different.
    replaced = {name for name in intent.added if name in before and name not in intent.renamed}
    known = _Known(intent, replaced, unsaid)
    faults = [
        *_comings_and_goings(facts, intent, known),
        *_rewirings(facts, after, known),
        *_alterations(facts, known),
        *_beside(facts, intent, known),
        *_unsaid_beside(facts, intent),
    ]
    for name in dict.fromkeys(item.node for item in intent.altered):
        node = after.find(name)
        faults += known.untrue(node) if node is not None else [f"{quoted(name)} is missing in the result"]
    faults += _functions(facts, after, intent, unsaid)
    for copies in intent.copies:
        from gdsurgeon.compare.copies import differing_copies

        faults += differing_copies(copies, before, after, intent)
    return faults


class _Known:
    """What the edit says, for quick questions."""

    def __init__(self, intent: Intent, replaced: set[str], unsaid: str) -> None:
        self.unsaid = unsaid
        self.replaced = replaced
        self._changed = frozenset(intent.changed)
        self._added = frozenset(intent.added)
        self.rewired = {(slot.node, slot.slot): slot.new for slot in intent.rewired}
        self._altered: dict[str, dict[str, Value]] = {}
        for item in intent.altered:
            self._altered.setdefault(item.node, {})[item.what] = item.value

    def untrue(self, node: Node) -> list[str]:
        """What the edit says of a node and does not hold."""
        verb = "was added" if node.name in self._added else "was changed"
        return [
            f"{quoted(node.name)} {verb}, but its {what} is not as declared"
            for what, value in self._altered.get(node.name, {}).items()
            if _now(node, what) != value
        ]

    def may_differ(self, node: str, what: str) -> bool:
        """Returns whether the edit declares `what` of the node as changed; without details, all of the node may
        differ.
        """
        return node in self.replaced or (
            node in self._changed and (node not in self._altered or what in self._altered[node])
        )

    def is_given_up(self, what: str, before: Value, now: Value) -> bool:
        """Whether all that is different is that what was to go is no longer mentioned as a neighbour."""
        if what != "colocated" or not isinstance(before, tuple):
            return False
        return tuple(name for name in before if name not in self.replaced) == now


def _now(node: Node, what: str) -> Value:
    if what.startswith("attr "):
        return node.attr_bytes(what[5:])
    if what == "inputs":
        return tuple(read.name for read in node.inputs)
    if what == "controls":
        return tuple(control.name for control in node.controls)
    if what == "attrs":
        return tuple(sorted(node.attr_keys))
    if what == "colocated":
        return tuple(other.name for other in node.colocated)
    return node.op if what == "op" else node.device


def _comings_and_goings(facts: Facts, intent: Intent, known: _Known) -> Iterator[str]:
    added, removed = set(facts.added), set(facts.removed)
    said_added, said_removed = set(intent.added) - known.replaced, set(intent.removed) - known.replaced
    for name in sorted(added - said_added):
        yield f"{quoted(name)} was added, but {known.unsaid}"
    for name in sorted(said_added - added):
        yield f"{quoted(name)} was declared as added, but is missing"
    for name in sorted(removed - said_removed - added):
        yield f"{quoted(name)} was removed, but {known.unsaid}"
    for name in sorted(said_removed - removed):
        yield f"{quoted(name)} was declared as removed, but still exists"
    for old, new in facts.renamed.items():
        if intent.after(old) != new:
            yield f"{quoted(old)} was renamed to {quoted(new)}, but {known.unsaid}"
    for old, new in intent.renamed.items():
        if facts.renamed.get(old) != new:
            yield f"{quoted(old)} was declared as renamed to {quoted(new)}, but was not"


def _rewirings(facts: Facts, after: Graph, known: _Known) -> Iterator[str]:
    for name, slot, _, new in facts.rewired:
        if known.rewired.get((name, slot), new if known.may_differ(name, "inputs") else None) != new:
            yield f"input {slot} of {quoted(name)} is {quoted(new)}, but {known.unsaid}"
    found = {(slot.node, slot.slot) for slot in facts.rewired}
    for (name, slot), new in known.rewired.items():
        node = after.find(name)
        if (name, slot) not in found and node is not None and [r.name for r in node.inputs[slot : slot + 1]] != [new]:
            yield f"input {slot} of {quoted(name)} was declared as {quoted(new)}, but is different"


def _alterations(facts: Facts, known: _Known) -> Iterator[str]:
    """What is different about nodes that were there before."""
    for node, altered in facts.altered.items():
        for what, (before, now) in altered.items():
            if not known.may_differ(node, what) and not known.is_given_up(what, before, now):
                yield f"{quoted(node)} {_told(what, before, now)}"


def _told(what: str, before: Value, now: Value) -> str:
    if what.startswith("attr "):
        return f"has a different {quoted(what[5:])}"
    if what == "op":
        return f"is {an(str(now))}, but was {an(str(before))}"
    if what == "device":
        return f"has the device {quoted(str(now))}, but had {quoted(str(before))}"
    if what == "other fields":
        return "has unknown or changed fields"
    was, has = list(before or ()), list(now or ())
    if what == "inputs":
        return f"has {len(has)} inputs, but had {len(was)}"
    changed = "has different control inputs" if what == "controls" else "is colocated with different nodes"
    return f"{changed}: {or_nothing(map(str, has))} instead of {or_nothing(map(str, was))}"


def _beside(facts: Facts, intent: Intent, known: _Known) -> Iterator[str]:
    """Yields the undeclared differences of a graph outside its nodes and functions."""
    gone = {f"gradient of {name}" for name in (*intent.functions.removed, *intent.functions.added)}
    gone |= {f"place of {name}" for name in known.replaced}
    for what, (was, now) in facts.beside.items():
        if what not in gone and (what not in intent.beside or intent.beside[what] != now):
            change = "was added" if was is None else "was removed" if now is None else "was changed"
            yield f"the {printable(what)} {change}, but {known.unsaid}"


def _unsaid_beside(facts: Facts, intent: Intent) -> Iterator[str]:
    yield from (
        f"the {what} were declared as changed, but are unchanged" for what in intent.beside if what not in facts.beside
    )


def _functions(facts: Facts, after: Graph, intent: Intent, unsaid: str) -> Iterator[str]:
    said, found = intent.functions, facts.functions
    for name in sorted(set(found.added) - set(said.added)):
        yield f"the function {quoted(name)} was added, but {unsaid}"
    for name in sorted(name for name in said.added if name not in after.functions):
        yield f"the function {quoted(name)} was declared as added, but is missing"
    for name in sorted(set(found.removed) - set(said.removed)):
        yield f"the function {quoted(name)} was removed, but {unsaid}"
    for name in sorted(name for name in said.removed if name in after.functions):
        yield f"the function {quoted(name)} was declared as removed, but still exists"
    for name in sorted(set(found.changed) - set(said.changed) - set(said.added)):
        yield f"the function {quoted(name)} was changed, but {unsaid}"
