"""Who sees an edit: loaders of TensorFlow 1 run the nodes of the graph, those of TensorFlow 2 the objects' functions.

Measured with TensorFlow 2.21: ``tf.saved_model.load`` and Keras' TFSMLayer run the functions that the object graph
names, and none of the nodes beside them; the C API, servers and ``tf.compat.v1.saved_model.load`` run the nodes that
signatures name. Names of nodes, and what is inside functions, all of them see.
"""

from __future__ import annotations

from gdsurgeon.container.container import Container
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import EditError
from gdsurgeon.ops.kinds import RESOURCE_VARIABLES, VARIABLES
from gdsurgeon.text import counted, named


def check_visible(container: Container, result: EditResult, *, as_v1: bool) -> None:
    """Raises EditError where tf.saved_model.load would not see what RESULT says of the graph of CONTAINER."""
    if as_v1 or not container.meta.has_objects:
        return
    intent = result.intent
    if intent.added or intent.removed or intent.rewired or intent.changed:
        raise EditError(
            "tf.saved_model.load would not see this edit: it runs the functions that the model's objects name, and not "
            "the nodes of its graph",
            advice="without-objects",
        )


def check_restorable(container: Container, result: EditResult) -> None:
    """Raises EditError where RESULT has added variables, which the checkpoint of CONTAINER has no values for."""
    graph = container.graph
    added = [node for name in result.intent.added if (node := graph.find(name)) is not None]
    new = [node.name for node in added if node.op in VARIABLES or node.op in RESOURCE_VARIABLES]
    if new:
        raise EditError(
            f"the model would have {counted(len(new), 'variable')} ({named(new, 3)}) that its checkpoint has no values "
            "for, and nothing would restore",
            hint="frozen, its variables are constants, which are copied",
        )
