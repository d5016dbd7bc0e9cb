"""The registry: every command, with the function of the library that does the same, and what else is public.

It names homes and imports nothing: the command line reads it at every start. A new edit gets an entry in `COMMANDS`,
and a line below `TYPE_CHECKING` for type checkers, who do not run it.
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
    from gdsurgeon.analysis.traversal.walks import boundary as boundary
    from gdsurgeon.checkpoint.open import open_checkpoint as open_checkpoint
    from gdsurgeon.compare.diff import diff as diff
    from gdsurgeon.container.load import load as load
    from gdsurgeon.edits.add_gradients import add_gradients as add_gradients
    from gdsurgeon.edits.add_postprocessing import add_postprocessing as add_postprocessing
    from gdsurgeon.edits.add_preprocessing import add_preprocessing as add_preprocessing
    from gdsurgeon.edits.change_signatures import change_signatures as change_signatures
    from gdsurgeon.edits.claims import EditResult as EditResult
    from gdsurgeon.edits.clone_scope import clone_scope as clone_scope
    from gdsurgeon.edits.compat import compat as compat
    from gdsurgeon.edits.control_edges import control_edges as control_edges
    from gdsurgeon.edits.extract import extract as extract
    from gdsurgeon.edits.freeze import freeze as freeze
    from gdsurgeon.edits.freeze_input import freeze_input as freeze_input
    from gdsurgeon.edits.fuse_ops import fuse_ops as fuse_ops
    from gdsurgeon.edits.import_graph import import_graph as import_graph
    from gdsurgeon.edits.in_functions import in_functions as in_functions
    from gdsurgeon.edits.inline import inline as inline
    from gdsurgeon.edits.insert import insert as insert
    from gdsurgeon.edits.node_copies import copy_in as copy_in
    from gdsurgeon.edits.node_copies import copy_nodes as copy_nodes
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


class Entry(NamedTuple):
    """An entry of the registry.

    Attributes:
        group: the heading under which the help lists it.
        help: one line that says what it does.
        module: the module that holds the click command, as its attribute ``command``.
        function: where the library has the same, as ``module.name`` below ``gdsurgeon``; '' where it has nothing of
            the kind.
    """

    group: str
    help: str
    module: str
    function: str = ""


COMMANDS = {
    "inspect": Entry("Look", "Show the inputs, outputs, ops and problems of a model.", "cli.inspect"),
    "show": Entry("Look", "Show the details of nodes.", "cli.show"),
    "view": Entry("Look", "Draw the scopes of a graph as a tree or a picture.", "cli.view", "view.picture.picture"),
    "select": Entry("Look", "Print the names of selected nodes.", "cli.select", "select.select_nodes"),
    "diff": Entry("Look", "Show what changed between two models.", "cli.diff", "compare.diff.diff"),
    "set-shape": Entry("Inputs and outputs", "Set the shapes of inputs.", "cli.set_shape", "edits.set_shape.set_shape"),
    "freeze-input": Entry(
        "Inputs and outputs",
        "Replace inputs by constants of the same name.",
        "cli.freeze_input",
        "edits.freeze_input.freeze_input",
    ),
    "add-preprocessing": Entry(
        "Inputs and outputs",
        "Add a graph before the inputs of a model.",
        "cli.add_preprocessing",
        "edits.add_preprocessing.add_preprocessing",
    ),
    "add-postprocessing": Entry(
        "Inputs and outputs",
        "Add a graph after the outputs of a model.",
        "cli.add_postprocessing",
        "edits.add_postprocessing.add_postprocessing",
    ),
    "steps": Entry("Inputs and outputs", "List the steps for preprocessing and postprocessing.", "cli.steps"),
    "rename": Entry(
        "Names", "Rename nodes, scopes, or nodes that match a pattern.", "cli.rename", "edits.rename.rename"
    ),
    "reroute": Entry(
        "Wiring", "Make the consumers of tensor OLD read tensor NEW.", "cli.reroute", "edits.reroute.reroute"
    ),
    "insert": Entry("Wiring", "Insert a graph at a tensor.", "cli.insert", "edits.insert.insert"),
    "control-edges": Entry(
        "Wiring", "Add and remove control edges.", "cli.control_edges", "edits.control_edges.control_edges"
    ),
    "remove": Entry("Nodes", "Remove nodes.", "cli.remove", "edits.remove.remove"),
    "set-attr": Entry("Nodes", "Set attrs of nodes, or change their op.", "cli.set_attr", "edits.set_attr.set_attr"),
    "simplify": Entry(
        "Nodes", "Remove redundant nodes; outputs stay bit-identical.", "cli.simplify", "edits.simplify.simplify"
    ),
    "rewrite": Entry("Nodes", "Replace nodes that match a pattern.", "cli.rewrite", "edits.rewrite.rewrite"),
    "compat": Entry("Nodes", "Convert a model for an older TensorFlow.", "cli.compat", "edits.compat.compat"),
    "repair": Entry("Nodes", "Fix what keeps TensorFlow from loading a graph.", "cli.repair", "edits.repair.repair"),
    "quantize": Entry(
        "Nodes", "Quantize weights to float16, bfloat16 or per-channel int8.", "cli.quantize", "edits.quantize.quantize"
    ),
    "strip-weights": Entry(
        "Nodes",
        "Remove the weights, for example to share the graph.",
        "cli.strip_weights",
        "edits.strip_weights.strip_weights",
    ),
    "set-device": Entry(
        "Nodes", "Change or clear the device of nodes.", "cli.set_device", "edits.set_device.set_device"
    ),
    "fuse-ops": Entry(
        "Functions", "Replace the selected nodes by one call of a function.", "cli.fuse_ops", "edits.fuse_ops.fuse_ops"
    ),
    "inline": Entry(
        "Functions", "Replace calls of functions by the nodes of the functions.", "cli.inline", "edits.inline.inline"
    ),
    "extract": Entry(
        "Copies and parts",
        "Keep the part of a model between inputs and outputs.",
        "cli.extract",
        "edits.extract.extract",
    ),
    "import": Entry(
        "Copies and parts",
        "Add the graph of a second model to a model.",
        "cli.import",
        "edits.import_graph.import_graph",
    ),
    "clone-scope": Entry(
        "Copies and parts",
        "Copy a name scope, with its own weights.",
        "cli.clone_scope",
        "edits.clone_scope.clone_scope",
    ),
    "add-gradients": Entry(
        "Gradients", "Add nodes that compute gradients.", "cli.add_gradients", "edits.add_gradients.add_gradients"
    ),
    "freeze": Entry(
        "SavedModels and checkpoints",
        "Convert a SavedModel or MetaGraph to a frozen GraphDef.",
        "cli.freeze",
        "edits.freeze.freeze",
    ),
    "to-savedmodel": Entry(
        "SavedModels and checkpoints",
        "Convert a frozen GraphDef to a SavedModel.",
        "cli.to_savedmodel",
        "edits.to_savedmodel.to_savedmodel",
    ),
    "convert": Entry(
        "SavedModels and checkpoints",
        "Convert a model file between binary and text.",
        "cli.convert",
        "operation.convert.operate_convert",
    ),
    "signature": Entry(
        "SavedModels and checkpoints",
        "Rename, remove and add signatures.",
        "cli.signature",
        "edits.change_signatures.change_signatures",
    ),
    "slim": Entry(
        "SavedModels and checkpoints",
        "Write a SavedModel with only what its signatures need.",
        "cli.slim",
        "edits.slim.slim",
    ),
    "checkpoint": Entry(
        "SavedModels and checkpoints",
        "List, verify or edit the tensors of a checkpoint.",
        "cli.checkpoint",
        "operation.checkpoint.operate_checkpoint",
    ),
    "apply": Entry(
        "Many edits",
        "Apply a script of edits; prove and write the result once.",
        "cli.apply",
        "operation.library.apply",
    ),
    "validate": Entry(
        "Proof",
        "Check that a model loads and runs, or compare two models.",
        "cli.validate",
        "operation.validate.validate",
    ),
    "check-ops": Entry(
        "Proof",
        "List ops that an engine or an older TensorFlow lacks.",
        "cli.check_ops",
        "operation.check_ops.check_ops",
    ),
    "help": Entry("This program", "Show the help of a command, or the common options.", "cli.help"),
    "completion": Entry("This program", "Print the shell script that completes commands.", "cli.completion"),
}
"""In the order of the help."""

_OTHERS = (
    "analysis.checks.check.check",
    "analysis.queries.constants.value_of",
    "analysis.queries.signature.signature",
    "analysis.shapes.inference.infer_shapes",
    "edits.in_functions.in_functions",
    "edits.rewrite.matches",
    "graph.body.Body",
    "analysis.traversal.walks.boundary",
    "edits.claims.EditResult",
    "edits.node_copies.copy_in",
    "edits.node_copies.copy_nodes",
    "checkpoint.open.open_checkpoint",
    "errors.GdsurgeonError",
    "graph.graph.Graph",
    "graph.load.from_bytes",
    "container.load.load",
    "graph.node.Node",
    "graph.node.Output",
    "graph_editor.match.NodeMatcher",
    "graph_editor.match.TreeExpr",
    "graph_editor.subgraph.Subgraph",
    "operation.checkpoint.CheckpointRequest",
    "operation.convert.ConvertRequest",
    "operation.edit.Outcome",
    "operation.library.Applied",
    "operation.library.operate",
    "operation.library.prove",
    "proof.settings.Event",
    "proof.proof.Proof",
    "proof.settings.Settings",
    "runtime.evaluator.Evaluator",
    "select.Selection",
)

PACKAGES = ("graph_editor", "steps")
"""Rooms that the library has as a whole, by their names."""

HOMES = {
    name: module
    for module, _, name in (
        home.rpartition(".") for home in (*_OTHERS, *(entry.function for entry in COMMANDS.values() if entry.function))
    )
}
"""The module below ``gdsurgeon`` of each public name of the library."""
