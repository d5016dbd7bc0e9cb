"""The differences of two graphs: lines of text, JSON, Markdown for a pull request, and notes on a page.

Also a graph as text, for a comparison line by line.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from textwrap import wrap
from typing import NamedTuple, TypeVar

from gdsurgeon.analysis.queries.attr_text import format_attr_bytes, format_element
from gdsurgeon.analysis.queries.constants import values_of
from gdsurgeon.analysis.shapes.arithmetic import typed
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.changes import WIRING, Change, Detail, EndChange, SignatureChange
from gdsurgeon.compare.diff import Difference, Hunks, ValueChange
from gdsurgeon.compare.side import Form, forms_in
from gdsurgeon.errors import EditError, InputError, Json, printable
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input
from gdsurgeon.text import counted, first_lines, ops, size
from gdsurgeon.view.report import to_json

WIDTH = 80
LONGEST_NAME = 60
"""The maximum number of characters of a name; the middle of a longer name is left out."""
LONGEST_PATH = 46
"""The same for the path of a model, which is followed by its size."""
MOST_LINES = 8
"""The maximum number of lines for each kind of difference; the others are counted."""
ARROW = "->"

MARKER = "<!-- gdsurgeon diff -->"
"""The first line of a comment, by which a script finds its earlier comment."""
MOST_ROWS = 20
LONGEST = 60_000
"""Characters of a comment, which may have 65,536."""

Key = TypeVar("Key")
Item = TypeVar("Item")


class Counts(NamedTuple):
    """The number of nodes for each kind of difference; nodes that are only renamed are also in `same`."""

    same: int
    renamed: int
    changed: int
    rewired: int
    values: int
    added: int
    removed: int


def counts(difference: Difference) -> Counts:
    """Returns the number of nodes for each kind of difference."""
    matching, changes, values = difference.matching, difference.changes, difference.values
    if matching is None:
        return Counts(difference.a.node_count, 0, 0, 0, 0, 0, 0)
    added, removed = len(difference.added), len(difference.removed)
    same = matching.a.size - removed - len({change.i for change in changes} | {change.i for change in values})
    rewired = sum(change.is_rewired_only for change in changes)
    return Counts(same, len(difference.renamed), len(changes) - rewired, rewired, len(values), added, removed)


def count_text(found: Counts) -> str:
    """Returns the counts as text: ``2,710 equal, 12 renamed, 3 changed, 7 added``."""
    labels = {"values": "with a different value"}
    parts = [f"{count:,} {labels.get(what, what)}" for what, count in found._asdict().items() if count]
    return ", ".join([f"{found.same:,} equal", *parts[bool(found.same) :]])


# -- for people ------------------------------------------------------------------------------------------------


def lines(difference: Difference, *, short: bool = False, whole: bool = False) -> list[str]:
    """Returns the two files, the number of nodes that differ, and the differences.

    Args:
        difference: of the two files.
        short: without the differences.
        whole: all differences, instead of `MOST_LINES` of each kind.
    """
    out = [
        f"{sign} {shown(graph.source_name, LONGEST_PATH)}  {size(graph.file_bytes)}, "
        f"{counted(graph.node_count, 'node')}"
        for sign, graph in (("---", difference.a), ("+++", difference.b))
    ]
    if difference.is_empty:
        what = "identical bytes" if difference.matching is None else "no differences"
        return [*out, f"  {what}", *_wrapped("note", _not_compared(difference))]
    out += _wrapped("nodes", [count_text(counts(difference))])
    for label, texts in () if short else sections(difference, sys.maxsize if whole else MOST_LINES):
        out += _wrapped(label, texts)
    return out


def _wrapped(label: str, texts: Iterable[str]) -> Iterator[str]:
    """Yields `texts` with `label` before the first."""
    for number, text in enumerate(texts):
        head = f"  {label if not number else '':<10}"
        yield from wrap(
            text, WIDTH, initial_indent=head, subsequent_indent=" " * 16, break_long_words=False, break_on_hyphens=False
        )


def sections(difference: Difference, most: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields each kind of difference, with at most `most` lines."""
    for side in ("input", "output"):
        yield side, first_lines([_end_text(end) for end in difference.ends if end.side == side], most)
    yield "signature", first_lines(list(map(_signature_text, difference.signatures)), most)
    yield "metadata", first_lines([item.text for item in difference.around], most)
    renamed = (
        f"{f' {ARROW} '.join(shown(name) if name else '(root)' for name in pair)}"
        + (f"  ({counted(count, 'node')})" if count > 1 else "")
        for pair, count in difference.renamings().items()
    )
    yield "renamed", first_lines(list(renamed), most)
    found = sorted(difference.hunks, key=lambda h: (-len(h.places), -h.added.total() - h.removed.total()))
    for label, is_removed, is_added in (("replaced", True, True), ("added", False, True), ("removed", True, False)):
        texts = [_hunk_text(difference, h) for h in found if (bool(h.removed), bool(h.added)) == (is_removed, is_added)]
        yield label, first_lines(texts, most)
    yield "changed", first_lines(list(_changed(difference)), most)
    rewired = (
        f"{shown(difference.names(change.i, change.j)[1])}  {_what(detail)}: {_before(detail)} {ARROW} "
        f"{shown(detail.after)}"
        for change in difference.changes
        for detail in change.details
        if detail.what in WIRING
    )
    yield "rewired", first_lines(list(rewired), most)
    yield "value", first_lines(list(_small_values(difference)), most)
    yield "weights", [*_weights(difference), *_not_compared(difference)]
    yield "function", first_lines(list(_functions(difference)), most)


