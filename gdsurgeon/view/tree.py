"""The scopes of a model as a tree, as text and as JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.errors import EditError, Json, Line, middle_cut, printable, quoted
from gdsurgeon.text import abbreviated, nearest, ops, suggestion
from gdsurgeon.values import Data
from gdsurgeon.view.content import short_tensor
from gdsurgeon.view.outline import Outline, Outlines
from gdsurgeon.view.report import to_json
from gdsurgeon.view.scopes import Scope

if TYPE_CHECKING:
    from rich.console import JustifyMethod, OverflowMethod
    from rich.text import Text

ENOUGH = 45
"""The maximum number of lines of a tree, if possible, when no depth is given."""
LEAST_FOR_NAMES = 20
"""The minimum number of columns for names; other columns are left out if needed."""
USUAL_WIDTH = 80
"""Columns that a tree takes on a terminal that has them; more it takes only for long names."""


class Limits(NamedTuple):
    """The maximum size of a tree.

    Attributes:
        single: consecutive nodes that have one line each; more nodes are counted by op.
        lines: lines of one scope.
    """

    single: int
    lines: int


SCREEN, PAGE, ALL = Limits(2, ENOUGH), Limits(20, 200), Limits(sys.maxsize, sys.maxsize)
"""The depth of the tree by default, with a given depth, and with a request for everything."""


class Branch(NamedTuple):
    """A line of the tree.

    Attributes:
        items: consecutive scopes of the same structure, or nodes.
        inner: the lines of the visible items in the first of them.
        is_rest: whether it represents all hidden lines.
    """

    items: Sequence[Item]
    inner: Sequence[Branch]
    is_rest: bool = False


def close(head: Item, scopes: Sequence[str]) -> None:
    """Closes the open scopes with these names, except `head`."""
    for item in head.all() if scopes else ():
        if item is not head and item.row < 0 and item.path in scopes:
            item.items = None


def folded(items: Sequence[Item], limits: Limits = SCREEN) -> list[Branch]:
    """Returns lines of items; neighbors of the same structure, and closed nodes beyond `limits`, share a line."""
    out: list[Branch] = []
    for key, group in groupby(items, key=_fold):
        found = list(group)
        if (key is None and len(found) > limits.single) or isinstance(key, int):
            out.append(Branch(found, folded(found[0].items or (), limits)))
        else:
            out += (Branch([item], folded(item.items or (), limits)) for item in found)
    if len(out) > limits.lines:
        rest = [item for branch in out[limits.lines - 1 :] for item in branch.items]
        out[limits.lines - 1 :] = [Branch(rest, (), is_rest=True)]
    return out


def _fold(item: Item) -> int | str | None:
    """Returns the key of items that share a line with neighbors: their kind, or None for closed nodes."""
    if item.row >= 0:
        return None if item.items is None else item.path
    return item.kind if item.kind >= 0 else item.path


def count(lines: Sequence[Branch]) -> int:
    """Returns the number of lines, including nested lines."""
    return sum(1 + count(line.inner) for line in lines)


def table(head: Item, lines: Sequence[Branch], *, width: int, colour: bool, ascii_only: bool) -> str:
    """Returns the tree as a table that is at most `width` columns wide.

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
    others = sum(widths) + 2 * len(widths)
    longest = max(len(guide) + _label(line, width).cell_len + len(_broken(line)) for guide, line in rows)
    names = max(1, min(width, max(USUAL_WIDTH, longest + others)) - others)
    found = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    overflow: OverflowMethod = "crop" if ascii_only else "ellipsis"  # an ellipsis is not ASCII
    found.add_column("", no_wrap=True, overflow=overflow, width=names)
    for name, size in zip(HEADS, widths, strict=False):
        justify: JustifyMethod = "left" if name == HEADS[-1] else "right"
        found.add_column(name, no_wrap=True, overflow=overflow, width=size, justify=justify)
    for (guide, line), texts in zip(rows, cells, strict=True):
        broken = _broken(line)
        label = _text(guide, "dim").append_text(_label(line, names - len(guide) - len(broken))).append(broken, "red")
        found.add_row(label, *map(_text, texts[: len(widths)]))
    sink = StringIO()
    Console(file=sink, width=width, force_terminal=colour, color_system="standard" if colour else None).print(found)
    return "\n".join(row.rstrip() for row in sink.getvalue().splitlines())


