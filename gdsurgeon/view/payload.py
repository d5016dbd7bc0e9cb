"""The data of a page about a model: its outlines in a compact form, which `page/graph.js` reads.

Columns, not records, and each text once. The nodes of a graph stand in its order, producers first, so that what a node
reads is a small number of rows back. A column in which most rows have nothing is an object from rows to values.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from gdsurgeon.view.content import Content
from gdsurgeon.view.outline import Outline, Outlines
from gdsurgeon.view.scopes import Scope

Json: TypeAlias = "int | str | Sequence[Json] | Mapping[str, Json] | Mapping[int, Json] | None"


def packed(payload: Json) -> str:
    """PAYLOAD as text in an HTML page: deflated, in base 64."""
    # A lone surrogate is escaped, as is all that is not ASCII; JavaScript reads it back as it was.
    data = json.dumps(payload, separators=(",", ":")).encode("ascii")
    return base64.b64encode(zlib.compress(data, 7)).decode("ascii")


def payload(outlines: Outlines, marks: Sequence[str], legend: Mapping[str, str], notes: Mapping[int, str]) -> Json:
    """What there is to show of OUTLINES; MARKS, LEGEND and NOTES are those of `page`."""
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
        "legend": dict(legend),
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
        """One graph, or the body of a function."""
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
        """Names without the scopes that they lie in; -1 for what is called like its scope, whole ones of exceptions."""
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
    """What the names of nodes begin with that lie in each of SCOPES, by its id: groups are in no name; None: nothing.

    Each of SCOPES comes behind the one that it lies in.
    """
    paths: dict[int, str | None] = {}
    for scope in scopes:
        above = None if scope.parent is None else paths[id(scope.parent)]
        is_named = scope.parent is not None and not scope.is_group
        paths[id(scope)] = (scope.name if above is None else f"{above}/{scope.name}") if is_named else above
    return paths


def _sparse(order: Sequence[int], value: Callable[[int], Json]) -> Json:
    """Of each row that has one its VALUE, by where it stands in ORDER."""
    return {place: found for place, row in enumerate(order) if (found := value(row))}
