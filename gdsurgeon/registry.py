"""The registry: every command with its help, and the module of every public name of the library.

It imports nothing, because the command line reads it at every start. A new edit gets a line in `_GROUPS`, and a line
below `TYPE_CHECKING` for type checkers, which do not run it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gdsurgeon import graph_editor as graph_editor
    from gdsurgeon import steps as steps
    from gdsurgeon.analysis.checks.check import check as check
    from gdsurgeon.analysis.queries.constants import value_of as value_of
    from gdsurgeon.analysis.queries.signature import signature as signature
    from gdsurgeon.analysis.shapes.inference import infer_shapes as infer_shapes
    from gdsurgeon.analysis.traversal.topology import boundary as boundary
    from gdsurgeon.compare.diff import diff as diff
    from gdsurgeon.container.checkpoint.open import open_checkpoint as open_checkpoint
    from gdsurgeon.container.load import load as load
    from gdsurgeon.edits.add_gradients import add_gradients as add_gradients
    from gdsurgeon.edits.change_signatures import change_signatures as change_signatures
    from gdsurgeon.edits.claims import EditResult as EditResult
    from gdsurgeon.edits.clone_scope import clone_scope as clone_scope
    from gdsurgeon.edits.compat import compat as compat
    from gdsurgeon.edits.control_edges import control_edges as control_edges
    from gdsurgeon.edits.extract import extract as extract
    from gdsurgeon.edits.freeze import freeze as freeze
    from gdsurgeon.edits.freeze_input import freeze_input as freeze_input
    from gdsurgeon.edits.functions import in_functions as in_functions
    from gdsurgeon.edits.fuse_ops import fuse_ops as fuse_ops
    from gdsurgeon.edits.import_graph import import_graph as import_graph
    from gdsurgeon.edits.inline import inline as inline
    from gdsurgeon.edits.node_copies import copy_in as copy_in
    from gdsurgeon.edits.node_copies import copy_nodes as copy_nodes
    from gdsurgeon.edits.parts import add_postprocessing as add_postprocessing
    from gdsurgeon.edits.parts import add_preprocessing as add_preprocessing
    from gdsurgeon.edits.parts import insert as insert
    from gdsurgeon.edits.quantize import quantize as quantize
    from gdsurgeon.edits.remove import remove as remove
    from gdsurgeon.edits.rename import rename as rename
    from gdsurgeon.edits.repair import repair as repair
    from gdsurgeon.edits.reroute import reroute as reroute
    from gdsurgeon.edits.rewrite import matches as matches
    from gdsurgeon.edits.rewrite import rewrite as rewrite
    from gdsurgeon.edits.set_attr import set_attr as set_attr
    from gdsurgeon.edits.set_device import set_device as set_device
    from gdsurgeon.edits.set_shape import set_shape as set_shape
    from gdsurgeon.edits.simplify import simplify as simplify
    from gdsurgeon.edits.slim import slim as slim
    from gdsurgeon.edits.strip_weights import strip_weights as strip_weights
    from gdsurgeon.edits.table_to_gather import table_to_gather as table_to_gather
    from gdsurgeon.edits.to_savedmodel import to_savedmodel as to_savedmodel
    from gdsurgeon.errors import GdsurgeonError as GdsurgeonError
    from gdsurgeon.graph.body import Body as Body
    from gdsurgeon.graph.graph import Graph as Graph
    from gdsurgeon.graph.load import from_bytes as from_bytes
    from gdsurgeon.graph.node import Node as Node
    from gdsurgeon.graph.node import Output as Output
    from gdsurgeon.graph_editor.match import NodeMatcher as NodeMatcher
    from gdsurgeon.graph_editor.match import TreeExpr as TreeExpr
    from gdsurgeon.graph_editor.subgraph import Subgraph as Subgraph
    from gdsurgeon.operation.check_ops import check_ops as check_ops
    from gdsurgeon.operation.checkpoint import CheckpointRequest as CheckpointRequest
    from gdsurgeon.operation.checkpoint import operate_checkpoint as operate_checkpoint
    from gdsurgeon.operation.convert import ConvertRequest as ConvertRequest
    from gdsurgeon.operation.convert import operate_convert as operate_convert
    from gdsurgeon.operation.edit import Outcome as Outcome
    from gdsurgeon.operation.library import Applied as Applied
    from gdsurgeon.operation.library import apply as apply
    from gdsurgeon.operation.library import operate as operate
    from gdsurgeon.operation.library import prove as prove
    from gdsurgeon.operation.validate import validate as validate
    from gdsurgeon.proof.proof import Proof as Proof
    from gdsurgeon.proof.settings import Event as Event
    from gdsurgeon.proof.settings import Settings as Settings
    from gdsurgeon.runtime.evaluator import Evaluator as Evaluator
    from gdsurgeon.select import Selection as Selection
    from gdsurgeon.select import select_nodes as select_nodes
    from gdsurgeon.view.picture import picture as picture


_GROUPS = {
    "Look": {
        "inspect": "Show the inputs, outputs, ops and problems of a model.",
        "show": "Show the details of nodes.",
        "view": "Draw the scopes of a graph as a tree or a picture.",
        "select": "Print the names of selected nodes.",
        "diff": "Show what changed between two models.",
    },
    "Inputs and outputs": {
        "set-shape": "Set the shapes of inputs.",
        "freeze-input": "Replace inputs by constants of the same name.",
        "add-preprocessing": "Add a graph before the inputs of a model.",
        "add-postprocessing": "Add a graph after the outputs of a model.",
        "steps": "List the steps for preprocessing and postprocessing.",
    },
    "Names": {
        "rename": "Rename nodes, scopes, or nodes that match a pattern.",
    },
    "Wiring": {
        "reroute": "Make the consumers of tensor OLD read tensor NEW.",
        "insert": "Insert a graph at a tensor.",
        "control-edges": "Add and remove control edges.",
    },
    "Nodes": {
        "remove": "Remove nodes.",
        "set-attr": "Set attrs of nodes, or change their op.",
        "simplify": "Remove redundant nodes; outputs stay bit-identical.",
        "rewrite": "Replace nodes that match a pattern.",
        "compat": "Convert a model for an older TensorFlow.",
        "repair": "Fix what keeps TensorFlow from loading a graph.",
        "quantize": "Quantize weights to float16, bfloat16 or per-channel int8.",
        "strip-weights": "Remove the weights, for example to share the graph.",
        "set-device": "Change or clear the device of nodes.",
        "table-to-gather": "Replace lookups in constant tables by GatherV2.",
    },
    "Functions": {
        "fuse-ops": "Replace the selected nodes by one call of a function.",
        "inline": "Replace calls of functions by the nodes of the functions.",
    },
    "Copies and parts": {
        "extract": "Keep the part of a model between inputs and outputs.",
        "import": "Add the graph of a second model to a model.",
        "clone-scope": "Copy a name scope, with its own weights.",
    },
    "Gradients": {
        "add-gradients": "Add nodes that compute gradients.",
    },
    "SavedModels and checkpoints": {
        "freeze": "Convert a SavedModel or MetaGraph to a frozen GraphDef.",
        "to-savedmodel": "Convert a frozen GraphDef to a SavedModel.",
        "convert": "Convert a model file between binary and text.",
        "signature": "Rename, remove and add signatures.",
        "slim": "Write a SavedModel with only what its signatures need.",
        "checkpoint": "List, verify or edit the tensors of a checkpoint.",
    },
    "Many edits": {
        "apply": "Apply a script of edits; prove and write the result once.",
    },
    "Proof": {
        "validate": "Check that a model loads and runs, or compare two models.",
        "check-ops": "List ops that an engine or an older TensorFlow lacks.",
    },
    "This program": {
        "help": "Show the help of a command, or the common options.",
        "completion": "Print the shell script that completes commands.",
    },
}
"""The help of every command, under the headings of the help and in its order. The module of a command is
``gdsurgeon.cli.NAME``, with ``_`` instead of ``-``."""

_OTHERS = {
    "analysis.checks.check": "check",
    "analysis.queries.constants": "value_of",
    "analysis.queries.signature": "signature",
    "analysis.shapes.inference": "infer_shapes",
    "analysis.traversal.topology": "boundary",
    "container.checkpoint.open": "open_checkpoint",
    "container.load": "load",
    "compare.diff": "diff",
    "view.picture": "picture",
    "edits.claims": "EditResult",
    "edits.functions": "in_functions",
    "edits.node_copies": "copy_in copy_nodes",
    "edits.parts": "add_preprocessing add_postprocessing insert",
    "edits.rewrite": "matches",
    "errors": "GdsurgeonError",
    "graph.body": "Body",
    "graph.graph": "Graph",
    "graph.load": "from_bytes",
    "graph.node": "Node Output",
    "graph_editor.match": "NodeMatcher TreeExpr",
    "graph_editor.subgraph": "Subgraph",
    "operation.check_ops": "check_ops",
    "operation.checkpoint": "CheckpointRequest operate_checkpoint",
    "operation.convert": "ConvertRequest operate_convert",
    "operation.edit": "Outcome",
    "operation.library": "Applied apply operate prove",
    "operation.validate": "validate",
    "proof.proof": "Proof",
    "proof.settings": "Event Settings",
    "runtime.evaluator": "Evaluator",
    "select": "Selection select_nodes",
}

PACKAGES = ("graph_editor", "steps")
"""Packages that the library has as a whole, by their names."""

_FUNCTIONS = {
    "checkpoint": "operate_checkpoint",
    "completion": "",
    "convert": "operate_convert",
    "help": "",
    "import": "import_graph",
    "inspect": "",
    "select": "select_nodes",
    "show": "",
    "signature": "change_signatures",
    "steps": "",
    "view": "picture",
}
"""The functions of the library with a different name than their command; '' for commands without a function."""


class Entry(NamedTuple):
    """A command.

    Attributes:
        group: the heading under which the help lists the command.
        help: one line that says what the command does.
        function: the public function of the library that does the same; '' if there is no such function.
    """

    group: str
    help: str
    function: str


COMMANDS = {
    name: Entry(group, text, _FUNCTIONS.get(name, name.replace("-", "_")))
    for group, texts in _GROUPS.items()
    for name, text in texts.items()
}
"""In the order of the help."""

HOMES = {name: module for module, names in _OTHERS.items() for name in names.split()}
"""The module below ``gdsurgeon`` of each public name of the library. Other edits are in the module with their name."""
HOMES |= {e.function: f"edits.{e.function}" for e in COMMANDS.values() if e.function and e.function not in HOMES}