def shown(name: str, most: int = LONGEST_NAME) -> str:
    """Returns `name` without its middle if it has more than `most` characters."""
    text = printable(name)
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def _renamed(old: str, new: str) -> str:
    return shown(old) if old == new else f"{shown(old)} {ARROW} {shown(new)}"


def _end_text(end: EndChange) -> str:
    before, after = end.before, end.after
    if before is None or after is None:
        sign, known = ("+", after) if before is None else ("-", before)
        assert known is not None
        return f"{sign} {shown(known.name)}  {known.spelt}"
    types = before.spelt + (f" {ARROW} {after.spelt}" if before.spelt != after.spelt else "")
    return f"~ {_renamed(before.name, after.name)}  {types}"


def _signature_text(change: SignatureChange) -> str:
    sign = "-" if not change.after else "+" if not change.before else "~"
    if not change.side:
        return f"{sign} {shown(change.key)}"
    tensors = f" {ARROW} ".join(shown(tensor) for tensor in (change.before, change.after) if tensor)
    return f"{sign} {shown(change.key)} {change.side} {shown(change.name)}  {tensors}"


def _hunk_text(difference: Difference, hunks: Hunks) -> str:
    """Returns equal hunks as a line, with the name of a node, if possible not a constant.

    For example ``52 x FusedBatchNormV3 -> AddV2 x 2, Const, ...  e.g. block_1/bn``.
    """
    matching, hunk = difference.matching, hunks.places[0]
    assert matching is not None
    side, nodes = (matching.b, hunk.added) if hunk.added else (matching.a, hunk.removed)
    name = side.names[next((node for node in nodes if not side.is_constant[node]), nodes[0])]
    what = f" {ARROW} ".join(ops(counts) for counts in (hunks.removed, hunks.added) if counts)
    many = len(hunks.places) > 1
    return f"{f'{len(hunks.places):,} x  ' if many else ''}{what}  ({'e.g. ' if many else ''}{shown(name)})"


def _what(detail: Detail) -> str:
    """Returns the name of the property of a detail: that of an attr is its key."""
    names = {"attr": detail.key, "input": f"input {detail.key}", "control": "control input"}
    return names.get(detail.what, detail.what)


def _before(detail: Detail) -> str:
    """Returns the value before, with its present name if a different node has that name after."""
    return shown(detail.before) + (f" (now {shown(detail.now)})" if detail.now else "")


def _grouped(items: Iterable[tuple[Key, Item]]) -> list[tuple[Key, list[Item]]]:
    """Returns the items with the same key, the largest group first."""
    groups: dict[Key, list[Item]] = defaultdict(list)
    for key, item in items:
        groups[key].append(item)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _changed(difference: Difference) -> Iterator[str]:
    """Yields the changes of nodes except their inputs, equal changes in one line."""
    matching = difference.matching
    assert matching is not None or not difference.changes
    keyed = (
        ((matching.b.forms[change.j].op, details), change)
        for change in difference.changes
        if (details := tuple(detail for detail in change.details if detail.what not in WIRING)) and matching
    )
    for (op, details), found in _grouped(keyed):
        name = shown(difference.names(found[0].i, found[0].j)[1])
        texts = (f"{printable(_what(each))}: {shown(each.before)} {ARROW} {shown(each.after)}" for each in details)
        what = ", ".join(texts)
        yield f"{len(found):,} x {op}  {what}  (e.g. {name})" if len(found) > 1 else f"{name} ({op})  {what}"


def _small_values(difference: Difference) -> Iterator[str]:
    """Yields the values that training did not set, equal changes in one line."""
    for text, found in _grouped((_value_text(change), change) for change in difference.values if not change.is_weight):
        name = _renamed(*difference.names(found[0].i, found[0].j))
        yield f"{len(found):,} x Const  {text}  (e.g. {name})" if len(found) > 1 else f"{name}  {text}"


