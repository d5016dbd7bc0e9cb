"""remove: takes nodes out of a graph, and mends what is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.stated import describe, mismatch
from gdsurgeon.analysis.traversal.boundary import boundary
from gdsurgeon.analysis.traversal.control_flow import ControlFlow, Sides, control_flow, while_frames
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import public
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.comparison.intent import Altered, Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs, SameTensors, equation
from gdsurgeon.edits.functions import drop_unused_functions
from gdsurgeon.edits.naming import naming, of_selection
from gdsurgeon.edits.replacing import add_placeholder, drop_colocations, known_shapes, remove_unread, unrenamed_outputs
from gdsurgeon.errors import EditError, Json, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import check_name
from gdsurgeon.graph.node import Node, Output, Use, check_typed
from gdsurgeon.ops.kinds import CONTROL_FLOW, ENTER, LOOP_COND, MERGE, NEXT_ITERATION, PASSES_ON, SWITCH
from gdsurgeon.select import Nodes, depends_on_feeds, is_constant, nodes_of
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import first_lines


@public
@naming(nodes=of_selection)
@edit
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

    A node that waited for one of them waits for what that waited for; colocations with them are dropped, and so are
    functions that nobody calls any more.

    Args:
        graph: changed in place.
        nodes: which nodes.
        bypass: what reads a removed node reads the node's input instead: its only input that is not a constant, or of
            several the only one that depends on what the graph is fed, and not on shapes and chance alone.
        bypass_input: with BYPASS, the input that is meant, counted from 0.
        dangling: ``placeholder``: what reads a removed node reads a placeholder of that dtype and shape instead.
        allow_outputs: whether outputs of the graph may be removed.
        orphans: whether what only removed nodes read or waited for goes with them, inputs excepted.

    Raises:
        EditError: something still reads one of the nodes, one of them is an output of the graph, or no input or
            placeholder can take its place; the graph is as it was.
    """
    members = dict.fromkeys(nodes := nodes_of(graph, nodes))
    if len(members) == graph.node_count:
        raise EditError("nothing would be left: all nodes are selected", code="nothing-left")
    read = _outer_reads(graph, members)
    if not bypass and dangling is None:
        _check_unread(read)
    if not allow_outputs:
        _check_no_outputs(graph, members)
    is_served, above = not members.keys().isdisjoint(output_nodes(graph)), _above(members)
    intent = Intent(removed=[node.name for node in members])
    around = _Bypass(graph, members, bypass_input)
    place = around.of(read) if bypass else {}
    placeholders = _placeholder_names(graph, read) if dangling is not None and not bypass else {}
    waiting = _mended_controls(graph, members, bypass)
    _check_control_flow(graph, members, read, place, waiting)
    shapes = known_shapes(graph, placeholders)
    changing = {output.name: new.name for output, new in place.items() if output not in around.handed_on}
    given = changing | {output.name: name for output, name in placeholders.items()}
    _await(graph, waiting, intent)
    drop_colocations(graph, nodes)
    _redirect(graph, read, place, intent)
    _exchange(graph, nodes, read, placeholders, shapes, intent)
    if orphans:
        intent.removed += remove_unread(graph, above)
    intent.functions.removed = drop_unused_functions(graph)
    if place and not given and not is_served:
        return EditResult(intent, (SameOutputs(),))
    claim = SameGiven(given, unrenamed_outputs(graph), equation(_exchanges(given)))
    # What takes the place of one may depend on another.
    before = [SameTensors(tuple(dict.fromkeys(changing.values())), changing if len(changing) > 1 else {})]
    return EditResult(intent, (*(before if changing else ()), claim))


def _outer_reads(graph: Graph, members: dict[Node, None]) -> Reads:
    """The outputs of MEMBERS that others read, with the places where they do."""
    return {output: uses for output, uses in boundary(members, topology_of(graph)).outer_uses.items() if uses}


def _above(members: dict[Node, None]) -> list[Node]:
    """What MEMBERS read or wait for, and is none of them, each once."""
    above = (other for node in members for other in (*(read.node for read in node.inputs), *node.controls))
    return [node for node in dict.fromkeys(above) if node not in members]


def _exchanges(given: Mapping[str, str]) -> list[str]:
    return [f"{printable(old)} := {printable(new)}" for old, new in given.items()]


def _await(graph: Graph, waiting: Mapping[Node, Sequence[Node]], intent: Intent) -> None:
    """Has nodes wait for what they have to wait for now."""
    for user, controls in waiting.items():
        graph.set_controls(user, controls)
        intent.changed.append(user.name)


