"""What diff prints of two graphs, as a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from gdsurgeon.compare.difference import Difference
from gdsurgeon.text import size
from gdsurgeon.view.difference import count_text, counts, sections, shown

MARKER = "<!-- gdsurgeon diff -->"
"""The first line: by it a script finds the comment again that it wrote before."""
MOST_LINES = 20
LONGEST = 60_000
"""Characters: a comment may have 65,536."""


def lines(difference: Difference) -> list[str]:
    """DIFFERENCE in Markdown, short enough for a comment."""
    out: list[str] = []
    length = 0
    for line in _lines(difference):
        length += len(line) + 1
        if length > LONGEST:
            return [*out, "", "... and more; JSON has all"]
        out.append(line)
    return out


def _lines(difference: Difference) -> Iterator[str]:
    yield MARKER
    a, b = difference.a, difference.b
    yield f"### {_code(a.source_name)} → {_code(b.source_name)}"
    yield ""
    if difference.is_empty:
        yield "Nothing differs."
        return
    nodes = f"{a.node_count:,} → {b.node_count:,} nodes, {size(a.file_bytes)} → {size(b.file_bytes)}"
    yield f"{nodes}: {count_text(counts(difference))}."
    yield ""
    yield "| | |"
    yield "|---|---|"
    for label, texts in sections(difference, MOST_LINES):
        for place, text in enumerate(texts):
            yield f"| {label if not place else ''} | {_escaped(text)} |"


def _code(name: str) -> str:
    return f"`{shown(name).replace('`', '')}`"


def _escaped(text: str) -> str:
    """TEXT in a cell of a table: what Markdown would take for markup is shown as it is."""
    text = text.replace("\\", "\\\\").replace("<", "&lt;").replace("->", "→")
    for mark in "|*_`[]~@#":
        text = text.replace(mark, f"\\{mark}")
    return text
