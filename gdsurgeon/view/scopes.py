"""The tree of scopes that the names of nodes spell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


class Scope:
    """A name scope, or a group of siblings that belong together though no scope says so.

    Attributes:
        name: the last part of its path; of a group what the names in it have in common, with a star.
        parent: the outer scope; None for the root.
        scopes: those that lie in it.
        rows: the nodes that lie in it and in none of its scopes.
        is_group: whether it is no scope but a group.
        kind: equal for scopes of the same structure; -1 where it is too small for that to mean anything.
        nodes: how many nodes it holds, scopes within included.
        faults: how many of them something is wrong with.
        drawn: how many of them are no weights.
        parameters: how many numbers they hold that training may have set, those in functions included.
        flops: the floating-point operations of its nodes, functions included.
        first: where its first node that is no weight stands in the order of the graph.
        output: dtype and shape of what it gives; '' where it gives nothing.
    """

    __slots__ = (
        "drawn",
        "faults",
        "first",
        "flops",
        "is_group",
        "kind",
        "name",
        "nodes",
        "output",
        "parameters",
        "parent",
        "rows",
        "scopes",
    )

    def __init__(self, name: str, parent: Scope | None, *, is_group: bool = False) -> None:
        self.name = name
        self.parent = parent
        self.is_group = is_group
        self.scopes: list[Scope] = []
        self.rows: list[int] = []
        self.kind = -1
        self.nodes = self.faults = self.drawn = self.parameters = self.flops = self.first = 0
        self.output = ""

    def __repr__(self) -> str:
        return f"<Scope {self.path}>"

    @property
    def path(self) -> str:
        """Its name with those of the scopes that it lies in; '' for the root."""
        names: list[str] = []
        scope: Scope | None = self
        while scope is not None and scope.parent is not None:
            if not scope.is_group or scope is self:
                names.append(scope.name)
            scope = scope.parent
        return "/".join(reversed(names))

    def walk(self) -> Iterator[Scope]:
        """This scope and all within, each before what lies in it."""
        pending = [self]
        while pending:
            scope = pending.pop()
            yield scope
            pending.extend(reversed(scope.scopes))

    def inside_out(self) -> list[Scope]:
        """This scope and all within, each after what lies in it."""
        return list(self.walk())[::-1]


def scope_tree(names: Sequence[str]) -> Scope:
    """The scopes that NAMES spell. A node that is called like a scope lies in that, as in TensorBoard."""
    root = Scope("", None)
    known: dict[str, Scope] = {"": root}
    for name in names:
        _enter(name.rpartition("/")[0], known)
    for row, name in enumerate(names):
        scope = known.get(name)
        (scope or known[name.rpartition("/")[0]]).rows.append(row)
    return root


def _enter(path: str, known: dict[str, Scope]) -> None:
    """Makes the scope `path` and its outer scopes if they do not exist."""
    missing: list[str] = []
    while path not in known:
        missing.append(path)
        path = path.rpartition("/")[0]
    for path in reversed(missing):
        above, _, name = path.rpartition("/")
        parent = known[above]
        known[path] = scope = Scope(name, parent)
        parent.scopes.append(scope)


def set_sizes(root: Scope) -> None:
    """Sets how many nodes each scope holds."""
    for scope in root.inside_out():
        scope.nodes = len(scope.rows) + sum(child.nodes for child in scope.scopes)


def scope_of_rows(root: Scope, count: int) -> list[Scope]:
    """For each of COUNT rows the innermost scope that it lies in."""
    out = [root] * count
    for scope in root.walk():
        for row in scope.rows:
            out[row] = scope
    return out


def rows_of(scopes: Iterable[Scope]) -> list[int]:
    """All nodes of SCOPES and of what lies in them."""
    return [row for scope in scopes for inner in scope.walk() for row in inner.rows]
