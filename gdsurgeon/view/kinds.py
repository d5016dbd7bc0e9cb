"""Which scopes have the same structure: the interiors of all scopes, hashed without names, weights and shapes.

Two scopes are of one kind where the same ops with the same settings are wired in the same way inside, and what comes in
from outside goes to the same places. It is hash consing (Ershov, 1958) of what each node is computed from within its
scope; linear in the total length of the names, as a node counts once for each scope that it lies in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from gdsurgeon.view.content import Content
from gdsurgeon.view.scopes import Scope

SMALLEST = 3
"""Nodes from which on a scope is large enough for its structure to say something."""

_NAMES = frozenset("container shared_name shape shapes output_shapes tensor_name seed seed2 handle_name".split())
"""Attrs that are a matter of names, of sizes, or of chance."""


class Kinds:
    """Gives equal numbers to what is of the same structure; one for all graphs that are looked at together.

    Args:
        kind_of_function: the kind of the body of a function, by its name.
    """

    def __init__(self, kind_of_function: Callable[[str], Hashable]) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._kind_of_function = kind_of_function

    def number(self, key: Hashable) -> int:
        """The number of KEY."""
        return self._numbers.setdefault(key, len(self._numbers))

    def labels(self, content: Content) -> list[int]:
        """Returns for each node a number for its op and settings."""
        return [self._label(content, row) for row in range(len(content))]

    def _label(self, content: Content, row: int) -> int:
        op, calls = content.ops[row], content.calls[row]
        if calls:
            return self.number((op, *(self._kind_of_function(name) for name in calls)))
        if op == "Const":
            return self.number(op)
        settings = (item for item in content.attrs[row] if item[0] not in _NAMES and item[0][:1] != "_")
        return self.number((op, *settings))

    def interior(self, rows: Sequence[int], labels: Sequence[int], content: Content) -> int:
        """The number of the structure of ROWS, which stand in the order of the graph."""
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
        """For each of ROWS the number of what it is computed from; PORTS says what comes from outside to where."""
        found = dict(inside)
        for row in rows:
            sources = (
                (found[source[0]], source[1]) if source[0] in found else (-2, ports.get(source, -1))
                for source in content.inputs[row]
            )
            found[row] = self.number((labels[row], *sources))
        return found


def set_kinds(root: Scope, content: Content, kinds: Kinds) -> None:
    """Sets the kind of each scope below ROOT, and its own."""
    labels = kinds.labels(content)
    place = content.places()
    members: dict[int, list[int]] = {}
    for scope in root.inside_out():
        inner = [members.pop(id(child)) for child in scope.scopes]
        if len(inner) == 1 and not scope.rows:
            rows = inner[0]
            scope.kind = scope.scopes[0].kind  # a scope around another: the same once, and no repetition
        else:
            rows = sorted((row for part in (scope.rows, *inner) for row in part), key=place.__getitem__)
            scope.kind = kinds.interior(rows, labels, content) if len(rows) >= SMALLEST else -1
        members[id(scope)] = rows
