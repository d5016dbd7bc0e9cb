"""A page that shows a model: one HTML file that opens offline, in any browser of 2023 or later.

Its source is under ``page/``: scripts and styles, one file for each subject, joined in the order of `SCRIPTS`. The
page contains the model as data, never as markup, and a policy forbids the page to load anything.

The data are the outlines in a compact form, which `page/graph.js` reads: columns, and each text once. The nodes of a
graph are in its order, producers first, so that the distances of edges are small. A column in which most rows are empty
is an object from rows to values.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from gdsurgeon.compare.diff import Difference
from gdsurgeon.compare.matching import FREE
from gdsurgeon.errors import printable
from gdsurgeon.view.content import Content, order_of
from gdsurgeon.view.outline import Outline, Outlines
from gdsurgeon.view.scopes import Scope

SCRIPTS = (
    "text.js", "layout.js", "graph.js", "model.js", "box.js", "picture.js", "camera.js", "pane.js", "search.js",
    "marks.js", "moves.js", "keys.js", "svg_export.js", "viewer.js", "main.js",
)  # fmt: skip
"""The scripts, in the order in which they run."""

MARKS: Mapping[str, str] = MappingProxyType({"+": "added", "-": "removed", "~": "changed", ">": "rewired"})
"""The meaning of the marks of nodes."""


def page(
    outlines: Outlines,
    *,
    marks: Sequence[str] = (),
    notes: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """Returns the page of a model.

    Args:
        outlines: of the model.
        marks: for each row of the main graph '', '+', '-', '~' or '>'; empty without marks.
        notes: notes for rows of the main graph, shown next to their mark: their former state.
    """
    data = packed(payload(outlines, marks, notes))
    # The scripts are one function, which avoids global names.
    script = "\n".join(('(() => {\n"use strict";', *map(_source, SCRIPTS), "})();"))
    style, picture_style = _source("page.css"), _source("picture.css")
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
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _source("page.html"))


def _hash(source: str) -> str:
    """Returns the hash by which a policy allows a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


@cache
def _source(name: str) -> str:
    return files("gdsurgeon.view").joinpath("page").joinpath(name).read_text(encoding="utf-8")


Json: TypeAlias = "int | str | Sequence[Json] | Mapping[str, Json] | Mapping[int, Json] | None"


def packed(payload: Json) -> str:
    """Returns `payload` as text in an HTML page: deflated, in base 64."""
    # A lone surrogate is escaped, as is all that is not ASCII; JavaScript reads it back as it was.
    data = json.dumps(payload, separators=(",", ":")).encode("ascii")
    return base64.b64encode(zlib.compress(data, 7)).decode("ascii")


def payload(outlines: Outlines, marks: Sequence[str], notes: Mapping[int, str]) -> Json:
    """Returns the data of a page; see `page` for the arguments."""
    bodies = outlines.bodies()
    writer = _Writer([outlines.main, *bodies])
    main = outlines.main.content
    functions: dict[str, Json] = dict(outlines.faults)
    functions.update((body.content.title, number) for number, body in enumerate(bodies, 1))
    graphs = [writer.graph(outlines.main), *map(writer.graph, bodies)]
    out: dict[str, Json] = {
        "title": main.title,
        "graphs": graphs,
        "functions": functions,
        "strings": list(writer.strings),
        "lists": list(writer.lists),
        "marks": {place: marks[row] for place, row in enumerate(main.order) if marks[row]} if marks else {},
        "legend": dict(MARKS),
        "notes": {place: notes[row] for place, row in enumerate(main.order) if row in notes} if notes else {},
    }
    return out


