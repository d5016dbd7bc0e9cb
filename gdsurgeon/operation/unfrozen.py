"""A SavedModel whose checkpoint is written with it: for the proof it is restored from where it is staged."""

from __future__ import annotations

import os

from gdsurgeon.container.files import CHECKPOINT
from gdsurgeon.container.output_tar import OutputTar
from gdsurgeon.edits.unfreezing import bundle_of
from gdsurgeon.graph.graph import Graph


def is_unfrozen(graph: Graph) -> bool:
    """Whether GRAPH has variables whose checkpoint is written with it, and is nowhere yet."""
    return graph.serving is not None and graph.serving.saver is not None and not graph.serving.checkpoint


def nowhere(graph: Graph) -> OutputTar:
    """Where GRAPH is staged with its checkpoint, and from where it is not published."""
    place = OutputTar("")
    place.beside = bundle_of(graph)
    return place


def restored_from(graph: Graph, staged: str) -> str:
    """Has GRAPH, whose file is STAGED, be restored from the folder of that; returns it."""
    assert graph.serving is not None
    folder = os.path.dirname(staged)
    graph.serving = graph.serving._replace(checkpoint=os.path.join(folder, CHECKPOINT))
    return folder
