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


@edit(pairs=of_olds(of_nodes))
def rename(
    graph: Graph,
    pairs: Pairs[str, str] = (),
    *,
    scopes: Pairs[str, str] = (),
    patterns: Pairs[str, str] = (),
) -> EditResult:
    """Renames nodes, and updates all inputs, control inputs and colocations.

    All renames happen at once: ``a=b`` with ``b=a`` exchanges two names.

    Args:
        graph: changed in place.
        pairs: (old, new) names of nodes.
        scopes: (old, new) name scopes, with or without a slash at the end. All nodes under the old scope are renamed,
            and the node with the name of the scope. An empty new scope removes the prefix.
        patterns: (regular expression, replacement) as for `re.sub`, applied to every name.

    Raises:
        EditError: no such node, nothing matched, or a new name is illegal or taken. The graph is unchanged.
    """
    if not scopes and not patterns:
        graph.prefetch([name for pair in pairs_of(pairs) for name in pair])
    renames = _Renames(graph)
    for old, new in pairs_of(pairs):
        if ":" in old or old.startswith("^"):
            node = old.removeprefix("^").partition(":")[0]
            line = f"{quoted(old)} is not a node name (node names have no :index and no ^); write {quoted(node)}"
            raise EditError(line, code="no-such-node", node=old, near=node)
        renames.add(graph[old], new, f"{old}={new}")
    for old, new in pairs_of(scopes):
        renames.add_all(under_scope(graph.names(), old, new), "scope", old, partial(graph.became, scope_prefix(old)))
    for pattern, replacement in pairs_of(patterns):
        from gdsurgeon.select import substituted

        renames.add_all(substituted(pattern, replacement, graph.names()), "pattern", pattern)
    names = {node: name for node, name in renames.names.items() if node.name != name}
    if not names:
        raise NothingToDo("nothing would change: each node already has its new name")
    intent = Intent(renamed={node.name: name for node, name in names.items()})
    graph.rename(names)
    return EditResult(intent, (SameOutputs(),))


class _Renames:
    """The new names of nodes."""

    def __init__(self, graph: Graph) -> None:
        self.names: dict[Node, str] = {}
        self._graph = graph
        self._by: dict[Node, str] = {}

    def add(self, node: Node, name: str, by: str) -> None:
        if self.names.setdefault(node, name) != name:
            first = f"{quoted(self.names[node])} ({self._by[node]})"
            line = f"{quoted(node.name)} cannot be renamed to both {first} and {quoted(name)} ({by})"
            raise EditError(line, code="given-twice", node=node.name, names=[self.names[node], name])
        self._by.setdefault(node, by)

    def add_all(
        self, found: Iterable[tuple[str, str]], kind: str, given: str, became: Callable[[], str] = lambda: ""
    ) -> None:
        by, is_empty = f"{kind} {quoted(given)}", True
        for old, name in found:
            self.add(self._graph[old], name, by)
            is_empty = False
        if is_empty:
            why = became()
            line = ": ".join(filter(None, (f"{by} matched 0 nodes", why)))
            raise EditError(line, code="nothing-matched", argument=kind, value=given, reason=why)
