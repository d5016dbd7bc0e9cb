"""What is different about two nodes of two graphs, as the files have them."""

from __future__ import annotations

from collections.abc import Callable

from gdsurgeon.comparison.compare import Spelling
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.functions import called_functions
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.writing import node_def
from gdsurgeon.text import an, shortened
from gdsurgeon.wire.protos import AttrValue

MOST_SHOWN = 60
"""Characters of an attr that a line repeats."""


def node_differences(a: Node, b: Node, name_in_b: Callable[[str], str] = lambda tensor: tensor) -> list[str]:
    """A line for each difference between node A of one graph and node B of another; [] where there is none.

    NAME_IN_B gives the name that a tensor of A's graph has in B's. Constants of any size are compared; no value of
    one is spelt out.
    """
    spelling = Spelling(name_in_b)
    changes = {what: (was, now) for what, was, now in spelling.compared(a, b) if was != now}
    waited, waits = ({*(names or ())} for names in changes.get("controls", ((), ())))
    out = [f"it is {an(b.op)}, not {an(a.op)}"] if "op" in changes else []
    if "inputs" in changes:
        out.append(f"it has {len(b.inputs)} inputs, not {len(a.inputs)}")
    out += [f"input {slot} is {quoted(new)}, not {quoted(old)}" for _, slot, old, new in spelling.rewired(a, b)]
    out += [f"it has an additional control input {quoted(name)}" for name in sorted(waits - waited)]
    out += [f"it lacks the control input {quoted(name)}" for name in sorted(waited - waits)]
    out += [_attr(a, b, what[5:]) for what in changes if what.startswith("attr ")]
    out += _bodies(a, b)
    if "device" in changes:
        out.append(f"its device is {quoted(b.device)}, not {quoted(a.device)}")
    return out


def _attr(a: Node, b: Node, key: str) -> str:
    if not (a.has_attr(key) and b.has_attr(key)):
        return f"attr {quoted(key)} is missing" if a.has_attr(key) else f"attr {quoted(key)} is new"
    if a.op == "Const" and key == "value":
        return "its constant value differs"
    old, new = _text(a.attr(key)), _text(b.attr(key))
    return f"attr {quoted(key)} is {new}, not {old}" if old != new else f"attr {quoted(key)} differs"


def _text(value: AttrValue | None) -> str:
    text = " ".join(str(value).split())
    return printable(shortened(text, MOST_SHOWN))


def _bodies(a: Node, b: Node) -> list[str]:
    """The functions that both call by one name and that are two different ones."""
    out: list[str] = []
    if not len(a.graph.functions) or "Const" in (a.op, b.op):
        return out
    theirs = set(called_functions(node_def(b), b.graph.functions))
    for name in called_functions(node_def(a), a.graph.functions):
        before, after = a.graph.functions.get(name), b.graph.functions.get(name)
        if name not in theirs or before is None or after is None or before == after:
            continue
        nodes = {node.name: node for node in before.node_def}
        others = [node.name for node in after.node_def if nodes.get(node.name) != node]
        shown = ", ".join(map(quoted, others[:3])) or "its results"
        out.append(f"the function {quoted(name)} differs in {shown}")
    return out
