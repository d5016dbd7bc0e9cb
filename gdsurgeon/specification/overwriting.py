"""Ops that overwrite memory which other nodes may read, in a file and in its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdsurgeon.graph.attrs import attr_value, functions_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.kinds import IN_PLACE, may_have

if TYPE_CHECKING:
    from gdsurgeon.specification.drafts import Draft


def overwriting(graph: Graph) -> set[str]:
    """Returns the functions with an op that works in place, and all functions that call them."""
    library = graph.functions
    found = [each.signature.name for each in library if not IN_PLACE.isdisjoint(node.op for node in each.node_def)]
    return library.reaching(found) if found else set()


def overwritten(draft: Draft) -> set[str]:
    """Returns the nodes whose memory an op may overwrite, and all upstream nodes that share it."""
    graph = draft.graph
    whole = graph if graph.owner is None else graph.owner
    callers = whole.derived(overwriting)
    anybody = callers or IN_PLACE & {*whole.store.table.op_names}
    if not anybody and not any(node.op in IN_PLACE for node in draft.changed.values()):
        return set()
    pending = [end.name for end in graph.ends] if anybody else []
    for name in draft.names():
        node = draft.node(name)
        if node.op in IN_PLACE:
            pending += [read for read, _ in node.inputs[:1]]
        elif callers & {node.op, *(f.name for data in node.attrs.values() for f in functions_in(attr_value(data)))}:
            pending += [read for read, _ in node.inputs]
    seen = set(pending)
    while pending:
        name = pending.pop()
        new = {read for read, _ in draft.node(name).inputs} - seen if may_have(draft.op(name), 0, ()) else set()
        seen |= new
        pending += new
    return seen
