"""Puts what was planned in the place of matches, and keeps what was done."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from gdsurgeon.analysis.queries.effects import only_computes
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.edits.claims import Site
from gdsurgeon.edits.replacing import drop_colocations
from gdsurgeon.edits.rewriting.planning import New, NewOutput, Replacement
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import STATED_SHAPES
from gdsurgeon.patterns.terms import Replaced

STALE = frozenset((STATED_SHAPES, "_gradient_op_type"))
"""Attrs that say what the old op gave, or what its gradient is."""

IN_PLACE, IDENTITY, GONE = "in place", "identity", "gone"
"""What becomes of a node that gives results: it becomes a new one, or an Identity of what takes its place; or it goes,
and what read it reads that."""


@dataclass(eq=False)
class Planned:
    """A match, and all that is done with it.

    Attributes:
        rule: its name.
        roots: for each result its tensor.
        fates: what becomes of each node of these.
        going: the nodes that go beside.
        reads: the tensors that the match reads.
        anchor: nodes that new constants wait for, so that they run where the match does.
        replacement: what takes its place.
        bindings: what the names of the pattern stand for, to be told.
        members: the nodes that it has matched.
        is_hidden: whether it lies in a loop or a branch, where nothing can be fetched.
        beyond: a number by which it clips and which the numbers of the proof do not reach; None: there is none.
    """

    rule: str
    roots: tuple[Output, ...]
    fates: dict[Node, str]
    going: list[Node]
    reads: list[Output]
    anchor: list[Node]
    replacement: Replacement
    bindings: dict[str, str]
    members: set[Node]
    is_hidden: bool
    beyond: float | None
    placed: tuple[str, ...]
    tensors: dict[str, str]
    text: str


@dataclass(eq=False)
class Done:
    """All that was done to a graph.

    Attributes:
        graph: is changed.
        made: the nodes that were made, or made others.
    """

    graph: Graph
    made: set[Node] = field(default_factory=set)
    replaced: list[Replaced] = field(default_factory=list)
    _sites: dict[str, tuple[Planned, tuple[str, ...]]] = field(default_factory=dict)
    _changed: dict[Node, None] = field(default_factory=dict)
    _added: dict[Node, None] = field(default_factory=dict)
    _removed: list[Node] = field(default_factory=list)
    _stands: dict[Output, Output] = field(default_factory=dict)
    _read: dict[Node, tuple[Output, ...]] = field(default_factory=dict)

    def carry_out(self, planned: Sequence[Planned], named: Collection[Node], rule: int, round_: int) -> None:
        """Does what was PLANNED, none of which overlaps; NAMED nodes stay, also where nobody reads them."""
        unique = self.graph.unique_names()
        going: dict[Node, None] = {}
        loose: list[Node] = []
        for each in planned:
            for root in each.roots:
                if root.node not in self._added:
                    reads = tuple(read.name for read in each.reads)
                    is_there = all(read.node not in self._added for read in each.reads)
                    self._sites.setdefault(root.name, (each, reads if is_there else ()))
            loose += [read.node for node in (*each.fates, *each.going) for read in node.inputs]
            nodes = self._add(each, unique)
            going.update(dict.fromkeys((*self._put(each, nodes), *each.going)))
            made = tuple(nodes[new].name for new in each.replacement.nodes)
            self.replaced.append(Replaced(rule, round_, each.placed, each.tensors, each.text, made))
        drop_colocations(self.graph, going)
        self._remove(going)
        self._remove_loose(loose, named)

    def _put(self, each: Planned, nodes: dict[New, Node]) -> list[Node]:
        """Puts one replacement in place; returns the nodes of results that nobody reads then."""
        going = []
        for root, result in zip(each.roots, each.replacement.results, strict=True):
            new = self._settled(result, nodes)
            if each.fates[root.node] == IDENTITY:
                attrs = {"T": type_value(base_dtype(root.dtype)).SerializeToString(deterministic=True)}
                self._become(root.node, "Identity", [new], attrs)
            elif each.fates[root.node] == GONE:
                self._reroute(root, new)
                going.append(root.node)
        return going

    def _add(self, each: Planned, unique: UniqueNames) -> dict[New, Node]:
        """The new nodes; one that takes the place of a result is made of its node."""
        first = each.roots[0].node
        nodes: dict[New, Node] = {}
        for root, result in zip(each.roots, each.replacement.results, strict=True):
            if each.fates[root.node] == IN_PLACE and isinstance(result, NewOutput):
                nodes[result.node] = root.node
        for new in each.replacement.nodes:
            inputs = [self._settled(tensor, nodes) for tensor in new.inputs]
            if new in nodes:
                self._become(nodes[new], new.op, inputs, new.attrs)
                continue
            name = unique(f"{first.name}/{new.op}")
            controls = () if inputs else each.anchor
            node = self.graph.add(name, new.op, inputs, controls, attrs=new.attrs, device=first.device, after=first)
            nodes[new] = node
            self._added[node] = None
            self.made.add(node)
        return nodes

    def _settled(self, tensor: Output | NewOutput, nodes: dict[New, Node]) -> Output:
        """A tensor of the graph as it is by now."""
        return self.now(tensor) if isinstance(tensor, Output) else Output(nodes[tensor.node], tensor.index)

    def now(self, tensor: Output) -> Output:
        """What stands for a tensor that may be gone."""
        while tensor in self._stands:
            tensor = self._stands[tensor]
        return tensor

    def _become(self, node: Node, op: str, inputs: Sequence[Output], attrs: dict[str, bytes]) -> None:
        graph = self.graph
        for key in node.attr_keys:
            if key not in attrs and (not key.startswith("_") or key in STALE):
                graph.set_attr(node, key, None)
        for key, data in attrs.items():
            if node.attr_bytes(key) != data:
                graph.set_attr(node, key, data)
        if node.op != op:
            graph.set_op(node, op)
        graph.set_inputs(node, inputs)
        self.made.add(node)
        if node not in self._added:
            self._changed[node] = None

    def _reroute(self, old: Output, new: Output) -> None:
        uses = self.graph.uses(old)
        for use in uses:
            self._read.setdefault(use.node, use.node.inputs)
        self.graph.reroute(uses, new)
        self._stands[old] = new

    # -- what goes -----------------------------------------------------------------------------------------

    def _remove(self, nodes: Iterable[Node]) -> None:
        going = list(nodes)
        self.graph.remove(going)
        for node in going:
            if node in self._added:
                del self._added[node]
            else:
                self._removed.append(node)
            self._changed.pop(node, None)
            self._read.pop(node, None)

    def _remove_loose(self, nodes: Iterable[Node], named: Collection[Node]) -> None:
        """Removes those of NODES that nobody reads any longer, with what was read for them alone."""
        pending = list(dict.fromkeys(nodes))
        while pending:
            node = pending.pop()
            if self.graph.find(node.name) is not node or node in named or not only_computes(node):
                continue
            if not self.graph.users(node) and not self.graph.colocated_with(node):
                pending += [*(read.node for read in node.inputs), *node.controls]
                self._remove([node])

    # -- what it has come to -------------------------------------------------------------------------------

    def intent(self) -> Intent:
        """What is different."""
        rewired: list[Rewired] = []
        for node, was in self._read.items():
            if node not in self._changed and node not in self._added:
                slots = enumerate(zip(was, node.inputs, strict=True))
                rewired += [Rewired(node.name, i, old.name, new.name) for i, (old, new) in slots if old != new]
        return Intent(
            added=[node.name for node in self._added],
            removed=[node.name for node in self._removed],
            changed=[node.name for node in self._changed],
            rewired=rewired,
            moved={old.name: self.now(old).name for old in self._stands if old.node not in self._added},
        )

    def sites(self) -> list[Site]:
        """Where it was done, as far as the file has what is given there."""
        gone = {node.name for node in self._removed}
        moved = {tensor.name for tensor in self._stands}
        out: dict[Planned, Site] = {}
        for each, reads in self._sites.values():
            pairs = [
                (root.name, self.now(root).name)
                for root in each.roots
                if root.name in self._sites and (root in self._stands or root.node.name not in gone)
            ]
            if pairs:  # of what was read, constants may be gone
                there = [name for name in reads if name in moved or name.partition(":")[0] not in gone]
                out[each] = Site(tuple(there), tuple(pairs))
        return list(out.values())