HEADS = ("nodes", "params", "FLOPs", "output")


def _walk(lines: Sequence[Branch], begin: str, ascii_only: bool) -> Iterator[tuple[str, Branch]]:
    """Yields all lines with their guides."""
    branch, last, through = ("|- ", "`- ", "|  ") if ascii_only else ("├─ ", "└─ ", "│  ")
    for number, line in enumerate(lines, 1):
        is_last = number == len(lines)
        yield begin + (last if is_last else branch), line
        yield from _walk(line.inner, begin + ("   " if is_last else through), ascii_only)


def _label(line: Branch, width: int) -> Text:
    """Returns the label of a line in at most `width` columns."""
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
    """Returns the number of broken nodes of a line; '' without faults."""
    count = sum(item.faults for item in line.items)
    if not count:
        return ""
    return "  broken" if len(line.items) == 1 and line.items[0].row >= 0 else f"  {count:,} broken"


def _ops(items: Sequence[Item], width: int) -> str:
    """Returns as many of the ops as fit."""
    counts = Counter(item.op for item in items)
    texts = (ops(counts, most) for most in range(6, 0, -1))
    return next((text for text in texts if len(text) <= width), f"{len(items):,} nodes")


def _differing(first: str, last: str) -> str:
    """Returns `last` without the words that `first` also begins with: ``block4_*`` next to ``conv3_block2_*``."""
    begin = first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]
    return last[max(begin.rfind("_"), begin.rfind("/")) + 1 :]


def _cut(text: str, width: int) -> str:
    """Returns `text` without its middle if it is wider than `width`."""
    return text if width < 5 else middle_cut(text, width)


def _numbers(items: Sequence[Item]) -> list[str]:
    nodes, parameters = sum(item.nodes for item in items), sum(item.parameters for item in items)
    flops = sum(item.flops for item in items)
    return [f"{nodes:,}", *(abbreviated(number) if number else "" for number in (parameters, flops))]


def _text(text: str, style: str = "") -> Text:
    """Returns `text` without markup."""
    from rich.text import Text

    return Text(text, style)


def as_json(head: Item) -> dict[str, Json]:
    """Returns an item and all its visible items as JSON."""
    found: dict[str, Json] = {"name": head.path, "op": head.op} if head.row >= 0 else {"scope": head.path}
    found |= to_json(head, "nodes", "parameters", "flops", "output", "faults")
    if head.row < 0:
        found["structure"] = head.kind if head.kind >= 0 else None
        found["group"] = head.scope is not None and head.scope.is_group
    if head.items is not None:
        found["items"] = [as_json(item) for item in head.items]
    return found


@dataclass(eq=False, repr=False)
class Item(Data):
    """A visible scope or node.

    Attributes:
        outline: of the graph or body that it belongs to.
        name: its name among its siblings. A scope with only one inner scope is joined with that scope:
            ``FeatureExtractor/MobilenetV2``.
        scope: the scope; None for a node.
        row: the node; -1 for a scope. A scope with one node that is not a weight is shown as that node.
        items: its visible items, including the function of a call, in the order of the graph; None if it is closed.
        op: the op of a node; '' for a scope.
        output: dtype and shape of its output; '' without output.
        path: the name of the node, or of the scope.
        kind: equal for scopes of the same structure; -1 without a kind.
        nodes, parameters, flops, faults: totals, as in a scope.
    """

    outline: Outline
    name: str
    scope: Scope | None
    row: int
    items: list[Item] | None = None

    def __post_init__(self) -> None:
        content, scope, row = self.outline.content, self.scope, self.row
        if scope is not None:
            self.nodes, self.parameters, self.flops = scope.nodes, scope.parameters, scope.flops
            self.op, self.output, self.kind, self.faults = "", scope.output, scope.kind, scope.faults
        else:
            self.nodes, self.parameters, self.flops = 1, content.parameters[row], content.flops[row]
            self.faults = int(row in content.faults)
        if row >= 0:
            self.op, self.output, self.kind = content.ops[row], next(iter(content.outputs[row]), ""), -1
        self.path = content.names[row] if row >= 0 or scope is None else scope.path

    def all(self) -> Iterator[Item]:
        """Yields the item and all its visible items."""
        yield self
        for item in self.items or ():
            yield from item.all()


