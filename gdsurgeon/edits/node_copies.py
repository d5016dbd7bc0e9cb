"""Copies nodes inside their graph, or from a different graph: nodes, weights and functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gdsurgeon.analysis.traversal.control_flow import Frames, frames_of
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import public
from gdsurgeon.compare.intent import FunctionChanges, Intent
from gdsurgeon.edits.functions import (
    FunctionMerge,
    plan_function_copies,
    plan_function_merge,
    respell_functions,
    respell_shared_names,
    shared_names_called,
    shared_names_in_functions,
)
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.attrs import shape_value, string_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, check_name
from gdsurgeon.graph.node import SCALAR_MEANS_UNKNOWN_BEFORE, Node, Output, check_reads, placeholder_shape
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

Respell = Callable[[str], str]
"""Returns the new name for a name."""


@dataclass(eq=False, repr=False)
class NodeCopy(Data):
    """A checked plan to copy nodes of the same graph or of a different graph. `apply` makes the copies.

    Attributes:
        graph: the graph of the copies.
        names: the names of the copies.
        replaced: tensors that the copies read instead of others.
        merge: the functions to add.
        frames: the new ``frame_name`` of each copied while loop.
        shared_names: the new ``shared_name`` of tables, queues and variables.
        nameless: shared names for copies of nodes without one.
        renamed: (name of the original, name of the copy), for names that were taken.
        temporary: the new names of temporary variables.
        common: shared names that stay, because nodes that are not copied also use them.
        nodes: the copy of each node, after `apply`.
    """

    graph: Graph
    names: dict[Node, str]
    replaced: dict[Output, Output]
    merge: FunctionMerge
    frames: dict[str, str]
    shared_names: dict[str, str]
    nameless: dict[Node, str]
    renamed: dict[str, str] = field(default_factory=dict)
    temporary: Mapping[str, str] = field(default_factory=dict)
    common: list[str] = field(default_factory=list)
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
            if node.attr_bytes(COLOCATION_ATTR) or node.colocated:
                graph.set_colocated(copy, [self.node(other) for other in node.colocated if other.exists])
            self.respell(node, copy, self.functions)
        return self

    def respell(self, node: Node, copy: Node, functions: Mapping[str, str]) -> None:
        """Updates the attrs of the copy of `node` that contain names. `functions` are new names of functions."""
        graph = self.graph
        if functions:
            respell_functions(graph, copy, functions)
        old, new = node.graph.store.producer, graph.store.producer
        if node.op == "Placeholder" and old < SCALAR_MEANS_UNKNOWN_BEFORE <= new and placeholder_shape(node) is None:
            graph.set_attr(copy, "shape", shape_value(None))  # old producers wrote it as a scalar
        spelt = {
            key: names[old_name]
            for key, names in ((FRAME_NAME, self.frames), (SHARED_NAME, self.shared_names))
            if names and node.has_attr(key) and (old_name := node.text_attr(key)) in names
        }
        if self.temporary and (name := _temporary_name(node)) in self.temporary:
            spelt[VAR_NAME] = self.temporary[name]
        if node in self.nameless:
            spelt[SHARED_NAME] = self.nameless[node]
        for key, text in spelt.items():
            graph.set_attr(copy, key, string_value(text))

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


# -- from a different graph --------------------------------------------------------------------------------


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

    Raises:
        EditError: see `plan_copy`. The graph is unchanged.
    """
    return plan_copy(graph, other, replace=replace, names=names).apply(after)


