"""The specifications of edits: what must be different after what was asked, and nothing else."""

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
"""The edits that have a specification, in the module of their name: a function ``violations``."""
STAGES = frozenset(
    ("fold_batch_norms", "decide_calls", "fold_constants", "same_shape", "simplify_bodies", "spelt_constants")
)
"""Likewise the stages of edits that are done in several."""
STAGED = frozenset(("simplify",))
"""Edits of which the stages are held against the request, too, in the module of their name with `_stages` behind it."""


def violations(
    comparison: Comparison, asked: Asked, decided: Mapping[str, object] = MappingProxyType({})
) -> Iterator[str]:
    """What is different and was not asked for, or was asked for and is not so, a line each.

    Args:
        comparison: of the graph before the edit with what is written of it.
        asked: what was asked of the edit; nothing is said where that has no specification.
        decided: what the edit says of it that a specification does not work out; see `EditResult`.
    """
    if asked.edit in SPECIFIED or asked.edit in STAGES:
        yield from import_module(f"gdsurgeon.specification.{asked.edit}").violations(
            comparison, **asked.arguments, **decided
        )


def stage_violations(asked: Asked, stages: Sequence[tuple[Asked, int]], after: Graph) -> Iterator[str]:
    """What the stages of an edit did that was not asked for, a line each.

    Args:
        asked: of the edit; nothing is said where its stages have no specification.
        stages: what each of them says that was asked of it, with the bytes by which the graph has grown.
        after: the graph after the last stage.
    """
    if asked.edit in STAGED:
        yield from import_module(f"gdsurgeon.specification.{asked.edit}_stages").violations(asked, stages, after)
