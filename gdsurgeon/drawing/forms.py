"""The forms of pictures, by the names of files."""

from __future__ import annotations

from collections.abc import Callable

from gdsurgeon.drawing.boxes import Box, boxed
from gdsurgeon.drawing.dot import dot
from gdsurgeon.drawing.mermaid import mermaid
from gdsurgeon.drawing.page import page
from gdsurgeon.drawing.svg import svg
from gdsurgeon.outline.outline import Outlines
from gdsurgeon.outline.visible import Item, fitting, within

ENOUGH = 60
"""Boxes that a picture has at most, if it can, where nobody says how deep it is to be."""

FLAT: dict[str, Callable[[Box], str]] = {"svg": svg, "dot": dot, "md": mermaid}


def picture(form: str, outlines: Outlines, head: Item, depth: int | None) -> str:
    """The picture of HEAD in a FORM, opened DEPTH levels down, or as deep as `ENOUGH` boxes allow.

    A page ("html") has all of the model in it, and is opened by who looks at it.
    """
    if form == "html":
        return page(outlines)

    def boxes(items: list[Item]) -> int:
        return sum(1 for item in items for _ in item.all())

    head.items = fitting(outlines, head, boxes, ENOUGH) if depth is None else within(outlines, head, depth)
    return FLAT[form](boxed(head))
