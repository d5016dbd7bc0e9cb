"""Copies nodes inside their graph: the primitive under every edit that computes a thing twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdsurgeon.analysis.traversal.control_flow import Frames, while_frames
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import public
from gdsurgeon.edits.copying.fresh_names import (
    Respell,
    clashing_node_names,
    frame_names,
    fresh_frame_names,
    fresh_shared_names,
    nameless_variables,
    shared_names,
    shared_names_in_use,
    temporary_variables,
)
from gdsurgeon.edits.copying.node_copy import NodeCopy
from gdsurgeon.edits.functions.copies import (
    plan_function_copies,
    shared_names_called,
    shared_names_in_functions,
)
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import check_name
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import ENTER, LOOP_COND, MERGE, NEXT_ITERATION
from gdsurgeon.select import own_nodes


@public
def copy_nodes(
    graph: Graph,
    nodes: Iterable[Node],
    name: Respell | Mapping[Node, str],
    *,
    replace: Mapping[Output, Output] | None = None,
    respell: Respell | None = None,
) -> NodeCopy:
    """Copies NODES inside GRAPH: `plan_copy_nodes`, applied at once.

    Raises:
        EditError: see `plan_copy_nodes`; GRAPH is as it was.
    """
    return plan_copy_nodes(graph, nodes, name, replace=replace, respell=respell).apply()


def plan_copy_nodes(
    graph: Graph,
    nodes: Iterable[Node],
    name: Respell | Mapping[Node, str],
    *,
    replace: Mapping[Output, Output] | None = None,
    respell: Respell | None = None,
    topology: Topology | None = None,
) -> NodeCopy:
    """Checks and plans a copy of NODES, wired to itself inside and to the originals outside.

    Data and control inputs and colocations among the nodes are those among the copies; what comes from outside comes
    from there again. Copied while loops get frame names of their own, and tables, queues and variables shared names of
    their own; functions are copied where they hold such a name, and shared otherwise. Weights are copied by span when
    the graph is written. The nodes may be in any order.

    Args:
        graph: left as it is.
        nodes: of GRAPH.
        name: what the copy of a node is called, by its name or by the node.
        replace: tensors that the copies read in place of others, whether those are copied or not.
        respell: what becomes of the name of a frame or a shared name; what it gives is made unique.
        topology: of GRAPH, where the caller has it.

    Raises:
        EditError: a name is illegal or taken, an input names no node, or a while loop would be copied in part.
    """
    originals = own_nodes(graph, nodes)
    names = {node: name[node] if isinstance(name, Mapping) else name(node.name) for node in originals}
    _check_names(graph, names)
    replaced = dict(replace or {})
    top = topology or topology_of(graph)
    top.check_reads(map(top.id_of, originals))
    frames = while_frames(top)
    _check_loops(top, frames, originals, replaced)
    spelling = respell or (lambda text: text)
    shared, common = _shared_names(top, originals, spelling)
    return NodeCopy(
        graph,
        names,
        replaced,
        plan_function_copies(graph.functions, originals, shared),
        fresh_frame_names(top, frame_names(originals), spelling),
        shared,
        nameless_variables(names) | clashing_node_names(top, names),
        temporary={old: spelling(old) for old in temporary_variables(originals)},
        common=common,
    )


def _shared_names(topology: Topology, nodes: list[Node], respell: Respell) -> tuple[dict[str, str], list[str]]:
    """New shared names for the copies of NODES and of the functions that they call, and those that stay common.

    A table that nodes outside use, too, is filled or read there: the copies use the same one.
    """
    graph = topology.graph
    own = shared_names(graph, nodes)
    inside = set(nodes)
    outside = shared_names_in_use(topology, inside) if own else set()
    wanted = (own | shared_names_called(graph.functions, nodes)) - outside
    new = fresh_shared_names(topology, wanted, respell, shared_names_in_functions(graph.functions)) if wanted else {}
    return new, sorted(own & outside)


def _check_names(graph: Graph, names: Mapping[Node, str]) -> None:
    given: set[str] = set()
    for node, name in names.items():
        check_name(name)
        if name in given or name in graph:
            message = f"the copy of {quoted(node.name)} cannot be named {quoted(name)}: the name is taken"
            raise EditError(message, code="name-taken", facts={"node": node.name, "name": name})
        given.add(name)


def _check_loops(topology: Topology, frames: Frames, nodes: list[Node], replaced: Mapping[Output, Output]) -> None:
    """A loop is copied with all that its copy needs, or what is copied of it is no part of its working."""
    if not frames.names:
        return
    inside = {topology.id_of(node): node for node in nodes}
    fresh = {frames.of[number] for number, node in inside.items() if node.op in ENTER}
    for number, node in inside.items():
        frame = frames.of[number]
        if frame < 0:
            continue
        name = frames.names[frame]
        loop = f"the while loop {quoted(name)}"
        if frame not in fresh:
            if node.op in NEXT_ITERATION | {LOOP_COND} or (node.op in MERGE and _closes_loop(topology, number)):
                message = f"{quoted(node.name)} ({node.op}) cannot be copied without the rest of {loop}"
                raise EditError(message, code="crosses-loop", facts={"node": node.name, "loop": name})
            continue
        if node.op in ENTER:
            continue
        for read in (*node.inputs, *(Output(control, -1) for control in node.controls)):
            other = topology.id_of(read.node)
            if frames.of[other] == frame and other not in inside and read not in replaced:
                raise EditError(
                    f"only a part of {loop} would be copied: {quoted(node.name)} without "
                    f"{quoted(read.node.name)}, one of its inputs",
                    code="crosses-loop",
                    facts={"node": node.name, "input": read.node.name, "loop": name},
                )


def _closes_loop(topology: Topology, number: int) -> bool:
    return any(topology.op(p) in NEXT_ITERATION for p in topology.producers(number))
