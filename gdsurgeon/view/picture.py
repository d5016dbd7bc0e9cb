"""The forms of pictures, by the names of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from os.path import basename

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.arguments import public
from gdsurgeon.errors import printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.text import abbreviated, counted
from gdsurgeon.values import Data
from gdsurgeon.view.content import content_of, short_tensor
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
    """An edge from one box to a box next to it.

    Attributes:
        source, target: their indices among the boxes next to them.
        label: dtype and shape of the first tensor on it; '' for a control edge.
        tensors: the number of its tensors; 0 for a control edge.
    """

    source: int
    target: int
    label: str = ""
    tensors: int = 0


_EMPTY = Layout([], [], 0.0, 0.0)


@dataclass(eq=False, repr=False)
class Box(Data):
    """A scope or a node in a picture.

    Attributes:
        item: the item that it shows.
        title: the first line: the op of a node, the name of a scope.
        lines: the lines below the title.
        boxes: the inner boxes; empty if it is closed.
        edges: between the inner boxes.
        fault: the fault of the node; '' if it has none.
        layout: the layout of the inner boxes, for a drawing.
        size: its width and height.
    """

    item: Item
    title: str
    lines: list[str]
    fault: str = ""
    boxes: list[Box] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    layout: Layout = _EMPTY
    size: Point = (0.0, 0.0)

    @property
    def is_scope(self) -> bool:
        """Whether it is a scope, not a node."""
        return self.item.row < 0

    def all(self) -> Iterator[Box]:
        """Yields this box and all boxes inside it."""
        yield self
        for box in self.boxes:
            yield from box.all()


def boxed(head: Item) -> Box:
    """Returns the box of an item, with the boxes of its visible items."""
    whole = _box(head)
    _connect(whole)
    return whole


def _box(item: Item) -> Box:
    name, content = printable(item.name), item.outline.content
    if item.row < 0:
        lines = [counted(item.nodes, "node")]
        lines[0] += f" | {abbreviated(item.parameters)} params" if item.parameters else ""
        lines += [short_tensor(item.output)] if item.output else []
        fault = f"{item.faults:,} broken" if item.faults and not item.items else ""
        box = Box(item, name, [] if item.items else lines, fault)
    else:
        op = printable(content.ops[item.row])
        lines = [name] if name != op else []
        lines += [
            short_tensor(content.outputs[source][slot])
            for source, slot in content.inputs[item.row]
            if content.is_weight[source] and slot < len(content.outputs[source])
        ][:2]  # weights have no boxes
        box = Box(item, op, lines, content.faults.get(item.row, ""))
    box.boxes = [_box(inner) for inner in item.items or ()]
    return box


def _connect(whole: Box) -> None:
    """Sets the edges of a box and of all inner boxes; each body of a function is connected separately."""
    pending = [whole]
    while pending:
        root = pending.pop()
        around: dict[int, Box] = {}  # by identity: the box that a box lies in
        inner: dict[int, Box] = {}  # by row: the innermost box that shows it
        outline = root.boxes[0].item.outline if root.boxes else root.item.outline
        level = [root]
        for box in level:  # grows while it is walked
            for child in box.boxes:
                around[id(child)] = box
                if child.item.outline is not outline:  # one of several functions that a node calls
                    pending.append(child)
                elif child.item.row < 0 and child.boxes:
                    level.append(child)
                    own = () if child.item.scope is None else child.item.scope.rows  # weights, which have no box
                    inner.update(dict.fromkeys(own, child))
                else:
                    scope = child.item.scope
                    inner.update(dict.fromkeys([child.item.row] if scope is None else rows_of([scope]), child))
                    pending += [child] if child.boxes else []
        _lift(outline, inner, around)


def _lift(outline: Outline, inner: dict[int, Box], around: dict[int, Box]) -> None:
    """Adds each edge of the graph to the two neighboring boxes that contain its ends."""
    content = outline.content
    found: dict[tuple[int, int], Edge] = {}
    places: dict[int, int] = {}
    for box in {id(box): box for box in around.values()}.values():
        places.update((id(child), place) for place, child in enumerate(box.boxes))
    for row, target in inner.items():
        reads = [(source, slot) for source, slot in content.inputs[row] if not content.is_weight[source]]
        for source, slot in (*reads, *((control, -1) for control in content.controls[row])):
            ends = _side_by_side(inner.get(source), target, around)
            if ends is None:
                continue
            edge = found.get((id(ends[0]), id(ends[1])))
            if edge is None:
                edge = found[id(ends[0]), id(ends[1])] = Edge(places[id(ends[0])], places[id(ends[1])])
                around[id(ends[0])].edges.append(edge)
            if slot >= 0:
                outputs = content.outputs[source]
                edge.label = edge.label or (short_tensor(outputs[slot]) if slot < len(outputs) else "")
                edge.tensors += 1


def _side_by_side(source: Box | None, target: Box, around: dict[int, Box]) -> tuple[Box, Box] | None:
    """Returns the neighboring boxes that contain both ends; None if an end is hidden or contains the other."""
    if source is None:
        return None
    above = {}
    box: Box | None = source
    while box is not None and id(box) in around:
        above[id(around[id(box)])] = box
        box = around[id(box)]
    other = target
    while id(other) in around and id(around[id(other)]) not in above:
        other = around[id(other)]
    if id(other) not in around:
        return None
    begin = above[id(around[id(other)])]
    return None if begin is other else (begin, other)


def dot(whole: Box) -> str:
    """Returns a digraph; an open scope is a cluster."""
    number_of = {id(box): number for number, box in enumerate(whole.all())}
    out = [
        "digraph model {",
        f"  label={_quoted(whole.title)}; labelloc=t; compound=true;",
        '  node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="DejaVu Sans", fontsize=10];',
        '  edge [fontname="DejaVu Sans", fontsize=8, color="#7a8494"];',
        *_inside(whole, number_of, "  "),
        "}",
    ]
    return "\n".join(out) + "\n"


def _inside(box: Box, number_of: Mapping[int, int], indent: str) -> Iterator[str]:
    """Yields the lines for the inner boxes."""
    for child in box.boxes:
        number = number_of[id(child)]
        if child.boxes:
            yield f"{indent}subgraph cluster_{number} {{"
            yield f'{indent}  label={_quoted(child.title)}; style=rounded; bgcolor="#f4f6fb";'
            yield from _inside(child, number_of, indent + "  ")
            yield f"{indent}}}"
        else:
            colour = ', fillcolor="#e6ecf8"' if child.is_scope else ""
            colour += ', color="#d12f2f"' if child.fault else ""
            yield f"{indent}b{number} [label={_quoted(chr(10).join((child.title, *child.lines)))}{colour}];"
    for edge in box.edges:
        source, target = box.boxes[edge.source], box.boxes[edge.target]
        attrs = [f"label={_quoted(edge.label)}"] if edge.label else []
        attrs += [] if edge.tensors else ["style=dashed"]
        attrs += [f"ltail=cluster_{number_of[id(source)]}"] if source.boxes else []
        attrs += [f"lhead=cluster_{number_of[id(target)]}"] if target.boxes else []
        ends = f"b{number_of[id(_end(source, -1))]} -> b{number_of[id(_end(target, 0))]}"
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
    number_of = {id(box): number for number, box in enumerate(whole.all())}
    edges = [line for box in whole.all() for line in _edges(box, number_of)]
    left_out = len(edges) - MOST_EDGES
    out = [f"**{_escaped(whole.title)}**", "", "```mermaid", "flowchart TB", *_boxes(whole, number_of, "  ")]
    out += edges[:MOST_EDGES]
    out += ["  classDef scope fill:#e6ecf8,stroke:#9fb0d0", "  classDef fault stroke:#d12f2f,stroke-width:2px", "```"]
    out += [f"{left_out:,} more edges are not shown."] if left_out > 0 else []
    return "\n".join(out) + "\n"


def _boxes(box: Box, number_of: Mapping[int, int], indent: str) -> Iterator[str]:
    for child in box.boxes:
        number = number_of[id(child)]
        if child.boxes:
            yield f'{indent}subgraph b{number}["{_escaped(child.title)}"]'
            yield from _boxes(child, number_of, indent + "  ")
            yield f"{indent}end"
        else:
            kind = ":::fault" if child.fault else ":::scope" if child.is_scope else ""
            yield f'{indent}b{number}["{"<br>".join(map(_escaped, (child.title, *child.lines)))}"]{kind}'


def _edges(box: Box, number_of: Mapping[int, int]) -> Iterator[str]:
    for edge in box.edges:
        source, target = (number_of[id(box.boxes[place])] for place in (edge.source, edge.target))
        arrow = f'-- "{_escaped(edge.label)}" -->' if edge.label else "-->" if edge.tensors else "-.->"
        yield f"  b{source} {arrow} b{target}"


def _escaped(text: str) -> str:
    """Returns `text` without markup of Mermaid or Markdown: special characters are entities of Mermaid."""
    return "".join(c if c.isalnum() or c in " _-./:,?[]()" else f"#{ord(c)};" for c in text)


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
        [child.size for child in box.boxes], [(edge.source, edge.target) for edge in box.edges]
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
        if edge.label and (edge.source, edge.label) not in labelled:
            labelled.add((edge.source, edge.label))
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
