"""remove: removes nodes, and reconnects their consumers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.arithmetic import check_can_replace
from gdsurgeon.analysis.traversal.control_flow import control_flow_of, frames_of
from gdsurgeon.analysis.traversal.topology import boundary, topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs, SameTensors, equation
from gdsurgeon.edits.decorator import edit, of_selection
from gdsurgeon.edits.functions import drop_unused_functions
from gdsurgeon.edits.replacing import move_uses, put_placeholders, remove_unused, unrenamed_outputs
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
    given = changing | put_placeholders(graph, {} if place else read, nodes, intent)
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


# -- control edges -----------------------------------------------------------------------------------------


def _new_controls(graph: Graph, members: dict[Node, None], bypass: bool) -> dict[Node, list[Node]]:
    """Returns the new control inputs of the users of removed nodes.

    The control inputs of a removed node replace the node; with `bypass` also the nodes that it reads.
    """

    def producers(node: Node) -> list[Node]:  # an edge from the previous iteration of a loop is not an ordering
        return [read.node for read in node.inputs if node.op not in MERGE or read.node.op not in NEXT_ITERATION]

    out: dict[Node, list[Node]] = {}
    waited = any(node.controls for node in members)
    instead: dict[Node, dict[Node, None]] = {}
    above: dict[Node, dict[Node, None]] = {}
    for user in dict.fromkeys(user for node in members for user in graph.users(node) if user not in members):
        before = list(user.controls)
        if bypass and waited:  # the user also needs the control inputs of the bypassed nodes
            for start in (read.node for read in user.inputs if read.node in members):
                found = _collected(
                    start, members, above, lambda n: n.controls, lambda n: [p for p in producers(n) if p in members]
                )
                before += [c for c in found if c not in before and c is not user]
        if before == list(user.controls) and not any(control in members for control in before):
            continue
        new: dict[Node, None] = {}
        for control in before:
            if control in members:
                new |= _collected(
                    control, members, instead, lambda _: (), lambda n: [*n.controls, *(producers(n) if bypass else ())]
                )
            else:
                new[control] = None
        new.pop(user, None)
        out[user] = list(new)
    return out


def _collected(
    start: Node,
    members: Container[Node],
    known: dict[Node, dict[Node, None]],
    own: Callable[[Node], Iterable[Node]],
    above: Callable[[Node], Sequence[Node]],
) -> dict[Node, None]:
    """Returns the `own` nodes of a removed node, and those of the removed nodes `above` it, with all other nodes above.

    `known` has the results for removed nodes.
    """
    pending = [start]
    while pending:
        node = pending[-1]
        nodes = above(node)
        if node not in known:
            known[node] = dict.fromkeys(own(node))  # in a cycle of removed nodes this result is used
            pending += [n for n in nodes if n in members and n not in known]
        if pending[-1] is node:
            pending.pop()
            for other in nodes:
                known[node].update(known[other] if other in members else {other: None})
    return known[start]


def _check_control_flow(
    graph: Graph,
    members: dict[Node, None],
    read: Reads,
    place: Mapping[Output, Output],
    waiting: Mapping[Node, Sequence[Node]],
) -> None:
    """Raises EditError if a user would run in a different loop or branch.

    A node in a loop or branch needs an input from this loop or branch. An input of a Merge needs the branch that it
    had.
    """
    topology = topology_of(graph)
    if not topology.ops() & CONTROL_FLOW:
        return
    frames, flow = frames_of(graph), control_flow_of(graph)
    for user in dict.fromkeys([*waiting, *(user for places in read.values() for user, _ in places)]):
        number = topology.id_of(user)
        own = frame, _ = frames.of[number], flow.sides[number]
        news = {output: place.get(output, output) for output in user.inputs}
        for output, new in news.items() if user.op in MERGE and frame < 0 else ():
            sides = [flow.of_tensor(topology.id_of(tensor.node), tensor.index) for tensor in (output, new)]
            if output.node in members and (new.node in members or sides[0] != sides[1]):
                raise EditError(
                    f"{quoted(user.name)} (Merge) uses {quoted(output.name)} from one branch, but the replacement "
                    "runs for both branches",
                    code="crosses-branch",
                    node=user.name,
                    tensor=output.name,
                )
        if own == (-1, frozenset()) or user.op in ENTER:
            continue
        loop = frames.names[frame] if frame >= 0 else None
        sources = []
        for new in news.values():
            if new.node in members:
                if loop is not None:
                    raise EditError(
                        f"{quoted(user.name)} is inside the while loop {quoted(loop)}, where a placeholder cannot be "
                        "used",
                        code="crosses-loop",
                        node=user.name,
                        loop=loop,
                    )
            elif new.node.op in SWITCH:
                break
            else:
                sources.append(topology.id_of(new.node))
        else:
            controls = [(n, topology.id_of(n)) for n in waiting.get(user, user.controls)]
            if any(
                n.op in SWITCH and topology.op(topology.reads(at)[1][0]) == LOOP_COND and frames.of[at] == frame
                for n, at in controls
            ):
                continue  # the Switch of a loop runs in each iteration
            sources += [at for n, at in controls if n.op not in SWITCH]
            if all((frames.of[source], flow.sides[source]) != own for source in sources):
                where = "a branch of a conditional" if loop is None else f"the while loop {quoted(loop)}"
                raise EditError(
                    f"{quoted(user.name)} would no longer run in {where}: the edit would remove the last edge "
                    f"that makes this node a part of {'the branch' if loop is None else 'the loop'}",
                    code="leaves-branch" if loop is None else "leaves-loop",
                    node=user.name,
                    loop=loop,
                )
