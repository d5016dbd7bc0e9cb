"""What has to hold of a model around an edited graph: that loaders see the edit, that variables get their values.

Loaders of TensorFlow 1 run the nodes of the graph, those of TensorFlow 2 the objects' functions. Measured with
TensorFlow 2.21: ``tf.saved_model.load`` and Keras' TFSMLayer run the functions that the object graph names, and none
of the nodes beside them; the C API, servers and ``tf.compat.v1.saved_model.load`` run the nodes that signatures name.
Names of nodes, and what is inside functions, all of them see.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.container.container import Container
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import EditError, ValidationError, quoted
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import INIT
from gdsurgeon.ops.kinds import is_variable
from gdsurgeon.text import counted, named
from gdsurgeon.wire.write import Chunk, ChunkSource


def check_visible(container: Container, result: EditResult, *, as_v1: bool, is_renamed: bool) -> None:
    """Raises EditError where tf.saved_model.load would not see what RESULT says of the graph of CONTAINER.

    IS_RENAMED: whether its signatures are others.
    """
    if as_v1 or not container.meta.has_objects:
        return
    intent = result.intent
    if is_renamed or intent.added or intent.removed or intent.rewired or intent.changed:
        raise EditError(
            "tf.saved_model.load would not see this edit: it runs the functions that the model's objects name, and not "
            "the nodes that its signatures name",
            advice="without-objects",
        )


def check_restorable(container: Container, result: EditResult) -> None:
    """Raises EditError where RESULT has added variables, which the checkpoint of CONTAINER has no values for."""
    graph = container.graph
    added = [node for name in result.intent.added if (node := graph.find(name)) is not None]
    new = [node.name for node in added if is_variable(node.op)]
    if new:
        raise EditError(
            f"the model would have {counted(len(new), 'variable')} ({named(new, 3)}) that its checkpoint has no values "
            "for, and nothing would restore",
            hint="frozen, its variables are constants, which are copied",
        )


def check_written(container: Container, chunks: Sequence[Chunk]) -> None:
    """Reads what is written of CONTAINER, and holds its signatures against those that it is to have.

    Raises:
        ValidationError: they are others, or name what is not in the graph.
    """
    written = container.read_again(ChunkSource(chunks, container.graph.source_name))
    serving = serving_of(container.graph)
    wanted = serving.signatures if serving is not None else {}
    faults = []
    for key, served in written.signatures.items():
        meant = wanted.get(key)
        if meant is None or (dict(meant.inputs), dict(meant.outputs)) != (dict(served.inputs), dict(served.outputs)):
            faults.append(f"the signature {quoted(key)} is written as another")
        names = {parse_tensor(tensor).node for tensor in (*served.inputs.values(), *served.outputs.values())}
        faults += [
            f"the signature {quoted(key)} names {quoted(n)}, which is not there"
            for n in names
            if n not in written.graph
        ]
    missing = [key for key in wanted if key not in written.signatures and key != INIT]
    faults += [f"the signature {quoted(key)} is not written" for key in missing]
    if faults:
        raise ValidationError("the model around the graph would be broken:", details=tuple(faults))
