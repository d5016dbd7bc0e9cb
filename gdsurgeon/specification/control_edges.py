"""control-edges: the named control inputs are added or removed, and nothing else is different."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted

Edge = tuple[str, str]


def violations(comparison: Comparison, add: Sequence[Edge] = (), remove: Sequence[Edge] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    waits: dict[str, set[str]] = {}
    for node, _ in (*add, *remove):
        waits[node] = {control.name for control in comparison.before[node].controls}
    for node, other in remove:
        gone = waits[node] if other.lstrip("^") == "*" else {other.lstrip("^")}
        waits[node] = waits[node] - gone
    for node, other in add:
        waits[node].add(other.lstrip("^"))
    intent = Intent()
    for node, wanted in waits.items():
        if {control.name for control in comparison.after[node].controls} != wanted:
            yield (
                f"{quoted(node)} does not have the requested control inputs: {', '.join(sorted(wanted)) or 'nothing'}"
            )
        if set(comparison.facts.altered.get(node, ())) == {"controls"}:
            intent.alter(node, {"controls": tuple(control.name for control in comparison.after[node].controls)})
    yield from audit(comparison, intent)
