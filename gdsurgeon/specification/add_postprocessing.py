"""add-postprocessing: the result of the added graph has the name of the output, which has a new name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import InputRef, format_input, is_numbered, parse_tensor
from gdsurgeon.specification.joining import Bound, ImportedGraph, bindings


def violations(comparison: Comparison, post: Graph, mapped: Sequence[Bound] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""

    def output_count(name: str) -> int:  # 1 for an unknown op
        return len(comparison.before[name].output_dtypes or (0,))

    bound = bindings(post, mapped, "_postprocessed")
    outputs = {raw: parse_tensor(model) for model, raw, _ in bound}
    raws = {ref.node: comparison.facts.renamed.get(ref.node, "") for ref in outputs.values()}
    for model, raw in raws.items():
        if not is_numbered(raw, f"{model}_raw"):
            yield f"{quoted(model)} has the new name {quoted(raw)}, not {quoted(model + '_raw')}"
    # A result that is the only output of its node, and replaces one output, has the name itself.
    count = Counter(parse_tensor(result).node for _, _, result in bound)
    direct = {
        result: model
        for model, _, result in bound
        if count[result] == 1 and len(post[result].outputs) == 1 and result not in outputs
        if output_count(parse_tensor(model).node) == 1
    }
    replaced = {raw: format_input(raws[ref.node], ref.port) for raw, ref in outputs.items()}
    imported = ImportedGraph(comparison, post, replaced, direct, (*raws, *raws.values()))
    forwarded = {outputs[raw]: imported.tensor(result) for _, raw, result in bound if result not in direct}
    intent = Intent(renamed=raws)
    for node in dict.fromkeys(ref.node for ref in forwarded):
        own = [InputRef(node, port) for port in range(output_count(node))]
        read = [forwarded.get(ref) or format_input(raws[node], ref.port) for ref in own]
        intent.add(node, "Identity" if len(read) == 1 else "IdentityN", read)
    yield from imported.violations(intent)