def plan_copy(
    graph: Graph,
    other: Graph,
    *,
    replace: Mapping[Node, Output],
    names: Mapping[Node, str] | None = None,
    reserved: Iterable[str] = (),
    nodes: Iterable[Node] | None = None,
) -> NodeCopy:
    """Checks and plans a copy of the nodes of `other`. Weights are copied as spans when the graph is written.

    Args:
        graph: not changed.
        other: not changed. Its source must stay open until `graph` is written.
        replace: nodes of `other` with one output, usually placeholders, that are not copied, and the tensors of `graph`
            that replace them.
        names: required names of some copies. They are free, or will be when the plan is applied.
        reserved: names that the copies must not use.
        nodes: the nodes to copy, by default all.

    Raises:
        EditError: a name in `other` is illegal, or an input does not exist.
        InputError: the function library of `other` is corrupt, or an input is not the name of a tensor.
    """
    forced = dict(names or {})
    originals = [node for node in nodes or other.nodes() if node not in replace]
    for node in originals:
        if node not in forced:
            check_name(node.name)
        check_reads(node)
    promised, own = {*reserved, *forced.values()}, {node.name for node in originals}
    unique = UniqueNames(lambda name: name in graph or name in promised or name in own)
    plan: dict[Node, str] = {}
    for node in originals:
        name = forced.get(node, node.name)
        plan[node] = unique(name) if node not in forced and (name in graph or name in promised) else name
    functions = plan_function_merge(graph.functions, other.functions)
    frames, shared = frame_names(originals), shared_names(other, originals) | shared_names_in_functions(other.functions)
    new_frames, new_shared = dict[str, str](), dict[str, str]()
    if frames:  # equal names would join loops
        new_frames = fresh_names(frames, frame_names(_with_ops(topology_of(graph), ENTER)), str)
    if shared:  # or tables
        used = shared_names_in_use(topology_of(graph)) | shared_names_in_functions(graph.functions)
        new_shared = fresh_names(shared, used, str)
    functions.added = respell_shared_names(functions.added, new_shared)
    nameless = nameless_variables(plan)
    variables = _with_ops(topology_of(graph), ("VarHandleOp",)) if nameless else iter(())
    if all(variable.text_attr(SHARED_NAME) for variable in variables):
        nameless = {}  # the graph has no such variable, so the copies can stay without a shared name
    if any(node.has_attr(BY_NODE_NAME) for node in originals):
        nameless |= clashing_node_names(topology_of(graph), plan)
    renamed = {node.name: name for node, name in plan.items() if name != node.name and node not in forced}
    replaced = {node.output: tensor for node, tensor in replace.items()}
    return NodeCopy(graph, plan, replaced, functions, new_frames, new_shared, nameless, renamed)


# -- inside a graph ----------------------------------------------------------------------------------------


@public
def copy_nodes(
    graph: Graph,
    nodes: Iterable[Node],
    name: Respell | Mapping[Node, str],
    *,
    replace: Mapping[Output, Output] | None = None,
    respell: Respell | None = None,
) -> NodeCopy:
    """Copies nodes inside their graph; see `plan_copy_nodes`.

    Raises:
        EditError: see `plan_copy_nodes`. The graph is unchanged.
    """
    return plan_copy_nodes(graph, nodes, name, replace=replace, respell=respell).apply()


def plan_copy_nodes(
    graph: Graph,
    nodes: Iterable[Node],
    name: Respell | Mapping[Node, str],
    *,
    replace: Mapping[Output, Output] | None = None,
    respell: Respell | None = None,
    topology: Topology | None = None,
) -> NodeCopy:
    """Checks and plans a copy of nodes inside their graph.

    Inputs, control inputs and colocations among the nodes become those among the copies. All others stay. The copies of
    while loops have new frame names; the copies of tables, queues and variables have new shared names. A function is
    copied if it contains such a name. Weights are copied as spans when the graph is written.

    Args:
        graph: not changed.
        nodes: nodes of `graph`, in any order.
        name: returns or contains the name of each copy.
        replace: tensors that the copies read instead of others.
        respell: returns a new frame name or shared name, which is made unique.
        topology: of `graph`, if the caller has it.

    Raises:
        EditError: a name is illegal or taken, an input does not exist, or only a part of a while loop would be copied.
    """
    originals = own_nodes(graph, nodes)
    names = {node: name[node] if isinstance(name, Mapping) else name(node.name) for node in originals}
    given: set[str] = set()
    for node, new in names.items():
        check_name(new)
        if new in given or new in graph:
            message = f"the copy of {quoted(node.name)} cannot be named {quoted(new)}: the name is taken"
            raise EditError(message, code="name-taken", node=node.name, name=new)
        given.add(new)
    replaced = dict(replace or {})
    top = topology or topology_of(graph)
    top.check_reads(map(top.id_of, originals))
    _check_loops(top, frames_of(graph), originals, replaced)
    spelling = respell or (lambda text: text)
    own = shared_names(graph, originals)
    # A table that nodes outside also use is filled or read there, so the copies share it.
    outside = shared_names_in_use(top, set(originals)) if own else set()
    wanted = (own | shared_names_called(graph.functions, originals)) - outside
    used = shared_names_in_use(top) | shared_names_in_functions(graph.functions) if wanted else ()
    shared = fresh_names(wanted, used, spelling)
    frames = frame_names(originals)
    return NodeCopy(
        graph,
        names,
        replaced,
        plan_function_copies(graph.functions, originals, shared),
        fresh_names(frames, frame_names(_with_ops(top, ENTER)) if frames else (), spelling),
        shared,
        nameless_variables(names) | clashing_node_names(top, names),
        temporary={old: spelling(old) for node in originals if (old := _temporary_name(node))},
        common=sorted(own & outside),
    )


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


