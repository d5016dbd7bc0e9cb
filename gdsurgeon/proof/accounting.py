"""Every difference that an edit makes is accounted for, before anything is run: it was asked for, or it is a fault."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.comparison.compare import compare_written
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.audit import audit
from gdsurgeon.wire.write import Chunk

MOST_DETAILS = 100


def check_accounted(graph: Graph, result: EditResult, chunks: Sequence[Chunk]) -> None:
    """Compares the file of GRAPH with what is written of it, and holds what the edit was to do against that.

    Args:
        graph: after the edit.
        result: of the edit.
        chunks: what is written, a binary GraphDef.

    Raises:
        ValidationError: something is different that was not intended, or something intended is not there.
    """
    inside = {name: inner.intent.renamed for name, (_, inner) in result.inside.items()}
    comparison = compare_written(graph.pristine(), chunks, result.intent.renamed, inside)
    faults = audit(comparison, result)
    if faults:
        raise ValidationError("the result differs from what the edit says of it:", details=tuple(faults[:MOST_DETAILS]))
