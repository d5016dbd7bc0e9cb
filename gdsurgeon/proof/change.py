"""The two graphs of a proof, and the nodes that restore their variables in a run."""

from __future__ import annotations

from typing import NamedTuple

from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import free_scope
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Key, Restoring, Serving
from gdsurgeon.ops.kinds import is_variable
from gdsurgeon.wire.write import read_chunks


class Change(NamedTuple):
    """Two graphs and the difference between them.

    Attributes:
        before: the original graph.
        after: the edited graph.
        result: the result of the edit; for two files, a result with the names of both.
        called: the name of the edited graph in messages.
    """

    before: Graph
    after: Graph
    result: EditResult
    called: str = "the result"

    @property
    def intent(self) -> Intent:
        """The changes that the edit declares; for two files, the names of one in the other."""
        return self.result.intent

    @property
    def name(self) -> str:
        """The name of the original graph in messages."""
        return printable(self.before.source_name)


class Step(NamedTuple):
    """One of several edits.

    Attributes:
        before: the graph before the edit.
        after: the graph after the edit.
        result: the result of the edit.
        called: the name of the edit in messages; '' if it is the only one.
    """

    before: Graph
    after: Graph
    result: EditResult
    called: str = ""


def restoring_runs(graph: Graph) -> list[Restoring]:
    """Returns the runs that restore `graph`, with the nodes of `with_restoring`, in order."""
    serving = serving_of(graph) or Serving()
    if not _apart(graph):
        return serving.runs
    from gdsurgeon.edits.saver import FILE_NAME, RESTORE_ALL

    scope = _scope(graph)
    by_objects = Restoring({f"{scope}/{FILE_NAME}": serving.checkpoint}, (f"{scope}/{RESTORE_ALL}",))
    runs = (serving.restoring, by_objects, serving.initialising)
    return [run for run in runs if run is not None]


def with_restoring(graph: Graph, data: bytes | None = None) -> bytes:
    """Returns `graph` with nodes that restore variables that only the model's objects restore.

    `data` is the serialised graph, if it is known.
    """
    keys = _apart(graph)
    if not keys:
        return read_chunks(graph.chunks()) if data is None else data
    from gdsurgeon.edits.saver import add_saver

    out = graph.copy()
    add_saver(out, {out[name]: key for name, key in keys.items()}, _scope(graph), saves=False)
    return read_chunks(out.chunks())


def _apart(graph: Graph) -> dict[str, Key]:
    """Returns the keys of the variables that no node of `graph` restores."""
    serving = serving_of(graph) or Serving()
    nodes = map(graph.find, sorted(serving.apart))
    return {node.name: serving.keys[node.name] for node in nodes if node is not None and is_variable(node.op)}


def _scope(graph: Graph) -> str:
    return free_scope(graph.names(), "restored_by_gdsurgeon")
