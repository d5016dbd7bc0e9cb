"""The specifications of edits: which changes a request requires, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.asked import Asked

SPECIFIED = frozenset(
    (
        "add_gradients",
        "add_postprocessing",
        "add_preprocessing",
        "change_signatures",
        "clone_scope",
        "compat",
        "control_edges",
        "extract",
        "freeze",
        "freeze_input",
        "fuse_ops",
        "import_graph",
        "inline",
        "insert",
        "remove",
        "rename",
        "repair",
        "reroute",
        "rewrite",
        "set_attr",
        "set_device",
        "set_shape",
        "quantize",
        "simplify",
        "slim",
        "strip_weights",
        "to_savedmodel",
    )
)
"""The edits with a specification: a function ``violations`` in the module with the name of the edit."""
STAGES = frozenset(
    ("fold_batch_norms", "decide_calls", "fold_constants", "same_shape", "simplify_bodies", "spelt_constants")
)
"""The stages of edits with a specification."""
STAGED = frozenset(("simplify",))
"""Edits whose stages are checked against the request, in the module with their name and `_stages`."""


def violations(
    comparison: Comparison, asked: Asked, decided: Mapping[str, object] = MappingProxyType({})
) -> Iterator[str]:
    """Yields a line for each change that was not requested, and for each requested change that did not happen.

    Args:
        comparison: of the graph before the edit with the written graph.
        asked: the request; nothing is checked if it has no specification.
        decided: facts that the specification does not derive itself; see `EditResult`.
    """
    if asked.edit in SPECIFIED or asked.edit in STAGES:
        yield from import_module(f"gdsurgeon.specification.{asked.edit}").violations(
            comparison, **asked.arguments, **decided
        )


def stage_violations(asked: Asked, stages: Sequence[tuple[Asked, int]], after: Graph) -> Iterator[str]:
    """Yields a line for each change by the stages of an edit that was not requested.

    Args:
        asked: the request; nothing is checked if its stages have no specification.
        stages: the request of each stage, and by how many bytes the graph has grown.
        after: the graph after the last stage.
    """
    if asked.edit in STAGED:
        yield from import_module(f"gdsurgeon.specification.{asked.edit}_stages").violations(asked, stages, after)
