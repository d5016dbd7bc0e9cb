"""What an edit has done, and what it promises: the journal and the claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.graph.node import Node


class Rewired(NamedTuple):
    """An input slot that reads another tensor than before (`slot` counts the data inputs from 0)."""

    node: str
    slot: int
    old: str
    new: str


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
    value: str | bytes | tuple[str, ...] | None


@dataclass
class FunctionChanges:
    """Names of library functions."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


@dataclass
class Journal:
    """The names that changed, the nodes that came and went, and the input slots that read something else.

    `renamed` maps a name in the graph before to the name after; `rewired` uses the names after; `copied` maps the names
    in a graph that was added to those that its nodes have now. `changed` names (after) the nodes of which an attr, the
    op, the device or the control inputs are others, and `altered` says which of these, and what they are now; it says
    so of nodes too that were made, and are no copies. `moved` maps a tensor of the graph before whose value has another
    name now, and not only because its node was renamed, to that name. `functions` names what has come into, gone from
    or changed in the function library.
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


def altered_function(function: Any) -> Altered:
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
class SameOutputs(Claim):
    """Every output equals its counterpart (`Journal.counterpart`).

    Attributes:
        rtol, atol: |a - b| <= atol + rtol * max(|a|, |b|) for floats; 0 and 0: bit for bit.
        except_for: outputs, by their names before, for which that is not claimed, and why.
        also: nodes of the graph before whose outputs are compared as well, those that have a counterpart.
        even_alone: whether it is enough that the edited graph runs, where the original does not.
        measured: whether the time that both graphs take is part of what is asked.
    """

    rtol: float = 0.0
    atol: float = 0.0
    except_for: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    even_alone: bool = False
    measured: bool = False


@dataclass(frozen=True)
class SameGiven(Claim):
    """The edited graph gives what the original gives if some of its tensors have other values.

    Attributes:
        given: for each such tensor of the original, the tensor of the edited graph whose value it is to have.
        outputs: pairs (tensor of the original, tensor of the edited graph) that are equal then, bit for bit.
        copies: nodes of the original and those of the edited graph that play their part: what one is fed, the other
            is fed.
        statement: that as an equation, for people.
        beside: tensors of the edited graph that must be there in the same run.
        constants: values (serialised AttrValues) that constants of the edited graph have.
    """

    given: Mapping[str, str]
    outputs: tuple[tuple[str, str], ...]
    statement: str
    copies: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    constants: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class SameTensors(Claim):
    """Tensors that an edit reads, and does not reach, are what they were: they have the same names, and values."""

    tensors: tuple[str, ...]


@dataclass(frozen=True)
class SamePiece(Claim):
    """A piece of the graph that another has taken the place of gives the same, whatever it is given.

    Attributes:
        inputs: the tensors that the piece read, by the names that they have before and after.
        outputs: pairs (tensor of the piece before, tensor in its place).
        rtol, atol: as in `SameOutputs`.
    """

    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True)
class SamePart(Claim):
    """What was added computes in the edited graph what it computes on its own.

    Attributes:
        part: the graph that was added.
        inputs: for placeholders of it, the tensor of the edited graph that stands in their place.
        outputs: pairs (tensor of the part, tensor of the edited graph) that are equal, bit for bit.
    """

    part: Graph
    inputs: Mapping[str, str]
    outputs: tuple[tuple[str, str], ...]


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


@dataclass(frozen=True)
class Gradients(Claim):
    """Nodes that were added give the gradients that TensorFlow itself makes of the original; its outputs are the same.

    Attributes:
        ys, xs, grad_ys: tensors of the original; see `gdsurgeon.edits.add_gradients.add_gradients`.
        names: the nodes of the results, one for each of XS.
        scope: the name scope of the nodes that were added.
        differentiator: what can be asked for TensorFlow's own gradients, a
            `gdsurgeon.runtime.differentiator.Differentiator`; None: whoever asks has to make one.
        measured: whether the memory and the time that the gradients take are part of what is asked.
        budget: bytes that a run of the gradients is to take at most.
        rtol, atol: by how much the gradients may differ; 0 and 0: not by a bit.
    """

    ys: tuple[str, ...]
    xs: tuple[str, ...]
    grad_ys: tuple[str, ...]
    names: tuple[str, ...]
    scope: str
    differentiator: Any
    measured: bool = False
    budget: int | None = None
    rtol: float = 0.0
    atol: float = 0.0


@dataclass
class EditResult:
    """What an edit returns.

    Attributes:
        journal: what was done.
        claims: what it promises; the proof by execution checks them.
        warnings: what somebody should know, a line each.
        notes: what was decided on the way, a line each (names that were made unique, ...).
        told: what else the summary says, as (label, text).
        facts: what else the report says, by name; JSON.
    """

    journal: Journal
    claims: tuple[Claim, ...] = (Unchanged(),)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
