"""Compares copies of nodes with their originals: differences other than their names and outside inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdsurgeon.compare.comparison import difference_text, inputs_alone, is_same_attr, rewiring_text
from gdsurgeon.compare.intent import Copies, Intent, Rewired, Value
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import attr_value, functions_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.graph.node import Node, placeholder_shape
from gdsurgeon.ops.kinds import BY_NODE_NAME, COLOCATION_ATTR, ENTER, FRAME_NAME, SHARED_NAME, VAR_NAME
from gdsurgeon.wire.protos import FunctionDef

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
    """Yields the differences of a copy from its original. Names that are not known are not compared."""
    copy = f"{quoted(new.name)}, the copy of {quoted(old.name)},"
    controls = [control.name for control in old.controls if control.name not in copies.left]
    together = [other.name for other in old.colocated if other.exists]
    compared: list[tuple[str, Value, Value]] = [
        ("op", intent.renamed_functions.get(old.op, old.op), new.op), ("device", old.device, new.device),
    ]  # fmt: skip
    for what, names, found in (("controls", controls, new.controls), ("colocated", together, new.colocated)):
        expected = {copies.counterpart_node(name) for name in names}
        if None not in expected:
            compared.append((what, tuple(sorted(map(str, expected))), tuple(sorted({node.name for node in found}))))
    if len(old.inputs) != len(new.inputs):
        mine, its = (tuple(read.name for read in node.inputs) for node in (old, new))
        compared.append(("inputs", mine, its))
    else:
        for slot, (read, now) in enumerate(zip(old.inputs, new.inputs, strict=True)):
            tensor = copies.counterpart(read.node.name, read.index)
            if tensor is not None and now.name != tensor:
                yield f"{copy} differs: {rewiring_text(Rewired(new.name, slot, tensor, now.name))}"
    yield from (f"{copy} differs: {difference_text(*each)}" for each in compared if each[1] != each[2])
    for key in dict.fromkeys((*old.attr_keys, *new.attr_keys)):
        if key not in _NAMES and not is_copied_attr(old, new, key, intent.renamed_functions):
            yield f"{copy} has a different {quoted(key)}"


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
    if copies.originals.is_edited or after.is_edited:
        return set()
    reads, records, others = _Reads(copies).__getitem__, copies.originals.store.record, after.store.record
    return {
        name
        for name, copied in copies.names.items()
        if (old := records(name)) is not None
        and (new := others(copied)) is not None
        and (found := inputs_alone(old, new, reads)) is not None
        and found[0] not in ENTER
        and found[1] == found[2]
    }


class _Reads(dict[str, str]):
    """The expected inputs of copies, by the inputs of the originals as text; '': not known here."""

    def __init__(self, copies: Copies) -> None:
        names = "".join(copies.names)
        super().__init__({} if ":" in names or "^" in names else copies.names)  # most of it is a name
        for tensor in copies.outside:
            self.pop(tensor, None)
        self._copies = copies

    def __missing__(self, text: str) -> str:
        ref, found = parse_input(text), ""
        if ref is not None and ref.port != CONTROL:
            found = self._copies.counterpart(*ref) or ""
        elif ref is not None and ref.node not in self._copies.left:
            node = self._copies.counterpart_node(ref.node)
            found = "" if node is None else f"^{node}"
        self[text] = found
        return found
