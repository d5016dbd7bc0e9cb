"""Where a set of nodes meets the rest of its graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import public
from gdsurgeon.graph.graph import graph_of
from gdsurgeon.graph.node import Node, Output, Use
from gdsurgeon.values import Data


@dataclass(eq=False, repr=False)
class Boundary(Data):
    """The edges between a set of nodes and the rest of their graph.

    Attributes:
        inputs: tensors from outside that the nodes read, in the order of first use.
        outputs: tensors of the nodes that outside nodes read, or that have no consumers.
        inside: tensors of the nodes that the nodes themselves read.
        outer_uses: for each of `outputs`, the places outside where it is read.
        controls_in: nodes outside that the nodes wait for.
        controls_out: nodes of the set that nodes outside wait for, with those.
    """

    inputs: list[Output] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    inside: list[Output] = field(default_factory=list)
    outer_uses: dict[Output, list[Use]] = field(default_factory=dict)
    controls_in: list[Node] = field(default_factory=list)
    controls_out: dict[Node, list[Node]] = field(default_factory=dict)


@public
def boundary(nodes: Iterable[Node], topology: Topology | None = None) -> Boundary:
    """The boundary of NODES, which are of one graph, in their order. Linear in their edges and those of their users.

    For an unknown op, an output counts as existing if it has a consumer. `topology` is that of the present graph, if
    the caller has it.
    """
    members = list(dict.fromkeys(nodes))
    return _BoundaryWalk(topology or topology_of(graph_of(members[0])), members).run() if members else Boundary()


class _BoundaryWalk:
    """Goes over the edges as numbers; nodes are made for those that cross the boundary."""

    def __init__(self, topology: Topology, members: list[Node]) -> None:
        self.topology = topology
        self.members = [(topology.id_of(node), node) for node in members]
        self.inside = topology.flags(number for number, _ in self.members)
        self.out = Boundary()
        self._single: dict[str, bool] = {}

    def run(self) -> Boundary:
        self._add_inputs()
        for number, node in self.members:
            self._add_outputs(number, node)
        return self.out

    def _add_inputs(self) -> None:
        reads: dict[tuple[int, int], None] = {}
        inside = self.inside
        for number, _ in self.members:
            reads.update((pair, None) for pair in self.topology.reads(number) if not inside[pair[0]])
        node = self.topology.node
        self.out.inputs = [Output(node(number), index) for number, index in reads if index >= 0]
        self.out.controls_in = [node(number) for number, index in reads if index < 0]

    def _add_outputs(self, number: int, node: Node) -> None:
        users = self.topology.users(number)
        outer = [user for user in users if not self.inside[user]]
        if users and not outer and self._gives_one(number, node) and self._is_read(number, users):
            self.out.inside.append(node.output)
            return
        inner = {i for u in users if self.inside[u] for p, i in self.topology.reads(u) if p == number and i >= 0}
        count = node.output_count
        reads: dict[int, list[Use]] = {index: [] for index in range(1 if count is None else count)}
        for user in map(self.topology.node, outer):
            for slot, read in enumerate(user.inputs):
                if read.node is node:
                    reads.setdefault(read.index, []).append(Use(user, slot))
            if node in user.controls:
                self.out.controls_out.setdefault(node, []).append(user)
        for index in sorted(reads.keys() | inner):
            output = Output(node, index)
            if index in inner:
                self.out.inside.append(output)
            if reads.get(index) or index not in inner:
                self.out.outputs.append(output)
                self.out.outer_uses[output] = reads.get(index, [])

    def _is_read(self, number: int, users: Iterable[int]) -> bool:
        """Whether one of USERS reads output 0 of NUMBER, and does not only wait for it."""
        return any(pair == (number, 0) for user in users for pair in self.topology.reads(user))

    def _gives_one(self, number: int, node: Node) -> bool:
        """Whether the op has one output, whatever the attrs are."""
        op = self.topology.op(number)
        found = self._single.get(op)
        if found is None:
            definition = node.op_def
            args = definition.outputs if definition is not None else ()
            found = self._single[op] = len(args) == 1 and not args[0].number_attr and not args[0].list_attr
        return found
