"""fuse-ops: a call stands where the nodes did: it reads what they read, and gives, does and waits for what they did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Intent, Rewired, made
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import bytes_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input
from gdsurgeon.graph.node import Node
from gdsurgeon.specification import fused_function
from gdsurgeon.specification.fused_function import Inside
from gdsurgeon.specification.fusion_boundary import Edges, is_idle, is_large, of_body, paired
from gdsurgeon.specification.joining import ImportedFunctions
from gdsurgeon.specification.selected import Selecting, selected

XLA = "_XlaMustCompile"


def violations(
    comparison: Comparison,
    nodes: Selecting | Sequence[str],
    name: str,
    inline: bool = False,
    xla: bool = False,
    body: Graph | None = None,
    mapped: Sequence[tuple[str, str]] = (),
    keep: Sequence[str] = (),
    rtol: float | None = None,
    atol: float | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del rtol, atol  # of the proof
    before, after = comparison.before, comparison.after
    names = selected(before, nodes)
    edges = Edges.of(before, [n for n in names if not is_large(before[n])], keep)
    call = after.find(name)
    function = call.attr("f") if call is not None else None
    if call is None or function is None:
        yield f"the call {quoted(name)} is missing"
        return
    intent = Intent()
    attrs = ({} if inline or xla else {"_noinline": True}) | ({XLA: True} if xla else {})
    if body is None:
        inside = Inside(before, edges.members, edges.inputs, edges.outputs, edges.awaited, {})
        reads = list(edges.inputs)
    else:
        came = ImportedFunctions(comparison, body)
        yield from came.violations()
        pairs = paired(before, body, edges, mapped, keep)
        idle = [n for n in edges.kept if n not in keep and n not in pairs[1] and is_idle(before, n)]
        edges = edges.without(idle)
        inside, reads = of_body(comparison, body, pairs, edges, name, intent)
        intent.renamed_functions = came.renamed
        inside = inside._replace(functions=came.names)
        intent.functions.added += came.added.values()
    if function.func.name not in before.functions:
        intent.functions.added.append(function.func.name)
    intent.added += [name, *(n for n in edges.kept if n != name)]
    yield from fused_function.violations(after, function.func.name, inside, attrs)
    yield from _call(call, edges, reads, inside, xla, intent)
    _around(before, name, edges, intent)
    yield from audit(comparison, intent)


def _call(call: Node, edges: Edges, reads: Sequence[str], inside: Inside, xla: bool, intent: Intent) -> Iterator[str]:
    """Says in INTENT what the call is, and yields a line for what it waits for and should not, or the reverse."""
    nothing, of_its_own = (bytes_value(data).SerializeToString() for data in (b"", OF_ITS_OWN))
    attrs: dict[str, bytes | None] = {"config": nothing, "config_proto": of_its_own, "executor_type": nothing}
    attrs |= dict.fromkeys(["Tin", "Tout", "f", *([XLA] if xla else [])])
    op = "StatefulPartitionedCall" if inside.stateful else "PartitionedCall"
    intent.altered += made(call.name, op, reads, [control.name for control in call.controls], attrs=attrs)
    if {control.name for control in call.controls} != set(edges.waits) | _pivots(call, edges, intent):
        yield (
            f"the call {quoted(call.name)} has the control inputs {sorted(control.name for control in call.controls)}"
        )
    if xla and not call.plain_attr(XLA):
        yield f"the call {quoted(call.name)} is not compiled by XLA"


OF_ITS_OWN = b"R\x05R\x03\x98\x01\x01"
"""A ConfigProto by which a call does not optimise its function by itself."""


def _pivots(call: Node, edges: Edges, intent: Intent) -> set[str]:
    """What the call waits for so that it runs where the nodes did: an Identity of something that they read."""
    found = [
        node
        for node in call.controls
        if node.name.startswith(f"{call.name}/pivot") and [r.name for r in node.inputs if r.name in edges.inputs]
    ]
    intent.added += [node.name for node in found]
    intent.altered += [Altered(node.name, "op", "Identity") for node in found]
    return {node.name for node in found}


def _around(graph: Graph, name: str, edges: Edges, intent: Intent) -> None:
    """Says in INTENT what is different outside."""
    place = {tensor: format_input(name, index) for index, tensor in enumerate(edges.outputs)}
    intent.rewired += [Rewired(user, slot, tensor, place[tensor]) for user, slot, tensor in edges.readers]
    intent.changed += edges.waiters
    for user in edges.waiters:
        controls = dict.fromkeys(name if c.name in edges.members else c.name for c in graph[user].controls)
        intent.altered.append(Altered(user, "controls", tuple(controls)))
    for kept in (node for node in edges.kept if node != name):
        given = [place[format_input(kept, index)] for index in range(graph[kept].output_count or 0)]
        op = "NoOp" if not given else "Identity" if len(given) == 1 else "IdentityN"
        intent.altered += made(kept, op, given, () if given else [name])
    intent.removed = [member for member in edges.members if member not in edges.kept and member != name]
