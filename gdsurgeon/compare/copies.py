"""Compares copies of nodes with their originals: differences other than their names and outside inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdsurgeon.compare.comparison import is_same_attr
from gdsurgeon.compare.intent import Copies, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import attr_value, functions_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.graph.node import Node, placeholder_shape
from gdsurgeon.ops.kinds import BY_NODE_NAME, COLOCATION_ATTR, ENTER, FRAME_NAME, PLACEHOLDERS, SHARED_NAME, VAR_NAME
from gdsurgeon.text import an, or_nothing
from gdsurgeon.wire.protos import FunctionDef, NodeDef, decode_error

_NAMES = frozenset((COLOCATION_ATTR, FRAME_NAME, SHARED_NAME, VAR_NAME, "container", BY_NODE_NAME))
"""Attrs that hold names, which a copy spells in its own way."""


def differing_copies(copies: Copies, before: Graph, after: Graph, intent: Intent) -> Iterator[str]:
    """Yields the differences between nodes and their copies, except names and inputs from outside, one per line.

    Args:
        copies: the nodes.
        before, after: the graph without the copies, and with them.
        intent: contains the functions that were added with the nodes, and their new names.
    """
    frames: dict[str, str] = {}
    made: set[Node] = set()
    plain = plain_copies(copies, after) if not intent.renamed_functions else set()
    for name, copied in copies.names.items():
        if name in plain:
            continue
        old, new = copies.originals.find(name), after.find(copied)
        if old is None or new is None:
            yield f"{quoted(name)} was declared as copied to {quoted(copied)}, but the copy is missing"
            continue
        yield from _copy(old, new, copies, intent)
        if old.op in ENTER:
            made.add(new)
            frame, its = old.text_attr(FRAME_NAME), new.text_attr(FRAME_NAME)
            if frames.setdefault(frame, its) != its:
                yield (f"{quoted(copied)} enters the frame {quoted(its)}, but others enter {quoted(frames[frame])}")
    yield from _shared_frames(after, made, set(frames.values()))
    yield from _copied_functions(copies.originals, before, after, intent)


def _copied_functions(originals: Graph, before: Graph, after: Graph, intent: Intent) -> Iterator[str]:
    """Yields the copied functions that differ from their originals, other than in names of functions and resources."""
    names = {new: old for old, new in intent.renamed_functions.items()}
    for name in intent.functions.added:
        old, new = originals.functions.get(names.get(name, name)), after.functions.get(name)
        if old is None or new is None or name in before.functions:
            continue
        if _plain(old, intent.renamed_functions) != _plain(new, {}):
            yield f"the function {quoted(name)} differs from its original"


def respelt(function: FunctionDef, name: str, renamed: Mapping[str, str]) -> FunctionDef:
    """Returns a copy of a function with the name `name`; the functions that it calls have their new names."""
    out = type(function)()
    out.CopyFrom(function)
    out.signature.name = name
    for node in out.node_def:
        node.op = renamed.get(node.op, node.op)
        for func in (func for value in node.attr.values() for func in functions_in(value)):
            func.name = renamed.get(func.name, func.name)
    return out


def _plain(function: FunctionDef, renamed: Mapping[str, str]) -> FunctionDef:
    """Returns a function without names of its own; other functions have their new names."""
    out = respelt(function, "", renamed)
    for node in out.node_def:
        for key in (SHARED_NAME, "container", BY_NODE_NAME):
            node.attr.pop(key, None)
    return out


def _copy(old: Node, new: Node, copies: Copies, intent: Intent) -> Iterator[str]:
    what = f"{quoted(new.name)}, the copy of {quoted(old.name)},"
    if intent.renamed_functions.get(old.op, old.op) != new.op:
        yield f"{what} is {an(new.op)}, not {an(old.op)}"
        return
    if old.device != new.device:
        yield f"{what} has the device {quoted(new.device)}, not {quoted(old.device)}"
    if len(old.inputs) != len(new.inputs):
        yield f"{what} has {len(new.inputs)} inputs, not {len(old.inputs)}"
        return
    for slot, (read, now) in enumerate(zip(old.inputs, new.inputs, strict=True)):
        wanted = copies.counterpart(read.node.name, read.index)
        if wanted is not None and now.name != wanted:
            yield f"input {slot} of {what} is {quoted(now.name)}, not {quoted(wanted)}"
    waits = {control.name for control in new.controls}
    wanted_waits = {
        copies.counterpart_node(control.name) for control in old.controls if control.name not in copies.left
    }
    if None not in wanted_waits and waits != wanted_waits:
        yield (
            f"{what} has the control inputs {or_nothing(sorted(waits))}, not "
            f"{or_nothing(sorted(map(str, wanted_waits)))}"
        )
    together = {copies.counterpart_node(other.name) for other in old.colocated if other.exists}
    if None not in together and {other.name for other in new.colocated} != together:
        yield f"{what} is colocated with {or_nothing(sorted(other.name for other in new.colocated))}"
    for key in dict.fromkeys((*old.attr_keys, *new.attr_keys)):
        if key not in _NAMES and not is_copied_attr(old, new, key, intent.renamed_functions):
            yield f"{what} has a different {quoted(key)}"


def is_copied_attr(old: Node, new: Node, key: str, renamed: Mapping[str, str]) -> bool:
    """Returns whether a copy has the attr of the original, with renamed functions."""
    if key == "shape" and old.op == "Placeholder":  # which an old graph may spell otherwise
        return placeholder_shape(old) == placeholder_shape(new)
    if is_same_attr(old, new, key) and (not renamed or old.op == "Const"):
        return True
    before, now = old.attr_bytes(key), new.attr_bytes(key)
    if before is None or now is None:
        return False
    mine, theirs = attr_value(before), attr_value(now)
    for func in functions_in(mine):
        func.name = renamed.get(func.name, func.name)
    return bool(mine == theirs)


def _shared_frames(after: Graph, copies: set[Node], frames: set[str]) -> Iterator[str]:
    """Yields a problem if a frame of the copies is also used by a copied loop: iterations would be mixed up."""
    if not frames:
        return
    for node in after.nodes():
        if node.op in ENTER and node not in copies and node.text_attr(FRAME_NAME) in frames:
            yield (
                f"the frame {quoted(node.text_attr(FRAME_NAME))} of {quoted(node.name)} is also used by a copied loop"
            )
            return


def plain_copies(copies: Copies, after: Graph) -> set[str]:
    """Returns the nodes whose copies have the same bytes except for names, and the expected inputs and control inputs.

    If no function was renamed, such a copy is correct. About other nodes nothing is stated, such as large nodes or
    nodes with names in attrs.

    Args:
        copies: the nodes.
        after: the graph with the copies.
    """
    out: set[str] = set()
    if copies.originals.is_edited or after.is_edited:
        return out
    reads, broken, named = _Reads(copies), decode_error(), ENTER | PLACEHOLDERS
    records, others = copies.originals.store.record, after.store.record
    for name, copied in copies.names.items():
        old, new = records(name), others(copied)
        if old is None or new is None or old.data is None or new.data is None:
            continue
        try:
            was, now = NodeDef.FromString(old.data), NodeDef.FromString(new.data)
        except broken:
            continue
        if was.op in named or COLOCATION_ATTR in was.attr:
            continue
        if [reads[text] for text in was.input] == [*now.input]:
            was.name = now.name
            was.input[:] = now.input
            if was == now:
                out.add(name)
    return out


class _Reads(dict[str, str | None]):
    """The expected inputs of copies, by the inputs of the originals as text; None: not known here."""

    def __init__(self, copies: Copies) -> None:
        names = "".join(copies.names)
        super().__init__({} if ":" in names or "^" in names else copies.names)  # most of it is a name
        for tensor in copies.outside:
            self.pop(tensor, None)
        self._copies = copies

    def __missing__(self, text: str) -> str | None:
        ref, found = parse_input(text), None
        if ref is not None and ref.port != CONTROL:
            found = self._copies.counterpart(*ref)
        elif ref is not None and ref.node not in self._copies.left:
            node = self._copies.counterpart_node(ref.node)
            found = None if node is None else f"^{node}"
        self[text] = found
        return found
