"""A picture in the language of Mermaid, inside Markdown: for a pull request, or a page of documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdsurgeon.view.boxes import Box

MOST_EDGES = 450
"""The default limit of Mermaid is 500."""


def mermaid(whole: Box) -> str:
    """WHOLE as a flowchart in a fenced block; an open scope is a subgraph."""
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
    """TEXT in which nothing is markup, neither of Mermaid nor of Markdown: entities as Mermaid spells them."""
    return "".join(c if c.isalnum() or c in " _-./:,?[]()" else f"#{ord(c)};" for c in text)
