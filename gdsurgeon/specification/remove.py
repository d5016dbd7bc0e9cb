"""remove: the selected nodes are removed, and their users read and depend on the inputs of the removed nodes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from gdsurgeon.arguments import Selection
from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.rows import selected

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
    names = selected(before, nodes)
    if orphans:
        yield from _kept_orphans(comparison, names)
        names = [*names, *_orphans(comparison, names)]
    removed = dict.fromkeys(names)
    intent = Intent(removed=names)
    called = {name for function in after.functions for name in after.functions.calls(function.signature.name)}
    intent.functions.removed = [name for name in facts.functions.removed if name not in called]
    replacements = _Replacements(removed, bypass_input)
    for user, slot, read, now in _lost_reads(comparison, removed):
        intent.rewire([(user, slot)], read.name, now)
        node = after[parse_tensor(now).node]
        if dangling is not None and not bypass:
            if node.name in before and node.name not in removed:
                yield f"{quoted(user)} reads {quoted(now)} instead of {quoted(read.name)}, which is not a placeholder"
            shape = {"shape": None} if node.has_attr("shape") else {}
            intent.add(node.name, "Placeholder", attrs={**shape, "dtype": type_value(base_dtype(read.dtype))})
        elif now not in replacements.of(read):
            yield f"{quoted(user)} reads {quoted(now)} instead of {quoted(read.name)}, but not an input of that node"
    intent.removed = [name for name in names if name not in {*intent.added}]
    dependencies = _Dependencies(removed, bypass)
    for user in dict.fromkeys(user for name in names for user in before.store.users(name) if user not in removed):
        expected = dependencies.of(before[user])
        controls = tuple(control.name for control in after[user].controls)
        if missing := sorted(expected - {*controls, user}):
            listed = ", ".join(map(quoted, missing))
            yield f"{quoted(user)} has no control dependency on {listed}, which is now required"
        if (more := sorted({*controls} - expected)) and not bypass:
            yield f"{quoted(user)} has control dependencies on {', '.join(more)}, which was not requested"
        if "controls" in facts.altered.get(user, ()):
            intent.alter(user, {"controls": controls})
    yield from audit(comparison, intent)


def _orphans(comparison: Comparison, names: Sequence[str]) -> list[str]:
    """Returns the removed nodes except `names` and inputs that had only removed users and colocated nodes."""
    before, removed = comparison.before, {*comparison.facts.removed, *names}
    others = [before[name] for name in comparison.facts.removed if name not in names]
    users = {node: [*before.store.users(node.name), *(n.name for n in before.colocated_with(node))] for node in others}
    return [
        node.name for node in others if node.op not in PLACEHOLDERS and users[node] and removed.issuperset(users[node])
    ]


def _kept_orphans(comparison: Comparison, names: Sequence[str]) -> Iterator[str]:
    """Yields the nodes that still exist, but had only removed users."""
    before, after = comparison.before, comparison.after
    removed = dict.fromkeys([*names, *comparison.facts.removed])
    for name in removed:
        for node in dict.fromkeys(_above(before[name], reads=True)):
            now = after.find(node.name)
            if now is None or node.name in removed or now.op in PLACEHOLDERS or after.colocated_with(now):
                continue
            if not after.users(now):
                yield f"{quoted(now.name)} has no consumers any more, but was not removed"


def _lost_reads(comparison: Comparison, removed: dict[str, None]) -> Iterator[tuple[str, int, Output, str]]:
    """Yields the consumers of removed nodes, each with the slot, its tensor before, and its tensor now."""
    before, after = comparison.before, comparison.after
    for name in removed:
        for user in (user for user in before.store.users(name) if user not in removed and user in after):
            for slot, (read, now) in enumerate(zip(before[user].inputs, after[user].inputs, strict=False)):
                if read.node.name == name:
                    yield user, slot, read, now.name


def _reached(
    start: T, own: Callable[[T], Iterable[str]], step: Callable[[T], Sequence[T]], known: dict[T, frozenset[str]]
) -> frozenset[str]:
    """Returns the `own` names of `start` and of all items that `step` leads to. `known` caches results."""
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


def _above(node: Node, *, reads: bool) -> list[Node]:
    return [*node.controls, *((read.node for read in node.inputs) if reads else ())]


class _Replacements:
    """The tensors that can replace outputs of removed nodes. `which` is the input that is followed; None: all."""

    def __init__(self, removed: dict[str, None], which: int | None) -> None:
        self._removed, self._which = removed, which
        self._known: dict[Output, frozenset[str]] = {}

    def of(self, output: Output) -> frozenset[str]:
        """Returns the tensors that can replace `output`."""
        return _reached(output, lambda o: () if o.node.name in self._removed else (o.name,), self._inputs, self._known)

    def _inputs(self, output: Output) -> Sequence[Output]:
        node, which = output.node, self._which
        if node.name not in self._removed:
            return ()
        definition = node.op_def
        if which is None and definition is not None and len(definition.inputs) == len(definition.outputs) == 1:
            taken, given = definition.inputs[0], definition.outputs[0]
            lists = (taken.number_attr or taken.list_attr, given.number_attr or given.list_attr)
            if lists[0] and lists[0] == lists[1] and taken.type_attr == given.type_attr:  # such as IdentityN
                which = output.index
        return node.inputs if which is None else node.inputs[which : which + 1]


class _Dependencies:
    """The expected control inputs: the control inputs (with `bypass` also the inputs) of removed nodes replace them."""

    def __init__(self, removed: dict[str, None], bypass: bool) -> None:
        self._removed, self._bypass = removed, bypass
        self._known: dict[Node, frozenset[str]] = {}
        self._known_of_reads: dict[Node, frozenset[str]] = {}

    def of(self, user: Node) -> frozenset[str]:
        """Returns the control inputs of `user`; with `bypass` also those of the removed nodes whose value it reads."""
        if not self._bypass:
            return self._of_controls(user)
        return _reached(user, self._of_controls, lambda n: self._lost(r.node for r in n.inputs), self._known_of_reads)

    def _of_controls(self, node: Node) -> frozenset[str]:
        kept = frozenset(control.name for control in node.controls if control.name not in self._removed)
        lost = (_reached(n, self._kept, self._all_lost, self._known) for n in self._lost(node.controls))
        return kept.union(*lost)

    def _kept(self, node: Node) -> Iterable[str]:
        return [n.name for n in _above(node, reads=self._bypass) if n.name not in self._removed]

    def _all_lost(self, node: Node) -> list[Node]:
        return self._lost(_above(node, reads=self._bypass))

    def _lost(self, nodes: Iterable[Node]) -> list[Node]:
        return [node for node in nodes if node.name in self._removed]
