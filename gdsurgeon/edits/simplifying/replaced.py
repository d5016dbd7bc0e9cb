"""Several nodes made one: what of them keeps its name, what comes, what goes, and where that is to be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

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
    from gdsurgeon.edits.simplifying.channels import Array

FEW = 16
"""Elements up to which a constant of equal ones is written out."""


class Sites:
    """What is folded in a graph, so far.

    Attributes:
        graph: is changed at once.
        kept: the nodes whose names have to stay.
        whole: those of them of which all outputs may be wanted, and not the first alone.
        spells_out: whether constants have all their elements, though one that is repeated would do.
        flow: the control flow of the graph as it was when a pass began.
        found: the places where something is computed otherwise, by the name that stayed.
        folded: how often something went into an op.
        skipped: for nodes that were not folded what they are, and why.
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
        """The nodes of OPS; and looks at the control flow anew."""
        self.flow = control_flow_of(self.graph)
        topology = topology_of(self.graph)
        return [topology.node(number) for number in topology.with_ops([op for op in topology.ops() if op in ops])]

    def may_go(self, node: Node) -> bool:
        """Whether nobody wants the name of a node, or stands beside it."""
        return node not in self.kept and all(other is node for other in self.graph.colocated_with(node))

    def runs_in_a_loop(self, nodes: Iterable[Node]) -> bool:
        """Whether one of NODES, which are as they were when the pass began, is in a frame."""
        return any(self.flow.frames[self.flow.topology.id_of(node)] for node in nodes)

    def skip(self, node: Node, why: Remark) -> None:
        """Notes that a node is not folded."""
        self.skipped[node.name] = (node.op, why)

    def added(self, node: Node) -> None:
        """Notes that a node has come."""
        self._added[node.name] = None

    def changed(self, node: Node) -> None:
        """Notes that a node is another."""
        if node.name not in self._added:
            self._changed[node.name] = None
        self.skipped.pop(node.name, None)

    def note(self, node: Node, site: Site) -> None:
        """Notes where a node is compared; one that has come only now is part of what reads it."""
        if node.name not in self._added:
            self.found[node.name] = site
            return
        for user in self.graph.users(node):
            if user.name in self.found:
                whole = self.found[user.name]
                self.found[user.name] = whole._replace(inputs=site.inputs)

    def removed(self, names: Iterable[str]) -> None:
        """Notes that nodes are gone."""
        for name in names:
            if name in self._added:
                del self._added[name]
            else:
                self._removed.append(name)
            self._changed.pop(name, None)
            self.found.pop(name, None)
            self.skipped.pop(name, None)

    def intent(self) -> Intent:
        """All that was done."""
        return Intent(added=[*self._added], removed=[*self._removed], changed=[*self._changed])


def only_use(sites: Sites, node: Node) -> Use | None:
    """The one place where a node is read, where that is its first output; None where its name has to stay, too."""
    users = sites.graph.users(node)
    if len(users) != 1 or not sites.may_go(node) or node in users[0].controls:
        return None
    slots = [slot for slot, read in enumerate(users[0].inputs) if read.node is node]
    if len(slots) != 1 or users[0].inputs[slots[0]].index:
        return None
    return Use(users[0], slots[0])


def computing(node: Node) -> dict[str, bytes]:
    """The attrs of a node that say what it computes."""
    held = {key: node.attr_bytes(key) for key in node.attr_keys if key not in ASIDE}
    return {key: value for key, value in held.items() if value is not None}


class Replacement:
    """Has LAST give by itself what it gives with GOING before it.

    Call `finish` when LAST reads what it is to read.
    """

    def __init__(self, sites: Sites, last: Node, going: Sequence[Node]) -> None:
        self.sites, self.last, self._going = sites, last, going
        own = {last, *going}
        self._read = [read.node for node in (last, *going) for read in node.inputs if read.node not in own]

    def constant(self, name: str, value: Array, behind: Node) -> Node:
        """Adds a constant, which is called NAME below the node that stays, BEHIND another in the file."""
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
        """Adds a copy of a node that reads INPUTS, called like its op below the node that stays."""
        graph = self.sites.graph
        made = graph.add_copy(self.sites.unique(f"{self.last.name}/{node.op}"), node, after=behind)
        graph.set_inputs(made, inputs)
        graph.set_colocated(made, node.colocated)
        self.sites.added(made)
        return made

    def become(self, op: str, inputs: Sequence[Output], attrs: Mapping[str, bytes]) -> None:
        """Makes the node that stays an OP that reads INPUTS."""
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
        """Takes away what is not read any longer; SITE is where the node that stays is compared."""
        graph, sites = self.sites.graph, self.sites
        graph.remove(self._going)
        sites.removed(node.name for node in self._going)
        sites.removed(remove_unread(graph, [node for node in self._read if node not in sites.kept], sites.kept))
        sites.note(self.last, site)
