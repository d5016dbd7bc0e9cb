"""A page that shows a model: one HTML file that opens offline, in any browser of 2023 or later.

Its source is under ``page/``: scripts and styles, one file for each subject, joined in the order of `SCRIPTS`. The
model is data in it, never markup, and a policy forbids the page to load anything.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from gdsurgeon.errors import printable
from gdsurgeon.view.outline import Outlines
from gdsurgeon.view.payload import packed, payload

SCRIPTS = (
    "text.js", "layout.js", "graph.js", "model.js", "box.js", "picture.js", "camera.js", "pane.js", "search.js",
    "marks.js", "moves.js", "keys.js", "svg_export.js", "viewer.js", "main.js",
)  # fmt: skip
"""The scripts, in the order in which they run."""

MARKS: Mapping[str, str] = MappingProxyType({"+": "added", "-": "removed", "~": "changed", ">": "rewired"})
"""What the marks of nodes mean where a page is not told otherwise."""


def page(
    outlines: Outlines,
    *,
    marks: Sequence[str] = (),
    legend: Mapping[str, str] = MARKS,
    notes: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """The page that shows OUTLINES.

    Args:
        outlines: of the model.
        marks: for each row of the main graph one of '', '+', '-', '~' and '>', or nothing where none is marked.
        legend: what these mean.
        notes: notes for rows of the main graph, shown next to their mark: their former state.
    """
    data = packed(payload(outlines, marks, legend, notes))
    script, style, picture_style = _script(), _source("page.css"), _source("picture.css")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)} {_hash(picture_style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "POLICY": policy,
        "TITLE": html.escape(printable(outlines.main.content.title)),
        "STYLE": style,
        "PICTURE_STYLE": picture_style,
        "DATA": data,
        "SCRIPT": script,
    }
    out = _source("page.html")
    before, *pieces = out.split("{{")
    return before + "".join(_filled(piece, parts) for piece in pieces)


def _filled(piece: str, parts: Mapping[str, str]) -> str:
    """What follows the opening braces of a place in the template: its name made what belongs there."""
    name, _, rest = piece.partition("}}")
    return parts[name] + rest


def _hash(source: str) -> str:
    """By which a policy allows SOURCE between its tags."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


@cache
def _source(name: str) -> str:
    return files("gdsurgeon.view").joinpath("page").joinpath(name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """The scripts as one function, so that nothing of them is global."""
    return "\n".join(('(() => {\n"use strict";', *map(_source, SCRIPTS), "})();"))
