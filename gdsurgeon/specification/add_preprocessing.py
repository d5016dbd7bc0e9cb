"""add-preprocessing: consumers of an input read the result of the added graph, whose input replaces it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent, Value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.joining import Bound, ImportedGraph, bindings
from gdsurgeon.specification.rows import Rows
from gdsurgeon.specification.sharing import unread


def violations(comparison: Comparison, pre: Graph, mapped: Sequence[Bound] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    bound, rows, intent = bindings(pre, mapped, "_preprocessed"), Rows(comparison.before), Intent()
    imported = ImportedGraph(comparison, pre, {raw: model for model, raw, _ in bound})
    for model, raw, result in bound:
        intent.rewire(rows.uses(rows.tensor(model)), model, imported.tensor(result))
        values: dict[str, Value] = {f"attr {key}": pre[raw].attr_bytes(key) for key in _ATTRS}
        values |= {"op": pre[raw].op, **({"inputs": ()} if comparison.before[model].inputs else {})}
        intent.alter(model, values)
    intent.removed = list(unread(comparison.before, [model for model, _, _ in bound]))
    yield from imported.violations(intent)


_ATTRS = ("dtype", "shape", "_output_shapes")
