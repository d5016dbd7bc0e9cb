"""remove: the nodes that are meant are gone; what is left reads and waits for what they did; nothing else differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdsurgeon.comparison.audit import audit
from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.comparison.intent import Altered, Intent, made
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.selected import Selecting, selected


def violations(
    comparison: Comparison,
    selection: Selecting | Iterable[str],
    bypass: bool = False,
    bypass_input: int | None = None,
    dangling: str | None = None,
    orphans: bool = False,
    **_: object,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    names = selected(comparison.before, selection)
    if names is None:
        return
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
    for user in dict.fromkeys(user for name in names for user in before.store.users(name) if user not in gone):
        wanted = _waits(before[user], gone, bypass)
        found = {control.name for control in after[user].controls}
        if not wanted - {user} <= found | ({user} if user in wanted else set()):
            missing = sorted(wanted - found - {user})
            yield f"{quoted(user)} does not wait for {', '.join(map(quoted, missing))}, as it has to now"
        if found - wanted and not bypass:
            yield f"{quoted(user)} waits for {', '.join(sorted(found - wanted))}, and nobody asked for that"
        if "controls" in facts.altered.get(user, ()):
            intent.changed.append(user)
            intent.altered.append(Altered(user, "controls", tuple(control.name for control in after[user].controls)))
    yield from audit(comparison, intent, "nobody asked for that")


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
                yield f"{quoted(now.name)} is read by nobody any more, and still there"


def _is_called(graph: Graph, name: str) -> bool:
    return any(name in graph.functions.calls(function.signature.name) for function in graph.functions)


def _bypassed(comparison: Comparison, intent: Intent, gone: dict[str, None], which: int | None) -> Iterator[str]:
    """Who read a node that is gone reads what that node read, or the nodes that are gone before it."""
    before, after = comparison.before, comparison.after
    for name in gone:
        for user in before.store.users(name):
            if user in gone or user not in after:
                continue
            for slot, read in enumerate(before[user].inputs):
                if read.node.name != name or slot >= len(after[user].inputs):
                    continue
                now = after[user].inputs[slot].name
                intent.rewired.append(Rewired(user, slot, read.name, now))
                if now not in _ends(read, gone, which):
                    yield f"{quoted(user)} reads {quoted(now)} in the place of {quoted(read.name)}, not what that read"


def _ends(output: Output, gone: dict[str, None], which: int | None) -> set[str]:
    """The tensors that nodes which are gone read from outside, from OUTPUT on; of a list, the one of its place."""
    out: set[str] = set()
    seen: set[str] = set()
    pending = [output]
    while pending:
        read = pending.pop()
        if read.node.name not in gone:
            out.add(read.name)
        elif read.name not in seen:
            seen.add(read.name)
            inputs = read.node.inputs
            if which is not None:
                inputs = inputs[which : which + 1]
            elif len(inputs) == (read.node.output_count or 0) > 1:
                inputs = inputs[read.index : read.index + 1]
            pending += inputs
    return out


def _placeholders(comparison: Comparison, intent: Intent, gone: dict[str, None]) -> Iterator[str]:
    """Who read a node that is gone reads a placeholder of its dtype, and of no narrower shape than is known of it."""
    before, after = comparison.before, comparison.after
    for name in gone:
        for user in before.store.users(name):
            if user in gone or user not in after:
                continue
            for slot, read in enumerate(before[user].inputs):
                if read.node.name != name:
                    continue
                now = after[user].inputs[slot].name
                intent.rewired.append(Rewired(user, slot, read.name, now))
                node = after[parse_tensor(now).node]
                if node.op != "Placeholder" or (node.name in before and node.name not in gone):
                    yield f"{quoted(user)} reads {quoted(now)} in the place of {quoted(read.name)}, not a placeholder"
                elif node.output.dtype != read.dtype % 100:
                    yield f"{quoted(node.name)} has another dtype than {quoted(read.name)}"
                intent.added.append(node.name)
                intent.altered += made(node)
    intent.added = list(dict.fromkeys(intent.added))
    intent.removed = [name for name in gone if name not in intent.added]


def _waits(user: Node, gone: dict[str, None], bypass: bool) -> set[str]:
    """What USER is to wait for: what it did, and in the place of what is gone what that waited for, or read."""
    out: set[str] = set()
    seen: set[str] = set()
    pending = [control for control in user.controls if control.name in gone]
    out.update(control.name for control in user.controls if control.name not in gone)
    above = [read.node for read in user.inputs if read.node.name in gone] if bypass else []
    while pending or above:
        is_read = not pending
        node = above.pop() if is_read else pending.pop()
        if (node.name + "^" * is_read) in seen:
            continue
        seen.add(node.name + "^" * is_read)
        behind = [*node.controls, *((read.node for read in node.inputs) if bypass and not is_read else ())]
        if is_read:
            above += [read.node for read in node.inputs if read.node.name in gone]
        pending += [other for other in behind if other.name in gone]
        out.update(other.name for other in behind if other.name not in gone)
    return out
