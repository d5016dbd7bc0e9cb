"""remove: removes nodes, and reconnects their consumers."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.arithmetic import check_can_replace
from gdsurgeon.analysis.traversal.control_flow import control_flow, control_flow_of, frames_of
from gdsurgeon.analysis.traversal.order import depth_first
from gdsurgeon.analysis.traversal.topology import boundary, topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs, SameTensors, equation
from gdsurgeon.edits.decorator import edit, of_selection
from gdsurgeon.edits.functions import drop_unused_functions
from gdsurgeon.edits.replacing import move_uses, put_placeholders, remove_unused, unrenamed_outputs
from gdsurgeon.edits.reroute import draft_with
from gdsurgeon.errors import EditError, Json, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output, Use
from gdsurgeon.ops.kinds import CONTROL_FLOW, ENTER, LOOP_COND, MERGE, NEXT_ITERATION, PASSES_ON, SWITCH
from gdsurgeon.select import Nodes, depends_on_feeds, is_constant, nodes_of
from gdsurgeon.text import first_lines

Reads = dict[Output, list[Use]]
"""The outputs of removed nodes that other nodes read, with their uses."""


@edit(nodes=of_selection)
def remove(
    graph: Graph,
    nodes: Nodes,
    *,
    bypass: bool = False,
    bypass_input: int | None = None,
    dangling: str | None = None,
    allow_outputs: bool = False,
    orphans: bool = False,
) -> EditResult:
    """Removes the selected nodes.

    A node with a control input from a removed node gets the control inputs of the removed node instead. Colocations
    with removed nodes are dropped, and unused functions are removed.

    Args:
        graph: changed in place.
        nodes: the selected nodes.
        bypass: consumers of a removed node read an input of the node instead: the only input that is not a constant;
            or, of several, the only one that depends on the inputs of the graph, and not only on shapes and random
            numbers.
        bypass_input: the index of this input.
        dangling: ``placeholder``: consumers of a removed node read a new placeholder of the same dtype and shape.
        allow_outputs: allow to remove outputs of the graph.
        orphans: also remove the producers that are unused then, except the inputs of the graph.

    Raises:
        EditError: a removed node still has consumers, it is an output of the graph, or no input or placeholder can
            replace it. The graph is unchanged.
    """
    members = dict.fromkeys(nodes := nodes_of(graph, nodes))
    if len(members) == graph.node_count:
        raise EditError("nothing would be left: all nodes are selected", code="nothing-left")
    read = {output: uses for output, uses in boundary(members, topology_of(graph)).outer_uses.items() if uses}
    if read and not bypass and dangling is None:
        raise _has_consumers(read)
    outputs = [node for node in output_nodes(graph) if node in members]
    if outputs and not allow_outputs:
        names = ", ".join(quoted(node.name) for node in outputs[:5]) + (", ..." if len(outputs) > 5 else "")
        message = f"{names}: {'an output' if len(outputs) == 1 else 'outputs'} of the graph would be removed"
        raise EditError(message, code="is-output", nodes=[node.name for node in outputs], advice="allow-outputs")
    producers = (other for node in members for other in (*(read.node for read in node.inputs), *node.controls))
    above = [node for node in dict.fromkeys(producers) if node not in members]
    place, equal = _bypass(graph, members, bypass_input, read) if bypass else ({}, set())
    waiting = _new_controls(graph, members, bypass)
    _check_control_flow(graph, members, read, place, waiting)
    changing = {output.name: new.name for output, new in place.items() if output not in equal}

    intent = Intent()
    for user, controls in waiting.items():
        graph.set_controls(user, controls)
        intent.changed.append(user.name)
    move_uses(graph, read, place, intent)
    given = changing | put_placeholders(graph, {} if place else read, {node.name: None for node in nodes}, intent)
    if orphans:
        intent.removed += remove_unused(graph, above)
    intent.functions.removed = drop_unused_functions(graph)
    if place and not given and not outputs:
        return EditResult(intent, (SameOutputs(),))
    statement = equation([f"{printable(old)} := {printable(new)}" for old, new in given.items()])
    claim = SameGiven(given, unrenamed_outputs(graph), statement)
    # A replacement may depend on a different replacement.
    before = [SameTensors(tuple(dict.fromkeys(changing.values())), changing if len(changing) > 1 else {})]
    return EditResult(intent, (*(before if changing else ()), claim))


def _has_consumers(read: Reads) -> EditError:
    lines = tuple(
        dict.fromkeys(f"{quoted(user.name)} uses {quoted(o.name)}" for o, places in read.items() for user, _ in places)
    )
    output, places = next(iter(read.items()))
    message = f"{quoted(output.node.name)} cannot be removed: {quoted(places[0][0].name)} uses it"
    return EditError(
        message if len(lines) == 1 else "the selected nodes still have consumers:",
        code="has-consumers",
        consumers={o.name: list(dict.fromkeys(user.name for user, _ in read[o])) for o in read},
        details=first_lines(lines, 20) if len(lines) > 1 else (),
        advice="bypass",
    )


def _bypass(
    graph: Graph, members: Container[Node], which: int | None, outputs: Iterable[Output]
) -> tuple[dict[Output, Output], set[Output]]:
    """Returns the inputs that replace outputs of removed nodes, over chains of removed nodes.

    Also returns the outputs that have the same value as their replacements.

    Raises:
        EditError: no input can replace an output.
    """
    topology = topology_of(graph)
    constant, fed = is_constant(topology), bytearray()
    ends: dict[Output, Output] = {}
    equal: set[Output] = set()

    def input_of(output: Output) -> Output:
        nonlocal fed
        node = output.node

        def refusal(code: str, why: str, *, advice: str | tuple[str, ...] = (), **facts: Json) -> EditError:
            message = f"{quoted(node.name)} ({printable(node.op)}) cannot be bypassed{why}"
            return EditError(message, code=code, advice=advice, facts={"node": node.name, **facts})

        if node.op in CONTROL_FLOW:
            frames = frames_of(graph)
            frame = frames.of[topology.id_of(node)]
            name = frames.names[frame] if frame >= 0 else None
            loop = "" if name is None else f" of the while loop {quoted(name)}"
            code = "crosses-branch" if name is None else "crosses-loop"
            raise refusal(code, f": it is part of the control flow{loop}", loop=name)
        missing = [read.name for read in node.inputs if not read.node.exists]
        if missing:
            raise refusal("unsound-graph", f": its input {quoted(missing[0])} does not exist", input=missing[0])
        count = len(node.inputs)
        if which is not None:
            if not 0 <= which < count:
                raise refusal("no-such-input", f" by input {which}: it has {count} inputs", value=which, count=count)
            return node.inputs[which]
        if not node.inputs:
            raise refusal("no-such-input", ": it has no inputs", count=0)
        if _forwards_by_index(node):
            return node.inputs[output.index]
        found = list(node.inputs)
        if len(found) > 1:
            found = [read for read in found if not constant[topology.id_of(read.node)]]
        if len(found) > 1:
            fed = fed or depends_on_feeds(topology)
            found = [read for read in found if fed[topology.id_of(read.node)]] or found
        if output.index:
            why = f": no input corresponds to its output {output.index}"
            raise refusal("no-such-input", why, output=output.index)
        if len(found) != 1:
            names = [read.name for read in node.inputs]
            why = f": it has several inputs ({', '.join(map(quoted, names))})"
            raise refusal("ambiguous-input", why, advice="bypass-input", inputs=names)
        return found[0]

    place: dict[Output, Output] = {}
    for start in outputs:
        path: dict[Output, Output] = {}
        output = start
        while output.node in members and output not in ends:
            if output in path:
                message = f"{quoted(start.name)} cannot be bypassed: the removed nodes form a loop"
                raise EditError(message, code="would-cycle", tensor=start.name)
            path[output] = output = input_of(output)
        place[start] = end = ends.get(output, output)
        for step, new in reversed(path.items()):
            ends[step] = end
            same = _forwards_by_index(step.node) or (step.node.op in PASSES_ON and new == step.node.inputs[0])
            if same and (new in equal or new.node not in members):
                equal.add(step)
    for output, new in place.items():
        check_can_replace(output, new, "input")
    return place, equal


def _forwards_by_index(node: Node) -> bool:
    """Returns whether the op's signature pairs each output with an input, as IdentityN does."""
    definition = node.op_def
    if definition is None or len(definition.inputs) != 1 or len(definition.outputs) != 1:
        return False
    given, got = definition.inputs[0], definition.outputs[0]
    kinds = [(arg.dtype, arg.type_attr, arg.number_attr, arg.list_attr) for arg in (given, got)]
    return kinds[0] == kinds[1] and bool(given.number_attr or given.list_attr)


