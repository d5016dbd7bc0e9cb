"""Blocks for graphs without meaningful names: repeated equal stretches between cut tensors.

A cut tensor is the only one through which what comes before reaches what comes after. Stretches of nodes between two of
them are numbered by their structure, and where a row of such numbers repeats, each repetition is a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.view.content import Content
from gdsurgeon.view.kinds import Kinds
from gdsurgeon.view.scopes import Scope

FEWEST = 40
"""Nodes side by side from which on blocks are looked for."""
SMALLEST = 4
"""Nodes that a block has at least."""
LONGEST = 64
"""Stretches that one repetition consists of at most."""


def group_by_cuts(root: Scope, content: Content, kinds: Kinds) -> None:
    """Puts repeated stretches of nodes that lie side by side in a scope, and in none within, into groups."""
    labels: list[int] = []
    places: list[int] = []
    for scope in list(root.walk()):
        drawn = sum(not content.is_weight[row] for row in scope.rows)
        if drawn >= FEWEST and not any(child.nodes > len(scope.rows) for child in scope.scopes):
            labels = labels or kinds.labels(content)
            places = places or content.places()
            _group(scope, content, kinds, labels, places)


def _group(scope: Scope, content: Content, kinds: Kinds, labels: Sequence[int], places: Sequence[int]) -> None:
    rows = sorted(scope.rows, key=places.__getitem__)
    stretches = list(_stretches(rows, content))
    numbers = [kinds.interior(stretch, labels, content) for stretch in stretches]
    grouped: set[int] = set()
    for start, period, count in _repeats(numbers):
        size = sum(len(stretch) for stretch in stretches[start : start + period])
        if count < 2 or size < SMALLEST:
            continue
        for number in range(count):
            at = start + number * period
            members = [row for stretch in stretches[at : at + period] for row in stretch]
            group = Scope(_name(members, content), scope, is_group=True)
            group.rows = members
            scope.scopes.append(group)
            grouped.update(members)
    scope.rows = [row for row in scope.rows if row not in grouped]


def _name(members: Sequence[int], content: Content) -> str:
    """By its first and its last node that is no weight."""
    drawn = [content.names[row].rpartition("/")[2] for row in members if not content.is_weight[row]]
    return f"{drawn[0]} .. {drawn[-1]}"


def _stretches(rows: Sequence[int], content: Content) -> Iterator[list[int]]:
    """ROWS, which stand in the order of the graph, cut behind each node that alone is read from further on.

    Weights go where they are first read.
    """
    place = {row: number for number, row in enumerate(rows)}
    last = list(range(len(rows)))  # the place of the last reader of each
    weights: dict[int, list[int]] = {}
    placed: set[int] = set()
    for number, row in enumerate(rows):
        for source, _ in content.inputs[row]:
            if source not in place:
                continue
            if not content.is_weight[source]:
                last[place[source]] = number
            elif source not in placed:
                placed.add(source)
                weights.setdefault(row, []).append(source)
    out: list[int] = []
    reach = -1  # how far what was given before this node is read
    for number, row in enumerate(rows):
        if content.is_weight[row]:
            continue
        out += _with_weights(row, weights)
        if reach <= number:
            yield out
            out = []
        reach = max(reach, last[number])
    if out:
        yield out


def _with_weights(row: int, weights: dict[int, list[int]]) -> list[int]:
    """ROW behind the weights that it is the first to read, directly or through what passes them on."""
    out, pending = [], [row]
    while pending:
        out.append(pending.pop())
        pending += weights.get(out[-1], ())
    return out[::-1]


def _repeats(numbers: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """NUMBERS as repetitions: where each begins, how long its period is, how often that stands there; greedy."""
    start = 0
    while start < len(numbers):
        best = (1, 1)
        for period in range(1, min(LONGEST, (len(numbers) - start) // 2) + 1):
            if numbers[start] != numbers[start + period]:
                continue
            unit, count = numbers[start : start + period], 1
            while numbers[start + count * period : start + (count + 1) * period] == unit:
                count += 1
            if count > 1 and (best[1] == 1 or count * period > best[0] * best[1]):
                best = (period, count)
        yield start, *best
        start += best[0] * best[1]
