"""The forms of pictures, by the names of files."""

from __future__ import annotations

from collections.abc import Callable
from os.path import basename

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.arguments import public
from gdsurgeon.graph.graph import Graph
from gdsurgeon.view.boxes import Box, boxed
from gdsurgeon.view.content import content_of
from gdsurgeon.view.dot import dot
from gdsurgeon.view.mermaid import mermaid
from gdsurgeon.view.outline import Outlines
from gdsurgeon.view.page import page
from gdsurgeon.view.svg import svg
from gdsurgeon.view.visible import Item, fitting, whole, within

DEEPEST = 100
"""Levels that may be open: boxes within boxes are drawn by recursion."""
ENOUGH = 60
"""The maximum number of boxes of a picture, if possible, when no depth is given."""

FLAT: dict[str, Callable[[Box], str]] = {"svg": svg, "dot": dot, "md": mermaid}


def drawn(form: str, outlines: Outlines, head: Item, depth: int | None) -> str:
    """The picture of HEAD in a FORM, opened DEPTH levels down, or as deep as `ENOUGH` boxes allow.

    A page ("html") has all of the model in it, and is opened by who looks at it.
    """
    if form == "html":
        return page(outlines)

    def boxes(items: list[Item]) -> int:
        return sum(1 for item in items for _ in item.all())

    head.items = fitting(outlines, head, boxes, ENOUGH) if depth is None else within(outlines, head, depth)
    return FLAT[form](boxed(head))


@public
def picture(graph: Graph, form: str = "html", *, scope: str | None = None, depth: int | None = None) -> str:
    """A picture of GRAPH: its scopes, blocks and shapes; no weights.

    Args:
        graph: not changed; a corrupt graph is shown as far as it can be read.
        form: ``html`` (a page in one file, opened by who looks at it), ``svg``, ``dot`` or ``md`` (Mermaid).
        scope: show this scope alone; not for a page.
        depth: how many levels are open, 1 to 100; by default as many as can be seen at once.

    Raises:
        EditError: there is no such scope, or there would be too much to show.
        ValueError: there is no such form, or no such depth.
    """
    if depth is not None and not 1 <= depth <= DEEPEST:
        raise ValueError(f"depth must be from 1 to {DEEPEST}, not {depth}")
    if form not in ("html", *FLAT):
        raise ValueError(f"a picture must be html, {', '.join(FLAT)}, not {form}")
    graph = graph.written()
    content = content_of(graph, basename(graph.source_name), check(graph).faults)
    outlines = Outlines(graph, content)
    return drawn(form, outlines, whole(outlines, scope), depth)
