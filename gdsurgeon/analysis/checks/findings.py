"""What the structural check has found."""

from __future__ import annotations

from dataclasses import dataclass, field

from gdsurgeon.values import Data

MOST_FAULTS = 100
"""Faults of which the text is made; beyond, they are counted."""


@dataclass(eq=False, repr=False)
class Findings(Data):
    """What the structural check has found.

    Attributes:
        faults: what makes the graph unusable, a line each.
        fault_count: how many there are; `faults` holds the first `MOST_FAULTS`.
        warnings: what is odd and does no harm.
        reordered: rows of nodes whose control inputs stand before data inputs: TensorFlow refuses that, and
            writing the node anew puts it right.
        dangling_colocations: rows of nodes that are colocated with a node that is not there; likewise.
    """

    faults: list[str] = field(default_factory=list)
    fault_count: int = 0
    warnings: list[str] = field(default_factory=list)
    reordered: list[int] = field(default_factory=list)
    dangling_colocations: list[int] = field(default_factory=list)

    def fault(self, text: str) -> None:
        """Notes a fault."""
        self.fault_count += 1
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(text)

    def warn(self, text: str) -> None:
        """Notes a warning, once."""
        if len(self.warnings) < MOST_FAULTS and text not in self.warnings:
            self.warnings.append(text)
