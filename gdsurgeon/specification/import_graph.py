"""import: the other graph is there, in its scope and connected as asked; what was there is as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.joining import Joined, in_scope


def violations(
    comparison: Comparison, other: Graph, scope: str = "", connect: Sequence[tuple[str, str]] = ()
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    if other.pristine() is comparison.before:
        other = comparison.before
    stands = {placeholder.removesuffix(":0"): tensor.removesuffix(":0") for tensor, placeholder in connect}
    yield from Joined(comparison, other, stands, in_scope(other, scope)).violations(Intent())
