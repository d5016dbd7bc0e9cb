"""The printed lines of a command that changes nothing: the model, and one line for each finding."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.errors import printable
from gdsurgeon.text import counted, labelled


def findings(model: str, nodes: int, ops: int, entries: Sequence[tuple[str, str]]) -> list[str]:
    """The lines: the MODEL with the number of its NODES and of their OPS, then ENTRIES, each with its label."""
    return [f"{printable(model)}  {counted(nodes, 'node')}, {counted(ops, 'op type')}", *labelled(entries)]
