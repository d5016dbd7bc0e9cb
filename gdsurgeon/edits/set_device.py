"""set-device: changes or removes the devices of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from gdsurgeon.analysis.queries.attr_text import Device, format_device, parse_device, placed_nodes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.decorator import edit, of_selection
from gdsurgeon.edits.functions import changed_functions, replace_functions
from gdsurgeon.errors import EditError, NothingToDo, UsageError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Nodes, Selection, compiled, nodes_of
from gdsurgeon.text import counted, listed
from gdsurgeon.wire.protos import FunctionDef, NodeDef

MOST_DEVICES = 8


@edit(nodes=of_selection)
def set_device(
    graph: Graph,
    *,
    clear: bool = False,
    pairs: Pairs[str, str] = (),
    device: str | None = None,
    nodes: Nodes | None = None,
) -> EditResult:
    """Removes the devices of nodes, replaces devices, or sets one device.

    Different spellings of a device are equal: ``/gpu:0`` is ``/device:GPU:0``. It is also a part of
    ``/job:worker/task:0/device:GPU:0``, whose other parts stay. The result has the full spelling.

    Args:
        graph: changed in place.
        clear: remove the devices.
        pairs: pairs (old, new), applied at the same time. In each device with all parts of OLD, NEW replaces these
            parts. An OLD without a number (``/gpu:*``) matches any number; an empty NEW removes the parts.
        device: the new device of `nodes`.
        nodes: a selection, or names or nodes of this graph. Only these nodes are changed. The op types of a selection
            also select nodes inside functions. None: all nodes, and all nodes inside functions.

    Raises:
        UsageError: a text is not a device.
        EditError: not exactly one of `clear`, `pairs` and `device` is given; no such node; OLD matches no device; or
            nothing would change. The graph is unchanged.
    """
    if (clear, bool(pairs), device is not None).count(True) != 1:
        raise EditError("give exactly one: clear, a mapping of devices, or a device", code="conflicting-options")
    if device is not None and nodes is None:
        raise EditError("no nodes are selected: select the nodes that get the device", code="nothing-selected")
    is_by_op = isinstance(nodes, Selection) and bool(nodes.ops)
    ops = frozenset(nodes.ops if isinstance(nodes, Selection) else ())
    excluded = [compiled(p).search for p in (nodes.exclude if isinstance(nodes, Selection) else ())]

    def is_selected(node: NodeDef) -> bool:  # inside a function
        return bool(node.device) if nodes is None else node.op in ops and not any(s(node.name) for s in excluded)

    library = graph.functions if not graph.is_body and (nodes is None or is_by_op) else ()
    inner = [(function, list(filter(is_selected, function.node_def))) for function in library]
    functions = [function for function, found in inner if found]
    targets = None
    if isinstance(nodes, Selection) and functions:  # an op type may occur only in functions
        inner_ops, outer_ops = {node.op for f in functions for node in f.node_def}, topology_of(graph).ops()
        here = replace(nodes, ops=tuple(op for op in nodes.ops if op in outer_ops or op not in inner_ops))
        targets = nodes_of(graph, here) if here.names_something else []
    elif nodes is not None:
        targets = nodes_of(graph, nodes)
    placed = [node for node in (placed_nodes(graph) if targets is None else targets) if node.device]
    outer_counts = Counter(node.device for node in placed)
    inner_counts = Counter(node.device for _, found in inner for node in found)
    all_counts = outer_counts + Counter({name: count for name, count in inner_counts.items() if name})
    devices = dict(all_counts.most_common())
    if pairs:
        change = _replacing(pairs_of(pairs), [*outer_counts, *inner_counts], devices)
    else:
        new_device = "" if clear else format_device(_device(device))

        def change(_device: str) -> str:
            return new_device

    changed = {
        node: new
        for node in (targets if device is not None and targets is not None else placed)
        if _differ(node.device, new := change(node.device))
    }

    def place(function: FunctionDef) -> bool:
        found = [n for n in function.node_def if is_selected(n) and _differ(n.device, change(n.device))]
        for node in found:
            node.device = change(node.device)
        return bool(found)

    new_functions = changed_functions(functions, place)
    if not changed and not new_functions:
        line = f"nothing would change: {_listed(devices)}"
        if device is not None and targets is not None:
            count = len(targets) + inner_counts.total()
            line = f"nothing would change: each of the {count:,} nodes already has the device {quoted(device)}"
        raise NothingToDo(line, devices=devices)
    outer = Counter((node.device, new) for node, new in changed.items())
    inside = Counter({(old, new): n for old, n in inner_counts.items() if _differ(old, new := change(old))})
    result = EditResult(claims=(SameOutputs(even_alone=True),))
    for (old, new), count in (outer + inside).most_common():
        inner_count = inside[old, new]
        where = f", {inner_count:,} of them" if inner_count < count else ""
        where = f"{where} inside functions" if inner_count else ""
        text = f"{printable(old) or 'no device'}  ->  {printable(new) or 'no device'}: {counted(count, 'node')}{where}"
        result.note(text, "device-set", old=old, new=new, count=count, inside=inner_count)
    for node, new in changed.items():
        graph.set_device(node, new)
    result.intent.changed = [node.name for node in changed]
    result.intent.functions = replace_functions(graph, new_functions)
    return result


def _device(text: str | None) -> Device:
    """Parses a device as users write it; the first slash may be missing."""
    text = text or ""
    device = parse_device(_slashed(text))
    if device is None:
        forms = "/cpu:0, /device:GPU:1, /job:worker/task:0/gpu:0, ..."
        raise UsageError(f"{quoted(text)} is not a device; devices look like {forms}", code="bad-value", value=text)
    return device


def _slashed(text: str) -> str:
    return text if text.startswith("/") or not text else "/" + text


def _differ(old: str, new: str) -> bool:
    """Returns whether two texts are different devices, not only different spellings."""
    if old == new:
        return False
    before, after = parse_device(old), parse_device(new)
    return before is None or before != after


def _listed(devices: Mapping[str, int]) -> str:
    if not devices:
        return "no node has a device"
    shown = (f"{quoted(device)} ({count:,})" for device, count in devices.items())
    return f"the devices are {listed(shown, MOST_DEVICES)}"


def _replacing(
    texts: Sequence[tuple[str, str]], present: Iterable[str], devices: Mapping[str, int]
) -> Callable[[str], str]:
    """Returns the function that replaces devices by pairs. Raises EditError if a pair matches no `present` device."""
    pairs = [(old, parse_device(_slashed(old)), _device(new) if new else {}) for old, new in texts]
    present = list(present)
    missed = [o for o, wanted, _ in pairs if not any(_matches(device, o, wanted) for device in present)]
    if missed:
        line = f"no node has the device {quoted(missed[0])}: {_listed(devices)}"
        refusal = EditError if len(missed) < len(pairs) else NothingToDo
        raise refusal(line, code="nothing-matched", value=missed[0], devices=devices)

    @cache
    def change(device: str) -> str:
        given: dict[str, str | None] = {}
        for old, wanted, new in pairs:
            if not _matches(device, old, wanted):
                continue
            for part in {*(wanted or {}), *new, *(("id",) if "type" in {*(wanted or {}), *new} else ())}:
                if given.setdefault(part, new.get(part)) != new.get(part):
                    line = f"two pairs give different new devices for {quoted(device)}"
                    raise EditError(line, code="given-twice", device=device)
        if not given:
            return device
        parts = {**(parse_device(device) or {}), **given}
        return format_device({part: value for part, value in parts.items() if value is not None})

    return change


def _matches(device: str, old: str, wanted: Device | None) -> bool:
    if wanted is None:  # TensorFlow does not accept this device either: it matches only by its text
        return device == old
    parts = parse_device(device)
    return parts is not None and all(parts.get(part, "").lower() == value.lower() for part, value in wanted.items())
