"""The results of the structural check."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gdsurgeon.errors import InputError, Json, Remark, printable
from gdsurgeon.text import and_more
from gdsurgeon.values import Data

MOST_FAULTS = 100
"""The maximum number of faults with a text; further ones are only counted."""


@dataclass(eq=False, repr=False)
class Findings(Data):
    """The results of the structural check.

    Attributes:
        faults: what makes the graph unusable, a line each.
        counts: how many there are, by their codes; `faults` holds the first `MOST_FAULTS`.
        warnings: harmless irregularities.
        reordered: rows of nodes whose control inputs stand before data inputs: TensorFlow refuses that, and
            writing the node anew puts it right.
        dangling_colocations: rows of nodes that are colocated with a node that is not there; likewise.
    """

    faults: list[Remark] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    reordered: list[int] = field(default_factory=list)
    dangling_colocations: list[int] = field(default_factory=list)

    @property
    def fault_count(self) -> int:
        """How many faults there are."""
        return self.counts.total()

    def fault(self, text: str, code: str, **facts: Json) -> None:
        """Notes a fault."""
        self.add(Remark(text, code, **facts))

    def add(self, fault: Remark) -> None:
        """Notes a fault."""
        self.counts[fault.code] += 1
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(fault)

    def as_error(self, source_name: str) -> InputError:
        """The error for the graph in the file SOURCE_NAME, which has these faults."""
        name, count = printable(source_name), self.fault_count
        more = and_more(count - len(self.faults))
        details = (*self.faults, *((more[1:],) if more else ())) if count > 1 else ()
        told = f"{name} is broken in {count:,} places:" if count > 1 else f"{name} is broken: {self.faults[0]}"
        faults = [fault.as_json() for fault in self.faults]
        facts: dict[str, Json] = {"file": source_name, "count": count, "faults": faults}
        return InputError(told, code="unsound-graph", facts=facts, advice="repair", details=details)

    def of(self, name: str) -> list[Remark]:
        """The faults that name the node NAME of the graph."""
        return [fault for fault in self.faults if name in _nodes_in(fault)]

    def warn(self, text: str, code: str, **facts: Json) -> None:
        """Notes a warning, once."""
        if len(self.warnings) < MOST_FAULTS and text not in self.warnings:
            self.warnings.append(Remark(text, code, **facts))


def _nodes_in(fault: Remark) -> list[object]:
    """The names of the nodes of the graph that FAULT is about."""
    facts = fault.facts
    if "function" in facts:
        return []
    nodes = facts.get("nodes", ())
    read = str(facts.get("tensor", "")).removeprefix("^").partition(":")[0]
    return [facts.get("node"), read, *(nodes if isinstance(nodes, list) else ())]
