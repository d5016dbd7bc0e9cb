"""insert: the graph reads the tensor, and who read the tensor reads what the graph makes of it; nothing else is new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.joining import Joined, in_scope, placeholders, result, uses
from gdsurgeon.specification.selected import Selecting, selected


def violations(
    comparison: Comparison,
    tensor: str | Selecting | Iterable[str],
    body: object,
    scope: str = "",
    *,
    bodies: Sequence[Graph] = (),
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`. BODIES: BODY, or what it returns, for each tensor in order."""
    before, intent = comparison.before, Intent()
    joined: list[Joined] = []
    for name, part in zip(_tensors(before, tensor), bodies, strict=True):
        part = before if part.pristine() is before else part
        node, _, index = name.partition(":")
        own = scope
        if not isinstance(tensor, str) and isinstance(body, Graph):
            own = f"{node}_{index}/{scope}" if index else f"{node}/{scope}"
        joined.append(Joined(comparison, part, {placeholders(part)[0]: name}, in_scope(part, own)))
        new = joined[-1].tensor(result(part))
        intent.rewired += [Rewired(user, slot, name, new) for user, slot in uses(before, name)]
        joined[-1].say(intent)
    yield from audit(comparison, intent)
    for each in joined:
        yield from each.faults()


def _tensors(before: Graph, wanted: str | Selecting | Iterable[str]) -> list[str]:
    """The tensors that are meant: of selected nodes the first outputs that have consumers."""
    if isinstance(wanted, str):
        return [wanted.removesuffix(":0")]
    if isinstance(wanted, (tuple, list)):
        return list(dict.fromkeys(name.removesuffix(":0") for name in wanted))
    return [name for name in selected(before, wanted) if next(uses(before, name), None) is not None]