# -- control edges and control flow ------------------------------------------------------------------------


def _new_controls(graph: Graph, members: dict[Node, None], bypass: bool) -> dict[Node, list[Node]]:
    """Returns the new control inputs of the users of removed nodes.

    The control inputs of a removed node replace the node; with `bypass` also the nodes that it reads. A consumer of a
    bypassed node also needs its control inputs.
    """
    users = dict.fromkeys(user for node in members for user in graph.users(node) if user not in members)
    waiting = any(control in members for user in users for control in user.controls)
    if not waiting and not (bypass and any(node.controls for node in members)):
        return {}
    topology = topology_of(graph)
    inside = topology.flags(map(topology.id_of, members))

    def producers(number: int) -> list[int]:
        return [p for p in topology.producers(number) if inside[p] and not topology.is_loop_back(p, number)]

    # The control inputs of each removed node, and of the nodes above it; on a cycle not yet known.
    waits: dict[Node, dict[Node, None]] = {node: {} for node in members}
    instead: dict[Node, dict[Node, None]] = {node: {} for node in members}
    for node in map(topology.node, depth_first(map(topology.id_of, members), topology.size, producers)):
        above = [r.node for r in node.inputs if node.op not in MERGE or r.node.op not in NEXT_ITERATION]
        own = [other for control in node.controls for other in instead.get(control, (control,))]
        waits[node] = dict.fromkeys([*own, *(other for p in above for other in waits.get(p, ()))])
        instead[node] = dict.fromkeys([*own, *(o for p in above if bypass for o in instead.get(p, (p,)))])
    out: dict[Node, list[Node]] = {}
    for user in users:
        controls = [other for control in user.controls for other in instead.get(control, (control,))]
        controls += [other for read in user.inputs if bypass for other in waits.get(read.node, ())]
        new = [other for other in dict.fromkeys(controls) if other is not user]
        if new != list(dict.fromkeys(user.controls)):
            out[user] = new
    return out