def _value_text(change: ValueChange) -> str:
    """Returns the distance of two values, or both values if they are small."""
    found = change.distance
    if found is None:
        return "unreadable"
    if found.before:
        return f" {ARROW} ".join(", ".join(map(format_element, items)) for items in (found.before, found.after))
    if found.relative is None or found.largest is None:
        return f"{found.differing:,} of {counted(found.count, 'element')} differ"
    return f"by {_number(found.relative)} of the norm, at most {_number(found.largest)}"


def _number(number: float) -> str:
    return "infinity" if number == inf else f"{number:.2g}"


def _weights(difference: Difference) -> Iterator[str]:
    """Yields the number of weights that differ, and their distances."""
    found = [change for change in difference.values if change.is_weight]
    if not found:
        return
    text = f"{len(found):,} of {difference.weights:,} differ"
    far = [(c.distance.relative, c) for c in found if c.distance is not None and c.distance.relative is not None]
    if far:
        far.sort(key=lambda item: item[0])
        span = " to ".join(dict.fromkeys(_number(each[0]) for each in (far[0], far[-1])))
        name = difference.names(far[-1][1].i, far[-1][1].j)[1]
        text += f", by {span} of their norm (L2); most: {shown(name)}"
    yield text


def _not_compared(difference: Difference) -> list[str]:
    count = difference.unread
    return [f"{counted(count, 'variable')} not compared: no checkpoint has the values"] if count else []


def _functions(difference: Difference) -> Iterator[str]:
    yield from (f"- {shown(name)}" for name in difference.functions_removed)
    yield from (f"+ {shown(name)}" for name in difference.functions_added)
    for names, body in difference.functions.items():
        what = "differs (its nodes cannot be compared)" if body.is_opaque else count_text(counts(body))
        yield f"~ {_renamed(*names)}  {what}"
    renamed = [pair for pair in difference.functions_renamed if pair not in difference.functions]
    if renamed:
        yield f"{len(renamed):,} renamed, otherwise equal  (e.g. {_renamed(*renamed[0])})"


def notes(difference: Difference) -> dict[int, str]:
    """Returns the notes for nodes of B on a page, by row: their differences."""
    out: dict[int, list[str]] = defaultdict(list)
    for i, j in difference.renamed:
        out[j].append(f"was {printable(difference.names(i, j)[0])}")
    for change in difference.changes:
        for detail in change.details:
            what = detail.what if detail.what == "control" else _what(detail)
            out[change.j].append(f"{printable(what)}: {_before(detail)} {ARROW} {printable(detail.after)}")
    for value in difference.values:
        out[value.j].append(f"value {_value_text(value)}")
    return {row: "; ".join(texts) for row, texts in out.items()}


# -- for machines ----------------------------------------------------------------------------------------------


def as_json(difference: Difference) -> dict[str, Json]:
    """Returns all differences, including functions; nodes with a partner have both names."""
    out: dict[str, Json] = {"same": difference.is_empty}
    for side, graph in (("before", difference.a), ("after", difference.b)):
        out[side] = {"model": graph.source_name, "nodes": graph.node_count}
    return out | _differences_json(difference)


def _differences_json(difference: Difference) -> dict[str, Json]:
    matching = difference.matching
    names = [side.names for side in (matching.a, matching.b)] if matching is not None else [[], []]
    forms = [side.forms for side in (matching.a, matching.b)] if matching is not None else [[], []]

    def nodes(side: int, numbers: Iterable[int]) -> list[Json]:
        return [{"name": names[side][number], "op": forms[side][number].op} for number in numbers]

    def both(change: Change | ValueChange) -> dict[str, Json]:
        return _pair((names[0][change.i], names[1][change.j]))

    return {
        "counts": counts(difference)._asdict(),
        **{f"{side}s": [to_json(end, "before", "after")
                        for end in difference.ends if end.side == side] for side in ("input", "output")},
        "signatures": [change._asdict() for change in difference.signatures],
        "around": [item.as_json() for item in difference.around],
        "renamed": [_pair((names[0][i], names[1][j])) for i, j in difference.renamed],
        "removed": nodes(0, difference.removed),
        "added": nodes(1, difference.added),
        "hunks": [
            {
                "removed": dict(found.removed),
                "added": dict(found.added),
                "places": [
                    {"removed": [names[0][i] for i in hunk.removed], "added": [names[1][j] for j in hunk.added]}
                    for hunk in found.places
                ],
            }
            for found in difference.hunks
        ],
        "changed": [
            both(change)
            | {"details": [{k: v for k, v in each._asdict().items() if k != "now" or v} for each in change.details]}
            for change in difference.changes
        ],
        "values": [both(change) | _value_json(change) for change in difference.values],
        "weights_compared": difference.weights,
        "variables_not_compared": difference.unread,
        "functions": {
            "removed": difference.functions_removed,
            "added": difference.functions_added,
            "renamed": list(map(_pair, difference.functions_renamed)),
            "changed": [
                _pair(pair) | {"opaque": body.is_opaque} | ({} if body.is_opaque else _differences_json(body))
                for pair, body in difference.functions.items()
            ],
        },
    }  # fmt: skip