DEEPEST = 16
"""The maximum number of levels that are opened by default."""
MOST = 100_000
"""Nodes and scopes that are shown at most, unless the model has more: functions that each call the next one twice would
be shown more often than there is memory for."""


def whole(outlines: Outlines, scope: str | None = None) -> Item:
    """Returns the graph, or the scope of that name, as one closed item.

    Raises:
        EditError: the scope does not exist.
    """
    outline = outlines.main
    if scope is None:
        return Item(outline, outline.content.title, outline.root, -1)
    known = {found.path: found for found in outline.root.walk()}
    found = known.get(scope.rstrip("/"))
    if found is None:
        near = nearest(scope, known)
        raise EditError(
            f"scope {quoted(scope)} does not exist.{suggestion(near)}".rstrip("."),
            code="no-such-scope",
            facts={"name": scope, "near": near},
        )
    return Item(outline, found.path, found, -1)


def fitting(outlines: Outlines, head: Item, size: Callable[[list[Item]], int], most: int) -> list[Item]:
    """Returns the visible items, opened as deep as their size is at most `most`; at least one level."""
    best = within(outlines, head, 1)
    for depth in range(2, DEEPEST):
        try:
            items = within(outlines, head, depth)
        except EditError:
            break
        if not size(best) < size(items) <= most:
            break
        best = items
    return best


def within(outlines: Outlines, head: Item, depth: int) -> list[Item]:
    """Returns the visible items, opened `depth` levels.

    Raises:
        EditError: more than `MOST` items would be visible, because functions call each other repeatedly.
    """
    found = level = _inside(outlines, head) or []
    count = len(level)
    most = max(MOST, sum(len(outline.content) for outline in (outlines.main, *outlines.bodies())))
    for _ in range(depth - 1):
        for item in level:
            item.items = _inside(outlines, item)
            count += len(item.items or ())
            if count > most:
                line = "{depth} {number}: more than {most} nodes and scopes would be shown"
                raise EditError(
                    Line(line, number=str(depth), most=f"{most:,}"),
                    code="too-large",
                    depth=depth,
                    count=most,
                    advice="show-less",
                )
        level = [inner for item in level for inner in item.items or ()]
    return found


def _inside(outlines: Outlines, item: Item) -> list[Item] | None:
    """Returns the closed items of a scope, or of the functions that a node calls; None for a node without calls."""
    if item.row < 0:
        assert item.scope is not None
        return _visible(item.outline, item.scope)
    names = item.outline.content.calls[item.row]
    bodies = [body for name in names if (body := outlines.body(name)) is not None]
    if len(bodies) == 1:
        return _visible(bodies[0], bodies[0].root)
    return [Item(body, body.content.title, body.root, -1) for body in bodies] or None


def _visible(outline: Outline, scope: Scope) -> list[Item]:
    """Returns the closed items of a scope."""
    content = outline.content
    found = [_item(outline, child) for child in scope.scopes if child.drawn]
    for row in scope.rows:
        if not content.is_weight[row]:
            found.append(Item(outline, content.names[row].rpartition("/")[2], None, row))
    found.sort(key=lambda item: outline.place[item.row] if item.scope is None else item.scope.first)
    return found


def _item(outline: Outline, scope: Scope) -> Item:
    """Returns the item of a scope, joined with its only inner scope or its only node."""
    name = scope.name
    while (inner := next((child for child in scope.scopes if child.drawn), None)) and inner.drawn == scope.drawn:
        scope = inner
        name = f"{name}/{scope.name}"
    row = -1
    if scope.drawn == 1:
        row = next(row for row in scope.rows if not outline.content.is_weight[row])
    return Item(outline, name, scope, row)
