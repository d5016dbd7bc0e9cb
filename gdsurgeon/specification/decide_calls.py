"""The stage of simplify that makes If and Case with constant conditions calls, and removes loops without iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.constants import constant, constant_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import hides_state
from gdsurgeon.wire.protos import AttrValue

_STATELESS = frozenset(("StatelessIf", "StatelessCase"))


def decide_calls(comparison: Comparison, outputs: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del outputs
    intent = Intent()
    for name in comparison.facts.altered:
        old, new = comparison.before[name], comparison.after[name]
        function = _function(old)
        if not function and not _hands_on(comparison.before, old):
            continue
        op = "IdentityN" if not function else "PartitionedCall" if old.op in _STATELESS else "StatefulPartitionedCall"
        kept = ("Tin", "Tout", "_class") if function else ("T", "_class")
        attrs = {key: old.attr_bytes(key) for key in kept if old.has_attr(key)}
        reads = old.inputs[1:] if function else old.inputs
        if function:
            attrs["f"] = new.attr_bytes("f")
            if AttrValue.FromString(attrs["f"] or b"").func.SerializeToString() != function:
                yield f"{quoted(name)} calls a different function than the one that is always called"
        values = {f"attr {key}": attrs.get(key) for key in (*old.attr_keys, *new.attr_keys)}
        inputs = tuple(read.name for read in reads)
        intent.alter(name, {"op": op, "inputs": inputs, "attrs": tuple(sorted(attrs)), **values})
    yield from audit(comparison, intent)


def _hands_on(graph: Graph, node: Node) -> bool:
    """Returns whether a loop has no iteration: its condition returns a constant and has no effects."""
    condition = node.attr("cond") if node.op in ("StatelessWhile", "While") else None
    called = condition.func.name if condition is not None else ""
    function = graph.functions.get(called)
    if function is None or len(function.signature.output_arg) != 1:
        return False
    inside = (each.op for name in graph.functions.reachable([called]) for each in graph.functions[name].node_def)
    if any((found := graph.op_def(op)) is None or found.is_stateful or hides_state(op) for op in inside):
        return False
    nodes = {inner.name: inner for inner in function.node_def}
    text = function.ret[function.signature.output_arg[0].name]
    while True:
        inner = nodes.get(text.partition(":")[0])
        if inner is None or inner.op not in ("Const", "Identity") or len(inner.input) != (inner.op == "Identity"):
            return False
        if inner.op == "Const":
            held = constant_in(inner.attr["value"].SerializeToString())
            return held is not None and held.shape == () and len(held.values) == 1 and not held.values[0]
        text = inner.input[0]


def _function(node: Node) -> bytes:
    """Returns the function that a node always calls, serialized; b'' if it is not constant."""
    reads = node.inputs
    found = constant(reads[0].node) if node.op in (*_STATELESS, "If", "Case") and reads else None
    if found is None or found.shape != () or reads[0].node.controls:
        return b""
    number = found.values[0]
    if node.op.endswith("If"):
        functions = [node.attr(key) for key in ("else_branch", "then_branch")]
        chosen = functions[1 if number else 0]
        return b"" if chosen is None else bytes(chosen.func.SerializeToString())
    branches = list(value.list.func) if (value := node.attr("branches")) is not None else []
    if not branches or not isinstance(number, int):
        return b""
    return bytes((branches[number] if 0 <= number < len(branches) else branches[-1]).SerializeToString())
