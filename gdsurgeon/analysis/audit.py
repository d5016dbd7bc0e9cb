"""Holds the journal of an edit against the two graphs: nothing has come, gone or changed that it does not say.

Execution shows what the values are. A control edge, a device or a colocation may be lost and no value show it; and an
output that is compared with the wrong counterpart proves nothing. So what pairs the graphs is audited itself. Nodes
that were not touched are copied byte for byte when the graph is written: only those that were are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdsurgeon.analysis.control_flow import ENTER
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import functions_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import COLOCATION_ATTR
from gdsurgeon.graph.journal import EditResult, Journal, Postprocessed, Preprocessed, SameGiven, SamePart
from gdsurgeon.graph.names import format_input
from gdsurgeon.graph.node import Node

FRAME_NAME = "frame_name"
_NAMES = frozenset((COLOCATION_ATTR, FRAME_NAME, "shared_name", "var_name", "container", "use_node_name_sharing"))
"""Attrs that hold names, which a copy spells in its own way."""


def audit(before: Graph, after: Graph, result: EditResult) -> list[str]:
    """What differs between the graphs and is not in the journal, a line each; [] where it is complete.

    Args:
        before: the graph without the edit.
        after: the same graph with it.
        result: of the edit.
    """
    journal = result.journal
    faults = [*_comings_and_goings(after, journal)]
    known = _Known(journal)
    for node in after.touched():
        if node.base_name is not None:
            faults += _changes(before[node.base_name], node, known)
    for originals, copies in _copies(before, result):
        faults += _copied(originals, after, copies)
    return faults


class _Known:
    """The journal, for quick questions."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.changed = frozenset(journal.changed)
        self.rewired = {(slot.node, slot.slot): slot.new for slot in journal.rewired}
        self.functions_renamed = bool(journal.renamed_functions or journal.functions.changed)


def _comings_and_goings(after: Graph, journal: Journal) -> Iterator[str]:
    added = {node.name for node in after.touched() if node.base_name is None}
    removed = {node.base_name for node in after.removed()}
    said_added, said_removed = set(journal.added), set(journal.removed)
    for name in sorted(added - said_added - said_removed):
        yield f"{quoted(name)} was added, and the edit does not say so"
    for name in sorted(said_added - added):
        yield f"{quoted(name)} was to be added, and was not"
    for name in sorted(n for n in removed - said_removed if n is not None and n not in added):
        yield f"{quoted(name)} is gone, and the edit does not say so"
    for name in sorted(said_removed - removed):
        yield f"{quoted(name)} was to be removed, and is still there"
    for old, new in journal.renamed.items():
        node = after.find(new)
        if node is None or node.base_name != old:
            yield f"{quoted(old)} was to be called {quoted(new)}, and is not"


def _changes(old: Node, new: Node, known: _Known) -> Iterator[str]:
    """What is different about a node that was there before."""
    journal = known.journal
    if journal.after(old.name) != new.name:
        yield f"{quoted(old.name)} is called {quoted(new.name)}, and the edit does not say so"
    if new.name in known.changed:
        return
    if old.op != new.op:
        yield f"{quoted(new.name)} is a {new.op}, and was a {old.op}"
    if old.device != new.device:
        yield f"{quoted(new.name)} asks for the device {quoted(new.device)}, and did for {quoted(old.device)}"
    yield from _inputs(old, new, known)
    before = sorted(journal.after(control.name) for control in old.controls)
    now = sorted(control.name for control in new.controls)
    if before != now:
        yield f"{quoted(new.name)} waits for {_listed(now)}, and did for {_listed(before)}"
    for key in new.changed_attrs:
        if old.attr_bytes(key) != new.attr_bytes(key) and not (known.functions_renamed and _calls(new, key)):
            yield f"{quoted(new.name)} has another {quoted(key)}"


def _inputs(old: Node, new: Node, known: _Known) -> Iterator[str]:
    if len(old.inputs) != len(new.inputs):
        yield f"{quoted(new.name)} has {len(new.inputs)} inputs, and had {len(old.inputs)}"
        return
    for slot, (was, now) in enumerate(zip(old.inputs, new.inputs, strict=True)):
        same = format_input(known.journal.after(was.node.name), was.index)
        if known.rewired.get((new.name, slot), same) != now.name:
            yield f"{quoted(new.name)} reads {quoted(now.name)} at input {slot}, and the edit does not say so"


def _calls(node: Node, key: str) -> bool:
    value = node.attr(key)
    return value is not None and any(True for _ in functions_in(value))


def _listed(names: list[str]) -> str:
    return ", ".join(map(quoted, names)) or "nothing"


# -- copies ---------------------------------------------------------------------------------------------------


def _copies(before: Graph, result: EditResult) -> Iterator[tuple[Graph, Mapping[str, str]]]:
    """The graphs of which nodes were copied, with what the copies are called."""
    for claim in result.claims:
        if isinstance(claim, Preprocessed):
            yield claim.pre, result.journal.copied
        elif isinstance(claim, Postprocessed):
            yield claim.post, result.journal.copied
        elif isinstance(claim, SamePart):
            yield claim.part, result.journal.copied
        elif isinstance(claim, SameGiven) and claim.copies:
            yield before, claim.copies


def _copied(originals: Graph, after: Graph, names: Mapping[str, str]) -> Iterator[str]:
    """What is different between nodes and their copies, beyond names and what the copies read from outside."""
    frames: dict[str, str] = {}
    copies: set[Node] = set()
    for name, copied in names.items():
        old, new = originals.find(name), after.find(copied)
        if old is None or new is None:
            yield f"{quoted(name)} was to be copied as {quoted(copied)}, and was not"
            continue
        copies.add(new)
        yield from _copy(old, new, names)
        if old.op in ENTER:
            frame, its = _frame(old), _frame(new)
            if frames.setdefault(frame, its) != its:
                yield f"{quoted(copied)} leads into the frame {quoted(its)}, and others into {quoted(frames[frame])}"
    yield from _shared_frames(after, copies, set(frames.values()))


def _copy(old: Node, new: Node, names: Mapping[str, str]) -> Iterator[str]:
    what = f"{quoted(new.name)}, the copy of {quoted(old.name)},"
    if old.op != new.op:
        yield f"{what} is a {new.op}, not a {old.op}"
        return
    if len(old.inputs) != len(new.inputs):
        yield f"{what} has {len(new.inputs)} inputs, not {len(old.inputs)}"
        return
    for slot, (read, now) in enumerate(zip(old.inputs, new.inputs, strict=True)):
        copied = names.get(read.node.name)
        if copied is not None and now.node.name == copied and now.index != read.index:
            yield f"{what} reads {quoted(now.name)} at input {slot}, not output {read.index}"
    waits = {control.name for control in new.controls}
    for control in old.controls:
        if control.name in names and names[control.name] not in waits:
            yield f"{what} does not wait for {quoted(names[control.name])}"
    for key in new.changed_attrs:
        if key not in _NAMES and old.attr_bytes(key) != new.attr_bytes(key) and not _calls(new, key):
            yield f"{what} has another {quoted(key)}"


def _frame(node: Node) -> str:
    value = node.plain_attr(FRAME_NAME)
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""


def _shared_frames(after: Graph, copies: set[Node], frames: set[str]) -> Iterator[str]:
    """A frame that copies lead into is no other loop's, or the iterations of the two are mixed up."""
    if not frames:
        return
    for node in after.nodes():
        if node.op in ENTER and node not in copies and _frame(node) in frames:
            yield f"the frame {quoted(_frame(node))} of {quoted(node.name)} is also that of a copied loop"
            return
