"""Transforming a subgraph into another, node by node, with functions of the caller's at each step."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from gdsurgeon.analysis.shapes.stated import stated_shape
from gdsurgeon.edits.replacing import known_shapes
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.names import UniqueNames, free_scope
from gdsurgeon.graph.node import Node, Output, check_typed
from gdsurgeon.graph_editor.control_outputs import ControlOutputs
from gdsurgeon.graph_editor.lists import transform_tree
from gdsurgeon.graph_editor.make import make_placeholder
from gdsurgeon.graph_editor.names import lookup, moved_name, placeholder_name, scope_finalize
from gdsurgeon.graph_editor.refusal import Refusal, WrongType, refusals
from gdsurgeon.graph_editor.renaming import Renaming, plan_renaming
from gdsurgeon.graph_editor.subgraph import SubGraphView, make_view
from gdsurgeon.graph_editor.view import node_outputs
from gdsurgeon.ops.attr_names import COLOCATION_ATTR
from gdsurgeon.ops.kinds import MERGE, NEXT_ITERATION
from gdsurgeon.wire.protos import NodeDef

Transformed = tuple[Node, Sequence[Output]]
NodeDefFunction = Callable[[NodeDef], NodeDef]


class TransformerInfo:
    """What becomes what in a transformation; handed to the handlers while it goes on, and returned.

    Attributes:
        sgv: the view that is transformed.
        graph, scope: the graph and the scope that it comes from.
        graph_, scope_: those that it goes to.
        transformed_ops: for each node what it has become.
        transformed_ts: for each tensor, of the nodes and from outside, the tensor that the transformed nodes read
            instead.
    """

    def __init__(self, sgv: SubGraphView, dst_graph: Graph, dst_scope: str, src_scope: str) -> None:
        graph = sgv.graph
        if graph is None:
            raise Refusal("the subgraph is empty: there is nothing to transform", code="nothing-selected")
        self.sgv = sgv
        self.graph, self.scope = graph, src_scope
        self.graph_, self.scope_ = dst_graph, dst_scope
        self.transformed_ops: dict[Node, Node] = {}
        self.transformed_ts: dict[Output, Output] = {}
        self.members = frozenset(sgv.nodes)
        self.inputs = frozenset(sgv.inputs)
        self.unique: UniqueNames = dst_graph.unique_names()
        self.copies: set[Node] = set()
        self._original_ops: dict[Node, Node] = {}
        self._original_ts: dict[Output, Output] = {}
        self._counts = (0, 0)
        with refusals():
            names = {op: self.unique(self.new_name(op.name)) for op in sgv.nodes}
            self.renaming: Renaming = plan_renaming(graph, dst_graph, names, sgv.inputs)

    @cached_property
    def shapes(self) -> dict[Output, Shape]:
        """Returns the known shapes of the tensors that the nodes read from outside."""
        members = self.members
        read = (t for op in self.sgv.nodes for t in op.inputs if t.node not in members)
        return known_shapes(self.graph, dict.fromkeys([*read, *self.sgv.inputs]))

    @property
    def control_outputs(self) -> ControlOutputs:
        """The control edges of the graph that the view is of."""
        return ControlOutputs(self.graph)

    def new_name(self, name: str) -> str:
        """The name below the new scope, before it is made unique. Raises ValueError where NAME is not below the old."""
        return moved_name(name, self.scope, self.scope_)

    def transformed(self, original: object, missing_fn: Callable[[object], object] | None = None) -> Any:
        """What a node or tensor has become, or each leaf of a tree of them; names stand for what they name.

        Args:
            original: of the graph that was transformed.
            missing_fn: returns the replacement for something that was not transformed; None by default.

        Raises:
            TypeError: something else is given.
        """
        return self._each(original, self.graph, self.transformed_ops, self.transformed_ts, missing_fn)

    def original(self, transformed: object, missing_fn: Callable[[object], object] | None = None) -> Any:
        """What a node or tensor was before, or each leaf of a tree of them; see `transformed`."""
        counts = len(self.transformed_ops), len(self.transformed_ts)
        if counts != self._counts:  # more has been transformed since this was last asked for
            self._original_ops = {new: old for old, new in self.transformed_ops.items()}
            self._original_ts = {new: old for old, new in self.transformed_ts.items()}
            self._counts = counts
        return self._each(transformed, self.graph_, self._original_ops, self._original_ts, missing_fn)

    @staticmethod
    def _each(
        tree: object,
        graph: Graph,
        nodes: Mapping[Node, Node],
        tensors: Mapping[Output, Output],
        missing_fn: Callable[[object], object] | None,
    ) -> Any:
        def one(leaf: object) -> Any:
            top = lookup(graph, leaf) if isinstance(leaf, str) else leaf
            if not isinstance(top, (Node, Output)):
                raise WrongType("Node or Output", top)
            found = nodes.get(top) if isinstance(top, Node) else tensors.get(top)
            return missing_fn(leaf) if found is None and missing_fn is not None else found

        return transform_tree(tree, one)


# Handlers: the actions of a transformer for each kind of object.


def copy_op_handler(
    info: TransformerInfo,
    op: Node,
    new_inputs: Iterable[Output],
    copy_shape_and_dtype: bool = False,
    nodedef_fn: NodeDefFunction | None = None,
) -> Transformed:
    """Adds a copy of OP that reads NEW_INPUTS; returns it and its outputs.

    While loops, tables, queues and variables get names of their own. Control inputs and colocations follow at the end
    of the transformation.

    Args:
        info: the transformation.
        op: the node.
        new_inputs: tensors of the graph that the copy goes to.
        copy_shape_and_dtype: for compatibility; there is nothing to copy beyond the attrs.
        nodedef_fn: takes the copy as a NodeDef message and returns that, changed, or another: its op, device and
            attrs count, its inputs do not.
    """
    name = info.renaming.names[op]
    copy = info.graph_.add_copy(name if name not in info.graph_ else info.unique(name), op)
    info.graph_.set_inputs(copy, new_inputs)
    info.renaming.apply(op, copy)
    info.copies.add(copy)
    if nodedef_fn is not None:
        _apply_nodedef(info, copy, nodedef_fn)
    return copy, node_outputs(copy)


def _apply_nodedef(info: TransformerInfo, copy: Node, nodedef_fn: NodeDefFunction) -> None:
    node_def = NodeDef(name=copy.name, op=copy.op, device=copy.device)
    for key, value in copy.attrs():
        node_def.attr[key].CopyFrom(value)
    before = {key: value.SerializeToString(deterministic=True) for key, value in node_def.attr.items()}
    node_def = nodedef_fn(node_def)
    after = {key: value.SerializeToString(deterministic=True) for key, value in node_def.attr.items()}
    graph = graph_of(copy)
    if node_def.op != copy.op:
        graph.set_op(copy, node_def.op)
    if node_def.device != copy.device:
        graph.set_device(copy, node_def.device)
    for key in before.keys() | after.keys():
        if before.get(key) != after.get(key):
            graph.set_attr(copy, key, after.get(key))
    if COLOCATION_ATTR in before and COLOCATION_ATTR not in after:
        info.copies.discard(copy)  # no colocation is to follow
    if node_def.name != copy.name:
        with refusals():
            graph.rename({copy: node_def.name})


def transform_op_in_place(info: TransformerInfo, op: Node, new_inputs: Iterable[Output]) -> Transformed:
    """Has OP itself read NEW_INPUTS; returns it and its outputs.

    Later nodes read the outputs that a handler returns.

    Raises:
        ValueError: the transformation goes to another graph.
    """
    if info.graph is not info.graph_:
        message = f"{quoted(op.name)} cannot be transformed in place: the target is a different graph"
        raise Refusal(message, code="not-replaceable", facts={"node": op.name})
    inputs = list(new_inputs)
    if inputs != list(op.inputs):
        info.graph.set_inputs(op, inputs)
    return op, node_outputs(op)


def replace_t_with_placeholder_handler(info: TransformerInfo, t: Output) -> Output:
    """A new placeholder that stands for T, in the new scope. Raises ValueError where the dtype of T is not known."""
    with refusals():
        check_typed(t)
    shape = info.shapes[t] if t in info.shapes else stated_shape(t)
    name = placeholder_name(t, scope=info.scope_)
    return make_placeholder(info.graph_, name, t.dtype, shape, uniquify_name=True).output


def keep_t_if_possible_handler(info: TransformerInfo, t: Output) -> Output:
    """T itself inside one graph, otherwise a new placeholder."""
    return t if info.graph is info.graph_ else replace_t_with_placeholder_handler(info, t)


def transform_op_if_inside_handler(info: TransformerInfo, op: Node, keep_if_possible: bool = True) -> Node | None:
    """What OP has become; OP itself where it was not transformed and that is possible, otherwise None."""
    if op in info.transformed_ops:
        return info.transformed_ops[op]
    return op if keep_if_possible and info.graph is info.graph_ else None


class Transformer:
    """Transforms a subgraph into another; by default it copies it, with placeholders for what it reads from outside.

    Attributes:
        transform_op_handler: (info, op, new inputs) -> (node, outputs): the transformed node, and the tensors that its
            consumers read. If it returns OP itself, OP is transformed in place.
        transform_control_input_handler: (info, op) -> the node to wait for in place of OP, or None.
        transform_external_input_handler: (info, t) -> the tensor to read in place of T, which is an input of the view.
        transform_external_hidden_input_handler: likewise for a T from outside that is no input of the view.
        replacements: tensors that are read in place of others, whatever gives those.

    A GraphDef has no collections: there is nothing to be put into them.
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
        """Transforms.

        Args:
            sgv: a view, or what `make_view` makes a view of.
            dst_graph: where the result goes; it may be the graph itself.
            dst_scope: the scope of the result, with or without a slash at its end.
            src_scope: the scope that DST_SCOPE takes the place of in the names.
            reuse_dst_scope: use DST_SCOPE even where it is in use, and make the name of each node unique; by default
                a fresh scope is taken as a whole, DST_SCOPE_1, DST_SCOPE_2, ...

        Returns:
            A view of the result, with inputs and outputs in the order of the original's, and what became what.

        Raises:
            TypeError: `dst_graph` is not a graph; or see `make_view`.
            ValueError: a node is not under SRC_SCOPE, a while loop would be copied in part, a node reads something
                that is not there, nodes are on a cycle, or the dtype is not known of something that a placeholder is
                to stand for; both graphs are as they were. Or what a handler raises.
        """
        view = make_view(sgv)
        if not isinstance(dst_graph, Graph):
            raise WrongType("Graph", dst_graph)
        scope = scope_finalize(dst_scope)
        if scope and not reuse_dst_scope:
            scope = free_scope(dst_graph.names(), scope[:-1]) + "/"
        order = _ordered(view.nodes)
        info = TransformerInfo(view, dst_graph, scope, scope_finalize(src_scope))
        self._check_placeholders(info)
        unfinished: list[tuple[Node, int, Output]] = []
        for op in order:
            self._transform(info, op, unfinished)
        for op, slot, tensor in unfinished:
            dst_graph.set_slots({info.transformed_ops[op]: {slot: info.transformed_ts[tensor]}})
        for op in order:
            self._connect(info, op)
        return _transformed_view(info), info

    def _check_placeholders(self, info: TransformerInfo) -> None:
        """Raises ValueError if a placeholder is needed for a tensor with an unknown dtype."""
        kept = [keep_t_if_possible_handler] if info.graph is info.graph_ else []
        makers = [h for h in (replace_t_with_placeholder_handler, keep_t_if_possible_handler) if h not in kept]
        for tensor in dict.fromkeys(read for op in info.sgv.nodes for read in op.inputs):
            outside = tensor.node not in info.members and tensor not in self.replacements
            if outside and self._external_handler(info, tensor) in makers:
                with refusals():
                    check_typed(tensor)

    def _external_handler(self, info: TransformerInfo, tensor: Output) -> Callable[[TransformerInfo, Output], Output]:
        if tensor in info.inputs:
            return self.transform_external_input_handler
        return self.transform_external_hidden_input_handler

    def _transform(self, info: TransformerInfo, op: Node, unfinished: list[tuple[Node, int, Output]]) -> None:
        inputs: list[Output | None] = [self._input(info, read) for read in op.inputs]
        # What comes round in a while loop is not there yet; the copy of the Merge reads its other input for a while.
        present = next((new for new in inputs if new is not None), None)
        new_inputs: list[Output] = []
        for slot, (new, read) in enumerate(zip(inputs, op.inputs, strict=True)):
            if new is None:
                assert present is not None
                unfinished.append((op, slot, read))
            new_inputs.append(new or present)  # type: ignore[arg-type]
        result = self.transform_op_handler(info, op, new_inputs)
        node, outputs = (result, node_outputs(result)) if isinstance(result, Node) else result
        if node.graph is not info.graph_:
            raise Refusal(
                f"{quoted(op.name)} was transformed into a node of a wrong graph",
                code="other-graph",
                facts={"node": op.name, "found": node.name},
            )
        info.transformed_ops[op] = node
        for old, new in zip(node_outputs(op), outputs, strict=False):
            info.transformed_ts[old] = _tensor(new)

    def _input(self, info: TransformerInfo, tensor: Output) -> Output | None:
        """What is read in place of TENSOR; None where that does not exist yet."""
        if tensor in self.replacements:
            return self.replacements[tensor]
        found = info.transformed_ts.get(tensor)
        if found is None and tensor.node not in info.members:
            found = info.transformed_ts[tensor] = _tensor(self._external_handler(info, tensor)(info, tensor))
        return found

    def _connect(self, info: TransformerInfo, op: Node) -> None:
        """Gives what OP has become its control inputs and colocations."""
        node = info.transformed_ops[op]
        controls = [self.transform_control_input_handler(info, control) for control in op.controls]
        wanted = tuple(dict.fromkeys(control for control in controls if control is not None))
        if wanted != node.controls:
            graph_of(node).set_controls(node, wanted)
        if node in info.copies and op.colocated:
            others = [transform_op_if_inside_handler(info, other) for other in op.colocated if other.exists]
            graph_of(node).set_colocated(node, [other for other in others if other is not None])


