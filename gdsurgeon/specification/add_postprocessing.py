"""add-postprocessing: an output's name serves what the part makes of it; the output itself has another name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.comparison.intent import Intent, made
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import is_numbered, parse_tensor
from gdsurgeon.specification.joining import Bound, Joined, bindings


def violations(comparison: Comparison, post: Graph, mapped: Sequence[Bound] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    bound = bindings(post, mapped, "_postprocessed")
    raws = {model: comparison.facts.renamed.get(model, "") for model, _, _ in bound}
    for model, raw in raws.items():
        if not is_numbered(raw, f"{model}_raw"):
            yield f"{quoted(model)} is called {quoted(raw)}, not {quoted(model + '_raw')}"
    # A result that is all that its node gives, and of no other output, has the name itself; else it is handed on.
    count = Counter(parse_tensor(result).node for _, _, result in bound)
    direct = {
        result: model
        for model, _, result in bound
        if count[result] == 1 and len(post[result].outputs) == 1 and result not in {raw for _, raw, _ in bound}
    }
    stands = {raw: raws[model] for model, raw, _ in bound}
    joined = Joined(comparison, post, stands, direct, (*raws, *raws.values()))
    handed_on = [(model, result) for model, _, result in bound if result not in direct]
    intent = Intent(renamed=raws, added=[model for model, _ in handed_on])
    for model, result in handed_on:
        intent.altered += made(model, "Identity", [joined.tensor(result)])
    yield from joined.violations(intent)
