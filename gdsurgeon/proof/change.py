"""Two graphs that are compared, and how the one became the other."""

from __future__ import annotations

from typing import NamedTuple

from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import free_scope
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Key, Restoring
from gdsurgeon.ops.kinds import is_variable
from gdsurgeon.wire.write import read_chunks


class Change(NamedTuple):
    """What a proof is about.

    Attributes:
        before: the graph that was not edited.
        after: the other one.
        result: of the edit, or what stands for one where the two come from two files.
        called: what the other graph is called in messages.
    """

    before: Graph
    after: Graph
    result: EditResult
    called: str = "the result"

    @property
    def intent(self) -> Intent:
        """What the edit says; of two files, which name of the one is which of the other."""
        return self.result.intent

    @property
    def name(self) -> str:
        """What the graph before is called in messages."""
        return printable(self.before.source_name)


class Step(NamedTuple):
    """An edit that was carried out, of one or of several.

    Attributes:
        before: the graph, as it was.
        after: as it is now.
        result: what the edit has returned.
        called: what the edit is called in messages; '' where it is the only one.
    """

    before: Graph
    after: Graph
    result: EditResult
    called: str = ""


def opened_again(graph: Graph) -> Graph:
    """GRAPH as it is in its file, to be changed; it shares the file and its index."""
    out = Graph(graph.source, text=graph.text, file_bytes=graph.file_bytes)
    out.store, out.serving = graph.store, graph.serving
    return out


def edited(graph: Graph, result: EditResult) -> Change:
    """The change that an edit has made of GRAPH."""
    return Change(graph.pristine(), graph, result)


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
