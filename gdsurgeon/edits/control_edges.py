"""control-edges: adds and removes control edges."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.analysis.traversal.control_flow import control_flow, control_flow_of, frames_of
from gdsurgeon.analysis.traversal.order import find_cycle, spelt_cycle
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.decorator import edit, of_nodes
from gdsurgeon.edits.reroute import draft_with
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import CONTROL_FLOW, MERGE
from gdsurgeon.select import one_node
from gdsurgeon.text import named

Edge = tuple[str | Node, str | Node]
"""A node and its control input, as names or nodes. The name of the control input may begin with ``^``."""
Edges = dict[Node, dict[Node, None]]
"""Control inputs of nodes."""
ALL_OF_THEM = "*"
"""Stands for all control inputs of a node."""


@edit(add=of_nodes, remove=of_nodes)
def control_edges(
    graph: Graph, *, add: Pairs[str | Node, str | Node] = (), remove: Pairs[str | Node, str | Node] = ()
) -> EditResult:
    """Adds control inputs to nodes, and removes control inputs.

    All changes refer to the graph before the edit. If a node has a control input several times, all are removed.

    Args:
        graph: changed in place.
        add: pairs (node, new control input).
        remove: pairs (node, control input to remove); ``*`` stands for all control inputs of the node.

    Raises:
        EditError: no such node, an edge to add exists, an edge to remove does not exist, the graph would have a cycle,
            or a node would have inputs from two while frames. The graph is unchanged.
    """
    if not add and not remove:
        raise EditError("nothing would change: no control edge is given", code="missing-argument")
    adding, removing = pairs_of(add), pairs_of(remove)
    if not adding:
        graph.prefetch([name.removeprefix("^") for edge in removing for name in edge if isinstance(name, str)])
    removed, added = _removed(graph, removing), _added(graph, adding)
    controls = {node: dict.fromkeys(node.controls) for node in dict.fromkeys([*removed, *added])}
    for node, found in controls.items():
        for gone in removed.get(node, ()):
            del found[gone]
        found.update(added.get(node, {}))
    result = EditResult(claims=(SameOutputs(),))
    if added:
        _check_order(graph, added, controls)
        topology = topology_of(graph)
        if topology.ops() & CONTROL_FLOW:
            branches = control_flow_of(graph).branches
            for node, source in ((node, source) for node, sources in added.items() for source in sources):
                if branches[topology.id_of(source)] > branches[topology.id_of(node)] and node.op not in MERGE:
                    text = f"{quoted(node.name)} will run only if {quoted(source.name)} runs, "
                    text += "which is in a branch of a conditional"
                    result.warn(text, "crosses-branch", node=node.name, name=source.name)
    result.notes = [
        f"{printable(node.name)} {verb} a control dependency on {printable(source.name)}"
        for edges, verb in ((added, "has"), (removed, "no longer has"))
        for node, sources in edges.items()
        for source in sources
    ]
    result.intent.changed = [node.name for node in dict.fromkeys([*added, *removed])]
    for node, found in controls.items():
        graph.set_controls(node, found)
    for source in dict.fromkeys(source for sources in removed.values() for source in sources):
        if source.exists and not graph.users(source):
            text = f"{printable(source.name)} has no consumers and no control outputs any more"
            result.note(text, "unused", node=source.name)
    return result


def control_outputs(graph: Graph) -> dict[Node, list[Node]]:
    """Returns the control outputs of each node, each once, in linear time."""
    topology = topology_of(graph)
    out: dict[Node, list[Node]] = {}
    for number in topology.numbers():
        sources = (code >> _BITS for code in topology.inputs(number) if code >= 0 and code & _CONTROL == _CONTROL)
        for source in dict.fromkeys(sources):
            out.setdefault(topology.node(source), []).append(topology.node(number))
    return out


_BITS, _CONTROL = Table.PORT_BITS, Table.CONTROL_PORT


def _node(graph: Graph, name: str | Node, *, is_source: bool = False) -> Node:
    if isinstance(name, str):
        name = name.removeprefix("^") if is_source else name
        if name.startswith("^") or ":" in name:
            message = f"{quoted(name)} is not a node name: node names have no :index and no ^"
            raise EditError(message, code="no-such-node", node=name)
    return one_node(graph, name)


def _removed(graph: Graph, edges: Sequence[Edge]) -> Edges:
    out: Edges = {}
    for name, control in edges:
        node = _node(graph, name)
        text = control.removeprefix("^") if isinstance(control, str) else None
        if text == ALL_OF_THEM:
            if not node.controls:
                message = f"{quoted(node.name)} has no control inputs"
                raise EditError(message, code="no-such-input", node=node.name, found=[])
            out.setdefault(node, {}).update(dict.fromkeys(node.controls))
            continue
        missing = next((c for c in node.controls if c.name == text and not c.exists), None)
        source = missing or _node(graph, control, is_source=True)
        if source not in node.controls:
            found = [c.name for c in node.controls]
            present = f"its control inputs are {named(['^' + n for n in found], 4, quoted)}"
            raise EditError(
                f"{quoted(node.name)} has no control dependency on {quoted(source.name)}: "
                f"{present if found else 'it has no control inputs'}",
                code="no-such-input",
                node=node.name,
                name=source.name,
                found=found,
            )
        out.setdefault(node, {})[source] = None
    return out


def _added(graph: Graph, edges: Sequence[Edge]) -> Edges:
    out: Edges = {}
    for name, control in edges:
        node, source = _node(graph, name), _node(graph, control, is_source=True)
        facts = {"node": node.name, "name": source.name}
        if source is node:
            message = f"{quoted(node.name)} cannot have a control dependency on itself"
            raise EditError(message, code="waits-for-itself", facts=facts)
        if source in node.controls:
            message = f"{quoted(node.name)} already has a control dependency on {quoted(source.name)}"
            raise EditError(message, code="nothing-to-do", facts=facts)
        if source in out.setdefault(node, {}):
            message = f"{quoted('^' + source.name)} is added to {quoted(node.name)} twice"
            raise EditError(message, code="given-twice", facts=facts)
        out[node][source] = None
    return out


def _check_order(graph: Graph, added: Edges, controls: Edges) -> None:
    """Raises EditError if the new edges would make a cycle, or a node would have inputs from two while frames."""
    topology = draft_with(topology_of(graph), {node: (node.inputs, found) for node, found in controls.items()})
    new = [(topology.id_of(source), topology.id_of(node)) for node, sources in added.items() for source in sources]
    for source_number, number in new:
        if topology.is_loop_back(source_number, number):
            own, name = topology.name(number), topology.name(source_number)
            raise EditError(
                f"{quoted(own)} cannot have a control dependency on {quoted(name)}: only data "
                "edges lead from one iteration of a while loop to the next",
                code="crosses-loop",
                node=own,
                name=name,
            )
    cycle = find_cycle(topology)
    # A cycle without a new edge is older than this edit, which may remove a part of it.
    if not {*new}.isdisjoint(zip(cycle, [*cycle[1:], *cycle[:1]], strict=True)):
        raise EditError(
            f"the control edges would make a cycle: {spelt_cycle(topology, cycle)}",
            code="would-cycle",
            nodes=[topology.name(number) for number in cycle[:20]],
            count=len(cycle),
        )
    frames, clean = control_flow(topology).loops, topology_of(graph)
    mixed = _mixed(topology, frames.of) if frames.names else {}
    before = _mixed(clean, frames_of(graph).of) if mixed else {}
    for number, inputs in mixed.items():
        if number not in before:
            names = [topology.name(n) for n in inputs]
            loops = [frames.names[at] if (at := frames.of[n]) >= 0 else None for n in inputs]
            places = [
                f"{quoted(name)} ({f'inside the while loop {quoted(loop)}' if loop is not None else _OUTSIDE})"
                for name, loop in zip(names, loops, strict=True)
            ]
            own = topology.name(number)
            raise EditError(
                f"{quoted(own)} would have inputs from different while loops: {' and '.join(places)}",
                code="crosses-loop",
                node=own,
                inputs=names,
                loops=loops,
            )


_OUTSIDE = "outside of while loops"


def _mixed(topology: Topology, frames: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Returns the nodes with inputs from several frames, which TensorFlow refuses, each with two such inputs."""
    out: dict[int, tuple[int, int]] = {}
    for number in topology.numbers():
        first = -1
        for producer in topology.producers(number):
            if topology.is_loop_back(producer, number):
                continue
            if first < 0:
                first = producer
            elif frames[producer] != frames[first]:
                out[number] = (first, producer)
                break
    return out
