"""remove: the nodes that are meant are gone; what is left reads and waits for what they did; nothing else differs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Intent, Rewired, made
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.selected import Selecting, selected


def violations(
    comparison: Comparison,
    nodes: Selecting | Iterable[str],
    bypass: bool = False,
    bypass_input: int | None = None,
    dangling: str | None = None,
    orphans: bool = False,
    **_: object,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    names = selected(comparison.before, nodes)
    before, after, facts = comparison.before, comparison.after, comparison.facts
    if orphans:
        yield from _kept_orphans(comparison, names)
        names = [*names, *_orphans(comparison, names)]
    gone = dict.fromkeys(names)
    intent = Intent(removed=names)
    intent.functions.removed = [name for name in facts.functions.removed if not _is_called(after, name)]
    if dangling is not None and not bypass:
        yield from _placeholders(comparison, intent, gone)
    else:
        yield from _bypassed(comparison, intent, gone, bypass_input)
    waits = _Waits(gone, bypass)
    for user in dict.fromkeys(user for name in names for user in before.store.users(name) if user not in gone):
        wanted = waits.of(before[user])
        found = {control.name for control in after[user].controls}
        if not wanted - {user} <= found | ({user} if user in wanted else set()):
            missing = sorted(wanted - found - {user})
            yield (
                f"{quoted(user)} has no control dependency on {', '.join(map(quoted, missing))}, which is now required"
            )
        if found - wanted and not bypass:
            yield (
                f"{quoted(user)} has control dependencies on {', '.join(sorted(found - wanted))}, which was "
                "not requested"
            )
        if "controls" in facts.altered.get(user, ()):
            intent.changed.append(user)
            intent.altered.append(Altered(user, "controls", tuple(control.name for control in after[user].controls)))
    yield from audit(comparison, intent)


def _orphans(comparison: Comparison, names: Sequence[str]) -> list[str]:
    """What is gone besides NAMES, and is no input, and was read, waited for and stood beside by gone nodes alone."""
    before, gone = comparison.before, {*comparison.facts.removed, *names}
    others = [before[name] for name in comparison.facts.removed if name not in names]
    users = {node: [*before.store.users(node.name), *(n.name for n in before.colocated_with(node))] for node in others}
    return [node.name for node in others if node.op not in PLACEHOLDERS and users[node] and {*users[node]} <= gone]


def _kept_orphans(comparison: Comparison, names: Sequence[str]) -> Iterator[str]:
    """What is still there, though gone nodes alone read it or waited for it."""
    before, after = comparison.before, comparison.after
    gone = dict.fromkeys([*names, *comparison.facts.removed])
    for name in gone:
        for node in dict.fromkeys([*(read.node for read in before[name].inputs), *before[name].controls]):
            now = after.find(node.name)
            if now is None or node.name in gone or now.op in PLACEHOLDERS or after.colocated_with(now):
                continue
            if not after.users(now):
                yield f"{quoted(now.name)} has no consumers any more, but was not removed"


def _is_called(graph: Graph, name: str) -> bool:
    return any(name in graph.functions.calls(function.signature.name) for function in graph.functions)


def _bypassed(comparison: Comparison, intent: Intent, gone: dict[str, None], which: int | None) -> Iterator[str]:
    """Who read a node that is gone reads what that node read, or the nodes that are gone before it."""
    ends = _Ends(gone, which)
    for user, slot, read, now in _lost_reads(comparison, gone):
        intent.rewired.append(Rewired(user, slot, read.name, now))
        if now not in ends.of(read):
            yield (f"{quoted(user)} reads {quoted(now)} instead of {quoted(read.name)}, but not an input of that node")


def _lost_reads(comparison: Comparison, gone: dict[str, None]) -> Iterator[tuple[str, int, Output, str]]:
    """Who read a node that is gone, by which input what of it, and what is read there now."""
    before, after = comparison.before, comparison.after
    for name in gone:
        for user in (user for user in before.store.users(name) if user not in gone and user in after):
            for slot, (read, now) in enumerate(zip(before[user].inputs, after[user].inputs, strict=False)):
                if read.node.name == name:
                    yield user, slot, read, now.name


class _Ends:
    """The tensors that nodes which are gone read from outside; WHICH is the input that is followed, None: all."""

    def __init__(self, gone: dict[str, None], which: int | None) -> None:
        self._gone = gone
        self._which = which
        self._known: dict[Output, frozenset[str]] = {}

    def of(self, output: Output) -> frozenset[str]:
        """What may take the place of OUTPUT."""
        return _closed(output, self._own, self._inputs, self._known)

    def _own(self, output: Output) -> Iterable[str]:
        return () if output.node.name in self._gone else (output.name,)

    def _inputs(self, output: Output) -> Sequence[Output]:
        node = output.node
        if node.name not in self._gone:
            return ()
        if self._which is not None:
            return node.inputs[self._which : self._which + 1]
        return node.inputs[output.index : output.index + 1] if _hands_on(node) else node.inputs


T = TypeVar("T", bound=Hashable)


def _closed(
    start: T,
    own: Callable[[T], Iterable[str]],
    step: Callable[[T], Sequence[T]],
    known: dict[T, frozenset[str]],
) -> frozenset[str]:
    """What START and all that it leads to by STEP have of their OWN; KNOWN keeps what was found."""
    pending, opened = [start], set()
    while pending:
        item = pending[-1]
        if item in known:
            pending.pop()
        elif item in opened:
            known[item] = frozenset(own(item)).union(*(known.get(other, ()) for other in step(item)))
            pending.pop()
        else:
            opened.add(item)
            pending += [other for other in step(item) if other not in known]
    return known[start]


def _hands_on(node: Node) -> bool:
    """Whether each output of a node is an input of it, as of IdentityN: a list goes in, and one of its kind out."""
    definition = node.op_def
    if definition is None or len(definition.inputs) != 1 or len(definition.outputs) != 1:
        return False
    taken, given = definition.inputs[0], definition.outputs[0]
    lists = (taken.number_attr or taken.list_attr, given.number_attr or given.list_attr)
    return bool(lists[0]) and lists[0] == lists[1] and taken.type_attr == given.type_attr


def _placeholders(comparison: Comparison, intent: Intent, gone: dict[str, None]) -> Iterator[str]:
    """Who read a node that is gone reads a placeholder of its dtype, and of no narrower shape than is known of it."""
    before, after = comparison.before, comparison.after
    for user, slot, read, now in _lost_reads(comparison, gone):
        intent.rewired.append(Rewired(user, slot, read.name, now))
        node = after[parse_tensor(now).node]
        if node.name in before and node.name not in gone:
            yield (f"{quoted(user)} reads {quoted(now)} instead of {quoted(read.name)}, which is not a placeholder")
        keys = ("dtype", "shape") if node.has_attr("shape") else ("dtype",)
        dtype = type_value(base_dtype(read.dtype)).SerializeToString()
        intent.altered += made(node.name, "Placeholder", attrs=dict.fromkeys(keys) | {"dtype": dtype})
        intent.added.append(node.name)
    intent.added = list(dict.fromkeys(intent.added))
    intent.removed = [name for name in gone if name not in intent.added]


class _Waits:
    """What nodes are to wait for: what they did, and in the place of what is gone what that waited for, or read."""

    def __init__(self, gone: dict[str, None], bypass: bool) -> None:
        self._gone = gone
        self._bypass = bypass
        self._known: dict[Node, frozenset[str]] = {}
        self._known_of_reads: dict[Node, frozenset[str]] = {}

    def of(self, user: Node) -> frozenset[str]:
        """What USER is to wait for."""
        return self._of_reads(user) if self._bypass else self._of_controls(user)

    def _of_reads(self, node: Node) -> frozenset[str]:
        """What a node waits for, and what waited that is gone and whose value came to it."""
        return _closed(node, self._of_controls, lambda n: self._lost(n, controls=False), self._known_of_reads)

    def _of_controls(self, node: Node) -> frozenset[str]:
        kept = frozenset(control.name for control in node.controls if control.name not in self._gone)
        lost = [control for control in node.controls if control.name in self._gone]
        return kept.union(*(_closed(control, self._behind, self._lost, self._known) for control in lost))

    def _behind(self, node: Node) -> Iterable[str]:
        """What is there, and what a node that is gone waited for, or read."""
        above = [*node.controls, *((read.node for read in node.inputs) if self._bypass else ())]
        return [other.name for other in above if other.name not in self._gone]

    def _lost(self, node: Node, *, controls: bool = True) -> Sequence[Node]:
        reads = [read.node for read in node.inputs] if self._bypass else []
        return [other for other in (*(node.controls if controls else ()), *reads) if other.name in self._gone]
