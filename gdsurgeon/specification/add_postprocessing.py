"""add-postprocessing: an output's name serves what the part makes of it; the output itself has another name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent, made
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import InputRef, format_input, is_numbered, parse_tensor
from gdsurgeon.specification.joining import Bound, Joined, bindings


def violations(comparison: Comparison, post: Graph, mapped: Sequence[Bound] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    bound = bindings(post, mapped, "_postprocessed")
    outputs = {raw: parse_tensor(model) for model, raw, _ in bound}
    raws = {ref.node: comparison.facts.renamed.get(ref.node, "") for ref in outputs.values()}
    for model, raw in raws.items():
        if not is_numbered(raw, f"{model}_raw"):
            yield f"{quoted(model)} has the new name {quoted(raw)}, not {quoted(model + '_raw')}"
    # A result that is all that its node gives, and of no other output, has the name itself; else it is handed on.
    count = Counter(parse_tensor(result).node for _, _, result in bound)
    direct = {
        result: model
        for model, _, result in bound
        if count[result] == 1 and len(post[result].outputs) == 1 and result not in {raw for _, raw, _ in bound}
        if _gives(comparison.before, parse_tensor(model).node) == 1
    }
    stands = {raw: format_input(raws[ref.node], ref.port) for raw, ref in outputs.items()}
    joined = Joined(comparison, post, stands, direct, (*raws, *raws.values()))
    behind = {outputs[raw]: joined.tensor(result) for _, raw, result in bound if result not in direct}
    handed_on = list(dict.fromkeys(ref.node for ref in behind))
    intent = Intent(renamed=raws, added=handed_on)
    for node in handed_on:
        own = [InputRef(node, port) for port in range(_gives(comparison.before, node))]
        read = [behind.get(ref) or format_input(raws[node], ref.port) for ref in own]
        intent.altered += made(node, "Identity" if len(read) == 1 else "IdentityN", read)
    yield from joined.violations(intent)


def _gives(graph: Graph, name: str) -> int:
    """How many outputs a node has; those of ops that are not known count as one."""
    return len(graph[name].output_dtypes or (0,))
