"""set-device: where nodes ask to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from gdsurgeon.analysis.queries.devices import Device, format_device, has_parts, parse_device, placed_nodes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import Pairs, pairs_of, public
from gdsurgeon.comparison.facts import FunctionChanges
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.naming import naming, of_selection
from gdsurgeon.errors import EditError, NothingToDo, Remark, UsageError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.select import Nodes, Selection, compiled, nodes_of
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import listed
from gdsurgeon.wire.protos import FunctionDef, NodeDef

MOST_DEVICES = 8

Change = Callable[[str], str]
"""What becomes of a device string."""


@public
@naming(nodes=of_selection)
@edit
def set_device(
    graph: Graph,
    *,
    clear: bool = False,
    pairs: Pairs[str, str] = (),
    device: str | None = None,
    nodes: Nodes | None = None,
) -> EditResult:
    """Takes device strings away, replaces devices, or sets one.

    A device is the same however it is spelt: ``/gpu:0`` is ``/device:GPU:0``, and part of
    ``/job:worker/task:0/device:GPU:0``, of which the other parts are kept. What is written is the full spelling.

    Args:
        graph: changed in place.
        clear: no node asks for a device any more.
        pairs: (old, new), all at once: in each device that states all parts of OLD, these give way to NEW; an OLD
            without a number (``/gpu:*``) is any number, an empty NEW takes the parts away.
        device: each of NODES asks for this one.
        nodes: a selection, or names or nodes of this graph; only they are changed. The op types of a selection select
            nodes inside functions as well. None: all nodes, and those inside functions.

    Raises:
        UsageError: what is no device.
        EditError: not exactly one of CLEAR, PAIRS and DEVICE; no such node; OLD matches nothing; nothing
            would change; the graph is as it was.
    """
    if (clear, bool(pairs), device is not None).count(True) != 1:
        raise EditError("give exactly one: clear, a mapping of devices, or a device", code="conflicting-options")
    if device is not None and nodes is None:
        raise EditError("no nodes are selected: select the nodes that get the device", code="nothing-selected")
    inner = _Inner(graph, nodes)
    targets = None if nodes is None else inner.beside(graph, nodes)
    placed = _Placed(graph, targets, inner)
    change = (
        _Mapping(pairs_of(pairs), placed).change
        if pairs
        else _constantly("" if clear else format_device(_device(device)))
    )
    changed = placed.changed(change, targets if device is not None else None)
    functions = placed.changed_functions(change)
    if not changed and not functions:
        line = f"nothing would change: {placed.listed()}"
        if device is not None and targets is not None:
            count = len(targets) + placed.inner_counts.total()
            line = f"nothing would change: each of the {count:,} nodes already has the device {quoted(device)}"
        raise NothingToDo(line, devices=placed.all_counts)
    notes = _notes(placed, changed, functions, change)
    for node, new in changed.items():
        graph.set_device(node, new)
    for function in functions:
        graph.functions.replace(function)
    intent = Intent(
        changed=[node.name for node in changed],
        functions=FunctionChanges(changed=[function.signature.name for function in functions]),
    )
    return EditResult(intent, (SameOutputs(even_alone=True),), notes=notes)


def _constantly(device: str) -> Change:
    return lambda _device: device


def _device(text: str | None) -> Device:
    """A device as a user writes it; the slash in front may be missing."""
    text = text or ""
    device = parse_device(_slashed(text))
    if device is None:
        forms = "/cpu:0, /device:GPU:1, /job:worker/task:0/gpu:0, ..."
        raise UsageError(f"{quoted(text)} is not a device; devices look like {forms}", code="bad-value", value=text)
    return device


def _slashed(text: str) -> str:
    return text if text.startswith("/") or not text else "/" + text


class _Inner:
    """The nodes inside functions that are meant: all with a device, or those of a selection's op types.

    Attributes:
        functions: those that hold such a node.
    """

    def __init__(self, graph: Graph, nodes: Selection | Iterable[str | Node] | None) -> None:
        self._all = nodes is None
        selection = nodes if isinstance(nodes, Selection) else Selection()
        self._ops = frozenset(selection.ops)
        self._excluded = [compiled(pattern).search for pattern in selection.exclude]
        reached = () if graph.is_body or not (self._all or self._ops) else graph.functions
        self.functions = [function for function in reached if any(map(self.holds, function.node_def))]

    def holds(self, node: NodeDef) -> bool:
        """Whether NODE is meant."""
        if self._all:
            return bool(node.device)
        return node.op in self._ops and not any(search(node.name) for search in self._excluded)

    def beside(self, graph: Graph, nodes: Selection | Iterable[str | Node]) -> list[Node]:
        """What NODES mean in GRAPH itself; an op type may be in functions only. Raises: see `nodes_of`."""
        if not isinstance(nodes, Selection) or not self.functions:
            return nodes_of(graph, nodes)
        inside = {node.op for function in self.functions for node in function.node_def}
        ops = topology_of(graph).ops()
        outer = replace(nodes, ops=tuple(op for op in nodes.ops if op in ops or op not in inside))
        return nodes_of(graph, outer) if outer.names_something else []


class _Placed:
    """The nodes that ask for a device, and how often each device is asked for."""

    def __init__(self, graph: Graph, targets: Sequence[Node] | None, inner: _Inner) -> None:
        self._inner = inner
        placed = placed_nodes(graph) if targets is None else targets
        self.nodes = [node for node in placed if node.device]
        self.counts = Counter(node.device for node in self.nodes)
        inside = [node.device for f in inner.functions for node in f.node_def if inner.holds(node)]
        self.inner_counts = Counter(inside)
        self.all_counts = dict((self.counts + Counter(filter(None, inside))).most_common())

    def changed(self, change: Change, targets: Sequence[Node] | None) -> dict[Node, str]:
        """The nodes that CHANGE gives another device, with that; TARGETS counts in those that have none now."""
        out: dict[Node, str] = {}
        for node in self.nodes if targets is None else targets:
            new = change(node.device)
            if _differ(node.device, new):
                out[node] = new
        return out

    def changed_functions(self, change: Change) -> list[FunctionDef]:
        """Changed copies of the functions in which a node gets another device."""
        out = []
        for function in self._inner.functions:
            copy = type(function)()
            copy.CopyFrom(function)
            changed = [n for n in copy.node_def if self._inner.holds(n) and _differ(n.device, change(n.device))]
            for node in changed:
                node.device = change(node.device)
            if changed:
                out.append(copy)
        return out

    def listed(self) -> str:
        """The devices that are asked for."""
        if not self.all_counts:
            return "no node has a device"
        shown = (f"{quoted(device)} ({n:,})" for device, n in self.all_counts.items())
        return f"the devices are {listed(shown, MOST_DEVICES)}"


def _differ(old: str, new: str) -> bool:
    """Whether two device strings are different devices, and not two spellings of one."""
    if old == new:
        return False
    before, after = parse_device(old), parse_device(new)
    return before is None or before != after


class _Mapping:
    """Replaces devices; each device is worked out once."""

    def __init__(self, pairs: Sequence[tuple[str, str]], placed: _Placed) -> None:
        self._pairs = [(old, parse_device(_slashed(old)), _device(new) if new else {}) for old, new in pairs]
        self._known: dict[str, str] = {}
        devices = [*placed.counts, *placed.inner_counts]
        missed = [o for o, wanted, _ in self._pairs if not any(_matches(device, o, wanted) for device in devices)]
        if missed:
            refusal = EditError if len(missed) < len(self._pairs) else NothingToDo
            raise refusal(
                f"no node has the device {quoted(missed[0])}: {placed.listed()}",
                code="nothing-matched",
                facts={"value": missed[0], "devices": placed.all_counts},
            )

    def change(self, device: str) -> str:
        if device not in self._known:
            self._known[device] = self._replaced(device)
        return self._known[device]

    def _replaced(self, device: str) -> str:
        kept = dict(parse_device(device) or {})
        given: dict[str, str | None] = {}
        for old, wanted, new in self._pairs:
            if not _matches(device, old, wanted):
                continue
            for part in {*(wanted or {}), *new, *(("id",) if "type" in {*(wanted or {}), *new} else ())}:
                if given.setdefault(part, new.get(part)) != new.get(part):
                    raise EditError(
                        f"two pairs give different new devices for {quoted(device)}", code="given-twice", device=device
                    )
        if not given:
            return device
        out = {**{p: v for p, v in kept.items() if p not in given}, **{p: v for p, v in given.items() if v is not None}}
        return format_device(out)


def _matches(device: str, old: str, wanted: Device | None) -> bool:
    if wanted is None:  # not a device to TensorFlow either: it can be put right by its letters
        return device == old
    parts = parse_device(device)
    return parts is not None and has_parts(parts, wanted)


def _notes(placed: _Placed, changed: dict[Node, str], functions: Sequence[FunctionDef], change: Change) -> list[str]:
    """What each device has become, and of how many nodes."""
    outer = Counter((node.device, new) for node, new in changed.items())
    inner = Counter(
        {(old, change(old)): n for old, n in placed.inner_counts.items() if functions and _differ(old, change(old))}
    )
    out: list[str] = []
    total = outer + inner
    for (old, new), count in total.most_common():
        inside = inner[old, new]
        where = f", {inside:,} of them inside functions" if inside and inside < count else ""
        where = " inside functions" if inside and inside == count else where
        nodes = f"{count:,} node{'' if count == 1 else 's'}{where}"
        text = f"{printable(old) or 'no device'}  ->  {printable(new) or 'no device'}: {nodes}"
        out.append(Remark(text, "device-set", old=old, new=new, count=count, inside=inside))
    return out
