"""The tree of scopes in the names of nodes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gdsurgeon.analysis.traversal.order import components
from gdsurgeon.view.content import Content


@dataclass(eq=False, repr=False, slots=True)
class Scope:
    """A name scope, or a group of siblings that belong together.

    Attributes:
        name: the last part of its path; for a group the common part of its names, with a star.
        parent: the outer scope; None for the root.
        scopes: the inner scopes.
        rows: the nodes in it that are not in inner scopes.
        is_group: whether it is a group and not a scope of names.
        kind: equal for scopes of the same structure; -1 if the scope is too small.
        nodes: the number of its nodes, including inner scopes.
        faults: the number of its nodes with faults.
        drawn: the number of its nodes that are not weights.
        parameters: the number of trainable elements, including functions.
        flops: the floating-point operations of its nodes, including functions.
        first: the place of its first node that is not a weight, in the order of the graph.
        output: dtype and shape of its output; '' without output.
    """

    name: str
    parent: Scope | None
    is_group: bool = False
    scopes: list[Scope] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    kind: int = -1
    nodes: int = 0
    faults: int = 0
    drawn: int = 0
    parameters: int = 0
    flops: int = 0
    first: int = 0
    output: str = ""

    def __repr__(self) -> str:
        return f"<Scope {self.path}>"

    @property
    def path(self) -> str:
        """Its name with the names of its outer scopes; '' for the root."""
        names: list[str] = []
        scope: Scope | None = self
        while scope is not None and scope.parent is not None:
            if not scope.is_group or scope is self:
                names.append(scope.name)
            scope = scope.parent
        return "/".join(reversed(names))

    def walk(self) -> Iterator[Scope]:
        """Yields this scope and all inner scopes, each before its inner scopes."""
        pending = [self]
        while pending:
            scope = pending.pop()
            yield scope
            pending.extend(reversed(scope.scopes))

    def inside_out(self) -> list[Scope]:
        """Returns this scope and all inner scopes, each after its inner scopes."""
        return list(self.walk())[::-1]


def scope_tree(names: Sequence[str]) -> Scope:
    """Returns the scopes of `names`. A node with the name of a scope is in that scope, as in TensorBoard."""
    root = Scope("", None)
    known: dict[str, Scope] = {"": root}
    for name in names:
        path, missing = name.rpartition("/")[0], []
        while path not in known:
            missing.append(path)
            path = path.rpartition("/")[0]
        for path in reversed(missing):
            above, _, last = path.rpartition("/")
            known[path] = scope = Scope(last, known[above])
            known[above].scopes.append(scope)
    for row, name in enumerate(names):
        (known.get(name) or known[name.rpartition("/")[0]]).rows.append(row)
    return root


def set_sizes(root: Scope) -> None:
    """Sets the number of nodes in each scope."""
    for scope in root.inside_out():
        scope.nodes = len(scope.rows) + sum(child.nodes for child in scope.scopes)


def rows_of(scopes: Iterable[Scope]) -> list[int]:
    """Returns all nodes of scopes, including inner scopes."""
    return [row for scope in scopes for inner in scope.walk() for row in inner.rows]


SMALLEST = 3
"""The minimum number of nodes of a scope with a kind."""

_NAMES = frozenset("container shared_name shape shapes output_shapes tensor_name seed seed2 handle_name".split())
"""Attrs that are a matter of names, of sizes, or of chance."""


class Kinds:
    """Assigns equal numbers to equal structures, of all graphs that are shown together.

    Args:
        kind_of_function: returns the kind of the body of a function, by its name.
    """

    def __init__(self, kind_of_function: Callable[[str], Hashable]) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._kind_of_function = kind_of_function

    def number(self, key: Hashable) -> int:
        """Returns the number of `key`."""
        return self._numbers.setdefault(key, len(self._numbers))

    def labels(self, content: Content) -> list[int]:
        """Returns for each node a number for its op and settings."""
        known: dict[object, int] = {}
        out = []
        for op, calls, attrs in zip(content.ops, content.calls, content.attrs, strict=True):
            key = op, calls, id(attrs)  # equal nodes share their attrs
            if key not in known:
                settings = (item for item in attrs if item[0] not in _NAMES and item[0][:1] != "_")
                called = map(self._kind_of_function, calls)
                known[key] = self.number((op, *called) if calls else op if op == "Const" else (op, *settings))
            out.append(known[key])
        return out

    def interior(self, rows: Sequence[int], labels: Sequence[int], content: Content) -> int:
        """Returns the number of the structure of `rows`, which are in the order of the graph."""
        inside = dict.fromkeys(rows, -1)
        alone = self._wired(rows, labels, content, inside, {})
        outside: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for row in rows:
            for place, source in enumerate(content.inputs[row]):
                if source[0] not in inside:
                    outside.setdefault(source, []).append((alone[row], place))
        ports = {source: self.number(("port", *sorted(reads))) for source, reads in outside.items() if len(reads) > 1}
        wired = self._wired(rows, labels, content, inside, ports) if ports else alone
        return self.number(("interior", *sorted(wired.values())))

    def _wired(
        self,
        rows: Sequence[int],
        labels: Sequence[int],
        content: Content,
        inside: dict[int, int],
        ports: dict[tuple[int, int], int],
    ) -> dict[int, int]:
        """Returns for each row the number of its computation; `ports` numbers the outside inputs."""
        found, numbers = dict(inside), self._numbers
        for row in rows:
            sources = [
                (found[source[0]], source[1]) if source[0] in found else (-2, ports.get(source, -1))
                for source in content.inputs[row]
            ]
            found[row] = numbers.setdefault((labels[row], *sources), len(numbers))
        return found


def set_kinds(root: Scope, content: Content, kinds: Kinds) -> None:
    """Sets the kind of each scope."""
    labels = kinds.labels(content)
    place = content.places()
    members: dict[int, list[int]] = {}
    for scope in root.inside_out():
        inner = [members.pop(id(child)) for child in scope.scopes]
        if len(inner) == 1 and not scope.rows:
            rows = inner[0]
            scope.kind = scope.scopes[0].kind  # the only inner scope is not a repetition
        else:
            rows = sorted((row for part in (scope.rows, *inner) for row in part), key=place.__getitem__)
            scope.kind = kinds.interior(rows, labels, content) if len(rows) >= SMALLEST else -1
        members[id(scope)] = rows


FEWEST = 12
"""Scopes and nodes side by side from which on groups are looked for."""

_NUMBER = re.compile("[a-z]*[0-9]+")
"""A token by which people and Keras number blocks; ``ToInt32`` and ``TensorArrayReadV3`` are ops."""


def group_by_names(root: Scope, content: Content) -> None:
    """Puts siblings whose names share a beginning that ends in a number into groups, which may hold groups in turn.

    A group is convex: no path of the graph leaves it and comes back, so that it can be drawn as one node.
    """
    for scope in list(root.walk()):
        if len(scope.scopes) + len(scope.rows) >= FEWEST:
            _group(scope, content.names)
    dissolve_cycles(root, content)


def _group(scope: Scope, names: Sequence[str]) -> None:
    items: list[tuple[str, Scope | int]] = [(child.name, child) for child in scope.scopes]
    items += [(names[row].rpartition("/")[2], row) for row in scope.rows]
    scope.scopes, scope.rows = [], []
    following: dict[str, set[str | None]] = defaultdict(set)
    for name, _ in items:
        for begin, token in _beginnings(name):
            following[begin].add(token)
    groups: dict[str, Scope] = {}
    for name, item in items:
        parent = scope
        for begin, _ in _beginnings(name):
            if len(following[begin]) > 1:
                if begin not in groups:
                    groups[begin] = Scope(f"{begin}_*", parent, is_group=True)
                    parent.scopes.append(groups[begin])
                parent = groups[begin]
        _adopt(parent, item)


def _beginnings(name: str) -> Iterator[tuple[str, str | None]]:
    """Yields the beginnings of `name` that end in a number, each with the token that follows; None at the end."""
    tokens = name.split("_")
    for end, token in enumerate(tokens, 1):
        if _NUMBER.fullmatch(token):
            yield "_".join(tokens[:end]), tokens[end] if end < len(tokens) else None


def _adopt(parent: Scope, item: Scope | int) -> None:
    if isinstance(item, Scope):
        item.parent = parent
        parent.scopes.append(item)
    else:
        parent.rows.append(item)


def dissolve_cycles(root: Scope, content: Content) -> None:
    """Dissolves each group that a path of the graph leaves and enters again; its nodes go to its parent."""
    place = content.places()
    level = _outermost_groups([root])
    while level:
        wrong = _on_cycles(level, content, place)
        for group in wrong:
            parent = group.parent
            assert parent is not None
            parent.scopes.remove(group)
            for child in group.scopes:
                _adopt(parent, child)
            parent.rows += group.rows
        if wrong:
            level = [group for group in level if group not in wrong] + _outermost_groups(wrong)
        else:
            level = _outermost_groups(level)


def _outermost_groups(scopes: Iterable[Scope]) -> list[Scope]:
    """Returns the groups below `scopes` that are in no other group below them."""
    out: list[Scope] = []
    pending = [child for scope in scopes for child in scope.scopes]
    while pending:
        scope = pending.pop()
        if scope.is_group:
            out.append(scope)
        else:
            pending.extend(scope.scopes)
    return out


def _on_cycles(groups: Sequence[Scope], content: Content, place: Sequence[int]) -> set[Scope]:
    """Returns the groups on a cycle, if each group is one node; loops of the graph do not count."""
    number_of = list(range(len(content)))
    for number, group in enumerate(groups, len(content)):
        for row in rows_of([group]):
            number_of[row] = number
    successors: list[list[int]] = [[] for _ in range(len(content) + len(groups))]
    for row, inputs in enumerate(content.inputs):
        reader = number_of[row]
        for producer in (*(source for source, _ in inputs), *content.controls[row]):
            source = number_of[producer]
            if source != reader and not content.is_weight[producer] and place[producer] < place[row]:
                successors[source].append(reader)
    found = (number for part in components(successors) if len(part) > 1 for number in part if number >= len(content))
    return {groups[number - len(content)] for number in found}


FEWEST_IN_ROW = 40
"""Nodes side by side from which on blocks are looked for."""
SMALLEST_BLOCK = 4
"""Nodes that a block has at least."""
LONGEST_BLOCK = 64
"""Stretches that one repetition consists of at most."""


def group_by_cuts(root: Scope, content: Content, kinds: Kinds) -> None:
    """Groups repeated stretches of nodes that are in the same scope."""
    labels: list[int] = []
    places: Sequence[int] = []
    for scope in list(root.walk()):
        drawn = sum(not content.is_weight[row] for row in scope.rows)
        if drawn >= FEWEST_IN_ROW and not any(child.nodes > len(scope.rows) for child in scope.scopes):
            labels = labels or kinds.labels(content)
            places = places or content.places()
            _group_blocks(scope, content, kinds, labels, places)


def _group_blocks(scope: Scope, content: Content, kinds: Kinds, labels: Sequence[int], places: Sequence[int]) -> None:
    stretches = list(_stretches(sorted(scope.rows, key=places.__getitem__), content))
    numbers = [kinds.interior(stretch, labels, content) for stretch in stretches]
    grouped: set[int] = set()
    for start, period, count in _repeats(numbers):
        size = sum(len(stretch) for stretch in stretches[start : start + period])
        if count < 2 or size < SMALLEST_BLOCK:
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
    """Returns a name made of the first and the last node that is not a weight."""
    drawn = [content.names[row].rpartition("/")[2] for row in members if not content.is_weight[row]]
    return f"{drawn[0]} .. {drawn[-1]}"


def _stretches(rows: Sequence[int], content: Content) -> Iterator[list[int]]:
    """Yields ordered `rows`, divided after each node that is the only one with later consumers.

    Weights belong to their first consumer.
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
    reach = -1  # the place of the last consumer of the nodes before
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
    """Returns `row` after the weights that it is the first to read, directly or indirectly."""
    out, pending = [], [row]
    while pending:
        out.append(pending.pop())
        pending += weights.get(out[-1], ())
    return out[::-1]


def _repeats(numbers: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yields repetitions (greedily): their beginning, the length of the period, and the number of periods."""
    start = 0
    while start < len(numbers):
        best = (1, 1)
        for period in range(1, min(LONGEST_BLOCK, (len(numbers) - start) // 2) + 1):
            if numbers[start] != numbers[start + period]:
                continue
            unit, count = numbers[start : start + period], 1
            while numbers[start + count * period : start + (count + 1) * period] == unit:
                count += 1
            if count > 1 and (best[1] == 1 or count * period > best[0] * best[1]):
                best = (period, count)
        yield start, *best
        start += best[0] * best[1]
