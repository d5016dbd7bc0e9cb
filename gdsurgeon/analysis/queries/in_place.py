"""What is written into in place: by ops that say nothing of it, in a graph and in the functions that it calls."""

from __future__ import annotations

from gdsurgeon.analysis.queries.function_usage import functions_of, may_call
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.buffers import may_have
from gdsurgeon.ops.kinds import IN_PLACE


def written_into(graph: Graph, topology: Topology) -> list[int]:
    """Returns the nodes whose output is written in place: first inputs of such ops, and arguments that lead to them.

    Of a function's body also its results, where anybody does so in the graph or in its library: who calls it may.

    Args:
        graph: a graph, or the body of a function.
        topology: of GRAPH.
    """
    library = graph if graph.owner is None else graph.owner
    writing = library.derived(_writing_functions)
    found = [producer for n in topology.with_ops(IN_PLACE) for producer in topology.data_producers(n)[:1]]
    for number in topology.with_ops(op for op in topology.ops() if may_call(graph, op)) if writing else ():
        if not writing.isdisjoint(functions_of(topology.node(number))):
            found += topology.data_producers(number)
    if graph.ends and (writing or topology_of(library).ops() & IN_PLACE):
        found += map(topology.id_of, graph.ends)
    return found


def in_written_memory(graph: Graph, topology: Topology) -> set[int]:
    """Returns the nodes whose outputs may share memory that is written in place, because it is forwarded."""
    pending = written_into(graph, topology)
    seen = set(pending)
    while pending:
        number = pending.pop()
        new = set(topology.data_producers(number)) - seen if may_have(topology.op(number), 0, ()) else set()
        seen |= new
        pending += new
    return seen


def _writing_functions(graph: Graph) -> set[str]:
    """The functions that write into what they are given, or may hand on to others that do."""
    writing = [f.signature.name for f in graph.functions if any(node.op in IN_PLACE for node in f.node_def)]
    return graph.functions.reaching(writing) if writing else set()
