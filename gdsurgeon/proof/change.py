"""Two graphs that are compared, and how the one became the other."""

from __future__ import annotations

from typing import NamedTuple

from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import printable
from gdsurgeon.graph.graph import Graph


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