Reads = dict[Output, list[Use]]
"""The outputs of removed nodes that others read, with the places where they do."""


def _check_unread(read: Reads) -> None:
    if not read:
        return
    lines = tuple(
        dict.fromkeys(f"{quoted(user.name)} uses {quoted(o.name)}" for o, places in read.items() for user, _ in places)
    )
    output, places = next(iter(read.items()))
    message = f"{quoted(output.node.name)} cannot be removed: {quoted(places[0][0].name)} uses it"
    if len(lines) > 1:
        message = "the selected nodes still have consumers:"
    raise EditError(
        message,
        code="has-consumers",
        consumers={o.name: list(dict.fromkeys(user.name for user, _ in read[o])) for o in read},
        details=first_lines(lines, 20) if len(lines) > 1 else (),
        advice="bypass",
    )


def _check_no_outputs(graph: Graph, members: dict[Node, None]) -> None:
    outputs = [node for node in output_nodes(graph) if node in members]
    if outputs:
        names = ", ".join(quoted(node.name) for node in outputs[:5]) + (", ..." if len(outputs) > 5 else "")
        raise EditError(
            f"{names}: {'an output' if len(outputs) == 1 else 'outputs'} of the graph would be removed",
            code="is-output",
            nodes=[node.name for node in outputs],
            advice="allow-outputs",
        )


class _Bypass:
    """What takes the place of outputs of removed nodes: inputs of theirs, or of the removed nodes before them."""

    def __init__(self, graph: Graph, members: dict[Node, None], which: int | None) -> None:
        self.members = members
        self.which = which
        self.topology = topology_of(graph)
        self.constant = is_constant(self.topology)
        self.found: dict[Output, Output] = {}
        self.handed_on: set[Output] = set()  # those of `found` that have the value of what takes their place

    @cached_property
    def _fed(self) -> bytearray:
        return depends_on_feeds(self.topology)

    def of(self, outputs: Iterable[Output]) -> dict[Output, Output]:
        """For each of OUTPUTS what takes its place. Raises EditError where nothing can."""
        out = {output: self._end(output) for output in outputs}
        for output, new in out.items():
            if code := mismatch(output, new):
                raise EditError(
                    f"{quoted(output.name)} ({describe(output)}) cannot be bypassed: its input "
                    f"{quoted(new.name)} is {describe(new)}",
                    code=code,
                    facts={
                        "tensor": output.name,
                        "expected": describe(output),
                        "input": new.name,
                        "found": describe(new),
                    },
                )
        return out

    def _end(self, start: Output) -> Output:
        path: dict[Output, Output] = {}
        output = start
        while output.node in self.members and output not in self.found:
            if output in path:
                raise EditError(
                    f"{quoted(start.name)} cannot be bypassed: the removed nodes form a loop",
                    code="would-cycle",
                    tensor=start.name,
                )
            path[output] = output = self._input_of(output)
        end = self.found.get(output, output)
        for step, new in reversed(path.items()):
            self.found[step] = end
            same = _hands_on(step.node) or (step.node.op in PASSES_ON and new == step.node.inputs[0])
            if same and (new in self.handed_on or new.node not in self.members):
                self.handed_on.add(step)
        return end

    def _input_of(self, output: Output) -> Output:
        node = output.node

        def refusal(code: str, why: str, *, advice: str | tuple[str, ...] = (), **facts: Json) -> EditError:
            message = f"{quoted(node.name)} ({printable(node.op)}) cannot be bypassed{why}"
            return EditError(message, code=code, advice=advice, facts={"node": node.name, **facts})

        if node.op in CONTROL_FLOW:
            frame = while_frames(self.topology)
            number = frame.of[self.topology.id_of(node)]
            name = frame.names[number] if number >= 0 else None
            loop = "" if name is None else f" of the while loop {quoted(name)}"
            code = "crosses-branch" if name is None else "crosses-loop"
            raise refusal(code, f": it is part of the control flow{loop}", loop=name)
        missing = [read.name for read in node.inputs if not read.node.exists]
        if missing:
            raise refusal("unsound-graph", f": its input {quoted(missing[0])} does not exist", input=missing[0])
        count = len(node.inputs)
        if self.which is not None:
            if not 0 <= self.which < count:
                raise refusal(
                    "no-such-input", f" by input {self.which}: it has {count} inputs", value=self.which, count=count
                )
            return node.inputs[self.which]
        if not node.inputs:
            raise refusal("no-such-input", ": it has no inputs", count=0)
        if _hands_on(node):
            return node.inputs[output.index]
        found = list(node.inputs)
        if len(found) > 1:
            found = [read for read in found if not self.constant[self.topology.id_of(read.node)]]
        if len(found) > 1:
            found = [read for read in found if self._fed[self.topology.id_of(read.node)]] or found
        if output.index:
            why = f": no input corresponds to its output {output.index}"
            raise refusal("no-such-input", why, output=output.index)
        if len(found) != 1:
            names = [read.name for read in node.inputs]
            why = f": it has several inputs ({', '.join(map(quoted, names))})"
            raise refusal("ambiguous-input", why, advice="bypass-input", inputs=names)
        return found[0]


