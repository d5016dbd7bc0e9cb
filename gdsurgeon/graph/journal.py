"""What an edit has done, and what it promises: the journal and the claims."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gdsurgeon.graph.graph import Graph


class Rewired(NamedTuple):
    """An input slot that reads another tensor than before (`slot` counts the data inputs from 0)."""

    node: str
    slot: int
    old: str
    new: str


@dataclass
class Journal:
    """The names that changed, the nodes that came and went, and the input slots that read something else.

    `renamed` maps a name in the graph before to the name after; `rewired` uses the names after; `copied` maps the names
    in a graph that was added to those that its nodes have now.
    """

    renamed: dict[str, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rewired: list[Rewired] = field(default_factory=list)
    copied: dict[str, str] = field(default_factory=dict)
    renamed_functions: dict[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has changed."""
        return not (self.renamed or self.added or self.removed or self.rewired)

    def after(self, name: str) -> str:
        """What the node NAME of the graph before is called now."""
        return self.renamed.get(name, name)


class Interface(NamedTuple):
    """A name that the model serves and what stands behind it after an edit.

    Attributes:
        name: the input or output as it is called before and after.
        part_input: the placeholder of the added graph that it corresponds to.
        part_result: the tensor of the added graph that takes its place.
        raw: where the model's own tensor can be found after the edit.
    """

    name: str
    part_input: str
    part_result: str
    raw: str


@dataclass(frozen=True)
class Claim:
    """What must hold between the graph before an edit and the graph after it.

    Every claim includes that an output which is not downstream of the edit is bit-identical.
    """


@dataclass(frozen=True)
class Unchanged(Claim):
    """Nothing beyond: it loads, it runs, what the edit does not reach is bit-identical."""


@dataclass(frozen=True)
class SameUnderNewNames(Claim):
    """Every output equals its counterpart under the new names (`Journal.renamed`), bit for bit."""


@dataclass(frozen=True)
class Preprocessed(Claim):
    """``edited(raw)`` equals ``original(pre(raw))``, the two run apart."""

    pre: Graph
    inputs: tuple[Interface, ...]


@dataclass(frozen=True)
class Postprocessed(Claim):
    """``edited(x)`` equals ``post(original(x))``, and the raw values are available under their new names."""

    post: Graph
    outputs: tuple[Interface, ...]


@dataclass
class EditResult:
    """What an edit returns.

    Attributes:
        journal: what was done.
        claims: what it promises; the proof by execution checks them.
        warnings: what somebody should know, a line each.
        notes: what was decided on the way, a line each (names that were made unique, ...).
    """

    journal: Journal
    claims: tuple[Claim, ...] = (Unchanged(),)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
