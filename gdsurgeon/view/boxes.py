"""What is seen of a model as boxes and the edges between them, whatever draws these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gdsurgeon.errors import printable
from gdsurgeon.text import abbreviated, counted
from gdsurgeon.values import Data
from gdsurgeon.view.content import short_tensor
from gdsurgeon.view.outline import Outline
from gdsurgeon.view.scopes import rows_of
from gdsurgeon.view.visible import Item

LONGEST = 36
"""Characters of a line in a box."""


@dataclass(eq=False, repr=False)
class Edge(Data):
    """An edge from one box to a box next to it.

    Attributes:
        source, target: their places among the boxes that they stand with.
        label: dtype and shape of the first tensor on it; '' for a mere order.
        tensors: how many tensors it stands for; 0 for a control edge.
    """

    source: int
    target: int
    label: str = ""
    tensors: int = 0


@dataclass(eq=False, repr=False)
class Box(Data):
    """A scope or a node in a picture.

    Attributes:
        item: the item that it shows.
        title: the first line: the op of a node, the name of a scope.
        lines: the lines below the title.
        boxes: the inner boxes; empty if it is closed.
        edges: between those.
        fault: the fault of the node; '' if it has none.
    """

    item: Item
    title: str
    lines: list[str]
    fault: str = ""
    boxes: list[Box] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    @property
    def is_scope(self) -> bool:
        """Whether it is a scope, and no node."""
        return self.item.row < 0

    def all(self) -> Iterator[Box]:
        """It, and all within."""
        yield self
        for box in self.boxes:
            yield from box.all()


def boxed(head: Item) -> Box:
    """The box of HEAD, with those of what is seen in it."""
    whole = _box(head)
    _connect(whole)
    return whole


def _box(item: Item) -> Box:
    name, content = printable(item.name), item.outline.content
    if item.row < 0:
        lines = [counted(item.nodes, "node")]
        lines[0] += f" | {abbreviated(item.parameters)} params" if item.parameters else ""
        lines += [short_tensor(item.output)] if item.output else []
        fault = f"{item.faults:,} broken" if item.faults and not item.items else ""
        box = Box(item, name, [] if item.items else lines, fault)
    else:
        op = printable(content.ops[item.row])
        lines = [name] if name != op else []
        lines += _weights(item)
        box = Box(item, op, lines, content.faults.get(item.row, ""))
    box.boxes = [_box(inner) for inner in item.items or ()]
    return box


def _weights(item: Item) -> list[str]:
    """The weights that a node reads: they have no boxes."""
    content = item.outline.content
    return [
        short_tensor(content.outputs[source][slot])
        for source, slot in content.inputs[item.row]
        if content.is_weight[source] and slot < len(content.outputs[source])
    ][:2]


def _connect(whole: Box) -> None:
    """Sets the edges of WHOLE and of all boxes in it; those of the body of a call for itself."""
    pending = [whole]
    while pending:
        root = pending.pop()
        around: dict[int, Box] = {}  # by identity: the box that a box lies in
        inner: dict[int, Box] = {}  # by row: the innermost box that shows it
        outline = root.boxes[0].item.outline if root.boxes else root.item.outline
        level = [root]
        for box in level:  # grows while it is walked
            for child in box.boxes:
                around[id(child)] = box
                if child.item.outline is not outline:  # one of several functions that a node calls
                    pending.append(child)
                elif child.item.row < 0 and child.boxes:
                    level.append(child)
                    inner.update((row, child) for row in _own_rows(child.item))
                else:
                    inner.update((row, child) for row in _rows(child.item))
                    pending += [child] if child.boxes else []
        _lift(outline, inner, around)


def _rows(item: Item) -> Sequence[int]:
    return [item.row] if item.scope is None else rows_of([item.scope])


def _own_rows(item: Item) -> Sequence[int]:
    """Rows of an open scope that no box in it may show: weights."""
    return () if item.scope is None else item.scope.rows


def _lift(outline: Outline, inner: dict[int, Box], around: dict[int, Box]) -> None:
    """Enters each edge of the graph where both of its ends lie in different boxes that stand side by side."""
    content = outline.content
    found: dict[tuple[int, int], Edge] = {}
    places: dict[int, int] = {}
    for box in {id(box): box for box in around.values()}.values():
        places.update((id(child), place) for place, child in enumerate(box.boxes))
    for row, target in inner.items():
        reads = [(source, slot) for source, slot in content.inputs[row] if not content.is_weight[source]]
        for source, slot in (*reads, *((control, -1) for control in content.controls[row])):
            ends = _side_by_side(inner.get(source), target, around)
            if ends is None:
                continue
            edge = found.get((id(ends[0]), id(ends[1])))
            if edge is None:
                edge = found[id(ends[0]), id(ends[1])] = Edge(places[id(ends[0])], places[id(ends[1])])
                around[id(ends[0])].edges.append(edge)
            if slot >= 0:
                outputs = content.outputs[source]
                edge.label = edge.label or (short_tensor(outputs[slot]) if slot < len(outputs) else "")
                edge.tensors += 1


def _side_by_side(source: Box | None, target: Box, around: dict[int, Box]) -> tuple[Box, Box] | None:
    """The boxes around both ends that stand side by side; None where one end is not seen, or lies around the other."""
    if source is None:
        return None
    above = {}
    box: Box | None = source
    while box is not None and id(box) in around:
        above[id(around[id(box)])] = box
        box = around[id(box)]
    other = target
    while id(other) in around and id(around[id(other)]) not in above:
        other = around[id(other)]
    if id(other) not in around:
        return None
    begin = above[id(around[id(other)])]
    return None if begin is other else (begin, other)
