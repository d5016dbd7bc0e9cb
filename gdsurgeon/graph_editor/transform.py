"""Copies subgraphs, inside a graph or to a different graph, node by node and with custom handlers."""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.analysis.traversal.control_flow import frames_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.node_copies import NodeCopy, plan_copy
from gdsurgeon.edits.replacing import known_shapes
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.names import UniqueNames, free_scope
from gdsurgeon.graph.node import Node, Output, check_typed, same_dtype
from gdsurgeon.graph_editor.select import get_backward_walk_ops, get_forward_walk_ops
from gdsurgeon.graph_editor.subgraph import SubGraphView, make_view
from gdsurgeon.graph_editor.util import (
    ControlOutputs,
    WrongType,
    check_type,
    flatten_tree,
    get_unique_graph,
    lookup,
    make_placeholder,
    moved_name,
    node_outputs,
    placeholder_name,
    scope_finalize,
    transform_tree,
)
from gdsurgeon.ops.dtypes import base_dtype, dtype_name
from gdsurgeon.ops.kinds import COLOCATION_ATTR, MERGE, NEXT_ITERATION
from gdsurgeon.select import own_nodes
from gdsurgeon.wire.protos import NodeDef

__all__ = [
    "Transformer", "TransformerInfo", "copy", "copy_op_handler", "copy_with_input_replacements", "graph_replace",
    "keep_t_if_possible_handler", "replace_t_with_placeholder_handler", "transform_op_if_inside_handler",
    "transform_op_in_place",
]  # fmt: skip

Transformed = tuple[Node, Sequence[Output]]
NodeDefFunction = Callable[[NodeDef], NodeDef]
Missing = Callable[[object], object]


class TransformerInfo:
    """The counterparts of nodes and tensors in a transformation; an argument of the handlers, and a result.

    Attributes:
        sgv: the view that is transformed.
        graph, scope: the graph and the scope of the originals.
        graph_, scope_: the graph and the scope of the results.
        transformed_ops: the result of each node.
        transformed_ts: for each tensor, of the nodes and from outside, the tensor that the transformed nodes read
            instead.
    """

    def __init__(self, sgv: SubGraphView, dst_graph: Graph, dst_scope: str, src_scope: str) -> None:
        graph = sgv.graph
        if graph is None:
            raise EditError("the subgraph is empty: there is nothing to transform", code="nothing-selected")
        self.sgv = sgv
        self.graph, self.scope = graph, src_scope
        self.graph_, self.scope_ = dst_graph, dst_scope
        self.transformed_ops: dict[Node, Node] = {}
        self.transformed_ts: dict[Output, Output] = {}
        self.members = frozenset(sgv.nodes)
        self.inputs = frozenset(sgv.inputs)
        self.unique: UniqueNames = dst_graph.unique_names()
        self.copies: set[Node] = set()
        self._originals: dict[Node | Output, Node | Output] = {}
        names = {op: self.unique(self.new_name(op.name)) for op in own_nodes(graph, sgv.nodes)}
        self.plan = plan_copy(dst_graph, graph, nodes=names, names=names, replace={t: t for t in self.inputs})

    @cached_property
    def plan_with_functions(self) -> NodeCopy:
        """The plan, whose functions are added to the graph of the results when this is first used."""
        self.plan.merge.apply(self.graph_.functions)
        return self.plan

    @cached_property
    def shapes(self) -> dict[Output, Shape]:
        """The known shapes of the tensors that the nodes read from outside."""
        read = (tensor for op in self.sgv.nodes for tensor in op.inputs if tensor.node not in self.members)
        return known_shapes(self.graph, dict.fromkeys([*read, *self.sgv.inputs]))

    @property
    def control_outputs(self) -> ControlOutputs:
        """The control edges of the graph of the view."""
        return ControlOutputs(self.graph)

    def new_name(self, name: str) -> str:
        """Returns `name` in the new scope. Raises ValueError if `name` is not in the old scope."""
        return moved_name(name, self.scope, self.scope_)

    def add(self, original: Output, new: Node | Output) -> Output:
        """Records that transformed nodes read `new`, or output 0 of the node `new`, instead of `original`."""
        tensor = self.transformed_ts[original] = new.output if isinstance(new, Node) else new
        self._originals[tensor] = original
        return tensor

    def add_node(self, original: Node, new: Node) -> None:
        """Records the result of a node."""
        self.transformed_ops[original] = new
        self._originals[new] = original

    def transformed(self, original: object, missing_fn: Missing | None = None) -> Any:
        """Returns the result of a node or tensor, or a tree of the results of the leaves of a tree.

        Args:
            original: nodes, tensors or names in the graph that was transformed.
            missing_fn: returns the replacement for a leaf that was not transformed; None by default.

        Raises:
            TypeError: a leaf has a different type.
        """
        return _each(original, self.graph, ChainMap(self.transformed_ops, self.transformed_ts), missing_fn)

    def original(self, transformed: object, missing_fn: Missing | None = None) -> Any:
        """Returns the original of a node or tensor, or of each leaf of a tree; see `transformed`."""
        return _each(transformed, self.graph_, self._originals, missing_fn)


