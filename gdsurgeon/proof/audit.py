"""Holds what is said of an edit against what is different: nothing has come, gone or changed that is not said.

Execution shows what the values are. A control edge, a device or a colocation may be lost and no value show it; and an
output that is compared with the wrong counterpart proves nothing. So what is different is found by a comparison of the
graphs that knows nothing of the edit, and each difference must be one that was intended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gdsurgeon.comparison.compare import Comparison, is_same_attr
from gdsurgeon.comparison.facts import Facts, Value
from gdsurgeon.edits.claims import EditResult, Postprocessed, Preprocessed, SameGiven, SamePart
from gdsurgeon.edits.intent import Intent
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.attrs import attr_value, functions_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import COLOCATION_ATTR
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import ENTER
from gdsurgeon.wire.protos import FunctionDef

FRAME_NAME, SHARED_NAME = "frame_name", "shared_name"
_NAMES = frozenset((COLOCATION_ATTR, FRAME_NAME, SHARED_NAME, "var_name", "container", "use_node_name_sharing"))
"""Attrs that hold names, which a copy spells in its own way."""


def audit(comparison: Comparison, result: EditResult) -> list[str]:
    """What differs between the graphs and is not intended, a line each; [] where all is accounted for.

    Args:
        comparison: of the graph without the edit and the graph with it, as it is written.
        result: of the edit.
    """
    before, after, facts, intent = comparison.before, comparison.after, comparison.facts, result.intent
    known = _Known(intent)
    faults = [
        *_comings_and_goings(facts, after, intent),
        *_rewirings(facts, after, known),
        *_alterations(facts, known),
        *_beside(facts, intent),
    ]
    for name in dict.fromkeys(item.node for item in intent.altered if item.what != "function"):
        node = after.find(name)
        faults += known.untrue(node) if node is not None else [f"{quoted(name)} was to be there, and is not"]
    faults += _functions(facts, after, intent)
    for copies in _copies(before, result):
        faults += _copied(copies, before, after, intent)
    for name, (_, inner) in result.inside.items():
        body = comparison.inside.get(name)
        found = audit(body, inner) if body is not None else ["nothing is different"]
        faults += (f"in the function {quoted(name)} {fault}" for fault in found)
    return faults


class _Known:
    """What the edit says, for quick questions."""

    def __init__(self, intent: Intent) -> None:
        replaced = frozenset(intent.added).intersection(intent.removed)
        self._changed = frozenset(intent.changed) | replaced
        self._added = frozenset(intent.added)
        self.rewired = {(slot.node, slot.slot): slot.new for slot in intent.rewired}
        self._altered: dict[str, dict[str, Value]] = {}
        for item in intent.altered:
            if item.what != "function":
                self._altered.setdefault(item.node, {})[item.what] = item.value

    def untrue(self, node: Node) -> list[str]:
        """What the edit says of a node and does not hold."""
        verb = "was made" if node.name in self._added else "was changed"
        return [
            f"{quoted(node.name)} {verb}, and its {what} is not what the edit says"
            for what, value in self._altered.get(node.name, {}).items()
            if _now(node, what) != value
        ]

    def may_differ(self, node: str, what: str) -> bool:
        """Whether the edit says that this of the node is another; where it does not say what is, all may be."""
        return node in self._changed and (node not in self._altered or what in self._altered[node])


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


def _comings_and_goings(facts: Facts, after: Graph, intent: Intent) -> Iterator[str]:
    added, removed = set(facts.added), set(facts.removed)
    replaced = set(intent.added).intersection(intent.removed) - added - removed
    said_added, said_removed = set(intent.added) - replaced, set(intent.removed) - replaced
    for name in sorted(added - said_added):
        yield f"{quoted(name)} was added, and the edit does not say so"
    for name in sorted(said_added - added):
        yield f"{quoted(name)} was to be added, and was not"
    for name in sorted(removed - said_removed - added):
        yield f"{quoted(name)} is gone, and the edit does not say so"
    for name in sorted(said_removed - removed):
        yield f"{quoted(name)} was to be removed, and is still there"
    for old, new in facts.renamed.items():
        if intent.after(old) != new:
            yield f"{quoted(old)} is called {quoted(new)}, and the edit does not say so"
    for old, new in intent.renamed.items():
        node = after.find(new)
        if node is None or facts.renamed.get(old) != new:
            yield f"{quoted(old)} was to be called {quoted(new)}, and is not"


def _rewirings(facts: Facts, after: Graph, known: _Known) -> Iterator[str]:
    for name, slot, _, new in facts.rewired:
        if known.rewired.get((name, slot), new if known.may_differ(name, "inputs") else None) != new:
            yield f"{quoted(name)} reads {quoted(new)} at input {slot}, and the edit does not say so"
    found = {(slot.node, slot.slot) for slot in facts.rewired}
    for (name, slot), new in known.rewired.items():
        node = after.find(name)
        if (name, slot) not in found and node is not None and [r.name for r in node.inputs[slot : slot + 1]] != [new]:
            yield f"{quoted(name)} was to read {quoted(new)} at input {slot}, and does not"


def _alterations(facts: Facts, known: _Known) -> Iterator[str]:
    """What is different about nodes that were there before."""
    for node, altered in facts.altered.items():
        for what, (before, now) in altered.items():
            if not known.may_differ(node, what):
                yield f"{quoted(node)} {_told(what, before, now)}"


def _told(what: str, before: Value, now: Value) -> str:
    if what.startswith("attr "):
        return f"has another {quoted(what[5:])}"
    if what == "op":
        return f"is a {printable(str(now))}, and was a {printable(str(before))}"
    if what == "device":
        return f"asks for the device {quoted(str(now))}, and did for {quoted(str(before))}"
    was, has = list(before or ()), list(now or ())
    if what == "inputs":
        return f"has {len(has)} inputs, and had {len(was)}"
    verb, did = ("waits for", "did for") if what == "controls" else ("is colocated with", "was with")
    return f"{verb} {_listed(map(str, has))}, and {did} {_listed(map(str, was))}"


def _beside(facts: Facts, intent: Intent) -> Iterator[str]:
    """What is different about a graph beside its nodes and functions."""
    gone = {f"gradient of {name}" for name in (*intent.functions.removed, *intent.functions.added)}
    for what, (was, now) in facts.beside.items():
        if what not in gone:
            change = "was added" if was is None else "is gone" if now is None else "is another"
            yield f"the {printable(what)} {change}, and the edit does not say so"


def _functions(facts: Facts, after: Graph, intent: Intent) -> Iterator[str]:
    said, found = intent.functions, facts.functions
    for name in sorted(set(found.added) - set(said.added)):
        yield f"the function {quoted(name)} was added, and the edit does not say so"
    for name in sorted(name for name in said.added if name not in after.functions):
        yield f"the function {quoted(name)} was to be added, and was not"
    for name in sorted(set(found.removed) - set(said.removed)):
        yield f"the function {quoted(name)} is gone, and the edit does not say so"
    for name in sorted(name for name in said.removed if name in after.functions):
        yield f"the function {quoted(name)} was to be removed, and is still there"
    for name in sorted(set(found.changed) - set(said.changed) - set(said.added)):
        yield f"the function {quoted(name)} is another, and the edit does not say so"
    for item in intent.altered:
        function = after.functions.get(item.node) if item.what == "function" else None
        if function is not None and function.SerializeToString(deterministic=True) != item.value:
            yield f"the function {quoted(item.node)} is not what the edit says"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names)) or "nothing"


# -- copies ---------------------------------------------------------------------------------------------------


class _Copies(NamedTuple):
    """Nodes of a graph that were copied.

    Attributes:
        originals: the graph.
        names: what the copies are called.
        outside: for tensors of the graph, the tensor that a copy reads in their place.
        is_own: whether it is the graph that was edited: a copy may read what its original reads.
    """

    originals: Graph
    names: Mapping[str, str]
    outside: Mapping[str, str]
    is_own: bool


def _copies(before: Graph, result: EditResult) -> Iterator[_Copies]:
    copied = result.intent.copied
    for claim in result.claims:
        if isinstance(claim, Preprocessed):
            yield _Copies(claim.pre, copied, {i.part_input: i.name for i in claim.inputs}, False)
        elif isinstance(claim, Postprocessed):
            yield _Copies(claim.post, copied, {i.part_input: i.raw for i in claim.outputs}, False)
        elif isinstance(claim, SamePart):
            yield _Copies(claim.part, copied, claim.inputs, False)
        elif isinstance(claim, SameGiven) and claim.copies:
            yield _Copies(before, claim.copies, claim.given, True)


def _copied(copies: _Copies, before: Graph, after: Graph, intent: Intent) -> Iterator[str]:
    """What is different between nodes and their copies, beyond names and what the copies read from outside."""
    frames: dict[str, str] = {}
    made: set[Node] = set()
    for name, copied in copies.names.items():
        old, new = copies.originals.find(name), after.find(copied)
        if old is None or new is None:
            yield f"{quoted(name)} was to be copied as {quoted(copied)}, and was not"
            continue
        made.add(new)
        yield from _copy(old, new, copies, intent)
        if old.op in ENTER:
            frame, its = _text(old, FRAME_NAME), _text(new, FRAME_NAME)
            if frames.setdefault(frame, its) != its:
                yield f"{quoted(copied)} leads into the frame {quoted(its)}, and others into {quoted(frames[frame])}"
    yield from _shared_frames(after, made, set(frames.values()))
    if copies.is_own:
        yield from _shared_resources(before, copies, after)
    yield from _copied_functions(copies.originals, before, after, intent)


def _copied_functions(originals: Graph, before: Graph, after: Graph, intent: Intent) -> Iterator[str]:
    """Functions that have come along with the nodes, but for their names and those that they share resources by."""
    names = {new: old for old, new in intent.renamed_functions.items()}
    for name in intent.functions.added:
        old, new = originals.functions.get(names.get(name, name)), after.functions.get(name)
        if old is None or new is None or name in before.functions:
            continue
        if _plain(old, intent.renamed_functions) != _plain(new, {}):
            yield f"the function {quoted(name)} is not what it was copied from"


def _plain(function: FunctionDef, renamed: Mapping[str, str]) -> FunctionDef:
    """A copy of FUNCTION without names of its own, those of other functions as RENAMED."""
    out = type(function)()
    out.CopyFrom(function)
    out.signature.name = ""
    for node in out.node_def:
        node.op = renamed.get(node.op, node.op)
        for key in (SHARED_NAME, "container", "use_node_name_sharing"):
            node.attr.pop(key, None)
        for value in node.attr.values():
            for func in functions_in(value):
                func.name = renamed.get(func.name, func.name)
    return out


def _copy(old: Node, new: Node, copies: _Copies, intent: Intent) -> Iterator[str]:
    what = f"{quoted(new.name)}, the copy of {quoted(old.name)},"
    if old.op != new.op and intent.renamed_functions.get(old.op, old.op) != new.op:
        yield f"{what} is a {printable(new.op)}, not a {printable(old.op)}"
        return
    if old.device != new.device:
        yield f"{what} asks for the device {quoted(new.device)}, not for {quoted(old.device)}"
    if len(old.inputs) != len(new.inputs):
        yield f"{what} has {len(new.inputs)} inputs, not {len(old.inputs)}"
        return
    for slot, (read, now) in enumerate(zip(old.inputs, new.inputs, strict=True)):
        wanted = _counterpart(read.node.name, read.index, copies)
        if wanted is not None and now.name != wanted:
            yield f"{what} reads {quoted(now.name)} at input {slot}, not {quoted(wanted)}"
    waits = {control.name for control in new.controls}
    wanted_waits = {_counterpart_node(control.name, copies) for control in old.controls}
    if None not in wanted_waits and waits != wanted_waits:
        yield f"{what} waits for {_listed(sorted(waits))}, not for {_listed(sorted(map(str, wanted_waits)))}"
    together = {_counterpart_node(other.name, copies) for other in old.colocated if other.exists}
    if None not in together and {other.name for other in new.colocated} != together:
        yield f"{what} is colocated with {_listed(sorted(other.name for other in new.colocated))}"
    for key in dict.fromkeys((*old.attr_keys, *new.attr_keys)):
        if key not in _NAMES and not _same_attr(old, new, key, intent.renamed_functions):
            yield f"{what} has another {quoted(key)}"


def _counterpart(node: str, index: int, copies: _Copies) -> str | None:
    """The tensor that a copy reads where its original reads output INDEX of NODE; None where that cannot be told."""
    tensor = format_input(node, index)
    if tensor in copies.outside:
        return copies.outside[tensor]
    if node in copies.names:
        return format_input(copies.names[node], index)
    return tensor if copies.is_own else copies.outside.get(node)


def _counterpart_node(node: str, copies: _Copies) -> str | None:
    """Likewise the node that it waits for, or stands beside: inside one graph only what is copied is exchanged."""
    if node in copies.names or copies.is_own:
        return copies.names.get(node, node)
    tensor = copies.outside.get(node)
    return None if tensor is None else parse_tensor(tensor).node


def _same_attr(old: Node, new: Node, key: str, renamed: Mapping[str, str]) -> bool:
    if is_same_attr(old, new, key):
        return True
    before, now = old.attr_bytes(key), new.attr_bytes(key)
    if before is None or now is None:
        return False
    mine, theirs = attr_value(before), attr_value(now)
    for func in functions_in(mine):
        func.name = renamed.get(func.name, func.name)
    return bool(mine == theirs)


def _text(node: Node, key: str) -> str:
    value = node.plain_attr(key)
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""


def _shared_frames(after: Graph, copies: set[Node], frames: set[str]) -> Iterator[str]:
    """A frame that copies lead into is no other loop's, or the iterations of the two are mixed up."""
    if not frames:
        return
    for node in after.nodes():
        if node.op in ENTER and node not in copies and _text(node, FRAME_NAME) in frames:
            yield f"the frame {quoted(_text(node, FRAME_NAME))} of {quoted(node.name)} is also that of a copied loop"
            return


def _shared_resources(before: Graph, copies: _Copies, after: Graph) -> Iterator[str]:
    """A copy does not share its table or variable with its original, unless others share it too."""
    shared = {
        name: _text(node, SHARED_NAME)
        for name in copies.names
        if (node := before.find(name)) is not None and node.has_attr(SHARED_NAME)
    }
    same = {
        name: text
        for name, text in shared.items()
        if text and (copy := after.find(copies.names[name])) is not None and _text(copy, SHARED_NAME) == text
    }
    if not same:
        return
    common = {_text(n, SHARED_NAME) for n in before.nodes() if n.has_attr(SHARED_NAME) and n.name not in shared}
    for name, text in same.items():
        if text not in common:
            yield f"{quoted(copies.names[name])} shares {quoted(text)} with {quoted(name)}, of which it is a copy"
