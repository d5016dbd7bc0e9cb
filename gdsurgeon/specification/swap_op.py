"""swap-op: the nodes that are meant are another op, with attrs of that op, and nothing else is different."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdsurgeon.comparison.audit import audit
from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.comparison.intent import Altered, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.specification.selected import Selecting, selected
from gdsurgeon.specification.set_attr import spells


def violations(
    comparison: Comparison, nodes: Selecting | Iterable[str], op: str, values: Sequence[tuple[str, str]] = ()
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    names = selected(comparison.before, nodes)
    before, after = comparison.before, comparison.after
    definition = after.op_def(op)
    texts = dict(values)
    taken = () if definition is None else definition.inputs
    follow = {key for arg in taken for key in (arg.type_attr, arg.number_attr, arg.list_attr)}  # what inputs say
    intent = Intent()
    for name in names:
        old, new = before[name], after[name]
        if old.op == op:
            continue
        intent.changed.append(name)
        intent.altered.append(Altered(name, "op", op))
        for key in dict.fromkeys((*old.attr_keys, *new.attr_keys)):
            is_known = definition is not None and key in definition.attrs
            if is_known or not key.startswith("_") or key == "_output_shapes":
                intent.altered.append(Altered(name, f"attr {key}", new.attr_bytes(key) if is_known else None))
            was, now = old.attr_bytes(key), new.attr_bytes(key)
            if is_known and was is not None and key not in texts and was != now and key not in follow:
                yield f"{quoted(name)} had {key} before, and has another now"
        for key, text in texts.items():
            data = new.attr_bytes(key)
            if data is None or not spells(text, attr_value(data)):
                yield f"{quoted(name)} was to have {key} = {text}, and has not"
    yield from audit(comparison, intent)