def _each(tree: object, graph: Graph, counterparts: Mapping[Any, Any], missing_fn: Missing | None) -> Any:
    def counterpart(leaf: object) -> Any:
        item = lookup(graph, leaf) if isinstance(leaf, str) else leaf
        if not isinstance(item, (Node, Output)):
            raise WrongType("Node or Output", item)
        found = counterparts.get(item)
        return missing_fn(leaf) if found is None and missing_fn is not None else found

    return transform_tree(tree, counterpart)


# -- handlers: the actions of a transformer for each kind of object ----------------------------------------


def copy_op_handler(
    info: TransformerInfo,
    op: Node,
    new_inputs: Iterable[Output],
    copy_shape_and_dtype: bool = False,
    nodedef_fn: NodeDefFunction | None = None,
) -> Transformed:
    """Adds a copy of `op` that reads `new_inputs`; returns the copy and its outputs.

    While loops, tables, queues and variables get new names. Control inputs and colocations are added at the end of the
    transformation.

    Args:
        info: the transformation.
        op: the node.
        new_inputs: tensors of the graph of the copy.
        copy_shape_and_dtype: for compatibility; without effect.
        nodedef_fn: called with the copy as a NodeDef message; returns a NodeDef whose name, op, device and attrs are
            used. Its inputs are ignored.
    """
    name = info.plan.names[op]
    copy = info.graph_.add_copy(name if name not in info.graph_ else info.unique(name), op)
    info.graph_.set_inputs(copy, new_inputs)
    info.plan_with_functions.respell(op, copy)
    info.copies.add(copy)
    if nodedef_fn is not None:
        _apply_nodedef(info, copy, nodedef_fn)
    return copy, node_outputs(copy)


def _apply_nodedef(info: TransformerInfo, copy: Node, nodedef_fn: NodeDefFunction) -> None:
    node_def, before = NodeDef(name=copy.name, op=copy.op, device=copy.device), dict(copy.attrs())
    for key, value in before.items():
        node_def.attr[key].CopyFrom(value)
    node_def = nodedef_fn(node_def)
    attrs = {key: value for key, value in node_def.attr.items() if key not in before or before[key] != value}
    info.graph_.replace_op(copy, node_def.op, attrs={**dict.fromkeys(before.keys() - node_def.attr.keys()), **attrs})
    if node_def.device != copy.device:
        info.graph_.set_device(copy, node_def.device)
    if COLOCATION_ATTR in before and COLOCATION_ATTR not in node_def.attr:
        info.copies.discard(copy)  # the copy gets no colocation
    if node_def.name != copy.name:
        info.graph_.rename({copy: node_def.name})


def transform_op_in_place(info: TransformerInfo, op: Node, new_inputs: Iterable[Output]) -> Transformed:
    """Makes `op` itself read `new_inputs`; returns `op` and its outputs.

    Later nodes read the outputs that a handler returns.

    Raises:
        ValueError: the target of the transformation is a different graph.
    """
    if info.graph is not info.graph_:
        message = f"{quoted(op.name)} cannot be transformed in place: the target is a different graph"
        raise EditError(message, code="not-replaceable", node=op.name)
    inputs = list(new_inputs)
    if inputs != list(op.inputs):
        info.graph.set_inputs(op, inputs)
    return op, node_outputs(op)


def replace_t_with_placeholder_handler(info: TransformerInfo, t: Output) -> Output:
    """Adds a placeholder for `t` in the new scope. Raises ValueError if the dtype of `t` is unknown."""
    check_typed(t)
    shape = info.shapes[t] if t in info.shapes else stated_shape(t)
    name = placeholder_name(t, scope=info.scope_)
    return make_placeholder(info.graph_, name, t.dtype, shape, uniquify_name=True).output


