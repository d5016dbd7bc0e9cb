"""Simplifies small graphs, and checks that nothing is left to be done."""

from __future__ import annotations

from functools import partial
from typing import Any

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from support.expecting import account, refused
from support.graphs import graph, written


def simplified(*records: bytes | Graph, again: bool = True, **options: Any) -> tuple[Graph, EditResult]:
    """The graph of RECORDS, or a graph, after simplify with OPTIONS; all changes are accounted for.

    Args:
        again: whether nothing may be left to be done.
    """
    found = _graph(*records)
    result = simplify(found, **options)
    account(found, result)
    if again:
        stays(from_bytes(written(found)), **options)
    return found, result


def stays(*records: bytes | Graph, **options: Any) -> NothingToDo:
    """The error of simplify with OPTIONS, which finds nothing to be done in the graph of RECORDS, or in a graph."""
    edit = partial(simplify, **options)
    error: NothingToDo = refused(_graph(*records), "nothing-to-do", edit, error=NothingToDo)
    return error


def _graph(*records: bytes | Graph) -> Graph:
    first, *_ = records
    return first if isinstance(first, Graph) else graph(*(each for each in records if isinstance(each, bytes)))
