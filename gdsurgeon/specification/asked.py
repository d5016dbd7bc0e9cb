"""The request of an edit: its name and its arguments, as they were before it began."""

from __future__ import annotations

from typing import NamedTuple


class Asked(NamedTuple):
    """The request of an edit.

    Attributes:
        edit: the name of its function.
        arguments: the arguments except the graph, by name. Nodes and tensors are represented by their names.
    """

    edit: str
    arguments: dict[str, object]
