"""What is different between two graphs, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from gdsurgeon.values import Data

Value = str | bytes | tuple[str, ...] | None
"""A text, a serialised AttrValue, names of tensors or nodes; None: it is not there."""


class Rewired(NamedTuple):
    """An input slot that reads another tensor than before (`slot` counts the data inputs from 0)."""

    node: str
    slot: int
    old: str
    new: str


@dataclass(eq=False, repr=False)
class FunctionChanges(Data):
    """Names of library functions."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class Facts(Data):
    """What is different about a graph from another.

    Attributes:
        renamed: names before, and now.
        added, removed: names of nodes; a name is among both where another node has it now.
        rewired: slots that read another tensor, and not only under another name.
        altered: for nodes of both graphs (names now) what else is different, and what it was and is: ``op``,
            ``device``, ``inputs`` (where there are more or fewer), ``controls``, ``colocated``, ``attr`` and a key.
        functions: of the library.
        beside: other fields: ``versions``, ``gradient of`` and a function, ``doubled`` and a node's name, ...
    """

    renamed: dict[str, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rewired: list[Rewired] = field(default_factory=list)
    altered: dict[str, dict[str, tuple[Value, Value]]] = field(default_factory=dict)
    functions: FunctionChanges = field(default_factory=lambda: FunctionChanges())
    beside: dict[str, tuple[Value, Value]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is different."""
        return self == Facts()
