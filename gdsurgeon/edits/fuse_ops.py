"""fuse-ops: replaces the selected nodes by one call of a library function."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.arithmetic import check_can_replace
from gdsurgeon.analysis.traversal.control_flow import Sides, control_flow_of, frames_of
from gdsurgeon.analysis.traversal.topology import Boundary, Topology, boundary, escape, topology_of
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.edits.claims import Claim, EditResult, SameOutputs, SameSites, Site
from gdsurgeon.edits.decorator import edit, of_nodes, of_olds, of_tensors
from gdsurgeon.edits.functions import (
    NO_INLINE,
    NO_OPTIMIZER_OF_ITS_OWN,
    XLA_MUST_COMPILE,
    FunctionMerge,
    allowed,
    check_fusible,
    is_large_constant,
    make_function,
    plan_function_merge,
)
from gdsurgeon.edits.replacing import add_identity, drop_colocations, move_controls, move_uses
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.attrs import bytes_value, func_value, types_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import check_name
from gdsurgeon.graph.node import Node, Output, check_typed
from gdsurgeon.ops.dtypes import REF
from gdsurgeon.ops.kinds import CONVOLUTIONS, EXIT, PLACEHOLDERS, RECOMPUTED, UNSET_PLACEHOLDERS
from gdsurgeon.select import NodeList, Nodes
from gdsurgeon.wire.protos import AttrValue, FunctionDef

Place = tuple[int, Sides]
"""The while frame (-1: none) and the sides of conditionals in which a node runs."""


class _Selection(NamedTuple):
    """The checked selection.

    Attributes:
        members: the selected nodes, in file order.
        edges: their boundary.
        outputs: the tensors of the members that the call returns.
        kept: the members whose names stay, as Identity nodes after the call.
        place: where the call will run.
    """

    members: list[Node]
    edges: Boundary
    outputs: list[Output]
    kept: list[Node]
    place: Place


class _Content(NamedTuple):
    """The content of the function.

    Attributes:
        nodes: its nodes.
        inputs: for each tensor that the call reads, the tensor that `nodes` read. A constant of a different graph is
            copied.
        outputs: for each output of the selection that the function returns, its tensor.
        merge: the functions that `nodes` call and the library does not have.
    """

    nodes: Sequence[Node]
    inputs: Mapping[Output, Output]
    outputs: Mapping[Output, Output]
    merge: FunctionMerge


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
    assert isinstance(nodes, NodeList)
    topology = topology_of(graph)
    result = EditResult()
    rows = graph.written().store.table.rows
    in_order = sorted(nodes, key=lambda node: rows[node.name])
    selection = _checked(topology, in_order, name, keep, result, replaced=body is not None)
    edges, outputs = selection.edges, selection.outputs
    if body is None:
        read, returned = ({tensor: tensor for tensor in tensors} for tensors in (edges.inputs, outputs))
        content = _Content(selection.members, read, returned, FunctionMerge())
    else:
        content = _content_of(body, graph, selection, pairs_of(mapped), [graph[kept] for kept in keep], result)
    function = make_function(
        name,
        content.nodes,
        list(content.inputs.values()),
        list(content.outputs.values()),
        attrs=({} if inline or xla else {NO_INLINE: True}) | ({XLA_MUST_COMPILE: True} if xla else {}),
        controls=edges.controls_out if body is None else (),
        renamed=content.merge.renamed,
    )
    convolutions = sorted(CONVOLUTIONS.intersection(node.op for node in content.nodes)) if xla else []
    if convolutions:
        text = f"XLA compiles a convolution ({convolutions[0]}); on a CPU its code is several times slower than "
        result.warnings.append(f"{text}TensorFlow's own kernel")
    recomputed = [node.name for node in selection.members if xla and node.has_attr(RECOMPUTED)]
    if recomputed:
        text = f"XLA ignores the attr of {quoted(recomputed[0])} that requests recomputation: "
        result.warnings.append(f"{text}its tensors may be kept in memory")
    names = [output.name for output in content.outputs]
    dropped = [output.name for output in outputs if output not in content.outputs]
    also = tuple(dict.fromkeys(output.node.name for output in content.outputs))
    tolerance = allowed(rtol, atol, is_compiled=xla)
    except_for = dict.fromkeys(dropped, "removed: BODY does not compute it")
    claims: list[Claim] = [SameOutputs(tolerance, also=also, except_for=except_for)]
    _replace(graph, name, selection, content, function, xla, result)
    if body is not None:
        inputs = tuple(output.name for output in edges.inputs)
        site = Site(inputs, tuple((old, result.intent.counterpart(old)) for old in names))
        claims.append(SameSites((site,), tolerance))
    result.claims = tuple(claims)
    return result


# -- checks ------------------------------------------------------------------------------------------------


def _checked(
    topology: Topology, nodes: list[Node], name: str, keep: Sequence[str], result: EditResult, *, replaced: bool
) -> _Selection:
    """Checks the selected `nodes`. If a body replaces them, they may contain ops that a function cannot contain."""
    members = [node for node in nodes if not is_large_constant(node)]
    if count := len(nodes) - len(members):
        text = f"{count:,} large constant{'s stay' if count != 1 else ' stays'} outside of the function"
        result.note(text, "stays-outside", count=count)
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
    position = {node: i for i, node in enumerate(members)}
    wanted = dict.fromkeys(map(topology.graph.__getitem__, keep))
    for node in (node for node in wanted if node not in position):
        message = f"{quoted(node.name)} must keep its name, but is not among the selected nodes"
        raise EditError(message, code="not-selected", node=node.name)
    # A node without consumers is an output of the graph if it has outputs, or no control edge leaves it.
    used = {output.node for output in edges.inside} | {o.node for o, uses in edges.outer_uses.items() if uses}
    ends = {n for n in members if n not in used and (n.output_count or not topology.users(topology.id_of(n)))}
    kept = [node for node in members if node in wanted or node in ends]
    returned = {output for output in edges.outputs if edges.outer_uses[output]}
    returned |= {Output(node, i) for node in kept for i in range(node.output_count or 0)}
    outputs = sorted(returned, key=lambda output: (position[output.node], output.index))
    exported = dict.fromkeys((*(output.node for output in outputs), *kept, *edges.controls_out))
    if replaced:
        place = _place_of_body(topology.graph, outputs, edges, exported or members)
    else:
        place = _place_of_members(topology.graph, members, exported)
    check_name(name)
    topology.graph.check_free(name, members)
    holder = topology.graph.find(name)
    if holder in kept and not [o for o in outputs if o.node is holder] == outputs[:1] == [holder.output]:
        message = f"the call cannot be named {quoted(name)}: the node of this name is an output and keeps it"
        raise EditError(message, code="name-taken", name=name)
    for output in (*edges.inputs, *outputs):
        check_typed(output)
    return _Selection(members, edges, outputs, kept, place)


def _place(graph: Graph, tensor: Output) -> Place:
    """Returns the place of a consumer of `tensor`; index -1: of a node with a control dependency."""
    flow = control_flow_of(graph)
    number = flow.topology.id_of(tensor.node)
    return frames_of(graph).of[number], flow.of_tensor(number, tensor.index)


def _place_of_members(graph: Graph, members: Sequence[Node], exported: Collection[Node]) -> Place:
    """Returns the only frame and branch of the members, so that all of them run equally often.

    A node outside of branches that is not `exported` from the function may move into the branch of its consumers.
    """
    places = {node: _place(graph, Output(node, -1)) for node in members}
    found = {frame for frame, _ in places.values()}
    if len(found) > 1:
        loop = min(frames_of(graph).names[frame] for frame in found if frame >= 0)
        message = f"the selection is partly inside the while loop {quoted(loop)} and partly outside"
        raise EditError(message, code="crosses-loop", loop=loop)
    inner = max(places, key=lambda node: len(places[node][1]))
    for node, (_, sides) in places.items():
        if sides != places[inner][1] and (not sides <= places[inner][1] or node in exported):
            raise EditError(
                f"{quoted(node.name)} and {quoted(inner.name)} cannot become one call: they are in different "
                "branches of a conditional",
                code="crosses-branch",
                nodes=[node.name, inner.name],
            )
    return places[inner]


def _place_of_body(graph: Graph, outputs: Sequence[Output], edges: Boundary, exported: Collection[Node]) -> Place:
    """Returns the only frame and branch of the `exported` nodes, where all inputs must be available.

    The selection may contain whole loops and conditionals.
    """
    (place, *others) = {_place(graph, Output(node, -1)) for node in exported}
    if others:
        message = (
            "the outputs of the selection are in different loops or branches; select these loops or branches completely"
        )
        raise EditError(message, code="crosses-branch", nodes=[node.name for node in exported])
    for tensor in edges.inputs:
        frame, sides = _place(graph, tensor)
        if frame != place[0] or not sides <= place[1]:
            raise EditError(
                f"the input {quoted(tensor.name)} of the selection is in a loop or branch that is only partly selected",
                code="crosses-branch",
                tensor=tensor.name,
            )
    for tensor in outputs:
        if tensor.dtype > REF:
            message = f"{quoted(tensor.name)} is a reference to shared state and cannot be replaced"
            raise EditError(message, code="is-reference", tensor=tensor.name)
    return place


# -- a different graph as the body -------------------------------------------------------------------------


def _content_of(
    body: Graph,
    graph: Graph,
    selection: _Selection,
    mapped: Sequence[tuple[str, str]],
    keep: Collection[Node],
    result: EditResult,
) -> _Content:
    """Returns the content of the function that is `body`. Raises EditError if `body` does not fit the selection.

    The body need not compute outputs that have no consumers, and that no signature names. A loop has an Exit for each
    of its variables. Without signatures, an Exit without consumers counts as an output of the graph; but the body need
    not compute it if the selection has other outputs.
    """
    outputs, served = selection.outputs, output_nodes(graph)
    idle = [o for o in outputs if o.node in selection.kept and o.node not in keep and o.node.output_count == 1]
    optional = [output for output in idle if output.node.op in EXIT or output.node not in served]
    optional = optional if len(optional) < len(outputs) else []
    placeholders, results = _counterparts(graph, selection, body, mapped, optional)
    source = printable(body.source_name)
    for tensor, inner in (*placeholders.items(), *results.items()):
        if not tensor.dtype or not inner.dtype:
            text = f"the dtype of {quoted(tensor.name)} or {quoted(inner.name)} is unknown, so they were not compared"
            result.warn(text, "unknown-dtype", tensor=tensor.name, name=inner.name)
        check_can_replace(tensor, inner, "name")
    inside = [node for node in body.nodes() if node.output not in placeholders.values()]
    # A loop cannot use a constant outside of it.
    constants = {node.output: node.output for node in inside if selection.place[0] < 0 and is_large_constant(node)}
    nodes = [node for node in inside if node.output not in constants]
    for node in nodes:
        where = f"{quoted(node.name)} of {source}"
        if node.op_def is None:  # a function names the outputs of an op as the op's signature does
            message = f"{where}: the op {printable(node.op)} is unknown in this version of TensorFlow"
            facts = {"node": node.name, "op": node.op, "file": body.source_name}
            raise EditError(message, code="unknown-op", advice="put-in-place", facts=facts)
        if node.op in PLACEHOLDERS:
            message = f"{where} is a placeholder that is not mapped to an input of the selection"
            raise EditError(message, code="no-such-input", node=node.name, file=body.source_name)
        check_fusible(node)
    for output in selection.edges.inputs:
        if output not in placeholders:
            text = f"the input {quoted(output.name)} is not used by {source}"
            result.note(text, "not-needed", tensor=output.name)
    for output in outputs:
        if output not in results:
            text = f"{quoted(output.name)} is removed: it has no consumers, and {source} does not compute it"
            result.note(text, "no-result", tensor=output.name)
    return _Content(nodes, placeholders | constants, results, plan_function_merge(graph.functions, body.functions))


def _counterparts(
    graph: Graph, selection: _Selection, body: Graph, mapped: Sequence[tuple[str, str]], optional: Collection[Output]
) -> tuple[dict[Output, Output], dict[Output, Output]]:
    """Returns the placeholder of `body` for each input that it needs, and its result for each output."""
    inputs, outputs = selection.edges.inputs, selection.outputs
    of_inputs: dict[Output, Output] = {}
    of_outputs: dict[Output, Output] = {}
    for tensor, inner in ((graph.tensor(outer), body.tensor(text)) for outer, text in mapped):
        chosen = of_inputs if tensor in inputs and inner.node.op in PLACEHOLDERS else of_outputs
        if chosen is of_outputs and tensor not in outputs:
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
    free = [*(output for node in nodes for output in node.inputs), *(node.output for node in nodes)]
    starts = [o for o in dict.fromkeys(free) if o.node.op in UNSET_PLACEHOLDERS]
    _pair(inputs, starts, of_inputs, optional, body, "input")
    results = [o for node in output_nodes(body) for o in node.outputs]
    # A constant without consumers is an output only if it has the name of an output.
    names = {tensor.name for tensor in outputs}
    results += [n.output for n in nodes if n.op == "Const" and n.name in names and n.output not in results]
    _pair(outputs, results, of_outputs, optional, body, "output")
    missing = [output for output in outputs if output not in of_outputs and output not in optional]
    if missing:
        raise EditError(
            f"{printable(body.source_name)} does not compute {_named(missing)}",
            code="no-result",
            tensors=[output.name for output in missing],
            advice="map-boundary",
        )
    # The arguments and results of the call have the order of the selection.
    return {o: of_inputs[o] for o in inputs if o in of_inputs}, {o: of_outputs[o] for o in outputs if o in of_outputs}


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


# -- the replacement ---------------------------------------------------------------------------------------


def _replace(
    graph: Graph,
    name: str,
    selection: _Selection,
    content: _Content,
    function: FunctionDef,
    xla: bool,
    result: EditResult,
) -> None:
    """Replaces the members by the call."""
    intent, members, edges = result.intent, selection.members, selection.edges
    last, outputs, kept_nodes = members[-1], list(content.outputs), selection.kept
    held = _held(graph, selection, content.inputs)
    lost = drop_colocations(graph, members)
    content.merge.apply(graph.functions)
    if function.signature.name not in graph.functions:
        graph.functions.add(function)
    intent.functions.added = [f.signature.name for f in (*content.merge.added, function)]
    unique = graph.unique_names()
    inputs: list[Output] = []
    for output in content.inputs:
        if output.node.graph is not graph:
            output = graph.add_copy(unique(f"{name}/{output.node.name}"), output.node, after=last).output
            intent.added.append(output.node.name)
        inputs.append(output)
    controls = list(edges.controls_in)
    if held is not None:
        controls.append(add_identity(graph, unique(f"{name}/pivot"), [held], after=last))
        intent.added.append(controls[-1].name)
    signature = function.signature
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
    graph.remove(members, still_used=True)  # one of them can have the name of the call
    call = graph.add(name, op, inputs, controls, attrs=attrs, after=last)

    place = {output: Output(call, i) for i, output in enumerate(outputs)}
    move_uses(graph, edges.outer_uses, place, intent)
    waiting = dict.fromkeys(user for users in edges.controls_out.values() for user in users)
    move_controls(graph, waiting, dict.fromkeys(members, (call,)))
    for other, node in lost.items():
        text = f"{quoted(other.name)} is no longer colocated with {quoted(node.name)}"
        result.note(text, "colocation-lost", node=other.name, name=node.name)
    intent.changed += [node.name for node in dict.fromkeys((*waiting, *lost))]
    kept: list[str] = []
    for node in kept_nodes:
        returned = [output for output in outputs if output.node is node]
        if node.name != name and (returned or not node.output_count):
            values, dtypes = [place[output] for output in returned], [output.dtype for output in returned]
            add_identity(graph, node.name, values, () if values else [call], call, dtypes)
            kept.append(node.name)
    intent.added += [*kept, name]
    intent.removed = [node.name for node in members if node.name not in (*kept, name)]
    intent.moved = {o.name: new.name for o, new in place.items() if o.node.name not in kept and o.name != new.name}


def _held(graph: Graph, selection: _Selection, inputs: Iterable[Output]) -> Output | None:
    """Returns a tensor that the call must depend on to run in its loop or branch; None if this is not necessary.

    A body may leave out all inputs that are in this loop or branch.
    """

    def holds(tensor: Output) -> bool:
        return _place(graph, tensor) == selection.place

    if selection.place == (-1, frozenset()) or any(holds(tensor) for tensor in inputs if tensor.node.graph is graph):
        return None
    if any(holds(Output(control, -1)) for control in selection.edges.controls_in):
        return None
    return next(filter(holds, selection.edges.inputs), None)