def keep_t_if_possible_handler(info: TransformerInfo, t: Output) -> Output:
    """Returns `t` itself inside one graph, otherwise a new placeholder."""
    return t if info.graph is info.graph_ else replace_t_with_placeholder_handler(info, t)


def transform_op_if_inside_handler(info: TransformerInfo, op: Node, keep_if_possible: bool = True) -> Node | None:
    """Returns the result of `op`; `op` itself if it was not transformed and this is possible, otherwise None."""
    if op in info.transformed_ops:
        return info.transformed_ops[op]
    return op if keep_if_possible and info.graph is info.graph_ else None


class Transformer:
    """Transforms a subgraph; by default it copies the subgraph, with placeholders for its inputs.

    A GraphDef has no collections, so collections are not changed.

    Attributes:
        transform_op_handler: (info, op, new inputs) -> (node, outputs): the transformed node, and the tensors that its
            consumers read. If it returns OP itself, OP is transformed in place.
        transform_control_input_handler: (info, op) -> the control input that replaces OP, or None.
        transform_external_input_handler: (info, t) -> the tensor that replaces T, which is an input of the view.
        transform_external_hidden_input_handler: the same for a T from outside that is not an input of the view.
        replacements: tensors and their replacements, which take precedence over the handlers.
    """

    def __init__(self) -> None:
        self.transform_op_handler: Callable[[TransformerInfo, Node, list[Output]], Transformed] = copy_op_handler
        self.transform_control_input_handler: Callable[[TransformerInfo, Node], Node | None] = (
            transform_op_if_inside_handler
        )
        self.transform_external_input_handler: Callable[[TransformerInfo, Output], Output] = (
            replace_t_with_placeholder_handler
        )
        self.transform_external_hidden_input_handler: Callable[[TransformerInfo, Output], Output] = (
            keep_t_if_possible_handler
        )
        self.replacements: Mapping[Output, Output] = {}

    def __call__(
        self, sgv: object, dst_graph: Graph, dst_scope: str, src_scope: str = "", reuse_dst_scope: bool = False
    ) -> tuple[SubGraphView, TransformerInfo]:
        """Transforms a subgraph.

        Args:
            sgv: a view, or an argument for `make_view`.
            dst_graph: the graph of the result, which may be the graph itself.
            dst_scope: the scope of the result, with or without a slash at its end.
            src_scope: the scope that `dst_scope` replaces in the names.
            reuse_dst_scope: use `dst_scope` even if it is in use, and make the name of each node unique; by default the
                scope itself is made unique: DST_SCOPE_1, DST_SCOPE_2, ...

        Returns:
            A view of the result, with inputs and outputs in the order of the original, and the counterparts.

        Raises:
            TypeError: `dst_graph` is not a graph; or see `make_view`.
            ValueError: a node is not under `src_scope`, a while loop would be copied in part, an input does not exist,
                nodes are on a cycle, or a placeholder is needed for a tensor with an unknown dtype. Both graphs are
                unchanged. Or a handler raises an error.
        """
        view = make_view(sgv)
        check_type(dst_graph, Graph)
        scope = scope_finalize(dst_scope)
        if scope and not reuse_dst_scope:
            scope = free_scope(dst_graph.names(), scope[:-1]) + "/"
        order = _ordered(view.nodes)
        info = TransformerInfo(view, dst_graph, scope, scope_finalize(src_scope))
        self._check_placeholders(info)
        unfinished = [each for op in order for each in self._transform(info, op)]
        for op, slot, tensor in unfinished:
            dst_graph.set_slots({info.transformed_ops[op]: {slot: info.transformed_ts[tensor]}})
        for op in order:
            self._connect(info, op)
        return _transformed_view(info), info

    def _check_placeholders(self, info: TransformerInfo) -> None:
        """Raises ValueError if a placeholder is needed for a tensor with an unknown dtype."""
        makers: list[object] = [replace_t_with_placeholder_handler]
        makers += [] if info.graph is info.graph_ else [keep_t_if_possible_handler]
        for tensor in dict.fromkeys(read for op in info.sgv.nodes for read in op.inputs):
            outside = tensor.node not in info.members and tensor not in self.replacements
            if outside and self._external_handler(info, tensor) in makers:
                check_typed(tensor)

    def _external_handler(self, info: TransformerInfo, tensor: Output) -> Callable[[TransformerInfo, Output], Output]:
        if tensor in info.inputs:
            return self.transform_external_input_handler
        return self.transform_external_hidden_input_handler

    def _transform(self, info: TransformerInfo, op: Node) -> list[tuple[Node, int, Output]]:
        """Transforms `op`. Returns the input slots whose tensors do not exist yet, because they close a while loop.

        The copy of a Merge reads its other input first.
        """
        inputs = [self._input(info, read) for read in op.inputs]
        present = [new for new in inputs if new is not None]
        result = self.transform_op_handler(info, op, [new or present[0] for new in inputs])
        node, outputs = (result, node_outputs(result)) if isinstance(result, Node) else result
        if node.graph is not info.graph_:
            line = f"{quoted(op.name)} was transformed into a node of a wrong graph"
            raise EditError(line, code="other-graph", node=op.name, found=node.name)
        info.add_node(op, node)
        for old, new in zip(node_outputs(op), outputs, strict=False):
            info.add(old, new)
        return [(op, slot, op.inputs[slot]) for slot, new in enumerate(inputs) if new is None]

    def _input(self, info: TransformerInfo, tensor: Output) -> Output | None:
        """Returns the tensor that replaces `tensor`; None if it does not exist yet."""
        if tensor in self.replacements:
            return self.replacements[tensor]
        if tensor in info.transformed_ts or tensor.node in info.members:
            return info.transformed_ts.get(tensor)
        return info.add(tensor, self._external_handler(info, tensor)(info, tensor))

    def _connect(self, info: TransformerInfo, op: Node) -> None:
        """Sets the control inputs and colocations of the result of `op`."""
        node = info.transformed_ops[op]
        controls = [self.transform_control_input_handler(info, control) for control in op.controls]
        kept = tuple(dict.fromkeys(control for control in controls if control is not None))
        if kept != node.controls:
            graph_of(node).set_controls(node, kept)
        if node in info.copies and op.colocated:
            others = [transform_op_if_inside_handler(info, other) for other in op.colocated if other.exists]
            graph_of(node).set_colocated(node, [other for other in others if other is not None])


