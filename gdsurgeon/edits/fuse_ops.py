"""fuse-ops: replaces the selected nodes by one call of a library function."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.arithmetic import describe, mismatch
from gdsurgeon.analysis.traversal.control_flow import (
    ControlFlow,
    Frames,
    Sides,
    control_flow_of,
    frames_of,
)
from gdsurgeon.analysis.traversal.topology import Boundary, Topology, boundary, escape, topology_of
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs, SamePiece
from gdsurgeon.edits.decorator import edit, of_nodes, of_olds, of_tensors
from gdsurgeon.edits.functions import (
    NO_INLINE,
    NO_OPTIMIZER_OF_ITS_OWN,
    XLA_ATOL,
    XLA_MUST_COMPILE,
    XLA_RTOL,
    check_fusible,
    is_large_constant,
    make_function,
    plan_function_merge,
)
from gdsurgeon.edits.replacing import add_identity, drop_colocations, move_controls, move_uses
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.attrs import bytes_value, func_value, types_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import check_name, format_input
from gdsurgeon.graph.node import Node, Output, check_typed
from gdsurgeon.ops.dtypes import REF
from gdsurgeon.ops.kinds import CONVOLUTIONS, EXIT, PLACEHOLDERS, RECOMPUTED
from gdsurgeon.select import NodeList, Nodes
from gdsurgeon.wire.protos import AttrValue, FunctionDef


@dataclass
class _CallSite:
    """The while frame (-1: none) and the sides of conditionals in which the call will run."""

    frames: Frames
    flow: ControlFlow
    frame: int = -1
    sides: Sides = frozenset()

    def place_of(self, tensor: Output) -> tuple[int, Sides]:
        """Returns the frame and the sides of a consumer of `tensor`; index -1: of a node with a control dependency."""
        number = self.flow.topology.id_of(tensor.node)
        return self.frames.of[number], self.flow.of_tensor(number, tensor.index)

    def holds(self, tensor: Output) -> bool:
        """Returns whether such a consumer runs at this site."""
        return self.place_of(tensor) == (self.frame, self.sides)


@dataclass
class _Fusion:
    """A checked fusion: the selection, and the function that replaces it.

    Attributes:
        name: the name of the call.
        members: the selected nodes, in file order.
        edges: their boundary.
        outputs: the tensors of the members that the call returns.
        kept: the members whose names stay, as Identity nodes after the call.
        site: where the call will run.
        function: the FunctionDef; set by `_use_members` or `_use_body`, as are the following attributes.
        inputs: the tensors that the call reads. The constants among them that belong to a different graph are copied.
        nodes: the nodes of the function.
        library: the functions that it calls and the library does not have.
        constants: the names of the copied constants.
        dropped: outputs of the selection that the function does not return.
    """

    name: str
    members: list[Node]
    edges: Boundary
    outputs: list[Output]
    kept: list[Node]
    site: _CallSite
    function: FunctionDef = field(init=False)
    inputs: Sequence[Output] = ()
    nodes: Sequence[Node] = ()
    library: Sequence[FunctionDef] = ()
    constants: dict[Node, str] = field(default_factory=dict)
    dropped: list[Output] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@edit(select="nodes", mapped=of_olds(of_tensors), keep=of_nodes)
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
    """Replaces the selected nodes by one call of a new library function.

    Outputs of the graph keep their names: an Identity with the name follows the call. Large constants stay outside
    and become inputs of the function. Control inputs from outside become control inputs of the call.

    Args:
        graph: changed in place.
        nodes: the selected nodes.
        name: the name of the call.
        inline: let TensorFlow inline the function when it runs the graph.
        xla: compile the function with XLA; a run fails if XLA cannot compile it.
        body: a graph that replaces the selection. Its placeholders correspond to the inputs of the selection, and its
            outputs to the outputs of the selection: by name, or by the order of first use. An Exit of a loop without
            consumers, and a node that no signature of the model names, need no counterpart.
        mapped: pairs (tensor at the boundary of the selection, node or tensor of `body`) that differ from this rule.
        keep: further nodes of the selection that keep their names.
        rtol, atol: the allowed differences of the outputs. By default the outputs are equal, or with XLA nearly equal.

    Raises:
        EditError: nothing is selected; a path leaves the selection and returns to it; the selection contains control
            flow, a placeholder, a reference, a table, a variable, or an unknown op; the name is taken; or `body` does
            not fit. The graph is unchanged.
    """
    topology = topology_of(graph)
    assert isinstance(nodes, NodeList)
    fusion = _checked(topology, sorted(nodes, key=topology.id_of), name, keep, replaced=body is not None)
    attrs = ({} if inline or xla else {NO_INLINE: True}) | ({XLA_MUST_COMPILE: True} if xla else {})
    if body is None:
        controls = fusion.edges.controls_out
        function = make_function(
            name, fusion.members, fusion.edges.inputs, fusion.outputs, attrs=attrs, controls=controls
        )
        fusion.function, fusion.inputs, fusion.nodes = function, fusion.edges.inputs, fusion.members
    else:
        _use_body(graph, fusion, body, pairs_of(mapped), [graph[kept] for kept in keep], attrs)
    warnings = [*fusion.warnings, *(_xla_warnings(fusion) if xla else ())]
    names = [output.name for output in fusion.outputs]
    read = tuple(output.name for output in fusion.edges.inputs)
    except_for = dict.fromkeys([output.name for output in fusion.dropped], "removed: BODY does not compute it")
    also = tuple(dict.fromkeys(output.node.name for output in fusion.outputs))
    rtol = (XLA_RTOL if xla else 0.0) if rtol is None else rtol
    atol = (XLA_ATOL if xla else 0.0) if atol is None else atol
    intent = _replace(graph, fusion, xla)
    claims = [SameOutputs(rtol=rtol, atol=atol, also=also, except_for=except_for)]
    if body is None:
        return EditResult(intent, (*claims,), warnings, fusion.notes)
    piece = SamePiece(read, tuple((old, intent.counterpart(old)) for old in names), rtol, atol)
    return EditResult(intent, (*claims, piece), warnings, fusion.notes)


# -- checks ------------------------------------------------------------------------------------------------


def _checked(topology: Topology, nodes: list[Node], name: str, keep: Sequence[str], *, replaced: bool) -> _Fusion:
    """Returns the fusion of `nodes`. If a body replaces them, they may contain ops that a function cannot contain."""
    notes: list[str] = []
    members = [node for node in nodes if not is_large_constant(node)]
    if count := len(nodes) - len(members):
        text = f"{count:,} large constant{'s stay' if count != 1 else ' stays'} outside of the function"
        notes.append(Remark(text, "stays-outside", count=count))
    if not members:
        raise EditError("nothing to fuse: the selection has only large constants", code="nothing-left")
    for node in members:
        if not replaced or node.op in PLACEHOLDERS:
            check_fusible(node)
    path = escape(topology, topology.flags(map(topology.id_of, members)))
    if path:
        names = [topology.name(number) for number in path[:12]]
        raise EditError(
            f"the selection cannot become one call: a path leaves it and comes back: {' -> '.join(map(quoted, names))}",
            code="path-outside",
            nodes=names,
            count=len(path),
            hint="select the nodes in between as well, or fewer nodes",
        )
    edges = boundary(members, topology)
    outputs, kept = _outputs(topology, members, edges, keep)
    exported = {o.node for o in outputs} | {*kept, *edges.controls_out}
    site = _CallSite(frames_of(topology.graph), control_flow_of(topology.graph))
    if replaced:
        _place_body(site, outputs, edges, exported or {*members})
    else:
        _place_members(site, members, exported)
    check_name(name)
    topology.graph.check_free(name, members)
    holder = topology.graph.find(name)
    of_holder = [output for output in outputs if output.node is holder]
    if holder in kept and not of_holder == outputs[:1] == [holder.output]:
        message = f"the call cannot be named {quoted(name)}: the node of this name is an output and keeps it"
        raise EditError(message, code="name-taken", name=name)
    for output in (*edges.inputs, *outputs):
        check_typed(output)
    return _Fusion(name, members, edges, outputs, kept, site, notes=notes)


def _place_members(site: _CallSite, members: Sequence[Node], exported: Collection[Node]) -> None:
    """Sets the place of `site` to the only frame and branch of the members, so that all of them run equally often.

    A node outside of branches that is not `exported` from the function may move into the branch of its consumers.
    """
    places = [site.place_of(Output(node, -1)) for node in members]
    found = {frame for frame, _ in places}
    if len(found) > 1:
        loop = min(site.frames.names[frame] for frame in found if frame >= 0)
        message = f"the selection is partly inside the while loop {quoted(loop)} and partly outside"
        raise EditError(message, code="crosses-loop", loop=loop)
    inner = max((sides for _, sides in places), key=len)
    for node, (_, sides) in zip(members, places, strict=True):
        if sides != inner and (not sides <= inner or node in exported):
            other = next(n for n, place in zip(members, places, strict=True) if place[1] == inner)
            raise EditError(
                f"{quoted(node.name)} and {quoted(other.name)} cannot become one call: they are in different "
                "branches of a conditional",
                code="crosses-branch",
                nodes=[node.name, other.name],
            )
    site.frame, site.sides = found.pop(), inner


def _place_body(site: _CallSite, outputs: Sequence[Output], edges: Boundary, exported: Collection[Node]) -> None:
    """Sets the place of `site` to the only frame and branch of the `exported` nodes, where all inputs are available.

    The selection may contain whole loops and conditionals.
    """
    places = {site.place_of(Output(node, -1)) for node in exported}
    if len(places) > 1:
        message = (
            "the outputs of the selection are in different loops or branches; select these loops or branches completely"
        )
        raise EditError(message, code="crosses-branch", nodes=[node.name for node in exported])
    site.frame, site.sides = places.pop()
    for tensor in edges.inputs:
        frame, sides = site.place_of(tensor)
        if frame != site.frame or not sides <= site.sides:
            raise EditError(
                f"the input {quoted(tensor.name)} of the selection is in a loop or branch that is only partly selected",
                code="crosses-branch",
                tensor=tensor.name,
            )
    shared = next((tensor for tensor in outputs if tensor.dtype > REF), None)
    if shared is not None:
        message = f"{quoted(shared.name)} is a reference to shared state and cannot be replaced"
        raise EditError(message, code="is-reference", tensor=shared.name)


def _outputs(
    topology: Topology, members: Sequence[Node], edges: Boundary, keep: Sequence[str]
) -> tuple[list[Output], list[Node]]:
    """Returns the outputs of the function, and the nodes whose names stay: outputs of the graph, and `keep`.

    A node without consumers is an output of the graph if it has outputs itself, or no control edge leaves it.
    """
    place = {node: i for i, node in enumerate(members)}
    wanted = dict.fromkeys(topology.graph[name] for name in keep)
    for node in wanted:
        if node in place:
            continue
        message = f"{quoted(node.name)} must keep its name, but is not among the selected nodes"
        raise EditError(message, code="not-selected", node=node.name)
    read = {output.node for output in edges.inside} | {o.node for o, uses in edges.outer_uses.items() if uses}
    ends = {n for n in members if n not in read and (n.output_count or not topology.users(topology.id_of(n)))}
    kept = [node for node in members if node in wanted or node in ends]
    outputs = {output for output in edges.outputs if edges.outer_uses[output]}
    outputs |= {Output(node, i) for node in kept for i in range(node.output_count or 0)}
    return sorted(outputs, key=lambda output: (place[output.node], output.index)), kept


def _xla_warnings(fusion: _Fusion) -> Iterable[str]:
    convolutions = sorted(CONVOLUTIONS.intersection(node.op for node in fusion.nodes))
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


# -- a different graph as the body -------------------------------------------------------------------------


def _use_body(
    graph: Graph,
    fusion: _Fusion,
    body: Graph,
    mapped: Sequence[tuple[str, str]],
    keep: Collection[Node],
    attrs: dict[str, bool],
) -> None:
    """Makes `body` the function of `fusion`. Raises EditError if the two do not fit; the graph is unchanged.

    The body need not compute outputs that have no consumers, and that no signature names. A loop has an Exit for each
    of its variables. Without signatures, an Exit without consumers counts as an output of the graph; but the body need
    not compute it if the selection has other outputs.
    """
    served = output_nodes(graph)
    idle = [o for o in fusion.outputs if o.node in fusion.kept and o.node not in keep and o.node.output_count == 1]
    optional = [output for output in idle if output.node.op in EXIT or output.node not in served]
    if len(optional) == len(fusion.outputs):
        optional = []
    placeholders, results = _counterparts(graph, fusion, body, mapped, optional)
    for tensor, inner in (*placeholders.items(), *results.items()):
        _check_fits(tensor, inner, body, fusion.warnings)
    stand_ins = {placeholder.node for placeholder in placeholders.values()}
    inside = [node for node in body.nodes() if node not in stand_ins]
    # A loop cannot use a constant outside of it.
    constants = [node for node in inside if fusion.site.frame < 0 and is_large_constant(node)]
    fusion.nodes = [node for node in inside if node not in constants]
    _check_body(fusion.nodes, body)
    merge = plan_function_merge(graph.functions, body.functions)
    handed = [node.output for node in constants]
    inner_outputs = [results[output] for output in fusion.outputs if output in results]
    arguments = [*placeholders.values(), *handed]
    function = make_function(fusion.name, fusion.nodes, arguments, inner_outputs, attrs=attrs, renamed=merge.renamed)
    unique = graph.unique_names()
    fusion.function, fusion.inputs, fusion.library = function, [*placeholders, *handed], merge.added
    fusion.constants = {node: unique(f"{fusion.name}/{node.name}") for node in constants}
    fusion.dropped = [output for output in fusion.outputs if output not in results]
    fusion.outputs = [output for output in fusion.outputs if output in results]
    fusion.kept = [node for node in fusion.kept if node.output not in fusion.dropped]
    source = printable(body.source_name)
    for output in fusion.edges.inputs:
        if output not in placeholders:
            text = f"the input {quoted(output.name)} is not used by {source}"
            fusion.notes.append(Remark(text, "not-needed", tensor=output.name))
    for output in fusion.dropped:
        text = f"{quoted(output.name)} is removed: it has no consumers, and {source} does not compute it"
        fusion.notes.append(Remark(text, "no-result", tensor=output.name))


def _check_body(nodes: Iterable[Node], body: Graph) -> None:
    for node in nodes:
        where = f"{quoted(node.name)} of {printable(body.source_name)}"
        if node.op_def is None:  # a function names the outputs of an op as the op's signature does
            message = f"{where}: the op {printable(node.op)} is unknown in this version of TensorFlow"
            facts = {"node": node.name, "op": node.op, "file": body.source_name}
            raise EditError(message, code="unknown-op", advice="put-in-place", facts=facts)
        if node.op in PLACEHOLDERS:
            message = f"{where} is a placeholder that is not mapped to an input of the selection"
            raise EditError(message, code="no-such-input", node=node.name, file=body.source_name)
        check_fusible(node)


def _counterparts(
    graph: Graph, fusion: _Fusion, body: Graph, mapped: Sequence[tuple[str, str]], optional: Collection[Output]
) -> tuple[dict[Output, Output], dict[Output, Output]]:
    """Returns the placeholder of `body` for each input that it needs, and its result for each output."""
    inputs, outputs = fusion.edges.inputs, fusion.outputs
    of_inputs: dict[Output, Output] = {}
    of_outputs: dict[Output, Output] = {}
    for tensor, inner in ((graph.tensor(outer), body.tensor(text)) for outer, text in mapped):
        if tensor in inputs and inner.node.op in PLACEHOLDERS:
            chosen = of_inputs
        elif tensor in outputs:
            chosen = of_outputs
        else:
            ends = [output.name for output in (*inputs, *outputs)]
            listed = ", ".join(map(quoted, ends))
            message = f"{quoted(tensor.name)} is not an input or output of the selection; these are {listed}"
            raise EditError(message, code="not-at-boundary", tensor=tensor.name, boundary=ends)
        if tensor in chosen or (chosen is of_inputs and inner in chosen.values()):
            message = f"{quoted(tensor.name)} or {quoted(inner.name)} is mapped twice"
            raise EditError(message, code="given-twice", tensor=tensor.name, name=inner.name)
        chosen[tensor] = inner
    nodes = list(body.nodes())
    # The placeholders in the order in which the nodes first read them, then those without consumers.
    free = {output: None for node in nodes for output in node.inputs if output.node.op in PLACEHOLDERS}
    free.update((node.output, None) for node in nodes if node.op in PLACEHOLDERS)
    starts = [output for output in free if output.node.op != "PlaceholderWithDefault"]
    _pair(inputs, starts, of_inputs, optional, body, "input")
    ends_of_body = [o for node in output_nodes(body) for o in node.outputs]
    # A constant without consumers is an output only if it has the name of an output.
    namesakes = [body.find(tensor.name) for tensor in outputs]
    ends_of_body += [n.output for n in namesakes if n is not None and n.op == "Const" and n.output not in ends_of_body]
    _pair(outputs, ends_of_body, of_outputs, optional, body, "output")
    missing = [output for output in outputs if output not in of_outputs and output not in optional]
    if missing:
        raise EditError(
            f"{printable(body.source_name)} does not compute {_named(missing)}",
            code="no-result",
            tensors=[output.name for output in missing],
            advice="map-boundary",
        )
    # The arguments of the call have the order of the inputs of the selection.
    return {tensor: of_inputs[tensor] for tensor in inputs if tensor in of_inputs}, of_outputs


def _pair(
    tensors: Sequence[Output],
    inner: Sequence[Output],
    found: dict[Output, Output],
    optional: Collection[Output],
    body: Graph,
    what: str,
) -> None:
    """Adds to `found` the pairs of equal names, then pairs in order if equally many are left on both sides."""
    by_name = {o.name: o for o in inner if o not in found.values()}
    for tensor in tensors:
        if tensor not in found and tensor.name in by_name:
            found[tensor] = by_name[tensor.name]
    free = [o for o in inner if o not in found.values()]
    left = [tensor for tensor in tensors if tensor not in found]
    if len(free) != len(left):
        left = [tensor for tensor in left if tensor not in optional]
    if len(free) == len(left):
        found.update(zip(left, free, strict=True))
    elif free and (what == "input" or left):
        raise EditError(
            f"{_named(left)} of the selection cannot be matched with {_named(free)} of "
            f"{printable(body.source_name)}: their {what}s must be mapped by name",
            code="ambiguous-pairs",
            facts={f"{what}s": [output.name for output in left], "found": [output.name for output in free]},
            advice="map-boundary",
        )


def _named(outputs: Sequence[Output]) -> str:
    return ", ".join(quoted(output.name) for output in outputs) or "none"


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


# -- the replacement ---------------------------------------------------------------------------------------


def _replace(graph: Graph, fusion: _Fusion, xla: bool) -> Intent:
    """Replaces the members by the call."""
    intent, name = Intent(), fusion.name
    last = fusion.members[-1]
    for function in fusion.library:
        graph.functions.add(function)
    if fusion.function.signature.name not in graph.functions:
        graph.functions.add(fusion.function)
    intent.functions.added = [f.signature.name for f in (*fusion.library, fusion.function)]
    inputs: list[Output] = []
    for output in fusion.inputs:
        if output.node.graph is not graph:
            output = graph.add_copy(fusion.constants[output.node], output.node, after=last).output
            intent.added.append(output.node.name)
        inputs.append(output)
    first_name = graph.unique_names()(name)  # a member, which is removed, has the name
    controls = [*fusion.edges.controls_in, *_pivot(graph, fusion, inputs, intent)]
    signature = fusion.function.signature
    attrs = {
        "Tin": types_value([arg.type for arg in signature.input_arg]),
        "Tout": types_value([arg.type for arg in signature.output_arg]),
        "f": func_value(signature.name),
        "config": bytes_value(b""),
        "config_proto": bytes_value(NO_OPTIMIZER_OF_ITS_OWN),
        "executor_type": bytes_value(b""),
    }
    if xla:  # on the call, because TensorFlow ignores the attr of the function
        attrs[XLA_MUST_COMPILE] = AttrValue(b=True)
    op = "StatefulPartitionedCall" if signature.is_stateful else "PartitionedCall"
    call = graph.add(first_name, op, inputs, controls, attrs=attrs, after=last)

    place = {output: Output(call, i) for i, output in enumerate(fusion.outputs)}
    move_uses(graph, fusion.edges.outer_uses, place, intent)
    waiting = dict.fromkeys(user for users in fusion.edges.controls_out.values() for user in users)
    move_controls(graph, waiting, dict.fromkeys(fusion.members, (call,)))
    intent.changed += [user.name for user in waiting]
    for other, node in drop_colocations(graph, fusion.members).items():
        text = f"{quoted(other.name)} is no longer colocated with {quoted(node.name)}"
        fusion.notes.append(Remark(text, "colocation-lost", node=other.name, name=node.name))
        intent.changed.append(other.name)
    intent.changed = list(dict.fromkeys(intent.changed))
    graph.remove(fusion.members)

    kept = {node.name: node for node in fusion.kept if node.name != name}
    for kept_name, node in kept.items():
        outputs = [output for output in fusion.outputs if output.node is node]
        values = [place[output] for output in outputs]
        add_identity(graph, kept_name, values, () if values else [call], call, [output.dtype for output in outputs])
    if first_name != name:
        names = {output.name: format_input(name, output.index) for output in place.values()}
        intent.rewired = [item._replace(new=names[item.new]) for item in intent.rewired]
        graph.rename({call: name})
    intent.added += [*kept, name]
    intent.removed = [node.name for node in fusion.members if node.name not in kept and node.name != name]
    intent.moved = {
        old.name: new.name for old, new in place.items() if old.node.name not in kept and old.name != new.name
    }
    return intent


def _pivot(graph: Graph, fusion: _Fusion, inputs: Sequence[Output], intent: Intent) -> list[Node]:
    """Returns a control input that makes the call run in the loop or branch of the selection, if it needs one.

    A body may leave out all inputs that are in this loop or branch.
    """
    site = fusion.site
    is_plain = site.frame < 0 and not site.sides
    if is_plain or any(site.flow.topology.knows(output.node) and site.holds(output) for output in inputs):
        return []
    held = next((output for output in fusion.edges.inputs if site.holds(output)), None)
    if held is None or any(site.holds(Output(control, -1)) for control in fusion.edges.controls_in):
        return []
    pivot = add_identity(graph, graph.unique_names()(f"{fusion.name}/pivot"), [held], after=fusion.members[-1])
    intent.added.append(pivot.name)
    return [pivot]
