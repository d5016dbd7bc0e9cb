"""reroute: who read the one tensor reads the other, and nothing else is different."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.ops.kinds import NEXT_ITERATION


def violations(
    comparison: Comparison,
    pairs: Sequence[tuple[str, str]],
    swap: bool = False,
    only: str | None = None,
    exclude: str | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before = comparison.before
    directed = [(old.removesuffix(":0"), new.removesuffix(":0")) for old, new in pairs]
    directed += [(new, old) for old, new in directed] if swap else []
    intent = Intent()
    for old, new in directed:
        above = _above(before, parse_tensor(new).node) if old != new else set()
        for name in before.store.users(parse_tensor(old).node) if old != new else ():
            # What the new tensor is made of keeps reading the old one.
            is_meant = (only is None or re.search(only, name)) and (exclude is None or not re.search(exclude, name))
            if is_meant and name not in above:
                for slot, read in enumerate(before[name].inputs):
                    if read.name == old:
                        intent.rewired.append(Rewired(name, slot, old, new))
    yield from audit(comparison, intent)


def _above(graph: Graph, name: str) -> set[str]:
    """A node and all that it depends on, but for what comes round a loop."""
    table = graph.store.table

    def producers(row: int) -> list[int]:
        rows = (code >> Table.PORT_BITS for code in table.inputs(row) if code >= 0)
        return [row for row in rows if table.op(row) not in NEXT_ITERATION]

    return {table.names[row] for row in closure([table.rows[name]], producers)}