def _hands_on(node: Node) -> bool:
    """Whether each output of NODE has an input as its counterpart, by the signature of the op (IdentityN)."""
    definition = node.op_def
    if definition is None or len(definition.inputs) != 1 or len(definition.outputs) != 1:
        return False
    given, got = definition.inputs[0], definition.outputs[0]
    kinds = [(arg.dtype, arg.type_attr, arg.number_attr, arg.list_attr) for arg in (given, got)]
    return kinds[0] == kinds[1] and bool(given.number_attr or given.list_attr)


def _placeholder_names(graph: Graph, read: Reads) -> dict[Output, str]:
    """A name for each placeholder: that of its node, where it stands for output 0."""
    for output in read:
        check_typed(output)
        check_name(output.node.name)
    unique = graph.unique_names()
    return {o: o.node.name if not o.index else unique(f"{o.node.name}_{o.index}") for o in read}


def _mended_controls(graph: Graph, members: dict[Node, None], bypass: bool) -> dict[Node, list[Node]]:
    """Who waited for a removed node waits for what that waited for (bypassed: for what it read, too)."""
    out: dict[Node, list[Node]] = {}
    waited = any(node.controls for node in members)
    known: dict[Node, dict[Node, None]] = {}
    read: dict[Node, dict[Node, None]] = {}
    for user in dict.fromkeys(user for node in members for user in graph.users(node) if user not in members):
        before = list(user.controls)
        if bypass and waited:  # what it read waited for something: so does what it reads now
            before += [c for c in _controls_above(user, members, read) if c not in before and c is not user]
        if before == list(user.controls) and not any(control in members for control in before):
            continue
        new: dict[Node, None] = {}
        for control in before:
            new.update(_in_place_of(control, members, bypass, known))
        new.pop(user, None)
        out[user] = list(new)
    return out


def _in_place_of(
    control: Node, members: dict[Node, None], bypass: bool, known: dict[Node, dict[Node, None]]
) -> dict[Node, None]:
    """What to wait for in the place of CONTROL: itself, or what a removed node waited for, as KNOWN keeps it."""
    if control not in members:
        return {control: None}
    pending = [control]
    while pending:
        node = pending[-1]
        above = [*node.controls, *(_read_by(node) if bypass else ())]
        if node not in known:
            known[node] = {}  # of a loop of removed nodes: nothing yet
            pending += [n for n in above if n in members and n not in known]
        if pending[-1] is node:
            pending.pop()
            for other in above:
                known[node].update(known[other] if other in members else {other: None})
    return known[control]


def _read_by(node: Node) -> list[Node]:
    """The nodes that NODE reads; what a loop gives back comes from the round before, and is nothing to wait for."""
    return [read.node for read in node.inputs if node.op not in MERGE or read.node.op not in NEXT_ITERATION]


def _controls_above(user: Node, members: dict[Node, None], known: dict[Node, dict[Node, None]]) -> dict[Node, None]:
    """What the removed nodes that USER reads, one after another, wait for; KNOWN keeps what was found."""
    out: dict[Node, None] = {}
    for start in (read.node for read in user.inputs if read.node in members):
        pending = [start]
        while pending:
            node = pending[-1]
            above = [other for other in _read_by(node) if other in members]
            if node not in known:
                known[node] = dict.fromkeys(node.controls)
                pending += [n for n in above if n not in known]
            if pending[-1] is node:
                pending.pop()
                for other in above:
                    known[node].update(known[other])
        out.update(known[start])
    return out


