"""Copies nodes inside their graph, or from a different graph: nodes, weights and functions."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field

from gdsurgeon.analysis.traversal.control_flow import Frames, while_frames
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import public
from gdsurgeon.comparison.facts import FunctionChanges
from gdsurgeon.comparison.intent import Intent
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
from gdsurgeon.graph.node import Node, Output, check_reads
from gdsurgeon.graph.placeholders import SCALAR_MEANS_UNKNOWN_BEFORE, placeholder_shape
from gdsurgeon.ops.attr_names import BY_NODE_NAME, COLOCATION_ATTR, FRAME_NAME, SHARED_NAME, VAR_NAME
from gdsurgeon.ops.kinds import ENTER, LOOP_COND, MERGE, NEXT_ITERATION, TABLE_INITIALIZERS, TEMPORARY
from gdsurgeon.select import own_nodes
from gdsurgeon.values import Data

Respell = Callable[[str], str]
"""Returns the new name for a name."""


@dataclass(eq=False, repr=False)
class NodeCopy(Data):
    """A copy of nodes, of this graph or another, that has been checked and is made by `apply`.

    Attributes:
        graph: where the copies are, or will be.
        names: what they are called.
        replaced: tensors that they read in place of others.
        merge: what comes into the library with them.
        frames: the ``frame_name`` that each copied while loop has in the copy.
        shared_names: likewise the ``shared_name`` of tables, queues and variables.
        nameless: shared names for copies of nodes that have none.
        renamed: names that were taken and become others, as (name of the original, name of the copy).
        temporary: the names that temporary variables have in the copy.
        common: shared names that stay, because nodes outside use them too.
        nodes: the copy of each node, as soon as it is made.
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
        """The functions that have another name in the copy."""
        return self.merge.renamed

    def apply(self, after: Node | None = None) -> NodeCopy:
        """Makes the copies, behind the node AFTER or (None) at the end."""
        self.merge.apply(self.graph.functions)
        for node, name in self.names.items():
            self.nodes[node] = self.graph.add_copy(name, node, after=after)
        for node, copy in self.nodes.items():
            self.graph.set_inputs(copy, [self.output(read) for read in node.inputs])
            if node.controls:
                self.graph.set_controls(copy, [self.node(control) for control in node.controls])
            if node.attr_bytes(COLOCATION_ATTR) or node.colocated:
                self.graph.set_colocated(copy, [self.node(other) for other in node.colocated if other.exists])
            if self.functions:
                respell_functions(self.graph, copy, self.functions)
            self._respell(node, copy)
        return self

    def _respell(self, node: Node, copy: Node) -> None:
        spelt = respelt_attrs(node, self.frames, self.shared_names, self.temporary)
        if node in self.nameless:
            spelt[SHARED_NAME] = self.nameless[node]
        _keep_meaning_of_shape(self.graph, node, copy)
        for key, text in spelt.items():
            self.graph.set_attr(copy, key, string_value(text))

    def output(self, original: Output) -> Output:
        """What a copy reads where its original reads ORIGINAL: a replacement, a copy, or the same."""
        found = self.replaced.get(original)
        if found is not None:
            return found
        node = self.nodes.get(original.node)
        return original if node is None else Output(node, original.index)

    def node(self, original: Node) -> Node:
        """The copy of a node, or what stands for one that was not copied: itself, unless it is another graph's."""
        if original in self.nodes or original.graph is self.graph:
            return self.nodes.get(original, original)
        return self.replaced[original.output].node

    def intent(self) -> Intent:
        """What an edit says of a copy of another graph."""
        return Intent(
            added=[node.name for node in self.nodes.values()],
            copied={old.name: new.name for old, new in self.nodes.items()},
            renamed_functions=self.functions,
            functions=FunctionChanges(added=[function.signature.name for function in self.merge.added]),
        )

    def notes(self, other: Graph) -> list[str]:
        """A line for each name of OTHER that was taken, and for each node that callers have to run by themselves."""
        taken = (self.renamed | self.functions).items()
        source = printable(other.source_name)
        out: list[str] = []
        for old, new in taken:
            text = f"{quoted(old)} of {source} is renamed to {quoted(new)}: the name was taken"
            out.append(Remark(text, "name-taken", name=old, found=new))
        for node in self.nodes.values():
            if node.op in TABLE_INITIALIZERS and not self.graph.users(node):
                fills = f"{quoted(node.name)} ({printable(node.op)}) initializes a table, and no node depends on it"
                text = f"{fills}: run it before the graph"
                out.append(Remark(text, "run-before", node=node.name, op=node.op))
        return out