def frame_names(nodes: Iterable[Node]) -> set[str]:
    """Returns the names of the while frames that the nodes enter."""
    return {name for node in nodes if node.op in ENTER and (name := node.text_attr(FRAME_NAME))}


def _with_ops(topology: Topology, ops: Collection[str]) -> Iterator[Node]:
    return map(topology.node, topology.with_ops(ops))


def _sharing_ops(graph: Graph, ops: Iterable[str]) -> set[str]:
    """Returns the ops that have a shared name."""
    return {op for op in ops if (found := graph.op_def(op)) is not None and SHARED_NAME in found.attrs}


def shared_names(graph: Graph, nodes: Iterable[Node]) -> set[str]:
    """Returns the shared names of nodes of `graph`."""
    nodes = list(nodes)
    ops = _sharing_ops(graph, {node.op for node in nodes})
    return {name for node in nodes if node.op in ops and (name := node.text_attr(SHARED_NAME))}


def fresh_names(wanted: Iterable[str], used: Iterable[str], respell: Respell) -> dict[str, str]:
    """Returns a new name for each name: the result of `respell`, made unique among the names `used`."""
    unique = UniqueNames(set(used).__contains__)
    return {old: unique(respell(old)) for old in sorted(wanted)}


def shared_names_in_use(topology: Topology, without: Container[Node] = ()) -> set[str]:
    """Returns the names by which nodes, except those of `without`, share tables, queues and variables."""
    nodes = _with_ops(topology, _sharing_ops(topology.graph, topology.ops()))
    return {shared_name(node) for node in nodes if node not in without} - {""}


def shared_name(node: Node) -> str:
    """Returns the name by which a node shares its state, which can be its own name; '' if it does not share it."""
    return node.text_attr(SHARED_NAME) or (node.name if node.plain_attr(BY_NODE_NAME) else "")


def clashing_node_names(topology: Topology, names: Mapping[Node, str]) -> dict[Node, str]:
    """Returns shared names for copies that would share their state by their own names, if those names are in use.

    `names` are the names of the copies.
    """
    sharing = [n for n in names if n.plain_attr(BY_NODE_NAME) and not n.text_attr(SHARED_NAME)]
    used = shared_names_in_use(topology) if sharing else set()
    unique = UniqueNames(used.__contains__)
    return {node: unique(names[node]) for node in sharing if names[node] in used}


def nameless_variables(names: Mapping[Node, str]) -> dict[Node, str]:
    """Returns a shared name for the copies of variables without one: all of them in a graph are one variable."""
    found = [node for node in names if node.op == "VarHandleOp" and not node.text_attr(SHARED_NAME)]
    return dict.fromkeys(found, names[found[0]]) if found else {}


def _temporary_name(node: Node) -> str:
    """Returns the name of a temporary variable for the ops that use and destroy it; '' for other nodes."""
    if node.op not in TEMPORARY:
        return ""
    return node.text_attr(VAR_NAME) or (node.name if node.op == "TemporaryVariable" else "")
