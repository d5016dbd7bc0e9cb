"""Names beside those of nodes that must not be shared by copies: of while frames, and of tables, queues, variables."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.attr_names import BY_NODE_NAME, FRAME_NAME, SHARED_NAME, VAR_NAME
from gdsurgeon.ops.kinds import ENTER, TEMPORARY

Respell = Callable[[str], str]


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
