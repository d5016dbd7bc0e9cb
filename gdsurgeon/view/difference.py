"""What diff prints of two graphs, for people."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from textwrap import wrap
from typing import NamedTuple

from gdsurgeon.analysis.queries.attr_text import format_element
from gdsurgeon.analysis.queries.signature import TensorInfo
from gdsurgeon.compare.changes import WIRING, Change, Detail, EndChange, SignatureChange
from gdsurgeon.compare.difference import Difference, Hunk, Hunks, ValueChange
from gdsurgeon.errors import Json, printable
from gdsurgeon.text import counted, first_lines, ops, size

WIDTH = 80
LONGEST_NAME = 60
"""Characters of a name that are shown: of a longer one the beginning and the end."""
LONGEST_PATH = 46
"""The same of the path of a model, behind which its size stands."""
MOST_LINES = 8
"""The maximum number of lines for each kind of difference; the others are counted."""
ARROW = "->"


class Counts(NamedTuple):
    """How many nodes are what; partners that are only renamed are among those that are the same."""

    same: int
    renamed: int
    changed: int
    rewired: int
    values: int
    added: int
    removed: int


def counts(difference: Difference) -> Counts:
    """How many nodes of DIFFERENCE are what."""
    matching = difference.matching
    if matching is None:
        return Counts(difference.a.node_count, 0, 0, 0, 0, 0, 0)
    rewired = sum(change.is_rewired_only for change in difference.changes)
    touched = {change.i for change in difference.changes} | {change.i for change in difference.values}
    same = sum(1 for _ in matching.pairs()) - len(touched)
    changed = len(difference.changes) - rewired
    values = len(difference.values)
    return Counts(
        same, len(difference.renamed), changed, rewired, values, len(difference.added), len(difference.removed)
    )


def count_text(found: Counts) -> str:
    """``2,710 equal, 12 renamed, 3 changed, 7 added``."""
    parts = [f"{found.same:,} equal"]
    labels = (
        ("renamed", found.renamed),
        ("changed", found.changed),
        ("rewired", found.rewired),
        ("with a different value", found.values),
        ("added", found.added),
        ("removed", found.removed),
    )
    return ", ".join(parts + [f"{count:,} {label}" for label, count in labels if count])


def lines(difference: Difference, *, short: bool = False, whole: bool = False) -> list[str]:
    """The two files, the number of nodes that differ, and the differences.

    Args:
        difference: of the two files.
        short: without the differences.
        whole: all of them, instead of `MOST_LINES` of each kind.
    """
    a, b = difference.a, difference.b
    out = [
        f"{sign} {shown(graph.source_name, LONGEST_PATH)}  {size(graph.file_bytes)}, "
        f"{counted(graph.node_count, 'node')}"
        for sign, graph in (("---", a), ("+++", b))
    ]
    if difference.is_empty:
        what = "identical bytes" if difference.matching is None else "no differences"
        notes = [*wrapped("note", [note for note in [_unread(difference)] if note])]
        return [*out, f"  {what}", *notes]
    out += wrapped("nodes", [count_text(counts(difference))])
    if short:
        return out
    for label, texts in sections(difference, sys.maxsize if whole else MOST_LINES):
        out += wrapped(label, texts)
    return out


def wrapped(label: str, texts: Iterable[str]) -> Iterator[str]:
    """TEXTS under LABEL, which stands before the first."""
    for place, text in enumerate(texts):
        head = f"  {label if not place else '':<10}"
        yield from wrap(
            text, WIDTH, initial_indent=head, subsequent_indent=" " * 16, break_long_words=False, break_on_hyphens=False
        )


def sections(difference: Difference, most: int = MOST_LINES) -> Iterator[tuple[str, Sequence[str]]]:
    """What became of the nodes, by label; MOST lines each."""
    for side in ("input", "output"):
        ends = [end_text(end) for end in difference.ends if end.side == side]
        yield side, first_lines(ends, most)
    yield "signature", first_lines([signature_text(change) for change in difference.signatures], most)
    yield "metadata", first_lines([item.text for item in difference.around], most)
    yield "renamed", first_lines([_renaming(*item) for item in difference.renamings().items()], most)
    found = sorted(difference.hunks, key=lambda h: (-len(h.places), -h.added.total() - h.removed.total()))
    for label in ("replaced", "added", "removed"):
        yield label, first_lines([hunk_text(difference, hunks) for hunks in found if _label(hunks) == label], most)
    yield "changed", first_lines(list(_changed(difference)), most)
    yield "rewired", first_lines(list(_rewired(difference)), most)
    yield "value", first_lines(list(_small_values(difference)), most)
    weights = _weights(difference)
    yield "weights", [text for text in (weights, _unread(difference)) if text]
    yield "function", first_lines(list(_functions(difference)), most)


def shown(name: str, most: int = LONGEST_NAME) -> str:
    """NAME for people: of one of more than MOST characters the beginning and the end."""
    text = printable(name)
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def _renaming(pair: tuple[str, str], count: int) -> str:
    old, new = (shown(name) if name else "(root)" for name in pair)
    return f"{old} {ARROW} {new}" + (f"  ({counted(count, 'node')})" if count > 1 else "")


def end_text(end: EndChange) -> str:
    """An input or output that differs."""
    before, after = end.before, end.after
    if before is None or after is None:
        known = before or after
        assert known is not None
        return f"{'-' if after is None else '+'} {_tensor(known)}"
    names = shown(before.name) + (f" {ARROW} {shown(after.name)}" if before.name != after.name else "")
    types = before.spelt + (f" {ARROW} {after.spelt}" if before.spelt != after.spelt else "")
    return f"~ {names}  {types}"


def _tensor(info: TensorInfo) -> str:
    return f"{shown(info.name)}  {info.spelt}"


def signature_text(change: SignatureChange) -> str:
    """What differs of a signature."""
    if not change.side:
        return f"{'-' if not change.after else '+'} {shown(change.key)}"
    what = f"{shown(change.key)} {change.side} {shown(change.name)}"
    if not change.before or not change.after:
        return f"{'-' if not change.after else '+'} {what}  {shown(change.before or change.after)}"
    return f"~ {what}  {shown(change.before)} {ARROW} {shown(change.after)}"


def _label(hunks: Hunks) -> str:
    return "replaced" if hunks.added and hunks.removed else "added" if hunks.added else "removed"


def hunk_text(difference: Difference, hunks: Hunks) -> str:
    """``52 x FusedBatchNormV3 -> AddV2 x 2, Const, ...  e.g. block_1/bn``."""
    times = f"{len(hunks.places):,} x  " if len(hunks.places) > 1 else ""
    sides = [ops(counts) for counts in (hunks.removed, hunks.added) if counts]
    example = "e.g. " if times else ""
    return f"{times}{f' {ARROW} '.join(sides)}  ({example}{shown(hunk_name(difference, hunks))})"


def hunk_name(difference: Difference, hunks: Hunks) -> str:
    """The name of a node of the first of HUNKS: one that is no constant, where there is one."""
    matching, hunk = difference.matching, hunks.places[0]
    assert matching is not None
    side, nodes = (matching.b, hunk.added) if hunk.added else (matching.a, hunk.removed)
    return side.names[next((node for node in nodes if not side.is_constant[node]), nodes[0])]


def detail_text(detail: Detail) -> str:
    """``strides: [1,1,1,1] -> [1,2,2,1]``."""
    what = {"attr": detail.key, "shape": "shape", "dtype": "dtype"}.get(detail.what, detail.what)
    return f"{printable(what)}: {shown(detail.before)} {ARROW} {shown(detail.after)}"


def _changed(difference: Difference) -> Iterator[str]:
    """What is different about nodes other than what they read, that which is so of many first."""
    matching = difference.matching
    groups: dict[tuple[str, tuple[Detail, ...]], list[Change]] = defaultdict(list)
    for change in difference.changes:
        details = tuple(detail for detail in change.details if detail.what not in WIRING)
        if details and matching is not None:
            groups[matching.b.forms[change.j].op, details].append(change)
    for (op, details), found in sorted(groups.items(), key=lambda item: -len(item[1])):
        name = shown(difference.names(found[0].i, found[0].j)[1])
        what = ", ".join(map(detail_text, details))
        yield f"{len(found):,} x {op}  {what}  (e.g. {name})" if len(found) > 1 else f"{name} ({op})  {what}"


def _rewired(difference: Difference) -> Iterator[str]:
    for change in difference.changes:
        for detail in change.details:
            if detail.what in WIRING:
                name = shown(difference.names(change.i, change.j)[1])
                what = f"input {detail.key}" if detail.what == "input" else "control input"
                yield f"{name}  {what}: {_before(detail)} {ARROW} {shown(detail.after)}"


def _before(detail: Detail) -> str:
    """The tensor that was read, with its present name if a different node has the old one."""
    return shown(detail.before) + (f" (now {shown(detail.now)})" if detail.now else "")


def _small_values(difference: Difference) -> Iterator[str]:
    """Constants that training has not set, those that have become the same together."""
    groups: dict[str, list[ValueChange]] = defaultdict(list)
    for change in difference.values:
        if not change.is_weight:
            groups[value_text(change)].append(change)
    for text, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        old, new = difference.names(found[0].i, found[0].j)
        name = shown(new) if old == new else f"{shown(old)} {ARROW} {shown(new)}"
        yield f"{len(found):,} x Const  {text}  (e.g. {name})" if len(found) > 1 else f"{name}  {text}"


def value_text(change: ValueChange) -> str:
    """How far apart two values are, or both where they are small."""
    found = change.distance
    if found is None:
        return "unreadable"
    if found.before:
        before, after = (", ".join(map(format_element, items)) for items in (found.before, found.after))
        return f"{before} {ARROW} {after}"
    if found.relative is None or found.largest is None:
        return f"{found.differing:,} of {counted(found.count, 'element')} differ"
    return f"by {_number(found.relative)} of the norm, at most {_number(found.largest)}"


def _number(number: float) -> str:
    return "infinity" if number == inf else f"{number:.2g}"


def _weights(difference: Difference) -> str:
    """How many weights differ, and by how much."""
    found = [change for change in difference.values if change.is_weight]
    if not found:
        return ""
    text = f"{len(found):,} of {difference.weights:,} differ"
    far = [(c.distance.relative, c) for c in found if c.distance is not None and c.distance.relative is not None]
    if not far:
        return text
    far.sort(key=lambda item: item[0])
    low, high = _number(far[0][0]), _number(far[-1][0])
    span = low if low == high else f"{low} to {high}"
    last = far[-1][1]
    return f"{text}, by {span} of their norm (L2); most: {shown(difference.names(last.i, last.j)[1])}"


def _unread(difference: Difference) -> str:
    count = difference.unread
    return f"{counted(count, 'variable')} not compared: no checkpoint has the values" if count else ""


def _functions(difference: Difference) -> Iterator[str]:
    for name in difference.functions_removed:
        yield f"- {shown(name)}"
    for name in difference.functions_added:
        yield f"+ {shown(name)}"
    for (name, other), body in difference.functions.items():
        names = shown(name) + (f" {ARROW} {shown(other)}" if name != other else "")
        what = "differs (its nodes cannot be compared)" if body.is_opaque else count_text(counts(body))
        yield f"~ {names}  {what}"
    renamed = [pair for pair in difference.functions_renamed if pair not in difference.functions]
    if renamed:
        old, new = renamed[0]
        yield f"{len(renamed):,} renamed, otherwise equal  (e.g. {shown(old)} {ARROW} {shown(new)})"


def notes(difference: Difference) -> dict[int, str]:
    """Returns the notes for nodes of B, by row: their differences."""
    out: dict[int, list[str]] = defaultdict(list)
    for i, j in difference.renamed:
        out[j].append(f"was {printable(difference.names(i, j)[0])}")
    for change in difference.changes:
        for detail in change.details:
            what = f"input {detail.key}" if detail.what == "input" else detail.what
            name = detail.key if detail.what == "attr" else what
            out[change.j].append(f"{printable(name)}: {_before(detail)} {ARROW} {printable(detail.after)}")
    for value in difference.values:
        out[value.j].append(f"value {value_text(value)}")
    return {row: "; ".join(texts) for row, texts in out.items()}


def as_json(difference: Difference) -> dict[str, Json]:
    """DIFFERENCE, functions included; of a node that has a partner both names are given."""
    out: dict[str, Json] = {
        "same": difference.is_empty,
        "before": _graph(difference.a.source_name, difference.a.node_count),
        "after": _graph(difference.b.source_name, difference.b.node_count),
    }
    return out | _found(difference)


def _graph(name: str, nodes: int) -> dict[str, Json]:
    return {"model": name, "nodes": nodes}


def _found(difference: Difference) -> dict[str, Json]:
    pairs = [difference.names(i, j) for i, j in difference.renamed]
    return {
        "counts": counts(difference)._asdict(),
        "inputs": [_end(end) for end in difference.ends if end.side == "input"],
        "outputs": [_end(end) for end in difference.ends if end.side == "output"],
        "signatures": [change._asdict() for change in difference.signatures],
        "around": [item.as_json() for item in difference.around],
        "renamed": [{"before": old, "after": new} for old, new in pairs],
        "removed": _names(difference, difference.removed, after=False),
        "added": _names(difference, difference.added, after=True),
        "hunks": [
            {
                "removed": dict(found.removed),
                "added": dict(found.added),
                "places": [_hunk(difference, place) for place in found.places],
            }
            for found in difference.hunks
        ],
        "changed": [_change(difference, change) for change in difference.changes],
        "values": [_value(difference, change) for change in difference.values],
        "weights_compared": difference.weights,
        "variables_not_compared": difference.unread,
        "functions": {
            "removed": difference.functions_removed,
            "added": difference.functions_added,
            "renamed": [{"before": old, "after": new} for old, new in difference.functions_renamed],
            "changed": [
                {"before": old, "after": new, "opaque": body.is_opaque, **({} if body.is_opaque else _found(body))}
                for (old, new), body in difference.functions.items()
            ],
        },
    }


def _end(end: EndChange) -> dict[str, Json]:
    return {
        side: info.as_json() if info is not None else None
        for side, info in (("before", end.before), ("after", end.after))
    }


def _names(difference: Difference, nodes: Iterable[int], *, after: bool) -> list[dict[str, Json]]:
    matching = difference.matching
    if matching is None:
        return []
    side = matching.b if after else matching.a
    return [{"name": side.names[node], "op": side.forms[node].op} for node in nodes]


def _hunk(difference: Difference, hunk: Hunk) -> dict[str, Json]:
    matching = difference.matching
    assert matching is not None
    return {
        "removed": [matching.a.names[i] for i in hunk.removed],
        "added": [matching.b.names[j] for j in hunk.added],
    }


def _change(difference: Difference, change: Change) -> dict[str, Json]:
    before, after = difference.names(change.i, change.j)
    return {"before": before, "after": after, "details": [_detail(detail) for detail in change.details]}


def _detail(detail: Detail) -> dict[str, Json]:
    """Returns a detail; `now` only if the name before belongs to a different node after."""
    out: dict[str, Json] = detail._asdict()
    return out if detail.now else {key: value for key, value in out.items() if key != "now"}


def _value(difference: Difference, change: ValueChange) -> dict[str, Json]:
    before, after = difference.names(change.i, change.j)
    out: dict[str, Json] = {"before": before, "after": after, "weight": change.is_weight}
    if change.distance is not None:
        found = change.distance
        out |= {
            "relative": _finite(found.relative),
            "largest": _finite(found.largest),
            "differing": found.differing,
            "count": found.count,
        }
    return out


def _finite(number: float | None) -> Json:
    """NUMBER as JSON can have it."""
    return None if number is None else number if abs(number) < float("inf") else "infinity"


MARKER = "<!-- gdsurgeon diff -->"
"""The first line: by it a script finds the comment again that it wrote before."""
MOST_ROWS = 20
LONGEST = 60_000
"""Characters: a comment may have 65,536."""


def markdown(difference: Difference) -> list[str]:
    """DIFFERENCE in Markdown, short enough for a comment."""
    out: list[str] = []
    length = 0
    for line in _markdown_lines(difference):
        length += len(line) + 1
        if length > LONGEST:
            return [*out, "", "... and more; JSON has all"]
        out.append(line)
    return out


def _markdown_lines(difference: Difference) -> Iterator[str]:
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
    for label, texts in sections(difference, MOST_ROWS):
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
