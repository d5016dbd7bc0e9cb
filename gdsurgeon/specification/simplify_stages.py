"""simplify as a whole: its stages are those of the request, for the requested outputs and growth.

Each stage is checked against the request that it declares itself; here these are checked against the user's request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.specification.specify import Asked
from gdsurgeon.specification.spelt_constants import not_spelt_out

_PASSES = frozenset(
    """
    inline unread control-edges conditions checks stop-gradients identities neutral pairs equal-nodes same-shape dropout
    shapes constants bodies functions
    """.split()
)
_OF_PASSES = {
    "decide_calls": {"conditions"}, "fold_constants": {"constants", "shapes"}, "inline": {"inline"},
    "same_shape": {"dropout", "same-shape"}, "simplify": set(_PASSES),
}  # fmt: skip
_OF_ARGUMENTS = {"fold_batch_norms": "fold_bn", "set_shape": "shapes", "spelt_constants": "engine"}


def simplify_stages(asked: Asked, stages: Sequence[tuple[Asked, int]], after: Graph) -> Iterator[str]:
    """Yields a line for each stage that was not requested.

    Args:
        asked: the user's request.
        stages: the request of each stage, and by how many bytes the graph has grown.
        after: the graph after the last stage.
    """
    given = asked.arguments
    chosen = _chosen(given)
    wanted = _tensors(given.get("outputs", ()))
    grown = 0
    for stage, more in stages:
        if not _is_asked(stage, chosen, given):
            yield f"{stage.edit} was done, but was not requested"
        for name in sorted({*_texts(stage.arguments.get("passes", ()))} - chosen):
            yield f"the pass {quoted(name)} was done, but was not requested"
        if _tensors(stage.arguments.get("outputs", given.get("outputs", ()))) != wanted:
            yield f"{stage.edit} was done for different outputs than requested"
        grown += max(more, 0) if stage.edit == "fold_constants" else 0
    most = given.get("max_growth", 0)
    if isinstance(most, int) and grown > most:
        yield f"constants made the file {grown:,} bytes larger, but only {most:,} are allowed"
    if given.get("engine"):
        yield from not_spelt_out(after)


def _is_asked(stage: Asked, chosen: set[str], given: dict[str, object]) -> bool:
    """Returns whether a stage belongs to a chosen pass or to a given argument."""
    name = stage.edit
    if name == "simplify_bodies":
        name = str(stage.arguments.get("stage")) if "bodies" in chosen else ""
    passes = _OF_PASSES.get(name)
    return bool(chosen & passes if passes is not None else given.get(_OF_ARGUMENTS.get(name, "")))


def _chosen(given: dict[str, object]) -> set[str]:
    """Returns the requested passes; an engine excludes some."""
    without = {*_texts(given.get("skip", ()))}
    if given.get("engine"):
        without |= {"equal-nodes"} if given.get("shapes") else {"equal-nodes", "shapes"}
    return ({*_texts(given.get("passes", ()))} or set(_PASSES)) - without


def _texts(value: object) -> Iterator[str]:
    yield from (text for text in (value if isinstance(value, (list, tuple)) else ()) if isinstance(text, str))


def _tensors(value: object) -> set[tuple[str, int]]:
    found = map(parse_tensor, _texts(value))
    return {(ref.node, ref.port) for ref in found}
