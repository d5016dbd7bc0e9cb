"""Edits of which all that they have changed is accounted for."""

from __future__ import annotations

from collections.abc import Callable

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.accounting import check_accounted


def accounted(found: Graph, edit: Callable[[Graph], EditResult]) -> EditResult | None:
    """What EDIT makes of a graph, all of it accounted for; None where there is nothing to be done."""
    try:
        result = edit(found)
    except NothingToDo:
        return None
    check_accounted(found, result, found.chunks())
    return result
