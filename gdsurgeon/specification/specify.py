"""The specifications of edits: which changes a request requires, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType, ModuleType

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.asked import Asked


@cache
def specification_of(edit: str) -> ModuleType | None:
    """Returns the module of `specification` with the name of an edit or a stage, if it has a function ``violations``.

    Returns None for edits of other packages.
    """
    name = f"gdsurgeon.specification.{edit}"
    module = import_module(name) if find_spec(name) is not None else None
    return module if hasattr(module, "violations") else None


def violations(
    comparison: Comparison, asked: Asked, decided: Mapping[str, object] = MappingProxyType({})
) -> Iterator[str]:
    """Yields a line for each change that was not requested, and for each requested change that did not happen.

    Args:
        comparison: of the graph before the edit with the written graph.
        asked: the request; nothing is checked if it has no specification.
        decided: facts that the specification does not derive itself; see `EditResult`.
    """
    specification = specification_of(asked.edit)
    if specification is not None:
        yield from specification.violations(comparison, **asked.arguments, **decided)


def stage_violations(asked: Asked, stages: Sequence[tuple[Asked, int]], after: Graph) -> Iterator[str]:
    """Yields a line for each change by the stages of an edit that was not requested.

    The specification of the stages is the module with the name of the edit and ``_stages``.

    Args:
        asked: the request; nothing is checked if its stages have no specification.
        stages: the request of each stage, and by how many bytes the graph has grown.
        after: the graph after the last stage.
    """
    specification = specification_of(f"{asked.edit}_stages")
    if specification is not None:
        yield from specification.violations(asked, stages, after)
