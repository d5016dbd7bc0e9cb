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
    from gdsurgeon.analysis.checks.check import check
    from gdsurgeon.analysis.queries.signature import signature
    from gdsurgeon.analysis.shapes.inference import infer_shapes
    from gdsurgeon.analysis.traversal.boundary import boundary
    from gdsurgeon.edits.add_gradients import add_gradients
    from gdsurgeon.edits.add_postprocessing import add_postprocessing
    from gdsurgeon.edits.add_preprocessing import add_preprocessing
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.edits.clone_scope import clone_scope
    from gdsurgeon.edits.control import control
    from gdsurgeon.edits.copying.copy_in import copy_in
    from gdsurgeon.edits.copying.copy_nodes import copy_nodes
    from gdsurgeon.edits.extract import extract
    from gdsurgeon.edits.freeze_input import freeze_input
    from gdsurgeon.edits.fuse_ops import fuse_ops
    from gdsurgeon.edits.import_graph import import_graph
    from gdsurgeon.edits.inline import inline
    from gdsurgeon.edits.insert import insert
    from gdsurgeon.edits.remove import remove
    from gdsurgeon.edits.rename import rename
    from gdsurgeon.edits.reroute import reroute
    from gdsurgeon.edits.set_attr import set_attr
    from gdsurgeon.edits.set_device import set_device
    from gdsurgeon.edits.set_shape import set_shape
    from gdsurgeon.errors import GdsurgeonError
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.graph.load import from_bytes, load
    from gdsurgeon.graph.node import Node, Output
    from gdsurgeon.graph_editor.matcher import NodeMatcher, TreeExpr
    from gdsurgeon.graph_editor.view import Subgraph
    from gdsurgeon.operate.validate import validate
    from gdsurgeon.select import Selection, select_nodes

_HOMES = {
    "EditResult": "edits.claims",
    "GdsurgeonError": "errors",
    "Graph": "graph.graph",
    "Node": "graph.node",
    "NodeMatcher": "graph_editor.matcher",
    "Output": "graph.node",
    "Selection": "select",
    "Subgraph": "graph_editor.view",
    "TreeExpr": "graph_editor.matcher",
    "add_gradients": "edits.add_gradients",
    "add_postprocessing": "edits.add_postprocessing",
    "add_preprocessing": "edits.add_preprocessing",
    "boundary": "analysis.traversal.boundary",
    "check": "analysis.checks.check",
    "clone_scope": "edits.clone_scope",
    "control": "edits.control",
    "copy_in": "edits.copying.copy_in",
    "copy_nodes": "edits.copying.copy_nodes",
    "extract": "edits.extract",
    "freeze_input": "edits.freeze_input",
    "from_bytes": "graph.load",
    "fuse_ops": "edits.fuse_ops",
    "import_graph": "edits.import_graph",
    "infer_shapes": "analysis.shapes.inference",
    "inline": "edits.inline",
    "insert": "edits.insert",
    "load": "graph.load",
    "remove": "edits.remove",
    "rename": "edits.rename",
    "reroute": "edits.reroute",
    "select_nodes": "select",
    "set_attr": "edits.set_attr",
    "set_device": "edits.set_device",
    "set_shape": "edits.set_shape",
    "signature": "analysis.queries.signature",
    "validate": "operate.validate",
}

__all__ = [
    "EditResult",
    "GdsurgeonError",
    "Graph",
    "Node",
    "NodeMatcher",
    "Output",
    "Selection",
    "Subgraph",
    "TreeExpr",
    "add_gradients",
    "add_postprocessing",
    "add_preprocessing",
    "boundary",
    "check",
    "clone_scope",
    "control",
    "copy_in",
    "copy_nodes",
    "extract",
    "freeze_input",
    "from_bytes",
    "fuse_ops",
    "graph_editor",
    "import_graph",
    "infer_shapes",
    "inline",
    "insert",
    "load",
    "remove",
    "rename",
    "reroute",
    "select_nodes",
    "set_attr",
    "set_device",
    "set_shape",
    "signature",
    "validate",
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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