def _tensor(given: Node | Output) -> Output:
    return given.output if isinstance(given, Node) else given


def _ordered(nodes: Sequence[Node]) -> list[Node]:
    """NODES, each after those that it reads, otherwise as they are; an edge that closes a while loop does not count.

    Raises:
        ValueError: some are on a cycle.
    """
    places = {node: place for place, node in enumerate(nodes)}
    waiting = [0] * len(nodes)
    readers: list[list[int]] = [[] for _ in nodes]
    for node, place in places.items():
        for read in node.inputs:
            if read.node in places and not (read.node.op in NEXT_ITERATION and node.op in MERGE):
                waiting[place] += 1
                readers[places[read.node]].append(place)
    ready = [place for place, count in enumerate(waiting) if not count]
    out: list[Node] = []
    while ready:
        place = heapq.heappop(ready)
        out.append(nodes[place])
        for reader in readers[place]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(out) < len(nodes):
        stuck = next(node for node, place in places.items() if waiting[place])
        raise Refusal(
            f"{quoted(stuck.name)} is on a cycle, or downstream of one", code="would-cycle", facts={"node": stuck.name}
        )
    return out


def _transformed_view(info: TransformerInfo) -> SubGraphView:
    """A view of what has come about, its inputs and outputs in the order of the original's."""
    view = SubGraphView(list(dict.fromkeys(info.transformed_ops.values())))
    tensors = info.transformed_ts
    inputs = dict.fromkeys(tensors[t] for t in info.sgv.inputs if t in tensors)
    outputs = [tensors[t] for t in info.sgv.outputs if t in tensors]
    given, result = set(view.inputs), set(view.outputs)
    return view.remap([t for t in inputs if t in given], [t for t in outputs if t in result])