def _ordered(nodes: Sequence[Node]) -> list[Node]:
    """Returns `nodes` in their order, but each after its producers. An edge that closes a while loop does not count.

    Raises:
        ValueError: some nodes are on a cycle.
    """
    members, opened = frozenset(nodes), set[Node]()
    order: dict[Node, None] = {}
    pending = list(reversed(nodes))
    while pending:
        node = pending[-1]
        if node in opened:
            order.setdefault(pending.pop())
            continue
        opened.add(node)
        loop = NEXT_ITERATION if node.op in MERGE else ()
        above = [read.node for read in node.inputs if read.node in members and read.node.op not in loop]
        for other in reversed(above):
            if other not in opened:
                pending.append(other)
            elif other not in order:
                raise EditError(f"{quoted(other.name)} is on a cycle", code="would-cycle", node=other.name)
    return list(order)


def _transformed_view(info: TransformerInfo) -> SubGraphView:
    """Returns a view of the result, with inputs and outputs in the order of the original."""
    view = SubGraphView(list(dict.fromkeys(info.transformed_ops.values())))
    tensors = info.transformed_ts
    inputs = dict.fromkeys(tensors[t] for t in info.sgv.inputs if t in tensors)
    outputs = [tensors[t] for t in info.sgv.outputs if t in tensors]
    return view.remap(filter(set(view.inputs).__contains__, inputs), filter(set(view.outputs).__contains__, outputs))


# -- copies ------------------------------------------------------------------------------------------------


def copy(
    sgv: object, dst_graph: Graph | None = None, dst_scope: str = "", src_scope: str = "", reuse_dst_scope: bool = False
) -> tuple[SubGraphView, TransformerInfo]:
    """Copies a subgraph, with placeholders for its inputs. See `Transformer.__call__`.

    Args:
        sgv: a view, or an argument for `make_view`. Tensors that are not inputs of the view are read from where the
            original reads them, if that is the same graph.
        dst_graph: the graph of the copy, by default the same graph; `empty_graph` makes a new one.
        dst_scope, src_scope, reuse_dst_scope: see `Transformer.__call__`.
    """
    view = make_view(sgv)
    return Transformer()(view, _destination(view, dst_graph), dst_scope, src_scope, reuse_dst_scope)


