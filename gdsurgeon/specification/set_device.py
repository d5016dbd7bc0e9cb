"""set-device: the selected devices change, also inside functions, and nothing else is different."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.records import Record, parsed_nodes
from gdsurgeon.specification.selected import Selecting, selected
from gdsurgeon.wire.protos import NodeDef


def violations(
    comparison: Comparison,
    clear: bool = False,
    pairs: Sequence[tuple[str, str]] = (),
    device: str | None = None,
    nodes: Selecting | Iterable[str] | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    names = None if nodes is None else selected(comparison.before, nodes)
    facts, after = comparison.facts, comparison.after
    meant = frozenset(facts.altered if names is None else names)
    changed = [name for name, altered in facts.altered.items() if name in meant and set(altered) == {"device"}]
    intent = Intent(changed=changed)
    inner = _inner(comparison.before, nodes)
    for name in facts.functions.changed if inner is not None else ():
        intent.functions.changed.append(name)
        body = comparison.inside.get(name)
        function = comparison.before.functions.get(name)
        there = {n.name for n in (function.node_def if function is not None else ()) if inner is not None and inner(n)}
        own = [] if body is None else [n for n, altered in body.facts.altered.items() if set(altered) == {"device"}]
        for fault in [] if body is None else audit(body, Intent(changed=[n for n in own if n in there])):
            yield f"in the function {quoted(name)}: {fault}"
    yield from audit(comparison, intent)
    for where, old, new in _devices(comparison, changed, names, inner):
        wanted = "" if clear else device if device is not None else _mapped(old, pairs)
        if _parts(new) != _parts(wanted):
            yield f"{where} has the device {quoted(new)} instead of {quoted(wanted)}"
    if names is None:
        for function in after.functions:
            for node in function.node_def:
                if clear and node.device:
                    yield f"{quoted(node.name)} in {quoted(function.signature.name)} still has a device"


def _inner(before: Graph, nodes: Selecting | Iterable[str] | None) -> Callable[[NodeDef], bool] | None:
    """Returns which nodes inside functions are selected: all, or the op types of a selection; None: no node."""
    if nodes is None:
        return lambda _: True
    if before.is_body or isinstance(nodes, Iterable) or not nodes.ops:
        return None
    ops, exclude = nodes.ops, nodes.exclude
    return lambda node: node.op in ops and not any(re.search(pattern, node.name) for pattern in exclude)


def _devices(
    comparison: Comparison,
    changed: Sequence[str],
    names: Sequence[str] | None,
    inner: Callable[[NodeDef], bool] | None,
) -> Iterator[tuple[str, str, str]]:
    """Yields the places of requested changes, each with the device before and after."""
    before, after = comparison.before, comparison.after
    for name in dict.fromkeys([*changed, *_placed(before)]) if names is None else names:
        yield quoted(name), before[name].device, after[name].device
    for function in before.functions if inner is not None else ():
        now = after.functions.get(function.signature.name)
        if now is not None and len(now.node_def) == len(function.node_def):
            for old, new in zip(function.node_def, now.node_def, strict=True):
                if inner is not None and inner(old):
                    yield f"{quoted(old.name)} in {quoted(function.signature.name)}", old.device, new.device


def _placed(graph: Graph) -> Iterator[str]:
    """The names of the nodes that have a device in the file."""
    for node in parsed_nodes(graph.source):
        header = node.header() if isinstance(node, Record) else node
        if header.device:
            yield header.name


def _mapped(device: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Returns the new device for pairs (old, new): if a device has the parts of OLD, the parts of NEW replace them."""
    out = dict(_parts(device))
    for old, new in pairs:
        wanted = _parts(old)
        if device == old.lstrip() or (wanted and wanted.items() <= _parts(device).items()):
            for part in (*wanted, *(("id",) if {"type"} & {*wanted, *_parts(new)} else ())):
                out.pop(part, None)
            out.update(_parts(new))
            if not wanted:
                return new
    return "".join(f"/{part}:{value}" for part, value in out.items())


def _parts(device: str) -> dict[str, str]:
    """Returns the parts of a device: job, replica, task, type and id; in lower case, except jobs."""
    out: dict[str, str] = {}
    for part in device.strip("/").split("/"):
        key, _, value = part.partition(":")
        kind, number = (value.partition(":")[::2]) if key == "device" else (key, value)
        if key in ("job", "replica", "task", "type", "id"):
            out[key] = value if key in ("job", "type") else str(int(value)) if value.isdigit() else value
        elif key == "device" or re.fullmatch("(?i)cpu|gpu|tpu", key):
            out["type"], out["id"] = kind, str(int(number)) if number.isdigit() else number
    if "type" in out:
        out["type"] = out["type"].lower()
    return {key: value for key, value in out.items() if value not in ("", "*")}
