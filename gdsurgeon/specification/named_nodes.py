"""The nodes whose names are used: by callers of a function, by signatures and savers, or as outputs."""

from __future__ import annotations

from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import RESOURCE, VARIANT, base_dtype


def named_nodes(graph: Graph) -> set[str]:
    """Returns the nodes whose names are used."""
    serving = graph.serving
    out = {node.name for node in graph.ends}
    if serving is not None:
        out |= {name for name in serving.nodes if name in graph}
    if serving is None or not serving.called:
        unread = graph.store.table.unread
        names = graph.store.table.names
        out |= {names[row] for row in unread if _can_be_fetched(graph, names[row])}
    return out


def _can_be_fetched(graph: Graph, name: str) -> bool:
    node = graph[name]
    dtypes = node.output_dtypes
    is_value = dtypes is None or (bool(dtypes) and not all(base_dtype(each) in (RESOURCE, VARIANT) for each in dtypes))
    return node.op not in ("Const", "NoOp") and is_value
