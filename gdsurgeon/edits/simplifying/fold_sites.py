"""Folds: several nodes become one. Records which nodes were changed, and where the proof compares values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gdsurgeon.analysis.traversal.control_flow import ControlFlow, control_flow_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import Site
from gdsurgeon.edits.replacing import remove_unread
from gdsurgeon.errors import Remark
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import raw_value, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output, Use
from gdsurgeon.ops.dtypes import FLOAT32, FLOAT64
from gdsurgeon.ops.kinds import ASIDE, STATED_SHAPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

FEW = 16
"""The number of elements up to which a constant of equal elements is stored in full."""


class Sites:
    """The folds of a graph so far.

    Attributes:
        graph: changed at once.
        kept: nodes that must keep their names.
        whole: those of them with several outputs that may be wanted.
        spells_out: whether constants store all their elements, even if they are equal.
        flow: the control flow of the graph at the start of a pass.
        found: the places where the computation changed, by the name of the remaining node.
        folded: the number of folds, by kind and by the op folded into.
        skipped: for each node that was not folded, its op and the reason.
    """

    def __init__(self, graph: Graph, kept: Collection[Node], whole: Collection[Node], *, spells_out: bool) -> None:
        self.graph, self.spells_out = graph, spells_out
        self.kept, self.whole = frozenset(kept), frozenset(whole)
        self.flow: ControlFlow = control_flow_of(graph)
        self.found: dict[str, Site] = {}
        self.folded: Counter[tuple[str, str]] = Counter()
        self.skipped: dict[str, tuple[str, Remark]] = {}
        self.unique = graph.unique_names()
        self._added: dict[str, None] = {}
        self._removed: list[str] = []
        self._changed: dict[str, None] = {}

    def with_ops(self, ops: Container[str]) -> list[Node]:
        """Starts a pass: returns the nodes with one of `ops`, and updates the control flow."""
        self.flow = control_flow_of(self.graph)
        topology = topology_of(self.graph)
        return [topology.node(number) for number in topology.with_ops([op for op in topology.ops() if op in ops])]

    def may_go(self, node: Node) -> bool:
        """Returns whether a node can be removed: its name is not needed, and no node is colocated with it."""
        return node not in self.kept and all(other is node for other in self.graph.colocated_with(node))

    def runs_in_a_loop(self, nodes: Iterable[Node]) -> bool:
        """Returns whether one of `nodes` was in a loop at the start of the pass."""
        return any(self.flow.frames[self.flow.topology.id_of(node)] for node in nodes)

    def skip(self, node: Node, why: Remark) -> None:
        """Records that a node is not folded."""
        self.skipped[node.name] = (node.op, why)

    def added(self, node: Node) -> None:
        """Records a new node."""
        self._added[node.name] = None

    def changed(self, node: Node) -> None:
        """Records a changed node."""
        if node.name not in self._added:
            self._changed[node.name] = None
        self.skipped.pop(node.name, None)

    def note(self, node: Node, site: Site) -> None:
        """Records where a node is compared; a new node is compared as a part of its consumer."""
        if node.name not in self._added:
            self.found[node.name] = site
            return
        for user in self.graph.users(node):
            if user.name in self.found:
                whole = self.found[user.name]
                self.found[user.name] = whole._replace(inputs=site.inputs)

    def removed(self, names: Iterable[str]) -> None:
        """Records removed nodes."""
        for name in names:
            if name in self._added:
                del self._added[name]
            else:
                self._removed.append(name)
            self._changed.pop(name, None)
            self.found.pop(name, None)
            self.skipped.pop(name, None)

    def intent(self) -> Intent:
        """Returns all changes."""
        return Intent(added=[*self._added], removed=[*self._removed], changed=[*self._changed])


def only_use(sites: Sites, node: Node) -> Use | None:
    """Returns the only use of output 0 of a node; None if the node has other uses or must keep its name."""
    users = sites.graph.users(node)
    if len(users) != 1 or not sites.may_go(node) or node in users[0].controls:
        return None
    slots = [slot for slot, read in enumerate(users[0].inputs) if read.node is node]
    if len(slots) != 1 or users[0].inputs[slots[0]].index:
        return None
    return Use(users[0], slots[0])


def computing(node: Node) -> dict[str, bytes]:
    """Returns the attrs of a node that affect its values."""
    held = {key: node.attr_bytes(key) for key in node.attr_keys if key not in ASIDE}
    return {key: value for key, value in held.items() if value is not None}


class Replacement:
    """Replaces `going` and `last` by one node with the name of `last`.

    Call `become`, then `finish`.
    """

    def __init__(self, sites: Sites, last: Node, going: Sequence[Node]) -> None:
        self.sites, self.last, self._going = sites, last, going
        own = {last, *going}
        self._read = [read.node for node in (last, *going) for read in node.inputs if read.node not in own]

    def constant(self, name: str, value: Array, behind: Node) -> Node:
        """Adds a constant in the scope of the remaining node, `behind` a node in the file."""
        dtype = FLOAT32 if value.dtype.itemsize == 4 else FLOAT64
        data, size = value.tobytes(), value.dtype.itemsize
        if value.size > FEW and not self.sites.spells_out and data == data[:size] * value.size:
            held = tensor_value(dtype, value.shape, [value.flat[0].item()])
        else:
            held = raw_value(dtype, value.shape, data)
        attrs = {"dtype": type_value(dtype).SerializeToString(), "value": held.SerializeToString(deterministic=True)}
        called = self.sites.unique(f"{self.last.name}/{name}")
        made = self.sites.graph.add(called, "Const", attrs=attrs, device=self.last.device, after=behind)
        self.sites.added(made)
        return made

    def copy(self, node: Node, inputs: Sequence[Output], behind: Node) -> Node:
        """Adds a copy of a node with other inputs, in the scope of the remaining node."""
        graph = self.sites.graph
        made = graph.add_copy(self.sites.unique(f"{self.last.name}/{node.op}"), node, after=behind)
        graph.set_inputs(made, inputs)
        graph.set_colocated(made, node.colocated)
        self.sites.added(made)
        return made

    def become(self, op: str, inputs: Sequence[Output], attrs: Mapping[str, bytes]) -> None:
        """Makes the remaining node an `op` with these inputs and attrs."""
        graph, last = self.sites.graph, self.last
        for key in last.attr_keys:
            if key not in attrs and (not key.startswith("_") or key == STATED_SHAPES):
                graph.set_attr(last, key, None)
        graph.set_op(last, op)
        graph.set_inputs(last, inputs)
        for key, value in attrs.items():
            graph.set_attr(last, key, value)
        self.sites.changed(last)

    def finish(self, site: Site) -> None:
        """Removes unused nodes; `site` is where the remaining node is compared."""
        graph, sites = self.sites.graph, self.sites
        graph.remove(self._going)
        sites.removed(node.name for node in self._going)
        sites.removed(remove_unread(graph, [node for node in self._read if node not in sites.kept], sites.kept))
        sites.note(self.last, site)
