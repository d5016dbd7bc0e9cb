"""Folds: several nodes become one. Records which nodes were changed, and where the proof compares values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gdsurgeon.analysis.traversal.control_flow import ControlFlow, control_flow_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.claims import Site
from gdsurgeon.edits.rewriting.rounds import RewriteLog
from gdsurgeon.edits.simplifying.constants import constant_attrs
from gdsurgeon.errors import Remark
from gdsurgeon.graph.constants import raw_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output, Use
from gdsurgeon.ops.dtypes import FLOAT32, FLOAT64
from gdsurgeon.ops.kinds import ASIDE
from gdsurgeon.runtime.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Sites(RewriteLog):
    """The folds of a graph so far.

    Attributes:
        kept: nodes that must keep their names.
        whole: those of them with several outputs that may be wanted.
        spells_out: whether constants store all their elements, even if they are equal.
        flow: the control flow of the graph at the start of a pass.
        found: the places where the computation changed, by the name of the remaining node.
        folded: the number of folds, by kind and by the op folded into.
        hidden: how many are in functions, where they cannot run in isolation.
        skipped: for each node that was not folded, its op and the reason.
    """

    def __init__(self, graph: Graph, kept: Collection[Node], whole: Collection[Node], *, spells_out: bool) -> None:
        super().__init__(graph)
        self.spells_out = spells_out
        self.kept, self.whole = frozenset(kept), frozenset(whole)
        self.flow: ControlFlow = control_flow_of(graph)
        self.found: dict[str, Site] = {}
        self.folded: Counter[tuple[str, str]] = Counter()
        self.hidden = 0
        self.skipped: dict[str, tuple[str, Remark]] = {}
        self._unique = graph.unique_names()

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

    def only_use(self, node: Node) -> Use | None:
        """Returns the only use of output 0 of a node; None if the node has other uses or must keep its name."""
        users = self.graph.users(node)
        if len(users) != 1 or not self.may_go(node) or node in users[0].controls:
            return None
        slots = [slot for slot, read in enumerate(users[0].inputs) if read.node is node]
        if len(slots) != 1 or users[0].inputs[slots[0]].index:
            return None
        return Use(users[0], slots[0])

    def skip(self, node: Node, why: Remark) -> None:
        """Records that a node is not folded."""
        self.skipped[node.name] = (node.op, why)

    def remove(self, nodes: Iterable[Node]) -> None:
        """Removes nodes, and what is recorded of them."""
        going = [*nodes]
        super().remove(going)
        for node in going:
            self.found.pop(node.name, None)
            self.skipped.pop(node.name, None)

    def constant(self, last: Node, name: str, value: Array, behind: Node) -> Node:
        """Adds a constant in the scope of the node `last`, `behind` a node in the file."""
        dtype, data = FLOAT32 if value.dtype.itemsize == 4 else FLOAT64, value.tobytes()
        attrs = constant_attrs(Tensor(dtype, value.shape, data))
        if self.spells_out:
            attrs["value"] = raw_value(dtype, value.shape, data).SerializeToString(deterministic=True)
        called = self._unique(f"{last.name}/{name}")
        return self.added(self.graph.add(called, "Const", attrs=attrs, device=last.device, after=behind))

    def copy(self, last: Node, node: Node, inputs: Sequence[Output], behind: Node) -> Node:
        """Adds a copy of a node with other inputs, in the scope of the node `last`."""
        made = self.graph.add_copy(self._unique(f"{last.name}/{node.op}"), node, after=behind)
        self.graph.set_inputs(made, inputs)
        self.graph.set_colocated(made, node.colocated)
        return self.added(made)

    def add(self, last: Node, op: str, inputs: Sequence[Output], attrs: Mapping[str, bytes], behind: Node) -> Node:
        """Adds a node in the scope of the node `last`."""
        called = self._unique(f"{last.name}/{op}")
        return self.added(self.graph.add(called, op, inputs, attrs=attrs, device=last.device, after=behind))

    def replace(
        self,
        last: Node,
        going: Sequence[Node],
        op: str,
        inputs: Sequence[Output],
        attrs: Mapping[str, bytes],
        site: Site,
    ) -> None:
        """Replaces `going` and `last` by one node with the name of `last`.

        Args:
            last: the remaining node.
            going: the nodes that are removed, with all nodes that are unused then.
            op, inputs, attrs: of the remaining node.
            site: where it is compared; a new node is compared as a part of its consumer.
        """
        read = [read.node for node in (last, *going) for read in node.inputs]
        is_new = self.is_new(last)
        self.become(last, op, inputs, attrs)
        self.skipped.pop(last.name, None)
        self.remove(going)
        self.remove_loose(read, self.kept)
        if not is_new:
            self.found[last.name] = site
        users = [*self.graph.users(last)] if is_new else []
        for user in users:  # grows while it is walked
            if user.name in self.found:
                reads = dict.fromkeys((*self.found[user.name].inputs, *site.inputs))
                still = tuple(tensor for tensor in reads if parse_tensor(tensor).node in self.graph)
                self.found[user.name] = self.found[user.name]._replace(inputs=still)
            elif self.is_new(user):
                users += self.graph.users(user)


def computing(node: Node) -> dict[str, bytes]:
    """Returns the attrs of a node that affect its values."""
    held = {key: node.attr_bytes(key) for key in node.attr_keys if key not in ASIDE}
    return {key: value for key, value in held.items() if value is not None}
