"""A copy of nodes, of this graph or another: planned, and made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gdsurgeon.comparison.facts import FunctionChanges
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.copying.fresh_names import respelt_attrs
from gdsurgeon.edits.functions.merge import FunctionMerge, respell_functions
from gdsurgeon.errors import Remark, printable, quoted
from gdsurgeon.graph.attrs import shape_value, string_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.placeholders import SCALAR_MEANS_UNKNOWN_BEFORE, placeholder_shape
from gdsurgeon.ops.attr_names import COLOCATION_ATTR, SHARED_NAME
from gdsurgeon.ops.kinds import TABLE_INITIALIZERS
from gdsurgeon.values import Data


@dataclass(eq=False, repr=False)
class NodeCopy(Data):
    """A copy of nodes, of this graph or another, that has been checked and is made by `apply`.

    Attributes:
        graph: where the copies are, or will be.
        names: what they are called.
        replaced: tensors that they read in place of others.
        merge: what comes into the library with them.
        frames: the ``frame_name`` that each copied while loop has in the copy.
        shared_names: likewise the ``shared_name`` of tables, queues and variables.
        nameless: shared names for copies of nodes that have none.
        renamed: names that were taken and become others, as (name of the original, name of the copy).
        temporary: the names that temporary variables have in the copy.
        common: shared names that stay, because nodes outside use them too.
        nodes: the copy of each node, as soon as it is made.
    """

    graph: Graph
    names: dict[Node, str]
    replaced: dict[Output, Output]
    merge: FunctionMerge
    frames: dict[str, str]
    shared_names: dict[str, str]
    nameless: dict[Node, str]
    renamed: dict[str, str] = field(default_factory=dict)
    temporary: Mapping[str, str] = field(default_factory=dict)
    common: list[str] = field(default_factory=list)
    nodes: dict[Node, Node] = field(default_factory=dict)

    @property
    def functions(self) -> dict[str, str]:
        """The functions that have another name in the copy."""
        return self.merge.renamed

    def apply(self, after: Node | None = None) -> NodeCopy:
        """Makes the copies, behind the node AFTER or (None) at the end."""
        self.merge.apply(self.graph.functions)
        for node, name in self.names.items():
            self.nodes[node] = self.graph.add_copy(name, node, after=after)
        for node, copy in self.nodes.items():
            self.graph.set_inputs(copy, [self.output(read) for read in node.inputs])
            if node.controls:
                self.graph.set_controls(copy, [self.node(control) for control in node.controls])
            if node.attr_bytes(COLOCATION_ATTR) or node.colocated:
                self.graph.set_colocated(copy, [self.node(other) for other in node.colocated if other.exists])
            if self.functions:
                respell_functions(self.graph, copy, self.functions)
            self._respell(node, copy)
        return self

    def _respell(self, node: Node, copy: Node) -> None:
        spelt = respelt_attrs(node, self.frames, self.shared_names, self.temporary)
        if node in self.nameless:
            spelt[SHARED_NAME] = self.nameless[node]
        _keep_meaning_of_shape(self.graph, node, copy)
        for key, text in spelt.items():
            self.graph.set_attr(copy, key, string_value(text).SerializeToString())

    def output(self, original: Output) -> Output:
        """What a copy reads where its original reads ORIGINAL: a replacement, a copy, or the same."""
        found = self.replaced.get(original)
        if found is not None:
            return found
        node = self.nodes.get(original.node)
        return original if node is None else Output(node, original.index)

    def node(self, original: Node) -> Node:
        """The copy of a node, or what stands for one that was not copied: itself, unless it is another graph's."""
        if original in self.nodes or original.graph is self.graph:
            return self.nodes.get(original, original)
        return self.replaced[original.output].node

    def intent(self) -> Intent:
        """What an edit says of a copy of another graph."""
        return Intent(
            added=[node.name for node in self.nodes.values()],
            copied={old.name: new.name for old, new in self.nodes.items()},
            renamed_functions=self.functions,
            functions=FunctionChanges(added=[function.signature.name for function in self.merge.added]),
        )

    def notes(self, other: Graph) -> list[str]:
        """A line for each name of OTHER that was taken, and for each node that callers have to run by themselves."""
        taken = (self.renamed | self.functions).items()
        source = printable(other.source_name)
        out: list[str] = []
        for old, new in taken:
            text = f"{quoted(old)} of {source} is renamed to {quoted(new)}: the name was taken"
            out.append(Remark(text, "name-taken", name=old, found=new))
        for node in self.nodes.values():
            if node.op in TABLE_INITIALIZERS and not self.graph.users(node):
                fills = f"{quoted(node.name)} ({printable(node.op)}) initializes a table, and no node depends on it"
                text = f"{fills}: run it before the graph"
                out.append(Remark(text, "run-before", node=node.name, op=node.op))
        return out


def _keep_meaning_of_shape(graph: Graph, node: Node, copy: Node) -> None:
    """What a producer wrote that spelt an unknown shape like a scalar is spelt as newer graphs do."""
    old, new = node.graph.store.producer, graph.store.producer
    if node.op == "Placeholder" and old < SCALAR_MEANS_UNKNOWN_BEFORE <= new and placeholder_shape(node) is None:
        graph.set_attr(copy, "shape", shape_value(None).SerializeToString())
