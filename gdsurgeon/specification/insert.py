"""insert: the graph reads the tensor, and who read the tensor reads what the graph makes of it; nothing else is new."""

from __future__ import annotations

from collections.abc import Iterator

from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.joining import Joined, in_scope, placeholders, result, uses


def violations(comparison: Comparison, tensor: str, body: Graph, scope: str = "") -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    if body.pristine() is comparison.before:
        body = comparison.before
    tensor = tensor.removesuffix(":0")
    joined = Joined(comparison, body, {placeholders(body)[0]: tensor}, in_scope(body, scope))
    new = joined.tensor(result(body))
    rewired = [Rewired(name, slot, tensor, new) for name, slot in uses(comparison.before, tensor)]
    yield from joined.violations(Intent(rewired=rewired))
