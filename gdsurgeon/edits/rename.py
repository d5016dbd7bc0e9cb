"""rename: nodes, name scopes, or many nodes by a regular expression."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.decorator import edit, of_nodes, of_olds
from gdsurgeon.errors import EditError, NothingToDo, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import scope_prefix, under_scope
from gdsurgeon.graph.node import Node

Pair = tuple[str, str]


@edit(pairs=of_olds(of_nodes))
def rename(
    graph: Graph,
    pairs: Pairs[str, str] = (),
    *,
    scopes: Pairs[str, str] = (),
    patterns: Pairs[str, str] = (),
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
        graph.prefetch([name for pair in pairs_of(pairs) for name in pair])
    wanted = _Wanted()
    for old, new in pairs_of(pairs):
        if ":" in old or old.startswith("^"):
            node = old.removeprefix("^").partition(":")[0]
            raise EditError(
                f"{quoted(old)} is not a node name (node names have no :index and no ^); write {quoted(node)}",
                code="no-such-node",
                node=old,
                near=node,
            )
        wanted.add(graph[old], new, f"{old}={new}")
    for old, new in pairs_of(scopes):
        found = _nodes(graph, under_scope(graph.names(), old, new))
        wanted.add_all(found, "scope", old, partial(graph.became, scope_prefix(old)))
    for pattern, replacement in pairs_of(patterns):
        from gdsurgeon.select import substituted

        wanted.add_all(_nodes(graph, substituted(pattern, replacement, graph.names())), "pattern", pattern)
    names = {node: name for node, name in wanted.names.items() if node.name != name}
    if not names:
        raise NothingToDo("nothing would change: each node already has its new name")
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
                f"{quoted(node.name)} cannot be renamed to both {quoted(self.names[node])} ({self._by[node]}) "
                f"and {quoted(name)} ({by})",
                code="given-twice",
                node=node.name,
                names=[self.names[node], name],
            )
        self._by.setdefault(node, by)

    def add_all(
        self, found: Iterable[tuple[Node, str]], kind: str, given: str, became: Callable[[], str] = lambda: ""
    ) -> None:
        count = 0
        by = f"{kind} {quoted(given)}"
        for node, name in found:
            self.add(node, name, by)
            count += 1
        if not count:
            why = became()
            raise EditError(
                ": ".join(filter(None, (f"{by} matched 0 nodes", why))),
                code="nothing-matched",
                argument=kind,
                value=given,
                reason=why,
            )


def _nodes(graph: Graph, found: Iterable[Pair]) -> Iterable[tuple[Node, str]]:
    return ((graph[name], new) for name, new in found)
