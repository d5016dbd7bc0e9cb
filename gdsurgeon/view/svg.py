"""A picture as SVG: boxes in layers, open scopes around what is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from gdsurgeon.errors import printable
from gdsurgeon.values import Data
from gdsurgeon.view.boxes import LONGEST, Box
from gdsurgeon.view.layout import Layout, Point, layered

CHARACTER, LINE, MARGIN = 7.2, 14.0, 9.0
"""Pixels: a character is at most so wide, a line so high, and so much is around text and in open scopes."""
COLOURS = ("#5b7fe0", "#d98b2b", "#3f9e57", "#a35bd1", "#d05454", "#2fa3a3", "#b59b1c", "#8d7b66", "#d1669a", "#6f8f3d")
"""Of the borders of scopes of the same structure."""
_STYLE = """
text{font:11px "DejaVu Sans",system-ui,sans-serif;fill:#1d2433}
.t{font-weight:600}.k{fill:#5c6675}.l{font-size:9px;fill:#7a8494}
.n{fill:#fff;stroke:#9aa7bd}.s{fill:#edf1fa;stroke:#9fb0d0}.o{fill:#f7f9fd;stroke:#b9c4d9}.f{stroke:#d12f2f;stroke-width:2}
path{fill:none;stroke:#8b95a7}.c{stroke-dasharray:3 3;stroke:#c09a52}
@media(prefers-color-scheme:dark){svg{background:#171b22}text{fill:#e4e8ef}.k{fill:#9aa5b5}.l{fill:#8791a1}
.n{fill:#232a35;stroke:#57647a}.s{fill:#263045;stroke:#56688c}.o{fill:#1c222c;stroke:#414d62}}
"""


def svg(whole: Box) -> str:
    """The picture of WHOLE, as a document that needs nothing else."""
    kinds = Counter(box.item.kind for box in whole.all() if box.item.kind >= 0)
    repeated = [kind for kind, count in kinds.most_common() if count > 1]
    colours = {kind: COLOURS[number % len(COLOURS)] for number, kind in enumerate(repeated)}
    placed = _placed(whole)
    parts = [f'<text class="t" x="{MARGIN}" y="{LINE}">{escape(whole.title)}</text>']
    _draw(placed, (MARGIN, LINE + MARGIN), colours, parts)
    width, height = (length + 2 * MARGIN for length in (placed.layout.width, placed.layout.height + LINE))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}"><title>{escape(whole.title)}</title><style>{_STYLE}</style>'
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#8b95a7;stroke:none"/></marker></defs>' + "".join(parts) + "</svg>\n"
    )


@dataclass(eq=False, repr=False)
class _Placed(Data):
    """A box with the layout of what is in it, and its size."""

    box: Box
    inner: list[_Placed]
    layout: Layout
    size: Point


def _placed(box: Box) -> _Placed:
    inner = [_placed(child) for child in box.boxes]
    layout = layered([child.size for child in inner], [(edge.source, edge.target) for edge in box.edges])
    texts = (box.title, *box.lines)
    width = min(max(map(len, texts)), LONGEST) * CHARACTER + 2 * MARGIN
    height = len(texts) * LINE + MARGIN
    if inner:
        return _Placed(box, inner, layout, (max(width, layout.width + 2 * MARGIN), layout.height + height + MARGIN))
    return _Placed(box, inner, layout, (width, height))


def _draw(placed: _Placed, at: Point, colours: Mapping[int, str], parts: list[str]) -> None:
    """Appends what is in a box whose inside begins AT."""
    x, y = at
    labelled: set[tuple[int, str]] = set()  # shared facts are stated once
    for edge, line in zip(placed.box.edges, placed.layout.lines, strict=True):
        points = [(x + px, y + py) for px, py in line]
        kind = "" if edge.tensors else ' class="c"'
        parts.append(f'<path{kind} marker-end="url(#a)" d="{_curve(points)}"/>')
        if edge.label and (edge.source, edge.label) not in labelled:
            labelled.add((edge.source, edge.label))
            more = f" +{edge.tensors - 1}" if edge.tensors > 1 else ""
            begin = f'x="{points[0][0] + 4:.1f}" y="{points[0][1] + 10:.1f}"'
            parts.append(f'<text class="l" {begin}>{escape(edge.label)}{more}</text>')
    for child, (cx, cy) in zip(placed.inner, placed.layout.centres, strict=True):
        _draw_box(child, (x + cx - child.size[0] / 2, y + cy - child.size[1] / 2), colours, parts)


def _draw_box(placed: _Placed, at: Point, colours: Mapping[int, str], parts: list[str]) -> None:
    box, (x, y), (width, height) = placed.box, at, placed.size
    name = "o" if placed.inner else "s" if box.is_scope else "n"
    colour = colours.get(box.item.kind)
    border = f' style="stroke:{colour};stroke-width:2"' if colour else ""
    parts.append(f"<g><title>{escape(printable(box.fault or box.item.path or box.title))}</title>")
    parts.append(
        f'<rect class="{name}{" f" if box.fault else ""}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="{6 if box.is_scope else 3}"{border}/>'
    )
    for number, text in enumerate((box.title, *box.lines)):
        style = "k" if number else "t"
        begin = f'x="{x + MARGIN:.1f}" y="{y + LINE * (number + 1):.1f}"'
        parts.append(f'<text class="{style}" {begin}>{escape(_cut(text))}</text>')
    parts.append("</g>")
    if placed.inner:
        _draw(placed, (x + MARGIN, y + height - placed.layout.height - MARGIN), colours, parts)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 2] + ".."


def _curve(points: Sequence[Point]) -> str:
    """A path through POINTS that leaves and enters each of them straight down."""
    out = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (ax, ay), (bx, by) in pairwise(points):
        if abs(ax - bx) < 0.5:
            out.append(f"L{bx:.1f} {by:.1f}")
        else:
            middle = (ay + by) / 2
            out.append(f"C{ax:.1f} {middle:.1f} {bx:.1f} {middle:.1f} {bx:.1f} {by:.1f}")
    return "".join(out)
