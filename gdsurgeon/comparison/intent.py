"""What is to be different after an edit: what the edit says that it does, or what was asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.comparison.facts import FunctionChanges, Rewired, Value
from gdsurgeon.wire.protos import FunctionDef

if TYPE_CHECKING:
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.graph.node import Node


class Altered(NamedTuple):
    """What an edit has made of a node of the graph after it, or of a function.

    Attributes:
        node: its name.
        what: ``op``, ``device``, ``inputs``, ``controls``, ``colocated``, ``attrs`` (the keys that there are), or
            ``attr`` and a key, as in ``attr shape``; ``function`` for a whole FunctionDef.
        value: what that is now: a text, names of tensors or nodes, a message (serialised deterministically); None
            where it is gone.
    """

    node: str
    what: str
    value: Value


class Copies(NamedTuple):
    """Nodes of a graph that were copied.

    Attributes:
        originals: the graph.
        names: what the copies are called.
        outside: for tensors of the graph, the tensor that a copy reads in their place.
        is_own: whether it is the graph that was edited: a copy may read what its original reads.
    """

    originals: Graph
    names: Mapping[str, str]
    outside: Mapping[str, str]
    is_own: bool


@dataclass
class Intent:
    """The names that changed, the nodes that came and went, and the input slots that read something else.

    `renamed` maps a name in the graph before to the name after; `rewired` uses the names after; `copied` maps the names
    in a graph that was added to those that its nodes have now. `changed` names (after) the nodes of which an attr, the
    op, the device or the control inputs are others, and `altered` says which of these, and what they are now; it says
    so of nodes too that were made, and are no copies. `moved` maps a tensor of the graph before whose value has another
    name now, and not only because its node was renamed, to that name. `functions` names what has come into, gone from
    or changed in the function library. `copies` says of which nodes those that were added are copies.
    """

    renamed: dict[str, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rewired: list[Rewired] = field(default_factory=list)
    copied: dict[str, str] = field(default_factory=dict)
    renamed_functions: dict[str, str] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    functions: FunctionChanges = field(default_factory=lambda: FunctionChanges())
    altered: list[Altered] = field(default_factory=list)
    copies: list[Copies] = field(default_factory=list)

    def after(self, name: str) -> str:
        """What the node NAME of the graph before is called now."""
        return self.renamed.get(name, name)

    def counterpart(self, tensor: str) -> str:
        """Where the value of TENSOR (``node`` or ``node:1``) of the graph before is to be found now."""
        moved = self.moved.get(tensor)
        if moved is not None:
            return moved
        node, colon, index = tensor.partition(":")
        return self.after(node) + colon + index


def altered_function(function: FunctionDef) -> Altered:
    """What an edit has made of a FunctionDef: all of it."""
    return Altered(function.signature.name, "function", function.SerializeToString(deterministic=True))


LARGEST_TOLD = 1 << 16
"""Bytes of an attr of a node that was made, up to which `made` repeats it."""


def made(node: Node) -> list[Altered]:
    """All that a node is which an edit has made; of constants of any size only that they are some."""
    out = [
        Altered(node.name, "op", node.op),
        Altered(node.name, "device", node.device),
        Altered(node.name, "inputs", tuple(read.name for read in node.inputs)),
        Altered(node.name, "controls", tuple(control.name for control in node.controls)),
        Altered(node.name, "colocated", tuple(other.name for other in node.colocated)),
        Altered(node.name, "attrs", tuple(sorted(node.attr_keys))),
    ]
    for key in node.attr_keys:
        value = node.attr_bytes(key)
        if value is not None and len(value) <= LARGEST_TOLD and key != "_class":
            out.append(Altered(node.name, f"attr {key}", value))
    return out