def _destination(view: SubGraphView, dst_graph: Graph | None) -> Graph:
    graph = view.graph if dst_graph is None else dst_graph
    if graph is None:
        raise EditError("the subgraph is empty: there is nothing to copy", code="nothing-selected")
    return graph


def copy_with_input_replacements(
    sgv: object,
    replacement_ts: Mapping[Output, Output],
    dst_graph: Graph | None = None,
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> tuple[SubGraphView, TransformerInfo]:
    """Copies a subgraph; the copy reads replacements of some tensors, and otherwise the tensors of the original.

    In a different graph, the copy reads placeholders instead of tensors without a replacement. Replacements of tensors
    that the subgraph does not read are ignored.

    Args:
        sgv: a view, or an argument for `make_view`.
        replacement_ts: for inputs of the subgraph, the tensors of the destination that the copy reads instead.
        dst_graph, dst_scope, src_scope, reuse_dst_scope: see `copy`.

    Raises:
        TypeError, ValueError: see `Transformer.__call__`; or a replacement has a different dtype or graph.
    """
    view = make_view(sgv)
    graph = _destination(view, dst_graph)
    for old, new in replacement_ts.items():
        graph.output(new)
        if not same_dtype(old.dtype, new.dtype):
            dtypes = [dtype_name(base_dtype(tensor.dtype)) for tensor in (old, new)]
            raise EditError(
                f"{quoted(old.name)} ({dtypes[0]}) cannot be replaced by {quoted(new.name)} ({dtypes[1]}): dtypes "
                "differ",
                code="dtype-mismatch",
                tensor=old.name,
                replacement=new.name,
            )
    copier = Transformer()
    copier.transform_external_input_handler = keep_t_if_possible_handler
    copier.replacements = dict(replacement_ts)
    return copier(view, graph, dst_scope, src_scope, reuse_dst_scope)


def graph_replace(
    target_ts: Any,
    replacement_ts: Mapping[Output, Output],
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> Any:
    """Computes tensors again from different tensors: copies the nodes in between.

    While loops among these nodes are copied completely. The replacements can have different shapes.

    Args:
        target_ts: tensors, in any tree of lists, tuples and dicts.
        replacement_ts: tensors and their replacements.
        dst_scope, src_scope, reuse_dst_scope: see `copy`.

    Returns:
        A tree like `target_ts`; targets that do not depend on the replaced tensors are unchanged.

    Raises:
        TypeError: a target is not a tensor.
        ValueError: no target depends on a replaced tensor; or see `copy_with_input_replacements`.
    """
    leaves: list[Any] = flatten_tree(target_ts)
    replaced = list(replacement_ts)
    graph = get_unique_graph([*leaves, *replaced], check_types=(Output,))
    assert graph is not None
    ends = [leaf for leaf in leaves if leaf not in replacement_ts]
    after = set(get_forward_walk_ops(replaced, control_outputs=ControlOutputs(graph)))
    before = get_backward_walk_ops(ends, stop_at_ts=replaced, control_inputs=True)
    ops = [node for node in before if node in after]
    if not ops and len(ends) == len(leaves):
        raise EditError("no target depends on a replaced tensor", code="nothing-to-do")
    transformed: dict[Output, Output] = {}
    if ops:
        nodes = _with_whole_loops(graph, ops)
        _, info = copy_with_input_replacements(nodes, replacement_ts, graph, dst_scope, src_scope, reuse_dst_scope)
        transformed = info.transformed_ts
    transformed = {**transformed, **replacement_ts}
    return transform_tree(target_ts, lambda target: transformed.get(target, target))


def _with_whole_loops(graph: Graph, nodes: Iterable[Node]) -> list[Node]:
    """Returns `nodes`, and all nodes of the while loops that contain some of them, in file order."""
    topology = topology_of(graph)
    frames = frames_of(graph)
    inside = {topology.id_of(node) for node in nodes}
    adjacent: dict[int, list[int]] = defaultdict(list)  # each frame, with its parent and the frames inside it
    for frame, parent in enumerate(frames.parents):
        if parent >= 0:
            adjacent[frame].append(parent)
            adjacent[parent].append(frame)
    touched = closure({frames.of[number] for number in inside} - {-1}, adjacent.__getitem__)
    inside.update(number for number in topology.numbers() if frames.of[number] in touched)
    return [topology.node(number) for number in sorted(inside)]
