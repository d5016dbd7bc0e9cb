"""Every difference that an edit makes is accounted for, without running anything: it was asked for, or it is a fault.

What is different is found by a comparison of the graph with what is written of it. What was to be different is said
twice: by the edit itself, and by a specification that follows from the request and shares no code with the edit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gdsurgeon.comparison.audit import audit
from gdsurgeon.comparison.compare import Comparison, compare_written
from gdsurgeon.edits.claims import EditResult, Stage
from gdsurgeon.errors import ValidationError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.asked import Asked
from gdsurgeon.specification.specify import stage_violations, violations
from gdsurgeon.wire.write import Chunk, resolved

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
    stages = result.stages or (Stage(graph.pristine(), result),)
    before = graph.pristine()
    done: list[tuple[Asked, int]] = []
    for at, stage in enumerate(stages):
        following = stages[at + 1].before if at + 1 < len(stages) else None
        asked = stage.result.asked or result.asked
        written = chunks if following is None else list(resolved(following.chunks()))
        after = _check(before, replace(stage.result, asked=asked), written)
        done += [(asked, after.source.size - before.source.size)] if asked is not None else []
        if following is not None:
            # What was read of it stands for it: it is the same bytes, and known by now.
            after.serving = following.serving
            before = after
    if result.asked is not None and result.stages:
        _refuse_unasked(stage_violations(result.asked, done))


def _check(before: Graph, result: EditResult, chunks: Sequence[Chunk]) -> Graph:
    """Compares BEFORE, as it is in its file, with what an edit of it is written as; returns what is read of that."""
    inside = {name: inner.intent.renamed for name, (_, inner) in result.inside.items()}
    comparison = compare_written(before, chunks, result.intent.renamed, inside)
    faults = list(unaccounted(comparison, result))
    if faults:
        raise ValidationError(
            "the result differs from what the edit says of it:",
            code="undeclared-change",
            details=tuple(faults[:MOST_DETAILS]),
        )
    _refuse_unasked(unasked(comparison, result))
    return comparison.after


def _refuse_unasked(found: Iterator[str]) -> None:
    faults = list(found)
    if faults:
        raise ValidationError(
            "the result is not what was asked for:", code="unrequested-change", details=tuple(faults[:MOST_DETAILS])
        )


def unaccounted(comparison: Comparison, result: EditResult) -> Iterator[str]:
    """What is different and the edit does not say so, or what it says and is not so, a line each."""
    yield from audit(comparison, result.intent, "the edit does not say so")
    for name, (_, inner) in result.inside.items():
        body = comparison.inside.get(name)
        found = ["nothing is different"] if body is None else unaccounted(body, inner)
        yield from (f"in the function {quoted(name)} {fault}" for fault in found)


def unasked(comparison: Comparison, result: EditResult) -> Iterator[str]:
    """What is different and was not asked for, or was asked for and is not so, a line each."""
    if result.asked is not None:
        yield from violations(comparison, result.asked, result.decided)
    for name, (_, inner) in result.inside.items():
        body = comparison.inside.get(name)
        if body is not None:
            yield from (f"in the function {quoted(name)} {fault}" for fault in unasked(body, inner))
