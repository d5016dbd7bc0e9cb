"""Finds copies that are obviously correct, many at once, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, repeat
from operator import eq

from gdsurgeon.compare.intent import Copies
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import picked
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.graph.records import Batch, batch_of
from gdsurgeon.ops.kinds import COLOCATION_ATTR, ENTER, PLACEHOLDERS


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
    reads, names = _Reads(copies), list(copies.names)
    for at in range(0, len(names), _TOGETHER):
        part = names[at : at + _TOGETHER]
        pairs = zip(
            part,
            copies.originals.store.records(part),
            after.store.records(map(copies.names.__getitem__, part)),
            strict=True,
        )
        data = {
            name: (old.data, new.data)
            for name, old, new in pairs
            if old is not None and new is not None and old.data is not None and new.data is not None
        }
        batches = batch_of([old for old, _ in data.values()]), batch_of([new for _, new in data.values()])
        if batches[0] is not None and batches[1] is not None:
            out.update(compress(data, _are_plain(batches[0], batches[1], reads)))
    return out


_TOGETHER = 1 << 12
"""Nodes that are compared at once."""


def _are_plain(old: Batch, new: Batch, reads: _Reads) -> Iterator[bool]:
    """Yields for each node of `old` whether the node of `new` has the same form and the expected inputs."""
    numbers = {form: number for number, form in enumerate(new.forms)}
    forms = [numbers.get(form, -1) if _is_told(form, op) else -1 for form, op in zip(old.forms, old.ops, strict=True)]
    same_forms = map(eq, picked(forms, old.form_of), new.form_of)
    wanted = list(map(reads.__getitem__, old.inputs))
    same_reads = repeat(True) if wanted == new.inputs else map(eq, _by_node(wanted), _by_node(new.inputs))
    return (is_form and is_read for is_form, is_read in zip(same_forms, same_reads, strict=False))


def _is_told(form: bytes, op: str) -> bool:
    """Whether nodes of a FORM are the same where that is: not where it names nodes or loops, or depends on the file."""
    return op not in ENTER | PLACEHOLDERS and COLOCATION_ATTR.encode() not in form


def _by_node(inputs: Sequence[str | None]) -> Iterator[Sequence[str | None]]:
    """The inputs of each node, where there is an empty one after each."""
    start = 0
    for at, text in enumerate(inputs):
        if text == "":
            yield inputs[start:at]
            start = at + 1


class _Reads(dict[str, str | None]):
    """For what originals read or wait for, as they spell it, what their copies are to; None: it cannot be told here."""

    def __init__(self, copies: Copies) -> None:
        names = "".join(copies.names)
        super().__init__({} if ":" in names or "^" in names else copies.names)  # most of it is a name
        for tensor in copies.outside:
            self.pop(tensor, None)
        self[""] = ""
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
