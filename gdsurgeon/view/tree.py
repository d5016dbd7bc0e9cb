"""An outline for people: the scopes of a model as a tree, with what is in each; and as JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.errors import Json, middle_cut, printable
from gdsurgeon.text import abbreviated, ops
from gdsurgeon.view.content import short_tensor
from gdsurgeon.view.visible import Item

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.text import Text

ENOUGH = 45
"""The maximum number of lines of a tree, if possible, when no depth is given."""
LEAST_FOR_NAMES = 20
"""The minimum number of columns for names; other columns are left out if needed."""
USUAL_WIDTH = 80
"""Columns that a tree takes on a terminal that has them; more it takes only for long names."""


class Limits(NamedTuple):
    """How much of a tree is shown.

    Attributes:
        alone: nodes in a row that have a line each; more are counted by op.
        beside: lines next to each other.
    """

    alone: int
    beside: int


SCREEN, PAGE, ALL = Limits(2, ENOUGH), Limits(20, 200), Limits(sys.maxsize, sys.maxsize)
"""The depth of the tree by default, with a given depth, and with a request for everything."""


class Branch(NamedTuple):
    """A line of the tree.

    Attributes:
        items: scopes of the same structure, or nodes, one after the other.
        inner: the lines of what is seen in the first of them.
        is_rest: whether it stands for all hidden lines.
    """

    items: Sequence[Item]
    inner: Sequence[Branch]
    is_rest: bool = False


def close(head: Item, scopes: Sequence[str]) -> None:
    """Closes those of SCOPES that are open in HEAD, and are not HEAD itself."""
    for item in head.all() if scopes else ():
        if item is not head and item.row < 0 and item.path in scopes:
            item.items = None


def folded(items: Sequence[Item], limits: Limits = SCREEN) -> list[Branch]:
    """ITEMS as lines: neighbours of the same structure are one line, and so are more closed nodes than LIMITS allow."""
    out: list[Branch] = []
    for key, group in groupby(items, key=_fold):
        found = list(group)
        if (key is None and len(found) > limits.alone) or isinstance(key, int):
            out.append(Branch(found, folded(found[0].items or (), limits)))
        else:
            out += (Branch([item], folded(item.items or (), limits)) for item in found)
    if len(out) > limits.beside:
        rest = [item for branch in out[limits.beside - 1 :] for item in branch.items]
        out[limits.beside - 1 :] = [Branch(rest, (), is_rest=True)]
    return out


def _fold(item: Item) -> int | str | None:
    """What neighbours have in common that become one line: their kind, or (None) that they are closed nodes."""
    if item.row >= 0:
        return None if item.items is None else item.path
    return item.kind if item.kind >= 0 else item.path


def count(lines: Sequence[Branch]) -> int:
    """How many lines there are, with those within."""
    return sum(1 + count(line.inner) for line in lines)


def table(head: Item, lines: Sequence[Branch], *, width: int, colour: bool, ascii_only: bool) -> str:
    """The tree of LINES below HEAD as a table that is at most WIDTH columns wide.

    Columns that do not fit next to the names are left out, the last ones first.
    """
    from rich.console import Console
    from rich.table import Table

    rows = [("", Branch([head], ())), *_walk(lines, "", ascii_only)]
    cells = [(*_numbers(line.items), short_tensor(line.items[-1].output) if guide else "") for guide, line in rows]
    widths = [max(len(text) for text in column) for column in zip(HEADS, *cells, strict=True)]
    widths[-1] = min(widths[-1], width // 3)
    while len(widths) > 1 and width - sum(widths) - 2 * len(widths) < LEAST_FOR_NAMES:
        widths.pop()
    beside = sum(widths) + 2 * len(widths)
    longest = max(len(guide) + _label(line, width).cell_len + len(_broken(line)) for guide, line in rows)
    names = max(1, min(width, max(USUAL_WIDTH, longest + beside)) - beside)
    found = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    found.add_column("", no_wrap=True, width=names)
    for name, size in zip(HEADS, widths, strict=False):
        justify: JustifyMethod = "left" if name == HEADS[-1] else "right"
        found.add_column(name, no_wrap=True, overflow="ellipsis", width=size, justify=justify)
    for (guide, line), texts in zip(rows, cells, strict=True):
        broken = _broken(line)
        label = _text(guide, "dim").append_text(_label(line, names - len(guide) - len(broken))).append(broken, "red")
        found.add_row(label, *map(_plain, texts[: len(widths)]))
    sink = StringIO()
    Console(file=sink, width=width, force_terminal=colour, color_system="standard" if colour else None).print(found)
    return "\n".join(row.rstrip() for row in sink.getvalue().splitlines())


HEADS = ("nodes", "params", "FLOPs", "output")


def _walk(lines: Sequence[Branch], begin: str, ascii_only: bool) -> Iterator[tuple[str, Branch]]:
    """All lines, each with what leads to it from those above."""
    branch, last, through = ("|- ", "`- ", "|  ") if ascii_only else ("├─ ", "└─ ", "│  ")
    for number, line in enumerate(lines, 1):
        is_last = number == len(lines)
        yield begin + (last if is_last else branch), line
        yield from _walk(line.inner, begin + ("   " if is_last else through), ascii_only)


def _label(line: Branch, width: int) -> Text:
    """What a line shows, WIDTH columns at most."""
    first, last = line.items[0], line.items[-1]
    if line.is_rest:
        return _text(f"... {len(line.items):,} more", "dim")
    if first.row >= 0:
        if len(line.items) > 1:
            return _text(_ops(line.items, width), "italic")
        op = "" if first.name == first.op else f"  {printable(first.op)}"
        return _text(_cut(printable(first.name), width - len(op)), "").append(op, "italic")
    if len(line.items) == 1:
        return _text(_cut(printable(first.name), width), "bold")
    times = f" x {len(line.items)}"
    names = f"{printable(first.name)} .. {printable(_differing(first.name, last.name))}"
    return _text(_cut(names, width - len(times)), "bold").append(times, "cyan")


def _broken(line: Branch) -> str:
    """How many nodes of a line something is wrong with; '' where nothing is."""
    count = sum(item.faults for item in line.items)
    if not count:
        return ""
    return "  broken" if len(line.items) == 1 and line.items[0].row >= 0 else f"  {count:,} broken"


def _ops(items: Sequence[Item], width: int) -> str:
    """The ops of ITEMS, as many of them as fit."""
    counts = Counter(item.op for item in items)
    texts = (ops(counts, most) for most in range(6, 0, -1))
    return next((text for text in texts if len(text) <= width), f"{len(items):,} nodes")


def _differing(first: str, last: str) -> str:
    """Returns `last` without the words that `first` also begins with: ``block4_*`` next to ``conv3_block2_*``."""
    begin = first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]
    return last[max(begin.rfind("_"), begin.rfind("/")) + 1 :]


def _cut(text: str, width: int) -> str:
    """TEXT with what is too much for WIDTH columns left out of its middle, where that leaves something of it."""
    return text if width < 5 else middle_cut(text, width)


def _numbers(items: Sequence[Item]) -> list[str]:
    nodes, parameters = sum(item.nodes for item in items), sum(item.parameters for item in items)
    flops = sum(item.flops for item in items)
    return [f"{nodes:,}", *(abbreviated(number) if number else "" for number in (parameters, flops))]


def _plain(text: str) -> Text:
    return _text(text, "")


def _text(text: str, style: str) -> Text:
    """TEXT as it is: nothing in it is markup."""
    from rich.text import Text

    return Text(text, style)


def as_json(head: Item) -> dict[str, Json]:
    """HEAD and all that is seen in it, nothing folded."""
    found: dict[str, Json] = {"name": head.path, "op": head.op} if head.row >= 0 else {"scope": head.path}
    found |= {
        "nodes": head.nodes,
        "parameters": head.parameters,
        "flops": head.flops,
        "output": head.output or None,
        "faults": head.faults,
    }
    if head.row < 0:
        found["structure"] = head.kind if head.kind >= 0 else None
        found["group"] = head.scope is not None and head.scope.is_group
    if head.items is not None:
        found["items"] = [as_json(item) for item in head.items]
    return found
