"""Graphs in which the proof itself puts one tensor in the place of another, where no value of it can be fetched."""

from __future__ import annotations

from collections.abc import Mapping

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.reroute import check_acyclic
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.proof.change import opened_again
from gdsurgeon.wire.write import read_chunks


def rewired(graph: Graph, places: Mapping[str, str], constants: Mapping[str, bytes]) -> Graph | None:
    """GRAPH, but for what reads some tensors, and for the values of constants.

    Args:
        graph: left as it is, edited or not.
        places: for tensors of GRAPH the tensor that is read in their place.
        constants: for Const nodes of GRAPH the serialised AttrValue that they have instead.

    Returns:
        The graph; None where it has not got a tensor or a constant, or a cycle would come about.
    """
    if graph.is_edited:
        out = from_bytes(read_chunks(graph.chunks()), graph.source_name)
        out.serving = serving_of(graph)
    else:
        out = opened_again(graph)
    slots: dict[Node, dict[int, Output]] = {}
    try:
        for old, new in places.items():
            source = out.tensor(new)
            for use in out.uses(out.tensor(old)):
                slots.setdefault(use.node, {})[use.slot] = source
        check_acyclic(topology_of(out), slots)
    except EditError:
        return None
    for name, value in constants.items():
        node = out.find(name)
        if node is None or node.op != "Const":
            return None
        out.set_attr(node, "value", value)
    out.set_slots(slots)
    return out
