"""Restores variables that no node of a model restores: the nodes for that are put beside the graph that is run."""

from __future__ import annotations

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import free_scope
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Key, Restoring
from gdsurgeon.ops.kinds import is_variable
from gdsurgeon.wire.write import read_chunks


def restoring_runs(graph: Graph) -> list[Restoring]:
    """What is run of GRAPH, as `with_restoring` has it, before anything else of it, in order."""
    serving = serving_of(graph)
    if serving is None:
        return []
    if not _apart(graph):
        return serving.runs
    from gdsurgeon.edits.saver import FILE_NAME, RESTORE

    scope = _scope(graph)
    by_objects = Restoring({f"{scope}/{FILE_NAME}": serving.checkpoint}, (f"{scope}/{RESTORE}",))
    runs = (serving.restoring, by_objects, serving.initialising)
    return [run for run in runs if run is not None]


def with_restoring(graph: Graph, data: bytes) -> bytes:
    """DATA, GRAPH as it is to be run, with nodes that restore the variables which only its model's objects know."""
    keys = _apart(graph)
    if not keys:
        return data
    from gdsurgeon.edits.saver import add_restoring

    out = from_bytes(data, graph.source_name)
    add_restoring(out, {out[name]: key for name, key in keys.items() if name in out}, _scope(graph))
    return read_chunks(out.chunks())


def _apart(graph: Graph) -> dict[str, Key]:
    """The keys of the variables of GRAPH that nothing in it restores."""
    serving = serving_of(graph)
    apart = serving.apart if serving is not None else ()
    nodes = (graph.find(name) for name in sorted(apart))
    return {n.name: serving.keys[n.name] for n in nodes if serving is not None and n is not None and is_variable(n.op)}


def _scope(graph: Graph) -> str:
    return free_scope(graph.names(), "restored_by_gdsurgeon")
