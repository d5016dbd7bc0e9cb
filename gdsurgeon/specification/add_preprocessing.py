"""add-preprocessing: who read an input reads what the part makes of it; the input is what the part takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Intent, Rewired
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.joining import Bound, Joined, bindings, uses
from gdsurgeon.specification.sharing import unread


def violations(comparison: Comparison, pre: Graph, mapped: Sequence[Bound] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    bound = bindings(pre, mapped, "_preprocessed")
    joined = Joined(comparison, pre, {raw: model for model, raw, _ in bound})
    intent = Intent(changed=[model for model, _, _ in bound])
    for model, raw, result in bound:
        new = joined.tensor(result)
        intent.rewired += [Rewired(name, slot, model, new) for name, slot in uses(comparison.before, model)]
        intent.altered.append(Altered(model, "op", pre[raw].op))
        if comparison.before[model].inputs:
            intent.altered.append(Altered(model, "inputs", ()))
        for key in ("dtype", "shape", "_output_shapes"):
            intent.altered.append(Altered(model, f"attr {key}", pre[raw].attr_bytes(key)))
    intent.removed = list(unread(comparison.before, [model for model, _, _ in bound]))
    yield from joined.violations(intent)