class _Writer:
    """Writes graphs that share their texts, lists of texts, and kinds.

    Attributes:
        strings: the texts, each with its number.
        lists: lists of texts, by number.
    """

    def __init__(self, outlines: Iterable[Outline]) -> None:
        self.strings: dict[str, int] = {}
        self.lists: dict[tuple[int, ...], int] = {}
        counts = Counter(scope.kind for outline in outlines for scope in outline.root.walk())
        repeated = [kind for kind, count in counts.items() if count > 1 and kind >= 0]
        self._kinds = {kind: number for number, kind in enumerate(repeated)}

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _list(self, texts: Iterable[str]) -> int:
        return self.lists.setdefault(tuple(map(self._string, texts)), len(self.lists))

    def graph(self, outline: Outline) -> Json:
        """Returns one graph, or the body of a function, as JSON."""
        content = outline.content
        scopes = list(outline.root.walk())
        number = {id(scope): k for k, scope in enumerate(scopes)}
        order = content.order
        out: dict[str, Json] = {
            "title": content.title,
            "scopes": self._scopes(scopes, number),
            "scope": [number[id(outline.scope_of[row])] for row in order],
            "op": [self._string(content.ops[row]) for row in order],
            "outputs": [self._list(content.outputs[row]) for row in order],
            "attrs": [self._list(chain.from_iterable(content.attrs[row])) for row in order],
            "weight": [content.is_weight[row] for row in order],
            "device": _sparse(order, lambda row: content.devices[row]),
            "calls": _sparse(order, lambda row: content.calls[row]),
            "parameters": _sparse(order, lambda row: content.parameters[row]),
            "flops": _sparse(order, lambda row: content.flops[row]),
            "values": _sparse(order, content.value),
            "statistics": _sparse(order, content.statistics),
            "faults": _sparse(order, lambda row: content.faults.get(row)),
        }
        return out | self._names(outline, scopes) | self._edges(content)

    def _scopes(self, scopes: Sequence[Scope], number: Mapping[int, int]) -> Json:
        return {
            "name": [self._string(scope.name) for scope in scopes],
            "parent": [-1 if scope.parent is None else number[id(scope.parent)] for scope in scopes],
            "kind": [self._kinds.get(scope.kind, -1) for scope in scopes],
            "group": [k for k, scope in enumerate(scopes) if scope.is_group],
            "parameters": [scope.parameters for scope in scopes],
            "flops": [scope.flops for scope in scopes],
            "output": [self._string(scope.output) for scope in scopes],
        }

    def _names(self, outline: Outline, scopes: Iterable[Scope]) -> dict[str, Json]:
        """Returns the names without their scopes; -1 for a node with the name of its scope; exceptions as a whole."""
        names = outline.content.names
        paths = _paths_of_nodes(scopes)
        leaves: list[int] = []
        whole: dict[int, str] = {}
        for place, row in enumerate(outline.content.order):
            name, path = names[row], paths[id(outline.scope_of[row])]
            leaf = name.rpartition("/")[2]
            if name == path:
                leaves.append(-1)
                continue
            leaves.append(self._string(leaf))
            if name != (leaf if path is None else f"{path}/{leaf}"):
                whole[place] = name
        return {"leaf": leaves, "names": whole}

    @staticmethod
    def _edges(content: Content) -> dict[str, Json]:
        place = content.places()
        distances: list[int] = []
        slots: dict[int, int] = {}
        for at, row in enumerate(content.order):
            for producer, slot in content.inputs[row]:
                if slot:
                    slots[len(distances)] = slot
                distances.append(at - place[producer])
        return {
            "reads": [len(content.inputs[row]) for row in content.order],
            "distances": distances,
            "slots": slots,
            "controls": _sparse(content.order, lambda row: [place[producer] for producer in content.controls[row]]),
        }


def _paths_of_nodes(scopes: Iterable[Scope]) -> dict[int, str | None]:
    """Returns the prefix of the names of nodes in each scope, by its id; groups are not part of names; None: no prefix.

    Each scope comes after its outer scope.
    """
    paths: dict[int, str | None] = {}
    for scope in scopes:
        above = None if scope.parent is None else paths[id(scope.parent)]
        is_named = scope.parent is not None and not scope.is_group
        paths[id(scope)] = (scope.name if above is None else f"{above}/{scope.name}") if is_named else above
    return paths


def _sparse(order: Sequence[int], value: Callable[[int], Json]) -> Json:
    """Returns the values of rows that have one, by their place in `order`."""
    return {place: found for place, row in enumerate(order) if (found := value(row))}


ADDED, REMOVED, CHANGED, REWIRED = "+", "-", "~", ">"


class Union(NamedTuple):
    """Two graphs as one.

    Attributes:
        content: the rows of B, then the removed rows.
        marks: for each row its mark, or ''.
    """

    content: Content
    marks: list[str]


def union(difference: Difference, before: Content, after: Content) -> Union:
    """Returns the union of `before` and `after`, the contents of A and B, which `difference` has compared."""
    matching = difference.matching
    if matching is None:
        return Union(after, [""] * len(after))
    removed = difference.removed
    rows = {i: mate for i, mate in enumerate(matching.mates) if mate != FREE}
    rows |= {i: len(after) + place for place, i in enumerate(removed)}
    out = Content(
        title=f"{before.title} → {after.title}",
        names=after.names + _names(before, after, removed),
        **{
            column: getattr(after, column) + [getattr(before, column)[i] for i in removed]
            for column in ("ops", "outputs", "attrs", "devices")
        },
        inputs=after.inputs + [tuple((rows[u], port) for u, port in before.inputs[i]) for i in removed],
        controls=after.controls + [tuple(rows[u] for u in before.controls[i]) for i in removed],
        calls=after.calls + [tuple(f for f in before.calls[i] if f in difference.b.functions) for i in removed],
        parameters=after.parameters + [0] * len(removed),  # removed nodes do not count
        flops=after.flops + [0] * len(removed),
        order=[],
        is_weight=after.is_weight + bytearray(before.is_weight[i] for i in removed),
        faults={**after.faults, **{rows[i]: fault for i, fault in before.faults.items() if rows[i] >= len(after)}},
        value=lambda row: after.value(row) if row < len(after) else before.value(removed[row - len(after)]),
    )
    out.order = order_of(out)
    return Union(out, _marks(difference, len(after), len(removed)))


def _names(before: Content, after: Content, removed: list[int]) -> list[str]:
    """Returns the names of the removed nodes, made different from those of B."""
    taken = set(after.names)
    out: list[str] = []
    for i in removed:
        name = before.names[i]
        while name in taken:
            name += " (before)"
        taken.add(name)
        out.append(name)
    return out


def _marks(difference: Difference, after: int, removed: int) -> list[str]:
    marks = [""] * after + [REMOVED] * removed
    for change in difference.changes:
        marks[change.j] = REWIRED if change.is_rewired_only else CHANGED
    for value in difference.values:
        marks[value.j] = CHANGED
    for row in difference.added:
        marks[row] = ADDED
    return marks
