"""control-edges: control edges added and removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.analysis.traversal.control_flow import control_flow, while_frames
from gdsurgeon.analysis.traversal.order import find_cycle, spelt_cycle
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import Pairs, pairs_of, public
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.naming import naming, of_nodes
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import CONTROL_FLOW, MERGE
from gdsurgeon.select import one_node
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import named

Edge = tuple[str | Node, str | Node]
"""(node, what it waits for), names or nodes; the latter may be written with its ``^``."""

ALL_OF_THEM = "*"
"""In place of what a node waits for: everything that it waits for."""


@public
@naming(add=of_nodes, remove=of_nodes)
@edit
def control_edges(
    graph: Graph, *, add: Pairs[str | Node, str | Node] = (), remove: Pairs[str | Node, str | Node] = ()
) -> EditResult:
    """Adds control inputs to nodes, and removes some.

    All is decided from the graph as it is before the edit. A node that has a control input several times has it not
    at all after it is removed.

    Args:
        graph: changed in place.
        add: (node, what it is to wait for).
        remove: (node, what it no longer waits for); ``*`` for all of its control inputs.

    Raises:
        EditError: no such node, an edge to add is there or one to remove is not, a cycle would come about, or a node
            would have inputs from two while frames; the graph is as it was.
    """
    if not add and not remove:
        raise EditError("nothing would change: no control edge is given", code="missing-argument")
    adding, removing = pairs_of(add), pairs_of(remove)
    if not adding:
        graph.prefetch([name.removeprefix("^") for edge in removing for name in edge if isinstance(name, str)])
    removed = _removed(graph, removing)
    added = _added(graph, adding)
    warnings: list[str] = []
    if added:
        _check_order(graph, added, removed)
        warnings = list(_branch_warnings(graph, added))
    notes = _notes(added, removed)
    intent = Intent(changed=[node.name for node in dict.fromkeys([*added, *removed])])
    for node in dict.fromkeys([*removed, *added]):
        gone, new = removed.get(node, {}), added.get(node, {})
        controls = dict.fromkeys([*(c for c in node.controls if c not in gone), *new])
        graph.set_controls(node, controls)
    notes += _unread(graph, removed)
    return EditResult(intent, (SameOutputs(),), warnings=warnings, notes=notes)


def control_outputs(graph: Graph) -> dict[Node, list[Node]]:
    """The nodes that wait for each node, each once. Linear; as the graph is now."""
    topology = topology_of(graph)
    out: dict[Node, list[Node]] = {}
    for number in topology.numbers():
        befores = dict.fromkeys(_waits_for(topology, number))
        for before in befores:
            out.setdefault(topology.node(before), []).append(topology.node(number))
    return out


def _waits_for(topology: Topology, number: int) -> Iterator[int]:
    bits, control_port = Table.PORT_BITS, Table.CONTROL_PORT
    for code in topology.inputs(number):
        if code >= 0 and code & control_port == control_port:
            yield code >> bits


Edges = dict[Node, dict[Node, None]]
"""For each node what it waits for."""


def _node(graph: Graph, name: str | Node, *, is_before: bool = False) -> Node:
    if isinstance(name, str):
        name = name.removeprefix("^") if is_before else name
        if name.startswith("^") or ":" in name:
            message = f"{quoted(name)} is not a node name: node names have no :index and no ^"
            raise EditError(message, code="no-such-node", node=name)
    return one_node(graph, name)


def _removed(graph: Graph, edges: Sequence[Edge]) -> Edges:
    out: Edges = {}
    for name, before in edges:
        node = _node(graph, name)
        if isinstance(before, str) and before.removeprefix("^") == ALL_OF_THEM:
            if not node.controls:
                message = f"{quoted(node.name)} has no control inputs"
                raise EditError(message, code="no-such-input", facts={"node": node.name, "found": []})
            out.setdefault(node, {}).update(dict.fromkeys(node.controls))
            continue
        source = _dangling(node, before) or _node(graph, before, is_before=True)
        if source not in node.controls:
            raise EditError(
                f"{quoted(node.name)} has no control dependency on {quoted(source.name)}{_present(node)}",
                code="no-such-input",
                facts={"node": node.name, "name": source.name, "found": [control.name for control in node.controls]},
            )
        out.setdefault(node, {})[source] = None
    return out


def _dangling(node: Node, before: str | Node) -> Node | None:
    """The control input of NODE that is called so and that no node stands behind."""
    if isinstance(before, Node):
        return None
    name = before.removeprefix("^")
    return next((control for control in node.controls if control.name == name and not control.exists), None)


def _present(node: Node) -> str:
    if not node.controls:
        return ": it has no control inputs"
    return f": its control inputs are {named(['^' + control.name for control in node.controls], 4, quoted)}"


def _added(graph: Graph, edges: Sequence[Edge]) -> Edges:
    out: Edges = {}
    for name, before in edges:
        node, source = _node(graph, name), _node(graph, before, is_before=True)
        facts = {"node": node.name, "name": source.name}
        if source is node:
            raise EditError(
                f"{quoted(node.name)} cannot have a control dependency on itself", code="waits-for-itself", facts=facts
            )
        if source in node.controls:
            message = f"{quoted(node.name)} already has a control dependency on {quoted(source.name)}"
            raise EditError(message, code="nothing-to-do", facts=facts)
        if source in out.setdefault(node, {}):
            message = f"{quoted('^' + source.name)} is added to {quoted(node.name)} twice"
            raise EditError(message, code="given-twice", facts=facts)
        out[node][source] = None
    return out


def _check_order(graph: Graph, added: Edges, removed: Edges) -> None:
    """Tries the new edges out: no cycle may come about, and no node with inputs from two while frames."""
    topology = topology_of(graph).draft()
    bits, control_port = Table.PORT_BITS, Table.CONTROL_PORT
    new: set[tuple[int, int]] = set()
    for node in dict.fromkeys([*removed, *added]):
        number = topology.id_of(node)
        gone = {topology.id_of(c) << bits | control_port for c in removed.get(node, ()) if c.exists}
        befores = [topology.id_of(source) for source in added.get(node, ())]
        for before in befores:
            if topology.is_loop_back(before, number):
                source = topology.name(before)
                raise EditError(
                    f"{quoted(node.name)} cannot have a control dependency on {quoted(source)}: only data "
                    "edges lead from one iteration of a while loop to the next",
                    code="crosses-loop",
                    facts={"node": node.name, "name": source},
                )
        new.update((before, number) for before in befores)
        codes = [code for code in topology.inputs(number) if code not in gone]
        topology.set_inputs(number, [*codes, *(before << bits | control_port for before in befores)])
    cycle = find_cycle(topology)
    # A cycle without any of the new edges was there before: the edit may be there to open it.
    if any(edge in new for edge in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True)):
        raise EditError(
            f"the control edges would make a cycle: {spelt_cycle(topology, cycle)}",
            code="would-cycle",
            facts={"nodes": [topology.name(number) for number in cycle[:20]], "count": len(cycle)},
        )
    _check_frames(graph, topology)


def _check_frames(graph: Graph, topology: Topology) -> None:
    """TensorFlow refuses a node whose inputs, control inputs included, come from several while frames."""
    frames = while_frames(topology)
    if not frames.names:
        return
    mixed = _mixed(topology, frames.of)
    if not mixed:
        return
    clean = topology_of(graph)
    before = _mixed(clean, while_frames(clean).of)
    for number, (one, other) in mixed.items():
        if number not in before:
            places = [f"{quoted(topology.name(n))} ({_frame(frames.names, frames.of[n])})" for n in (one, other)]
            names = frames.names
            loops = [names[at] if at >= 0 else None for at in (frames.of[one], frames.of[other])]
            raise EditError(
                f"{quoted(topology.name(number))} would have inputs from different while loops: {' and '.join(places)}",
                code="crosses-loop",
                facts={
                    "node": topology.name(number),
                    "inputs": [topology.name(one), topology.name(other)],
                    "loops": loops,
                },
            )


def _frame(names: Sequence[str], frame: int) -> str:
    return f"inside the while loop {quoted(names[frame])}" if frame >= 0 else "outside of while loops"


def _mixed(topology: Topology, frames: Sequence[int]) -> dict[int, tuple[int, int]]:
    """The nodes with inputs from several frames, each with two inputs that show it."""
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


def _branch_warnings(graph: Graph, added: Edges) -> Iterator[Remark]:
    """What would no longer run, because what it waits for is in a branch of a conditional."""
    topology = topology_of(graph)
    if not topology.ops() & CONTROL_FLOW:
        return
    branches = control_flow(topology).branches
    for node, befores in added.items():
        for source in befores:
            deeper = branches[topology.id_of(source)] > branches[topology.id_of(node)]
            if deeper and node.op not in MERGE:
                text = f"{quoted(node.name)} will run only if {quoted(source.name)} runs, "
                text += "which is in a branch of a conditional"
                yield Remark(text, "crosses-branch", node=node.name, name=source.name)


def _notes(added: Edges, removed: Edges) -> list[str]:
    out = [
        f"{printable(node.name)} has a control dependency on {printable(source.name)}"
        for node, befores in added.items()
        for source in befores
    ]
    out += [
        f"{printable(node.name)} no longer has a control dependency on {printable(source.name)}"
        for node, befores in removed.items()
        for source in befores
    ]
    return out


def _unread(graph: Graph, removed: Edges) -> list[str]:
    """Who runs no longer unless it is asked for."""
    sources = dict.fromkeys(source for befores in removed.values() for source in befores)
    idle = [source.name for source in sources if source.exists and not graph.users(source)]
    return [
        Remark(f"{printable(name)} has no consumers and no control outputs any more", "unused", node=name)
        for name in idle
    ]
