"""What a model says of nodes that an edit has made to restore and save its variables: the saver, and the variables."""

from __future__ import annotations

from gdsurgeon.container.held import held_nodes
from gdsurgeon.container.mentions import as_variable
from gdsurgeon.container.meta_graph import MetaGraph
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.served import tensor_now
from gdsurgeon.graph.serving import Saver
from gdsurgeon.operation.making import TRAINED, VARIABLES, put_saver, put_variable, spelt
from gdsurgeon.ops.kinds import RESOURCE_VARIABLES
from gdsurgeon.wire.protos import MetaGraphDef


def saver_around(meta: MetaGraph) -> MetaGraphDef | None:
    """What takes the place of the saver of META, and lists the variables where nothing does; None: it is as before."""
    saver = meta.graph.serving.saver if meta.graph.serving is not None else None
    if saver is None:
        return None
    new = MetaGraphDef()
    put_saver(new, saver)
    if VARIABLES not in meta.around.collection_def:
        put_variables(new, saver, meta)
    return new


def put_variables(new: MetaGraphDef, saver: Saver, meta: MetaGraph) -> None:
    """Lists in NEW the variables that SAVER restores, with what META knows of them, or of what they are copies of.

    So TensorFlow 1 trains them, and tf.saved_model.load makes them variables again.
    """
    listed = {
        collection: [found for entry in held.bytes_list.value if (found := as_variable(entry)) is not None]
        for collection, held in meta.around.collection_def.items()
    }
    known = {tensor_now(meta.graph, found.variable_name): found for held in listed.values() for found in held}
    trained = {tensor_now(meta.graph, found.variable_name) for found in listed.get(TRAINED, ())}
    objects = meta.around.object_graph_def.nodes
    trained |= {item.variable.name for item in objects if item.variable.trainable}  # by the names that they share
    held = held_nodes(meta) if meta.has_objects else {}
    trained |= {tensor_now(meta.graph, spelt(name)) for name, at in held.items() if objects[at].variable.trainable}
    originals = _originals(meta.graph)
    for saved in saver.variables:
        original = originals.get(saved.variable, saved.variable)
        name, node = spelt(original), meta.graph[original]
        is_trained = name in trained or (node.text_attr("shared_name") or original) in trained
        is_resource = node.op in RESOURCE_VARIABLES
        put_variable(new, saved, is_resource=is_resource, is_trained=is_trained, known=known.get(name))


def _originals(graph: Graph) -> dict[str, str]:
    """What the copies in GRAPH are copies of; of a copy of a copy, what that is a copy of."""
    out: dict[str, str] = {}
    for copied in graph.serving.copies if graph.serving is not None else ():
        out |= {copy.name: out.get(node.name, node.name) for node, copy in copied.nodes.items()}
    return out
