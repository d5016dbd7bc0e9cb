"""fuse-ops: replaces the selected nodes by one call of a library function."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.stated import describe, mismatch
from gdsurgeon.analysis.traversal.boundary import Boundary, boundary
from gdsurgeon.analysis.traversal.control_flow import ControlFlow, Frames, Sides, control_flow, while_frames
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.analysis.traversal.walks import escape
from gdsurgeon.arguments import Pairs, pairs_of, public
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs, SamePiece
from gdsurgeon.edits.functions import (
    NO_INLINE,
    NO_OPTIMIZER_OF_ITS_OWN,
    XLA_ATOL,
    XLA_MUST_COMPILE,
    XLA_RTOL,
    add_control_outputs,
    check_fusible,
    is_large_constant,
    make_function,
    name_function,
    plan_function_merge,
    respell_body,
)
from gdsurgeon.edits.naming import naming, of_nodes, of_olds, of_selection, of_tensors
from gdsurgeon.edits.replacing import drop_colocations, hand_on
from gdsurgeon.errors import EditError, NothingToDo, Remark, printable, quoted
from gdsurgeon.graph.attrs import bytes_value, func_value, types_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import check_name
from gdsurgeon.graph.node import Node, Output, Use, check_typed
from gdsurgeon.ops.dtypes import REF
from gdsurgeon.ops.kinds import CONVOLUTIONS, EXIT, PLACEHOLDERS, RECOMPUTED
from gdsurgeon.select import Nodes, Selection, nodes_of, selected
from gdsurgeon.specification.asked import edit
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.protos import FunctionDef


@dataclass
class _CallSite:
    """The while frame (-1: none) and the sides of conditionals that the call will run in."""

    frames: Frames
    flow: ControlFlow
    frame: int
    sides: Sides

    def holds(self, tensor: Output, index: int | None = None) -> bool:
        """Whether what reads TENSOR (or, with an index of -1, waits for its node) runs in this place."""
        number = self.flow.topology.id_of(tensor.node)
        sides = self.flow.of_tensor(number, tensor.index if index is None else index)
        return (self.frames.of[number], sides) == (self.frame, self.sides)

    @property
    def is_plain(self) -> bool:
        """Whether that is outside of all control flow."""
        return self.frame < 0 and not self.sides


@dataclass
class _Fusion:
    """A fusion that has been checked: what is fused, and what takes its place.

    Attributes:
        members: the nodes that become the function, in file order.
        edges: their boundary.
        outputs: the tensors of the members that are to be had afterwards.
        kept: the members whose names stay, with an Identity behind them.
        place: where the call will run.
    """

    members: list[Node]
    edges: Boundary
    outputs: list[Output]
    kept: list[Node]
    place: _CallSite
    notes: list[str] = field(default_factory=list)


@public
@naming(nodes=of_selection, mapped=of_olds(of_tensors), keep=of_nodes)
@edit
def fuse_ops(
    graph: Graph,
    nodes: Nodes,
    name: str,
    *,
    inline: bool = False,
    xla: bool = False,
    body: Graph | None = None,
    mapped: Pairs[str, str] = (),
    keep: Sequence[str] = (),
    rtol: float | None = None,
    atol: float | None = None,
) -> EditResult:
    """Makes the selected nodes one call of a function in the library, and has what read them read the call.

    The graph's outputs keep their names, with an Identity behind each. Large constants stay outside and are handed
    to the function. Control inputs from outside become the call's.

    Args:
        graph: changed in place.
        nodes: which nodes.
        name: what the call is called.
        inline: let TensorFlow put the function's body in the place of the call when it runs the graph.
        xla: have XLA compile the function, and fail where it cannot.
        body: a graph that takes the selection's place: its placeholders stand for the selection's inputs, its results
            (what nobody reads) for the selection's outputs, each by name, or by order of first use. An Exit of a loop
            that has no consumers needs no result, nor does a node that no signature of the model names.
        mapped: (tensor at the selection's boundary, node or tensor of BODY) where they are to be paired otherwise.
        keep: nodes of the selection whose names are to stay, too.
        rtol, atol: by how much the outputs may differ; by default not at all, and a little under XLA.

    Raises:
        EditError: nothing is selected; a path leaves the selection and comes back; it holds control flow, a
            placeholder, a reference, a table or variable, or an unknown op; the name is taken; BODY does not fit.
            The graph is as it was.
    """
    topology = topology_of(graph)
    members = _selected(topology, nodes)
    fusion = _checked(topology, members, name, keep, replaced=body is not None)
    if body is None:
        plan = _of_members(fusion, name, inline or xla, xla)
    else:
        attrs = _attrs(inline or xla, xla)
        optional = _without_consumers(graph, fusion, [topology.graph[kept] for kept in keep])
        hole = Hole(fusion.edges.inputs, fusion.outputs, optional, name, attrs, fusion.place.frame < 0)
        plan = bind_body(graph, hole, body, pairs_of(mapped))
        fusion.outputs = [output for output in fusion.outputs if output not in plan.dropped]
        fusion.kept = [node for node in fusion.kept if node.output not in plan.dropped]
    warnings = [*plan.warnings, *(_xla_warnings(fusion, plan) if xla else ())]
    names = [output.name for output in fusion.outputs]
    read = tuple(output.name for output in fusion.edges.inputs)
    intent = _replace(graph, fusion, plan, name, xla)
    loose = (XLA_RTOL, XLA_ATOL) if xla else (0.0, 0.0)
    claim = SameOutputs(
        rtol=loose[0] if rtol is None else rtol,
        atol=loose[1] if atol is None else atol,
        also=tuple(dict.fromkeys(output.node.name for output in fusion.outputs)),
        except_for=dict.fromkeys([output.name for output in plan.dropped], "removed: BODY does not compute it"),
    )
    if body is None:
        return EditResult(intent, (claim,), warnings, [*fusion.notes, *plan.notes])
    pairs = tuple((old, intent.counterpart(old)) for old in names)
    piece = SamePiece(read, pairs, claim.rtol, claim.atol)
    return EditResult(intent, (claim, piece), warnings, [*fusion.notes, *plan.notes])


def _selected(topology: Topology, selection: Nodes) -> list[Node]:
    if isinstance(selection, Selection):
        try:
            flags = selected(topology, selection)
        except NothingToDo as error:  # a graph without the function is not what was asked for
            raise EditError(error.message, code=error.code, facts=error.facts) from error
        return [topology.node(number) for number in topology.numbers() if flags[number]]
    return sorted(nodes_of(topology.graph, selection), key=topology.id_of)


# -- checks ------------------------------------------------------------------------------------------------


def _checked(topology: Topology, nodes: list[Node], name: str, keep: Sequence[str], *, replaced: bool) -> _Fusion:
    """The fusion of NODES; where another body takes their place they may be what a function cannot hold."""
    notes: list[str] = []
    members = [node for node in nodes if not is_large_constant(node)]
    if len(members) < len(nodes):
        count = len(nodes) - len(members)
        text = f"{count:,} large constant{'s stay' if count != 1 else ' stays'} outside of the function"
        notes.append(Remark(text, "stays-outside", count=count))
    if not members:
        message = "nothing to fuse: the selection has only large constants"
        raise EditError(message, code="nothing-left")
    for node in members:
        if not replaced or node.op in PLACEHOLDERS:
            check_fusible(node)
    _check_convex(topology, members)
    edges = boundary(members, topology)
    outputs, kept = _outputs(topology, members, edges, keep)
    exported = {o.node for o in outputs} | {*kept, *edges.controls_out}
    if replaced:
        place = _place_of(topology, outputs, edges, exported or {*members})
    else:
        place = _check_control_flow(topology, members, exported)
    check_name(name)
    topology.graph.check_free(name, members)
    holder = topology.graph.find(name)
    if holder in kept and not _is_first(holder, outputs):
        message = f"the call cannot be named {quoted(name)}: the node of this name is an output and keeps it"
        raise EditError(message, code="name-taken", name=name)
    for output in (*edges.inputs, *outputs):
        check_typed(output)
    return _Fusion(members, edges, outputs, kept, place, notes)


def _is_first(node: Node, outputs: Sequence[Output]) -> bool:
    """Whether NODE's outputs can have the call's name: there is one, and it is the call's first."""
    return [output for output in outputs if output.node is node] == outputs[:1] == [node.output]


def _check_convex(topology: Topology, members: Sequence[Node]) -> None:
    path = escape(topology, topology.flags(map(topology.id_of, members)))
    if path:
        spelt = " -> ".join(quoted(topology.name(number)) for number in path[:12])
        raise EditError(
            f"the selection cannot become one call: a path leaves it and comes back: {spelt}",
            code="path-outside",
            facts={"nodes": [topology.name(number) for number in path[:12]], "count": len(path)},
            hint="select the nodes in between as well, or fewer nodes",
        )


def _check_control_flow(topology: Topology, members: Sequence[Node], exported: Container[Node]) -> _CallSite:
    """The nodes run together, in one frame and branch: none of them runs more or less often than the others.

    What is in no branch, and is not EXPORTED from the function, may go into one with those that read it.
    """
    frames, flow = while_frames(topology), control_flow(topology)
    ids = [topology.id_of(node) for node in members]
    found = {frames.of[number] for number in ids}
    if len(found) > 1:
        loop = min(frames.names[frame] for frame in found if frame >= 0)
        message = f"the selection is partly inside the while loop {quoted(loop)} and partly outside"
        raise EditError(message, code="crosses-loop", loop=loop)
    inner = max((flow.sides[number] for number in ids), key=len)
    for node, number in zip(members, ids, strict=True):
        sides = flow.sides[number]
        if sides != inner and (not sides <= inner or node in exported):
            other = next(n for n, i in zip(members, ids, strict=True) if flow.sides[i] == inner)
            raise EditError(
                f"{quoted(node.name)} and {quoted(other.name)} cannot become one call: they are in different "
                "branches of a conditional",
                code="crosses-branch",
                nodes=[node.name, other.name],
            )
    return _CallSite(frames, flow, found.pop(), inner)


def _place_of(topology: Topology, outputs: Sequence[Output], edges: Boundary, exported: Iterable[Node]) -> _CallSite:
    """Where what takes the place of nodes will run, loops and conditionals among them gone as a whole.

    What it gives is there in one frame and branch, and what it reads is there in that one.
    """
    frames, flow = while_frames(topology), control_flow(topology)
    ids = [topology.id_of(node) for node in exported]
    places = {(frames.of[number], flow.sides[number]) for number in ids}
    if len(places) > 1:
        message = (
            "the outputs of the selection are in different loops or branches; select these loops or branches completely"
        )
        raise EditError(message, code="crosses-branch", nodes=[topology.name(number) for number in ids])
    place = _CallSite(frames, flow, *places.pop())
    for tensor in edges.inputs:
        number = topology.id_of(tensor.node)
        if frames.of[number] != place.frame or not flow.of_tensor(number, tensor.index) <= place.sides:
            raise EditError(
                f"the input {quoted(tensor.name)} of the selection is in a loop or branch that is only partly selected",
                code="crosses-branch",
                tensor=tensor.name,
            )
    shared = next((tensor for tensor in outputs if tensor.dtype > REF), None)
    if shared is not None:
        message = f"{quoted(shared.name)} is a reference to shared state and cannot be replaced"
        raise EditError(message, code="is-reference", tensor=shared.name)
    return place


def _outputs(
    topology: Topology, members: Sequence[Node], edges: Boundary, keep: Sequence[str]
) -> tuple[list[Output], list[Node]]:
    """What the function returns, and the nodes whose names stay: the graph's outputs, and those to KEEP."""
    chosen = dict.fromkeys(members)
    wanted = set()
    for name in keep:
        node = topology.graph[name]
        if node not in chosen:
            message = f"{quoted(name)} must keep its name, but is not among the selected nodes"
            raise EditError(message, code="not-selected", node=name)
        wanted.add(node)
    read = {output.node for output in edges.inside} | {o.node for o, uses in edges.outer_uses.items() if uses}
    kept = [node for node in members if node in wanted or (node not in read and _is_end(topology, node))]
    outputs = dict.fromkeys(output for output in edges.outputs if edges.outer_uses[output])
    for node in kept:
        outputs.update(dict.fromkeys(Output(node, i) for i in range(node.output_count or 0)))
    place = {node: i for i, node in enumerate(members)}
    return sorted(outputs, key=lambda output: (place[output.node], output.index)), kept


def _without_consumers(graph: Graph, fusion: _Fusion, keep: Collection[Node]) -> list[Output]:
    """The outputs that a body need not have: nodes without consumers that are not what the graph is there for.

    A loop has an Exit for each of its variables. Without signatures each is an output of the graph if it has no
    consumers; nobody means it as one if the selection has other outputs.
    """
    served = output_nodes(graph)
    idle = [o for o in fusion.outputs if o.node in fusion.kept and o.node not in keep and o.node.output_count == 1]
    out = [output for output in idle if output.node.op in EXIT or output.node not in served]
    return out if len(out) < len(fusion.outputs) else []


def _is_end(topology: Topology, node: Node) -> bool:
    """Whether a node that nobody reads is there to be fetched or run: it gives something, or nobody waits for it."""
    return bool(node.output_count) or not topology.users(topology.id_of(node))


# -- what takes their place --------------------------------------------------------------------------------


def _attrs(may_inline: bool, xla: bool) -> dict[str, bool]:
    return ({} if may_inline else {NO_INLINE: True}) | ({XLA_MUST_COMPILE: True} if xla else {})


def _of_members(fusion: _Fusion, name: str, may_inline: bool, xla: bool) -> FusionBody:
    """The members themselves as the function."""
    function = make_function(fusion.members, fusion.edges.inputs, fusion.outputs, attrs=_attrs(may_inline, xla))
    add_control_outputs(function, list(fusion.edges.controls_out))
    name_function(function, name)
    return FusionBody(function, fusion.edges.inputs, fusion.members)


def _xla_warnings(fusion: _Fusion, plan: FusionBody) -> Iterable[str]:
    convolutions = sorted(CONVOLUTIONS.intersection(node.op for node in plan.nodes))
    if convolutions:
        yield (
            f"XLA compiles a convolution ({convolutions[0]}); on a CPU its code is several times slower than "
            "TensorFlow's own kernel"
        )
    again = next((node.name for node in fusion.members if node.has_attr(RECOMPUTED)), None)
    if again is not None:
        yield (
            f"XLA ignores the attr of {quoted(again)} that requests recomputation: its tensors may be kept in memory"
        )


def _replace(graph: Graph, fusion: _Fusion, plan: FusionBody, name: str, xla: bool) -> Intent:
    """Puts the call in the place of the members."""
    intent = Intent()
    last = fusion.members[-1]
    for function in plan.library:
        graph.functions.add(function)
    if plan.function.signature.name not in graph.functions:
        graph.functions.add(plan.function)
    intent.functions.added = [f.signature.name for f in (*plan.library, plan.function)]
    call_name = name
    if name in graph:  # a member's, which is about to go
        call_name = graph.unique_names()(name)
    inputs = plan.add_inputs(graph, last, intent.added)
    controls = [*fusion.edges.controls_in, *_tie(graph, fusion, inputs, name, intent)]
    call = graph.add(
        call_name, _call_op(plan.function), inputs, controls, attrs=_call_attrs(plan.function, xla), after=last
    )
    place = {output: Output(call, i) for i, output in enumerate(fusion.outputs)}
    rewired = _rewire(graph, fusion, place, call, intent)
    graph.remove(fusion.members)
    intent.removed = [node.name for node in fusion.members]
    kept = [node for node in fusion.kept if node.name != name]
    handed_on: dict[Node, list[tuple[Output, int]]] = {node: [] for node in kept}
    for output in fusion.outputs:
        if output.node in handed_on:
            handed_on[output.node].append((place[output], output.dtype))
    for node, outputs in handed_on.items():
        # Without any it waits for the call.
        values, types = [value for value, _ in outputs], [dtype for _, dtype in outputs]
        hand_on(graph, node.name, values, () if values else [call], call, types)
        intent.added.append(node.name)
    if call_name != name:
        graph.rename({call: name})
    intent.added.append(name)
    intent.rewired = [Rewired(user.name, slot, old, new.name) for user, slot, old, new in rewired]
    still = {node.name for node in kept}
    intent.removed = [n for n in intent.removed if n not in still and n != name]
    intent.moved = {
        old.name: new.name for old, new in place.items() if old.node.name not in still and old.name != new.name
    }
    return intent


def _tie(graph: Graph, fusion: _Fusion, inputs: Sequence[Output], name: str, intent: Intent) -> list[Node]:
    """What the call must wait for so that it runs in the loop or branch that the nodes were in, if its inputs do not
    see to that: another body may leave out the very inputs that did."""
    place = fusion.place
    if place.is_plain or any(place.flow.topology.knows(output.node) and place.holds(output) for output in inputs):
        return []
    if any(place.holds(control.output, -1) for control in fusion.edges.controls_in):
        return []
    held = next((output for output in fusion.edges.inputs if place.holds(output)), None)
    if held is None:
        return []
    pivot = hand_on(graph, graph.unique_names()(f"{name}/pivot"), [held], after=fusion.members[-1])
    intent.added.append(pivot.name)
    return [pivot]


def _rewire(
    graph: Graph, fusion: _Fusion, place: Mapping[Output, Output], call: Node, intent: Intent
) -> list[tuple[Node, int, str, Output]]:
    """Has those outside who read the members read the call, and wait for it."""
    uses: dict[Use, Output] = {
        use: place[output] for output in fusion.outputs for use in fusion.edges.outer_uses.get(output, ())
    }
    changes: dict[Node, dict[int, Output]] = {}
    for use, new in uses.items():
        changes.setdefault(use.node, {})[use.slot] = new
    rewired = [(use.node, use.slot, use.node.inputs[use.slot].name, new) for use, new in uses.items()]
    graph.set_slots(changes)
    members = set(fusion.members)
    for user in dict.fromkeys(u for users in fusion.edges.controls_out.values() for u in users):
        controls = dict.fromkeys(call if control in members else control for control in user.controls)
        graph.set_controls(user, controls)
        intent.changed.append(user.name)
    for other, node in drop_colocations(graph, fusion.members).items():
        text = f"{quoted(other.name)} is no longer colocated with {quoted(node.name)}"
        fusion.notes.append(Remark(text, "colocation-lost", node=other.name, name=node.name))
        intent.changed.append(other.name)
    intent.changed = list(dict.fromkeys(intent.changed))
    return rewired


def _call_op(function: FunctionDef) -> str:
    return "StatefulPartitionedCall" if function.signature.is_stateful else "PartitionedCall"


def _call_attrs(function: FunctionDef, xla: bool) -> dict[str, bytes]:
    signature = function.signature
    values = {
        "Tin": types_value([arg.type for arg in signature.input_arg]),
        "Tout": types_value([arg.type for arg in signature.output_arg]),
        "f": func_value(signature.name),
        "config": bytes_value(b""),
        "config_proto": bytes_value(NO_OPTIMIZER_OF_ITS_OWN),
        "executor_type": bytes_value(b""),
    }
    if xla:  # on the call: on the function alone TensorFlow does not see it
        values[XLA_MUST_COMPILE] = message("tensorflow.AttrValue")(b=True)
    return {key: value.SerializeToString(deterministic=True) for key, value in values.items()}


@dataclass
class FusionBody:
    """What a selection becomes.

    Attributes:
        function: the FunctionDef.
        inputs: what the call reads; a tensor of another graph is that of a constant that comes along.
        nodes: the nodes in the function.
        library: functions that it calls, to be added.
        dropped: outputs of the selection that it does not return.
        warnings, notes: a line each.
    """

    function: FunctionDef
    inputs: Sequence[Output]
    nodes: Sequence[Node]
    library: Sequence[FunctionDef] = ()
    names: Mapping[Node, str] = field(default_factory=dict)
    dropped: Sequence[Output] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()

    def add_inputs(self, graph: Graph, after: Node, added: list[str]) -> list[Output]:
        """The tensors of GRAPH that the call reads; constants of another graph are copied into it."""
        out: list[Output] = []
        for output in self.inputs:
            if output.node.graph is graph:
                out.append(output)
            else:
                copy = graph.add_copy(self.names[output.node], output.node, after=after)
                added.append(copy.name)
                out.append(copy.output)
        return out


class Hole(NamedTuple):
    """What a function is to take the place of.

    Attributes:
        inputs: tensors that the selection reads, in the order of first use.
        outputs: tensors that the selection gives, in their order.
        optional: those of OUTPUTS that the function need not return.
        name: the beginning of the function's name.
        attrs: bool attrs of the function.
        hands_constants: whether large constants are handed to the function, which in a while loop they cannot be.
    """

    inputs: Sequence[Output]
    outputs: Sequence[Output]
    optional: Collection[Output]
    name: str
    attrs: Mapping[str, bool]
    hands_constants: bool = True


def bind_body(graph: Graph, hole: Hole, body: Graph, mapped: Sequence[tuple[str, str]]) -> FusionBody:
    """BODY as the function that takes the inputs of HOLE (those that it needs) and gives its outputs.

    Args:
        graph: left as it is.
        hole: what the function takes the place of.
        body: a graph; its placeholders stand for inputs, what nobody reads in it for outputs. Pairs are made as MAPPED
            has them, then by equal names, then by order of first use where as many are left on both sides.
        mapped: (tensor of GRAPH, node or tensor of BODY).

    Raises:
        EditError: the two do not fit; the message says which tensors are left, or differ.
    """
    wanted = _BoundaryMap(graph, body, hole, mapped)
    placeholders = wanted.placeholders()
    results = wanted.results()
    warnings: list[str] = []
    for tensor, inner in (*placeholders.items(), *results.items()):
        _check_fits(tensor, inner, body, warnings)
    stand_ins = {placeholder.node for placeholder in placeholders.values()}
    inside = [node for node in body.nodes() if node not in stand_ins]
    constants = {node: None for node in inside if hole.hands_constants and is_large_constant(node)}
    nodes = [node for node in inside if node not in constants]
    _check_body_nodes(nodes, body)
    merge = plan_function_merge(graph.functions, body.functions)
    handed = [node.output for node in constants]
    inner_outputs = [results[output] for output in hole.outputs if output in results]
    function = make_function(nodes, [*placeholders.values(), *handed], inner_outputs, attrs=hole.attrs)
    respell_body(function, merge.renamed)
    name_function(function, hole.name)
    unique = graph.unique_names()
    names = {node: unique(f"{hole.name}/{node.name}") for node in constants}
    unneeded = [output for output in hole.inputs if output not in placeholders]
    source = printable(body.source_name)
    notes: list[str] = [
        Remark(f"the input {quoted(output.name)} is not used by {source}", "not-needed", tensor=output.name)
        for output in unneeded
    ]
    dropped = [output for output in hole.outputs if output not in results]
    for output in dropped:
        text = f"{quoted(output.name)} is removed: it has no consumers, and {source} does not compute it"
        notes.append(Remark(text, "no-result", tensor=output.name))
    return FusionBody(function, [*placeholders, *handed], nodes, merge.added, names, dropped, warnings, notes)


def _check_body_nodes(nodes: Iterable[Node], body: Graph) -> None:
    for node in nodes:
        where = f"{quoted(node.name)} of {printable(body.source_name)}"
        if node.op_def is None:
            # A function names the outputs of its ops, and what those are called stands in the op's library alone.
            message = f"{where}: the op {printable(node.op)} is unknown in this version of TensorFlow"
            facts = {"node": node.name, "op": node.op, "file": body.source_name}
            raise EditError(message, code="unknown-op", advice="put-in-place", facts=facts)
        if node.op in PLACEHOLDERS:
            message = f"{where} is a placeholder that is not mapped to an input of the selection"
            raise EditError(message, code="no-such-input", facts={"node": node.name, "file": body.source_name})
        check_fusible(node)


class _BoundaryMap:
    """Which tensor at the boundary stands for which of the body."""

    def __init__(self, graph: Graph, body: Graph, hole: Hole, mapped: Sequence[tuple[str, str]]) -> None:
        self.body = body
        self.inputs, self.outputs, self.optional = hole.inputs, hole.outputs, hole.optional
        self.for_input: dict[Output, Output] = {}
        self.for_output: dict[Output, Output] = {}
        for tensor, inner in mapped:
            self._map(graph.tensor(tensor), body.tensor(inner))

    def _map(self, tensor: Output, inner: Output) -> None:
        if tensor in self.inputs and inner.node.op in PLACEHOLDERS:
            chosen = self.for_input
        elif tensor in self.outputs:
            chosen = self.for_output
        else:
            ends = [output.name for output in (*self.inputs, *self.outputs)]
            listed = ", ".join(map(quoted, ends))
            message = f"{quoted(tensor.name)} is not an input or output of the selection; these are {listed}"
            raise EditError(message, code="not-at-boundary", facts={"tensor": tensor.name, "boundary": ends})
        if tensor in chosen or (chosen is self.for_input and inner in chosen.values()):
            message = f"{quoted(tensor.name)} or {quoted(inner.name)} is mapped twice"
            raise EditError(message, code="given-twice", facts={"tensor": tensor.name, "name": inner.name})
        chosen[tensor] = inner

    def placeholders(self) -> dict[Output, Output]:
        """For the inputs that the body needs, its placeholders."""
        found = self._by_name_and_order(self.inputs, _body_placeholders(self.body), dict(self.for_input), "input")
        # The call's arguments come in the order of the selection's inputs.
        return {tensor: found[tensor] for tensor in self.inputs if tensor in found}

    def results(self) -> dict[Output, Output]:
        """For each output, the tensor of the body that takes its place."""
        given = [o for node in output_nodes(self.body) for o in node.outputs]
        # A constant that nobody reads is no output, unless it has the name of one.
        namesakes = [self.body.find(tensor.name) for tensor in self.outputs]
        given += [n.output for n in namesakes if n is not None and n.op == "Const" and n.output not in given]
        found = self._by_name_and_order(self.outputs, given, dict(self.for_output), "output")
        missing = [output for output in self.outputs if output not in found and output not in self.optional]
        if missing:
            raise EditError(
                f"{printable(self.body.source_name)} does not compute {_named(missing)}",
                code="no-result",
                tensors=[output.name for output in missing],
                advice="map-boundary",
            )
        return found

    def _by_name_and_order(
        self, tensors: Sequence[Output], inner: Sequence[Output], found: dict[Output, Output], what: str
    ) -> dict[Output, Output]:
        free = [o for o in inner if o not in found.values()]
        by_name = {o.name: o for o in free}
        for tensor in tensors:
            if tensor not in found and tensor.name in by_name:
                found[tensor] = by_name[tensor.name]
        free = [o for o in free if o not in found.values()]
        left = [tensor for tensor in tensors if tensor not in found]
        if len(free) != len(left):
            left = [tensor for tensor in left if tensor not in self.optional]
        if len(free) == len(left):
            found.update(zip(left, free, strict=True))
        elif free and (what == "input" or left):
            raise EditError(
                f"{_named(left)} of the selection cannot be matched with {_named(free)} of "
                f"{printable(self.body.source_name)}: their {what}s must be mapped by name",
                code="ambiguous-pairs",
                facts={f"{what}s": [output.name for output in left], "found": [output.name for output in free]},
                advice="map-boundary",
            )
        return found


def _named(outputs: Sequence[Output]) -> str:
    return ", ".join(quoted(output.name) for output in outputs) or "none"


def _body_placeholders(body: Graph) -> list[Output]:
    """The placeholders of BODY in the order in which its nodes first read them, unread ones last."""
    nodes = list(body.nodes())
    read = {output: None for node in nodes for output in node.inputs if output.node.op in PLACEHOLDERS}
    read.update((node.output, None) for node in nodes if node.op in PLACEHOLDERS)
    return [output for output in read if output.node.op != "PlaceholderWithDefault"]


def _check_fits(tensor: Output, inner: Output, body: Graph, warnings: list[str]) -> None:
    if not tensor.dtype or not inner.dtype:
        text = f"the dtype of {quoted(tensor.name)} or {quoted(inner.name)} is unknown, so they were not compared"
        warnings.append(Remark(text, "unknown-dtype", tensor=tensor.name, name=inner.name))
    if code := mismatch(tensor, inner):
        facts = {"tensor": tensor.name, "expected": describe(tensor), "name": inner.name, "found": describe(inner)}
        raise EditError(
            f"{quoted(tensor.name)} is {describe(tensor)}, but its replacement {quoted(inner.name)} of "
            f"{printable(body.source_name)} is {describe(inner)}",
            code=code,
            facts=facts,
        )
