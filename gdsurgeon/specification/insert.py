"""insert: the inserted graph reads a tensor, whose consumers read its result; nothing else is new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.joining import ImportedGraph, in_scope, placeholders, result
from gdsurgeon.specification.rows import Rows
from gdsurgeon.specification.selected import Selecting, selected


def violations(
    comparison: Comparison,
    tensor: str | Selecting | Iterable[str],
    body: object,
    scope: str = "",
    *,
    bodies: Sequence[Graph] = (),
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`. `bodies`: the graph that is inserted for each tensor."""
    before, intent = comparison.before, Intent()
    rows = Rows(before)
    tensors: list[str]
    if isinstance(tensor, (str, tuple, list)):
        tensors = list(dict.fromkeys(map(str, [tensor] if isinstance(tensor, str) else tensor)))
    else:  # output 0 of the selected nodes, if it has consumers
        tensors = [name for name in selected(before, tensor) if any(True for _ in rows.uses(rows.tensor(name)))]
    imported: list[ImportedGraph] = []
    for name, part in zip((name.removesuffix(":0") for name in tensors), bodies, strict=True):
        part = before if part.pristine() is before else part
        own = scope
        if not isinstance(tensor, str) and isinstance(body, Graph):
            own = f"{name.replace(':', '_')}/{scope}"
        imported.append(ImportedGraph(comparison, part, {placeholders(part)[0]: name}, in_scope(part, own)))
        intent.rewire(rows.uses(rows.tensor(name)), name, imported[-1].tensor(result(part)))
        imported[-1].declare(intent)
    yield from audit(comparison, intent)
    for each in imported:
        yield from each.faults()