def _keep_meaning_of_shape(graph: Graph, node: Node, copy: Node) -> None:
    """What a producer wrote that spelt an unknown shape like a scalar is spelt as newer graphs do."""
    old, new = node.graph.store.producer, graph.store.producer
    if node.op == "Placeholder" and old < SCALAR_MEANS_UNKNOWN_BEFORE <= new and placeholder_shape(node) is None:
        graph.set_attr(copy, "shape", shape_value(None))


def frame_names(nodes: Iterable[Node]) -> set[str]:
    """The names of the while frames that NODES lead into."""
    return {name for node in nodes if node.op in ENTER and (name := node.text_attr(FRAME_NAME))}


def sharing_ops(graph: Graph, ops: Iterable[str]) -> set[str]:
    """Those of OPS that have a shared name."""
    return {op for op in ops if (found := graph.op_def(op)) is not None and SHARED_NAME in found.attrs}


def shared_names(graph: Graph, nodes: Iterable[Node]) -> set[str]:
    """The shared names that NODES, of GRAPH, have."""
    nodes = list(nodes)
    ops = sharing_ops(graph, {node.op for node in nodes})
    return {name for node in nodes if node.op in ops and (name := node.text_attr(SHARED_NAME))}


def fresh_frame_names(topology: Topology, wanted: Iterable[str], respell: Respell) -> dict[str, str]:
    """For each of the names WANTED what RESPELL makes of it, made unique among the frames of TOPOLOGY."""
    wanted = sorted(wanted)
    return _fresh(wanted, _in_use(topology, ENTER, FRAME_NAME), respell) if wanted else {}


def fresh_shared_names(
    topology: Topology, wanted: Iterable[str], respell: Respell, used: Iterable[str] = ()
) -> dict[str, str]:
    """For each of the names WANTED what RESPELL makes of it, made unique among those of TOPOLOGY and USED."""
    wanted = sorted(wanted)
    return _fresh(wanted, {*shared_names_in_use(topology), *used}, respell) if wanted else {}


def shared_names_in_use(topology: Topology, without: Container[Node] = ()) -> set[str]:
    """The names by which nodes of TOPOLOGY, but for those WITHOUT, share tables, queues and variables."""
    numbers = topology.with_ops(sharing_ops(topology.graph, topology.ops()))
    return {shared_name(node) for number in numbers if (node := topology.node(number)) not in without} - {""}


def shared_name(node: Node) -> str:
    """The name by which a node shares; its own, where it asks for that; '' where it does not share by name."""
    return node.text_attr(SHARED_NAME) or (node.name if node.plain_attr(BY_NODE_NAME) else "")


def clashing_node_names(topology: Topology, names: Mapping[Node, str]) -> dict[Node, str]:
    """Shared names for copies that would share by their own names, and find those in use by others.

    NAMES are the names of the copies.
    """
    sharing = [n for n in names if n.plain_attr(BY_NODE_NAME) and not n.text_attr(SHARED_NAME)]
    if not sharing:
        return {}
    used = shared_names_in_use(topology)
    unique = UniqueNames(used.__contains__)
    return {node: unique(names[node]) for node in sharing if names[node] in used}


def nameless_variables(names: Mapping[Node, str]) -> dict[Node, str]:
    """A shared name for the copies of variables that have none: all of a graph are one, and so are their copies."""
    found = [node for node in names if node.op == "VarHandleOp" and not node.text_attr(SHARED_NAME)]
    return dict.fromkeys(found, names[found[0]]) if found else {}


def has_nameless_variables(topology: Topology) -> bool:
    """Whether there is a variable without a shared name."""
    variables = (topology.node(number) for number in topology.with_ops(("VarHandleOp",)))
    return any(not variable.text_attr(SHARED_NAME) for variable in variables)


def temporary_variables(nodes: Iterable[Node]) -> set[str]:
    """The names by which temporary variables among NODES are known to what ends them."""
    return {_temporary(node) for node in nodes if node.op in TEMPORARY} - {""}


def _temporary(node: Node) -> str:
    return node.text_attr(VAR_NAME) or (node.name if node.op == "TemporaryVariable" else "")


