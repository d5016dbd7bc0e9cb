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
    from gdsurgeon.analysis.queries.constant_values import value_of as value_of
    from gdsurgeon.analysis.queries.signature import signature as signature
    from gdsurgeon.analysis.shapes.inference import infer_shapes as infer_shapes
    from gdsurgeon.analysis.traversal.boundary import boundary as boundary
    from gdsurgeon.checkpoint.open import open_checkpoint as open_checkpoint
    from gdsurgeon.container.load import load as load
    from gdsurgeon.difference.compare import diff as diff
    from gdsurgeon.drawing.forms import picture as picture
    from gdsurgeon.edits.add_gradients import add_gradients as add_gradients
    from gdsurgeon.edits.add_postprocessing import add_postprocessing as add_postprocessing
    from gdsurgeon.edits.add_preprocessing import add_preprocessing as add_preprocessing
    from gdsurgeon.edits.change_signatures import change_signatures as change_signatures
    from gdsurgeon.edits.claims import EditResult as EditResult
    from gdsurgeon.edits.clone_scope import clone_scope as clone_scope
    from gdsurgeon.edits.compat import compat as compat
    from gdsurgeon.edits.control_edges import control_edges as control_edges
    from gdsurgeon.edits.copying.copy_in import copy_in as copy_in
    from gdsurgeon.edits.copying.copy_nodes import copy_nodes as copy_nodes
    from gdsurgeon.edits.extract import extract as extract
    from gdsurgeon.edits.freeze import freeze as freeze
    from gdsurgeon.edits.freeze_input import freeze_input as freeze_input
    from gdsurgeon.edits.fuse_ops import fuse_ops as fuse_ops
    from gdsurgeon.edits.import_graph import import_graph as import_graph
    from gdsurgeon.edits.in_functions import in_functions as in_functions
    from gdsurgeon.edits.inline import inline as inline
    from gdsurgeon.edits.insert import insert as insert
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
    from gdsurgeon.graph_editor.matcher import NodeMatcher as NodeMatcher
    from gdsurgeon.graph_editor.matcher import TreeExpr as TreeExpr
    from gdsurgeon.graph_editor.view import Subgraph as Subgraph
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
    from gdsurgeon.proof.progress import Event as Event
    from gdsurgeon.proof.proof import Proof as Proof
    from gdsurgeon.proof.settings import Settings as Settings
    from gdsurgeon.runtime.evaluator import Evaluator as Evaluator
    from gdsurgeon.select import Selection as Selection
    from gdsurgeon.select import select_nodes as select_nodes


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
    "inspect": Entry("Look", "Show what a graph takes and gives.", "cli.inspect"),
    "show": Entry("Look", "Show all that is known of nodes.", "cli.show"),
    "view": Entry("Look", "Show the scopes of a graph: a tree, or a picture.", "cli.view", "drawing.forms.picture"),
    "select": Entry("Look", "Print the nodes that a selection picks.", "cli.select", "select.select_nodes"),
    "diff": Entry("Look", "Show what changed between two models.", "cli.diff", "difference.compare.diff"),
    "set-shape": Entry(
        "Inputs and outputs", "Set the shapes that inputs take.", "cli.set_shape", "edits.set_shape.set_shape"
    ),
    "freeze-input": Entry(
        "Inputs and outputs", "Make inputs constants.", "cli.freeze_input", "edits.freeze_input.freeze_input"
    ),
    "add-preprocessing": Entry(
        "Inputs and outputs",
        "Put a graph in front of a model's inputs.",
        "cli.add_preprocessing",
        "edits.add_preprocessing.add_preprocessing",
    ),
    "add-postprocessing": Entry(
        "Inputs and outputs",
        "Put a graph behind a model's outputs.",
        "cli.add_postprocessing",
        "edits.add_postprocessing.add_postprocessing",
    ),
    "steps": Entry("Inputs and outputs", "Show the steps that preprocessing is built of.", "cli.steps"),
    "rename": Entry("Names", "Rename nodes, scopes, or many nodes by a pattern.", "cli.rename", "edits.rename.rename"),
    "reroute": Entry(
        "Wiring", "Have the consumers of one tensor read another.", "cli.reroute", "edits.reroute.reroute"
    ),
    "insert": Entry("Wiring", "Splice a graph into a tensor.", "cli.insert", "edits.insert.insert"),
    "control-edges": Entry(
        "Wiring", "Add and remove control edges.", "cli.control_edges", "edits.control_edges.control_edges"
    ),
    "remove": Entry("Nodes", "Remove the selected nodes.", "cli.remove", "edits.remove.remove"),
    "set-attr": Entry("Nodes", "Set the attrs or the op of nodes.", "cli.set_attr", "edits.set_attr.set_attr"),
    "simplify": Entry("Nodes", "Make a graph smaller that gives the same.", "cli.simplify", "edits.simplify.simplify"),
    "rewrite": Entry(
        "Nodes", "Put other nodes in the place of those that match a pattern.", "cli.rewrite", "edits.rewrite.rewrite"
    ),
    "compat": Entry("Nodes", "Make a file that an older TensorFlow takes.", "cli.compat", "edits.compat.compat"),
    "repair": Entry("Nodes", "Put right what keeps a graph from loading.", "cli.repair", "edits.repair.repair"),
    "quantize": Entry("Nodes", "Store weights in fewer bytes.", "cli.quantize", "edits.quantize.quantize"),
    "strip-weights": Entry(
        "Nodes", "Take the weights out, to share the graph.", "cli.strip_weights", "edits.strip_weights.strip_weights"
    ),
    "set-device": Entry("Nodes", "Say where nodes ask to run.", "cli.set_device", "edits.set_device.set_device"),
    "fuse-ops": Entry(
        "Functions", "Make the selected nodes one call of a function.", "cli.fuse_ops", "edits.fuse_ops.fuse_ops"
    ),
    "inline": Entry(
        "Functions", "Put the bodies of functions in the place of their calls.", "cli.inline", "edits.inline.inline"
    ),
    "extract": Entry(
        "Copies and parts",
        "Take the part of a graph between inputs and outputs.",
        "cli.extract",
        "edits.extract.extract",
    ),
    "import": Entry(
        "Copies and parts", "Join another graph to a model.", "cli.import", "edits.import_graph.import_graph"
    ),
    "clone-scope": Entry(
        "Copies and parts",
        "Copy a name scope, with its own weights, loops and variables.",
        "cli.clone_scope",
        "edits.clone_scope.clone_scope",
    ),
    "add-gradients": Entry(
        "Gradients", "Add nodes that compute gradients.", "cli.add_gradients", "edits.add_gradients.add_gradients"
    ),
    "freeze": Entry(
        "SavedModels and checkpoints",
        "Make a SavedModel or a MetaGraph a GraphDef that needs no variables.",
        "cli.freeze",
        "edits.freeze.freeze",
    ),
    "to-savedmodel": Entry(
        "SavedModels and checkpoints",
        "Make a GraphDef a SavedModel, with signatures.",
        "cli.to_savedmodel",
        "edits.to_savedmodel.to_savedmodel",
    ),
    "convert": Entry(
        "SavedModels and checkpoints",
        "Change a file between binary and text.",
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
        "Take out of a model all that its signatures do not need.",
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
        "Many edits", "Apply the edits of a script, proven together.", "cli.apply", "operation.library.apply"
    ),
    "validate": Entry(
        "Proof", "Prove that a model runs, or gives what another gives.", "cli.validate", "operation.validate.validate"
    ),
    "check-ops": Entry(
        "Proof",
        "Tell which ops another engine lacks, and run a model there.",
        "cli.check_ops",
        "operation.check_ops.check_ops",
    ),
    "help": Entry("This program", "Show the help of a command.", "cli.help"),
    "completion": Entry("This program", "Print a script that has a shell complete commands.", "cli.completion"),
}
"""In the order of the help."""

_OTHERS = (
    "analysis.checks.check.check",
    "analysis.queries.constant_values.value_of",
    "analysis.queries.signature.signature",
    "analysis.shapes.inference.infer_shapes",
    "edits.in_functions.in_functions",
    "edits.rewrite.matches",
    "graph.body.Body",
    "analysis.traversal.boundary.boundary",
    "edits.claims.EditResult",
    "edits.copying.copy_in.copy_in",
    "edits.copying.copy_nodes.copy_nodes",
    "checkpoint.open.open_checkpoint",
    "errors.GdsurgeonError",
    "graph.graph.Graph",
    "graph.load.from_bytes",
    "container.load.load",
    "graph.node.Node",
    "graph.node.Output",
    "graph_editor.matcher.NodeMatcher",
    "graph_editor.matcher.TreeExpr",
    "graph_editor.view.Subgraph",
    "operation.checkpoint.CheckpointRequest",
    "operation.convert.ConvertRequest",
    "operation.edit.Outcome",
    "operation.library.Applied",
    "operation.library.operate",
    "operation.library.prove",
    "proof.progress.Event",
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