def _pair(names: tuple[str, str]) -> dict[str, Json]:
    return {"before": names[0], "after": names[1]}


def _value_json(change: ValueChange) -> dict[str, Json]:
    """Returns the distance of two values; JSON has no infinity."""
    found = {} if change.distance is None else change.distance._asdict()
    numbers = {key: found[key] for key in ("relative", "largest", "differing", "count") if found}
    return {"weight": change.is_weight} | {key: "infinity" if n == inf else n for key, n in numbers.items()}


# -- for pull requests -----------------------------------------------------------------------------------------


def markdown(difference: Difference) -> list[str]:
    """Returns the differences in Markdown, short enough for a comment."""
    out: list[str] = []
    length = 0
    for line in _markdown_lines(difference):
        length += len(line) + 1
        if length > LONGEST:
            return [*out, "", "... and more; JSON has all"]
        out.append(line)
    return out


def _markdown_lines(difference: Difference) -> Iterator[str]:
    a, b = difference.a, difference.b
    names = (f"`{shown(graph.source_name).replace('`', '')}`" for graph in (a, b))
    yield from (MARKER, f"### {' → '.join(names)}", "")
    if difference.is_empty:
        yield "Nothing differs."
        return
    nodes = f"{a.node_count:,} → {b.node_count:,} nodes, {size(a.file_bytes)} → {size(b.file_bytes)}"
    yield from (f"{nodes}: {count_text(counts(difference))}.", "", "| | |", "|---|---|")
    for label, texts in sections(difference, MOST_ROWS):
        for place, text in enumerate(texts):
            escaped = text.replace("\\", "\\\\").replace("<", "&lt;").replace("->", "→")
            for mark in "|*_`[]~@#":
                escaped = escaped.replace(mark, f"\\{mark}")
            yield f"| {label if not place else ''} | {escaped} |"


# -- graphs as text ----------------------------------------------------------------------------------------------

MOST_ELEMENTS = 8
"""The number of elements up to which a constant is printed; larger ones have a digest."""
LONGEST_ELEMENT = 200
"""The largest number of printed characters of an element."""


def graph_lines(graph: Graph) -> Iterator[str]:
    """Yields the nodes of a graph and of its functions, sorted by name: ``name = Op(input, ...) attr=...``.

    A large constant is shown by its shape and a digest. Redundant facts are left out: shapes recorded by an exporter,
    attrs with default values.
    """
    yield from _nodes(graph, "")
    for name in sorted(function.signature.name for function in graph.functions):
        yield f"function {printable(name)}"
        try:
            yield from _nodes(Body(graph, name, lenient=True).graph, "  ")
        except EditError as error:
            yield f"  {printable(error.message)}"


def _nodes(graph: Graph, indent: str) -> Iterator[str]:
    topology, forms = topology_of(graph), forms_in(graph)
    for number in sorted(topology.numbers(), key=topology.name):
        form, name = forms[number], topology.name(number)
        reads = [
            format_input(topology.name(producer), port) if port >= 0 else f"^{topology.name(producer)}"
            for producer, port in topology.reads(number)
        ]
        reads += ["a missing node"] * topology.reads_missing(number)
        inputs = ", ".join(map(printable, reads))
        what = _constant(graph, name, form) if form.op == "Const" else _attrs(form)
        device = f" @{printable(form.device)}" if form.device else ""
        yield f"{indent}{printable(name)} = {printable(form.op)}({inputs}){what}{device}"


def _attrs(form: Form) -> str:
    found = {key: format_attr_bytes(data) for key, data in form.attrs.items()}
    found |= {key: ",".join(names) for key, names in form.functions.items()}
    kind = f" {typed(*form.tensor)}" if form.tensor is not None else ""
    return kind + "".join(f" {printable(key)}={printable(text)}" for key, text in sorted(found.items()))


def _constant(graph: Graph, name: str, form: Form) -> str:
    kind = typed(*form.tensor) if form.tensor is not None else "unreadable"
    try:
        values = values_of(graph[name])
        if values.count <= MOST_ELEMENTS:
            return (
                f" {kind} {', '.join(printable(str(item))[:LONGEST_ELEMENT] for item in values.first(MOST_ELEMENTS))}"
            )
    except InputError:
        pass  # its digest tells as much
    digest = hashlib.blake2b(repr(form.content).encode(), digest_size=6).hexdigest()
    return f" {kind} #{digest}"
