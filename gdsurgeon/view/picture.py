"""The forms of pictures, by the names of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from os.path import basename

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.arguments import public
from gdsurgeon.errors import printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.text import abbreviated, counted
from gdsurgeon.values import Data
from gdsurgeon.view.content import Content, content_of, short_tensor
from gdsurgeon.view.layout import Layout, Point, layered
from gdsurgeon.view.outline import Outline, Outlines
from gdsurgeon.view.page import page
from gdsurgeon.view.scopes import rows_of
from gdsurgeon.view.tree import Item, fitting, whole, within

DEEPEST = 100
"""Levels that may be open: boxes within boxes are drawn by recursion."""
ENOUGH = 60
"""The maximum number of boxes of a picture, if possible, when no depth is given."""


def drawn(form: str, outlines: Outlines, head: Item, depth: int | None) -> str:
    """Returns the picture of an item, opened `depth` levels, or as deep as `ENOUGH` boxes allow.

    A page ("html") contains the whole model.
    """
    if form == "html":
        return page(outlines)

    def boxes(items: list[Item]) -> int:
        return sum(1 for item in items for _ in item.all())

    head.items = fitting(outlines, head, boxes, ENOUGH) if depth is None else within(outlines, head, depth)
    return FLAT[form](boxed(head))


@public
def picture(graph: Graph, form: str = "html", *, scope: str | None = None, depth: int | None = None) -> str:
    """Returns a picture of a graph: its scopes, blocks and shapes, without weights.

    Args:
        graph: not changed; of a corrupt graph, the readable part is shown.
        form: ``html`` (an interactive page in one file), ``svg``, ``dot`` or ``md`` (Mermaid).
        scope: show only this scope; not for a page.
        depth: the number of open levels, 1 to 100; by default as many as can be seen at once.

    Raises:
        EditError: the scope does not exist, or the picture would be too large.
        ValueError: the form or the depth is invalid.
    """
    if depth is not None and not 1 <= depth <= DEEPEST:
        raise ValueError(f"depth must be from 1 to {DEEPEST}, not {depth}")
    if form not in ("html", *FLAT):
        raise ValueError(f"a picture must be html, {', '.join(FLAT)}, not {form}")
    graph = graph.written()
    content = content_of(graph, basename(graph.source_name), check(graph).faults)
    outlines = Outlines(graph, content)
    return drawn(form, outlines, whole(outlines, scope), depth)


LONGEST = 36
"""Characters of a line in a box."""


@dataclass(eq=False, repr=False)
class Edge(Data):
    """An edge between two boxes that are in the same box.

    Attributes:
        source, target: the boxes.
        label: dtype and shape of the first tensor on it; '' for a control edge.
        tensors: the number of its tensors; 0 for a control edge.
    """

    source: Box
    target: Box
    label: str = ""
    tensors: int = 0


class Box:
    """A scope or a node in a picture.

    Args:
        item: the item that it shows.
        parent: the box that contains it.
        place: its index in that box.

    Attributes:
        title: the first line: the op of a node, the name of a scope.
        lines: the lines below the title.
        fault: the fault of the node; '' if it has none.
        boxes: the inner boxes; empty if it is closed.
        edges: between the inner boxes.
        number: its number in the picture; `boxed` sets it.
        layout: the layout of the inner boxes, for a drawing.
        size: its width and height.
    """

    number: int
    layout: Layout
    size: Point

    def __init__(self, item: Item, parent: Box | None = None, place: int = 0) -> None:
        self.item, self.parent, self.place = item, parent, place
        self.is_scope = item.row < 0
        self.edges: list[Edge] = []
        self.boxes = [Box(inner, self, at) for at, inner in enumerate(item.items or ())]
        name, content = printable(item.name), item.outline.content
        self.title, self.lines, self.fault = name, list[str](), ""
        if not self.is_scope:
            self.title, self.fault = printable(content.ops[item.row]), content.faults.get(item.row, "")
            weights = [
                short_tensor(content.outputs[source][slot])
                for source, slot in content.inputs[item.row]
                if content.is_weight[source] and slot < len(content.outputs[source])
            ]
            self.lines = [*([name] if name != self.title else []), *weights[:2]]  # weights have no boxes
        elif not item.items:
            parameters = f" | {abbreviated(item.parameters)} params" if item.parameters else ""
            self.lines = [counted(item.nodes, "node") + parameters, *filter(None, [short_tensor(item.output)])]
            self.fault = f"{item.faults:,} broken" if item.faults else ""

    def all(self) -> Iterator[Box]:
        """Yields this box and all boxes inside it."""
        yield self
        for box in self.boxes:
            yield from box.all()


def boxed(head: Item) -> Box:
    """Returns the box of an item, with the boxes of its visible items, and the edges between them."""
    whole = Box(head)
    for number, box in enumerate(whole.all()):
        box.number = number
    # For each body that is shown: the innermost box of each row. An open call contains a body, or several bodies.
    bodies: list[tuple[Outline, dict[int, Box]]] = [(head.outline, {})]
    level = [(whole, bodies[0][1])]
    for box, shown in level:  # grows while it is walked
        inner = {id(box.item.outline): shown}
        for child in box.boxes:
            item, outline = child.item, child.item.outline
            if id(outline) not in inner:
                inner[id(outline)] = {}
                bodies.append((outline, inner[id(outline)]))
            rows = inner[id(outline)]
            level.append((child, rows))
            if item.scope is None:
                rows[item.row] = child
            elif child.is_scope and child.boxes:
                rows.update(dict.fromkeys(item.scope.rows, child))  # weights, which have no box
            else:
                rows.update(dict.fromkeys(rows_of([item.scope]), child))
    for outline, rows in bodies:
        _connect(outline.content, rows)
    return whole


def _connect(content: Content, shown: Mapping[int, Box]) -> None:
    """Adds each edge of a graph to the two boxes side by side that contain its ends."""
    found: dict[tuple[int, int], Edge] = {}
    for row, target in shown.items():
        reads = [(source, slot) for source, slot in content.inputs[row] if not content.is_weight[source]]
        for source, slot in (*reads, *((control, -1) for control in content.controls[row])):
            ends = _side_by_side(shown.get(source), target)
            if ends is None:
                continue
            key = ends[0].number, ends[1].number
            if key not in found:
                found[key] = Edge(*ends)
                assert ends[0].parent is not None
                ends[0].parent.edges.append(found[key])
            if slot >= 0:
                outputs, edge = content.outputs[source], found[key]
                edge.label = edge.label or (short_tensor(outputs[slot]) if slot < len(outputs) else "")
                edge.tensors += 1


def _side_by_side(source: Box | None, target: Box | None) -> tuple[Box, Box] | None:
    """Returns the neighboring boxes that contain both ends; None if an end is hidden or contains the other."""
    above: dict[Box | None, Box] = {}
    while source is not None:
        above[source.parent] = source
        source = source.parent
    while target is not None and target.parent not in above:
        target = target.parent
    if target is None or target.parent is None or above[target.parent] is target:
        return None
    return above[target.parent], target


def dot(whole: Box) -> str:
    """Returns a digraph; an open scope is a cluster."""
    out = [
        "digraph model {",
        f"  label={_quoted(whole.title)}; labelloc=t; compound=true;",
        '  node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="DejaVu Sans", fontsize=10];',
        '  edge [fontname="DejaVu Sans", fontsize=8, color="#7a8494"];',
        *_inside(whole, "  "),
        "}",
    ]
    return "\n".join(out) + "\n"


def _inside(box: Box, indent: str) -> Iterator[str]:
    """Yields the lines for the inner boxes."""
    for child in box.boxes:
        if child.boxes:
            yield f"{indent}subgraph cluster_{child.number} {{"
            yield f'{indent}  label={_quoted(child.title)}; style=rounded; bgcolor="#f4f6fb";'
            yield from _inside(child, indent + "  ")
            yield f"{indent}}}"
        else:
            colour = ', fillcolor="#e6ecf8"' if child.is_scope else ""
            colour += ', color="#d12f2f"' if child.fault else ""
            yield f"{indent}b{child.number} [label={_quoted(chr(10).join((child.title, *child.lines)))}{colour}];"
    for edge in box.edges:
        attrs = [f"label={_quoted(edge.label)}"] if edge.label else []
        attrs += [] if edge.tensors else ["style=dashed"]
        attrs += [f"ltail=cluster_{edge.source.number}"] if edge.source.boxes else []
        attrs += [f"lhead=cluster_{edge.target.number}"] if edge.target.boxes else []
        ends = f"b{_end(edge.source, -1).number} -> b{_end(edge.target, 0).number}"
        yield f"{indent}{ends}" + (f" [{', '.join(attrs)}];" if attrs else ";")


def _end(box: Box, place: int) -> Box:
    """Returns the first (`place` 0) or last (-1) closed box in an open one, to which edges are attached."""
    while box.boxes:
        box = box.boxes[place]
    return box


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


MOST_EDGES = 450
"""The default limit of Mermaid is 500."""


def mermaid(whole: Box) -> str:
    """Returns a flowchart in a fenced block; an open scope is a subgraph."""
    edges = []
    for edge in (edge for box in whole.all() for edge in box.edges):
        arrow = f'-- "{_escaped(edge.label)}" -->' if edge.label else "-->" if edge.tensors else "-.->"
        edges.append(f"  b{edge.source.number} {arrow} b{edge.target.number}")
    left_out = len(edges) - MOST_EDGES
    out = [f"**{_escaped(whole.title)}**", "", "```mermaid", "flowchart TB", *_boxes(whole, "  ")]
    out += edges[:MOST_EDGES]
    out += ["  classDef scope fill:#e6ecf8,stroke:#9fb0d0", "  classDef fault stroke:#d12f2f,stroke-width:2px", "```"]
    out += [f"{left_out:,} more edges are not shown."] if left_out > 0 else []
    return "\n".join(out) + "\n"


def _boxes(box: Box, indent: str) -> Iterator[str]:
    for child in box.boxes:
        if child.boxes:
            yield f'{indent}subgraph b{child.number}["{_escaped(child.title)}"]'
            yield from _boxes(child, indent + "  ")
            yield f"{indent}end"
        else:
            kind = ":::fault" if child.fault else ":::scope" if child.is_scope else ""
            yield f'{indent}b{child.number}["{"<br>".join(map(_escaped, (child.title, *child.lines)))}"]{kind}'


def _escaped(text: str) -> str:
    """Returns `text` without markup of Mermaid or Markdown: special characters are entities of Mermaid."""
    return "".join(c if c.isalnum() or c in " _-./:,?[]()" else f"#{ord(c)};" for c in text)


CHARACTER, LINE, MARGIN = 7.2, 14.0, 9.0
"""Pixels: a character is at most so wide, a line so high, and so much is around text and in open scopes."""
COLOURS = ("#5b7fe0", "#d98b2b", "#3f9e57", "#a35bd1", "#d05454", "#2fa3a3", "#b59b1c", "#8d7b66", "#d1669a", "#6f8f3d")
"""The colours of the borders of scopes of the same structure."""
_STYLE = """
text{font:11px "DejaVu Sans",system-ui,sans-serif;fill:#1d2433}
.t{font-weight:600}.k{fill:#5c6675}.l{font-size:9px;fill:#7a8494}
.n{fill:#fff;stroke:#9aa7bd}.s{fill:#edf1fa;stroke:#9fb0d0}.o{fill:#f7f9fd;stroke:#b9c4d9}.f{stroke:#d12f2f;stroke-width:2}
path{fill:none;stroke:#8b95a7}.c{stroke-dasharray:3 3;stroke:#c09a52}
@media(prefers-color-scheme:dark){svg{background:#171b22}text{fill:#e4e8ef}.k{fill:#9aa5b5}.l{fill:#8791a1}
.n{fill:#232a35;stroke:#57647a}.s{fill:#263045;stroke:#56688c}.o{fill:#1c222c;stroke:#414d62}}
"""


def svg(whole: Box) -> str:
    """Returns an independent SVG document."""
    kinds = Counter(box.item.kind for box in whole.all() if box.item.kind >= 0)
    repeated = [kind for kind, count in kinds.most_common() if count > 1]
    colours = {kind: COLOURS[number % len(COLOURS)] for number, kind in enumerate(repeated)}
    _place(whole)
    parts = [f'<text class="t" x="{MARGIN}" y="{LINE}">{escape(whole.title)}</text>']
    _draw(whole, (MARGIN, LINE + MARGIN), colours, parts)
    width, height = (length + 2 * MARGIN for length in (whole.layout.width, whole.layout.height + LINE))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}"><title>{escape(whole.title)}</title><style>{_STYLE}</style>'
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#8b95a7;stroke:none"/></marker></defs>' + "".join(parts) + "</svg>\n"
    )


def _place(box: Box) -> None:
    """Sets the size of a box, and the layout of its inner boxes."""
    for child in box.boxes:
        _place(child)
    layout = box.layout = layered(
        [child.size for child in box.boxes], [(edge.source.place, edge.target.place) for edge in box.edges]
    )
    texts = (box.title, *box.lines)
    width = min(max(map(len, texts)), LONGEST) * CHARACTER + 2 * MARGIN
    height = len(texts) * LINE + MARGIN
    if box.boxes:
        width, height = max(width, layout.width + 2 * MARGIN), layout.height + height + MARGIN
    box.size = width, height


def _draw(box: Box, at: Point, colours: Mapping[int, str], parts: list[str]) -> None:
    """Appends the inner boxes of a box; its inside begins at `at`."""
    x, y = at
    labelled: set[tuple[int, str]] = set()  # shared facts are stated once
    for edge, line in zip(box.edges, box.layout.lines, strict=True):
        points = [(x + px, y + py) for px, py in line]
        kind = "" if edge.tensors else ' class="c"'
        parts.append(f'<path{kind} marker-end="url(#a)" d="{_curve(points)}"/>')
        if edge.label and (edge.source.number, edge.label) not in labelled:
            labelled.add((edge.source.number, edge.label))
            more = f" +{edge.tensors - 1}" if edge.tensors > 1 else ""
            begin = f'x="{points[0][0] + 4:.1f}" y="{points[0][1] + 10:.1f}"'
            parts.append(f'<text class="l" {begin}>{escape(edge.label)}{more}</text>')
    for child, (cx, cy) in zip(box.boxes, box.layout.centres, strict=True):
        _draw_box(child, (x + cx - child.size[0] / 2, y + cy - child.size[1] / 2), colours, parts)


def _draw_box(box: Box, at: Point, colours: Mapping[int, str], parts: list[str]) -> None:
    (x, y), (width, height) = at, box.size
    name = "o" if box.boxes else "s" if box.is_scope else "n"
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
    if box.boxes:
        _draw(box, (x + MARGIN, y + height - box.layout.height - MARGIN), colours, parts)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 2] + ".."


def _curve(points: Sequence[Point]) -> str:
    """Returns a path through `points` that is vertical at each of them."""
    out = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (ax, ay), (bx, by) in pairwise(points):
        if abs(ax - bx) < 0.5:
            out.append(f"L{bx:.1f} {by:.1f}")
        else:
            middle = (ay + by) / 2
            out.append(f"C{ax:.1f} {middle:.1f} {bx:.1f} {middle:.1f} {bx:.1f} {by:.1f}")
    return "".join(out)


FLAT: dict[str, Callable[[Box], str]] = {"svg": svg, "dot": dot, "md": mermaid}
"""The forms of pictures, except pages, by the suffix of a file."""
