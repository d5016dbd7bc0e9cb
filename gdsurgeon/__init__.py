"""gdsurgeon: edit a TensorFlow GraphDef, prove the edit by running it, then write it.

As a library::

    import gdsurgeon as gds

    graph = gds.load("model.pb")
    gds.rename(graph, [("image_tensor", "image")])
    graph.save("renamed.pb")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gdsurgeon import graph_editor
    from gdsurgeon.analysis.check import check
    from gdsurgeon.analysis.match import NodeMatcher, TreeExpr
    from gdsurgeon.analysis.signature import signature
    from gdsurgeon.analysis.subgraph import Subgraph
    from gdsurgeon.edits.add_postprocessing import add_postprocessing
    from gdsurgeon.edits.add_preprocessing import add_preprocessing
    from gdsurgeon.edits.copy_in import copy_in
    from gdsurgeon.edits.rename import rename
    from gdsurgeon.edits.reroute import reroute
    from gdsurgeon.errors import GdsurgeonError
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.graph.load import from_bytes, load
    from gdsurgeon.graph.node import Node, Output

_HOMES = {
    "Graph": "graph.graph",
    "GdsurgeonError": "errors",
    "Node": "graph.node",
    "NodeMatcher": "analysis.match",
    "Output": "graph.node",
    "Subgraph": "analysis.subgraph",
    "TreeExpr": "analysis.match",
    "add_postprocessing": "edits.add_postprocessing",
    "add_preprocessing": "edits.add_preprocessing",
    "check": "analysis.check",
    "copy_in": "edits.copy_in",
    "from_bytes": "graph.load",
    "load": "graph.load",
    "rename": "edits.rename",
    "reroute": "edits.reroute",
    "signature": "analysis.signature",
}

__all__ = [
    "GdsurgeonError",
    "Graph",
    "Node",
    "NodeMatcher",
    "Output",
    "Subgraph",
    "TreeExpr",
    "add_postprocessing",
    "add_preprocessing",
    "check",
    "copy_in",
    "from_bytes",
    "graph_editor",
    "load",
    "rename",
    "reroute",
    "signature",
]


def __getattr__(name: str) -> Any:
    """Loads a name when it is first used: the command line imports this package for every call."""
    home = _HOMES.get(name)
    if home is None and name != "graph_editor":
        raise AttributeError(f"module 'gdsurgeon' has no attribute {name!r}")
    from importlib import import_module

    if home is None:
        return import_module("gdsurgeon.graph_editor")
    return getattr(import_module(f"gdsurgeon.{home}"), name)
