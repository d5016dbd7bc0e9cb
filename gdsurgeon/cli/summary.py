"""The layout of a summary: every entry with all names, or a few lines that fit a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby, takewhile

from gdsurgeon.errors import middle_cut, printable
from gdsurgeon.text import Entry, and_more, before_text

WIDTH = 160
"""Characters of the longest line of a brief summary."""

HEIGHT = 12
"""Lines of the longest brief summary, with its warnings."""

FEW = 3
"""Names, or entries of one label, that a brief summary shows."""

MANY = 8
"""Entries of one label that are shown if the number of lines has no bound."""

LONG_NAMES = (60, 40, 28, 18, 14)
"""Characters to which long names are shortened, if the width of a line requires it."""

PROVEN = "proven"

FIRST_LEFT_OUT = (
    *("fed", "called", "bytes", "also compared", "random", "line", "loader", "kept", "recomputed"),
    *("returned", "passes", "ops", "nodes", "note"),
)  # fmt: skip
"""Labels that a brief summary without room for all leaves out first; the entries after them go from the last on."""


def whole(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Every entry as (label, text). Names that do not fit in the line follow, one a line."""
    out = []
    for label, text, names in entries:
        names = [*map(printable, names)]
        line = f"{printable(text)}: {', '.join(names)}" if names else printable(text)
        if len(names) < 2 or len(line) <= WIDTH:
            out.append((label, line.removeprefix(": ")))
        else:
            out += [(label, f"{printable(text)}:"), *(("", f"  {name}") for name in names)]
    return out


def first(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """The entries as lines (label, text), of many entries of one label the first, and the number of the others."""
    return [line for _, group in groupby(entries, lambda entry: entry.label) for line in _each([*group], MANY)]


def brief(entries: Sequence[Entry], height: int = HEIGHT) -> list[tuple[str, str]]:
    """The entries as at most `height` lines (label, text), entries of one label in one line if there is no room.

    The proof and measured differences are never left out. If other labels are, the last line names them.
    """
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.label, []).append(entry)
    lines = {label: [(label, _together(group, _room(label)))] for label, group in groups.items()}
    if PROVEN in groups:
        lines[PROVEN] = _each(groups[PROVEN], FEW)
    spare = height - sum(map(len, lines.values()))
    left_out = []
    if spare < 0:
        others = [label for label in reversed(groups) if label not in (*FIRST_LEFT_OUT, PROVEN, "measured")]
        left_out = [*(label for label in FIRST_LEFT_OUT if label in groups), *others][: 1 - spare]
        lines = {label: group for label, group in lines.items() if label not in left_out}
        lines["more"] = [("more", fitted(f"-v also shows {', '.join(left_out)}", _room("more")))]
    for label in lines:
        group = groups.get(label, [])
        if label != PROVEN and 0 < len(group) - 1 <= min(spare, FEW - 1):
            spare -= len(group) - 1
            lines[label] = _each(group, FEW)
    return [line for group in lines.values() for line in group]


def _each(group: Sequence[Entry], most: int) -> list[tuple[str, str]]:
    """Entries of one label, a line each; of more than `most` the first, and the number of the others."""
    shown = group if len(group) <= most else group[: most - 1]
    lines = [(entry.label, _shortest(entry, _room(entry.label))) for entry in shown]
    return lines + [(group[0].label, and_more(len(group) - len(shown)).strip())] * (len(shown) < len(group))


def _room(label: str) -> int:
    return WIDTH - len(before_text(label))


def _together(group: Sequence[Entry], room: int) -> str:
    """The first entries of a group in one line, and the number of the others."""
    for most in range(min(FEW, len(group)), 0, -1):
        tail = f"; {and_more(len(group) - most).strip()}" if len(group) > most else ""
        line = "; ".join(_shortest(entry, room) for entry in group[:most])
        if len(line) + len(tail) <= room:
            break
    return fitted(line, room - len(tail)) + tail


def _shortest(entry: Entry, room: int) -> str:
    """An entry in at most `room` characters: the first names, and for many names their common scope."""
    line, names = printable(entry.text), [*map(printable, entry.names)]
    if not names:
        return fitted(line, room)
    scope = common_scope(names) if len(names) > FEW else ""
    head = f"{line} in {scope}: " if scope else f"{line}: " if line else ""
    for most in range(min(FEW, len(names)), 0, -1):
        shown = ", ".join(name[len(scope) :] for name in names[:most])
        line = head + shown + and_more(len(names) - most)
        if len(_with_short_names(line, LONG_NAMES[1])) <= room:
            break
    return fitted(line, room)


def common_scope(names: Sequence[str]) -> str:
    """The innermost scope that contains all `names`, with its slash; '' if no scope does or a name has spaces."""
    if any(" " in name for name in names):
        return ""
    first, last = (name.split("/")[:-1] for name in (min(names), max(names)))
    return "".join(f"{part}/" for part, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))


def fitted(text: str, most: int = WIDTH) -> str:
    """The text in at most `most` characters: long names lose their middle, then the whole text does."""
    for longest in LONG_NAMES:
        text = _with_short_names(text, longest) if len(text) > most else text
    return middle_cut(text, most)


def _with_short_names(text: str, longest: int) -> str:
    return re.sub(rf"\S{{{longest + 1},}}", lambda found: middle_cut(found[0], longest), text)
