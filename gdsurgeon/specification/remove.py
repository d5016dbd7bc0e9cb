"""remove: the selected nodes are removed, and their users read and depend on the inputs of the removed nodes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.selection import Selection
from gdsurgeon.specification.nodes import selected, unread

T = TypeVar("T", bound=Hashable)


def remove(
    comparison: Comparison,
    nodes: Selection | Iterable[str],
    bypass: bool = False,
    bypass_input: int | None = None,
    dangling: str | None = None,
    orphans: bool = False,
    **_: object,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after, facts = comparison.before, comparison.after, comparison.facts
    chosen = dict.fromkeys(selected(before, nodes))
    names = [*chosen, *(unread(comparison, chosen) if orphans else ())]
    removed = dict.fromkeys(names)
    intent = Intent(removed=names)
    called = {name for function in after.functions for name in after.functions.calls(function.signature.name)}
    intent.functions.removed = [name for name in facts.functions.removed if name not in called]
    replacements = _replacements(chosen, bypass_input)
    for user, slot, read, now in _lost_reads(comparison, removed):
        intent.rewire([(user, slot)], read.name, now)
        node = after[parse_tensor(now).node]
        if dangling is not None and not bypass:
            if node.name in before and node.name not in removed:
                yield f"{quoted(user)} reads {quoted(now)} instead of {quoted(read.name)}, which is not a placeholder"
            shape = {"shape": None} if node.has_attr("shape") else {}
            intent.add(node.name, "Placeholder", attrs={**shape, "dtype": type_value(base_dtype(read.dtype))})
        elif now not in replacements(read):
            yield f"{quoted(user)} reads {quoted(now)} instead of {quoted(read.name)}, but not an input of that node"
    intent.removed = [name for name in names if name not in {*intent.added}]
    dependencies = _dependencies(chosen, bypass)
    for user in dict.fromkeys(user for name in names for user in before.store.users(name) if user not in removed):
        expected = dependencies(before[user])
        controls = tuple(control.name for control in after[user].controls)
        if missing := sorted(expected - {*controls, user}):
            listed = ", ".join(map(quoted, missing))
            yield f"{quoted(user)} has no control dependency on {listed}, which is now required"
        if (more := sorted({*controls} - expected)) and not bypass:
            yield f"{quoted(user)} has control dependencies on {', '.join(more)}, which was not requested"
        if "controls" in facts.altered.get(user, ()):
            intent.alter(user, {"controls": controls})
    yield from audit(comparison, intent)


def _lost_reads(comparison: Comparison, removed: dict[str, None]) -> Iterator[tuple[str, int, Output, str]]:
    """Yields the consumers of removed nodes, each with the slot, its tensor before, and its tensor now."""
    before, after = comparison.before, comparison.after
    for name in removed:
        for user in (user for user in before.store.users(name) if user not in removed and user in after):
            for slot, (read, now) in enumerate(zip(before[user].inputs, after[user].inputs, strict=False)):
                if read.node.name == name:
                    yield user, slot, read, now.name


def _reached(
    start: T, step: Callable[[T], tuple[Iterable[str], Sequence[T]]], known: dict[T, frozenset[str]]
) -> frozenset[str]:
    """Returns the names that `step` returns for `start`, and for the further items that it returns; `known` caches."""
    pending, opened = [start], set()
    while pending:
        item = pending[-1]
        names, more = step(item) if item not in known else ((), ())
        if item in known:
            pending.pop()
        elif item in opened:
            known[item] = frozenset(names).union(*(known.get(other, ()) for other in more))
            pending.pop()
        else:
            opened.add(item)
            pending += [other for other in more if other not in known]
    return known[start]


def _replacements(removed: dict[str, None], which: int | None) -> Callable[[Output], frozenset[str]]:
    """Returns a function that returns the tensors that can replace an output.

    `which` is the input of removed nodes that is followed; None: all.
    """

    def step(output: Output) -> tuple[Iterable[str], Sequence[Output]]:
        node, followed = output.node, which
        if node.name not in removed:
            return (output.name,), ()
        definition = node.op_def
        if which is None and definition is not None and len(definition.inputs) == len(definition.outputs) == 1:
            taken, given = definition.inputs[0], definition.outputs[0]
            lists = (taken.number_attr or taken.list_attr, given.number_attr or given.list_attr)
            if lists[0] and lists[0] == lists[1] and taken.type_attr == given.type_attr:  # such as IdentityN
                followed = output.index
        return (), node.inputs if followed is None else node.inputs[followed : followed + 1]

    known: dict[Output, frozenset[str]] = {}
    return lambda output: _reached(output, step, known)


def _dependencies(removed: dict[str, None], bypass: bool) -> Callable[[Node], frozenset[str]]:
    """Returns a function that returns the expected control inputs of a node.

    The control inputs, with `bypass` also the inputs, of removed nodes replace them; with `bypass` also those of the
    removed nodes whose value the node reads.
    """
    known: dict[Node, frozenset[str]] = {}
    known_of_reads: dict[Node, frozenset[str]] = {}

    def split(nodes: Iterable[Node]) -> tuple[list[str], list[Node]]:
        """Returns the names of the nodes that are not removed, and the removed nodes."""
        found = list(nodes)
        return [n.name for n in found if n.name not in removed], [n for n in found if n.name in removed]

    def above(node: Node) -> tuple[list[str], list[Node]]:
        return split([*node.controls, *(read.node for read in node.inputs if bypass)])

    def step(node: Node) -> tuple[Iterable[str], Sequence[Node]]:
        """Returns the nodes that replace the control inputs of a node, and the removed nodes that it reads."""
        kept, lost = split(node.controls)
        replaced = frozenset(kept).union(*(_reached(each, above, known) for each in lost))
        return replaced, split(read.node for read in node.inputs)[1] if bypass else ()

    return lambda user: _reached(user, step, known_of_reads)
