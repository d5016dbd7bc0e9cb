"""What is seen of a model that is opened down to some depth: scopes and nodes side by side, some of them open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gdsurgeon.errors import EditError, Line, quoted
from gdsurgeon.text import nearest, suggestion
from gdsurgeon.values import Data
from gdsurgeon.view.outline import Outline, Outlines
from gdsurgeon.view.scopes import Scope


@dataclass(eq=False, repr=False)
class Item(Data):
    """A scope or a node that is seen.

    Attributes:
        outline: of the graph, or the body, that it lies in.
        name: its name among its siblings. A scope with only one inner scope is joined with that scope:
            ``FeatureExtractor/MobilenetV2``.
        scope: the scope; None for a node.
        row: the node; -1 for a scope. A scope in which one node is no weight is that node.
        items: its visible items, including the function of a call, in the order of the graph; None if it is closed.
    """

    outline: Outline
    name: str
    scope: Scope | None
    row: int
    items: list[Item] | None = None

    @property
    def op(self) -> str:
        """The op of a node; '' for a scope."""
        return self.outline.content.ops[self.row] if self.row >= 0 else ""

    @property
    def output(self) -> str:
        """Dtype and shape of what it gives; '' where it gives nothing."""
        if self.row < 0:
            return self.scope.output if self.scope is not None else ""
        return next(iter(self.outline.content.outputs[self.row]), "")

    @property
    def nodes(self) -> int:
        """How many nodes it stands for."""
        return self.scope.nodes if self.scope is not None else 1

    @property
    def parameters(self) -> int:
        """How many numbers in it training may have set."""
        return self.scope.parameters if self.scope is not None else self.outline.content.parameters[self.row]

    @property
    def flops(self) -> int:
        """What it computes."""
        return self.scope.flops if self.scope is not None else self.outline.content.flops[self.row]

    @property
    def faults(self) -> int:
        """How many of its nodes something is wrong with."""
        return self.scope.faults if self.scope is not None else int(self.row in self.outline.content.faults)

    @property
    def kind(self) -> int:
        """Equal for scopes of the same structure; -1 where that says nothing."""
        return self.scope.kind if self.scope is not None and self.row < 0 else -1

    @property
    def path(self) -> str:
        """The name of the node, or of the scope."""
        return self.outline.content.names[self.row] if self.row >= 0 or self.scope is None else self.scope.path

    def all(self) -> Iterator[Item]:
        """It, and what is seen in it."""
        yield self
        for item in self.items or ():
            yield from item.all()


DEEPEST = 16
"""The maximum number of levels that are opened by default."""
MOST = 100_000
"""Nodes and scopes that are shown at most, unless the model has more: functions that each call the next one twice would
be shown more often than there is memory for."""


def whole(outlines: Outlines, scope: str | None = None) -> Item:
    """The graph as one closed item, or the SCOPE of that name.

    Raises:
        EditError: there is no such scope.
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
    """What is seen in HEAD, opened as deep as its SIZE is at MOST that; one level at least."""
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
    """What is seen in HEAD when it is opened DEPTH levels down; what lies deeper is closed.

    Raises:
        EditError: functions are opened again and again in each other, so that there would be more to see than `MOST`.
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
                facts = {"depth": depth, "count": most}
                raise EditError(
                    Line(line, number=str(depth), most=f"{most:,}"), code="too-large", facts=facts, advice="show-less"
                )
        level = [inner for item in level for inner in item.items or ()]
    return found


def _inside(outlines: Outlines, item: Item) -> list[Item] | None:
    """What is seen in ITEM, closed: what lies in the scope, or what the node calls; None for one that calls nothing."""
    if item.row < 0:
        assert item.scope is not None
        return _visible(item.outline, item.scope)
    names = item.outline.content.calls[item.row]
    bodies = [body for name in names if (body := outlines.body(name)) is not None]
    if len(bodies) == 1:
        return _visible(bodies[0], bodies[0].root)
    return [Item(body, body.content.title, body.root, -1) for body in bodies] or None


def _visible(outline: Outline, scope: Scope) -> list[Item]:
    """What is seen in SCOPE of OUTLINE, closed."""
    content = outline.content
    found = [_item(outline, child) for child in scope.scopes if child.drawn]
    for row in scope.rows:
        if not content.is_weight[row]:
            found.append(Item(outline, content.names[row].rpartition("/")[2], None, row))
    found.sort(key=lambda item: outline.place[item.row] if item.scope is None else item.scope.first)
    return found


def _item(outline: Outline, scope: Scope) -> Item:
    """SCOPE as it is seen: with the only scope in it as one, or as the only node in it."""
    name = scope.name
    while (inner := next((child for child in scope.scopes if child.drawn), None)) and inner.drawn == scope.drawn:
        scope = inner
        name = f"{name}/{scope.name}"
    row = -1
    if scope.drawn == 1:
        row = next(row for row in scope.rows if not outline.content.is_weight[row])
    return Item(outline, name, scope, row)
