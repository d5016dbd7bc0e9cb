"""A picture in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdsurgeon.view.boxes import Box


def dot(whole: Box) -> str:
    """WHOLE as a digraph; an open scope is a cluster."""
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
    """The lines for what is in BOX."""
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
        ends = f"b{number_of[id(last(source))]} -> b{number_of[id(first(target))]}"
        yield f"{indent}{ends}" + (f" [{', '.join(attrs)}];" if attrs else ";")


def first(box: Box) -> Box:
    """The first closed box in an open one, where edges to it are tied."""
    while box.boxes:
        box = box.boxes[0]
    return box


def last(box: Box) -> Box:
    """The last closed box in an open one, where edges from it are tied."""
    while box.boxes:
        box = box.boxes[-1]
    return box


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
