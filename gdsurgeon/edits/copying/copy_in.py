"""Copies another graph into one: nodes, weights and functions; the primitive under every joining edit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import public
from gdsurgeon.edits.copying.fresh_names import (
    clashing_node_names,
    frame_names,
    fresh_frame_names,
    fresh_shared_names,
    has_nameless_variables,
    nameless_variables,
    shared_names,
)
from gdsurgeon.edits.copying.node_copy import NodeCopy
from gdsurgeon.edits.functions.copies import respell_shared_names, shared_names_in_functions
from gdsurgeon.edits.functions.merge import plan_function_merge
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, check_name
from gdsurgeon.graph.node import Node, Output, check_reads
from gdsurgeon.ops.attr_names import BY_NODE_NAME


@public
def copy_in(
    graph: Graph,
    other: Graph,
    *,
    replace: Mapping[Node, Output],
    names: Mapping[Node, str] | None = None,
    after: Node | None = None,
) -> NodeCopy:
    """Copies the nodes of OTHER into GRAPH: `plan_copy`, applied at once.

    Raises:
        EditError: see `plan_copy`; GRAPH is as it was.
    """
    return plan_copy(graph, other, replace=replace, names=names).apply(after)


def plan_copy(
    graph: Graph,
    other: Graph,
    *,
    replace: Mapping[Node, Output],
    names: Mapping[Node, str] | None = None,
    reserved: Iterable[str] = (),
) -> NodeCopy:
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
        check_reads(node)
    plan = _names(graph, originals, forced, {*reserved, *forced.values()})
    functions = plan_function_merge(graph.functions, other.functions)
    frames, shared = _clashing(graph, other, originals)
    functions.added = respell_shared_names(functions.added, shared)
    nameless = nameless_variables(plan)
    if nameless and not has_nameless_variables(topology_of(graph)):
        nameless = {}
    if any(node.has_attr(BY_NODE_NAME) for node in originals):
        nameless |= clashing_node_names(topology_of(graph), plan)
    renamed = {node.name: name for node, name in plan.items() if name != node.name and node not in forced}
    stands = {node.output: tensor for node, tensor in replace.items()}
    return NodeCopy(graph, plan, stands, functions, frames, shared, nameless, renamed)


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
