"""What two models differ in as graphs, and what became of each difference: shown equal, shown different, or neither."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.comparison.facts import Value
from gdsurgeon.errors import Json, printable, quoted
from gdsurgeon.graph.attrs import attr_value, plain
from gdsurgeon.text import listed, shortened
from gdsurgeon.wire.messages import decode_error

EQUAL, DIFFERENT = "equal", "different"
MOST_SHOWN = 60
"""Characters of a value that a line repeats."""


@dataclass
class GraphDifference:
    """A node, or something beside the nodes, that two models do not have alike.

    Attributes:
        where: the function that it is in; '' at the top.
        name: of the node, or what it is.
        what: what is different about it, a phrase each.
        node: whether it is a node that both have.
        is_rewired: whether all that is different is what it reads.
        has_value: whether a value could show it: that a node waits for another, or where it runs, shows in none.
        shown: `EQUAL` or `DIFFERENT`, where it was run apart on numbers of its own; '' where it was not.
        why: how that was shown, or why it was not.
    """

    where: str
    name: str
    what: list[str] = field(default_factory=list)
    node: bool = True
    is_rewired: bool = False
    has_value: bool = True
    shown: str = ""
    why: str = ""

    @property
    def text(self) -> str:
        """It as a line."""
        where = f" in the function {quoted(self.where)}" if self.where else ""
        return f"{quoted(self.name)}{where}: {listed(self.what, 3)}{f' ({self.why})' if self.why else ''}"

    def as_json(self) -> dict[str, Json]:
        """For reports."""
        return {
            "function": self.where or None,
            "name": self.name,
            "differences": list(self.what),
            "shown": self.shown or None,
            "why": self.why or None,
        }


def listed_differences(comparison: Comparison, where: str = "") -> list[GraphDifference]:
    """All differences between two models, those inside functions included; those of the model's first.

    Args:
        comparison: of the models.
        where: the function of which these are the bodies, '' at the top.
    """
    facts = comparison.facts
    nodes: dict[str, GraphDifference] = {}
    for slot in facts.rewired:
        found = nodes.setdefault(slot.node, GraphDifference(where, slot.node, is_rewired=True))
        found.what.append(f"input {slot.slot} is {quoted(slot.new)}, not {quoted(slot.old)}")
    for name, altered in facts.altered.items():
        found = nodes.setdefault(name, GraphDifference(where, name, is_rewired=True, has_value=False))
        for what, (was, now) in altered.items():
            found.what.append(_told(what, was, now))
            found.is_rewired &= what == "inputs"
            found.has_value |= what in ("op", "inputs") or (what.startswith("attr ") and not what[5:].startswith("_"))
    out = list(nodes.values())
    out += [GraphDifference(where, name, ["is only in the first"], node=False) for name in facts.removed]
    out += [GraphDifference(where, name, ["is only in the second"], node=False) for name in facts.added]
    functions = facts.functions
    out += [GraphDifference("", f, ["the function is only in the first"], node=False) for f in functions.removed]
    out += [GraphDifference("", f, ["the function is only in the second"], node=False) for f in functions.added]
    for name in functions.changed:
        body = comparison.inside.get(name)
        inner = listed_differences(body, name) if body is not None else []
        out += inner or [GraphDifference("", name, ["the function differs"], node=False)]
    out += [_beside(where, what, was, now) for what, (was, now) in facts.beside.items()]
    return out


def _beside(where: str, what: str, was: Value, now: Value) -> GraphDifference:
    change = "is only in the second" if was is None else "is only in the first" if now is None else "differs"
    has_value = what in ("signature", "versions") or what.startswith("gradient")
    return GraphDifference(where, what, [change], node=False, has_value=has_value)


def _told(what: str, was: Value, now: Value) -> str:
    if what == "op":
        return f"{printable(str(was))} -> {printable(str(now))}"
    if what == "device":
        return f"device {quoted(str(was))} -> {quoted(str(now))}"
    if what == "attr value":
        return "its value differs"
    if what.startswith("attr "):
        return f"{printable(what[5:])} {_attr(was)} -> {_attr(now)}"
    if what == "other fields":
        return "its unknown fields differ"
    kind = {"controls": "control inputs", "colocated": "colocated nodes", "inputs": "inputs"}.get(what, what)
    return f"{kind}: {_names(now)} instead of {_names(was)}"


def _names(value: Value) -> str:
    names = list(value) if isinstance(value, tuple) else []
    return ", ".join(map(quoted, names[:3])) + (", ..." if len(names) > 3 else "") if names else "nothing"


def _attr(data: Value) -> str:
    if not isinstance(data, bytes):
        return "absent"
    try:
        value = attr_value(data)
    except decode_error():
        return "corrupt"
    simple = plain(value)
    text = simple.decode("utf-8", "replace") if isinstance(simple, bytes) else str(simple)
    text = text if simple is not None else " ".join(str(value).split())
    return printable(shortened(text, MOST_SHOWN))


def summed_up(differences: list[GraphDifference]) -> Iterator[str]:
    """The differences that no execution has shown to be none, a line each."""
    return (item.text for item in differences if item.shown != EQUAL)
