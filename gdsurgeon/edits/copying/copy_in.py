"""Copies another graph into one: nodes, weights and functions; the primitive under every joining edit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.comparison.facts import FunctionChanges
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.copying.fresh_names import (
    NODE_NAME_SHARING,
    SHARED_NAME,
    clashing_node_names,
    frame_names,
    fresh_frame_names,
    fresh_shared_names,
    has_nameless_variables,
    nameless_variables,
    respelt_attrs,
    shared_names,
)
from gdsurgeon.edits.functions.copies import respell_shared_names, shared_names_in_functions
from gdsurgeon.edits.functions.merge import FunctionMerge, plan_function_merge, respell_functions
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.attrs import shape_value, string_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import COLOCATION_ATTR
from gdsurgeon.graph.names import UniqueNames, check_name
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.placeholders import SCALAR_MEANS_UNKNOWN_BEFORE, placeholder_shape


@dataclass
class Copied:
    """What a copy has done.

    Attributes:
        nodes: copy of each node of the other graph that was copied.
        replaced: the tensors that stand for nodes that were not copied.
        renamed: names that were taken and have become others, as (name in the other graph, name now).
        renamed_functions: likewise for functions.
        functions: the names of the functions that have come into the library.
    """

    nodes: dict[Node, Node] = field(default_factory=dict)
    replaced: dict[Node, Output] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    renamed_functions: dict[str, str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)

    def output(self, original: Output) -> Output:
        """Where a tensor of the other graph is now."""
        if original.node in self.replaced:
            return self.replaced[original.node]
        return Output(self.nodes[original.node], original.index)

    def node(self, original: Node) -> Node:
        """Where a node of the other graph is now."""
        return self.replaced[original].node if original in self.replaced else self.nodes[original]

    def intent(self) -> Intent:
        """What an edit says of the copy."""
        return Intent(
            added=[node.name for node in self.nodes.values()],
            copied={old.name: new.name for old, new in self.nodes.items()},
            renamed_functions=self.renamed_functions,
            functions=FunctionChanges(added=self.functions),
        )

    def notes(self, other: Graph) -> list[str]:
        """A line for each name of OTHER that was taken."""
        taken = (self.renamed | self.renamed_functions).items()
        source = printable(other.source_name)
        return [f"{quoted(old)} of {source} has become {quoted(new)}: the name was taken" for old, new in taken]


@dataclass
class CopyPlan:
    """A copy that has been checked and not been made; see `plan_copy`."""

    other: Graph
    replace: dict[Node, Output]
    names: dict[Node, str]
    forced: frozenset[Node]
    functions: FunctionMerge
    frames: dict[str, str]
    shared_names: dict[str, str]
    nameless: dict[Node, str]

    def apply(self, graph: Graph, after: Node | None = None) -> Copied:
        """Makes the copy; the copies are written behind the node AFTER of GRAPH, or (None) at the end."""
        copied = Copied(
            replaced=self.replace,
            renamed_functions=self.functions.apply(graph.functions),
            functions=[function.signature.name for function in self.functions.added],
        )
        for node, name in self.names.items():
            copied.nodes[node] = graph.add_copy(name, node, after=after)
            if name != node.name and node not in self.forced:
                copied.renamed[node.name] = name
        for node in self.names:
            _wire(graph, node, copied)
            spelt = respelt_attrs(node, self.frames, self.shared_names)
            if node in self.nameless:
                spelt[SHARED_NAME] = self.nameless[node]
            _keep_meaning_of_shape(graph, node, copied.nodes[node])
            for key, text in spelt.items():
                graph.set_attr(copied.nodes[node], key, string_value(text).SerializeToString())
        return copied


def copy_in(
    graph: Graph,
    other: Graph,
    *,
    replace: Mapping[Node, Output],
    names: Mapping[Node, str] | None = None,
    after: Node | None = None,
) -> Copied:
    """Copies the nodes of OTHER into GRAPH: `plan_copy`, applied at once.

    Raises:
        EditError: see `plan_copy`; GRAPH is as it was.
    """
    return plan_copy(graph, other, replace=replace, names=names).apply(graph, after)


def plan_copy(
    graph: Graph,
    other: Graph,
    *,
    replace: Mapping[Node, Output],
    names: Mapping[Node, str] | None = None,
    reserved: Iterable[str] = (),
) -> CopyPlan:
    """Checks and plans a copy of OTHER's nodes into GRAPH; weights are copied by span when the graph is written.

    Args:
        graph: left as it is.
        other: left as it is; its source must stay open until GRAPH is written.
        replace: nodes of OTHER (single-output ones, placeholders as a rule) that are not copied, and the tensor of
            GRAPH that stands for each.
        names: names that certain copies must get; they are free, or will be when the plan is applied.
        reserved: names that the caller is going to use.

    Raises:
        EditError: a name in OTHER is illegal, or an input names no node.
        InputError: OTHER's function library is corrupt, or an input is no tensor's name.
    """
    forced = dict(names or {})
    originals = [node for node in other.nodes() if node not in replace]
    for node in originals:
        if node not in forced:
            check_name(node.name)
        for read in (*(output.node for output in node.inputs), *node.controls):
            if not read.exists:
                raise EditError(f"{quoted(node.name)} reads {quoted(read.name)}, which is not there")
    plan = _names(graph, originals, forced, {*reserved, *forced.values()})
    functions = plan_function_merge(graph.functions, other.functions)
    frames, shared = _clashing(graph, other, originals)
    functions.added = respell_shared_names(functions.added, shared)
    nameless = nameless_variables(plan)
    if nameless and not has_nameless_variables(topology_of(graph)):
        nameless = {}
    if any(node.has_attr(NODE_NAME_SHARING) for node in originals):
        nameless |= clashing_node_names(topology_of(graph), plan)
    return CopyPlan(other, dict(replace), plan, frozenset(forced), functions, frames, shared, nameless)


def _clashing(graph: Graph, other: Graph, originals: list[Node]) -> tuple[dict[str, str], dict[str, str]]:
    """New names for while frames, and for shared tables, queues and variables, whose names GRAPH uses for others.

    Loops of one name would be one loop, and tables of one name one table.
    """
    frames = frame_names(originals)
    shared = shared_names(other, originals) | shared_names_in_functions(other.functions)
    if not frames and not shared:
        return {}, {}
    topology = topology_of(graph)
    used = shared_names_in_functions(graph.functions) if shared else ()
    return (
        fresh_frame_names(topology, frames, lambda name: name),
        fresh_shared_names(topology, shared, lambda name: name, used),
    )


def _keep_meaning_of_shape(graph: Graph, node: Node, copy: Node) -> None:
    """What a producer wrote that spelt an unknown shape like a scalar is spelt as newer graphs do."""
    old, new = node.graph.store.producer, graph.store.producer
    if node.op == "Placeholder" and old < SCALAR_MEANS_UNKNOWN_BEFORE <= new and placeholder_shape(node) is None:
        graph.set_attr(copy, "shape", shape_value(None).SerializeToString())


def _names(graph: Graph, originals: list[Node], forced: Mapping[Node, str], promised: set[str]) -> dict[Node, str]:
    """A name for each copy: its own where that is free, else made unique."""
    own = {node.name for node in originals}
    # A new name must avoid the graph's names, and those that other copies keep.
    unique = UniqueNames(lambda name: name in graph or name in promised or name in own)
    out: dict[Node, str] = {}
    for node in originals:
        if node in forced:
            out[node] = forced[node]
        elif node.name in graph or node.name in promised:
            out[node] = unique(node.name)
        else:
            out[node] = node.name
    return out


def _wire(graph: Graph, node: Node, copied: Copied) -> None:
    """Gives the copy of NODE its inputs, colocations and function names."""
    copy = copied.nodes[node]
    graph.set_inputs(copy, [copied.output(read) for read in node.inputs])
    graph.set_controls(copy, [copied.node(control) for control in node.controls])
    if node.attr_bytes(COLOCATION_ATTR) or node.colocated:
        graph.set_colocated(copy, [copied.node(n) for n in node.colocated if n.exists])
    if copied.renamed_functions:
        respell_functions(graph, copy, copied.renamed_functions)
