"""reroute: the consumers of one tensor read the other, and nothing else is different."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.graph.functions import closure
from gdsurgeon.ops.kinds import NEXT_ITERATION
from gdsurgeon.specification.rows import Rows


def violations(
    comparison: Comparison,
    pairs: Sequence[tuple[str, str]],
    swap: bool = False,
    only: str | None = None,
    exclude: str | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    rows, intent = Rows(comparison.before), Intent()

    def producers(row: int) -> list[int]:  # without the previous iteration of a loop
        return [producer for producer in rows.producers(row) if rows.op(producer) not in NEXT_ITERATION]

    def may_change(name: str) -> bool:
        return (only is None or bool(re.search(only, name))) and (exclude is None or not re.search(exclude, name))

    directed = [(rows.tensor(old), rows.tensor(new)) for old, new in pairs]
    for old, new in directed + ([(new, old) for old, new in directed] if swap else []):
        if old != new:
            above = {rows.names[row] for row in closure([new[0]], producers)}  # these keep reading the old tensor
            slots = [use for use in rows.uses(old) if use[0] not in above and may_change(use[0])]
            intent.rewire(slots, rows.name(old), rows.name(new))
    yield from audit(comparison, intent)
