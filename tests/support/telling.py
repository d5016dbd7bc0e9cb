"""Edits made by hand that say all that they do."""

from __future__ import annotations

from collections.abc import Callable

from gdsurgeon.compare.comparison import compare_written
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph


def telling(edit: Callable[[Graph], EditResult]) -> Callable[[Graph], EditResult]:
    """EDIT, with a result that says whatever it has done to the graph besides, as if that had been asked for."""

    def told(graph: Graph) -> EditResult:
        result = edit(graph)
        intent = result.intent
        facts = compare_written(graph.pristine(), graph.chunks(), intent.renamed).facts
        intent.added, intent.removed, intent.rewired = facts.added, facts.removed, facts.rewired
        intent.changed, intent.functions = list(facts.altered), facts.functions
        result.asked = None
        return result

    return told
