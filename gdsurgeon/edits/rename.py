"""rename: nodes, name scopes, or many nodes by a regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.errors import EditError, NothingToDo, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import scope_prefix
from gdsurgeon.graph.node import Node
from gdsurgeon.specification.asked import edit

Pair = tuple[str, str]


@edit
def rename(
    graph: Graph,
    pairs: Sequence[Pair] = (),
    *,
    scopes: Sequence[Pair] = (),
    patterns: Sequence[Pair] = (),
) -> EditResult:
    """Renames nodes; whatever holds a name follows: inputs, control inputs, colocations.

    All renames happen at once: ``a=b`` with ``b=a`` exchanges two names.

    Args:
        graph: changed in place.
        pairs: (old, new) names of nodes.
        scopes: (old, new) name scopes, with or without a slash at the end; everything under the old one, and the
            node that is named exactly like it, moves. An empty new scope takes the prefix away.
        patterns: (regular expression, replacement) as for `re.sub`, applied to every name.

    Raises:
        EditError: no such node, nothing matched, a new name is illegal or taken; the graph is as it was.
    """
    if not scopes and not patterns:
        graph.prefetch([name for pair in pairs for name in pair])
    wanted = _Wanted()
    for old, new in pairs:
        if ":" in old or old.startswith("^"):
            node = old.removeprefix("^").partition(":")[0]
            raise EditError(f"{quoted(old)} is not a node: names of nodes have no index and no ^; write {quoted(node)}")
        wanted.add(graph[old], new, f"{old}={new}")
    for old, new in scopes:
        wanted.add_all(_under_scope(graph, old, new), f"scope {quoted(old)}")
    for pattern, replacement in patterns:
        wanted.add_all(_matching(graph, pattern, replacement), f"pattern {quoted(pattern)}")
    names = {node: name for node, name in wanted.names.items() if node.name != name}
    if not names:
        raise NothingToDo("nothing would change: each node has the name that it is to get")
    intent = Intent(renamed={node.name: name for node, name in names.items()})
    graph.rename(names)
    return EditResult(intent, (SameOutputs(),))


class _Wanted:
    """The new names, each node once."""

    def __init__(self) -> None:
        self.names: dict[Node, str] = {}
        self._by: dict[Node, str] = {}

    def add(self, node: Node, name: str, by: str) -> None:
        if self.names.setdefault(node, name) != name:
            raise EditError(
                f"{quoted(node.name)} cannot become both {quoted(self.names[node])} ({self._by[node]}) "
                f"and {quoted(name)} ({by})"
            )
        self._by.setdefault(node, by)

    def add_all(self, found: Iterable[tuple[Node, str]], by: str) -> None:
        count = 0
        for node, name in found:
            self.add(node, name, by)
            count += 1
        if not count:
            raise EditError(f"{by} matched 0 nodes")


def _under_scope(graph: Graph, old: str, new: str) -> Iterable[tuple[Node, str]]:
    before, after = scope_prefix(old), scope_prefix(new)
    if not before:
        raise EditError("the scope to rename is empty: name one")
    for name in graph.names():
        if name.startswith(before):
            yield graph[name], after + name[len(before) :]
        elif name == before[:-1] and after:
            yield graph[name], after[:-1]


def _matching(graph: Graph, pattern: str, replacement: str) -> Iterable[tuple[Node, str]]:
    try:
        substitute = re.compile(pattern).subn
        from gdsurgeon.select import matching_ends

        with matching_ends():
            found = [(name, new) for name in graph.names() for new, n in (substitute(replacement, name),) if n]
        return [(graph[name], new) for name, new in found]
    except (re.error, IndexError) as error:
        raise EditError(f"{quoted(pattern)} with {quoted(replacement)} is not a substitution: {error}") from error