def _check_control_flow(
    graph: Graph,
    members: dict[Node, None],
    read: Reads,
    place: dict[Output, Output],
    waiting: dict[Node, list[Node]],
) -> None:
    """Whoever runs in a while loop, or in a branch of a conditional, must still have an input from there."""
    topology = topology_of(graph)
    if not topology.ops() & CONTROL_FLOW:
        return
    frames, flow = while_frames(topology), control_flow(topology)
    concerned = dict.fromkeys([*waiting, *(user for places in read.values() for user, _ in places)])
    for user in concerned:
        number = topology.id_of(user)
        own = frames.of[number], flow.sides[number]
        if user.op in MERGE and own[0] < 0:
            _check_merge(user, members, place, flow)
        if own == (-1, frozenset()) or user.op in ENTER:
            continue
        sources = []
        for output in user.inputs:
            new = place.get(output, output)
            if new.node in members:
                if own[0] >= 0:
                    raise EditError(
                        f"{quoted(user.name)} is inside the while loop {quoted(frames.names[own[0]])}, where "
                        "a placeholder cannot be used",
                        code="crosses-loop",
                        facts={"node": user.name, "loop": frames.names[own[0]]},
                    )
            elif new.node.op in SWITCH:
                break
            else:
                sources.append(topology.id_of(new.node))
        else:
            controls = waiting.get(user, user.controls)
            if any(_is_of_loop(topology, n) and frames.of[topology.id_of(n)] == own[0] for n in controls):
                continue
            sources += [topology.id_of(n) for n in controls if n.op not in SWITCH]
            if all((frames.of[source], flow.sides[source]) != own for source in sources):
                loop = frames.names[own[0]] if own[0] >= 0 else None
                where = "a branch of a conditional" if loop is None else f"the while loop {quoted(loop)}"
                raise EditError(
                    f"{quoted(user.name)} would no longer run in {where}: the edit would remove the last edge "
                    f"that makes this node a part of {'the branch' if loop is None else 'the loop'}",
                    code="leaves-branch" if loop is None else "leaves-loop",
                    facts={"node": user.name, "loop": loop},
                )


def _check_merge(user: Node, members: dict[Node, None], place: dict[Output, Output], flow: ControlFlow) -> None:
    """What a Merge reads must be there when its branch is taken, and only then."""

    def sides(tensor: Output) -> Sides:
        return flow.of_tensor(flow.topology.id_of(tensor.node), tensor.index)

    for output in user.inputs:
        new = place.get(output, output)
        if output.node in members and (new.node in members or sides(new) != sides(output)):
            raise EditError(
                f"{quoted(user.name)} (Merge) uses {quoted(output.name)} from one branch, but the replacement "
                "runs for both branches",
                code="crosses-branch",
                facts={"node": user.name, "tensor": output.name},
            )


def _is_of_loop(topology: Topology, node: Node) -> bool:
    """Whether a Switch ends a while loop: who waits for it runs in each round."""
    return node.op in SWITCH and topology.op(topology.reads(topology.id_of(node))[1][0]) == LOOP_COND


def _redirect(graph: Graph, read: Reads, place: dict[Output, Output], intent: Intent) -> None:
    changes: dict[Node, dict[int, Output]] = {}
    for output, new in place.items():
        for user, slot in read[output]:
            changes.setdefault(user, {})[slot] = new
            intent.rewired.append(Rewired(user.name, slot, output.name, new.name))
    graph.set_slots(changes)


def _exchange(
    graph: Graph,
    nodes: Sequence[Node],
    read: Reads,
    placeholders: dict[Output, str],
    shapes: dict[Output, tuple[int, ...] | None],
    intent: Intent,
) -> None:
    """Removes NODES; placeholders that take their places get their names as soon as those are free."""
    unique = graph.unique_names()
    made: dict[Node, str] = {}
    changes: dict[Node, dict[int, Output]] = {}
    for output, name in placeholders.items():
        node = add_placeholder(graph, unique(f"{name}_placeholder"), output.dtype, shapes[output], after=output.node)
        made[node] = name
        intent.altered.append(Altered(name, "attr shape", node.attr_bytes("shape")))
        for user, slot in read[output]:
            changes.setdefault(user, {})[slot] = node.output
            if name != output.name:
                intent.rewired.append(Rewired(user.name, slot, output.name, name))
    graph.set_slots(changes)
    graph.remove(nodes)
    if made:
        graph.rename(made)
    intent.added = list(made.values())
    intent.removed = [name for name in intent.removed if name not in set(intent.added)]
