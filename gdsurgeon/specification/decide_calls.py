"""The stage of simplify in which If and Case become calls of what a constant chooses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.comparison.audit import audit
from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.comparison.intent import Altered, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.node import Node
from gdsurgeon.wire.messages import message

_STATELESS = frozenset(("StatelessIf", "StatelessCase"))


def violations(comparison: Comparison, outputs: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del outputs
    intent = Intent()
    for name in comparison.facts.altered:
        old, new = comparison.before[name], comparison.after[name]
        function = _function(old)
        if not function:
            continue
        intent.changed.append(name)
        kept = {key: old.attr_bytes(key) for key in ("Tin", "Tout", "_class") if old.has_attr(key)}
        keys = dict.fromkeys([*old.attr_keys, *new.attr_keys])
        intent.altered += [Altered(name, f"attr {key}", kept.get(key)) for key in keys if key != "f"]
        op = "PartitionedCall" if old.op in _STATELESS else "StatefulPartitionedCall"
        reads = tuple(read.name for read in old.inputs[1:])
        intent.altered += [Altered(name, "op", op), Altered(name, "inputs", reads)]
        intent.altered.append(Altered(name, "attrs", tuple(sorted((*kept, "f")))))
        intent.altered.append(Altered(name, "attr f", new.attr_bytes("f")))
        if message("tensorflow.AttrValue").FromString(new.attr_bytes("f") or b"").func.SerializeToString() != function:
            yield f"{quoted(name)} calls another function than it does in any case"
    yield from audit(comparison, intent)


def _function(node: Node) -> bytes:
    """The function that a node comes to call whatever it is given, serialised; b'' where nothing says so."""
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