def _check_control_flow(
    graph: Graph,
    members: dict[Node, None],
    read: Reads,
    place: Mapping[Output, Output],
    waiting: Mapping[Node, Sequence[Node]],
) -> None:
    """Raises EditError if a user would run in a different loop or branch. An input of a Merge must keep its branch."""
    topology = topology_of(graph)
    if not topology.ops() & CONTROL_FLOW:
        return
    frames, flow = frames_of(graph), control_flow_of(graph)
    users = dict.fromkeys([*waiting, *(user for places in read.values() for user, _ in places)])
    news = {user: [place.get(output, output) for output in user.inputs] for user in users}
    for user, inputs in news.items():
        frame = frames.of[topology.id_of(user)]
        for output, new in zip(user.inputs, inputs, strict=True):
            if output.node not in members:
                continue
            sides = [flow.of_tensor(topology.id_of(tensor.node), tensor.index) for tensor in (output, new)]
            if user.op in MERGE and frame < 0 and (new.node in members or sides[0] != sides[1]):
                raise EditError(
                    f"{quoted(user.name)} (Merge) uses {quoted(output.name)} from one branch, but the replacement "
                    "runs for both branches",
                    code="crosses-branch",
                    node=user.name,
                    tensor=output.name,
                )
            if new.node in members and frame >= 0 and user.op not in ENTER:
                line = f"{quoted(user.name)} is inside the while loop {quoted(frames.names[frame])}"
                facts: dict[str, Json] = {"node": user.name, "loop": frames.names[frame]}
                raise EditError(f"{line}, where a placeholder cannot be used", code="crosses-loop", facts=facts)
    kept = {user: [new for new in inputs if new.node not in members] for user, inputs in news.items()}
    draft = draft_with(topology, {user: (inputs, waiting.get(user, user.controls)) for user, inputs in kept.items()})
    new_flow = control_flow(draft, topology)
    for user in users:
        number = topology.id_of(user)
        loop, new_loop = (f.names[f.of[number]] if f.of[number] >= 0 else None for f in (frames, new_flow.loops))
        # The Switch of a loop runs in each iteration, for both values of its condition.
        switches = [c for c in waiting.get(user, user.controls) if c.exists and c.op in SWITCH]
        is_held = any(switch.inputs[1].node.op == LOOP_COND for switch in switches)
        if user.op not in ENTER and (
            loop != new_loop or (not is_held and flow.sides[number] != new_flow.sides[number])
        ):
            if loop is None and not flow.sides[number]:  # it waits for a bypassed Merge or Exit
                what = "branch" if new_loop is None else "loop"
                line = f"{quoted(user.name)} would run only in a {what}, because it would depend on nodes there"
                raise EditError(line, code=f"crosses-{what}", node=user.name, loop=new_loop)
            what = "branch" if loop is None else "loop"
            where = "a branch of a conditional" if loop is None else f"the while loop {quoted(loop)}"
            line = f"{quoted(user.name)} would no longer run in {where}: the edit would remove the last edge that makes"
            facts = {"node": user.name, "loop": loop}
            raise EditError(f"{line} this node a part of the {what}", code=f"leaves-{what}", facts=facts)
