"""The specifications of edits: which changes a request requires, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gdsurgeon.compare.comparison import Comparison
    from gdsurgeon.graph.graph import Graph

_SHARED = {
    "constants": "freeze_input quantize strip_weights",
    "compat": "lower_control_flow",
    "fields": "control_edges rename repair reroute set_attr set_device set_shape",
    "joining": "add_postprocessing add_preprocessing import_graph insert",
    "kept_nodes": "extract freeze slim",
    "signatures": "change_signatures to_savedmodel",
    "simplify": "decide_calls integer_sums simplify_bodies simplify_stages spelt_constants",
}
"""The modules that specify several edits. All other edits are specified in modules with their names."""

_MODULES = {edit: module for module, edits in _SHARED.items() for edit in edits.split()}


class Asked(NamedTuple):
    """The request of an edit, as it was before the edit began.

    Attributes:
        edit: the name of its function.
        arguments: the arguments except the graph, by name. Nodes and tensors are represented by their names.
    """

    edit: str
    arguments: dict[str, object]


@cache
def specification_of(name: str) -> Callable[..., Iterator[Any]] | None:
    """Returns the specification `name`: a function with the name of an edit or a stage; for edits with changes outside
    of the graph, also ``around_EDIT``.

    Returns None for edits of other packages.
    """
    edit = name.removeprefix("around_")
    module = f"gdsurgeon.specification.{_MODULES.get(edit, edit)}"
    return getattr(import_module(module), name, None) if find_spec(module) is not None else None


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
        yield from specification(comparison, **asked.arguments, **decided)


def stage_violations(asked: Asked, stages: Sequence[Asked], after: Graph) -> Iterator[str]:
    """Yields a line for each change by the stages of an edit that was not requested.

    The specification of the stages has the name of the edit and ``_stages``.

    Args:
        asked: the request; nothing is checked if its stages have no specification.
        stages: the request of each stage.
        after: the graph after the last stage.
    """
    specification = specification_of(f"{asked.edit}_stages")
    if specification is not None:
        yield from specification(asked, stages, after)
