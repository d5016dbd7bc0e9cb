"""slim: what the signatures need is there as it was, with nodes that restore and save variables; all else is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from gdsurgeon.comparison.audit import audit
from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.graph.serving import Serving
from gdsurgeon.specification.extract import above, cut_down
from gdsurgeon.specification.savers import each_once, say_saver

_ALIKE = frozenset(("Const", "NoOp"))
"""Ops of nodes by which two parts of a graph do not belong together."""


def violations(comparison: Comparison, signatures: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before = comparison.before
    serving = before.serving or Serving()
    serving = serving.before or serving
    table = before.store.table
    meant = [serving.signatures[key] for key in signatures or serving.called]
    tensors = chain.from_iterable(served.tensors for served in meant)
    kept = above(table, {table.rows[tensor.partition(":")[0]] for tensor in tensors})
    if serving.initialising is not None:
        loading = above(table, {table.rows[name] for name in serving.initialising.targets})
        if any(table.op(row) not in _ALIKE for row in loading & kept):
            kept |= loading
    intent, faults = cut_down(comparison, kept, ())
    yield from faults
    saved = each_once(before, serving, kept)
    if saved:
        say_saver(before, saved, intent)
    yield from audit(comparison, intent)