def respelt_attrs(
    node: Node, frames: Mapping[str, str], shared: Mapping[str, str], temporary: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The attrs of NODE that hold one of the names, with their new values."""
    out: dict[str, str] = {}
    for key, names in ((FRAME_NAME, frames), (SHARED_NAME, shared)):
        if names and node.has_attr(key):
            old = node.text_attr(key)
            if old in names:
                out[key] = names[old]
    if temporary and node.op in TEMPORARY and _temporary(node) in temporary:
        out[VAR_NAME] = temporary[_temporary(node)]
    return out


def _in_use(topology: Topology, ops: Iterable[str], key: str) -> set[str]:
    return {topology.node(number).text_attr(key) for number in topology.with_ops(ops)}


def _fresh(wanted: Iterable[str], used: set[str], respell: Respell) -> dict[str, str]:
    unique = UniqueNames(used.__contains__)
    return {old: unique(respell(old)) for old in wanted}


@public
def copy_in(
    graph: Graph,
    other: Graph,
    *,
    replace: Mapping[Node, Output],
    names: Mapping[Node, str] | None = None,
    after: Node | None = None,
) -> NodeCopy:
    """Copies the nodes of OTHER into GRAPH: `plan_copy`, applied at once.

    Raises:
        EditError: see `plan_copy`; GRAPH is as it was.
    """
    return plan_copy(graph, other, replace=replace, names=names).apply(after)


def plan_copy(
    graph: Graph,
    other: Graph,
    *,
    replace: Mapping[Node, Output],
    names: Mapping[Node, str] | None = None,
    reserved: Iterable[str] = (),
) -> NodeCopy:
    """Checks and plans a copy of OTHER's nodes into GRAPH; weights are copied by span when the graph is written.

    Args:
        graph: left as it is.
        other: left as it is; its source must stay open until GRAPH is written.
        replace: nodes of OTHER (single-output ones, placeholders as a rule) that are not copied, and the tensor of
            GRAPH that stands for each.
        names: names that certain copies must get; they are free, or will be when the plan is applied.
        reserved: names that the caller is going to use.

    Raises:
        EditError: a name in OTHER is illegal, or an input names no node.
        InputError: OTHER's function library is corrupt, or an input is no tensor's name.
    """
    forced = dict(names or {})
    originals = [node for node in other.nodes() if node not in replace]
    for node in originals:
        if node not in forced:
            check_name(node.name)
        check_reads(node)
    plan = _names_of_copies(graph, originals, forced, {*reserved, *forced.values()})
    functions = plan_function_merge(graph.functions, other.functions)
    frames, shared = _clashing(graph, other, originals)
    functions.added = respell_shared_names(functions.added, shared)
    nameless = nameless_variables(plan)
    if nameless and not has_nameless_variables(topology_of(graph)):
        nameless = {}
    if any(node.has_attr(BY_NODE_NAME) for node in originals):
        nameless |= clashing_node_names(topology_of(graph), plan)
    renamed = {node.name: name for node, name in plan.items() if name != node.name and node not in forced}
    stands = {node.output: tensor for node, tensor in replace.items()}
    return NodeCopy(graph, plan, stands, functions, frames, shared, nameless, renamed)


def _clashing(graph: Graph, other: Graph, originals: list[Node]) -> tuple[dict[str, str], dict[str, str]]:
    """New names for while frames, and for shared tables, queues and variables, whose names GRAPH uses for others.

    Loops of one name would be one loop, and tables of one name one table.
    """
    frames = frame_names(originals)
    shared = shared_names(other, originals) | shared_names_in_functions(other.functions)
    if not frames and not shared:
        return {}, {}
    topology = topology_of(graph)
    used = shared_names_in_functions(graph.functions) if shared else ()
    return (
        fresh_frame_names(topology, frames, lambda name: name),
        fresh_shared_names(topology, shared, lambda name: name, used),
    )


def _names_of_copies(
    graph: Graph, originals: list[Node], forced: Mapping[Node, str], promised: set[str]
) -> dict[Node, str]:
    """A name for each copy: its own where that is free, else made unique."""
    own = {node.name for node in originals}
    # A new name must avoid the graph's names, and those that other copies keep.
    unique = UniqueNames(lambda name: name in graph or name in promised or name in own)
    out: dict[Node, str] = {}
    for node in originals:
        if node in forced:
            out[node] = forced[node]
        elif node.name in graph or node.name in promised:
            out[node] = unique(node.name)
        else:
            out[node] = node.name
    return out


@public
def copy_nodes(
    graph: Graph,
    nodes: Iterable[Node],
    name: Respell | Mapping[Node, str],
    *,
    replace: Mapping[Output, Output] | None = None,
    respell: Respell | None = None,
) -> NodeCopy:
    """Copies NODES inside GRAPH: `plan_copy_nodes`, applied at once.

    Raises:
        EditError: see `plan_copy_nodes`; GRAPH is as it was.
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
    """Checks and plans a copy of NODES, wired to itself inside and to the originals outside.

    Data and control inputs and colocations among the nodes are those among the copies; what comes from outside comes
    from there again. Copied while loops get frame names of their own, and tables, queues and variables shared names of
    their own; functions are copied where they hold such a name, and shared otherwise. Weights are copied by span when
    the graph is written. The nodes may be in any order.

    Args:
        graph: left as it is.
        nodes: of GRAPH.
        name: what the copy of a node is called, by its name or by the node.
        replace: tensors that the copies read in place of others, whether those are copied or not.
        respell: what becomes of the name of a frame or a shared name; what it gives is made unique.
        topology: of GRAPH, where the caller has it.

    Raises:
        EditError: a name is illegal or taken, an input names no node, or a while loop would be copied in part.
    """
    originals = own_nodes(graph, nodes)
    names = {node: name[node] if isinstance(name, Mapping) else name(node.name) for node in originals}
    _check_names(graph, names)
    replaced = dict(replace or {})
    top = topology or topology_of(graph)
    top.check_reads(map(top.id_of, originals))
    frames = while_frames(top)
    _check_loops(top, frames, originals, replaced)
    spelling = respell or (lambda text: text)
    shared, common = _new_shared_names(top, originals, spelling)
    return NodeCopy(
        graph,
        names,
        replaced,
        plan_function_copies(graph.functions, originals, shared),
        fresh_frame_names(top, frame_names(originals), spelling),
        shared,
        nameless_variables(names) | clashing_node_names(top, names),
        temporary={old: spelling(old) for old in temporary_variables(originals)},
        common=common,
    )


def _new_shared_names(topology: Topology, nodes: list[Node], respell: Respell) -> tuple[dict[str, str], list[str]]:
    """New shared names for the copies of NODES and of the functions that they call, and those that stay common.

    A table that nodes outside use, too, is filled or read there: the copies use the same one.
    """
    graph = topology.graph
    own = shared_names(graph, nodes)
    inside = set(nodes)
    outside = shared_names_in_use(topology, inside) if own else set()
    wanted = (own | shared_names_called(graph.functions, nodes)) - outside
    new = fresh_shared_names(topology, wanted, respell, shared_names_in_functions(graph.functions)) if wanted else {}
    return new, sorted(own & outside)


def _check_names(graph: Graph, names: Mapping[Node, str]) -> None:
    given: set[str] = set()
    for node, name in names.items():
        check_name(name)
        if name in given or name in graph:
            message = f"the copy of {quoted(node.name)} cannot be named {quoted(name)}: the name is taken"
            raise EditError(message, code="name-taken", facts={"node": node.name, "name": name})
        given.add(name)


def _check_loops(topology: Topology, frames: Frames, nodes: list[Node], replaced: Mapping[Output, Output]) -> None:
    """A loop is copied with all that its copy needs, or what is copied of it is no part of its working."""
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
            if node.op in NEXT_ITERATION | {LOOP_COND} or (node.op in MERGE and _closes_loop(topology, number)):
                message = f"{quoted(node.name)} ({node.op}) cannot be copied without the rest of {loop}"
                raise EditError(message, code="crosses-loop", facts={"node": node.name, "loop": name})
            continue
        if node.op in ENTER:
            continue
        for read in (*node.inputs, *(Output(control, -1) for control in node.controls)):
            other = topology.id_of(read.node)
            if frames.of[other] == frame and other not in inside and read not in replaced:
                raise EditError(
                    f"only a part of {loop} would be copied: {quoted(node.name)} without "
                    f"{quoted(read.node.name)}, one of its inputs",
                    code="crosses-loop",
                    facts={"node": node.name, "input": read.node.name, "loop": name},
                )


def _closes_loop(topology: Topology, number: int) -> bool:
    return any(topology.op(p) in NEXT_ITERATION for p in topology.producers(number))
