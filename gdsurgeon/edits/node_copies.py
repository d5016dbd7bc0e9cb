"""Copies nodes inside their graph, or from a different graph: nodes, weights and functions."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Set
from dataclasses import dataclass, field

from gdsurgeon.analysis.queries.usage import functions_of
from gdsurgeon.analysis.traversal.control_flow import Frames, frames_of
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import public
from gdsurgeon.compare.intent import FunctionChanges, Intent
from gdsurgeon.edits.functions import EMPTY, FunctionMerge, plan_function_merge, respell_functions, shared_names_of
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.attrs import shape_value, string_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, check_name, scope_prefix
from gdsurgeon.graph.node import SCALAR_MEANS_UNKNOWN_BEFORE, Node, Output, placeholder_shape
from gdsurgeon.ops.kinds import (
    BY_NODE_NAME,
    COLOCATION_ATTR,
    ENTER,
    FRAME_NAME,
    LOOP_COND,
    MERGE,
    NEXT_ITERATION,
    SHARED_NAME,
    TABLE_INITIALIZERS,
    TEMPORARY,
    VAR_NAME,
)
from gdsurgeon.select import own_nodes
from gdsurgeon.values import Data
from gdsurgeon.wire.protos import AttrValue

Respell = Callable[[str], str]
"""Returns the new name for a name."""


@dataclass(eq=False, repr=False)
class NodeCopy(Data):
    """A checked plan to copy nodes of the same graph or of a different graph. `apply` makes the copies.

    Attributes:
        graph: the graph of the copies.
        names: the names of the copies.
        replaced: tensors that the copies read instead of others.
        attrs: the new values of attrs that contain names.
        merge: the functions to add.
        frames: the new ``frame_name`` of each copied while loop.
        shared_names: the new ``shared_name`` of tables, queues and variables.
        common: shared names that stay, because nodes that are not copied also use them.
        renamed: (name of the original, name of the copy), for names that were taken.
        nodes: the copy of each node, after `apply`.
    """

    graph: Graph
    names: dict[Node, str]
    replaced: dict[Output, Output]
    attrs: dict[Node, dict[str, AttrValue]]
    merge: FunctionMerge = field(default_factory=FunctionMerge)
    frames: dict[str, str] = field(default_factory=dict)
    shared_names: dict[str, str] = field(default_factory=dict)
    common: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    nodes: dict[Node, Node] = field(default_factory=dict)

    @property
    def functions(self) -> dict[str, str]:
        """The new names of functions that have a different name in the copy."""
        return self.merge.renamed

    def apply(self, after: Node | None = None) -> NodeCopy:
        """Makes the copies, after the node `after` or (None) at the end."""
        graph = self.graph
        self.merge.apply(graph.functions)
        for node, name in self.names.items():
            self.nodes[node] = graph.add_copy(name, node, after=after)
        for node, copy in self.nodes.items():
            graph.set_reads(copy, map(self.output, node.inputs), dict.fromkeys(map(self.node, node.controls)))
            if node.attr_bytes(COLOCATION_ATTR) or (node.has_resolved_colocations and node.colocated):
                graph.set_colocated(copy, [self.node(other) for other in node.colocated if other.exists])
            self.respell(node, copy)
        return self

    def respell(self, node: Node, copy: Node) -> None:
        """Updates the attrs of the copy of `node` that contain names."""
        if self.functions:
            respell_functions(self.graph, copy, self.functions)
        for key, value in self.attrs.get(node, {}).items():
            self.graph.set_attr(copy, key, value)

    def output(self, original: Output) -> Output:
        """Returns the tensor that a copy reads instead of `original`: a replacement, a copy, or the same tensor."""
        found = self.replaced.get(original)
        if found is not None:
            return found
        node = self.nodes.get(original.node)
        return original if node is None else Output(node, original.index)

    def node(self, original: Node) -> Node:
        """Returns the copy of a node. A node that is not copied is returned itself, or (different graph) replaced."""
        if original in self.nodes or original.graph is self.graph:
            return self.nodes.get(original, original)
        return self.replaced[original.output].node

    def intent(self) -> Intent:
        """Returns the intent of an edit that copies a different graph."""
        return Intent(
            added=[node.name for node in self.nodes.values()],
            copied={old.name: new.name for old, new in self.nodes.items()},
            renamed_functions=self.functions,
            functions=FunctionChanges(added=[function.signature.name for function in self.merge.added]),
        )

    def notes(self, other: Graph) -> list[str]:
        """Returns a line for each name of `other` that was taken, and for each table initialiser without users."""
        out: list[str] = []
        for old, new in (self.renamed | self.functions).items():
            text = f"{quoted(old)} of {printable(other.source_name)} is renamed to {quoted(new)}: the name was taken"
            out.append(Remark(text, "name-taken", name=old, found=new))
        for node in self.nodes.values():
            if node.op in TABLE_INITIALIZERS and not self.graph.users(node):
                fills = f"{quoted(node.name)} ({printable(node.op)}) initializes a table, and no node depends on it"
                out.append(Remark(f"{fills}: run it before the graph", "run-before", node=node.name, op=node.op))
        return out


@public
def copy_in(
    graph: Graph,
    other: Graph,
    *,
    replace: Mapping[Node, Output],
    names: Mapping[Node, str] | None = None,
    after: Node | None = None,
) -> NodeCopy:
    """Copies the nodes of `other` into `graph`; see `plan_copy`.

    Args:
        graph: changed in place.
        other: not changed. Its source must stay open until `graph` is written.
        replace: nodes of `other` with one output, usually placeholders, that are not copied, and the tensors of `graph`
            that replace them.
        names: required names of some copies.
        after: the node of `graph` after which the copies are written; None: at the end.

    Raises:
        EditError: see `plan_copy`. The graph is unchanged.
    """
    replaced = {node.output: tensor for node, tensor in replace.items()}
    return plan_copy(graph, other, replace=replaced, names=names or {}).apply(after)


@public
def copy_nodes(
    graph: Graph,
    nodes: Iterable[Node],
    name: Respell | Mapping[Node, str],
    *,
    replace: Mapping[Output, Output] | None = None,
    respell: Respell = str,
) -> NodeCopy:
    """Copies nodes inside their graph; see `plan_copy`.

    Args:
        graph: changed in place.
        nodes: nodes of `graph`, in any order.
        name: returns or contains the name of each copy.
        replace: tensors that the copies read instead of others.
        respell: returns a new frame name or shared name, which is made unique.

    Raises:
        EditError: see `plan_copy`. The graph is unchanged.
    """
    originals = own_nodes(graph, nodes)
    names = name if isinstance(name, Mapping) else {node: name(node.name) for node in originals}
    return plan_copy(graph, graph, nodes=originals, names=names, replace=replace or {}, respell=respell).apply()


def plan_copy(
    graph: Graph,
    other: Graph,
    *,
    replace: Mapping[Output, Output],
    nodes: Iterable[Node] | None = None,
    names: Mapping[Node, str] = EMPTY,
    scope: str = "",
    reserved: Iterable[str] = (),
    respell: Respell = str,
) -> NodeCopy:
    """Checks and plans a copy of nodes of `other`, which can be `graph` itself, in `graph`.

    Inputs, control inputs and colocations among the nodes become those among the copies; inside a graph, all others
    stay. If the names are in use, the copies of while loops get new frame names, and the copies of tables, queues and
    variables get new shared names. A function is copied if it contains such a name. Weights are copied as spans when
    the graph is written.

    Args:
        graph: not changed.
        other: not changed. Its source must stay open until `graph` is written.
        replace: tensors that the copies read instead of others.
        nodes: the nodes of `other` to copy, each once; by default all, without those whose output 0 is replaced.
        names: the names of copies. Other copies have the name of the original, which is made unique.
        scope: a name scope for all copies, instead of `names`.
        reserved: names that the copies must not use.
        respell: returns a new frame name or shared name, which is made unique.

    Raises:
        EditError: a name is illegal or taken, an input does not exist, or only a part of a while loop would be copied.
        InputError: the function library of `other` is corrupt, or an input is not the name of a tensor.
    """
    originals = [n for n in other.nodes() if n.output not in replace] if nodes is None else list(nodes)
    prefix, taken = scope_prefix(scope), {*reserved}
    given = {node: prefix + node.name for node in originals} if prefix else names
    for node in originals:
        check_name(name := given.get(node, node.name))
        if node in given and (name in taken or name in graph):
            message = f"the copy of {quoted(node.name)} cannot be named {quoted(name)}: the name is taken"
            raise EditError(message, code="name-taken", node=node.name, name=name)
        taken.update((name,) if node in given else ())
    own = {node.name for node in originals if node not in given}
    unique = UniqueNames(lambda name: name in graph or name in taken or name in own)
    plan: dict[Node, str] = {}
    for node in originals:
        name = given.get(node, node.name)
        plan[node] = unique(name) if node not in given and (name in graph or name in taken) else name
    topology = topology_of(other)
    topology.check_reads(map(topology.id_of, originals))
    _check_loops(topology, frames_of(other), originals, replace)
    out = _plan(graph, other, plan, dict(replace), respell)
    out.renamed = {node.name: name for node, name in plan.items() if name != node.name and node not in given}
    return out


def _check_loops(topology: Topology, frames: Frames, nodes: list[Node], replaced: Mapping[Output, Output]) -> None:
    """Raises EditError if a loop is copied without some of its nodes, or if only its control nodes are copied."""
    if not frames.names:
        return
    inside = {topology.id_of(node): node for node in nodes}
    fresh = {frames.of[number] for number, node in inside.items() if node.op in ENTER}
    for number, node in inside.items():
        frame = frames.of[number]
        if frame < 0:
            continue
        name = frames.names[frame]
        loop = f"the while loop {quoted(name)}"
        if frame not in fresh:
            closes = any(topology.op(p) in NEXT_ITERATION for p in topology.producers(number))
            if node.op in NEXT_ITERATION | {LOOP_COND} or (node.op in MERGE and closes):
                message = f"{quoted(node.name)} ({node.op}) cannot be copied without the rest of {loop}"
                raise EditError(message, code="crosses-loop", node=node.name, loop=name)
            continue
        for read in (*node.inputs, *(Output(control, -1) for control in node.controls)) if node.op not in ENTER else ():
            other = topology.id_of(read.node)
            if frames.of[other] == frame and other not in inside and read not in replaced:
                raise EditError(
                    f"only a part of {loop} would be copied: {quoted(node.name)} without "
                    f"{quoted(read.node.name)}, one of its inputs",
                    code="crosses-loop",
                    node=node.name,
                    input=read.node.name,
                    loop=name,
                )


# -- names that copies must not share ----------------------------------------------------------------------


def _plan(
    graph: Graph, other: Graph, names: dict[Node, str], replaced: dict[Output, Output], respell: Respell
) -> NodeCopy:
    """Returns the plan to copy nodes of `other`, which can be `graph` itself, under checked names."""
    library, topology = other.functions, topology_of(other)
    by_op: dict[str, list[Node]] = {}
    for node in names:
        by_op.setdefault(topology.op(topology.id_of(node)), []).append(node)
    attrs: dict[Node, dict[str, AttrValue]] = {}

    def set_text(node: Node, key: str, text: str) -> None:
        attrs.setdefault(node, {})[key] = string_value(text)

    def of(ops: Container[str]) -> list[Node]:
        return [node for op, nodes in by_op.items() if op in ops for node in nodes]

    def renewed(
        key: str, found: Mapping[Node, str], wanted: Set[str], used: Callable[[], Iterable[str]]
    ) -> dict[str, str]:
        """Returns a new name for each name in `wanted`, and sets the attr `key` of the nodes `found` to it."""
        unique = UniqueNames(set(used() if wanted else ()).__contains__)
        new = {old: unique(respell(old)) for old in sorted(wanted)}
        for node, old in found.items():
            if old in new:
                set_text(node, key, new[old])
        return new

    def used_shared() -> set[str]:
        inside = {name for function in graph.functions for name in shared_names_of(function)}
        return shared_names_in_use(topology_of(graph)) | inside

    # Equal names would join loops, or tables.
    entered = {node: name for node in of(ENTER) if (name := node.text_attr(FRAME_NAME))}
    frames = renewed(FRAME_NAME, entered, {*entered.values()}, lambda: _texts(graph, ENTER, FRAME_NAME))
    sharing = of(_ops_with(other, SHARED_NAME, by_op))
    shared_by = {node: name for node in sharing if (name := node.text_attr(SHARED_NAME))}
    own, called = {*shared_by.values()}, None
    if other is graph:
        called = library.reachable(name for node in names for name in functions_of(node)) if len(library) else []
    # A table that nodes outside also use is filled or read there, so the copies share it.
    outside = shared_names_in_use(topology, names) if own and other is graph else set()
    functions = library if called is None else map(library.__getitem__, called)
    wanted = (own | {name for function in functions for name in shared_names_of(function)}) - outside
    # An op without definition can share with a table that is known.
    unknown = of([op for op in by_op if other.op_def(op) is None])
    found = shared_by | {node: node.text_attr(SHARED_NAME) for node in unknown}
    shared = renewed(SHARED_NAME, found, wanted, used_shared)
    # All variables without a shared name are one variable.
    nameless = [node for node in of(("VarHandleOp",)) if node not in shared_by]
    if nameless and "" in _texts(graph, ("VarHandleOp",), SHARED_NAME):
        for node in nameless:
            set_text(node, SHARED_NAME, names[nameless[0]])
    by_name = [n for n in of(_ops_with(other, BY_NODE_NAME, by_op)) if n not in shared_by and shared_name(n)]
    used = shared_names_in_use(topology_of(graph)) if by_name else set()
    unique = UniqueNames(used.__contains__)
    for node in by_name:
        if names[node] in used:
            set_text(node, SHARED_NAME, unique(names[node]))
    for node in of(TEMPORARY) if other is graph else ():
        if old := node.text_attr(VAR_NAME) or (node.name if node.op == "TemporaryVariable" else ""):
            set_text(node, VAR_NAME, respell(old))
    if other.store.producer < SCALAR_MEANS_UNKNOWN_BEFORE <= graph.store.producer:
        for node in of(("Placeholder",)):
            if placeholder_shape(node) is None:  # old producers wrote it as a scalar
                attrs.setdefault(node, {})["shape"] = shape_value(None)
    merge = plan_function_merge(graph.functions, library, called, shared)
    return NodeCopy(graph, names, replaced, attrs, merge, frames, shared, sorted(own & outside))


def _texts(graph: Graph, ops: Iterable[str], key: str) -> set[str]:
    """Returns the values of the attr `key` of the nodes with one of `ops`; '' if it is missing."""
    topology = topology_of(graph)
    return {topology.node(number).text_attr(key) for number in topology.with_ops(ops)}


def _ops_with(graph: Graph, key: str, ops: Iterable[str]) -> set[str]:
    """Returns the ops that have an attr `key`."""
    return {op for op in ops if (found := graph.op_def(op)) is not None and key in found.attrs}


def shared_names_in_use(topology: Topology, without: Container[Node] = ()) -> set[str]:
    """Returns the names by which nodes, except those of `without`, share tables, queues and variables."""
    ops = _ops_with(topology.graph, SHARED_NAME, topology.ops())
    nodes = map(topology.node, topology.with_ops(ops))
    return {shared_name(node) for node in nodes if node not in without} - {""}


def shared_name(node: Node) -> str:
    """Returns the name by which a node shares its state, which can be its own name; '' if it does not share it."""
    return node.text_attr(SHARED_NAME) or (node.name if node.plain_attr(BY_NODE_NAME) else "")
