"""The folds of simplify: a convolution computes the result of the nodes that it replaces, and nothing else changes.

See `folded`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.serving import Serving
from gdsurgeon.specification.folded import Fold, NotFolded


def violations(comparison: Comparison, outputs: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    facts = comparison.facts
    intent, going = Intent(), dict[str, None]()
    for name in _computed_otherwise(comparison):
        try:
            fold = Fold(comparison, name)
        except NotFolded as why:
            yield f"{quoted(name)} was changed, but is not a convolution with folded neighbors: {why}"
            continue
        yield from fold.faults()
        intent.changed.append(name)
        intent.added += [each for each in fold.come() if each not in intent.added]
        going |= dict.fromkeys(fold.going())
    serving = comparison.before.serving or Serving()
    named = {*serving.nodes, *(parse_tensor(text).node for text in outputs)}
    for name in facts.removed:
        if name in going and name not in named and any(True for _ in comparison.before.users(comparison.before[name])):
            intent.removed.append(name)
    yield from audit(comparison, intent)


def _computed_otherwise(comparison: Comparison) -> Iterator[str]:
    """Returns the nodes of both graphs with different ops, attrs or inputs."""
    facts = comparison.facts
    yield from dict.fromkeys([*facts.altered, *(slot.node for slot in facts.rewired)])
