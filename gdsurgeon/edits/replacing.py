"""Shared parts of edits that replace or remove nodes: placeholders, Identity nodes, and clean-up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.traversal.control_flow import frames_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Altered, Intent, Rewired
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import Shape, shape_value, type_value, types_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import check_name
from gdsurgeon.graph.node import SCALAR_MEANS_UNKNOWN_BEFORE, Node, Output, Use, check_typed
from gdsurgeon.ops.dtypes import BOOL, base_dtype
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.wire.protos import AttrValue


def distinct_outputs(graph: Graph, items: Iterable[str | Output]) -> list[Output]:
    """Returns tensors of `graph`, given as names or tensors, each once."""
    return list(dict.fromkeys(map(graph.output, items)))


def check_outside_of_loops(graph: Graph, tensors: Iterable[Output], why: str = "") -> None:
    """Raises EditError if one of the tensors is inside a while loop; `why` is added to the message."""
    frames, topology = frames_of(graph), topology_of(graph)
    for tensor in tensors:
        frame = frames.of[topology.id_of(tensor.node)]
        if frame >= 0:
            loop = frames.names[frame]
            message = f"{quoted(tensor.name)} is inside the while loop {quoted(loop)}{why}"
            raise EditError(message, code="crosses-loop", tensor=tensor.name, node=tensor.node.name, loop=loop)


def known_shapes(graph: Graph, outputs: Iterable[Output]) -> dict[Output, Shape]:
    """Returns the shapes of tensors. Shapes that are not stated are inferred, from the whole graph."""
    out = {output: stated_shape(output) for output in outputs}
    unknown = [output for output, shape in out.items() if shape is None]
    if unknown:
        shapes = infer_shapes(graph, wanted=unknown)
        out = {output: shape if shape is not None else shapes.shape(output) for output, shape in out.items()}
    return out


def add_placeholder(graph: Graph, name: str, dtype: int, shape: Shape, *, after: Node | None = None) -> Node:
    """Adds a Placeholder. Graphs of old producers have no unknown shape: the shape is left out."""
    attrs = {"dtype": type_value(base_dtype(dtype))}
    if shape is not None or graph.store.producer >= SCALAR_MEANS_UNKNOWN_BEFORE:
        attrs["shape"] = shape_value(shape)
    return graph.add(name, "Placeholder", attrs=attrs, after=after)


def put_placeholders(
    graph: Graph, cut: Mapping[Output, Sequence[Use]], going: Collection[str], intent: Intent
) -> dict[str, str]:
    """Replaces uses of tensors by placeholders, and removes nodes. Returns the name of the placeholder of each tensor.

    The placeholder for output 0 of a removed node has the name of the node.

    Args:
        graph: changed in place.
        cut: the tensors, with the uses to replace.
        going: the names of the nodes to remove.
        intent: gets the changes.

    Raises:
        EditError: a dtype is unknown, or a name is illegal.
    """
    shapes = known_shapes(graph, cut)
    unique = graph.unique_names()
    names: dict[Output, str] = {}
    for output in cut:
        check_typed(output)
        names[output] = name = output.node.name
        check_name(name)
        if output.index or name not in going:
            names[output] = unique(f"{name}_{output.index}")
    intent.added += names.values()
    made = {*names.values()}
    intent.removed += [name for name in going if name not in made]
    drop_nodes(graph, going, still_used=bool(cut))
    for output, name in names.items():
        node = add_placeholder(graph, name, output.dtype, shapes[output], after=output.node)
        graph.reroute(cut[output], node.output)
        intent.altered.append(Altered(name, "attr shape", node.attr_bytes("shape")))
        if name != output.name:
            intent.rewired += [Rewired(use.node.name, use.slot, output.name, name) for use in cut[output]]
    return {output.name: name for output, name in names.items()}


def add_identity(
    graph: Graph,
    name: str,
    tensors: Sequence[Output],
    controls: Sequence[Node] = (),
    after: Node | None = None,
    dtypes: Sequence[int] = (),
) -> Node:
    """Adds an Identity or IdentityN with the given name that forwards tensors; without tensors a NoOp.

    Args:
        graph: changed in place.
        name: the name of the node.
        tensors: no references.
        controls: the control inputs of the node.
        after: the node after which it is written.
        dtypes: the dtypes of the tensors, if the tensors do not have them.
    """
    types = [base_dtype(dtype) for dtype in dtypes or [tensor.dtype for tensor in tensors]]
    if not types:
        return graph.add(name, "NoOp", controls=controls, after=after)
    op, value = ("Identity", type_value(types[0])) if len(types) == 1 else ("IdentityN", types_value(types))
    return graph.add(name, op, tensors, controls, attrs={"T": value}, after=after)


def use_value(graph: Graph, node: Node, op: str, dtype: int, inputs: Sequence[Output] | None = None) -> None:
    """Replaces an op on a variable by `op`, which computes the same from the value. `dtype`: of the value.

    Attrs that `op` does not have are removed.
    """
    definition = graph.op_def(op)
    assert definition is not None
    attrs: dict[str, AttrValue | None] = dict.fromkeys(
        key for key in node.attr_keys if key not in definition.attrs and not key.startswith("_")
    )
    if op == "Const":  # whether the variable is initialized
        inputs, value = (), tensor_value(BOOL, (), [True])
        attrs |= {"dtype": type_value(BOOL), "value": value}
    elif definition.inputs:
        attrs[definition.inputs[0].type_attr] = type_value(dtype)
    graph.replace_op(node, op, inputs, attrs)


def remove_unused(
    graph: Graph, nodes: Iterable[Node], is_removable: Callable[[Node], bool] = lambda _: True
) -> list[str]:
    """Removes nodes that no node uses or is colocated with, then their producers for which the same is true.

    Placeholders stay, and nodes that are not removable. Returns the names of the removed nodes.
    """
    out: list[str] = []
    pending, seen = list(nodes), set[Node]()
    while pending:
        node = pending.pop()
        seen.add(node)
        may_go = node in graph and node.op not in PLACEHOLDERS and is_removable(node)
        if may_go and not graph.users(node) and not graph.colocated_with(node):
            out.append(node.name)
            pending += [*(read.node for read in node.inputs), *node.controls]
            pending += [other for other in node.colocated if other in seen]
            graph.remove([node])
    return out


def drop_nodes(graph: Graph, names: Iterable[str], *, still_used: bool = False) -> list[str]:
    """Removes nodes, and the colocations of other nodes with them; see `Graph.remove`. Returns their names."""
    names = names if isinstance(names, dict) else dict.fromkeys(names)
    drop_colocations(graph, map(graph.__getitem__, names if graph.has_colocations else ()))
    graph.remove(names, still_used=still_used)
    return list(names)


def add_constant(graph: Graph, name: str, value: AttrValue, after: Node, controls: Iterable[Node] = ()) -> Node:
    """Adds a Const with the tensor `value`, after the node `after` and on its device."""
    attrs = {"dtype": type_value(value.tensor.dtype), "value": value}
    return graph.add(name, "Const", (), controls, attrs=attrs, device=after.device, after=after)


def move_uses(
    graph: Graph, uses: Mapping[Output, Iterable[Use]], place: Mapping[Output, Output], intent: Intent
) -> None:
    """Makes `uses` of tensors read their replacements; `intent` gets the changes."""
    changes: dict[Node, dict[int, Output]] = {}
    for old, new in place.items():
        for user, slot in uses.get(old, ()):
            changes.setdefault(user, {})[slot] = new
            intent.rewired.append(Rewired(user.name, slot, old.name, new.name))
    graph.set_slots(changes)


def move_controls(graph: Graph, users: Iterable[Node], place: Mapping[Node, Iterable[Node]]) -> None:
    """Makes `users` have control inputs from the replacements of nodes instead of the nodes."""
    for user in users:
        graph.set_controls(user, [new for control in user.controls for new in place.get(control, (control,))])


def drop_colocations(graph: Graph, nodes: Iterable[Node]) -> dict[Node, Node]:
    """Removes colocations of other nodes with `nodes`. Returns these other nodes, each with one of `nodes`."""
    gone = dict.fromkeys(nodes)
    found: dict[Node, Node] = {}
    for node in gone if graph.has_colocations else ():
        for other in graph.colocated_with(node):
            if other not in gone:
                found.setdefault(other, node)
    for other in found:
        graph.set_colocated(other, [kept for kept in other.colocated if kept not in gone])
    return found


def unrenamed_outputs(graph: Graph) -> tuple[tuple[str, str], ...]:
    """Returns pairs of equal names: the outputs of the edited graph that have the same name in the file."""
    kept = (node for node in output_nodes(graph) if node.base_name == node.name)
    return tuple((output.name, output.name) for node in kept for output in node.outputs)
